//! What was read of a registry, as values. They do not know where they come from, so a test can make
//! them up.

use super::name::NodeName;
use super::quiet::{Vantage, WriteStamp};
use super::record::{FleetRecord, FreeRecord, HolderRecord, LeafRecord, LiveRecord};

/// A record with what the registry knows of it. A record that cannot be read is an error in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versioned<T> {
    pub(crate) value: T,
    /// Counts the writes since the record was made.
    pub(crate) version: i32,
    /// The transaction that made the record; grows with time.
    pub(crate) created: i64,
    /// The transaction that wrote it last.
    pub(crate) modified: i64,
    /// When it was written last, by the registry's clock (ms since 1970).
    pub(crate) modified_ms: u64,
}

/// What is recorded of a worker ID that has an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerEntry {
    pub(crate) name: NodeName,
    /// Java Leaf's record.
    pub(crate) leaf: Versioned<Result<LeafRecord, String>>,
    /// leafd's record; none of a Java Leaf's worker ID.
    pub(crate) holder: Option<Versioned<Result<HolderRecord, String>>>,
}

impl WorkerEntry {
    /// What tells the last write of Java Leaf's record from every other.
    pub(crate) const fn stamp(&self) -> WriteStamp {
        let Versioned { created, modified, version, .. } = self.leaf;
        WriteStamp { created, modified, version }
    }

    /// leafd's record, if it is there and can be read.
    pub(crate) fn holder(&self) -> Option<&HolderRecord> {
        self.holder.as_ref()?.value.as_ref().ok()
    }
}

/// What was read of a registry, piece by piece. Each piece is at least as new as the beginning of the
/// reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryView {
    /// From where it was read.
    pub(crate) vantage: Vantage,
    /// The registry's clock at the beginning (ms since 1970).
    pub(crate) now_ms: u64,
    /// What all instances agree on.
    pub(crate) fleet: Versioned<Result<FleetRecord, String>>,
    /// Every worker ID that has an owner.
    pub(crate) nodes: Vec<NodeName>,
    /// The number that the next new worker ID gets.
    pub(crate) next_sequence: u64,
    /// Every instance that lives.
    pub(crate) live: Vec<NodeName>,
    /// Every worker ID that was given back.
    pub(crate) free: Vec<NodeName>,
    /// The records of `nodes`, as far as they were asked for.
    pub(crate) entries: Vec<WorkerEntry>,
    /// The records of `live`, as far as they were asked for.
    pub(crate) lives: Vec<(NodeName, Versioned<Result<LiveRecord, String>>)>,
    /// The records of some of `free`.
    pub(crate) frees: Vec<(NodeName, Versioned<Result<FreeRecord, String>>)>,
}

impl RegistryView {
    /// The record of a worker ID.
    pub(crate) fn entry(&self, name: &NodeName) -> Option<&WorkerEntry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Whether an instance lives under this name.
    pub(crate) fn is_live(&self, name: &NodeName) -> bool {
        self.live.contains(name)
    }
}

/// Which records to read besides the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Those of this identity.
    pub(crate) identity: String,
    /// Those of this worker ID, whoever has it.
    pub(crate) sequence: Option<u64>,
    /// Those of every worker ID whose owner does not live.
    pub(crate) survey: bool,
}

impl Wanted {
    /// Whether the record of `name` is wanted; `is_live` says whether its owner lives.
    pub(crate) fn includes(&self, name: &NodeName, is_live: bool) -> bool {
        name.identity() == self.identity
            || Some(name.sequence()) == self.sequence
            || self.survey && !is_live
    }
}
