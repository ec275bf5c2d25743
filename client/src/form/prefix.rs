//! A prefix that says what an ID is of, as in `ord_0000000004c`.

use std::fmt;

use super::{FormError, TextForm};

/// The longest prefix, as of a TypeID.
const LONGEST: usize = 63;

/// A text form behind a prefix and an underscore. Without a prefix, the text form itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixedForm {
    /// With its underscore, or empty.
    prefix: String,
    text: TextForm,
}

impl PrefixedForm {
    /// The form `text` behind `prefix` and an underscore. A prefix is 1 to 63 lowercase letters and
    /// underscores, and begins and ends with a letter: the rule of TypeID.
    ///
    /// # Errors
    /// [`FormError::BadPrefix`].
    pub fn new(prefix: &str, text: TextForm) -> Result<Self, FormError> {
        Ok(Self { prefix: with_underscore(prefix)?, text })
    }

    /// The form without a prefix.
    #[must_use]
    pub const fn bare(text: TextForm) -> Self {
        Self { prefix: String::new(), text }
    }

    /// Appends the form of `id`.
    ///
    /// # Errors
    /// As [`TextForm::encode_into`].
    pub fn encode_into(&self, id: u64, out: &mut String) -> Result<(), FormError> {
        out.push_str(&self.prefix);
        self.text.encode_into(id, out)
    }

    /// Reads the form, with exactly this prefix.
    ///
    /// # Errors
    /// [`FormError::Prefix`], and those of [`TextForm::decode`].
    pub fn decode(&self, text: &str) -> Result<u64, FormError> {
        if self.prefix.is_empty() {
            return self.text.decode(text);
        }
        let number = text.strip_prefix(self.prefix.as_str());
        let number = number.ok_or_else(|| FormError::Prefix { expected: self.prefix.clone() })?;
        self.text.decode_after(number, self.prefix.len())
    }
}

/// The prefix with its underscore, if it can be one.
pub(super) fn with_underscore(prefix: &str) -> Result<String, FormError> {
    let is_right = (1..=LONGEST).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !prefix.starts_with('_')
        && !prefix.ends_with('_');
    if is_right { Ok(format!("{prefix}_")) } else { Err(FormError::BadPrefix(prefix.to_owned())) }
}

/// Writes the name of the form, such as `ord_base62`.
impl fmt::Display for PrefixedForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.text)
    }
}
