//! Public IDs by leafd's own keys, for callers that have none. Plain functions of a call and the keys.

use leaf_client::form::public::KeyRing;
use leaf_client::wire::{Call, ErrorCode, MAX_PUBLIC_IDS, Reply, WireError};

use super::answers::bad_tag;
use crate::ids::BizTag;

/// A call that makes or reads public IDs.
#[derive(Debug, Clone, Copy)]
pub(super) enum PublicCall<'a> {
    Encode(&'a [u64]),
    Decode(&'a [&'a str]),
}

impl<'a> PublicCall<'a> {
    /// The call and its tag, which is empty for snowflake IDs; `None` for all other calls.
    pub(super) fn of(call: &'a Call<'_>) -> Option<(&'a str, Self)> {
        match call {
            Call::PublicEncode { tag, ids } => Some((tag, Self::Encode(ids))),
            Call::PublicDecode { tag, public_ids } => Some((tag, Self::Decode(public_ids))),
            _ => None,
        }
    }

    pub(super) const fn count(self) -> usize {
        match self {
            Self::Encode(ids) => ids.len(),
            Self::Decode(public_ids) => public_ids.len(),
        }
    }

    /// Checks what can be told without keys.
    ///
    /// # Errors
    /// `BadTag` and `BadCount`.
    pub(super) fn check(self, tag: &str) -> Result<(), WireError> {
        if !tag.is_empty() {
            BizTag::new(tag).map_err(bad_tag)?;
        }
        let count = self.count();
        if (1..=MAX_PUBLIC_IDS).contains(&count) {
            return Ok(());
        }
        let text = format!("{count} in one call is not between 1 and {MAX_PUBLIC_IDS}");
        Err(WireError::new(ErrorCode::BadCount, text).with_detail(MAX_PUBLIC_IDS as u64))
    }

    /// The answer. One element that is wrong refuses the whole list.
    ///
    /// # Errors
    /// `NotConfigured` without keys, and `BadPublicId`.
    pub(super) fn answer(self, tag: &str, keys: Option<&KeyRing>) -> Result<Reply, WireError> {
        let keys = keys.ok_or_else(|| {
            let text = "leafd has no keys of public IDs (public.key-file)";
            WireError::new(ErrorCode::NotConfigured, text)
        })?;
        let public = if tag.is_empty() { keys.for_snowflakes() } else { keys.for_tag(tag) };
        match self {
            Self::Encode(ids) => {
                let texts = ids.iter().enumerate().map(|(at, id)| {
                    public.encode(*id).map_err(|error| bad(at, &error.to_string()))
                });
                texts.collect::<Result<_, _>>().map(Reply::PublicIds)
            }
            Self::Decode(public_ids) => {
                let numbers = public_ids.iter().enumerate().map(|(at, text)| {
                    let quoted = quoted(text);
                    public.decode(text).map_err(|error| bad(at, &format!("{quoted}: {error}")))
                });
                numbers.collect::<Result<_, _>>().map(Reply::PublicNumbers)
            }
        }
    }
}

/// The text for a message: a caller may send a long one.
fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    let start: String = text.chars().take(MOST).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{more}")
}

fn bad(at: usize, why: &str) -> WireError {
    WireError::new(ErrorCode::BadPublicId, format!("element {at}, {why}")).with_detail(at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the published vectors.
    fn keys() -> KeyRing {
        let vectors = include_str!("../../../protocol/public-ids.json");
        let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
        let key = vectors["keys"][0]["hex"].as_str().unwrap();
        KeyRing::parse(&format!("0 {key}")).unwrap()
    }

    #[test]
    fn numbers_become_the_published_texts_and_these_the_numbers() {
        let keys = keys();
        let made = PublicCall::Encode(&[17, i64::MAX as u64]).answer("orders", Some(&keys));
        let Ok(Reply::PublicIds(texts)) = made else { panic!("{made:?}") };
        assert_eq!(texts[0], "05bgxcf99zvqqq6");
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let read = PublicCall::Decode(&texts).answer("orders", Some(&keys));
        assert_eq!(read, Ok(Reply::PublicNumbers(vec![17, i64::MAX as u64])));
        let other = PublicCall::Decode(&texts).answer("", Some(&keys));
        assert!(matches!(other, Ok(Reply::PublicNumbers(ids)) if ids[0] != 17));
    }

    #[test]
    fn an_error_names_the_element_and_quotes_no_more_than_its_start() {
        let keys = keys();
        let long = "0".repeat(4000);
        for (call, at, told) in [
            (PublicCall::Encode(&[1, 1 << 63]), 1, "element 1, 9223372036854775808 is above"),
            (PublicCall::Decode(&["05bgxcf99zvqqq6", "05bgxcf99zvqqqi"]), 1, "write 1"),
            (PublicCall::Decode(&["15bgxcf99zvqqq6"]), 0, "15bgxcf99zvqqq6"),
            (PublicCall::Decode(&[&long]), 0, "\"…: 4000 characters instead of 15"),
            (PublicCall::Decode(&[""]), 0, "0 characters"),
        ] {
            let error = call.answer("orders", Some(&keys)).unwrap_err();
            assert_eq!((error.code(), error.detail), (ErrorCode::BadPublicId, at));
            assert!(error.message.contains(told) && error.message.len() < 300, "{}", error.message);
        }
    }

    #[test]
    fn without_keys_or_with_nothing_or_too_much_there_is_no_answer() {
        let call = PublicCall::Encode(&[17]);
        assert_eq!(call.answer("orders", None).unwrap_err().code(), ErrorCode::NotConfigured);
        assert!(call.check("").is_ok() && call.check("orders").is_ok());
        assert_eq!(call.check("a\nb").unwrap_err().code(), ErrorCode::BadTag);
        for count in [0, MAX_PUBLIC_IDS + 1] {
            let error = PublicCall::Encode(&vec![1; count]).check("").unwrap_err();
            assert_eq!((error.code(), error.detail), (ErrorCode::BadCount, 32));
        }
    }
}
