//! Forms that are the number in other digits. Every one is a function of the number alone.

use super::FormError;
use super::digits::{Alphabet, decimal};

/// The most digits of an ID.
const MOST_DIGITS: usize = 19;

static BASE62: Alphabet<62, 11> = Alphabet::new(
    *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    |_| "a letter of a to z or A to Z or a digit is expected",
);

static BASE36: Alphabet<36, 13> =
    Alphabet::new(*b"0123456789abcdefghijklmnopqrstuvwxyz", |found| match found {
        b'A'..=b'Z' => "write lowercase letters",
        _ => "a letter of a to z or a digit is expected",
    });

static CROCKFORD32: Alphabet<32, 13> =
    Alphabet::new(*b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", |found| match found {
        b'I' | b'L' | b'i' | b'l' => "write the digit 1",
        b'O' | b'o' => "write the digit 0",
        b'a'..=b'z' => "write capital letters",
        _ => "a digit or a capital letter other than I, L, O and U is expected",
    });

/// Crockford's check symbols: the number modulo 37.
const CHECKS: &[u8; 37] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U";

/// A form of the number alone. All but [`TextForm::Decimal`] sort as the numbers do, byte by byte, while
/// the number fits the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Decimal digits without leading zeros, as everywhere else.
    Decimal,
    /// 11 letters and digits, in the order of ASCII: `0` to `9`, `A` to `Z`, `a` to `z`.
    Base62,
    /// 13 digits and lowercase letters, for where capital and small letters are not told apart.
    Base36,
    /// 13 symbols of Crockford's base 32, which has no I, L, O and U, and his check symbol: one of 37,
    /// which finds every single wrong symbol and every swap of neighbours.
    Crockford32,
    /// Decimal digits with zeros in front, at least so many: between 1 and 19. A longer number has more,
    /// and no longer sorts with the others.
    Padded(u8),
}

impl TextForm {
    /// The longest text, in characters.
    pub const LONGEST: usize = MOST_DIGITS;

    /// Digits of [`TextForm::Padded`]. `None` outside 1 to 19.
    #[must_use]
    pub const fn padded(digits: u8) -> Option<Self> {
        if digits >= 1 && digits as usize <= MOST_DIGITS {
            Some(Self::Padded(digits))
        } else {
            None
        }
    }

    /// Appends the form of `id`.
    ///
    /// # Errors
    /// [`FormError::TooLarge`] if `id` is above `i64::MAX`.
    pub fn encode_into(self, id: u64, out: &mut String) -> Result<(), FormError> {
        if i64::try_from(id).is_err() {
            return Err(FormError::TooLarge(id));
        }
        match self {
            Self::Decimal => write_padded(id, 1, out),
            Self::Base62 => BASE62.write(id, out),
            Self::Base36 => BASE36.write(id, out),
            Self::Crockford32 => {
                CROCKFORD32.write(id, out);
                out.push(check_of(id));
            }
            Self::Padded(digits) => write_padded(id, digits.into(), out),
        }
        Ok(())
    }

    /// Reads the form. Every ID has exactly one text, and no other text is accepted.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn decode(self, text: &str) -> Result<u64, FormError> {
        self.decode_after(text, 0)
    }

    /// Reads the form, of which `before` characters were cut off.
    pub(super) fn decode_after(self, text: &str, before: usize) -> Result<u64, FormError> {
        match self {
            Self::Decimal => read_padded(text, 1, before),
            Self::Base62 => BASE62.read(text, before),
            Self::Base36 => BASE36.read(text, before),
            Self::Crockford32 => read_crockford(text, before),
            Self::Padded(digits) => read_padded(text, digits.into(), before),
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "a remainder is below 37")]
fn check_of(id: u64) -> char {
    char::from(CHECKS[(id % 37) as usize])
}

fn read_crockford(text: &str, before: usize) -> Result<u64, FormError> {
    let Some((at, found)) = text.char_indices().next_back().filter(|(at, _)| *at == 13) else {
        // A wrong character is the better explanation, if there is one.
        let number = text.get(..13).unwrap_or(text);
        CROCKFORD32.read(number, before)?;
        let got = text.chars().count();
        return Err(FormError::Length { expected: 14, got });
    };
    let id = CROCKFORD32.read(&text[..at], before)?;
    let expected = check_of(id);
    if found == expected {
        return Ok(id);
    }
    if !u8::try_from(found).is_ok_and(|byte| CHECKS.contains(&byte)) {
        let hint = "a check symbol is expected: a digit, a capital letter other than I, L and O, or one \
                    of * ~ $ =";
        return Err(FormError::Character { at: before + at + 1, found, hint });
    }
    Err(FormError::Check { expected, found })
}

/// Appends at least `width` digits.
#[expect(clippy::indexing_slicing, reason = "a u64 has at most 10 pairs of digits")]
pub(super) fn write_padded(id: u64, width: usize, out: &mut String) {
    let mut digits = [b'0'; 20];
    let (mut left, mut at) = (id, digits.len());
    while left > 0 {
        // Two at a time, since a division takes the longest.
        let pair = (left % 100) as u8;
        left /= 100;
        at -= 2;
        [digits[at], digits[at + 1]] = [b'0' + pair / 10, b'0' + pair % 10];
    }
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let first = zeros.min(digits.len() - width.clamp(1, digits.len()));
    out.extend(std::str::from_utf8(&digits[first..]));
}

/// Reads at least `width` digits; more only if the number needs them.
pub(super) fn read_padded(text: &str, width: usize, before: usize) -> Result<u64, FormError> {
    let id = decimal(text, before)?;
    if text.len() < width {
        return Err(FormError::Short { least: width, got: text.len() });
    }
    if text.len() > width && text.starts_with('0') {
        let hint = "it is one zero too many";
        return Err(FormError::Character { at: before + 1, found: '0', hint });
    }
    Ok(id)
}
