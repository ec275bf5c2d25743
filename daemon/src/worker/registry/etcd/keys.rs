//! The keys of a fleet, as one session sees them: what is asked of etcd, and what its answers say of the
//! records. One thing at a time: the order of the answers shows whether the data went back.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::access::EtcdAccess;
use super::client::{EtcdClient, RANGE, READ, TOUCH, Trouble, WRITE};
use super::commit::{self, Snapshot};
use super::records::{self, Stored};
use super::wire::{
    Blob, Int, KeyValue, Operation, PutAnswer, PutRequest, RangeRequest, TxnAnswer, TxnRequest,
    Unchanged,
};
use super::witness::{self, Witness};
use crate::worker::claim::name::NodeName;
use crate::worker::claim::record::{self, FleetRecord, LeafRecord};
use crate::worker::claim::view::WorkerEntry;
use crate::worker::claim::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::{FoundAt, RegistryClock, tree};

/// The number that the next new worker ID gets.
const NEXT: &str = "leafd/next";

/// More names than these are found by reading a whole folder. Two records of each are half of what etcd
/// takes in a transaction.
const MOST_NAMED: usize = 32;

/// How often a number is tried to be taken that others take at the same time.
const TRIES: u32 = 8;

/// Behind the last path of a folder.
const AFTER: char = '0';

type Outcome<T> = Result<T, Trouble>;

pub(super) struct Keys {
    access: Arc<EtcdAccess>,
    pub(super) client: EtcdClient,
    witness: Witness,
    /// The session's.
    lease: i64,
}

impl Keys {
    pub(super) fn new(access: Arc<EtcdAccess>, client: EtcdClient, lease: i64) -> Self {
        Self { access, client, witness: Witness::default(), lease }
    }

    async fn transact(&mut self, is_write: bool, txn: &TxnRequest) -> Outcome<TxnAnswer> {
        let route = if is_write { &WRITE } else { &READ };
        let (answer, _): (TxnAnswer, _) = self.client.ask(route, txn).await?;
        self.witness.see(answer.header)?;
        Ok(answer)
    }

    /// The keys of each range, as they were at one time.
    async fn read(&mut self, ranges: Vec<RangeRequest>) -> Outcome<Vec<Vec<KeyValue>>> {
        let count = ranges.len();
        let success = ranges.into_iter().map(Operation::Range).collect();
        let txn = TxnRequest { compare: Vec::new(), success };
        let answer = self.transact(false, &txn).await?;
        if answer.responses.len() != count {
            let got = answer.responses.len();
            return Err(Trouble::Failed(format!("it answered {got} of {count} questions")));
        }
        Ok(answer.responses.into_iter().map(|one| one.response_range.kvs).collect())
    }

    /// Fails with a conflict, and writes nothing, if a key has changed.
    async fn write(&mut self, txn: &TxnRequest) -> Outcome<()> {
        if self.transact(true, txn).await?.succeeded { Ok(()) } else { Err(Trouble::Conflict) }
    }

    fn key(&self, path: &str) -> Vec<u8> {
        self.access.key(path)
    }

    fn one(&self, path: &str) -> RangeRequest {
        RangeRequest::one(self.key(path))
    }

    fn folder(&self, folder: &str, keys_only: bool) -> RangeRequest {
        let range_end = Some(Blob(self.key(&format!("{folder}{AFTER}"))));
        RangeRequest { key: Blob(self.key(&format!("{folder}/"))), range_end, keys_only }
    }

    /// The path of a key in the tree.
    fn path(&self, key: &KeyValue) -> Option<String> {
        let path = key.key.0.strip_prefix(self.key("").as_slice())?;
        String::from_utf8(path.to_vec()).ok()
    }

    fn snapshot(&self, found: impl IntoIterator<Item = KeyValue>) -> Snapshot {
        let stored = |key: KeyValue| Some((self.path(&key)?, Stored::of(&key)));
        found.into_iter().filter_map(stored).collect()
    }

    /// The records at these paths that are there, as they were at one time.
    async fn records(&mut self, folder: &str, paths: &BTreeSet<String>) -> Outcome<Snapshot> {
        if paths.is_empty() {
            return Ok(Snapshot::new());
        }
        let ranges = if paths.len() > 2 * MOST_NAMED {
            vec![self.folder(folder, false)]
        } else {
            paths.iter().map(|path| self.one(path)).collect()
        };
        let found = self.read(ranges).await?;
        Ok(self.snapshot(found.into_iter().flatten()))
    }

    /// Makes what etcd lacks.
    pub(super) async fn prepare(&mut self) -> Outcome<()> {
        // A look comes first: members may be tried in turn for it.
        let found = self.read(vec![self.one(tree::LEAFD)]).await?;
        if found.iter().any(|found| !found.is_empty()) {
            return Ok(());
        }
        let layout = self.access.layout.clone();
        let fleet = RegistryRecord::Fleet(FleetRecord { version: record::VERSION, layout });
        let key = self.key(tree::LEAFD);
        let value = Blob(records::bytes(&fleet, 0));
        let put = PutRequest { key: Blob(key.clone()), value, lease: Int(0) };
        let txn = TxnRequest {
            compare: vec![Unchanged::since(key, 0)],
            success: vec![Operation::Put(put)],
        };
        match self.write(&txn).await {
            // Somebody else was quicker.
            Err(Trouble::Conflict) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn clock(&mut self) -> Outcome<RegistryClock> {
        let key = Blob(self.key(tree::CLOCK));
        let put = PutRequest { key, value: Blob::default(), lease: Int(0) };
        let (answer, date_ms): (PutAnswer, _) = self.client.ask(&TOUCH, &put).await?;
        self.witness.see(answer.header)?;
        let date_ms = date_ms.ok_or_else(|| Trouble::Failed("it does not tell the time".into()))?;
        // The end of that second: what is over by then may be over now, and what is released waits longer.
        let now_ms = date_ms.saturating_add(999);
        Ok(RegistryClock { now_ms, epoch: witness::epoch(answer.header) })
    }

    pub(super) async fn fleet(&mut self) -> Outcome<Option<Stored>> {
        let found = self.read(vec![self.one(tree::LEAFD)]).await?;
        Ok(found.iter().flatten().next().map(Stored::of))
    }

    pub(super) async fn owned(&mut self) -> Outcome<(Vec<NodeName>, u64)> {
        let ranges = vec![self.folder(tree::FOREVER, true), self.one(NEXT)];
        let found = self.read(ranges).await?;
        let names = self.names(tree::FOREVER, found.first().into_iter().flatten());
        Ok((names, next(found.get(1).into_iter().flatten().next())?))
    }

    pub(super) async fn names_in(&mut self, folder: &str) -> Outcome<Vec<NodeName>> {
        let found = self.read(vec![self.folder(folder, true)]).await?;
        Ok(self.names(folder, found.iter().flatten()))
    }

    /// Below a worker ID is the record of its holder, which is no name.
    fn names<'a>(&self, folder: &str, found: impl Iterator<Item = &'a KeyValue>) -> Vec<NodeName> {
        let name = |key: &KeyValue| {
            NodeName::parse(self.path(key)?.strip_prefix(folder)?.strip_prefix('/')?)
        };
        let mut names: Vec<_> = found.filter_map(name).collect();
        names.sort_unstable();
        names
    }

    pub(super) async fn each<T: DeserializeOwned>(
        &mut self,
        folder: &str,
        names: Vec<NodeName>,
        key: fn(&NodeName) -> Key,
    ) -> Outcome<FoundAt<T>> {
        let paths = names.iter().map(|name| tree::path(&key(name))).collect();
        let found = self.records(folder, &paths).await?;
        let found = names.into_iter().filter_map(|name| {
            let record = found.get(&tree::path(&key(&name)))?.versioned();
            Some((name, record))
        });
        Ok(found.collect())
    }

    pub(super) async fn entries(&mut self, names: Vec<NodeName>) -> Outcome<Vec<WorkerEntry>> {
        let both = |name: &NodeName| [Key::leaf(name), Key::holder(name)];
        let paths = names.iter().flat_map(both).map(|key| tree::path(&key)).collect();
        // At one time, so that the two records of a worker ID belong together.
        let found = self.records(tree::FOREVER, &paths).await?;
        let entries = names.into_iter().filter_map(|name| {
            let [leaf, holder] = both(&name).map(|key| found.get(&tree::path(&key)));
            let (leaf, holder) = (leaf?.versioned(), holder.map(Stored::versioned));
            Some(WorkerEntry { name, leaf, holder })
        });
        Ok(entries.collect())
    }

    /// Makes a worker ID that nobody ever had.
    pub(super) async fn create(&mut self, identity: &str, leaf: &LeafRecord) -> Outcome<NodeName> {
        for _ in 0..TRIES {
            let found = self.read(vec![self.one(NEXT)]).await?;
            let counter = found.iter().flatten().next();
            let number = next(counter)?;
            let name = NodeName::new(identity, number);
            let record = RegistryRecord::Leaf(name.clone(), leaf.clone());
            let created = [RegistryWrite::Create(record)];
            let mut txn =
                commit::plan(&created, &Snapshot::new(), self.lease, |path| self.key(path))?;
            let modified = counter.map_or(0, |counter| counter.mod_revision.0);
            txn.compare.push(Unchanged::since(self.key(NEXT), modified));
            let (key, value) = (Blob(self.key(NEXT)), Blob((number + 1).to_string().into_bytes()));
            txn.success.push(Operation::Put(PutRequest { key, value, lease: Int(0) }));
            match self.write(&txn).await {
                Err(Trouble::Conflict) => {}
                other => return other.map(|()| name),
            }
        }
        Err(Trouble::Conflict)
    }

    /// All or nothing.
    pub(super) async fn commit(&mut self, writes: &[RegistryWrite]) -> Outcome<()> {
        let paths = commit::paths(writes);
        let ranges = paths.iter().map(|path| self.one(path)).collect();
        let found = self.read(ranges).await?;
        let before = self.snapshot(found.into_iter().flatten());
        let txn = commit::plan(writes, &before, self.lease, |path| self.key(path))?;
        self.write(&txn).await
    }

    /// Finds a member that answers.
    pub(super) async fn greet(&mut self) -> Outcome<()> {
        let (answer, _): (PutAnswer, _) = self.client.ask(&RANGE, &self.one(tree::LEAFD)).await?;
        self.witness.see(answer.header)
    }
}

/// The number in the counter.
fn next(counter: Option<&KeyValue>) -> Outcome<u64> {
    let Some(counter) = counter else { return Ok(0) };
    let text = String::from_utf8_lossy(&counter.value.0);
    text.parse().ok().filter(|number| *number < u64::MAX).ok_or_else(|| {
        Trouble::Failed(format!(
            "the key {NEXT} has {text:?}, which is not the number that leafd writes"
        ))
    })
}
