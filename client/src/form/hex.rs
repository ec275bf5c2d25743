//! Lowercase hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// No digit.
const NONE: u8 = u8::MAX;

const VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "the table has a place for every byte")]
const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < DIGITS.len() {
        values[DIGITS[i] as usize] = i as u8;
        i += 1;
    }
    values
}

/// The two digits of a byte.
#[expect(clippy::indexing_slicing, reason = "half a byte is below 16")]
pub(super) const fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

/// The byte of two digits.
#[expect(clippy::indexing_slicing, reason = "the table has a place for every byte")]
pub(super) const fn byte(high: u8, low: u8) -> Option<u8> {
    let (high, low) = (VALUES[high as usize], VALUES[low as usize]);
    if high == NONE || low == NONE { None } else { Some(high << 4 | low) }
}

/// What to write instead of `found`, where a digit is expected.
pub(super) const fn hint(found: char) -> Option<&'static str> {
    match found {
        '0'..='9' | 'a'..='f' => None,
        'A'..='F' => Some("write lowercase letters"),
        _ => Some("a hexadecimal digit is expected"),
    }
}
