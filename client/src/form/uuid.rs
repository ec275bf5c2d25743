//! UUIDs by RFC 9562 that hold a snowflake, or are a hash of an ID.

use std::fmt;
use std::str::FromStr;

use super::{FormError, hex};

/// 16 bytes that are written as a UUID. Use [`Uuid::bytes`] to hand them to a database or to the crate
/// `uuid`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// The places of the hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Where the two digits of each byte are.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

impl Uuid {
    /// A UUID of these bytes, in network order.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, in network order.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The version: 7 for one made by [`super::Snowflakes::uuid7`].
    #[must_use]
    pub const fn version(self) -> u8 {
        self.0[6] >> 4
    }

    /// A UUID of this version with these bits: 48, 12 and 62.
    pub(super) const fn of(version: u8, a: u64, b: u64, c: u64) -> Self {
        let high = a << 16 | (version as u64) << 12 | b;
        let low = 0b10 << 62 | c;
        Self(((high as u128) << 64 | low as u128).to_be_bytes())
    }

    /// The 48, 12 and 62 bits around version and variant, if it has this version and the variant of RFC
    /// 9562.
    pub(super) const fn fields(self, version: u8) -> Result<(u64, u64, u64), FormError> {
        if self.version() != version {
            return Err(FormError::Version { expected: version, found: self.version() });
        }
        let bits = u128::from_be_bytes(self.0);
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        if low >> 62 != 0b10 {
            return Err(FormError::Foreign("its variant is not that of RFC 9562"));
        }
        Ok((high >> 16, high & 0xfff, low & ((1 << 62) - 1)))
    }

    /// Appends the 36 characters.
    #[expect(clippy::indexing_slicing, reason = "16 bytes fill 36 characters")]
    pub fn encode_into(self, out: &mut String) {
        let mut text = [b'-'; 36];
        for (byte, at) in self.0.into_iter().zip(PLACES) {
            [text[at], text[at + 1]] = hex::digits(byte);
        }
        out.extend(std::str::from_utf8(&text));
    }
}

/// Writes 36 lowercase characters.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(36);
        self.encode_into(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

/// Reads what [`fmt::Display`] writes, and nothing else.
impl FromStr for Uuid {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        read(text.as_bytes()).map(Self).ok_or_else(|| wrong(text))
    }
}

#[expect(clippy::indexing_slicing, reason = "16 bytes fill 36 characters")]
fn read(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().zip(PLACES) {
        *byte = hex::byte(text[at], text[at + 1])?;
    }
    HYPHENS.iter().all(|at| text[*at] == b'-').then_some(bytes)
}

/// Why a text is no UUID.
fn wrong(text: &str) -> FormError {
    for (at, found) in text.char_indices().take(36) {
        let hint = match (HYPHENS.contains(&at), found) {
            (true, '-') => None,
            (true, _) => Some("a hyphen is expected"),
            (false, _) => hex::hint(found),
        };
        if let Some(hint) = hint {
            return FormError::Character { at: at + 1, found, hint };
        }
    }
    FormError::Length { expected: 36, got: text.chars().count() }
}
