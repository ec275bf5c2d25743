//! Handing a node back to Java Leaf: what the tree has to say before Java Leaf may start. Plain
//! functions; the command that waits and tells the operator is in `app`.
//!
//! Java Leaf compares only the recorded time with its clock. So leafd never lowers the record: it waits
//! until the clock has passed it.

use crate::worker::claim::name::NodeName;
use crate::worker::claim::plan;
use crate::worker::claim::record::{HolderRecord, LeafRecord};
use crate::worker::claim::view::{RegistryView, WorkerEntry};
use crate::worker::claim::write::{RegistryRecord, RegistryWrite};

/// What a state directory knows of the instance whose node is handed back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Giver<'a> {
    /// Its identity.
    pub(crate) identity: &'a str,
    /// The names under which its lives have registered.
    pub(crate) nonces: &'a [String],
    /// Nothing was issued at or past this (ms since 1970).
    pub(crate) ceiling_ms: u64,
}

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// The tree has no node of this identity, so Java Leaf gets a new worker ID. A tree that has lost
    /// its data gives the old number again, so Java Leaf waits here too.
    NoNode {
        /// Java Leaf may start when the clock has passed this (ms since 1970).
        until_ms: u64,
    },
    /// Something that is not a leafd wrote the node last. The time that it recorded may be earlier than
    /// what leafd has issued before.
    IsJavas {
        name: NodeName,
        /// Java Leaf may start when the clock has passed this (ms since 1970).
        until_ms: u64,
    },
    /// Java Leaf may start when the clock has passed `until_ms`.
    After {
        /// The node.
        name: NodeName,
        /// To be written first, all or nothing.
        ops: Vec<RegistryWrite>,
        /// The time that the node records, or up to which leafd has issued (ms since 1970).
        until_ms: u64,
    },
}

/// Says what to do, from a reading of the tree.
///
/// # Errors
/// Why the node cannot be handed back, and what to do.
pub(crate) fn hand_over(giver: &Giver<'_>, view: &RegistryView) -> Result<HandOver, String> {
    let identity = giver.identity;
    let is_own = |nonce: &str| giver.nonces.iter().any(|own| own == nonce);
    let live = view.lives.iter().find(|(name, live)| {
        let is_other = !live.value.as_ref().is_ok_and(|live| is_own(&live.nonce));
        name.identity() == identity && is_other
    });
    if let Some((name, _)) = live {
        return Err(format!(
            "a leafd with another state directory lives as {identity:?} (node {name}); stop it first"
        ));
    }
    let of_identity = |entry: &&WorkerEntry| entry.name.identity() == identity;
    let entries: Vec<_> = view.entries.iter().filter(of_identity).collect();
    let entry = match entries.as_slice() {
        [] => return Ok(HandOver::NoNode { until_ms: giver.ceiling_ms }),
        [entry] => *entry,
        several => return Err(ambiguous(identity, several)),
    };
    let name = entry.name.clone();
    if plan::is_unclaimed(entry) {
        // No ID was issued with its number.
        return Ok(HandOver::After { name, ops: Vec::new(), until_ms: giver.ceiling_ms });
    }
    if plan::is_written_by_others(entry) {
        return Ok(HandOver::IsJavas { name, until_ms: giver.ceiling_ms });
    }
    let cannot =
        |why: &String| format!("the node {name} cannot be read: {why}. Repair or delete it");
    let leaf = entry.leaf.value.as_ref().map_err(cannot)?;
    let Some(node) = &entry.holder else {
        return Ok(HandOver::IsJavas { name, until_ms: giver.ceiling_ms });
    };
    let holder = node.value.as_ref().map_err(cannot)?;
    if !is_own(&holder.nonce) {
        return of_another(entry, leaf, holder, view);
    }
    let ceiling = holder.ceiling.max(giver.ceiling_ms);
    let until_ms = leaf.timestamp.max(ceiling);
    let leaf_version = entry.leaf.version + 1;
    // From here on this directory issues nothing without claiming the node again.
    let holder = HolderRecord { ceiling, limit: ceiling, leaf_version, ..holder.clone() };
    let leaf = LeafRecord { timestamp: until_ms, ..leaf.clone() };
    let mut ops: Vec<RegistryWrite> = plan::without_live(view, &name).into_iter().collect();
    ops.extend([
        RegistryWrite::Set(RegistryRecord::Leaf(name.clone(), leaf), Some(entry.leaf.version)),
        RegistryWrite::Set(RegistryRecord::Holder(name.clone(), holder), Some(node.version)),
    ]);
    Ok(HandOver::After { name, ops, until_ms })
}

/// A node that another state directory held, or this one before it lost its worker file.
fn of_another(
    entry: &WorkerEntry,
    leaf: &LeafRecord,
    holder: &HolderRecord,
    view: &RegistryView,
) -> Result<HandOver, String> {
    let name = entry.name.clone();
    if holder.limit > view.now_ms {
        return Err(format!(
            "the node {name} was written by another state directory than this one, or this one has \
             lost its worker file: IDs may be issued with it for {} s more, cut off from ZooKeeper. \
             If the leafd that wrote it is gone for good, release its worker ID from another host \
             (`leafctl worker release {} --owner {}`): Java Leaf then gets a new one",
            (holder.limit - view.now_ms).div_ceil(1000),
            name.sequence(),
            name.identity(),
        ));
    }
    let until_ms = leaf.timestamp.max(holder.ceiling).max(holder.limit);
    Ok(HandOver::After { name, ops: Vec::new(), until_ms })
}

fn ambiguous(identity: &str, entries: &[&WorkerEntry]) -> String {
    let each = |entry: &&WorkerEntry| {
        format!("`leafctl worker release {} --owner {identity}`", entry.name.sequence())
    };
    format!(
        "there are {} nodes of {identity:?}, and Java Leaf takes any of them. Release all but the one \
         that it shall have, from another host: {}",
        entries.len(),
        entries.iter().map(each).collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
#[path = "hand_back_tests.rs"]
mod tests;
