//! `[access]` and `[quota]`: who may do what, and how much. [`crate::app`] resolves names to
//! numbers, because that asks the system's user database.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::Config;
use super::problems::{Problem, Problems};

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct AccessSection {
    pub(crate) rules: Vec<AccessRule>,
}

/// One rule of `access.rules`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct AccessRule {
    pub(crate) name: String,
    pub(crate) users: Vec<UserOrGroup>,
    pub(crate) groups: Vec<UserOrGroup>,
    pub(crate) http: bool,
    pub(crate) connect: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) snowflake: bool,
    pub(crate) administer: bool,
    pub(crate) page: bool,
    pub(crate) decode_public: bool,
    pub(crate) ids_per_second: Option<u64>,
    pub(crate) max_connections: Option<u32>,
}

/// A user or a group, as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UserOrGroup {
    Number(u32),
    Name(String),
    /// `"*"`.
    Everyone,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct QuotaSection {
    pub(crate) ids_per_second: u64,
    pub(crate) max_connections: u32,
    pub(crate) tags: Vec<TagQuotaEntry>,
}

/// One element of `quota.tags`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct TagQuotaEntry {
    pub(crate) tags: Vec<String>,
    pub(crate) ids_per_second: u64,
}

impl Default for AccessRule {
    fn default() -> Self {
        Self {
            name: String::new(),
            users: Vec::new(),
            groups: Vec::new(),
            http: false,
            connect: true,
            tags: vec!["*".into()],
            snowflake: true,
            administer: false,
            page: false,
            decode_public: false,
            ids_per_second: None,
            max_connections: None,
        }
    }
}

impl AccessRule {
    /// What messages call the rule with this index: its name, or else its number, from 1 on.
    #[must_use]
    pub(crate) fn label(&self, index: usize) -> String {
        if self.name.is_empty() {
            format!("rule {}", index + 1)
        } else {
            format!("rule {:?}", self.name)
        }
    }
}

impl UserOrGroup {
    /// The name, if the system has to look it up.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Number(_) | Self::Everyone => None,
        }
    }
}

impl<'de> Deserialize<'de> for UserOrGroup {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl Visitor<'_> for NameOrNumber {
            type Value = UserOrGroup;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a number from 0 to 4294967294")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<UserOrGroup, E> {
                let wrong = || E::invalid_value(Unexpected::Str(text), &self);
                match text {
                    "*" => Ok(UserOrGroup::Everyone),
                    digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        digits.parse().ok().and_then(number).ok_or_else(wrong)
                    }
                    name => Ok(UserOrGroup::Name(name.to_owned())),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<UserOrGroup, E> {
                let wrong = || E::invalid_value(Unexpected::Signed(value), &self);
                u64::try_from(value).ok().and_then(number).ok_or_else(wrong)
            }
        }
        from.deserialize_any(NameOrNumber)
    }
}

/// The highest number means "no change" in system calls.
fn number(number: u64) -> Option<UserOrGroup> {
    u32::try_from(number).ok().filter(|id| *id != u32::MAX).map(UserOrGroup::Number)
}

/// Highest rate, far above what leafd can issue. It bounds the arithmetic.
const MOST_PER_SECOND: u64 = 1_000_000_000_000;

/// Longest name of a rule and longest pattern, in characters. A tag has up to 128.
const LONGEST: usize = 200;

impl Config {
    pub(super) fn check_access(&self, problems: &mut Problems) {
        for (index, rule) in self.access.rules.iter().enumerate() {
            let mut add = |text: &str| {
                let text = format!("{} {text}", rule.label(index));
                problems.push(Problem::new("access.rules", text).in_item(index));
            };
            let has_token = self.http.tokens.iter().any(|token| token.rule == rule.name);
            if rule.users.is_empty() && rule.groups.is_empty() && !rule.http && !has_token {
                add("names nobody; give it users or groups, or users = [\"*\"] for everybody, or \
                     http = true for callers by TCP");
            }
            if rule.groups.contains(&UserOrGroup::Everyone) {
                add("has \"*\" among its groups; for everybody write users = [\"*\"]");
            }
            if !rule.connect && rule.administer {
                add("has administer = true but connect = false; remove one of the two");
            }
            if !rule.connect && rule.page {
                add("has page = true but connect = false; remove one of the two");
            }
            if !rule.connect && rule.decode_public {
                add("has decode-public = true but connect = false; remove one of the two");
            }
            if rule.name.chars().any(char::is_control) || rule.name.chars().count() > LONGEST {
                add("has a name that is too long or contains a control character");
            }
            if let Some(bad) = rule.tags.iter().find(|pattern| is_no_pattern(pattern)) {
                add(&format!("has the pattern {bad:?}, which no tag can match"));
            }
            if let Some(rate) = rule.ids_per_second.filter(|rate| *rate > MOST_PER_SECOND) {
                add(&format!("has ids-per-second {rate}, above {MOST_PER_SECOND}"));
            }
        }
        problems.range("quota.ids-per-second", self.quota.ids_per_second, 0, MOST_PER_SECOND);
        problems.range(
            "quota.max-connections",
            u64::from(self.quota.max_connections),
            0,
            1_000_000,
        );
        for (index, quota) in self.quota.tags.iter().enumerate() {
            let mut add = |text: String| {
                problems.push(Problem::new("quota.tags", text).in_item(index));
            };
            if let Some(bad) = quota.tags.iter().find(|pattern| is_no_pattern(pattern)) {
                add(format!("no tag can match the pattern {bad:?}"));
            }
            if quota.tags.is_empty() {
                add("an element without tags limits nothing".into());
            }
            let rate = quota.ids_per_second;
            if !(1..=MOST_PER_SECOND).contains(&rate) {
                add(format!("ids-per-second {rate} is not between 1 and {MOST_PER_SECOND}"));
            }
        }
    }
}

pub(super) fn is_no_pattern(pattern: &str) -> bool {
    pattern.is_empty() || pattern.chars().count() > LONGEST || pattern.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(toml: &str) -> Vec<String> {
        let config: Config = toml::from_str(toml).unwrap();
        config.check().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn users_and_groups_are_names_numbers_or_everyone() {
        let rule = "users = [\"app\", 7, \"08\", \"*\"]\ngroups = [\"apps\"]\n";
        let config: Config = toml::from_str(&format!("[[access.rules]]\n{rule}")).unwrap();
        let rule = &config.access.rules[0];
        let name = |text: &str| UserOrGroup::Name(text.into());
        let (seven, eight) = (UserOrGroup::Number(7), UserOrGroup::Number(8));
        assert_eq!(rule.users, [name("app"), seven, eight, UserOrGroup::Everyone]);
        assert_eq!(rule.groups, [name("apps")]);
        assert!(rule.connect && rule.snowflake && !rule.administer);
        assert_eq!(rule.tags, ["*"]);
        for bad in ["-1", "4294967295", "true", "\"4294967296\""] {
            let error = toml::from_str::<Config>(&format!("access.rules = [{{users = [{bad}]}}]"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(bad.trim_matches('"')), "{error}");
        }
    }

    #[test]
    fn the_error_names_a_rule_that_makes_no_sense() {
        for (rule, told) in [
            ("name = \"apps\"", "rule \"apps\" names nobody"),
            ("groups = [\"*\"]", "rule 1 has \"*\" among its groups"),
            ("users = [1]\nconnect = false\nadminister = true", "but connect = false"),
            ("users = [1]\nconnect = false\npage = true", "but connect = false"),
            ("users = [1]\nconnect = false\ndecode-public = true", "but connect = false"),
            ("users = [1]\ntags = [\"\"]", "the pattern \"\""),
            ("users = [1]\nids-per-second = 1000000000001", "1000000000001"),
        ] {
            let found = problems(&format!("[[access.rules]]\n{rule}"));
            assert!(found.len() == 1 && found[0].contains(told), "{found:?}");
        }
        for (quota, told) in [
            ("tags = [{ tags = [], ids-per-second = 1 }]", "without tags"),
            ("tags = [{ tags = [\"x\"], ids-per-second = 0 }]", "0 is not between 1 and"),
            ("tags = [{ tags = [\"\"], ids-per-second = 1 }]", "the pattern \"\""),
            ("max-connections = 1000001", "1000001 is not between"),
        ] {
            let found = problems(&format!("[quota]\n{quota}"));
            assert!(found.len() == 1 && found[0].contains(told), "{found:?}");
        }
    }
}
