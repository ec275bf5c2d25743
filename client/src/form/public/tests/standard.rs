//! FF1 against the standard's samples, and as a permutation of small domains.

use aes::cipher::KeyInit;
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};

use super::super::ff1::{Aes, Domain, Ff1};

/// The samples' longest key. The shorter ones are its beginning.
const KEY: [u8; 32] = [
    0x2B, 0x7E, 0x15, 0x16, 0x28, 0xAE, 0xD2, 0xA6, 0xAB, 0xF7, 0x15, 0x88, 0x09, 0xCF, 0x4F, 0x3C,
    0xEF, 0x43, 0x59, 0xD8, 0xD5, 0x80, 0xAA, 0x4F, 0x7F, 0x03, 0x6D, 0x6F, 0x04, 0xFC, 0x6A, 0x94,
];

/// Radix, tweak and plaintext of the samples for one length of keys.
const SAMPLES: [(u32, &[u8], &str); 3] = [
    (10, b"", "0123456789"),
    (10, b"9876543210", "0123456789"),
    (36, b"7777pqrs777", "0123456789abcdefghi"),
];

fn number(digits: &str, radix: u32) -> u64 {
    u64::from_str_radix(digits, radix).unwrap()
}

fn digits(mut number: u64, radix: u32, length: usize) -> String {
    let mut digits = Vec::new();
    for _ in 0..length {
        digits.push(char::from_digit((number % u64::from(radix)) as u32, radix).unwrap());
        number /= u64::from(radix);
    }
    digits.iter().rev().collect()
}

fn assert_samples(aes: &impl Aes, ciphertexts: [&str; 3]) {
    for ((radix, tweak, plaintext), ciphertext) in SAMPLES.into_iter().zip(ciphertexts) {
        let length = plaintext.len();
        let halves = |text: &str| {
            let (left, right) = text.split_at(length / 2);
            (number(left, radix), number(right, radix))
        };
        let ff1 = Ff1::new(aes, Domain::new(radix, length as u32).unwrap(), tweak);
        let (left, right) = ff1.encrypt(aes, halves(plaintext));
        let text = digits(left, radix, length / 2) + &digits(right, radix, length.div_ceil(2));
        assert_eq!(text, ciphertext);
        assert_eq!(ff1.decrypt(aes, halves(ciphertext)), halves(plaintext), "{ciphertext}");
    }
}

#[test]
fn ff1_gives_the_samples_of_the_standard() {
    assert_samples(
        &Aes128Enc::new_from_slice(&KEY[..16]).unwrap(),
        ["2433477484", "6124200773", "a9tv40mll9kdu509eum"],
    );
    assert_samples(
        &Aes192Enc::new_from_slice(&KEY[..24]).unwrap(),
        ["2830668132", "2496655549", "xbj3kv35jrawxv32ysr"],
    );
    assert_samples(
        &Aes256Enc::new_from_slice(&KEY).unwrap(),
        ["6657667009", "1001623463", "xs8a0azh2avyalyzuwd"],
    );
}

/// Encrypts every text of a domain, and demands that each comes out once and goes back.
fn assert_bijective(radix: u32, length: u32, tweak: &[u8]) {
    let aes = Aes256Enc::new_from_slice(&KEY).unwrap();
    let ff1 = Ff1::new(&aes, Domain::new(radix, length).unwrap(), tweak);
    let left_size = u64::from(radix).pow(length / 2);
    let right_size = u64::from(radix).pow(length.div_ceil(2));
    let mut is_taken = vec![false; (left_size * right_size) as usize];
    for text in 0..left_size * right_size {
        let halves = (text / right_size, text % right_size);
        let (left, right) = ff1.encrypt(&aes, halves);
        assert!(left < left_size && right < right_size, "{text} leaves radix {radix}, {length}");
        let place = &mut is_taken[(left * right_size + right) as usize];
        assert!(!std::mem::replace(place, true), "two texts collide: radix {radix}, {length}");
        assert_eq!(ff1.decrypt(&aes, (left, right)), halves);
    }
}

#[test]
fn ff1_is_a_bijection_on_every_small_domain() {
    let tweaks = [&b""[..], b"sixteen bytes it", b"seventeen bytes i"].into_iter().cycle();
    for (length, tweak) in (4..=16).zip(tweaks) {
        assert_bijective(2, length, tweak);
    }
    for (radix, length) in [(3, 7), (5, 4), (10, 3), (10, 4), (36, 2), (100, 2)] {
        assert_bijective(radix, length, b"tweak");
    }
}

#[test]
fn a_domain_has_a_radix_of_the_standard_and_halves_that_fit() {
    for (radix, length) in [(0, 63), (1, 63), (65_537, 2), (2, 0), (2, 1), (2, 127), (36, 25)] {
        assert!(Domain::new(radix, length).is_none(), "radix {radix}, {length}");
    }
    for (radix, length) in [(2, 2), (2, 63), (2, 126), (36, 24), (65_536, 6)] {
        assert!(Domain::new(radix, length).is_some(), "radix {radix}, {length}");
    }
}
