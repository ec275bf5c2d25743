//! The records: Java Leaf's to the letter, and next to it leafd's own, since Java Leaf refuses a record
//! with a field that it does not know.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Java Leaf's record, in the node of a worker ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeafRecord {
    /// Where the instance is.
    pub(crate) ip: String,
    /// Its port, as Java Leaf writes it.
    pub(crate) port: String,
    /// The time of the last report (ms since 1970). A leafd reports no less than its ceiling, so an
    /// instance that begins after this repeats no ID.
    pub(crate) timestamp: u64,
}

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClaimPhase {
    /// Made, and not yet used: an instance that was cut off may still come back to this worker ID.
    Settling,
    /// In use.
    Held,
}

/// leafd's record, in a child of that node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderRecord {
    /// Of this form.
    pub(crate) version: u32,
    /// The name of the life that holds it. It is no secret, and no other life has it.
    pub(crate) nonce: String,
    /// How far the claim is.
    pub(crate) phase: ClaimPhase,
    /// Nothing had been issued at or past this when it was written (ms since 1970).
    pub(crate) ceiling: u64,
    /// Nothing is ever issued at or past this without another report (ms since 1970).
    pub(crate) limit: u64,
    /// The version of Java Leaf's record that was written together with this one. Any other version
    /// means that something that is not a leafd writes there.
    pub(crate) leaf_version: i32,
}

/// The ephemeral node of an instance that lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveRecord {
    /// Of this form.
    pub(crate) version: u32,
    /// As in [`HolderRecord`].
    pub(crate) nonce: String,
    /// Where its clock can be asked for.
    pub(crate) ip: String,
    /// The port of its peer listener; 0 when it has none.
    pub(crate) port: u16,
}

/// A worker ID that was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FreeRecord {
    /// Of this form.
    pub(crate) version: u32,
    /// Nothing may be issued with it before this (ms since 1970).
    pub(crate) not_before: u64,
}

/// What all instances must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetRecord {
    /// Of this form.
    pub(crate) version: u32,
    /// The layout, as configuration writes it: IDs of two layouts can be equal.
    pub(crate) layout: String,
}

/// The version of all of these.
pub(crate) const VERSION: u32 = 1;

/// Text of a record.
pub(crate) fn write(record: &impl Serialize) -> Vec<u8> {
    // Plain fields: it cannot fail.
    serde_json::to_vec(record).unwrap_or_default()
}

/// Reads a record.
///
/// # Errors
/// What is wrong with it, in words, with its beginning.
pub(crate) fn read<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
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
        let leaf = LeafRecord { ip: "10.0.0.7".into(), port: "8080".into(), timestamp: 5 };
        let text = write(&leaf);
        let expected = r#"{"ip":"10.0.0.7","port":"8080","timestamp":5}"#;
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        assert_eq!(read(&text), Ok(leaf));
    }

    #[test]
    fn the_other_records_are_read_as_they_are_written() {
        let holder = HolderRecord {
            version: VERSION,
            nonce: "n".into(),
            phase: ClaimPhase::Held,
            ceiling: 1,
            limit: 2,
            leaf_version: 3,
        };
        let text = String::from_utf8(write(&holder)).unwrap();
        assert!(text.contains(r#""phase":"held""#) && text.contains(r#""leafVersion":3"#));
        assert_eq!(read(text.as_bytes()), Ok(holder));
        let live = LiveRecord { version: 1, nonce: "n".into(), ip: "::1".into(), port: 8735 };
        assert_eq!(read(&write(&live)), Ok(live));
        let free = FreeRecord { version: 1, not_before: 9 };
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
            assert!(read::<LeafRecord>(data).is_err());
        }
        let long = vec![b'x'; 5000];
        assert!(read::<LeafRecord>(&long).unwrap_err().len() < 400);
    }
}
