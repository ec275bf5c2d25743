//! What a registry looks like, for `leafctl doctor`. Writes nothing, not even to learn the registry's time.

use super::{RegistryError, RegistrySession};
use crate::worker::claim::plan;
use crate::worker::claim::view::WorkerEntry;

/// How many worker IDs are looked at, the newest first.
const MOST_NODES: usize = 1024;

/// A worker ID whose record something other than a leafd wrote last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JavaNode {
    pub(crate) identity: String,
    /// When it was written last, by the registry's clock (ms since 1970).
    pub(crate) written_ms: u64,
}

/// What was read of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryFacts {
    /// What the worker file calls it.
    pub(crate) name: String,
    /// The number that the next new worker ID gets.
    pub(crate) next_worker: u64,
    /// The layout that the fleet has agreed on.
    pub(crate) layout: Option<String>,
    pub(crate) javas: Vec<JavaNode>,
}

impl RegistryFacts {
    /// The facts of an empty registry.
    pub(crate) const fn of_nothing(name: String) -> Self {
        Self { name, next_worker: 0, layout: None, javas: Vec::new() }
    }
}

/// Reads a registry. Nothing bounds the time of this but the time limit of each call.
///
/// # Errors
/// When the registry does not answer, or refuses.
pub(crate) async fn inspect(
    session: &dyn RegistrySession,
    name: String,
) -> Result<RegistryFacts, RegistryError> {
    let mut facts = RegistryFacts::of_nothing(name);
    let (mut nodes, next_worker) = match session.owned().await {
        Ok(owned) => owned,
        // The registry is empty.
        Err(RegistryError::Conflict) => return Ok(facts),
        Err(error) => return Err(error),
    };
    nodes.sort_by_key(|name| std::cmp::Reverse(name.sequence()));
    nodes.truncate(MOST_NODES);
    let entries = session.entries(&nodes).await?;
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
