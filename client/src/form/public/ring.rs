//! A ring of keys, and the text of a key file.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::key::KEY_BYTES;
use super::{KeyError, KeyId, KeyRingError, PublicIds, PublicKey};

/// The keys of an installation. The first encodes, and all decode.
///
/// A clone shares the keys.
#[derive(Debug, Clone)]
pub struct KeyRing {
    /// Never empty.
    keys: Arc<[PublicKey]>,
}

impl KeyRing {
    /// Makes a ring. The first key encodes.
    ///
    /// # Errors
    /// If there is no key, or if two keys have the same ID or the same bytes.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Result<Self, KeyRingError> {
        let mut ring = Vec::new();
        for key in keys {
            add(&mut ring, key)?;
        }
        Self::of(ring)
    }

    /// Reads the text of a key file: on each line a key's ID and its 64 hex digits. Lines that are blank
    /// or begin with `#` mean nothing.
    ///
    /// # Errors
    /// The first line that is wrong, with the remedy. The error shows nothing of the line.
    pub fn parse(text: &str) -> Result<Self, KeyRingError> {
        let mut ring = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            parse_line(line)
                .and_then(|key| add(&mut ring, key))
                .map_err(|error| KeyRingError::Line { line: i + 1, error })?;
        }
        Self::of(ring)
    }

    fn of(keys: Vec<PublicKey>) -> Result<Self, KeyRingError> {
        if keys.is_empty() {
            return Err(KeyRingError::NoKey);
        }
        Ok(Self { keys: keys.into() })
    }

    /// The public IDs of a tag. Make it once per tag: it costs a hash, and two AES blocks per key.
    #[must_use]
    pub fn for_tag(&self, tag: &str) -> PublicIds {
        PublicIds::new(Arc::clone(&self.keys), tag)
    }

    /// The public IDs of snowflakes. Their tweak is that of an empty tag name, which no tag has.
    #[must_use]
    pub fn for_snowflakes(&self) -> PublicIds {
        self.for_tag("")
    }

    /// The IDs of the keys. The first encodes.
    pub fn key_ids(&self) -> impl ExactSizeIterator<Item = KeyId> + '_ {
        self.keys.iter().map(PublicKey::id)
    }
}

/// Adds a key that goes with the others.
fn add(ring: &mut Vec<PublicKey>, key: PublicKey) -> Result<(), KeyError> {
    if ring.iter().any(|other| other.id() == key.id()) {
        return Err(KeyError::SameId(key.id()));
    }
    if let Some(same) = ring.iter().find(|other| other.has_bytes_of(&key)) {
        return Err(KeyError::SameKey(same.id()));
    }
    ring.push(key);
    Ok(())
}

/// Errors name no word of the line: any of them can be a key, if the line is wrong.
fn parse_line(line: &str) -> Result<PublicKey, KeyError> {
    let mut words = line.split_whitespace();
    let (Some(id), Some(hex), None) = (words.next(), words.next(), words.next()) else {
        return Err(KeyError::Words);
    };
    let mut symbols = id.chars();
    let (Some(symbol), None) = (symbols.next(), symbols.next()) else {
        return Err(KeyError::Id);
    };
    let id = KeyId::from_symbol(symbol).ok_or(KeyError::Id)?;
    PublicKey::new(id, &*parse_hex(hex)?)
}

fn parse_hex(hex: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    if let Some(i) = hex.chars().position(|digit| !digit.is_ascii_hexdigit()) {
        return Err(KeyError::NotHex { at: i + 1 });
    }
    if hex.len() != 2 * KEY_BYTES {
        return Err(KeyError::Length { got: hex.len() });
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (i, digit) in hex.chars().enumerate() {
        let nibble = digit.to_digit(16).ok_or(KeyError::NotHex { at: i + 1 })? as u8;
        if let Some(byte) = bytes.get_mut(i / 2) {
            *byte = *byte << 4 | nibble;
        }
    }
    Ok(bytes)
}
