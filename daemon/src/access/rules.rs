//! The rules of `[access]`: the first rule that names a caller decides what it may do. Pure; users
//! and groups are numbers here.

use std::sync::Arc;

use leaf_client::wire::{ErrorCode, WireError};
use wildmatch::WildMatch;

use super::bucket::RateLimit;
use super::principal::{AccountKey, LocalUser, Principal};

/// What a refusal says that somebody may not do.
const DECODE_PUBLIC: &str = "decode public IDs";

/// The callers that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subjects {
    pub(crate) everyone: bool,
    pub(crate) users: Vec<u32>,
    /// Groups whose members the rule applies to.
    pub(crate) groups: Vec<u32>,
    /// Callers by TCP without a token.
    pub(crate) http: bool,
    /// The rule's name, which tokens refer to; empty if it has none.
    pub(crate) name: String,
}

impl Subjects {
    fn names(&self, principal: &Principal) -> bool {
        match principal {
            Principal::Local(user) => {
                self.everyone || self.users.contains(&user.uid) || user.is_in(&self.groups)
            }
            Principal::Http(_) => self.http,
            Principal::Token(rule, _) => !self.name.is_empty() && *self.name == **rule,
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    /// What messages call it: `rule "billing"` or `rule 2`.
    pub(crate) label: String,
    pub(crate) subjects: Subjects,
    pub(crate) connect: bool,
    /// Patterns of the tags that they may use, with `*` and `?`.
    pub(crate) tags: Vec<WildMatch>,
    pub(crate) snowflake: bool,
    pub(crate) administer: bool,
    /// Whether they may see the page, with the names of all tags and the workers of the fleet.
    pub(crate) page: bool,
    /// Whether they may decode public IDs of these tags.
    pub(crate) decode_public: bool,
    /// The quota of each of these users.
    pub(crate) quota: UserQuota,
}

/// The limits for one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UserQuota {
    /// Segment and snowflake IDs together; `None`: no limit.
    pub(crate) rate: Option<RateLimit>,
    /// Open connections; `None`: no limit.
    pub(crate) connections: Option<u32>,
}

/// All rules.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AccessRules {
    /// In their order. Without any, every caller may get IDs.
    pub(crate) rules: Vec<Arc<Rule>>,
    /// The user that leafd runs as. It and root may do everything: they could even without leafd.
    pub(crate) own_uid: u32,
    /// Default quota for users that no rule names.
    pub(crate) quota: UserQuota,
}

/// A limit for tags, over all users together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TagQuota {
    /// Patterns; each tag that matches has a limit of its own.
    pub(crate) tags: Vec<WildMatch>,
    pub(crate) rate: RateLimit,
}

impl TagQuota {
    /// The limit of `tag`: that of the first element that matches.
    #[must_use]
    pub(crate) fn of(all: &[Self], tag: &str) -> Option<RateLimit> {
        let matches = |quota: &&Self| quota.tags.iter().any(|pattern| pattern.matches(tag));
        all.iter().find(matches).map(|quota| quota.rate)
    }
}

/// What a caller may do.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    account: AccountKey,
    basis: Basis,
    quota: UserQuota,
    /// Every request checks these two, so they are decided once.
    connect: bool,
    snowflake: bool,
}

/// Why a caller has its grant.
#[derive(Debug, Clone)]
enum Basis {
    /// It is root, or leafd's own user.
    Owner,
    /// There are no rules.
    NoRules,
    Rule(Arc<Rule>),
    /// There are rules, but none names the caller.
    NoRule,
    /// There are rules about groups, but the kernel does not tell the caller's.
    GroupsUnknown,
}

impl Basis {
    /// Why there is no rule for `account`.
    const fn no_rule(account: AccountKey) -> &'static str {
        match account {
            AccountKey::User(_) => "no rule names this user or its groups",
            AccountKey::Http => "no rule has http = true",
            AccountKey::Token(_) => "the rule of this token is gone",
        }
    }
}

impl AccessRules {
    /// What `principal` may do.
    #[must_use]
    pub(crate) fn grant(&self, principal: &Principal) -> Grant {
        let rule = || self.rules.iter().find(|rule| rule.subjects.names(principal));
        let basis = match principal {
            Principal::Local(user) if user.uid == 0 || user.uid == self.own_uid => Basis::Owner,
            Principal::Local(_) | Principal::Http(_) if self.rules.is_empty() => Basis::NoRules,
            Principal::Local(LocalUser { others: None, .. }) if self.name_groups() => {
                // Otherwise a rule that shuts out a group of the caller would not apply.
                Basis::GroupsUnknown
            }
            _ => rule().map_or(Basis::NoRule, |rule| Basis::Rule(Arc::clone(rule))),
        };
        let quota = match &basis {
            Basis::Rule(rule) => rule.quota,
            // A rule may still limit how much.
            Basis::Owner => rule().map_or(self.quota, |rule| rule.quota),
            Basis::NoRules | Basis::NoRule | Basis::GroupsUnknown => self.quota,
        };
        let (connect, snowflake) = match &basis {
            Basis::Owner | Basis::NoRules => (true, true),
            Basis::Rule(rule) => (rule.connect, rule.snowflake),
            Basis::NoRule | Basis::GroupsUnknown => (false, false),
        };
        Grant { account: principal.account(), basis, quota, connect, snowflake }
    }

    fn name_groups(&self) -> bool {
        self.rules.iter().any(|rule| !rule.subjects.groups.is_empty())
    }
}

impl Grant {
    #[must_use]
    pub(crate) const fn account(&self) -> AccountKey {
        self.account
    }

    #[must_use]
    pub(crate) const fn quota(&self) -> UserQuota {
        self.quota
    }

    /// Checks whether the caller may connect.
    ///
    /// # Errors
    /// `Forbidden`, with the user and the rule, here and below.
    #[inline]
    pub(crate) fn connect(&self) -> Result<(), WireError> {
        if self.connect { Ok(()) } else { Err(self.no_connection()) }
    }

    #[cold]
    fn no_connection(&self) -> WireError {
        let why = match &self.basis {
            Basis::GroupsUnknown => {
                "there are rules about groups, but this kernel does not tell the user's groups"
            }
            Basis::Rule(rule) => &format!("{} forbids it", rule.label),
            Basis::Owner | Basis::NoRules | Basis::NoRule => Basis::no_rule(self.account),
        };
        self.forbidden("connect", why)
    }

    /// Checks whether the caller may get IDs of `tag`.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    pub(crate) fn tag(&self, tag: &str) -> Result<(), WireError> {
        match &self.basis {
            Basis::Rule(rule) if !rule.tags.iter().any(|pattern| pattern.matches(tag)) => {
                let what = format!("have IDs of the tag {tag:?}");
                Err(self.forbidden(&what, &format!("{} does not list it", rule.label)))
            }
            _ => Ok(()),
        }
    }

    /// Checks whether the caller may get snowflake IDs.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    #[inline]
    pub(crate) fn snowflake(&self) -> Result<(), WireError> {
        if self.snowflake { Ok(()) } else { Err(self.no_snowflake()) }
    }

    #[cold]
    fn no_snowflake(&self) -> WireError {
        let why = match &self.basis {
            Basis::Rule(rule) => &format!("{} does not allow them", rule.label),
            _ => Basis::no_rule(self.account),
        };
        self.forbidden("have snowflake IDs", why)
    }

    /// Checks whether the caller may list and change tags and worker IDs.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    pub(crate) fn administer(&self) -> Result<(), WireError> {
        match &self.basis {
            Basis::Owner => Ok(()),
            Basis::Rule(rule) if rule.administer => Ok(()),
            Basis::Rule(rule) => {
                Err(self.forbidden("administer", &format!("{} does not allow it", rule.label)))
            }
            Basis::NoRules | Basis::NoRule | Basis::GroupsUnknown => Err(self.forbidden(
                "administer",
                "without a rule that allows it, only root and leafd's own user may",
            )),
        }
    }

    /// Checks whether the caller may see the page. Whoever may administer sees it all anyway.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    pub(crate) fn page(&self) -> Result<(), WireError> {
        match &self.basis {
            Basis::Owner | Basis::NoRules => Ok(()),
            Basis::Rule(rule) if rule.page || rule.administer => Ok(()),
            Basis::Rule(rule) => {
                Err(self.forbidden("see the page", &format!("{} does not allow it", rule.label)))
            }
            Basis::NoRule | Basis::GroupsUnknown => {
                Err(self.forbidden("see the page", Basis::no_rule(self.account)))
            }
        }
    }

    /// Checks whether the caller may decode public IDs of `tag`, which is empty for snowflake IDs.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    pub(crate) fn decode_public(&self, tag: &str) -> Result<(), WireError> {
        match &self.basis {
            Basis::Owner => Ok(()),
            Basis::Rule(rule) if rule.decode_public => self.encode_public(tag),
            Basis::Rule(rule) => {
                Err(self.forbidden(DECODE_PUBLIC, &format!("{} does not allow it", rule.label)))
            }
            Basis::NoRules | Basis::NoRule | Basis::GroupsUnknown => Err(self.forbidden(
                DECODE_PUBLIC,
                "without a rule that allows it, only root and leafd's own user may",
            )),
        }
    }

    /// Checks whether the caller may encode IDs of `tag`: it needs the same rule as for the numbers.
    ///
    /// # Errors
    /// As [`Grant::connect`].
    pub(crate) fn encode_public(&self, tag: &str) -> Result<(), WireError> {
        if tag.is_empty() { self.snowflake() } else { self.tag(tag) }
    }

    #[cold]
    fn forbidden(&self, what: &str, why: &str) -> WireError {
        let text = format!("{} may not {what}: {why} (access.rules)", self.account);
        let uid = self.account.uid().unwrap_or_default();
        WireError::new(ErrorCode::Forbidden, text).with_detail(u64::from(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::HttpOrigin;

    const LEAFD: u32 = 990;

    fn rule(label: &str, users: &[u32], groups: &[u32], tags: &[&str]) -> Rule {
        Rule {
            label: format!("rule {label:?}"),
            subjects: Subjects {
                users: users.to_vec(),
                groups: groups.to_vec(),
                ..Subjects::default()
            },
            connect: true,
            tags: tags.iter().map(|tag| WildMatch::new(tag)).collect(),
            snowflake: true,
            administer: false,
            page: false,
            decode_public: false,
            quota: UserQuota::default(),
        }
    }

    fn access(rules: Vec<Rule>) -> AccessRules {
        let rules = rules.into_iter().map(Arc::new).collect();
        AccessRules { rules, own_uid: LEAFD, quota: UserQuota::default() }
    }

    /// Whoever connects by TCP.
    const HTTP: Principal = Principal::Http(HttpOrigin::Unknown);

    fn token(rule: &str) -> Principal {
        Principal::Token(rule.into(), HttpOrigin::Unknown)
    }

    fn principal(uid: u32, groups: &[u32]) -> Principal {
        let others = Some(groups.to_vec());
        Principal::Local(LocalUser { uid, gid: uid, others, transport: "unix" })
    }

    fn refusal<T: std::fmt::Debug>(outcome: Result<T, WireError>) -> String {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Forbidden);
        error.message
    }

    #[test]
    fn without_rules_everybody_may_get_ids_and_only_root_and_leafd_may_administer() {
        let access = access(vec![]);
        let grant = access.grant(&principal(1000, &[1000]));
        assert!(grant.connect().is_ok() && grant.tag("any").is_ok() && grant.snowflake().is_ok());
        let text = refusal(grant.administer());
        assert!(text.starts_with("uid 1000 may not administer: ") && text.contains("own user"));
        for uid in [0, LEAFD] {
            assert!(access.grant(&principal(uid, &[5])).administer().is_ok());
        }
    }

    #[test]
    fn public_ids_are_decoded_by_a_rule_of_their_own_and_for_its_tags() {
        let open = access(vec![]);
        let (root, other) = (open.grant(&principal(0, &[])), open.grant(&principal(1000, &[])));
        assert!(root.decode_public("orders").is_ok() && root.decode_public("").is_ok());
        assert!(other.encode_public("orders").is_ok() && other.encode_public("").is_ok());
        let text = refusal(other.decode_public("orders"));
        assert!(text.starts_with("uid 1000 may not decode public IDs") && text.contains("root"));
        let mut desk = rule("desk", &[1001], &[], &["orders"]);
        (desk.decode_public, desk.snowflake) = (true, false);
        let mut boss = rule("boss", &[1002], &[], &["*"]);
        boss.administer = true;
        let access = access(vec![desk, boss]);
        let desk = access.grant(&principal(1001, &[]));
        assert!(desk.decode_public("orders").is_ok());
        assert!(refusal(desk.decode_public("bills")).contains("does not list it"));
        assert!(refusal(desk.encode_public("bills")).contains("does not list it"));
        assert!(refusal(desk.decode_public("")).contains("snowflake"));
        let boss = access.grant(&principal(1002, &[]));
        assert!(refusal(boss.decode_public("orders")).contains("rule \"boss\" does not allow it"));
    }

    #[test]
    fn the_first_rule_that_names_the_user_or_one_of_the_groups_decides() {
        let mut strict = rule("strict", &[1001], &[], &["orders"]);
        strict.snowflake = false;
        let access = access(vec![strict, rule("apps", &[], &[50], &["*"])]);
        let both = access.grant(&principal(1001, &[50]));
        assert!(both.tag("orders").is_ok());
        assert_eq!(
            refusal(both.tag("bills")),
            "uid 1001 may not have IDs of the tag \"bills\": rule \"strict\" does not list it \
             (access.rules)"
        );
        assert!(refusal(both.snowflake()).contains("rule \"strict\""));
        let member = access.grant(&principal(1002, &[1002, 50]));
        assert!(member.tag("bills").is_ok() && member.snowflake().is_ok());
        let stranger = access.grant(&principal(1002, &[1002]));
        assert!(refusal(stranger.connect()).contains("uid 1002 may not connect: no rule names"));
    }

    #[test]
    fn a_rule_may_shut_out_some_before_one_for_everyone() {
        let mut out = rule("out", &[1003], &[], &["*"]);
        out.connect = false;
        let mut all = rule("all", &[], &[], &["*"]);
        all.subjects.everyone = true;
        let access = access(vec![out, all]);
        assert!(
            refusal(access.grant(&principal(1003, &[1])).connect())
                .contains("rule \"out\" forbids")
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
        own.quota = UserQuota { rate: None, connections: Some(9) };
        let quota = UserQuota { rate: RateLimit::new(5), connections: None };
        let access = AccessRules { quota, ..access(vec![own.clone()]) };
        assert_eq!(access.grant(&principal(0, &[])).quota(), own.quota);
        assert_eq!(access.grant(&principal(LEAFD, &[])).quota(), quota);
    }

    #[test]
    fn a_later_rule_does_not_let_in_a_caller_whose_groups_are_unknown() {
        let mut out = rule("out", &[], &[13], &["*"]);
        out.connect = false;
        let mut all = rule("all", &[], &[], &["*"]);
        all.subjects.everyone = true;
        let user = LocalUser { uid: 1000, gid: 1000, others: None, transport: "unix" };
        let unknown = Principal::Local(user);
        let grant = access(vec![out, all.clone()]).grant(&unknown);
        assert!(refusal(grant.connect()).contains("does not tell"));
        assert!(grant.administer().is_err());
        assert!(access(vec![all]).grant(&unknown).connect().is_ok());
    }

    #[test]
    fn without_rules_a_caller_by_http_gets_ids_and_may_not_administer() {
        let grant = access(vec![]).grant(&HTTP);
        assert!(grant.connect().is_ok() && grant.tag("any").is_ok() && grant.snowflake().is_ok());
        assert!(refusal(grant.administer()).starts_with("a caller by HTTP may not administer"));
        // A token is worth nothing without its rule.
        assert!(access(vec![]).grant(&token("billing")).connect().is_err());
    }

    #[test]
    fn with_rules_only_one_with_http_grants_a_caller_by_http_anything() {
        let mut all = rule("all", &[], &[], &["*"]);
        all.subjects.everyone = true;
        let mut web = rule("web", &[], &[], &["orders"]);
        web.subjects.http = true;
        let alone = access(vec![all.clone()]);
        assert!(refusal(alone.grant(&HTTP).connect()).contains("http = true"));
        let both = access(vec![all, web]);
        let grant = both.grant(&HTTP);
        assert!(grant.connect().is_ok() && grant.tag("orders").is_ok());
        assert!(refusal(grant.tag("bills")).contains("rule \"web\" does not list it"));
        assert!(both.grant(&principal(1000, &[])).tag("bills").is_ok());
    }

    #[test]
    fn a_token_has_what_its_rule_grants_whether_or_not_the_rule_has_http() {
        let mut billing = rule("billing", &[], &[], &["bills"]);
        billing.subjects.name = "billing".into();
        billing.administer = true;
        let access = access(vec![rule("other", &[7], &[], &["*"]), billing]);
        let grant = access.grant(&token("billing"));
        assert!(grant.tag("bills").is_ok() && grant.administer().is_ok());
        assert!(refusal(grant.tag("orders")).contains("does not list it"));
        assert!(access.grant(&HTTP).connect().is_err());
        let gone = access.grant(&token(""));
        assert!(refusal(gone.connect()).contains("the rule of this token is gone"));
    }

    #[test]
    fn without_rules_everybody_sees_the_page_and_with_rules_whoever_a_rule_lets() {
        let grants = |access: AccessRules| access.grant(&HTTP).page();
        assert_eq!(grants(access(vec![])), Ok(()));
        assert!(
            refusal(grants(access(vec![rule("apps", &[1], &[], &["*"])]))).contains("http = true")
        );
        for (page, administer) in [(false, false), (true, false), (false, true)] {
            let mut web = rule("web", &[], &[], &["*"]);
            web.subjects.http = true;
            (web.page, web.administer) = (page, administer);
            assert_eq!(grants(access(vec![web])).is_ok(), page || administer);
        }
    }

    #[test]
    fn a_rule_says_who_may_administer() {
        let mut admins = rule("admins", &[], &[27], &[]);
        admins.administer = true;
        let access = access(vec![admins, rule("apps", &[], &[50], &["*"])]);
        assert!(access.grant(&principal(1000, &[27])).administer().is_ok());
        assert!(
            refusal(access.grant(&principal(1000, &[50])).administer()).contains("rule \"apps\"")
        );
    }

    #[test]
    fn a_rule_allows_tags_by_patterns_and_sets_the_quota() {
        let mut shop = rule("shop", &[7], &[], &["orders", "bill.*", "x?"]);
        shop.quota = UserQuota { rate: RateLimit::new(5), connections: Some(2) };
        let access = AccessRules {
            quota: UserQuota { rate: RateLimit::new(9), connections: None },
            ..access(vec![shop])
        };
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
            rate: RateLimit::new(rate).unwrap(),
        };
        let quotas = [of(&["a*", "b"], 1), of(&["ab", "c"], 2)];
        assert_eq!(TagQuota::of(&quotas, "ab"), RateLimit::new(1));
        assert_eq!(TagQuota::of(&quotas, "c"), RateLimit::new(2));
        assert_eq!(TagQuota::of(&quotas, "d"), None);
        assert_eq!(grant.quota().rate, RateLimit::new(5));
        assert_eq!(access.grant(&principal(8, &[])).quota().rate, RateLimit::new(9));
    }
}
