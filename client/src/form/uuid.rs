//! UUIDs by RFC 9562 that hold a snowflake, or are a hash of an ID.

use std::fmt;
use std::str::FromStr;

use super::FormError;

/// 16 bytes that are written as a UUID. Use [`Uuid::bytes`] to hand them to a database or to the crate
/// `uuid`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// The places of the hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

const HEX: &[u8; 16] = b"0123456789abcdef";

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
        let mut at = 0;
        for byte in self.0 {
            if HYPHENS.contains(&at) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
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
        let (mut bytes, mut digits) = ([0; 16], 0);
        for (at, found) in text.char_indices() {
            let hint = match found {
                '-' if HYPHENS.contains(&at) => continue,
                _ if HYPHENS.contains(&at) => "a hyphen is expected",
                'A'..='F' => "write lowercase letters",
                _ => "a hexadecimal digit is expected",
            };
            let value = hex_value(found).filter(|_| !HYPHENS.contains(&at));
            let value = value.ok_or(FormError::Character { at: at + 1, found, hint })?;
            if let Some(byte) = bytes.get_mut(digits / 2) {
                *byte |= value << (4 * (1 - digits % 2));
            }
            digits += 1;
        }
        if text.len() != 36 {
            return Err(FormError::Length { expected: 36, got: text.len() });
        }
        Ok(Self(bytes))
    }
}

/// The value of a lowercase hexadecimal digit.
pub(super) fn hex_value(digit: char) -> Option<u8> {
    match digit {
        '0'..='9' | 'a'..='f' => digit.to_digit(16).and_then(|value| u8::try_from(value).ok()),
        _ => None,
    }
}
