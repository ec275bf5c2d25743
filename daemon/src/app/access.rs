//! Turns `[access]` and `[quota]` into rules with numbers. It looks names up in the system's user
//! database when leafd starts or reloads, so that no request ever waits for that.

use std::sync::Arc;

use nix::unistd::{Group, Uid, User};
use wildmatch::WildMatch;

use super::failure::Failure;
use crate::access::bucket::RateLimit;
use crate::access::rules::{AccessRules, Rule, Subjects, TagQuota, UserQuota};
use crate::config::{AccessRule, Config, Problem, UserOrGroup};

/// The rules of `config`.
pub(super) fn access(config: &Config) -> Result<AccessRules, Failure> {
    let quota = UserQuota {
        rate: RateLimit::new(config.quota.ids_per_second),
        connections: Some(config.quota.max_connections).filter(|most| *most > 0),
    };
    let rules = config.access.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| Ok(Arc::new(of(rule, rule.label(index), quota)?)));
    let rules = rules.collect::<Result<_, Failure>>()?;
    Ok(AccessRules { rules, own_uid: Uid::effective().as_raw(), quota })
}

/// The tag limits of `config`.
pub(super) fn tag_quotas(config: &Config) -> Vec<TagQuota> {
    let quotas = config.quota.tags.iter().filter_map(|quota| {
        Some(TagQuota { tags: patterns(&quota.tags), rate: RateLimit::new(quota.ids_per_second)? })
    });
    quotas.collect()
}

/// A problem for each user and each group of a rule that this host does not know.
pub(super) fn unknown_names(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, rule) in config.access.rules.iter().enumerate() {
        let label = rule.label(index);
        let users = rule.users.iter().filter_map(|user| {
            let name = user.name().filter(|name| matches!(User::from_name(name), Ok(None)))?;
            Some(does_not_exist("user", name, &label))
        });
        let groups = rule.groups.iter().filter_map(|group| {
            let name = group.name().filter(|name| matches!(Group::from_name(name), Ok(None)))?;
            Some(does_not_exist("group", name, &label))
        });
        let texts = users.chain(groups);
        problems.extend(texts.map(|text| Problem::new("access.rules", text).in_item(index)));
    }
    problems
}

fn does_not_exist(kind: &str, name: &str, label: &str) -> String {
    format!(
        "{label} names the {kind} {name:?}, which does not exist; correct it, create the {kind}, \
         or write its number"
    )
}

fn of(rule: &AccessRule, label: String, default: UserQuota) -> Result<Rule, Failure> {
    let mut subjects = Subjects { http: rule.http, name: rule.name.clone(), ..Subjects::default() };
    for user in &rule.users {
        match user {
            UserOrGroup::Everyone => subjects.everyone = true,
            UserOrGroup::Number(uid) => subjects.users.push(*uid),
            UserOrGroup::Name(name) => subjects.users.push(number("user", name, &label, |name| {
                User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()))
            })?),
        }
    }
    for group in &rule.groups {
        match group {
            UserOrGroup::Number(gid) => subjects.groups.push(*gid),
            UserOrGroup::Name(name) => {
                subjects.groups.push(number("group", name, &label, |name| {
                    Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()))
                })?)
            }
            // Config::check refuses this.
            UserOrGroup::Everyone => {}
        }
    }
    let quota = UserQuota {
        // 0 in a rule means no limit, whatever the default.
        rate: rule.ids_per_second.map_or(default.rate, RateLimit::new),
        connections: match rule.max_connections {
            None => default.connections,
            Some(most) => Some(most).filter(|most| *most > 0),
        },
    };
    Ok(Rule {
        label,
        subjects,
        connect: rule.connect,
        tags: patterns(&rule.tags),
        snowflake: rule.snowflake,
        administer: rule.administer,
        page: rule.page,
        decode_public: rule.decode_public,
        quota,
    })
}

pub(super) fn patterns(tags: &[String]) -> Vec<WildMatch> {
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
        Ok(None) => {
            Err(Failure::config(format!("access.rules: {}", does_not_exist(kind, name, label))))
        }
        Err(error) => Err(Failure::not_now(format!(
            "access.rules: cannot look up the {kind} {name:?} of {label} now: {error}; writing its \
             number avoids that"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::{LocalUser, Principal};

    fn made(toml: &str) -> Result<AccessRules, String> {
        let config: Config = toml::from_str(toml).unwrap();
        access(&config).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn names_become_numbers_and_an_error_quotes_unknown_names() {
        let access =
            made("[[access.rules]]\nusers = [\"root\", 77, \"*\"]\ngroups = [\"root\", 78]")
                .unwrap();
        let subjects = Subjects {
            everyone: true,
            users: vec![0, 77],
            groups: vec![0, 78],
            ..Subjects::default()
        };
        assert_eq!(access.rules[0].subjects, subjects);
        let error = made("[[access.rules]]\nname = \"x\"\nusers = [\"nobody-here\"]").unwrap_err();
        assert!(error.contains("rule \\\"x\\\" names the user") && error.contains("nobody-here"));
        let error = made("[[access.rules]]\ngroups = [\"no-group\"]").unwrap_err();
        assert!(error.contains("rule 1 names the group"), "{error}");
    }

    #[test]
    fn a_rule_has_the_default_quota_unless_it_sets_its_own_and_0_means_none() {
        let access = made(
            "[quota]\nids-per-second = 10\nmax-connections = 3\n\
             [[access.rules]]\nusers = [1]\n\
             [[access.rules]]\nusers = [2]\nids-per-second = 20\nmax-connections = 5\n\
             [[access.rules]]\nusers = [3]\nids-per-second = 0\nmax-connections = 0\n",
        )
        .unwrap();
        let user = |uid| {
            let others = Some(vec![]);
            Principal::Local(LocalUser { uid, gid: uid, others, transport: "unix" })
        };
        let of = |uid| access.grant(&user(uid)).quota();
        assert_eq!(of(1), UserQuota { rate: RateLimit::new(10), connections: Some(3) });
        assert_eq!(of(2), UserQuota { rate: RateLimit::new(20), connections: Some(5) });
        assert_eq!(of(3), UserQuota { rate: None, connections: None });
        assert_eq!(of(0), access.quota);
    }
}
