//! What nodes hold: Java Leaf's record to the letter, and beside it leafd's own, since Java Leaf
//! refuses a record with a field that it does not know.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Java Leaf's record, in the node of a worker ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Where the instance is.
    pub ip: String,
    /// Its port, as Java Leaf writes it.
    pub port: String,
    /// The time of the last report (ms since 1970); a leafd reports no less than its ceiling, so
    /// that nobody who begins after this repeats an ID.
    pub timestamp: u64,
}

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Made, and not yet used: whoever was cut off may still come back to this worker ID.
    Settling,
    /// In use.
    Held,
}

/// leafd's record, in a child of that node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Of this form.
    pub version: u32,
    /// The name of the life that holds it; secret to nobody, equal in no two.
    pub nonce: String,
    /// How far the claim is.
    pub phase: Phase,
    /// Nothing had been issued at or past this when it was written (ms since 1970).
    pub ceiling: u64,
    /// Nothing is ever issued at or past this without another report (ms since 1970).
    pub limit: u64,
    /// The version of the node that was written with this: another one means that somebody who is
    /// not a leafd writes there.
    pub leaf_version: i32,
}

/// The ephemeral node of an instance that lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Of this form.
    pub version: u32,
    /// As in [`Holder`].
    pub nonce: String,
    /// Where its clock can be asked for.
    pub ip: String,
    /// The port of its peer listener; 0 when it has none.
    pub port: u16,
}

/// A worker ID that was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Free {
    /// Of this form.
    pub version: u32,
    /// Nothing may be issued with it before this (ms since 1970).
    pub not_before: u64,
}

/// What all instances must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Of this form.
    pub version: u32,
    /// The layout, as configuration writes it: IDs of two layouts can be equal.
    pub layout: String,
}

/// The version of all of these.
pub const VERSION: u32 = 1;

/// Text of a record.
#[must_use]
pub fn write(record: &impl Serialize) -> Vec<u8> {
    // Plain fields: it cannot fail.
    serde_json::to_vec(record).unwrap_or_default()
}

/// Reads a record.
///
/// # Errors
/// What is wrong with it, in words, with its beginning.
pub fn read<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|error| {
        let text: String = String::from_utf8_lossy(data).chars().take(100).collect();
        format!("{text:?} is not what leafd or Java Leaf writes: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_leafs_record_is_written_to_the_letter() {
        let leaf = Leaf { ip: "10.0.0.7".into(), port: "8080".into(), timestamp: 5 };
        let text = write(&leaf);
        let expected = r#"{"ip":"10.0.0.7","port":"8080","timestamp":5}"#;
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        assert_eq!(read(&text), Ok(leaf));
    }

    #[test]
    fn the_other_records_are_read_as_they_are_written() {
        let holder = Holder {
            version: VERSION,
            nonce: "n".into(),
            phase: Phase::Held,
            ceiling: 1,
            limit: 2,
            leaf_version: 3,
        };
        let text = String::from_utf8(write(&holder)).unwrap();
        assert!(text.contains(r#""phase":"held""#) && text.contains(r#""leafVersion":3"#));
        assert_eq!(read(text.as_bytes()), Ok(holder));
        let live = Live { version: 1, nonce: "n".into(), ip: "::1".into(), port: 8735 };
        assert_eq!(read(&write(&live)), Ok(live));
        let free = Free { version: 1, not_before: 9 };
        assert_eq!(read(&write(&free)), Ok(free));
    }

    #[test]
    fn what_is_no_record_is_an_error_that_shows_it() {
        for data in [
            &b""[..],
            b"7",
            b"{\"ip\":\"a\"}",
            b"\xff\xfe",
            b"{\"ip\":\"a\",\"port\":80,\"timestamp\":5}",
        ] {
            assert!(read::<Leaf>(data).is_err());
        }
        let long = vec![b'x'; 5000];
        assert!(read::<Leaf>(&long).unwrap_err().len() < 400);
    }
}
