//! Numbers in an alphabet of ASCII symbols, at a fixed width, so that texts sort as the numbers do.

use super::FormError;

/// No symbol.
const NONE: u8 = u8::MAX;

/// An alphabet in the order of ASCII, and how many symbols every number has.
pub(super) struct Alphabet<const RADIX: usize, const WIDTH: usize> {
    symbols: [u8; RADIX],
    values: [u8; 256],
    hint: fn(u8) -> &'static str,
}

impl<const RADIX: usize, const WIDTH: usize> Alphabet<RADIX, WIDTH> {
    #[expect(clippy::indexing_slicing, reason = "the table has a place for every byte")]
    pub(super) const fn new(symbols: [u8; RADIX], hint: fn(u8) -> &'static str) -> Self {
        let mut values = [NONE; 256];
        let mut i = 0;
        while i < RADIX {
            values[symbols[i] as usize] = i as u8;
            i += 1;
        }
        Self { symbols, values, hint }
    }

    /// Appends the `WIDTH` symbols of `number`, which has to be below `RADIX` to the power of `WIDTH`.
    #[expect(clippy::indexing_slicing, reason = "a remainder is below the radix")]
    pub(super) fn write(&self, number: u64, out: &mut String) {
        let mut symbols = [b'0'; WIDTH];
        let mut left = number;
        for symbol in symbols.iter_mut().rev() {
            *symbol = self.symbols[(left % RADIX as u64) as usize];
            left /= RADIX as u64;
        }
        out.extend(std::str::from_utf8(&symbols));
    }

    /// Reads exactly `WIDTH` symbols. `before` characters precede them in the text that the user wrote.
    #[expect(clippy::indexing_slicing, reason = "the table has a place for every byte")]
    pub(super) fn read(&self, text: &str, before: usize) -> Result<u64, FormError> {
        let mut number = Some(0_u64);
        for (i, byte) in text.bytes().enumerate() {
            let value = self.values[usize::from(byte)];
            if value == NONE {
                // Everything before it is ASCII, so this is where a character begins.
                let found = text[i..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
                return Err(FormError::Character {
                    at: before + i + 1,
                    found,
                    hint: (self.hint)(byte),
                });
            }
            number = number
                .and_then(|number| number.checked_mul(RADIX as u64))
                .and_then(|number| number.checked_add(value.into()));
        }
        if text.len() != WIDTH {
            return Err(FormError::Length { expected: WIDTH, got: text.len() });
        }
        in_range(number)
    }
}

/// The number, if it is an ID.
pub(super) fn in_range(number: Option<u64>) -> Result<u64, FormError> {
    number.filter(|number| i64::try_from(*number).is_ok()).ok_or(FormError::Range)
}

/// Reads decimal digits.
pub(super) fn decimal(text: &str, before: usize) -> Result<u64, FormError> {
    if let Some((i, found)) = text.char_indices().find(|(_, found)| !found.is_ascii_digit()) {
        let hint = "a decimal digit is expected";
        return Err(FormError::Character { at: before + i + 1, found, hint });
    }
    in_range(text.parse().ok())
}
