//! The vectors, which `tests/python/ff1.py` made: an implementation of its own, from the standard. When a
//! test here fails, the code is wrong: such public IDs are in use.

use serde_json::Value;

use super::super::ff1::{Domain, Ff1};
use super::super::*;

/// A link to the file in the folder `protocol`. Cargo packages the file in its place.
const VECTORS: &str = include_str!("public-ids.json");

fn vectors() -> Value {
    serde_json::from_str(VECTORS).expect(
        "tests/public-ids.json is a link to protocol/public-ids.json: check out with symbolic links",
    )
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_else(|| panic!("{key}: {entry}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn key_of(all: &Value, id: &str) -> PublicKey {
    let key = all["keys"].as_array().unwrap().iter().find(|key| text(key, "id") == id).unwrap();
    let id = KeyId::from_symbol(id.chars().next().unwrap()).unwrap();
    PublicKey::new(id, &bytes(text(key, "hex")).try_into().unwrap()).unwrap()
}

/// The keys of the file, as its own lines, with `first` in front.
fn ring(all: &Value, first: &str) -> KeyRing {
    let mut keys: Vec<_> = all["keys"].as_array().unwrap().iter().collect();
    keys.sort_by_key(|key| text(key, "id") != first);
    let lines: Vec<_> =
        keys.iter().map(|key| format!("{} {}\n", text(key, "id"), text(key, "hex"))).collect();
    KeyRing::parse(&lines.concat()).unwrap()
}

#[test]
fn every_vector_is_encoded_and_decoded() {
    let all = vectors();
    let vectors = all["vectors"].as_array().unwrap();
    assert!(vectors.len() >= 36, "the file has lost vectors");
    for vector in vectors {
        let ids = ring(&all, text(vector, "key")).for_tag(text(vector, "tag"));
        let id = text(vector, "id").parse().unwrap();
        assert_eq!(ids.encode(id).unwrap(), text(vector, "text"), "{vector}");
        assert_eq!(ids.decode(text(vector, "text")), Ok(id), "{vector}");
    }
}

#[test]
fn ff1_agrees_for_tweaks_of_every_length() {
    let all = vectors();
    let vectors = all["ff1"].as_array().unwrap();
    assert!(vectors.len() >= 20, "the file has lost vectors");
    for vector in vectors {
        let key = key_of(&all, text(vector, "key"));
        let length = vector["length"].as_u64().unwrap() as u32;
        let domain = Domain::new(2, length).unwrap();
        let ff1 = Ff1::new(key.aes(), domain, &bytes(text(vector, "tweak")));
        let right_bits = length.div_ceil(2);
        let halves = |name| {
            let number: u64 = text(vector, name).parse().unwrap();
            (number >> right_bits, number & ((1 << right_bits) - 1))
        };
        assert_eq!(ff1.encrypt(key.aes(), halves("plain")), halves("cipher"), "{vector}");
        assert_eq!(ff1.decrypt(key.aes(), halves("cipher")), halves("plain"), "{vector}");
    }
}

#[test]
fn old_keys_decode_and_the_first_encodes() {
    let all = vectors();
    for (first, other) in [("0", "z"), ("z", "0")] {
        let ids = ring(&all, first).for_tag("orders");
        assert!(ids.encode(17).unwrap().starts_with(first));
        let of_other = ring(&all, other).for_tag("orders").encode(17).unwrap();
        assert!(of_other.starts_with(other));
        assert_eq!(ids.decode(&of_other), Ok(17));
    }
}

#[test]
fn every_text_that_is_none_is_refused_as_the_vectors_say() {
    let all = vectors();
    let refused = all["refused"].as_array().unwrap();
    assert!(refused.len() >= 12, "the file has lost entries");
    for entry in refused {
        let error = ring(&all, "0").for_tag("orders").decode(text(entry, "text")).unwrap_err();
        let (kind, place) = match error {
            PublicIdError::Character { at, .. } => ("character", Some(at as u64)),
            PublicIdError::Length { .. } => ("length", None),
            PublicIdError::Check => ("check", None),
            PublicIdError::UnknownKey(_) => ("key", None),
            PublicIdError::TooLarge(_) => ("too large", None),
        };
        assert_eq!((kind, place), (text(entry, "error"), entry["at"].as_u64()), "{entry}");
    }
}
