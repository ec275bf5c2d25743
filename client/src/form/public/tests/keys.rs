//! Keys and the text of a key file.

use super::super::*;
use super::key;

/// Some hex digits that must never be shown.
const HEX: &str = "c0ffee11c0ffee12c0ffee13c0ffee14c0ffee15c0ffee16c0ffee17c0ffee18";
const OTHER: &str = "C0FFEE21C0FFEE22C0FFEE23C0FFEE24C0FFEE25C0FFEE26C0FFEE27C0FFEE28";

fn symbols(text: &str) -> String {
    KeyRing::parse(text).unwrap().key_ids().map(KeyId::symbol).collect()
}

/// The error of a text, which shows nothing of the keys.
fn error(text: &str) -> String {
    let error = KeyRing::parse(text).unwrap_err();
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.to_lowercase().contains("c0ffee"), "{shown}");
    }
    error.to_string()
}

#[test]
fn a_key_file_has_a_key_per_line_and_the_first_encodes() {
    let text = format!("# the new one, since May\n\n  z\t{HEX}  \n# the old one\n7 {OTHER}\n");
    assert_eq!(symbols(&text), "z7");
    assert!(KeyRing::parse(&text).unwrap().for_tag("").encode(1).unwrap().starts_with('z'));
    assert_eq!(symbols(&format!("0 {HEX}\r\n1 {OTHER}")), "01");
}

#[test]
fn digits_may_be_capitals() {
    let [small, capital] = [OTHER.to_lowercase(), OTHER.to_owned()]
        .map(|hex| KeyRing::parse(&format!("0 {hex}")).unwrap().for_tag("orders").encode(17));
    assert_eq!(small, capital);
}

#[test]
fn errors_name_the_line_and_the_remedy_and_show_no_key() {
    let words = "a line has two words: the key's ID and 64 hex digits";
    let id = "the key ID is one character of 0123456789abcdefghjkmnpqrstvwxyz";
    let generate = "openssl rand -hex 32 makes";
    for (text, message) in [
        (format!("0 {OTHER}\n\n{HEX}\n"), format!("line 3: {words}")),
        (format!("0 {HEX} # new"), format!("line 1: {words}")),
        (format!("{HEX} 0"), format!("line 1: {id}")),
        (format!("10 {HEX}"), format!("line 1: {id}")),
        (format!("u {HEX}"), format!("line 1: {id}")),
        (format!("A {HEX}"), format!("line 1: {id}")),
        (format!("é {HEX}"), format!("line 1: {id}")),
        (
            format!("0 {}", &HEX[1..]),
            format!("line 1: the key has 63 characters instead of 64 hex digits: {generate} one"),
        ),
        (
            format!("0 {HEX}00"),
            format!("line 1: the key has 66 characters instead of 64 hex digits: {generate} one"),
        ),
        (
            format!("0 {}", HEX.replace("e15", "é15")),
            format!("line 1: character 38 of the key is no hex digit: {generate} a key"),
        ),
        (
            format!("0 {}", HEX.replace("ee18", "eg18")),
            format!("line 1: character 62 of the key is no hex digit: {generate} a key"),
        ),
        (
            format!("0 {HEX}\n0 {OTHER}"),
            "line 2: an earlier key has the ID 0 already: give this one a free ID".into(),
        ),
        (
            format!("0 {HEX}\n1 {}", HEX.to_uppercase()),
            format!("line 2: it is the key 0 again: {generate} a new one"),
        ),
    ] {
        assert_eq!(error(&text), message, "{text}");
    }
    for text in ["", "\n \n", "# 0 nothing"] {
        assert!(error(text).starts_with("there is no key: write a line with"), "{text}");
    }
}

#[test]
fn a_key_of_one_repeated_byte_is_refused() {
    for byte in 0..=u8::MAX {
        let text = format!("0 {}", format!("{byte:02x}").repeat(32));
        let message =
            "line 1: the key repeats one byte, so it is not random: openssl rand -hex 32 makes one";
        assert_eq!(error(&text), message);
        assert!(matches!(PublicKey::new(KeyId::new(0).unwrap(), &[byte; 32]), Err(KeyError::Weak)));
    }
}

#[test]
fn a_ring_has_at_least_one_key_and_none_twice() {
    let refused = |keys: Vec<PublicKey>| KeyRing::new(keys).unwrap_err();
    assert_eq!(refused(vec![]), KeyRingError::NoKey);
    let zero = KeyId::new(0).unwrap();
    assert_eq!(refused(vec![key(0), key(0)]), KeyRingError::Key(KeyError::SameId(zero)));
    assert_eq!(KeyRing::new((0..32).map(key)).unwrap().key_ids().len(), 32);
}

#[test]
fn key_ids_are_the_symbols_of_the_alphabet() {
    let symbols: String = (0..32).map(|id| KeyId::new(id).unwrap().symbol()).collect();
    assert_eq!(symbols, "0123456789abcdefghjkmnpqrstvwxyz");
    for (id, symbol) in symbols.chars().enumerate() {
        assert_eq!(KeyId::from_symbol(symbol).map(KeyId::value), Some(id as u8));
    }
    assert_eq!(KeyId::new(32), None);
    let others: Vec<_> = ('\0'..='\u{300}').filter(|symbol| !symbols.contains(*symbol)).collect();
    assert!(others.into_iter().all(|symbol| KeyId::from_symbol(symbol).is_none()));
}

#[test]
fn debug_shows_no_key() {
    let ring = KeyRing::parse(&format!("k {HEX}")).unwrap();
    let ids = ring.for_tag("orders");
    let key = "PublicKey { id: KeyId(19), .. }";
    assert_eq!(format!("{ring:?}"), format!("KeyRing {{ keys: [{key}] }}"));
    assert_eq!(format!("{ids:?}"), format!("PublicIds {{ keys: [{key}], .. }}"));
}

#[test]
fn a_written_line_reads_as_the_same_key() {
    let key = PublicKey::generate(KeyId::new(31).unwrap()).unwrap();
    let mut line = Vec::new();
    key.write_line(&mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    assert_eq!((line.len(), &line[..2]), (67, "z "));
    let read = KeyRing::parse(&line).unwrap().for_tag("orders").encode(17);
    assert_eq!(read, KeyRing::new([key]).unwrap().for_tag("orders").encode(17));
}

#[test]
fn two_generated_keys_differ() {
    let [one, other] = [1, 2].map(|id| PublicKey::generate(KeyId::new(id).unwrap()).unwrap());
    assert!(!one.has_bytes_of(&other));
}
