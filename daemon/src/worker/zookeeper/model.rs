//! A tree in memory that behaves as ZooKeeper's, for the tests of the claim.

use std::collections::BTreeMap;

use super::name::NodeName;
use super::record;
use super::view::{self, Entry, Op, Versioned, View, Wanted};

#[derive(Debug, Clone)]
struct Node {
    data: Vec<u8>,
    version: i32,
    created: i64,
    modified_ms: u64,
    session: Option<u64>,
}

/// The tree below `/snowflake/<name>`.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    transactions: i64,
    next_sequence: u64,
}

impl Tree {
    pub(super) fn new(layout: &str) -> Self {
        let mut tree = Self { nodes: BTreeMap::new(), transactions: 0, next_sequence: 0 };
        let fleet = record::Fleet { version: 1, layout: layout.to_owned() };
        assert!(tree.execute(&[Op::Create(view::FLEET.into(), record::write(&fleet))], 0, 0));
        tree
    }

    /// All or nothing.
    pub(super) fn execute(&mut self, ops: &[Op], session: u64, now_ms: u64) -> bool {
        let before = self.clone();
        self.transactions += 1;
        let all = ops.iter().all(|op| self.one(op, session, now_ms));
        if !all {
            *self = before;
        }
        all
    }

    fn one(&mut self, op: &Op, session: u64, now_ms: u64) -> bool {
        match op {
            Op::Check(path, version) => {
                self.nodes.get(path).is_some_and(|node| node.version == *version)
            }
            Op::Create(path, data) => self.make(path, data, None, now_ms),
            Op::CreateEphemeral(path, data) => self.make(path, data, Some(session), now_ms),
            Op::Set(path, data, version) => {
                let Some(node) = self.nodes.get_mut(path) else { return false };
                if version.is_some_and(|version| version != node.version) {
                    return false;
                }
                node.version += 1;
                node.data.clone_from(data);
                node.modified_ms = now_ms;
                true
            }
            Op::Delete(path, version) => {
                let children = format!("{path}/");
                let right = self.nodes.get(path).is_some_and(|node| node.version == *version)
                    && !self.nodes.keys().any(|other| other.starts_with(&children));
                if right {
                    self.nodes.remove(path);
                }
                right
            }
        }
    }

    fn make(&mut self, path: &str, data: &[u8], session: Option<u64>, now_ms: u64) -> bool {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent = !parent.starts_with("forever/") || self.nodes.contains_key(parent);
        if !has_parent || self.nodes.contains_key(path) {
            return false;
        }
        if parent == view::FOREVER {
            self.next_sequence += 1;
        }
        let (data, created) = (data.to_vec(), self.transactions);
        let node = Node { data, version: 0, created, modified_ms: now_ms, session };
        self.nodes.insert(path.to_owned(), node);
        true
    }

    pub(super) fn create_sequential(&mut self, prefix: &str, data: &[u8], now_ms: u64) -> NodeName {
        self.transactions += 1;
        let name = format!("{prefix}{:010}", self.next_sequence);
        assert!(self.make(&format!("{}/{name}", view::FOREVER), data, None, now_ms));
        NodeName::parse(&name).unwrap()
    }

    pub(super) fn end_session(&mut self, session: u64) {
        self.nodes.retain(|_, node| node.session != Some(session));
    }

    /// As after a loss of all data.
    pub(super) fn wipe(&mut self) {
        self.nodes.retain(|path, _| path == view::FLEET);
        self.next_sequence = 0;
    }

    /// As a Java Leaf does, without a look at the version.
    pub(super) fn overwrite(&mut self, path: &str, data: &[u8], now_ms: u64) -> bool {
        self.execute(&[Op::Set(path.into(), data.into(), None)], 0, now_ms)
    }

    fn names(&self, parent: &str) -> Vec<NodeName> {
        let below = self.nodes.keys().filter_map(|path| path.strip_prefix(parent));
        let direct = below.filter_map(|rest| rest.strip_prefix('/'));
        direct.filter(|rest| !rest.contains('/')).filter_map(NodeName::parse).collect()
    }

    fn read<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
    ) -> Option<Versioned<Result<T, String>>> {
        let node = self.nodes.get(path)?;
        Some(Versioned {
            value: record::read(&node.data),
            version: node.version,
            created: node.created,
            modified_ms: node.modified_ms,
        })
    }

    pub(super) fn look(&self, wanted: &Wanted, now_ms: u64) -> View {
        let live = self.names(view::TEMPORARY);
        let nodes = self.names(view::FOREVER);
        let free = self.names(view::FREE);
        let entries = nodes.iter().filter(|name| wanted.includes(name, live.contains(name)));
        let entries = entries.filter_map(|name| {
            let (leaf, holder) = (self.read(&view::forever(name))?, self.read(&view::holder(name)));
            Some(Entry { name: name.clone(), leaf, holder })
        });
        let lives = live.iter().filter(|name| name.identity() == wanted.identity);
        let lives =
            lives.filter_map(|name| Some((name.clone(), self.read(&view::temporary(name))?)));
        let frees = free.iter();
        let frees = frees.filter_map(|name| Some((name.clone(), self.read(&view::free(name))?)));
        View {
            now_ms,
            fleet: self.read(view::FLEET).unwrap(),
            next_sequence: self.next_sequence,
            entries: entries.collect(),
            lives: lives.collect(),
            frees: frees.collect(),
            nodes,
            live,
            free,
        }
    }
}
