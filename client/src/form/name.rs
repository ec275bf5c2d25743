//! Forms by their names, as leafctl's `--as` and HTTP's `as` take them.

use std::fmt;
use std::str::FromStr;

use super::prefix::with_underscore;
use super::{FormError, PrefixedForm, TextForm, Zone};

/// A form of an ID, by name. [`super::FormCodec`] applies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdForm {
    /// The number in other digits: `base62`, `padded8`, `ord_base62`.
    Text(PrefixedForm),
    /// A number of a day, from the tag of that day: `dated@UTC`, `dated@+08:00`.
    Dated(Zone),
    /// A UUID of version 7, 8 or 1 that holds a snowflake: `uuid7`, `uuid8`, `uuid1`.
    Uuid(UuidVersion),
    /// A UUID of version 5, which is a hash of fleet ID, tag and ID: `uuid5`.
    Uuid5,
    /// An ObjectID of MongoDB that holds a snowflake: `objectid`.
    ObjectId,
    /// A public ID, which outsiders cannot count: `public`, `ord_public`.
    Public {
        /// The prefix with its underscore, or nothing.
        prefix: String,
    },
}

/// A version of UUIDs that can be turned back into an ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UuidVersion {
    /// Time in 100 ns, clock sequence and node.
    V1,
    /// Unix time in milliseconds first.
    V7,
    /// The ID as it is.
    V8,
}

impl UuidVersion {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "uuid1",
            Self::V7 => "uuid7",
            Self::V8 => "uuid8",
        }
    }

    pub(super) const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V7 => 7,
            Self::V8 => 8,
        }
    }
}

impl Default for IdForm {
    fn default() -> Self {
        Self::Text(PrefixedForm::bare(TextForm::Decimal))
    }
}

/// Writes the name.
impl fmt::Display for IdForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(form) => form.fmt(f),
            Self::Dated(zone) => write!(f, "dated@{zone}"),
            Self::Uuid(version) => f.write_str(version.name()),
            Self::Uuid5 => f.write_str("uuid5"),
            Self::ObjectId => f.write_str("objectid"),
            Self::Public { prefix } => write!(f, "{prefix}public"),
        }
    }
}

/// Reads a name.
impl FromStr for IdForm {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        match text {
            "uuid1" => return Ok(Self::Uuid(UuidVersion::V1)),
            "uuid7" => return Ok(Self::Uuid(UuidVersion::V7)),
            "uuid8" => return Ok(Self::Uuid(UuidVersion::V8)),
            "uuid5" => return Ok(Self::Uuid5),
            "objectid" => return Ok(Self::ObjectId),
            "dated" => return Err(FormError::Zone(String::new())),
            _ => {}
        }
        if let Some(zone) = text.strip_prefix("dated@") {
            return zone.parse().map(Self::Dated);
        }
        let (prefix, name) = match text.rsplit_once('_') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, text),
        };
        if name == "public" {
            let prefix = prefix.map(with_underscore).transpose()?.unwrap_or_default();
            return Ok(Self::Public { prefix });
        }
        let unknown = || FormError::UnknownForm(text.to_owned());
        let form = match name {
            "decimal" => TextForm::Decimal,
            "base62" => TextForm::Base62,
            "base36" => TextForm::Base36,
            "crockford32" => TextForm::Crockford32,
            "padded" => TextForm::Padded(19),
            other => padded(other.strip_prefix("padded").ok_or_else(unknown)?)?,
        };
        match prefix {
            Some(prefix) => PrefixedForm::new(prefix, form).map(Self::Text),
            None => Ok(Self::Text(PrefixedForm::bare(form))),
        }
    }
}

fn padded(digits: &str) -> Result<TextForm, FormError> {
    let number = (!digits.starts_with(['0', '+'])).then(|| digits.parse().ok()).flatten();
    number.and_then(TextForm::padded).ok_or_else(|| FormError::Padding(digits.to_owned()))
}

/// Writes the name of the form.
impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal => f.write_str("decimal"),
            Self::Base62 => f.write_str("base62"),
            Self::Base36 => f.write_str("base36"),
            Self::Crockford32 => f.write_str("crockford32"),
            Self::Padded(digits) => write!(f, "padded{digits}"),
        }
    }
}
