//! A registry in memory that behaves as ZooKeeper does, for the tests of the claim. A session of it
//! reads piece by piece, so that others can write in between.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use super::name::NodeName;
use super::quiet::Vantage;
use super::record::{FleetRecord, FreeRecord, HolderRecord, LeafRecord, LiveRecord};
use super::view::{Versioned, WorkerEntry};
use super::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::{
    Answer, Found, FoundAt, RegistryClock, RegistryError, RegistrySession,
};

#[derive(Debug, Clone)]
struct Node {
    record: RegistryRecord,
    version: i32,
    created: i64,
    modified: i64,
    modified_ms: u64,
    session: Option<u64>,
}

/// The records.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: BTreeMap<Key, Node>,
    transactions: i64,
    next_sequence: u64,
    layout: String,
}

/// Which names: of worker IDs that have an owner, that live, that were given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folder {
    Owned,
    Live,
    Free,
}

impl Tree {
    pub(crate) fn new(layout: &str) -> Self {
        let layout = layout.to_owned();
        let mut tree = Self { nodes: BTreeMap::new(), transactions: 0, next_sequence: 0, layout };
        tree.wipe();
        tree
    }

    /// All or nothing.
    pub(crate) fn execute(&mut self, writes: &[RegistryWrite], session: u64, now_ms: u64) -> bool {
        let next_sequence = self.next_sequence;
        self.transactions += 1;
        let mut before = Vec::new();
        let all = writes.iter().all(|write| self.one(write, session, now_ms, &mut before));
        if !all {
            for (key, node) in before.into_iter().rev() {
                match node {
                    Some(node) => self.nodes.insert(key, node),
                    None => self.nodes.remove(&key),
                };
            }
            self.next_sequence = next_sequence;
        }
        all
    }

    fn one(
        &mut self,
        write: &RegistryWrite,
        session: u64,
        now_ms: u64,
        before: &mut Vec<(Key, Option<Node>)>,
    ) -> bool {
        match write {
            RegistryWrite::Check(key, version) => self.has(key, *version),
            RegistryWrite::Absent(key) => !self.nodes.contains_key(key),
            RegistryWrite::Create(record) => {
                before.push((record.key(), self.nodes.get(&record.key()).cloned()));
                self.make(record.clone(), session, now_ms)
            }
            RegistryWrite::Set(record, version) => {
                let key = record.key();
                let Some(node) = self.nodes.get_mut(&key) else { return false };
                if version.is_some_and(|version| version != node.version) {
                    return false;
                }
                before.push((key, Some(node.clone())));
                node.version += 1;
                node.record = record.clone();
                node.modified_ms = now_ms;
                node.modified = self.transactions;
                true
            }
            RegistryWrite::Delete(key, version) => {
                let has_child = match key {
                    Key::Leaf(name) => self.nodes.contains_key(&Key::holder(name)),
                    _ => false,
                };
                if has_child || !self.has(key, *version) {
                    return false;
                }
                before.push((key.clone(), self.nodes.remove(key)));
                true
            }
        }
    }

    fn has(&self, key: &Key, version: i32) -> bool {
        self.nodes.get(key).is_some_and(|node| node.version == version)
    }

    fn make(&mut self, record: RegistryRecord, session: u64, now_ms: u64) -> bool {
        let key = record.key();
        let has_parent = match &key {
            Key::Holder(name) => self.nodes.contains_key(&Key::leaf(name)),
            _ => true,
        };
        if !has_parent || self.nodes.contains_key(&key) {
            return false;
        }
        // Every node that is made counts, and none that is deleted.
        if matches!(key, Key::Leaf(_)) {
            self.next_sequence += 1;
        }
        let session = matches!(key, Key::Live(_)).then_some(session);
        let created = self.transactions;
        let (modified, modified_ms) = (created, now_ms);
        self.nodes
            .insert(key, Node { record, version: 0, created, modified, modified_ms, session });
        true
    }

    /// `None` when the name that it would get is there already.
    pub(crate) fn create_sequential(
        &mut self,
        identity: &str,
        leaf: LeafRecord,
        now_ms: u64,
    ) -> Option<NodeName> {
        self.transactions += 1;
        let name = NodeName::new(identity, self.next_sequence);
        self.make(RegistryRecord::Leaf(name.clone(), leaf), 0, now_ms).then_some(name)
    }

    pub(crate) fn end_session(&mut self, session: u64) {
        self.nodes.retain(|_, node| node.session != Some(session));
    }

    pub(crate) fn sessions(&self) -> Vec<u64> {
        self.nodes.values().filter_map(|node| node.session).collect()
    }

    /// As after a loss of all data.
    pub(crate) fn wipe(&mut self) {
        self.nodes.clear();
        self.next_sequence = 0;
        let fleet = FleetRecord { version: 1, layout: self.layout.clone() };
        assert!(self.execute(&[RegistryWrite::Create(RegistryRecord::Fleet(fleet))], 0, 0));
    }

    /// As a Java Leaf does, without a look at the version.
    pub(crate) fn overwrite(&mut self, record: RegistryRecord, now_ms: u64) -> bool {
        self.execute(&[RegistryWrite::Set(record, None)], 0, now_ms)
    }

    /// In order, as sessions list them.
    pub(crate) fn names(&self, folder: Folder) -> Vec<NodeName> {
        let first = NodeName::new("", 0);
        let from = match folder {
            Folder::Owned => Key::Leaf(first),
            Folder::Live => Key::Live(first),
            Folder::Free => Key::Free(first),
        };
        let names = self.nodes.range(from..).map_while(|(key, _)| match (folder, key) {
            (Folder::Owned, Key::Leaf(name))
            | (Folder::Live, Key::Live(name))
            | (Folder::Free, Key::Free(name)) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    fn read<T>(
        &self,
        key: &Key,
        value: impl FnOnce(&RegistryRecord) -> Option<T>,
    ) -> Option<Found<T>> {
        let node = self.nodes.get(key)?;
        let Node { version, created, modified, modified_ms, .. } = *node;
        let value = Ok(value(&node.record)?);
        Some(Versioned { value, version, created, modified, modified_ms })
    }

    fn fleet(&self) -> Option<Found<FleetRecord>> {
        self.read(&Key::Fleet, |record| match record {
            RegistryRecord::Fleet(fleet) => Some(fleet.clone()),
            _ => None,
        })
    }

    pub(crate) fn leaf(&self, name: &NodeName) -> Option<Found<LeafRecord>> {
        self.read(&Key::leaf(name), |record| match record {
            RegistryRecord::Leaf(_, leaf) => Some(leaf.clone()),
            _ => None,
        })
    }

    pub(crate) fn holder(&self, name: &NodeName) -> Option<Found<HolderRecord>> {
        self.read(&Key::holder(name), |record| match record {
            RegistryRecord::Holder(_, holder) => Some(holder.clone()),
            _ => None,
        })
    }

    fn live(&self, name: &NodeName) -> Option<Found<LiveRecord>> {
        self.read(&Key::live(name), |record| match record {
            RegistryRecord::Live(_, live) => Some(live.clone()),
            _ => None,
        })
    }

    fn free(&self, name: &NodeName) -> Option<Found<FreeRecord>> {
        self.read(&Key::free(name), |record| match record {
            RegistryRecord::Free(_, free) => Some(free.clone()),
            _ => None,
        })
    }
}

/// The servers that keep the tree, and what sessions notice of them.
#[derive(Debug)]
pub(crate) struct SimulatedEnsemble {
    pub(crate) tree: Tree,
    /// Their clock (ms since 1970).
    pub(crate) now_ms: u64,
    pub(crate) epoch: i64,
    /// How many outages there have been.
    pub(crate) outages: u64,
    /// After so long a session that is not heard of has ended.
    pub(crate) session_ms: u64,
    /// Sessions that have ended.
    pub(crate) ended: HashSet<u64>,
}

/// The ensemble, as everybody in a simulation shares it.
pub(crate) type SharedSimulatedEnsemble = Arc<Mutex<SimulatedEnsemble>>;

/// One session. Each call takes a moment, in which others may act.
pub(crate) struct ModelSession {
    ensemble: SharedSimulatedEnsemble,
    id: u64,
}

impl ModelSession {
    pub(crate) const fn new(ensemble: SharedSimulatedEnsemble, id: u64) -> Self {
        Self { ensemble, id }
    }

    fn lock(&self) -> MutexGuard<'_, SimulatedEnsemble> {
        self.ensemble.lock().unwrap()
    }

    /// The answer comes a moment after the question.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&mut SimulatedEnsemble) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let answer = read(&mut self.lock());
            OthersFirst::default().await;
            Ok(answer)
        })
    }
}

/// Others come first, once.
#[derive(Default)]
struct OthersFirst {
    is_over: bool,
}

impl Future for OthersFirst {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.is_over, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl RegistrySession for ModelSession {
    fn is_connected(&self) -> bool {
        !self.lock().ended.contains(&self.id)
    }

    fn prepare(&self) -> Answer<'_, ()> {
        // The tree is never without its folders.
        self.answer(|_| ())
    }

    fn clock(&self) -> Answer<'_, RegistryClock> {
        self.answer(|it| RegistryClock { now_ms: it.now_ms, epoch: it.epoch })
    }

    fn vantage(&self, epoch: i64) -> Vantage {
        let it = self.lock();
        let session = i64::try_from(self.id).unwrap();
        Vantage { session, disturbances: it.outages, epoch, session_ms: it.session_ms }
    }

    fn fleet(&self) -> Answer<'_, Option<Found<FleetRecord>>> {
        self.answer(|it| it.tree.fleet())
    }

    fn owned(&self) -> Answer<'_, (Vec<NodeName>, u64)> {
        self.answer(|it| (it.tree.names(Folder::Owned), it.tree.next_sequence))
    }

    fn live(&self) -> Answer<'_, Vec<NodeName>> {
        self.answer(|it| it.tree.names(Folder::Live))
    }

    fn free(&self) -> Answer<'_, Vec<NodeName>> {
        self.answer(|it| it.tree.names(Folder::Free))
    }

    fn entries<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, Vec<WorkerEntry>> {
        Box::pin(async move {
            let leafs = self.answer(|it| {
                let leaf = |name: &NodeName| Some((name.clone(), it.tree.leaf(name)?));
                names.iter().filter_map(leaf).collect::<Vec<_>>()
            });
            let leafs = leafs.await?;
            let entries = self.answer(|it| {
                let entry = |(name, leaf)| {
                    let holder = it.tree.holder(&name);
                    WorkerEntry { name, leaf, holder }
                };
                leafs.into_iter().map(entry).collect()
            });
            entries.await
        })
    }

    fn live_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<LiveRecord>> {
        self.answer(|it| {
            let live = |name: &NodeName| Some((name.clone(), it.tree.live(name)?));
            names.iter().filter_map(live).collect()
        })
    }

    fn free_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<FreeRecord>> {
        self.answer(|it| {
            let free = |name: &NodeName| Some((name.clone(), it.tree.free(name)?));
            names.iter().filter_map(free).collect()
        })
    }

    fn create<'a>(&'a self, identity: &'a str, leaf: &'a LeafRecord) -> Answer<'a, NodeName> {
        Box::pin(async move {
            let mut it = self.lock();
            let now_ms = it.now_ms;
            let made = it.tree.create_sequential(identity, leaf.clone(), now_ms);
            made.ok_or(RegistryError::Conflict)
        })
    }

    fn commit<'a>(&'a self, writes: &'a [RegistryWrite]) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut it = self.lock();
            let now_ms = it.now_ms;
            let is_done = it.tree.execute(writes, self.id, now_ms);
            if is_done { Ok(()) } else { Err(RegistryError::Conflict) }
        })
    }
}
