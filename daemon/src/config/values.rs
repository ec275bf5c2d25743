//! How single values are read. The names of what is wanted are for messages: `remedy.rs` knows what to
//! write instead.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leaf_client::Layout;
use leaf_client::form::FleetId;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::secret::Secret;

/// What messages call a duration that is wanted.
pub(super) const DURATION: &str = "a duration";

/// As [`DURATION`].
pub(super) const MODE: &str = "a file mode in octal";

/// Whether leafd creates a tag on first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AutoCreate {
    /// Only with the embedded store, which has no administrator who creates tags.
    Auto,
    Always(bool),
}

/// A string, of which an empty one means that the key is not set.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(from)?).filter(|text| !text.is_empty()))
}

pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(from)?.map(PathBuf::from))
}

/// As [`text`]; no error shows the value.
pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    struct Hidden;
    impl Visitor<'_> for Hidden {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<String, E> {
            Err(E::invalid_type(Unexpected::Other("a value without quotes"), &self))
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<String, E> {
            self.visit_bool(true)
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<String, E> {
            self.visit_bool(true)
        }
    }
    let text = from.deserialize_any(Hidden)?;
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

/// A list of [`secret`]s, none of which is empty.
pub(super) fn secrets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Secret>, D::Error> {
    struct Item(Secret);
    impl<'de> Deserialize<'de> for Item {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let secret = secret(from)?;
            secret.map(Item).ok_or_else(|| D::Error::custom("it is empty"))
        }
    }
    Ok(Vec::<Item>::deserialize(from)?.into_iter().map(|item| item.0).collect())
}

pub(super) fn auto_create<'de, D: Deserializer<'de>>(from: D) -> Result<AutoCreate, D::Error> {
    // The file has a boolean, the environment a string.
    struct Choice;
    impl Visitor<'_> for Choice {
        type Value = AutoCreate;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"auto\", true or false")
        }

        fn visit_bool<E>(self, create: bool) -> Result<AutoCreate, E> {
            Ok(AutoCreate::Always(create))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<AutoCreate, E> {
            match text {
                "auto" => Ok(AutoCreate::Auto),
                "true" => Ok(AutoCreate::Always(true)),
                "false" => Ok(AutoCreate::Always(false)),
                _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
            }
        }
    }
    from.deserialize_any(Choice)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    struct Timespan;
    impl Visitor<'_> for Timespan {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(DURATION)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            crate::duration::parse(text).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    from.deserialize_any(Timespan)
}

pub(super) fn layout<'de, D: Deserializer<'de>>(from: D) -> Result<Layout, D::Error> {
    String::deserialize(from)?.parse().map_err(Error::custom)
}

/// A fleet ID, or nothing for an empty text.
pub(super) fn fleet<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FleetId>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(Error::custom) }
}

pub(super) fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    struct Octal;
    impl Visitor<'_> for Octal {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(MODE)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
            mode.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    from.deserialize_any(Octal)
}
