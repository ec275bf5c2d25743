//! What the tree looks like, for `leafctl doctor`. Writes nothing, not even to learn ZooKeeper's time.

use super::{ZooKeeperAccess, ZooKeeperSession};
use crate::environment::Environment;
use crate::worker::claim::plan;
use crate::worker::claim::view::WorkerEntry;
use crate::worker::registry::{RegistryError, RegistrySession as _};

/// How many nodes are looked at, the newest first.
const MOST_NODES: usize = 1024;

/// A node that something other than a leafd wrote last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JavaNode {
    pub(crate) identity: String,
    /// When it was written last, by ZooKeeper's clock (ms since 1970).
    pub(crate) written_ms: u64,
}

/// What was read of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFacts {
    /// The path of the tree.
    pub(crate) root: String,
    /// Whether the tree is there yet.
    pub(crate) exists: bool,
    /// The number that the next new worker ID gets.
    pub(crate) next_worker: u64,
    /// The layout that the fleet has agreed on.
    pub(crate) layout: Option<String>,
    pub(crate) javas: Vec<JavaNode>,
}

/// Reads the tree. Nothing bounds the time of this but the time limit of each call.
///
/// # Errors
/// When ZooKeeper does not answer, or refuses.
pub(crate) async fn inspect(
    access: &ZooKeeperAccess,
    environment: &Environment,
) -> Result<TreeFacts, RegistryError> {
    let session = ZooKeeperSession::join(access, environment).await?;
    let mut facts = TreeFacts {
        root: access.root(),
        exists: false,
        next_worker: 0,
        layout: None,
        javas: Vec::new(),
    };
    let (mut nodes, next_worker) = match session.owned().await {
        Ok(owned) => owned,
        // The tree is not there.
        Err(RegistryError::Conflict) => return Ok(facts),
        Err(error) => return Err(error),
    };
    nodes.sort_by_key(|name| std::cmp::Reverse(name.sequence()));
    nodes.truncate(MOST_NODES);
    let entries = session.entries(&nodes).await?;
    facts.exists = true;
    facts.next_worker = next_worker;
    let fleet = session.fleet().await?;
    facts.layout = fleet.and_then(|fleet| fleet.value.ok()).map(|fleet| fleet.layout);
    facts.javas = entries.iter().filter(|entry| is_javas(entry)).map(java).collect();
    Ok(facts)
}

fn is_javas(entry: &WorkerEntry) -> bool {
    entry.holder().is_none() || plan::is_written_by_others(entry)
}

fn java(entry: &WorkerEntry) -> JavaNode {
    let identity = entry.name.identity().to_owned();
    JavaNode { identity, written_ms: entry.leaf.modified_ms }
}
