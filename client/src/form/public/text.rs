//! The text of a public ID: 15 symbols of Crockford's base 32 in lowercase.
//!
//! One symbol for the key, 13 for the ciphertext, one to check them. All three are public, so nothing
//! here has to take constant time.

use super::{KeyId, PublicIdError};

/// Characters of a public ID.
pub(super) const LENGTH: usize = 15;

/// Symbols of the ciphertext. They hold 65 bits, so the first of them is below 8.
const CIPHERTEXT_SYMBOLS: u32 = 13;

/// The symbols by their value.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The symbol of the five lowest bits.
#[expect(clippy::indexing_slicing, reason = "five bits are below 32")]
pub(super) const fn symbol(value: u8) -> char {
    ALPHABET[(value & 31) as usize] as char
}

/// The values by the symbols' ASCII codes; 255 for every other character.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const VALUES: [u8; 128] = {
    let (mut values, mut i) = ([u8::MAX; 128], 0);
    while i < ALPHABET.len() {
        values[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// The value of a symbol.
pub(super) fn value(symbol: char) -> Option<u8> {
    VALUES.get(symbol as usize).copied().filter(|value| *value < 32)
}

/// Appends the text of a ciphertext below 2^63.
pub(super) fn write(key: KeyId, ciphertext: u64, out: &mut String) {
    let mut check = Check::default();
    let mut push = |value: u8| {
        check.add(value);
        out.push(symbol(value));
    };
    push(key.value());
    for place in (0..CIPHERTEXT_SYMBOLS).rev() {
        push((ciphertext >> (5 * place)) as u8 & 31);
    }
    out.push(symbol(check.symbol()));
}

/// Reads a text. Every key and ciphertext have exactly one, and no other text is accepted.
pub(super) fn read(text: &str) -> Result<(KeyId, u64), PublicIdError> {
    let mut values = [0; LENGTH];
    for ((i, found), to) in text.chars().enumerate().zip(&mut values) {
        let wrong = |hint| PublicIdError::Character { at: i + 1, found, hint };
        *to = value(found).ok_or_else(|| wrong(hint(found)))?;
        if i == 1 && *to >= 8 {
            return Err(wrong("the second character of a public ID is a digit from 0 to 7"));
        }
    }
    let got = text.chars().count();
    if got != LENGTH {
        return Err(PublicIdError::Length { got });
    }
    let [key, ciphertext @ .., check_symbol] = values;
    let mut check = Check::default();
    check.add(key);
    ciphertext.iter().for_each(|value| check.add(*value));
    if check.symbol() != check_symbol {
        return Err(PublicIdError::Check);
    }
    let number = ciphertext.iter().fold(0, |number, value| number << 5 | u64::from(*value));
    Ok((KeyId::of_low_bits(key), number))
}

fn hint(found: char) -> &'static str {
    match found {
        'i' | 'l' | 'I' | 'L' => "write 1",
        'o' | 'O' => "write 0",
        'u' | 'U' => "a public ID has no u, it may be a v",
        'A'..='Z' => "write lowercase",
        ' ' | '-' => "leave it out",
        _ => "a public ID has digits and lowercase letters, without i, l, o and u",
    }
}

/// The check symbol: the sum of the symbols before it in GF(32), each times its own power of a
/// generator, from the 14th power for the first symbol to the 1st for the last. The check symbol itself
/// counts as the 0th power.
///
/// A single wrong symbol changes the sum, because no weight is zero. So does a swap of two different
/// symbols, because no two weights are equal. Of all other errors it misses one in 32.
#[derive(Default)]
struct Check(u8);

impl Check {
    fn add(&mut self, value: u8) {
        self.0 = times_generator(self.0 ^ value);
    }

    const fn symbol(&self) -> u8 {
        self.0
    }
}

/// Multiplies by x in GF(2)\[x\] modulo x^5 + x^2 + 1. Of this field, x generates every element but zero.
const fn times_generator(value: u8) -> u8 {
    let product = value << 1;
    if product < 32 { product } else { product ^ 0b10_0101 }
}
