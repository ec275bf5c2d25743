//! MongoDB's ObjectID, which holds a snowflake.

use std::fmt;
use std::str::FromStr;

use super::{FormError, hex};

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

    /// Appends the 24 characters.
    pub fn encode_into(self, out: &mut String) {
        let mut text = [[b'0'; 2]; 12];
        text.iter_mut().zip(self.0).for_each(|(pair, byte)| *pair = hex::digits(byte));
        out.extend(std::str::from_utf8(text.as_flattened()));
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
        let mut text = String::with_capacity(24);
        self.encode_into(&mut text);
        f.write_str(&text)
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
        read(text.as_bytes()).map(Self).ok_or_else(|| wrong(text))
    }
}

fn read(text: &[u8]) -> Option<[u8; 12]> {
    let (pairs, rest) = text.as_chunks();
    let mut bytes = [0; 12];
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = hex::byte(*high, *low)?;
    }
    Some(bytes)
}

/// Why a text is no ObjectID.
fn wrong(text: &str) -> FormError {
    let mut digits = text.char_indices().take(24);
    let wrong = digits.find_map(|(at, found)| hex::hint(found).map(|hint| (at, found, hint)));
    match wrong {
        Some((at, found, hint)) => FormError::Character { at: at + 1, found, hint },
        None => FormError::Length { expected: 24, got: text.chars().count() },
    }
}
