//! The text: what goes in and out, what the check symbol finds, and how errors read.

use std::collections::HashSet;

use proptest::prelude::*;

use super::super::*;
use super::{key, ring};

const SYMBOLS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// Some ciphertexts: sparse ones, dense ones, and those between.
fn ciphertexts() -> impl Iterator<Item = u64> {
    let spread = (0..20_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1);
    let single = (0..63).map(|bit| 1 << bit);
    [0, u64::MAX >> 1].into_iter().chain(single).chain(spread)
}

fn written(key: KeyId, ciphertext: u64) -> String {
    let mut out = String::new();
    text::write(key, ciphertext, &mut out);
    out
}

/// The text that begins with these symbols, of which the second is below 8.
fn of_values([key, ciphertext @ ..]: [u8; 14]) -> String {
    let number = ciphertext.iter().fold(0, |number, value| number << 5 | u64::from(*value));
    written(KeyId::new(key).unwrap(), number)
}

fn error(text: &str) -> String {
    ring().for_tag("orders").decode(text).unwrap_err().to_string()
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(id in 0..1_u64 << 63, tag in ".{0,20}", first in 0..32_u8) {
        let ids = KeyRing::new([key(first), key((first + 1) % 32)]).unwrap().for_tag(&tag);
        let text = ids.encode(id).unwrap();
        prop_assert_eq!(text.len(), 15);
        prop_assert!(text.chars().all(|symbol| SYMBOLS.contains(symbol)), "{}", text);
        prop_assert_eq!(ids.decode(&text), Ok(id));
    }

    #[test]
    fn a_text_that_is_accepted_is_the_only_one_of_its_id(text in "[0-9a-z]{1}[0-7][0-9a-z]{13}") {
        let ids = KeyRing::new((0..32).map(key)).unwrap().for_tag("orders");
        if let Ok(id) = ids.decode(&text) {
            let first = KeyId::from_symbol(text.chars().next().unwrap()).unwrap();
            let of_key = KeyRing::new([key(first.value())]).unwrap().for_tag("orders");
            prop_assert_eq!(of_key.encode(id).unwrap(), text);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let outcome = ring().for_tag("orders").decode(&text);
        prop_assert!(outcome.is_err() || text.len() == 15);
    }
}

#[test]
fn the_ends_of_the_range_have_public_ids_and_larger_numbers_have_none() {
    let ids = ring().for_snowflakes();
    for id in [0, 1, u64::MAX >> 1] {
        assert_eq!(ids.decode(&ids.encode(id).unwrap()), Ok(id));
    }
    for id in [1 << 63, u64::MAX] {
        assert_eq!(ids.encode(id), Err(PublicIdError::TooLarge(id)));
    }
}

#[test]
fn encode_into_appends_and_a_refused_id_appends_nothing() {
    let ids = ring().for_tag("orders");
    let mut out = String::from("ord_");
    ids.encode_into(17, &mut out).unwrap();
    assert_eq!(out, format!("ord_{}", ids.encode(17).unwrap()));
    let before = out.clone();
    ids.encode_into(u64::MAX, &mut out).unwrap_err();
    assert_eq!(out, before);
}

#[test]
fn the_check_symbol_finds_every_single_wrong_symbol() {
    for (i, ciphertext) in ciphertexts().enumerate() {
        let right = written(KeyId::new(i as u8 % 32).unwrap(), ciphertext);
        assert!(text::read(&right).is_ok());
        for place in 0..right.len() {
            for symbol in SYMBOLS.chars().filter(|symbol| !right[place..].starts_with(*symbol)) {
                let mut wrong = right.clone();
                wrong.replace_range(place..=place, symbol.encode_utf8(&mut [0; 4]));
                assert!(text::read(&wrong).is_err(), "{wrong} passes for {right}");
            }
        }
    }
}

#[test]
fn the_check_symbol_finds_every_swap_of_two_symbols() {
    // The check is linear, so the two symbols and their places alone decide whether it finds a swap. These
    // texts put every two symbols in every two places.
    let mut tried = HashSet::new();
    let mut assert_found = |values: [u8; 14], i: usize, j: usize| {
        let right = of_values(values);
        let mut symbols: Vec<char> = right.chars().collect();
        if symbols[i] != symbols[j] {
            tried.insert((i, j, symbols[i], symbols[j]));
            symbols.swap(i, j);
            let wrong: String = symbols.iter().collect();
            assert!(text::read(&wrong).is_err(), "{wrong} passes for {right}");
        }
    };
    // The second symbol is below 8.
    let values_at = |place| 0..if place == 1 { 8 } else { 32 };
    for (i, j) in (0..15).flat_map(|i| (i + 1..15).map(move |j| (i, j))) {
        // The check symbol takes every value if one of the others does.
        let other = if j < 14 { j } else { 2 + usize::from(i == 2) };
        for (x, y) in values_at(i).flat_map(|x| values_at(other).map(move |y| (x, y))) {
            let mut values = [5; 14];
            (values[i], values[other]) = (x, y);
            assert_found(values, i, j);
        }
    }
    // 91 pairs of places with any two symbols, and 14 where one of the symbols is below 8.
    assert_eq!(tried.len(), 91 * 32 * 31 + 14 * 8 * 31);
}

#[test]
fn errors_name_the_character_its_position_and_the_remedy() {
    for (text, message) in [
        ("05bgxif99zvqqq6", "character 6 is 'i': write 1"),
        ("05bgxLf99zvqqq6", "character 6 is 'L': write 1"),
        ("05bgxof99zvqqq6", "character 6 is 'o': write 0"),
        ("05bgxOf99zvqqq6", "character 6 is 'O': write 0"),
        ("05bgxuf99zvqqq6", "character 6 is 'u': a public ID has no u, it may be a v"),
        ("05bgxCf99zvqqq6", "character 6 is 'C': write lowercase"),
        ("05bg xcf99zvqqq", "character 5 is ' ': leave it out"),
        (
            "05bgxéf99zvqqq6",
            "character 6 is 'é': a public ID has digits and lowercase letters, without i, l, o and u",
        ),
        (
            "08bgxcf99zvqqq6",
            "character 2 is '8': the second character of a public ID is a digit from 0 to 7",
        ),
        ("05bgxcf99zvqqq", "14 characters instead of 15"),
        ("05bgxcf99zvqqq66666", "19 characters instead of 15"),
        ("05bgxcf99zvqqq7", "the check symbol does not fit: at least one character is mistyped"),
        (
            "15bgxcf99zvqqqv",
            "there is no key 1: the key file has lost it, or another installation made this public ID",
        ),
    ] {
        assert_eq!(error(text), message);
    }
    assert_eq!(
        ring().for_tag("orders").encode(u64::MAX).unwrap_err().to_string(),
        "18446744073709551615 is above 2^63 - 1, so it is no ID of leafd"
    );
}

#[test]
fn equal_numbers_of_two_tags_or_two_keys_have_different_public_ids() {
    let texts =
        |ring: KeyRing| ["", "orders", "Orders", "orders "].map(|tag| ring.for_tag(tag).encode(17));
    let mut all = texts(ring()).to_vec();
    all.extend(texts(KeyRing::new([key(1)]).unwrap()));
    let ciphertexts: HashSet<_> =
        all.into_iter().map(|text| text.unwrap()[1..14].to_owned()).collect();
    assert_eq!(ciphertexts.len(), 8);
}
