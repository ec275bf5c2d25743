//! How the counters of tags and leafd's own keys are called. Plain text.

use crate::ids::BizTag;

/// Where the tag stands in a pattern.
const TAG: &str = "{tag}";

/// The longest pattern, and the longest prefix of leafd's own keys, in characters.
const MAX_CHARS: usize = 200;

/// The keys of the counters, and of what leafd keeps beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPattern {
    before: String,
    after: String,
    own: String,
}

impl Default for KeyPattern {
    fn default() -> Self {
        Self { before: "id:".to_owned(), after: String::new(), own: "leafd".to_owned() }
    }
}

impl KeyPattern {
    /// The pattern of the counters' keys, such as `id:{tag}`, and the prefix of leafd's own keys.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub fn new(pattern: &str, own: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("{pattern:?} {what}"));
        let Some((before, after)) = pattern.split_once(TAG) else {
            return wrong("has no {tag}; write it like \"id:{tag}\"");
        };
        if after.contains(TAG) {
            return wrong("has {tag} twice");
        }
        if pattern.chars().count() > MAX_CHARS || pattern.chars().any(char::is_control) {
            return wrong("is too long (200 characters), or has a control character");
        }
        Ok(Self { before: before.to_owned(), after: after.to_owned(), own: own.to_owned() })
    }

    /// The pattern.
    pub(super) fn pattern(&self) -> String {
        format!("{}{TAG}{}", self.before, self.after)
    }

    /// The key of a tag's counter; none if that is one of leafd's own keys.
    pub(super) fn counter(&self, tag: &BizTag) -> Option<String> {
        let key = format!("{}{}{}", self.before, tag.as_str(), self.after);
        (!self.is_own(&key)).then_some(key)
    }

    /// The tag whose counter has this key.
    pub(super) fn tag(&self, key: &str) -> Option<BizTag> {
        let tag = key.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        BizTag::new(tag).ok().filter(|_| !self.is_own(key))
    }

    /// What `SCAN` looks for.
    pub(super) fn glob(&self) -> String {
        format!("{}*{}", literal(&self.before), literal(&self.after))
    }

    fn is_own(&self, key: &str) -> bool {
        key.strip_prefix(&self.own).is_some_and(|rest| rest.starts_with(':'))
    }

    /// Which Redis this is.
    pub(super) fn identity(&self) -> String {
        format!("{}:identity", self.own)
    }

    /// The replication ID, and since when the server has it.
    pub(super) fn replication(&self) -> String {
        format!("{}:replication", self.own)
    }

    /// How far the leases of each counter came.
    pub(super) fn leases(&self) -> String {
        format!("{}:leases", self.own)
    }

    pub(super) fn steps(&self) -> String {
        format!("{}:steps", self.own)
    }

    pub(super) fn descriptions(&self) -> String {
        format!("{}:descriptions", self.own)
    }

    /// Written to see whether Redis takes writes; gone a second later.
    pub(super) fn probe(&self) -> String {
        format!("{}:probe", self.own)
    }
}

/// A pattern that matches only this text.
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for character in text.chars() {
        if r"*?[]\^-".contains(character) {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    #[test]
    fn a_key_leads_to_its_tag_and_back() {
        for pattern in ["id:{tag}", "{tag}", "a{tag}b", "{tag}:seq"] {
            let keys = KeyPattern::new(pattern, "leafd").unwrap();
            assert_eq!(keys.pattern(), pattern);
            let key = keys.counter(&tag("orders")).unwrap();
            assert_eq!(key, pattern.replace("{tag}", "orders"));
            assert_eq!(keys.tag(&key), Some(tag("orders")));
        }
        let keys = KeyPattern::new("ab{tag}bc", "leafd").unwrap();
        assert_eq!(keys.tag("abc"), None, "before and after overlap");
        assert_eq!(keys.tag("abbc"), None, "no tag");
    }

    #[test]
    fn no_tag_reaches_leafds_own_keys() {
        let keys = KeyPattern::new("{tag}", "leafd").unwrap();
        assert_eq!(keys.counter(&tag("leafd:leases")), None);
        assert_eq!(keys.tag(&keys.identity()), None);
        assert!(keys.counter(&tag("leafd")).is_some());
        assert!(keys.counter(&tag("leafdx:leases")).is_some());
    }

    #[test]
    fn a_pattern_without_exactly_one_tag_is_refused() {
        for pattern in ["", "id:", "{tag}{tag}", "{TAG}", "a\n{tag}", &"x".repeat(300)] {
            assert!(KeyPattern::new(pattern, "leafd").is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn a_search_takes_special_characters_literally() {
        let keys = KeyPattern::new("a*[1]?\\:{tag}", "leafd").unwrap();
        assert_eq!(keys.glob(), r"a\*\[1\]\?\\:*");
    }
}
