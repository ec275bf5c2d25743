//! The tree as values: what was read of it, and what is to be written. Neither knows how it gets
//! there, so that the claim can be tried against a tree in memory.

use super::name::NodeName;
use super::quiet::{Sight, Vantage};
use super::record::{Fleet, Free, Holder, Leaf, Live};

/// Below it: a persistent node for each worker ID that was ever given, as Java Leaf has it.
pub const FOREVER: &str = "forever";
/// Below it: an ephemeral node for each instance that lives.
pub const TEMPORARY: &str = "temporary";
/// Below it: worker IDs that were given back.
pub const FREE: &str = "free";
/// What all agree on. Its version grows whenever a worker ID that was lost from the tree is put
/// back into it.
pub const FLEET: &str = "leafd";
/// Written only to learn ZooKeeper's time.
pub const CLOCK: &str = "leafd/clock";

/// The path of a worker ID's node.
#[must_use]
pub fn forever(name: &NodeName) -> String {
    format!("{FOREVER}/{name}")
}

/// The path of leafd's record of a worker ID.
#[must_use]
pub fn holder(name: &NodeName) -> String {
    format!("{FOREVER}/{name}/{FLEET}")
}

/// The path of a live instance's node.
#[must_use]
pub fn temporary(name: &NodeName) -> String {
    format!("{TEMPORARY}/{name}")
}

/// The path of a worker ID that was given back.
#[must_use]
pub fn free(name: &NodeName) -> String {
    format!("{FREE}/{name}")
}

/// One write; several are executed together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The node has this version.
    Check(String, i32),
    /// A persistent node.
    Create(String, Vec<u8>),
    /// A node that ends with the session.
    CreateEphemeral(String, Vec<u8>),
    /// New data; only if the node has this version, if one is given.
    Set(String, Vec<u8>, Option<i32>),
    /// No longer there; only if it has this version.
    Delete(String, i32),
}

/// A node's data with what ZooKeeper knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The data.
    pub value: T,
    /// Its version.
    pub version: i32,
    /// The transaction that made the node; grows with time.
    pub created: i64,
    /// The transaction that wrote the data last.
    pub modified: i64,
    /// When the data was written last, by ZooKeeper's clock (ms since 1970).
    pub modified_ms: u64,
}

/// What is recorded of a worker ID. Data that cannot be read is an error in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub name: NodeName,
    /// Java Leaf's record.
    pub leaf: Versioned<Result<Leaf, String>>,
    /// leafd's record; none of a Java Leaf's worker ID.
    pub holder: Option<Versioned<Result<Holder, String>>>,
}

impl Entry {
    /// What tells the last write of Java Leaf's record from every other.
    #[must_use]
    pub const fn sight(&self) -> Sight {
        let Versioned { created, modified, version, .. } = self.leaf;
        Sight { created, modified, version }
    }

    /// leafd's record, if it is there and can be read.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()?.value.as_ref().ok()
    }
}

/// What was read of the tree, piece by piece: each is at least as new as the beginning of the
/// reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// From where it was read.
    pub vantage: Vantage,
    /// ZooKeeper's clock at the beginning (ms since 1970).
    pub now_ms: u64,
    /// What all agree on.
    pub fleet: Versioned<Result<Fleet, String>>,
    /// Every worker ID that has an owner.
    pub nodes: Vec<NodeName>,
    /// The sequence that the next new node gets.
    pub next_sequence: u64,
    /// Every instance that lives.
    pub live: Vec<NodeName>,
    /// Every worker ID that was given back.
    pub free: Vec<NodeName>,
    /// The records of `nodes`, as far as they were asked for.
    pub entries: Vec<Entry>,
    /// The records of `live`, as far as they were asked for.
    pub lives: Vec<(NodeName, Versioned<Result<Live, String>>)>,
    /// The records of some of `free`.
    pub frees: Vec<(NodeName, Versioned<Result<Free, String>>)>,
}

impl View {
    /// The record of a worker ID.
    #[must_use]
    pub fn entry(&self, name: &NodeName) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Whether an instance lives under this name.
    #[must_use]
    pub fn is_live(&self, name: &NodeName) -> bool {
        self.live.contains(name)
    }
}

/// Which records to read besides the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Worker IDs of this identity, and of this sequence if one is given.
    pub identity: String,
    /// See above.
    pub sequence: Option<u64>,
    /// Of every worker ID whose owner does not live.
    pub survey: bool,
}

impl Wanted {
    /// Whether the record of `name` is wanted; `is_live` says whether its owner lives.
    #[must_use]
    pub fn includes(&self, name: &NodeName, is_live: bool) -> bool {
        name.identity() == self.identity
            || Some(name.sequence()) == self.sequence
            || self.survey && !is_live
    }
}
