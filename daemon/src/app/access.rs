//! From `[access]` and `[quota]` to rules about numbers: asks the system's user database for the
//! names, at the start and at a reload, so that no request ever waits for it.

use std::sync::Arc;

use nix::unistd::{Group, Uid, User};
use wildmatch::WildMatch;

use super::failure::Failure;
use crate::access::bucket::Rate;
use crate::access::rules::{Access, Quota, Rule, TagQuota, Who};
use crate::config::{AccessRule, Config, Principal};

/// The rules of `config`.
pub(super) fn access(config: &Config) -> Result<Access, Failure> {
    let quota = Quota {
        rate: Rate::new(config.quota.ids_per_second),
        connections: Some(config.quota.max_connections).filter(|most| *most > 0),
    };
    let rules = config.access.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| Ok(Arc::new(of(rule, rule.label(index), quota)?)));
    let rules = rules.collect::<Result<_, Failure>>()?;
    Ok(Access { rules, own_uid: Uid::effective().as_raw(), quota })
}

/// The limits of tags.
pub(super) fn tag_quotas(config: &Config) -> Vec<TagQuota> {
    let quotas = config.quota.tags.iter().filter_map(|quota| {
        Some(TagQuota { tags: patterns(&quota.tags), rate: Rate::new(quota.ids_per_second)? })
    });
    quotas.collect()
}

fn of(rule: &AccessRule, label: String, default: Quota) -> Result<Rule, Failure> {
    let mut who = Who::default();
    for user in &rule.users {
        match user {
            Principal::Everyone => who.everyone = true,
            Principal::Number(uid) => who.users.push(*uid),
            Principal::Name(name) => who.users.push(number("user", name, &label, |name| {
                User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()))
            })?),
        }
    }
    for group in &rule.groups {
        match group {
            Principal::Number(gid) => who.groups.push(*gid),
            Principal::Name(name) => who.groups.push(number("group", name, &label, |name| {
                Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()))
            })?),
            // Refused by the check of the configuration.
            Principal::Everyone => {}
        }
    }
    let quota = Quota {
        // 0 in a rule lifts the limit that others have.
        rate: rule.ids_per_second.map_or(default.rate, Rate::new),
        connections: match rule.max_connections {
            None => default.connections,
            Some(most) => Some(most).filter(|most| *most > 0),
        },
    };
    Ok(Rule {
        label,
        who,
        connect: rule.connect,
        tags: patterns(&rule.tags),
        snowflake: rule.snowflake,
        administer: rule.administer,
        quota,
    })
}

fn patterns(tags: &[String]) -> Vec<WildMatch> {
    tags.iter().map(|tag| WildMatch::new(tag)).collect()
}

fn number(
    kind: &str,
    name: &str,
    label: &str,
    look_up: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, Failure> {
    match look_up(name) {
        Ok(Some(id)) => Ok(id),
        Ok(None) => Err(Failure::config(format!(
            "access.rules: {label} names the {kind} {name:?}, and there is none; correct it, make \
             the {kind}, or write its number"
        ))),
        Err(error) => Err(Failure::not_now(format!(
            "access.rules: {label} names the {kind} {name:?}, which cannot be looked up now: \
             {error}; writing its number avoids that"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::Principal;

    fn made(toml: &str) -> Result<Access, String> {
        let config: Config = toml::from_str(toml).unwrap();
        access(&config).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn names_become_numbers_and_unknown_ones_are_told() {
        let access =
            made("[[access.rules]]\nusers = [\"root\", 77, \"*\"]\ngroups = [\"root\", 78]")
                .unwrap();
        let who = Who { everyone: true, users: vec![0, 77], groups: vec![0, 78] };
        assert_eq!(access.rules[0].who, who);
        let error = made("[[access.rules]]\nname = \"x\"\nusers = [\"nobody-here\"]").unwrap_err();
        assert!(error.contains("rule \\\"x\\\" names the user") && error.contains("nobody-here"));
        let error = made("[[access.rules]]\ngroups = [\"no-group\"]").unwrap_err();
        assert!(error.contains("rule 1 names the group"), "{error}");
    }

    #[test]
    fn a_rule_has_the_common_quota_unless_it_has_its_own_and_0_lifts_it() {
        let access = made(
            "[quota]\nids-per-second = 10\nmax-connections = 3\n\
             [[access.rules]]\nusers = [1]\n\
             [[access.rules]]\nusers = [2]\nids-per-second = 20\nmax-connections = 5\n\
             [[access.rules]]\nusers = [3]\nids-per-second = 0\nmax-connections = 0\n",
        )
        .unwrap();
        let of = |uid| access.grant(&Principal { uid, gid: uid, others: Some(vec![]) }).quota();
        assert_eq!(of(1), Quota { rate: Rate::new(10), connections: Some(3) });
        assert_eq!(of(2), Quota { rate: Rate::new(20), connections: Some(5) });
        assert_eq!(of(3), Quota { rate: None, connections: None });
        assert_eq!(of(0), access.quota);
    }
}
