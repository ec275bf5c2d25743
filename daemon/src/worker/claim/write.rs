//! What is written into a registry: records, a few of them together or not at all.

use super::name::NodeName;
use super::record::{FleetRecord, FreeRecord, HolderRecord, LeafRecord, LiveRecord};

/// The place of a record. A registry maps it to a path, a row or a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// What all instances agree on. Its version grows whenever a worker ID that the registry had lost
    /// is put back.
    Fleet,
    /// The worker ID itself, for as long as it has an owner, with Java Leaf's record.
    Leaf(NodeName),
    /// leafd's record of a worker ID. It is there only as long as Java Leaf's is.
    Holder(NodeName),
    /// A live marker: it ends with the session that made it.
    Live(NodeName),
    /// A worker ID that was given back.
    Free(NodeName),
}

/// A record with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistryRecord {
    Fleet(FleetRecord),
    Leaf(NodeName, LeafRecord),
    Holder(NodeName, HolderRecord),
    Live(NodeName, LiveRecord),
    Free(NodeName, FreeRecord),
}

impl Key {
    pub(crate) fn leaf(name: &NodeName) -> Self {
        Self::Leaf(name.clone())
    }

    pub(crate) fn holder(name: &NodeName) -> Self {
        Self::Holder(name.clone())
    }

    pub(crate) fn live(name: &NodeName) -> Self {
        Self::Live(name.clone())
    }

    pub(crate) fn free(name: &NodeName) -> Self {
        Self::Free(name.clone())
    }
}

impl RegistryRecord {
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Fleet(_) => Key::Fleet,
            Self::Leaf(name, _) => Key::Leaf(name.clone()),
            Self::Holder(name, _) => Key::Holder(name.clone()),
            Self::Live(name, _) => Key::Live(name.clone()),
            Self::Free(name, _) => Key::Free(name.clone()),
        }
    }
}

/// One step of a commit. All steps are executed, in order, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistryWrite {
    /// Writes nothing. Fails unless the record has this version.
    Check(Key, i32),
    /// Writes nothing. Fails if there is such a record.
    Absent(Key),
    /// Fails if there is such a record.
    Create(RegistryRecord),
    /// Fails if there is no such record, or if it has another version than the one given.
    Set(RegistryRecord, Option<i32>),
    /// Fails unless the record has this version.
    Delete(Key, i32),
}
