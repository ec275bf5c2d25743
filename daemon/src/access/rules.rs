//! The rules of `[access]`: the first one that names a caller says what they may. Pure; users and
//! groups are numbers here.

use std::sync::Arc;

use leaf_client::wire::{ErrorCode, WireError};
use wildmatch::WildMatch;

use super::bucket::Rate;
use super::principal::Principal;

/// Whom a rule is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Who {
    /// Anybody at all.
    pub everyone: bool,
    /// These users,
    pub users: Vec<u32>,
    /// and the members of these groups.
    pub groups: Vec<u32>,
}

impl Who {
    fn names(&self, principal: &Principal) -> bool {
        self.everyone || self.users.contains(&principal.uid) || principal.is_in(&self.groups)
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// How messages call it: `rule "billing"` or `rule 2`.
    pub label: String,
    /// Whom it is for.
    pub who: Who,
    /// Whether they may connect at all.
    pub connect: bool,
    /// The tags whose IDs they may have, with `*` and `?`.
    pub tags: Vec<WildMatch>,
    /// Whether they may have snowflake IDs.
    pub snowflake: bool,
    /// Whether they may administer.
    pub administer: bool,
    /// What each of these users may have.
    pub quota: Quota,
}

/// What one user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// IDs per second, of both schemes together; none for no limit.
    pub rate: Option<Rate>,
    /// Connections at once; none for no limit.
    pub connections: Option<u32>,
}

/// All rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// In their order. None at all: whoever can connect may ask for IDs.
    pub rules: Vec<Arc<Rule>>,
    /// The user that leafd runs as. This one and root could do everything without asking leafd.
    pub own_uid: u32,
    /// What a user may have of whom no rule says it.
    pub quota: Quota,
}

/// What may be had of tags, for all users together.
#[derive(Debug, Clone, PartialEq)]
pub struct TagQuota {
    /// The tags, as patterns; each has a limit of its own.
    pub tags: Vec<WildMatch>,
    /// The limit.
    pub rate: Rate,
}

impl TagQuota {
    /// The limit of `tag`: of the first element that fits it.
    #[must_use]
    pub fn of(all: &[Self], tag: &str) -> Option<Rate> {
        let fits = |quota: &&Self| quota.tags.iter().any(|pattern| pattern.matches(tag));
        all.iter().find(fits).map(|quota| quota.rate)
    }
}

/// What a caller may.
#[derive(Debug, Clone)]
pub struct Grant {
    uid: u32,
    by: By,
    quota: Quota,
    /// What is asked at every request is decided once.
    connect: bool,
    snowflake: bool,
}

#[derive(Debug, Clone)]
enum By {
    /// Root, or leafd's own user.
    Owner,
    /// There are no rules.
    NoRules,
    Rule(Arc<Rule>),
    /// There are rules, and none names the caller.
    NoRule,
    /// There are rules about groups, and the kernel does not tell those of the caller.
    GroupsUnknown,
}

impl Access {
    /// What `principal` may.
    #[must_use]
    pub fn grant(&self, principal: &Principal) -> Grant {
        let rule = || self.rules.iter().find(|rule| rule.who.names(principal));
        let by = if principal.uid == 0 || principal.uid == self.own_uid {
            By::Owner
        } else if self.rules.is_empty() {
            By::NoRules
        } else if principal.others.is_none() && self.name_groups() {
            // One that shuts a group out would be passed over.
            By::GroupsUnknown
        } else {
            rule().map_or(By::NoRule, |rule| By::Rule(Arc::clone(rule)))
        };
        let quota = match &by {
            By::Rule(rule) => rule.quota,
            // A rule may still say how much it is.
            By::Owner => rule().map_or(self.quota, |rule| rule.quota),
            By::NoRules | By::NoRule | By::GroupsUnknown => self.quota,
        };
        let (connect, snowflake) = match &by {
            By::Owner | By::NoRules => (true, true),
            By::Rule(rule) => (rule.connect, rule.snowflake),
            By::NoRule | By::GroupsUnknown => (false, false),
        };
        Grant { uid: principal.uid, by, quota, connect, snowflake }
    }

    fn name_groups(&self) -> bool {
        self.rules.iter().any(|rule| !rule.who.groups.is_empty())
    }
}

impl Grant {
    /// Whose it is.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// How much of it.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Whether the caller may be connected.
    ///
    /// # Errors
    /// `Forbidden`, with the user and the rule, as for everything here.
    #[inline]
    pub fn connect(&self) -> Result<(), WireError> {
        if self.connect { Ok(()) } else { Err(self.no_connection()) }
    }

    #[cold]
    fn no_connection(&self) -> WireError {
        let why = match &self.by {
            By::GroupsUnknown => {
                "there are rules about groups, and this kernel does not tell the user's"
            }
            By::Rule(rule) => &format!("{} forbids it", rule.label),
            By::Owner | By::NoRules | By::NoRule => "no rule names this user or its groups",
        };
        self.forbidden("connect", why)
    }

    /// Whether the caller may have IDs of `tag`.
    ///
    /// # Errors
    /// As above.
    pub fn tag(&self, tag: &str) -> Result<(), WireError> {
        match &self.by {
            By::Rule(rule) if !rule.tags.iter().any(|pattern| pattern.matches(tag)) => {
                let what = format!("have IDs of the tag {tag:?}");
                Err(self.forbidden(&what, &format!("{} does not list it", rule.label)))
            }
            _ => Ok(()),
        }
    }

    /// Whether the caller may have snowflake IDs.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn snowflake(&self) -> Result<(), WireError> {
        if self.snowflake { Ok(()) } else { Err(self.no_snowflake()) }
    }

    #[cold]
    fn no_snowflake(&self) -> WireError {
        let why = match &self.by {
            By::Rule(rule) => &format!("{} does not allow them", rule.label),
            _ => "no rule names this user or its groups",
        };
        self.forbidden("have snowflake IDs", why)
    }

    /// Whether the caller may look at and change what is not only theirs.
    ///
    /// # Errors
    /// As above.
    pub fn administer(&self) -> Result<(), WireError> {
        match &self.by {
            By::Owner => Ok(()),
            By::Rule(rule) if rule.administer => Ok(()),
            By::Rule(rule) => {
                Err(self.forbidden("administer", &format!("{} does not allow it", rule.label)))
            }
            By::NoRules | By::NoRule | By::GroupsUnknown => Err(self.forbidden(
                "administer",
                "without a rule that allows it, only root and leafd's own user may",
            )),
        }
    }

    #[cold]
    fn forbidden(&self, what: &str, why: &str) -> WireError {
        let text = format!("uid {} may not {what}: {why} (access.rules)", self.uid);
        WireError::new(ErrorCode::Forbidden, text).with_detail(u64::from(self.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAFD: u32 = 990;

    fn rule(label: &str, users: &[u32], groups: &[u32], tags: &[&str]) -> Rule {
        Rule {
            label: format!("rule {label:?}"),
            who: Who { everyone: false, users: users.to_vec(), groups: groups.to_vec() },
            connect: true,
            tags: tags.iter().map(|tag| WildMatch::new(tag)).collect(),
            snowflake: true,
            administer: false,
            quota: Quota::default(),
        }
    }

    fn access(rules: Vec<Rule>) -> Access {
        let rules = rules.into_iter().map(Arc::new).collect();
        Access { rules, own_uid: LEAFD, quota: Quota::default() }
    }

    fn principal(uid: u32, groups: &[u32]) -> Principal {
        Principal { uid, gid: uid, others: Some(groups.to_vec()) }
    }

    fn told<T: std::fmt::Debug>(outcome: Result<T, WireError>) -> String {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Forbidden);
        error.message
    }

    #[test]
    fn without_rules_everybody_may_have_ids_and_only_root_and_leafd_may_administer() {
        let access = access(vec![]);
        let grant = access.grant(&principal(1000, &[1000]));
        assert!(grant.connect().is_ok() && grant.tag("any").is_ok() && grant.snowflake().is_ok());
        let text = told(grant.administer());
        assert!(text.starts_with("uid 1000 may not administer: ") && text.contains("own user"));
        for uid in [0, LEAFD] {
            assert!(access.grant(&principal(uid, &[5])).administer().is_ok());
        }
    }

    #[test]
    fn the_first_rule_that_names_the_user_or_one_of_the_groups_decides() {
        let mut strict = rule("strict", &[1001], &[], &["orders"]);
        strict.snowflake = false;
        let access = access(vec![strict, rule("apps", &[], &[50], &["*"])]);
        let both = access.grant(&principal(1001, &[50]));
        assert!(both.tag("orders").is_ok());
        assert_eq!(
            told(both.tag("bills")),
            "uid 1001 may not have IDs of the tag \"bills\": rule \"strict\" does not list it \
             (access.rules)"
        );
        assert!(told(both.snowflake()).contains("rule \"strict\""));
        let member = access.grant(&principal(1002, &[1002, 50]));
        assert!(member.tag("bills").is_ok() && member.snowflake().is_ok());
        let stranger = access.grant(&principal(1002, &[1002]));
        assert!(told(stranger.connect()).contains("uid 1002 may not connect: no rule names"));
    }

    #[test]
    fn a_rule_may_shut_out_some_before_one_for_everyone() {
        let mut out = rule("out", &[1003], &[], &["*"]);
        out.connect = false;
        let mut all = rule("all", &[], &[], &["*"]);
        all.who.everyone = true;
        let access = access(vec![out, all]);
        assert!(
            told(access.grant(&principal(1003, &[1])).connect()).contains("rule \"out\" forbids")
        );
        assert!(access.grant(&principal(1004, &[1])).connect().is_ok());
    }

    #[test]
    fn no_rule_shuts_out_root_and_leafds_own_user() {
        let mut none = rule("none", &[0, LEAFD], &[], &[]);
        none.connect = false;
        let access = access(vec![none]);
        for uid in [0, LEAFD] {
            let grant = access.grant(&principal(uid, &[]));
            assert!(grant.connect().is_ok() && grant.tag("x").is_ok());
            assert!(grant.snowflake().is_ok() && grant.administer().is_ok());
        }
    }

    #[test]
    fn a_rule_says_how_much_root_and_leafds_own_user_may_have() {
        let mut own = rule("own", &[0], &[], &["*"]);
        own.quota = Quota { rate: None, connections: Some(9) };
        let quota = Quota { rate: Rate::new(5), connections: None };
        let access = Access { quota, ..access(vec![own.clone()]) };
        assert_eq!(access.grant(&principal(0, &[])).quota(), own.quota);
        assert_eq!(access.grant(&principal(LEAFD, &[])).quota(), quota);
    }

    #[test]
    fn whose_groups_are_unknown_is_not_let_in_by_a_later_rule() {
        let mut out = rule("out", &[], &[13], &["*"]);
        out.connect = false;
        let mut all = rule("all", &[], &[], &["*"]);
        all.who.everyone = true;
        let unknown = Principal { others: None, ..principal(1000, &[]) };
        let grant = access(vec![out, all.clone()]).grant(&unknown);
        assert!(told(grant.connect()).contains("does not tell"));
        assert!(grant.administer().is_err());
        assert!(access(vec![all]).grant(&unknown).connect().is_ok());
    }

    #[test]
    fn who_may_administer_is_said_by_a_rule() {
        let mut admins = rule("admins", &[], &[27], &[]);
        admins.administer = true;
        let access = access(vec![admins, rule("apps", &[], &[50], &["*"])]);
        assert!(access.grant(&principal(1000, &[27])).administer().is_ok());
        assert!(told(access.grant(&principal(1000, &[50])).administer()).contains("rule \"apps\""));
    }

    #[test]
    fn tags_are_told_by_patterns_and_a_quota_by_the_rule() {
        let mut shop = rule("shop", &[7], &[], &["orders", "bill.*", "x?"]);
        shop.quota = Quota { rate: Rate::new(5), connections: Some(2) };
        let access =
            Access { quota: Quota { rate: Rate::new(9), connections: None }, ..access(vec![shop]) };
        let grant = access.grant(&principal(7, &[]));
        for (tag, may) in [
            ("orders", true),
            ("orders2", false),
            ("Orders", false),
            ("bill.", true),
            ("bill.a.b", true),
            ("billa", false),
            ("xy", true),
            ("xyz", false),
            ("", false),
        ] {
            assert_eq!(grant.tag(tag).is_ok(), may, "{tag}");
        }
        let of = |tags: &[&str], rate| TagQuota {
            tags: tags.iter().map(|tag| WildMatch::new(tag)).collect(),
            rate: Rate::new(rate).unwrap(),
        };
        let quotas = [of(&["a*", "b"], 1), of(&["ab", "c"], 2)];
        assert_eq!(TagQuota::of(&quotas, "ab"), Rate::new(1));
        assert_eq!(TagQuota::of(&quotas, "c"), Rate::new(2));
        assert_eq!(TagQuota::of(&quotas, "d"), None);
        assert_eq!(grant.quota().rate, Rate::new(5));
        assert_eq!(access.grant(&principal(8, &[])).quota().rate, Rate::new(9));
    }
}
