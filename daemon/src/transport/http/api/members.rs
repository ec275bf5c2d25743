//! How the members of JSON documents are read and written.

use leaf_client::wire::Span;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An ID, which is written as a string of digits. It is read from that, or from a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdText(pub(super) u64);

impl Serialize for IdText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for IdText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = IdText;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an ID: digits in a string, or a whole number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<IdText, E> {
        Ok(IdText(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<IdText, E> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = text.parse().ok().filter(|_| digits);
        parsed.map(IdText).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// The IDs from `start` to `end` − 1.
#[derive(Debug, Serialize)]
pub(super) struct SpanDocument {
    start: IdText,
    end: IdText,
}

impl From<Span> for SpanDocument {
    fn from(Span { start, end }: Span) -> Self {
        Self { start: IdText(start), end: IdText(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_string_of_digits_or_a_number_that_fits() {
        let read = |text: &str| serde_json::from_str::<IdText>(text).ok().map(|id| id.0);
        assert_eq!(read("\"18446744073709551615\""), Some(u64::MAX));
        assert_eq!(read("7"), Some(7));
        for wrong in
            ["-1", "1.0", "1e3", "\"\"", "\"+1\"", "\"18446744073709551616\"", "null", "[]"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(serde_json::to_string(&IdText(7)).unwrap(), "\"7\"");
    }
}
