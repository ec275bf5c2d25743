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
        let symbols: Result<&[u8; WIDTH], _> = text.as_bytes().try_into();
        let Some((last, upper)) = symbols.ok().and_then(|symbols| symbols.split_last()) else {
            return Err(self.wrong(text, before));
        };
        let (mut number, mut highest) = (0_u64, 0);
        for symbol in upper {
            let value = self.values[usize::from(*symbol)];
            highest = value.max(highest);
            // All symbols but the last cannot overflow; other characters may, and are refused below.
            number = number.wrapping_mul(RADIX as u64).wrapping_add(value.into());
        }
        let value = self.values[usize::from(*last)];
        if value.max(highest) == NONE {
            return Err(self.wrong(text, before));
        }
        let number = number.checked_mul(RADIX as u64);
        in_range(number.and_then(|number| number.checked_add(value.into())))
    }

    /// Why a text of symbols is not one.
    fn wrong(&self, text: &str, before: usize) -> FormError {
        let mut places = text.char_indices();
        let is_symbol =
            |found: char| u8::try_from(found).is_ok_and(|byte| self.symbols.contains(&byte));
        let wrong = places.find(|(_, found)| !is_symbol(*found));
        match wrong {
            Some((at, found)) => {
                let hint = (self.hint)(u8::try_from(found).unwrap_or_default());
                FormError::Character { at: before + at + 1, found, hint }
            }
            None => FormError::Length { expected: WIDTH, got: text.len() },
        }
    }
}

/// The number, if it is an ID.
pub(super) fn in_range(number: Option<u64>) -> Result<u64, FormError> {
    number.filter(|number| i64::try_from(*number).is_ok()).ok_or(FormError::Range)
}

/// Reads decimal digits.
pub(super) fn decimal(text: &str, before: usize) -> Result<u64, FormError> {
    let (mut number, mut is_number) = (0_u64, true);
    for byte in text.bytes() {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit < 10;
        number = number.wrapping_mul(10).wrapping_add(digit.into());
    }
    if !is_number {
        let wrong = text.char_indices().find(|(_, found)| !found.is_ascii_digit());
        let (at, found) = wrong.unwrap_or_default();
        let hint = "a decimal digit is expected";
        return Err(FormError::Character { at: before + at + 1, found, hint });
    }
    // Up to 19 digits do not overflow, and more are no ID unless the first ones are zeros.
    let fits = !text.is_empty() && text.len() <= 19;
    in_range(if fits { Some(number) } else { text.parse().ok() })
}
