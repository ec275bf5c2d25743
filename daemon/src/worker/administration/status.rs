//! A worker ID of a shared registry, as `leafctl` shows it.

use leaf_client::wire::{MAX_ADDRESS_CHARS, MAX_OWNER_CHARS, WorkerState, WorkerStatus};

use crate::worker::claim::name::NodeName;
use crate::worker::claim::quiet::Quiet;
use crate::worker::claim::record::{ClaimPhase, FreeRecord};
use crate::worker::claim::view::WorkerEntry;
use crate::worker::registry::Found;

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A worker ID that has an owner. `javas` says how long its node has been quiet, if something that is
/// not a leafd wrote it last. A node that was not seen to be quiet counts as live.
pub(super) fn taken(
    entry: &WorkerEntry,
    has_live_node: bool,
    javas: Option<Quiet>,
    now_ms: u64,
) -> WorkerStatus {
    let leaf = entry.leaf.value.as_ref().ok();
    let address = leaf.map_or(String::new(), |leaf| format!("{}:{}", leaf.ip, leaf.port));
    let age_ms = now_ms.saturating_sub(entry.leaf.modified_ms);
    let holder = entry.holder().filter(|_| javas.is_none());
    let state = match holder.map(|holder| holder.phase) {
        Some(ClaimPhase::Held) => WorkerState::Held,
        Some(ClaimPhase::Settling) => WorkerState::Settling,
        None => WorkerState::JavaLeaf,
    };
    let may_be_written = javas.is_some_and(|quiet| !quiet.is_enough());
    let ceiling = holder.map(|holder| holder.ceiling).or(leaf.map(|leaf| leaf.timestamp));
    WorkerStatus {
        worker: entry.name.sequence(),
        owner: short(entry.name.identity(), MAX_OWNER_CHARS),
        address: short(&address, MAX_ADDRESS_CHARS),
        state,
        live: has_live_node || may_be_written,
        own: false,
        reported_unix_ms: entry.leaf.modified_ms,
        age_ms,
        ceiling_unix_ms: ceiling.unwrap_or(0),
        limit_unix_ms: holder.map(|holder| holder.limit).filter(|limit| *limit > 0),
    }
}

/// A worker ID that was given back.
pub(super) fn released(name: &NodeName, free: &Found<FreeRecord>, now_ms: u64) -> WorkerStatus {
    WorkerStatus {
        worker: name.sequence(),
        owner: short(name.identity(), MAX_OWNER_CHARS),
        address: String::new(),
        state: WorkerState::Released,
        live: false,
        own: false,
        reported_unix_ms: free.modified_ms,
        age_ms: now_ms.saturating_sub(free.modified_ms),
        ceiling_unix_ms: free.value.as_ref().map_or(0, |free| free.not_before),
        limit_unix_ms: None,
    }
}
