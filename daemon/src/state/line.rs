//! Lines of text files that carry a CRC-32 checksum of themselves, and texts without spaces or odd bytes
//! in them. The journal and the lease log consist of such lines.

use std::fmt::Write as _;

/// Appends `CHECKSUM LINE` and a line break; the checksum is in hex.
pub(super) fn push_checked(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{:08x} {line}", crc32fast::hash(line.as_bytes()));
}

/// A line without its checksum; `None` if the checksum is wrong.
pub(super) fn checked(line: &str) -> Option<&str> {
    let (sum, rest) = line.split_once(' ')?;
    (format!("{:08x}", crc32fast::hash(rest.as_bytes())) == sum).then_some(rest)
}

/// Appends a text with spaces, percent signs and non-printable bytes percent-encoded.
pub(super) fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
}

/// The text that [`encode`] wrote; `None` if it is something else.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_survives_its_encoding(text in "\\PC{1,40}") {
            let mut encoded = String::new();
            encode(&text, &mut encoded);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decode(&encoded), Some(text));
        }
    }
}
