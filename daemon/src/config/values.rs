//! How single values are read from TOML.

use std::path::PathBuf;
use std::time::Duration;

use leaf_client::Layout;
use serde::{Deserialize, Deserializer};

use crate::secret::Secret;

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

pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    // serde's own error for a value of another type would show the value.
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        _ => return Err(serde::de::Error::custom("the value is not a string; put it in quotes")),
    };
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

pub(super) fn auto_create<'de, D: Deserializer<'de>>(from: D) -> Result<AutoCreate, D::Error> {
    // The file has a boolean, the environment a string.
    let value = toml::Value::deserialize(from)?;
    match &value {
        toml::Value::Boolean(create) => return Ok(AutoCreate::Always(*create)),
        toml::Value::String(text) => match text.as_str() {
            "auto" => return Ok(AutoCreate::Auto),
            "true" => return Ok(AutoCreate::Always(true)),
            "false" => return Ok(AutoCreate::Always(false)),
            _ => {}
        },
        _ => {}
    }
    Err(serde::de::Error::custom(format!("{value} is not \"auto\", true or false")))
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    crate::duration::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

pub(super) fn layout<'de, D: Deserializer<'de>>(from: D) -> Result<Layout, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

pub(super) fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let text = String::deserialize(from)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is not a file mode; write it in octal, such as \"0660\""
        ))
    })
}
