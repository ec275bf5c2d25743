//! Claims of what is this instance's already, or may become it: its earlier claim, a node that it has
//! just made, a node that a Java Leaf of its address has left.

use super::super::instance::Instance;
use super::super::name::NodeName;
use super::super::record::{self, ClaimPhase, FleetRecord, HolderRecord};
use super::super::step::RememberedClaim;
use super::super::view::{RegistryView, WorkerEntry};
use super::super::write::{Key, RegistryRecord, RegistryWrite};
use super::Claim;
use super::finding::{after_java, is_written_by_others, java_leafs};

/// Removes a live marker of an earlier session or life, if there is one.
pub(crate) fn without_live(view: &RegistryView, name: &NodeName) -> Option<RegistryWrite> {
    let (_, live) = view.lives.iter().find(|(live, _)| live == name)?;
    Some(RegistryWrite::Delete(Key::live(name), live.version))
}

/// The writes that take a node over: Java Leaf's record, leafd's, and a live node.
fn over(
    me: &Instance,
    view: &RegistryView,
    entry: &WorkerEntry,
    phase: ClaimPhase,
    start_ms: u64,
    limit_ms: u64,
) -> Claim {
    let name = &entry.name;
    let leaf_version = entry.leaf.version + 1;
    let mut ops: Vec<RegistryWrite> = without_live(view, name).into_iter().collect();
    ops.push(RegistryWrite::Create(me.live(name)));
    ops.push(RegistryWrite::Set(me.leaf(name, start_ms), Some(entry.leaf.version)));
    let record = me.holder(name, phase, (start_ms, limit_ms), leaf_version);
    let holder_version = match &entry.holder {
        Some(holder) => {
            ops.push(RegistryWrite::Set(record, Some(holder.version)));
            holder.version + 1
        }
        None => {
            ops.push(RegistryWrite::Create(record));
            0
        }
    };
    Claim { ops, name: name.clone(), leaf_version, holder_version, phase, start_ms, limit_ms }
}

/// Goes on with the claim of an earlier session or life on this state directory. `is_sure` says that
/// nobody else can have had the worker ID since; `memory` is what is remembered of this worker ID.
pub(crate) fn take_again(
    me: &Instance,
    view: &RegistryView,
    entry: &WorkerEntry,
    memory: Option<&RememberedClaim>,
    is_sure: bool,
) -> Claim {
    let holder = entry.holder();
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let is_javas = is_written_by_others(entry);
    let timestamp = if is_javas { after_java(entry, view.now_ms) } else { timestamp };
    let start_ms = timestamp
        .max(holder.map_or(0, |holder| holder.ceiling))
        .max(memory.map_or(0, |memory| memory.ceiling_ms));
    // A registry that went back to older data knows an earlier limit.
    let limit_ms = holder
        .map_or(0, |holder| holder.limit)
        .max(memory.map_or(0, |memory| memory.limit_ms))
        .max(start_ms);
    // If its time is over, or was never known here, the registry may have gone back to data from
    // before another instance took the worker ID.
    let phase = match holder {
        Some(holder) if is_sure || is_javas => holder.phase,
        _ => ClaimPhase::Settling,
    };
    over(me, view, entry, phase, start_ms, limit_ms)
}

/// Whether a new node gets a worker ID of the layout. After a loss of data a node that was put back
/// may have the very name.
pub(crate) fn can_create(me: &Instance, view: &RegistryView) -> bool {
    let next = view.next_sequence;
    next <= me.max_worker && !view.nodes.contains(&NodeName::new(me.identity(), next))
}

/// Whether the worker ID of a new node is another one's already, which put it back after a loss.
pub(crate) fn next_is_taken(view: &RegistryView) -> bool {
    view.nodes.iter().chain(&view.free).any(|name| name.sequence() == view.next_sequence)
}

/// Claims a node that was just made.
pub(crate) fn claim_created(
    me: &Instance,
    view: &RegistryView,
    created: &NodeName,
) -> Option<Claim> {
    let entry = view.entry(created).filter(|entry| entry.holder.is_none())?;
    if created.sequence() > me.max_worker {
        return None;
    }
    let name = &entry.name;
    let ops = vec![
        RegistryWrite::Check(Key::leaf(name), entry.leaf.version),
        RegistryWrite::Create(me.holder(name, ClaimPhase::Settling, (0, 0), entry.leaf.version)),
        RegistryWrite::Create(me.live(name)),
    ];
    Some(Claim {
        ops,
        name: name.clone(),
        leaf_version: entry.leaf.version,
        holder_version: 0,
        phase: ClaimPhase::Settling,
        start_ms: 0,
        limit_ms: 0,
    })
}

/// Removes a node that was just made and is useless: its number is beyond the layout, or a twin lives.
pub(crate) fn remove_created(
    view: &RegistryView,
    created: &NodeName,
) -> Option<Vec<RegistryWrite>> {
    let entry = view.entry(created).filter(|entry| entry.holder.is_none())?;
    Some(vec![RegistryWrite::Delete(Key::leaf(created), entry.leaf.version)])
}

/// Lets the settled worker ID be used, unless a worker ID that the registry had lost has returned since
/// the reading.
pub(crate) fn settle(
    me: &Instance,
    view: &RegistryView,
    entry: &WorkerEntry,
    holder: &HolderRecord,
) -> Vec<RegistryWrite> {
    let issued = (holder.ceiling, holder.limit);
    let record = me.holder(&entry.name, ClaimPhase::Held, issued, holder.leaf_version);
    vec![
        RegistryWrite::Check(Key::Fleet, view.fleet.version),
        RegistryWrite::Set(record, entry.holder.as_ref().map(|it| it.version)),
    ]
}

/// Puts a worker ID that the registry has lost back into it.
pub(crate) fn put_back(me: &Instance, view: &RegistryView, memory: &RememberedClaim) -> Claim {
    let name = NodeName::new(me.identity(), memory.worker);
    let (start_ms, limit_ms) = (memory.ceiling_ms, memory.limit_ms);
    let fleet = FleetRecord { version: record::VERSION, layout: me.layout.clone() };
    let mut ops: Vec<RegistryWrite> = without_live(view, &name).into_iter().collect();
    ops.extend([
        // An instance that is about to use the same worker ID reads the registry again.
        RegistryWrite::Set(RegistryRecord::Fleet(fleet), None),
        RegistryWrite::Create(me.leaf(&name, start_ms)),
        RegistryWrite::Create(me.holder(&name, ClaimPhase::Held, (start_ms, limit_ms), 0)),
        RegistryWrite::Create(me.live(&name)),
    ]);
    let phase = ClaimPhase::Held;
    Claim { ops, name, leaf_version: 0, holder_version: 0, phase, start_ms, limit_ms }
}

/// Removes a node whose worker ID another one has as well.
pub(crate) fn give_up(view: &RegistryView, entry: &WorkerEntry) -> Vec<RegistryWrite> {
    let name = &entry.name;
    let mut ops: Vec<RegistryWrite> = without_live(view, name).into_iter().collect();
    ops.extend(
        entry.holder.as_ref().map(|it| RegistryWrite::Delete(Key::holder(name), it.version)),
    );
    ops.push(RegistryWrite::Delete(Key::leaf(name), entry.leaf.version));
    ops
}

/// Takes over the latest node that a Java Leaf with this identity has left. `None` where a leafd that
/// held it before may still use it, cut off and with a state directory that is not this one: then
/// this instance needs a worker ID of its own.
///
/// # Errors
/// When its record cannot be read.
pub(crate) fn join(me: &Instance, view: &RegistryView) -> Result<Option<Claim>, String> {
    let time = |entry: &&WorkerEntry| entry.leaf.value.as_ref().ok().map(|leaf| leaf.timestamp);
    let Some(entry) = java_leafs(me, view).max_by_key(time) else { return Ok(None) };
    if let Err(why) = &entry.leaf.value {
        return Err(format!("the node {} cannot be read: {why}. Repair or delete it", entry.name));
    }
    let (ceiling_ms, limit_ms) =
        entry.holder().map_or((0, 0), |holder| (holder.ceiling, holder.limit));
    if limit_ms > view.now_ms {
        return Ok(None);
    }
    let start_ms = after_java(entry, view.now_ms).max(ceiling_ms).max(limit_ms);
    Ok(Some(over(me, view, entry, ClaimPhase::Held, start_ms, start_ms)))
}
