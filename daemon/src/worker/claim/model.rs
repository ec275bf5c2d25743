//! A tree in memory that behaves as ZooKeeper's, for the tests of the claim. It is read piece by
//! piece, as the real one is, so that others can write in between.

use std::collections::BTreeMap;

use super::name::NodeName;
use super::quiet::Vantage;
use super::record::{self, Fleet, Free, Holder, Leaf, Live};
use super::view::{self, Entry, Op, Versioned, View, Wanted};

/// A node's data, read once for all who look.
#[derive(Debug, Clone)]
enum Data {
    Leaf(Result<Leaf, String>),
    Holder(Result<Holder, String>),
    Live(Result<Live, String>),
    Free(Result<Free, String>),
    Fleet(Result<Fleet, String>),
}

impl Data {
    fn read(path: &str, data: &[u8]) -> Self {
        match path.split_once('/') {
            None => Self::Fleet(record::read(data)),
            Some((view::TEMPORARY, _)) => Self::Live(record::read(data)),
            Some((view::FREE, _)) => Self::Free(record::read(data)),
            Some((_, below)) if below.contains('/') => Self::Holder(record::read(data)),
            Some(_) => Self::Leaf(record::read(data)),
        }
    }
}

#[derive(Debug, Clone)]
struct Node {
    /// Below a folder.
    name: Option<NodeName>,
    data: Data,
    version: i32,
    created: i64,
    modified: i64,
    modified_ms: u64,
    session: Option<u64>,
}

/// The tree below `/snowflake/<name>`.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    transactions: i64,
    next_sequence: u64,
    layout: String,
}

impl Tree {
    pub(crate) fn new(layout: &str) -> Self {
        let layout = layout.to_owned();
        let mut tree = Self { nodes: BTreeMap::new(), transactions: 0, next_sequence: 0, layout };
        tree.wipe();
        tree
    }

    /// All or nothing.
    pub(crate) fn execute(&mut self, ops: &[Op], session: u64, now_ms: u64) -> bool {
        let next_sequence = self.next_sequence;
        self.transactions += 1;
        let mut before = Vec::new();
        let all = ops.iter().all(|op| self.one(op, session, now_ms, &mut before));
        if !all {
            for (path, node) in before.into_iter().rev() {
                match node {
                    Some(node) => self.nodes.insert(path, node),
                    None => self.nodes.remove(&path),
                };
            }
            self.next_sequence = next_sequence;
        }
        all
    }

    fn one(
        &mut self,
        op: &Op,
        session: u64,
        now_ms: u64,
        before: &mut Vec<(String, Option<Node>)>,
    ) -> bool {
        match op {
            Op::Check(path, version) => self.has(path, *version),
            Op::Create(path, data) => {
                before.push((path.clone(), self.nodes.get(path).cloned()));
                self.make(path, data, None, now_ms)
            }
            Op::CreateEphemeral(path, data) => {
                before.push((path.clone(), self.nodes.get(path).cloned()));
                self.make(path, data, Some(session), now_ms)
            }
            Op::Set(path, data, version) => {
                let Some(node) = self.nodes.get_mut(path) else { return false };
                if version.is_some_and(|version| version != node.version) {
                    return false;
                }
                before.push((path.clone(), Some(node.clone())));
                node.version += 1;
                node.data = Data::read(path, data);
                node.modified_ms = now_ms;
                node.modified = self.transactions;
                true
            }
            Op::Delete(path, version) => {
                let children = format!("{path}/");
                let mut after = self.nodes.range(children.clone()..);
                let has_children = after.next().is_some_and(|(it, _)| it.starts_with(&children));
                if has_children || !self.has(path, *version) {
                    return false;
                }
                before.push((path.clone(), self.nodes.remove(path)));
                true
            }
        }
    }

    fn has(&self, path: &str, version: i32) -> bool {
        self.nodes.get(path).is_some_and(|node| node.version == version)
    }

    fn make(&mut self, path: &str, data: &[u8], session: Option<u64>, now_ms: u64) -> bool {
        let (parent, below) = path.rsplit_once('/').unwrap_or(("", path));
        let has_parent = !parent.starts_with("forever/") || self.nodes.contains_key(parent);
        if !has_parent || self.nodes.contains_key(path) {
            return false;
        }
        // Every node that is made counts, and none that is deleted.
        if parent == view::FOREVER {
            self.next_sequence += 1;
        }
        let (name, data) = (NodeName::parse(below), Data::read(path, data));
        let created = self.transactions;
        let (modified, modified_ms) = (created, now_ms);
        let node = Node { name, data, version: 0, created, modified, modified_ms, session };
        self.nodes.insert(path.to_owned(), node);
        true
    }

    /// `None` when the name that it would get is there already.
    pub(crate) fn create_sequential(
        &mut self,
        prefix: &str,
        data: &[u8],
        now_ms: u64,
    ) -> Option<NodeName> {
        self.transactions += 1;
        let name = format!("{prefix}{:010}", self.next_sequence);
        let is_made = self.make(&format!("{}/{name}", view::FOREVER), data, None, now_ms);
        is_made.then(|| NodeName::parse(&name).unwrap())
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
        let fleet = Fleet { version: 1, layout: self.layout.clone() };
        assert!(self.execute(&[Op::Create(view::FLEET.into(), record::write(&fleet))], 0, 0));
    }

    /// As a Java Leaf does, without a look at the version.
    pub(crate) fn overwrite(&mut self, path: &str, data: &[u8], now_ms: u64) -> bool {
        self.execute(&[Op::Set(path.into(), data.into(), None)], 0, now_ms)
    }

    pub(crate) fn names(&self, folder: &str) -> Vec<NodeName> {
        let below = format!("{folder}/");
        let nodes = self.nodes.range(below.clone()..).take_while(|(it, _)| it.starts_with(&below));
        nodes.filter_map(|(_, node)| node.name.clone()).collect()
    }

    fn read<T>(
        &self,
        path: &str,
        data: impl FnOnce(&Data) -> Option<Result<T, String>>,
    ) -> Option<Versioned<Result<T, String>>> {
        let node = self.nodes.get(path)?;
        let Node { version, created, modified, modified_ms, .. } = *node;
        Some(Versioned { value: data(&node.data)?, version, created, modified, modified_ms })
    }

    pub(crate) fn leaf(&self, name: &NodeName) -> Option<Versioned<Result<Leaf, String>>> {
        self.read(&view::forever(name), |data| match data {
            Data::Leaf(leaf) => Some(leaf.clone()),
            _ => None,
        })
    }

    pub(crate) fn holder(&self, name: &NodeName) -> Option<Versioned<Result<Holder, String>>> {
        self.read(&view::holder(name), |data| match data {
            Data::Holder(holder) => Some(holder.clone()),
            _ => None,
        })
    }
}

/// A reading of the tree that is under way.
#[derive(Debug)]
pub(crate) struct Reading {
    wanted: Wanted,
    pieces: u32,
    view: View,
}

impl Reading {
    pub(crate) fn begin(tree: &Tree, wanted: Wanted, vantage: Vantage, now_ms: u64) -> Self {
        let fleet = tree.read(view::FLEET, |data| match data {
            Data::Fleet(fleet) => Some(fleet.clone()),
            _ => None,
        });
        let view = View {
            vantage,
            now_ms,
            fleet: fleet.unwrap(),
            next_sequence: 0,
            entries: Vec::new(),
            lives: Vec::new(),
            frees: Vec::new(),
            nodes: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
        };
        Self { wanted, pieces: 0, view }
    }

    /// Reads the next piece, in the order in which the session does. Says whether it was the last.
    pub(crate) fn go_on(&mut self, tree: &Tree) -> bool {
        let view = &mut self.view;
        self.pieces += 1;
        match self.pieces {
            1 => {
                view.nodes = tree.names(view::FOREVER);
                view.next_sequence = tree.next_sequence;
            }
            2 => view.live = tree.names(view::TEMPORARY),
            3 => view.free = tree.names(view::FREE),
            4 => {
                let (wanted, live) = (&self.wanted, &view.live);
                let names = view.nodes.iter().filter(|it| wanted.includes(it, live.contains(it)));
                let entry = |name: &NodeName| {
                    Some(Entry { name: name.clone(), leaf: tree.leaf(name)?, holder: None })
                };
                view.entries = names.filter_map(entry).collect();
            }
            5 => {
                for entry in &mut view.entries {
                    entry.holder = tree.holder(&entry.name);
                }
            }
            6 => {
                let own = view.live.iter().filter(|it| it.identity() == self.wanted.identity);
                let live = |name: &NodeName| {
                    let live = tree.read(&view::temporary(name), |data| match data {
                        Data::Live(live) => Some(live.clone()),
                        _ => None,
                    });
                    Some((name.clone(), live?))
                };
                view.lives = own.filter_map(live).collect();
            }
            _ => {
                let free = |name: &NodeName| {
                    let free = tree.read(&view::free(name), |data| match data {
                        Data::Free(free) => Some(free.clone()),
                        _ => None,
                    });
                    Some((name.clone(), free?))
                };
                view.frees = view.free.iter().filter_map(free).collect();
            }
        }
        self.pieces > 6
    }

    pub(crate) fn view(self) -> View {
        self.view
    }
}
