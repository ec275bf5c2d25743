//! What a reading of the registry means for this instance.

use super::super::instance::{Instance, RegistryWords};
use super::super::name::NodeName;
use super::super::quiet;
use super::super::record::{ClaimPhase, FleetRecord, HolderRecord};
use super::super::view::{RegistryView, WorkerEntry};
use crate::config::LENT;

/// Whether the fleet has this instance's layout.
///
/// # Errors
/// What is wrong and what to do.
pub(crate) fn same_layout(
    me: &Instance,
    words: &RegistryWords,
    view: &RegistryView,
) -> Result<(), String> {
    match &view.fleet.value {
        Ok(FleetRecord { layout, .. }) if *layout == me.layout => Ok(()),
        Ok(FleetRecord { layout, .. }) if me.layout.starts_with(LENT) => Err(format!(
            "{} is for {layout}, and lend.pools says {}: a library that cuts a number off would \
             use another one's. Change lend.pools, or use a pool with another name",
            words.fleet, me.layout
        )),
        Ok(FleetRecord { layout, .. }) => Err(format!(
            "the instances in {} issue IDs with the layout {layout}, and {} is configured; IDs of \
             two layouts can be equal. Set snowflake.layout to theirs, or {}",
            words.fleet, me.layout, words.other_fleet
        )),
        Err(why) => Err(format!("{} cannot be read: {why}", words.fleet_record)),
    }
}

/// Another instance that lives under this identity, with its address. `own` is the transaction that made
/// this instance's live marker; only an instance that was there before counts.
pub(crate) fn twin(
    me: &Instance,
    view: &RegistryView,
    own: Option<i64>,
) -> Option<(NodeName, String)> {
    let (name, live) = view.lives.iter().find(|(name, live)| {
        let is_mine = live.value.as_ref().is_ok_and(|live| me.is(&live.nonce));
        let was_first = own.is_none_or(|own| live.created < own);
        name.identity() == me.identity() && !is_mine && was_first
    })?;
    let place = match &live.value {
        Ok(live) => format!("at {}", live.ip),
        Err(why) => why.clone(),
    };
    Some((name.clone(), place))
}

/// The claim of this state directory; of several, the one that it remembers.
pub(crate) fn mine<'a>(
    me: &Instance,
    view: &'a RegistryView,
    remembered: Option<u64>,
) -> Option<&'a WorkerEntry> {
    let is_mine = |entry: &&WorkerEntry| {
        entry.name.identity() == me.identity()
            && entry.name.sequence() <= me.max_worker
            && entry.holder().is_some_and(|holder| me.is(&holder.nonce))
    };
    view.entries.iter().filter(is_mine).max_by_key(|entry| {
        let is_remembered = Some(entry.name.sequence()) == remembered;
        (
            is_remembered,
            entry.holder().map(|holder| (holder.phase == ClaimPhase::Held, holder.limit)),
        )
    })
}

/// Whether a leafd made the node of `entry` and no process has written it since.
pub(crate) fn is_unclaimed(entry: &WorkerEntry) -> bool {
    // No Java Leaf writes the time 0.
    entry.holder.is_none() && entry.leaf.value.as_ref().is_ok_and(|leaf| leaf.timestamp == 0)
}

/// Whether the worker ID of `name` is not in use yet.
fn is_settling(view: &RegistryView, name: &NodeName) -> bool {
    let is_not_used = |entry: &WorkerEntry| {
        let holder = entry.holder();
        is_unclaimed(entry) || holder.is_some_and(|holder| holder.phase == ClaimPhase::Settling)
    };
    view.entry(name).is_some_and(is_not_used)
}

/// Whether nobody has this worker ID: the registry has lost it, or an instance just got it that has
/// not used it and that will see its return.
pub(crate) fn is_nobodys(me: &Instance, view: &RegistryView, worker: u64) -> bool {
    let own = NodeName::new(me.identity(), worker);
    let has = |name: &&NodeName| name.sequence() == worker;
    !view.free.iter().any(|name| has(&name))
        && view.nodes.iter().filter(has).all(|name| *name != own && is_settling(view, name))
}

/// Another owner of the worker ID of `entry` that may be using it, or the record of its giving it back.
pub(crate) fn rival<'a>(view: &'a RegistryView, entry: &WorkerEntry) -> Option<&'a NodeName> {
    let name = &entry.name;
    let is_other = |other: &&NodeName| other.sequence() == name.sequence() && *other != name;
    let own_is_settling = is_settling(view, name);
    let mut nodes = view.nodes.iter().filter(is_other);
    // Of two that are both settling, the earlier node stays.
    let counts = |other: &&NodeName| {
        !is_settling(view, other)
            || own_is_settling
                && view.entry(other).is_some_and(|it| it.leaf.created < entry.leaf.created)
    };
    let is_same = |free: &&NodeName| free.sequence() == name.sequence();
    nodes.find(counts).or_else(|| view.free.iter().find(is_same))
}

/// Whether something that does not write leafd's record wrote a node last. Java Leaf leaves leafd's
/// record as it was, so the presence of that record says nothing.
pub(crate) fn is_written_by_others(entry: &WorkerEntry) -> bool {
    match &entry.holder {
        None => true,
        Some(holder) => {
            holder.value.as_ref().is_ok_and(|holder| entry.leaf.version > holder.leaf_version)
        }
    }
}

/// Whether a call that leafd had given up on wrote both records, between the reading of the one and of
/// the other.
pub(crate) const fn is_torn(entry: &WorkerEntry, holder: &HolderRecord) -> bool {
    entry.leaf.version < holder.leaf_version
}

/// A Java Leaf that wrote `entry` last, and that ended before `now_ms` by the registry's clock, has
/// issued nothing at or past this. It may have issued long after its last report, while it was cut
/// off, and its clock may be ahead of the registry's by as much as that report shows.
pub(crate) fn after_java(entry: &WorkerEntry, now_ms: u64) -> u64 {
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let ahead_ms = timestamp.saturating_sub(entry.leaf.modified_ms);
    let needed_ms = quiet::quiet_ms(0);
    timestamp.saturating_add(needed_ms).max(now_ms.saturating_add(ahead_ms))
}

/// The nodes of this identity that a Java Leaf wrote last, whatever a leafd left there before.
pub(crate) fn java_leafs<'a>(
    me: &Instance,
    view: &'a RegistryView,
) -> impl Iterator<Item = &'a WorkerEntry> {
    view.entries.iter().filter(|entry| {
        entry.name.identity() == me.identity()
            && entry.name.sequence() <= me.max_worker
            && is_written_by_others(entry)
            && !is_unclaimed(entry)
    })
}

/// A node that an instance of this identity has made and not claimed: the answer was lost, or the
/// instance was stopped.
pub(crate) fn unclaimed(me: &Instance, view: &RegistryView) -> Option<NodeName> {
    let is_own =
        |entry: &&WorkerEntry| entry.name.identity() == me.identity() && is_unclaimed(entry);
    view.entries.iter().find(is_own).map(|entry| entry.name.clone())
}
