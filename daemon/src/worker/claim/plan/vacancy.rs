//! Claims of worker IDs that nobody has: passed over, given back, or of an instance that is gone.

use std::collections::{BTreeSet, HashMap};

use super::super::instance::{ClaimRules, Instance};
use super::super::name::NodeName;
use super::super::record::{ClaimPhase, FreeRecord};
use super::super::view::{RegistryView, WorkerEntry};
use super::super::write::{Key, RegistryWrite};
use super::Claim;
use super::finding::is_written_by_others;

/// A new node in place of what `ops` remove. It settles: in a registry that went back to older data, a
/// worker ID that looks free or abandoned may be in use.
fn anew(me: &Instance, mut ops: Vec<RegistryWrite>, worker: u64, start_ms: u64) -> Claim {
    let phase = ClaimPhase::Settling;
    let name = NodeName::new(me.identity(), worker);
    ops.extend([
        RegistryWrite::Create(me.leaf(&name, start_ms)),
        RegistryWrite::Create(me.holder(&name, phase, (start_ms, start_ms), 0)),
        RegistryWrite::Create(me.live(&name)),
    ]);
    Claim { ops, name, leaf_version: 0, holder_version: 0, phase, start_ms, limit_ms: start_ms }
}

/// Takes a worker ID that was passed over: every node uses up a sequence number when it is made, even
/// one for a worker ID that was given back or reclaimed. `pick` spreads instances that choose at once.
/// Not where Java Leaf is present, which goes on after its node was deleted.
pub(crate) fn take_vacant(
    me: &Instance,
    rules: &ClaimRules,
    view: &RegistryView,
    pick: usize,
) -> Option<Claim> {
    rules.reclaim_after_ms?;
    let all = view.nodes.iter().chain(&view.free).map(NodeName::sequence);
    let used: BTreeSet<_> = all.filter(|sequence| *sequence <= me.max_worker).collect();
    let count = me.max_worker.saturating_add(1).checked_sub(used.len() as u64)?;
    let mut worker = (pick as u64).checked_rem(count)?;
    for sequence in used {
        // As many are passed over as there are used ones below it.
        worker += u64::from(sequence <= worker);
    }
    Some(anew(me, Vec::new(), worker, 0))
}

/// Takes a worker ID that was given back: this identity's if there is one, else any. `pick` spreads
/// instances that choose at once.
pub(crate) fn take_free(me: &Instance, view: &RegistryView, pick: usize) -> Option<Claim> {
    let usable = |name: &NodeName| name.sequence() <= me.max_worker;
    let fits = view.frees.iter().filter_map(|(name, free)| {
        let record = free.value.as_ref().ok()?;
        (usable(name)
            && record.not_before <= view.now_ms
            && !view.nodes.iter().any(|node| node.sequence() == name.sequence()))
        .then_some((name, free, record))
    });
    let fits: Vec<_> = fits.collect();
    let own = fits.iter().find(|(name, ..)| name.identity() == me.identity());
    let any = fits.get(pick.checked_rem(fits.len()).unwrap_or(0));
    let (name, free, record): &(_, _, &FreeRecord) = own.or(any)?;
    let ops = vec![RegistryWrite::Delete(Key::free(name), free.version)];
    Some(anew(me, ops, name.sequence(), record.not_before))
}

/// Nothing is issued by the owner of `entry` at or past this; `None` when that is not known.
fn end_of(rules: &ClaimRules, entry: &WorkerEntry) -> Option<u64> {
    let mut end_ms = entry.leaf.value.as_ref().ok()?.timestamp;
    if is_written_by_others(entry) {
        end_ms = end_ms.saturating_add(rules.reclaim_after_ms?);
    }
    if let Some(holder) = &entry.holder {
        let holder = holder.value.as_ref().ok()?;
        end_ms = end_ms.max(holder.limit).max(holder.ceiling);
    }
    Some(end_ms)
}

/// For how long each worker ID has been seen unchanged (ms); none where the registry's clock tells.
pub(crate) type SeenUnchanged = Option<HashMap<NodeName, u64>>;

/// When the worker ID of `entry` may be taken over, by the registry's clock; `None` if it may not, as
/// things are.
fn reclaimable_at(
    me: &Instance,
    rules: &ClaimRules,
    view: &RegistryView,
    seen: &SeenUnchanged,
    entry: &WorkerEntry,
) -> Option<u64> {
    if view.is_live(&entry.name) || entry.name.sequence() > me.max_worker {
        return None;
    }
    let name = &entry.name;
    let is_double =
        view.nodes.iter().any(|other| other != name && other.sequence() == name.sequence());
    if is_double {
        return None;
    }
    let since = match seen {
        None => entry.leaf.modified_ms,
        Some(seen) => view.now_ms.saturating_sub(seen.get(&entry.name).copied().unwrap_or(0)),
    };
    let silent = since.saturating_add(rules.reclaim_after_ms?);
    Some(silent.max(end_of(rules, entry)?))
}

/// Takes over the worker ID of an instance that has been gone for long enough. With `own`, only of this
/// identity.
pub(crate) fn reclaim(
    me: &Instance,
    rules: &ClaimRules,
    (view, seen): (&RegistryView, &SeenUnchanged),
    pick: usize,
    own: bool,
) -> Option<Claim> {
    let fits = view.entries.iter().filter(|entry| {
        (!own || entry.name.identity() == me.identity())
            && reclaimable_at(me, rules, view, seen, entry).is_some_and(|at| at <= view.now_ms)
    });
    let fits: Vec<_> = fits.collect();
    let entry = fits.get(pick.checked_rem(fits.len())?)?;
    let mut ops = Vec::new();
    ops.extend(
        entry.holder.as_ref().map(|it| RegistryWrite::Delete(Key::holder(&entry.name), it.version)),
    );
    ops.push(RegistryWrite::Delete(Key::leaf(&entry.name), entry.leaf.version));
    Some(anew(me, ops, entry.name.sequence(), end_of(rules, entry)?))
}

/// Why there is no worker ID, and in how many ms to look again.
pub(crate) fn exhausted(
    me: &Instance,
    rules: &ClaimRules,
    (view, seen): (&RegistryView, &SeenUnchanged),
) -> (String, u64) {
    let at = |entry| reclaimable_at(me, rules, view, seen, entry);
    let next = view.entries.iter().filter_map(at).min();
    let in_ms = next.map_or(60_000, |at| at.saturating_sub(view.now_ms));
    let then = match (next, rules.reclaim_after_ms) {
        (_, None) => "none is reclaimed while Java Leaf is present (worker.java-leaf)".to_owned(),
        (Some(_), _) => format!("the next can be reclaimed in {} s", in_ms.div_ceil(1000)),
        (None, _) => "none can be reclaimed as long as their owners live".to_owned(),
    };
    let (of, make_room) = (rules.numbers.of(), rules.numbers.make_room());
    let text = format!(
        "all {} worker IDs of {of} are taken, {} of them live; {then}. {make_room}",
        me.max_worker.saturating_add(1),
        view.live.len()
    );
    (text, in_ms)
}
