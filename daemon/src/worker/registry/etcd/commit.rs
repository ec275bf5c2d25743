//! The writes of the claim, as one transaction each. A plain function: the records as they were read go in,
//! what to send comes out. etcd executes it only if nobody has written any of these keys since.

use std::collections::{BTreeMap, BTreeSet};

use super::client::Trouble;
use super::records::{self, Stored};
use super::wire::{Blob, DeleteRequest, Int, Operation, PutRequest, TxnRequest, Unchanged};
use crate::worker::claim::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::tree;

/// The records of some paths; those that are not there are missing.
pub(super) type Snapshot = BTreeMap<String, Stored>;

/// What becomes of a record.
#[derive(Debug, Clone)]
enum Fate<'a> {
    Kept,
    Gone,
    Written { record: &'a RegistryRecord, version: i32 },
}

struct Plan<'a> {
    before: &'a Snapshot,
    lease: i64,
    fates: BTreeMap<String, Fate<'a>>,
}

/// The paths on which the writes depend.
pub(super) fn paths(writes: &[RegistryWrite]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for write in writes {
        let key = match write {
            RegistryWrite::Check(key, _) | RegistryWrite::Absent(key) => key.clone(),
            RegistryWrite::Create(record) | RegistryWrite::Set(record, _) => record.key(),
            RegistryWrite::Delete(key, _) => key.clone(),
        };
        paths.insert(tree::path(&key));
        paths.extend(relative(write).as_ref().map(tree::path));
    }
    paths
}

/// As in a tree: a record of a holder is there only as long as the worker ID's is.
fn relative(write: &RegistryWrite) -> Option<Key> {
    match write {
        RegistryWrite::Create(RegistryRecord::Holder(name, _)) => Some(Key::leaf(name)),
        RegistryWrite::Delete(Key::Leaf(name), _) => Some(Key::holder(name)),
        _ => None,
    }
}

/// The transaction of the writes. `before` has the records at [`paths`]; `lease` is the session's.
///
/// # Errors
/// [`Trouble::Conflict`] if the records are not as the writes expect.
pub(super) fn plan(
    writes: &[RegistryWrite],
    before: &Snapshot,
    lease: i64,
    key: impl Fn(&str) -> Vec<u8>,
) -> Result<TxnRequest, Trouble> {
    let fates = paths(writes).into_iter().map(|path| (path, Fate::Kept)).collect();
    let mut plan = Plan { before, lease, fates };
    for write in writes {
        plan.take(write).ok_or(Trouble::Conflict)?;
    }
    let mut txn = TxnRequest::default();
    for (path, fate) in plan.fates {
        let there = before.get(&path);
        let modified = there.map_or(0, |there| there.modified);
        txn.compare.push(Unchanged::since(key(&path), modified));
        let key = Blob(key(&path));
        match fate {
            Fate::Gone if there.is_some() => {
                txn.success.push(Operation::Delete(DeleteRequest { key }));
            }
            Fate::Kept | Fate::Gone => {}
            Fate::Written { record, version } => {
                let writes = there.map_or(0, |there| there.writes);
                let value = Blob(records::bytes(record, writes - i64::from(version)));
                let is_live = matches!(record, RegistryRecord::Live(..));
                let lease = Int(if is_live { lease } else { 0 });
                txn.success.push(Operation::Put(PutRequest { key, value, lease }));
            }
        }
    }
    Ok(txn)
}

impl<'a> Plan<'a> {
    fn version(&self, key: &Key) -> Option<i32> {
        let path = tree::path(key);
        match self.fates.get(&path)? {
            Fate::Kept => self.before.get(&path).map(Stored::version),
            Fate::Gone => None,
            Fate::Written { version, .. } => Some(*version),
        }
    }

    fn set(&mut self, key: &Key, fate: Fate<'a>) {
        self.fates.insert(tree::path(key), fate);
    }

    /// One write; `None` if the records are not as it expects.
    fn take(&mut self, write: &'a RegistryWrite) -> Option<()> {
        match write {
            RegistryWrite::Check(key, expected) => {
                self.version(key).filter(|version| version == expected)?;
                let path = tree::path(key);
                if matches!((key, self.fates.get(&path)), (Key::Live(_), Some(Fate::Kept))) {
                    // Another session may have made a marker at its place.
                    let marker = self.before.get(&path);
                    marker.filter(|marker| marker.lease == self.lease)?;
                }
            }
            RegistryWrite::Absent(key) => self.is_absent(key)?,
            RegistryWrite::Create(record) => {
                self.is_absent(&record.key())?;
                if let Some(parent) = relative(write) {
                    self.version(&parent)?;
                }
                self.set(&record.key(), Fate::Written { record, version: 0 });
            }
            RegistryWrite::Set(record, expected) => {
                let version = self.version(&record.key())?;
                if expected.is_some_and(|expected| expected != version) {
                    return None;
                }
                let version = version.saturating_add(1);
                self.set(&record.key(), Fate::Written { record, version });
            }
            RegistryWrite::Delete(key, expected) => {
                self.version(key).filter(|version| version == expected)?;
                if let Some(child) = relative(write) {
                    self.is_absent(&child)?;
                }
                self.set(key, Fate::Gone);
            }
        }
        Some(())
    }

    fn is_absent(&self, key: &Key) -> Option<()> {
        self.version(key).is_none().then_some(())
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
