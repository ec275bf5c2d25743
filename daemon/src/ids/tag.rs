//! Tag names, checked once when they are made.

use std::fmt;

use leaf_client::wire::MAX_TAG_CHARS;
use smol_str::SmolStr;

/// A biz tag: 1 to 128 characters, none of them a control character. Cheap to clone. Up to 23 bytes lie
/// in the value itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BizTag(SmolStr);

/// A name that no tag can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTag {
    /// The name has no characters.
    #[error("the tag is empty; a tag has 1 to {MAX_TAG_CHARS} characters")]
    Empty,
    /// The name is longer than 128 characters.
    #[error("the tag {start:?}… has {chars} characters; the limit is {MAX_TAG_CHARS}")]
    TooLong {
        /// The first 32 characters.
        start: String,
        /// Number of characters.
        chars: usize,
    },
    /// The name would garble logs and terminals.
    #[error("the tag {0:?} contains a control character")]
    Control(String),
}

impl BizTag {
    /// Checks a name and wraps it.
    ///
    /// # Errors
    /// When it is empty, longer than 128 characters, or contains a control character.
    pub fn new(name: &str) -> Result<Self, BadTag> {
        if name.is_empty() {
            return Err(BadTag::Empty);
        }
        let chars = name.chars().count();
        if chars > MAX_TAG_CHARS {
            return Err(BadTag::TooLong { start: name.chars().take(32).collect(), chars });
        }
        if name.chars().any(char::is_control) {
            return Err(BadTag::Control(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for BizTag {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BizTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_accepted_and_the_error_for_an_impossible_one_quotes_it() {
        for name in ["orders", "a.b/c'd\"", "🦀", " ", "trailing ", &"é".repeat(128)] {
            assert_eq!(BizTag::new(name).unwrap().as_str(), name);
        }
        assert_eq!(BizTag::new(""), Err(BadTag::Empty));
        assert!(BizTag::new(&"é".repeat(129)).unwrap_err().to_string().contains("129"));
        assert!(BizTag::new("a\nb").unwrap_err().to_string().contains("a\\nb"));
    }
}
