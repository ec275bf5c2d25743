//! Keys with records, as etcd has them.
//!
//! etcd cannot remove a key and make it again in one transaction. Where the claim wants that, the key is
//! overwritten, and the record says how many of the key's versions belong to the one before.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::wire::KeyValue;
use crate::worker::claim::record;
use crate::worker::claim::view::Versioned;
use crate::worker::claim::write::RegistryRecord;
use crate::worker::registry::{Found, tree};

/// The field for the versions that do not count.
const OVERWRITES: &str = "overwrites";

/// A key that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    value: Vec<u8>,
    /// How often the key was written since it was made.
    pub(super) writes: i64,
    pub(super) created: i64,
    pub(super) modified: i64,
    pub(super) lease: i64,
    beside: Beside,
}

/// Fields that any of the records may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Beside {
    overwrites: i64,
    timestamp: u64,
    not_before: u64,
}

impl Stored {
    pub(super) fn of(found: &KeyValue) -> Self {
        let value = found.value.0.clone();
        Self {
            writes: found.version.0,
            created: found.create_revision.0,
            modified: found.mod_revision.0,
            lease: found.lease.0,
            // An unreadable record is for the claim to judge.
            beside: serde_json::from_slice(&value).unwrap_or_default(),
            value,
        }
    }

    /// How often the record was written since it was made.
    pub(super) fn version(&self) -> i32 {
        let version = self.writes.saturating_sub(1).saturating_sub(self.beside.overwrites);
        i32::try_from(version).unwrap_or(if version < 0 { i32::MIN } else { i32::MAX })
    }

    pub(super) fn versioned<T: DeserializeOwned>(&self) -> Found<T> {
        Versioned {
            value: record::read(&self.value),
            version: self.version(),
            created: self.created,
            modified: self.modified,
            // etcd does not record when a key was written. No rule of the claim asks for it where ages are
            // observed; for an operator, the time in the record is as good.
            modified_ms: self.beside.timestamp.max(self.beside.not_before),
        }
    }
}

/// The bytes of a record, of whose key so many versions belong to earlier ones.
pub(super) fn bytes(record: &RegistryRecord, overwrites: i64) -> Vec<u8> {
    let bytes = tree::bytes(record);
    if overwrites == 0 {
        return bytes;
    }
    let mut fields: serde_json::Map<_, _> = serde_json::from_slice(&bytes).unwrap_or_default();
    fields.insert(OVERWRITES.to_owned(), overwrites.into());
    serde_json::to_vec(&fields).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Blob, Int};
    use super::*;
    use crate::worker::claim::name::NodeName;
    use crate::worker::claim::record::LeafRecord;

    fn stored(value: Vec<u8>, writes: i64) -> Stored {
        let (value, version) = (Blob(value), Int(writes));
        Stored::of(&KeyValue { value, version, mod_revision: Int(9), ..KeyValue::default() })
    }

    #[test]
    fn a_record_is_read_as_it_was_written_whatever_it_overwrites() {
        let leaf = LeafRecord { ip: "10.0.0.7".into(), port: "8080".into(), timestamp: 5 };
        let record = RegistryRecord::Leaf(NodeName::new("a", 0), leaf.clone());
        for (overwrites, writes, version) in [(0, 1, 0), (0, 4, 3), (4, 5, 0), (4, 7, 2)] {
            let found: Found<LeafRecord> = stored(bytes(&record, overwrites), writes).versioned();
            assert_eq!((found.value, found.version), (Ok(leaf.clone()), version));
            assert_eq!((found.modified, found.modified_ms), (9, 5));
        }
        assert_eq!(bytes(&record, 0), tree::bytes(&record));
    }

    #[test]
    fn what_is_no_record_is_unreadable_and_has_a_version() {
        for value in [&b""[..], b"7", b"{\"overwrites\":\"x\"}", b"\xff"] {
            let found: Found<LeafRecord> = stored(value.to_vec(), 3).versioned();
            assert!(found.value.is_err());
            assert_eq!((found.version, found.modified_ms), (2, 0));
        }
        assert_eq!(stored(b"{\"overwrites\":9223372036854775807}".to_vec(), 1).version(), i32::MIN);
    }
}
