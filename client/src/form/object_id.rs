//! MongoDB's ObjectID, which holds a snowflake.

use std::fmt;
use std::str::FromStr;

use super::FormError;
use super::uuid::hex_value;

/// 12 bytes that are written as an ObjectID: the time in seconds, as MongoDB's own, then milliseconds and
/// snowflake. They sort as the snowflakes of one layout do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// An ObjectID of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// The bytes, which the crate `bson` takes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 12] {
        self.0
    }

    pub(super) fn of(seconds: u32, low: u64) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..].copy_from_slice(&low.to_be_bytes());
        Self(bytes)
    }

    pub(super) fn fields(self) -> (u32, u64) {
        let seconds = self.0[..4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        let low = self.0[4..].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        (seconds, low)
    }
}

/// Writes 24 lowercase hexadecimal digits.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, low) = self.fields();
        write!(f, "{seconds:08x}{low:016x}")
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// Reads what [`fmt::Display`] writes, and nothing else.
impl FromStr for ObjectId {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let mut bytes = [0; 12];
        for (at, found) in text.char_indices() {
            let hint = match found {
                'A'..='F' => "write lowercase letters",
                _ => "a hexadecimal digit is expected",
            };
            let value = hex_value(found).ok_or(FormError::Character { at: at + 1, found, hint })?;
            if let Some(byte) = bytes.get_mut(at / 2) {
                *byte |= value << (4 * (1 - at % 2));
            }
        }
        if text.len() != 24 {
            return Err(FormError::Length { expected: 24, got: text.len() });
        }
        Ok(Self(bytes))
    }
}
