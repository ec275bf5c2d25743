//! The rules of claiming: what a reading of the tree means, and the writes of each claim. Plain
//! functions; [`super::claimant`] says when.
//!
//! A worker ID and a stretch of time belong to one holder. It ends at the `limit` that the holder
//! last wrote; whoever takes the worker ID over without the holder's own state begins there. So no
//! clock has to be right for the two never to meet.

use std::collections::BTreeSet;

use super::name::NodeName;
use super::quiet;
use super::record::{self, Fleet, Free, Holder, Leaf, Live, Phase};
use super::view::{self, Entry, Op, View};
use crate::safety::UNKNOWN_CEILING_MS;

/// Who this instance is.
#[derive(Debug, Clone)]
pub struct Me {
    /// Its identity.
    pub identity: String,
    /// Where it can be reached, as Java Leaf records it.
    pub leaf_ip: String,
    /// See above.
    pub leaf_port: String,
    /// Where its clock can be asked for.
    pub peer_ip: String,
    /// The port of its peer listener; 0 without one.
    pub peer_port: u16,
    /// The name of this life.
    pub nonce: String,
    /// The names of earlier lives on this state directory, which have ended.
    pub earlier: Vec<String>,
    /// The layout, as configuration writes it.
    pub layout: String,
    /// The largest worker ID of the layout.
    pub max_worker: u64,
}

impl Me {
    fn is(&self, nonce: &str) -> bool {
        self.nonce == nonce || self.earlier.iter().any(|earlier| earlier == nonce)
    }

    /// Java Leaf's record.
    #[must_use]
    pub fn leaf(&self, timestamp: u64) -> Vec<u8> {
        let (ip, port) = (self.leaf_ip.clone(), self.leaf_port.clone());
        record::write(&Leaf { ip, port, timestamp })
    }

    fn holder(&self, phase: Phase, ceiling: u64, limit: u64, leaf_version: i32) -> Vec<u8> {
        let (version, nonce) = (record::VERSION, self.nonce.clone());
        record::write(&Holder { version, nonce, phase, ceiling, limit, leaf_version })
    }

    fn live(&self) -> Vec<u8> {
        record::write(&Live {
            version: record::VERSION,
            nonce: self.nonce.clone(),
            ip: self.peer_ip.clone(),
            port: self.peer_port,
        })
    }
}

/// Times, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The worker ID of an instance that has not reported for so long may be taken over; none
    /// where Java Leaf is present, which knows no fence.
    pub reclaim_after_ms: Option<u64>,
    /// An instance that could not report for so long stops issuing.
    pub fence_after_ms: u64,
    /// After so long a session that is not heard of has ended.
    pub session_ms: u64,
    /// Between two reports.
    pub report_ms: u64,
    /// A new worker ID is not used before so long.
    pub settle_ms: u64,
}

impl Rules {
    /// Until when a holder may issue who reports the time `ms`.
    #[must_use]
    pub const fn limit(&self, ms: u64) -> u64 {
        ms.saturating_add(self.fence_after_ms)
    }

    /// Why an instance that is cut off has stopped.
    #[must_use]
    pub fn fenced(&self) -> String {
        format!(
            "ZooKeeper has not taken a report for {} s (worker.fence-after), so the worker ID may \
             become another's; IDs go on when it can be reached",
            self.fence_after_ms / 1000
        )
    }
}

/// A claim to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Together or not at all.
    pub ops: Vec<Op>,
    /// The node, once they are written.
    pub name: NodeName,
    /// Its version then.
    pub leaf_version: i32,
    /// That of leafd's record.
    pub holder_version: i32,
    /// Whether it may be used at once.
    pub phase: Phase,
    /// From when on it may be used (ms since 1970).
    pub start_ms: u64,
    /// Its limit in the tree.
    pub limit_ms: u64,
}

/// Whether the fleet has this instance's layout.
///
/// # Errors
/// What is wrong and what to do.
pub fn same_layout(me: &Me, view: &View) -> Result<(), String> {
    match &view.fleet.value {
        Ok(Fleet { layout, .. }) if *layout == me.layout => Ok(()),
        Ok(Fleet { layout, .. }) => Err(format!(
            "the instances in this tree issue IDs with the layout {layout}, and {} is configured; \
             IDs of two layouts can be equal. Set snowflake.layout to theirs, or zookeeper.name to \
             a tree of its own",
            me.layout
        )),
        Err(why) => Err(format!("the node {} cannot be read: {why}", view::FLEET)),
    }
}

/// Another instance that lives under this identity and was there before `own`, the transaction of
/// one's own live node: its node, and where it is.
#[must_use]
pub fn twin(me: &Me, view: &View, own: Option<i64>) -> Option<(NodeName, String)> {
    let (name, live) = view.lives.iter().find(|(name, live)| {
        let is_mine = live.value.as_ref().is_ok_and(|live| me.is(&live.nonce));
        let was_first = own.is_none_or(|own| live.created < own);
        name.identity() == me.identity && !is_mine && was_first
    })?;
    let place = match &live.value {
        Ok(live) => format!("at {}", live.ip),
        Err(why) => why.clone(),
    };
    Some((name.clone(), place))
}

/// The claim of this state directory; of several the one that it remembers.
#[must_use]
pub fn mine<'a>(me: &Me, view: &'a View, remembered: Option<u64>) -> Option<&'a Entry> {
    let is_mine = |entry: &&Entry| {
        entry.name.identity() == me.identity
            && entry.name.sequence() <= me.max_worker
            && entry.holder().is_some_and(|holder| me.is(&holder.nonce))
    };
    view.entries.iter().filter(is_mine).max_by_key(|entry| {
        let is_remembered = Some(entry.name.sequence()) == remembered;
        (is_remembered, entry.holder().map(|holder| (holder.phase == Phase::Held, holder.limit)))
    })
}

/// Whether a leafd made the node of `entry` and no process has written it since.
pub(crate) fn is_unclaimed(entry: &Entry) -> bool {
    // No Java Leaf writes the time 0.
    entry.holder.is_none() && entry.leaf.value.as_ref().is_ok_and(|leaf| leaf.timestamp == 0)
}

/// Whether it is not used yet.
fn is_settling(view: &View, name: &NodeName) -> bool {
    let is_not_used = |entry: &Entry| {
        let holder = entry.holder();
        is_unclaimed(entry) || holder.is_some_and(|holder| holder.phase == Phase::Settling)
    };
    view.entry(name).is_some_and(is_not_used)
}

/// Whether nobody has this worker ID: it is lost from the tree, or somebody just got it who has not
/// used it and who will see its return.
#[must_use]
pub fn is_nobodys(me: &Me, view: &View, worker: u64) -> bool {
    let own = NodeName::new(&me.identity, worker);
    let has = |name: &&NodeName| name.sequence() == worker;
    !view.free.iter().any(|name| has(&name))
        && view.nodes.iter().filter(has).all(|name| *name != own && is_settling(view, name))
}

/// Another one that has the worker ID of `entry` and may be using it, or what it has left of it.
#[must_use]
pub fn rival<'a>(view: &'a View, entry: &Entry) -> Option<&'a NodeName> {
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

/// Whether a node was written last by something that does not write leafd's record. Java Leaf
/// leaves that record as it was, so the record being there says nothing.
#[must_use]
pub fn is_written_by_others(entry: &Entry) -> bool {
    match &entry.holder {
        None => true,
        Some(holder) => {
            holder.value.as_ref().is_ok_and(|holder| entry.leaf.version > holder.leaf_version)
        }
    }
}

/// Whether both were written, by a call that had been given up, after the one was read and before
/// the other was.
#[must_use]
pub const fn is_torn(entry: &Entry, holder: &Holder) -> bool {
    entry.leaf.version < holder.leaf_version
}

/// A Java Leaf that wrote `entry` last, and has ended before `now_ms` by ZooKeeper's clock, has
/// issued nothing at or past this. It may have issued for long after its last report, while it could
/// not reach ZooKeeper, and its clock may be ahead of ZooKeeper's by what that report shows.
#[must_use]
pub fn after_java(entry: &Entry, now_ms: u64) -> u64 {
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let ahead_ms = timestamp.saturating_sub(entry.leaf.modified_ms);
    let needed_ms = quiet::quiet_ms(0);
    timestamp.saturating_add(needed_ms).max(now_ms.saturating_add(ahead_ms))
}

/// Removes a live node of an earlier session or life, if there is one.
#[must_use]
pub fn without_live(view: &View, name: &NodeName) -> Option<Op> {
    let (_, live) = view.lives.iter().find(|(live, _)| live == name)?;
    Some(Op::Delete(view::temporary(name), live.version))
}

/// The writes that take a node over: Java Leaf's record, leafd's, and a live node.
fn over(me: &Me, view: &View, entry: &Entry, phase: Phase, start_ms: u64, limit_ms: u64) -> Claim {
    let name = &entry.name;
    let leaf_version = entry.leaf.version + 1;
    let mut ops: Vec<Op> = without_live(view, name).into_iter().collect();
    ops.push(Op::CreateEphemeral(view::temporary(name), me.live()));
    ops.push(Op::Set(view::forever(name), me.leaf(start_ms), Some(entry.leaf.version)));
    let text = me.holder(phase, start_ms, limit_ms, leaf_version);
    let holder_version = match &entry.holder {
        Some(holder) => {
            ops.push(Op::Set(view::holder(name), text, Some(holder.version)));
            holder.version + 1
        }
        None => {
            ops.push(Op::Create(view::holder(name), text));
            0
        }
    };
    Claim { ops, name: name.clone(), leaf_version, holder_version, phase, start_ms, limit_ms }
}

/// The claim of an earlier session or life on this state directory goes on. `is_used` says that
/// IDs are being issued with it.
#[must_use]
pub fn take_again(
    me: &Me,
    view: &View,
    entry: &Entry,
    memory: Option<&super::step::Memory>,
    is_used: bool,
) -> Claim {
    let holder = entry.holder();
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let is_javas = is_written_by_others(entry);
    let timestamp = if is_javas { after_java(entry, view.now_ms) } else { timestamp };
    let remembered = memory.filter(|memory| memory.worker == entry.name.sequence());
    let start_ms = timestamp
        .max(holder.map_or(0, |holder| holder.ceiling))
        .max(remembered.map_or(0, |memory| memory.ceiling_ms));
    // A tree that was put back to what it was knows of an earlier limit.
    let limit_ms = holder
        .map_or(0, |holder| holder.limit)
        .max(remembered.map_or(0, |memory| memory.limit_ms))
        .max(start_ms);
    // When its time is over, or was never known here, the tree may have been put back to what it
    // was before another one took the worker ID.
    let is_known = is_used || remembered.is_some_and(|memory| view.now_ms < memory.limit_ms);
    let phase = match holder {
        Some(holder) if is_known || is_javas => holder.phase,
        _ => Phase::Settling,
    };
    over(me, view, entry, phase, start_ms, limit_ms)
}

/// Whether a new node gets a worker ID of the layout. After a loss of data a node that was put back
/// may have the very name.
#[must_use]
pub fn can_create(me: &Me, view: &View) -> bool {
    let next = view.next_sequence;
    next <= me.max_worker && !view.nodes.contains(&NodeName::new(&me.identity, next))
}

/// A node that an instance of this identity has made and not claimed: the answer was lost, or the
/// instance was stopped.
#[must_use]
pub fn unclaimed(me: &Me, view: &View) -> Option<NodeName> {
    let is_own = |entry: &&Entry| entry.name.identity() == me.identity && is_unclaimed(entry);
    view.entries.iter().find(is_own).map(|entry| entry.name.clone())
}

/// A node that was just made gets its records.
#[must_use]
pub fn claim_created(me: &Me, view: &View, created: &NodeName) -> Option<Claim> {
    let entry = view.entry(created).filter(|entry| entry.holder.is_none())?;
    if created.sequence() > me.max_worker {
        return None;
    }
    let name = &entry.name;
    let ops = vec![
        Op::Check(view::forever(name), entry.leaf.version),
        Op::Create(view::holder(name), me.holder(Phase::Settling, 0, 0, entry.leaf.version)),
        Op::CreateEphemeral(view::temporary(name), me.live()),
    ];
    Some(Claim {
        ops,
        name: name.clone(),
        leaf_version: entry.leaf.version,
        holder_version: 0,
        phase: Phase::Settling,
        start_ms: 0,
        limit_ms: 0,
    })
}

/// Removes a node that was just made and is of no use: its sequence is beyond the layout, or a twin
/// lives.
#[must_use]
pub fn remove_created(view: &View, created: &NodeName) -> Option<Vec<Op>> {
    let entry = view.entry(created).filter(|entry| entry.holder.is_none())?;
    Some(vec![Op::Delete(view::forever(created), entry.leaf.version)])
}

/// The settled worker ID may be used, unless one that was lost from the tree has returned since
/// the reading.
#[must_use]
pub fn settle(me: &Me, view: &View, entry: &Entry, holder: &Holder) -> Vec<Op> {
    let text = me.holder(Phase::Held, holder.ceiling, holder.limit, holder.leaf_version);
    vec![
        Op::Check(view::FLEET.to_owned(), view.fleet.version),
        Op::Set(view::holder(&entry.name), text, entry.holder.as_ref().map(|it| it.version)),
    ]
}

/// Puts a worker ID that is lost from the tree back into it.
#[must_use]
pub fn put_back(me: &Me, view: &View, memory: &super::step::Memory) -> Claim {
    let name = NodeName::new(&me.identity, memory.worker);
    let (start_ms, limit_ms) = (memory.ceiling_ms, memory.limit_ms);
    let fleet = Fleet { version: record::VERSION, layout: me.layout.clone() };
    let mut ops: Vec<Op> = without_live(view, &name).into_iter().collect();
    ops.extend([
        // Whoever is about to use the same worker ID reads the tree again.
        Op::Set(view::FLEET.to_owned(), record::write(&fleet), None),
        Op::Create(view::forever(&name), me.leaf(start_ms)),
        Op::Create(view::holder(&name), me.holder(Phase::Held, start_ms, limit_ms, 0)),
        Op::CreateEphemeral(view::temporary(&name), me.live()),
    ]);
    let phase = Phase::Held;
    Claim { ops, name, leaf_version: 0, holder_version: 0, phase, start_ms, limit_ms }
}

/// Removes a node whose worker ID another one has as well.
#[must_use]
pub fn give_up(view: &View, entry: &Entry) -> Vec<Op> {
    let name = &entry.name;
    let mut ops: Vec<Op> = without_live(view, name).into_iter().collect();
    ops.extend(entry.holder.as_ref().map(|it| Op::Delete(view::holder(name), it.version)));
    ops.push(Op::Delete(view::forever(name), entry.leaf.version));
    ops
}

/// The nodes of this identity that a Java Leaf wrote last, whatever a leafd left there before.
pub fn java_leafs<'a>(me: &Me, view: &'a View) -> impl Iterator<Item = &'a Entry> {
    view.entries.iter().filter(|entry| {
        entry.name.identity() == me.identity
            && entry.name.sequence() <= me.max_worker
            && is_written_by_others(entry)
            && !is_unclaimed(entry)
    })
}

/// Takes over the latest node that a Java Leaf with this identity has left. `None` where a leafd that
/// held it before may still use it, cut off and with a state directory that is not this one: then
/// this instance needs a worker ID of its own.
///
/// # Errors
/// When its record cannot be read.
pub fn join(me: &Me, view: &View) -> Result<Option<Claim>, String> {
    let time = |entry: &&Entry| entry.leaf.value.as_ref().ok().map(|leaf| leaf.timestamp);
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
    Ok(Some(over(me, view, entry, Phase::Held, start_ms, start_ms)))
}

/// A new node in place of what was removed by `ops`. It settles: in an ensemble that went back to
/// older data, what looks free or forsaken may be in use.
fn anew(me: &Me, mut ops: Vec<Op>, worker: u64, start_ms: u64) -> Claim {
    let phase = Phase::Settling;
    let name = NodeName::new(&me.identity, worker);
    ops.extend([
        Op::Create(view::forever(&name), me.leaf(start_ms)),
        Op::Create(view::holder(&name), me.holder(phase, start_ms, start_ms, 0)),
        Op::CreateEphemeral(view::temporary(&name), me.live()),
    ]);
    Claim { ops, name, leaf_version: 0, holder_version: 0, phase, start_ms, limit_ms: start_ms }
}

/// Takes a worker ID that was passed over: every node that is made uses up a sequence, also those
/// that are made for a worker ID that was given back or reclaimed. `pick` spreads those who choose
/// at once. Not where Java Leaf is present, which goes on when its node has been deleted.
#[must_use]
pub fn take_vacant(me: &Me, rules: &Rules, view: &View, pick: usize) -> Option<Claim> {
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

/// Takes a worker ID that was given back: one's own if there is one, else any. `pick` spreads those
/// who choose at once.
#[must_use]
pub fn take_free(me: &Me, view: &View, pick: usize) -> Option<Claim> {
    let usable = |name: &NodeName| name.sequence() <= me.max_worker;
    let fits = view.frees.iter().filter_map(|(name, free)| {
        let record = free.value.as_ref().ok()?;
        (usable(name)
            && record.not_before <= view.now_ms
            && !view.nodes.iter().any(|node| node.sequence() == name.sequence()))
        .then_some((name, free, record))
    });
    let fits: Vec<_> = fits.collect();
    let own = fits.iter().find(|(name, ..)| name.identity() == me.identity);
    let any = fits.get(pick.checked_rem(fits.len()).unwrap_or(0));
    let (name, free, record): &(_, _, &Free) = own.or(any)?;
    let ops = vec![Op::Delete(view::free(name), free.version)];
    Some(anew(me, ops, name.sequence(), record.not_before))
}

/// Nothing is issued by the owner of `entry` at or past this; `None` when that is not known.
fn end_of(rules: &Rules, entry: &Entry) -> Option<u64> {
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

/// When the worker ID of `entry` may be taken over, by ZooKeeper's clock; `None`: not as things are.
fn reclaimable_at(me: &Me, rules: &Rules, view: &View, entry: &Entry) -> Option<u64> {
    if view.is_live(&entry.name) || entry.name.sequence() > me.max_worker {
        return None;
    }
    let name = &entry.name;
    let is_double =
        view.nodes.iter().any(|other| other != name && other.sequence() == name.sequence());
    if is_double {
        return None;
    }
    let silent = entry.leaf.modified_ms.saturating_add(rules.reclaim_after_ms?);
    Some(silent.max(end_of(rules, entry)?))
}

/// Takes over the worker ID of an instance that is gone for long; of one's own identity alone, or
/// of any.
#[must_use]
pub fn reclaim(me: &Me, rules: &Rules, view: &View, pick: usize, own: bool) -> Option<Claim> {
    let fits = view.entries.iter().filter(|entry| {
        (!own || entry.name.identity() == me.identity)
            && reclaimable_at(me, rules, view, entry).is_some_and(|at| at <= view.now_ms)
    });
    let fits: Vec<_> = fits.collect();
    let entry = fits.get(pick.checked_rem(fits.len())?)?;
    let mut ops = Vec::new();
    ops.extend(entry.holder.as_ref().map(|it| Op::Delete(view::holder(&entry.name), it.version)));
    ops.push(Op::Delete(view::forever(&entry.name), entry.leaf.version));
    Some(anew(me, ops, entry.name.sequence(), end_of(rules, entry)?))
}

/// Why there is no worker ID, and in how many ms to look again.
#[must_use]
pub fn exhausted(me: &Me, rules: &Rules, view: &View) -> (String, u64) {
    let next = view.entries.iter().filter_map(|entry| reclaimable_at(me, rules, view, entry)).min();
    let in_ms = next.map_or(60_000, |at| at.saturating_sub(view.now_ms));
    let then = match (next, rules.reclaim_after_ms) {
        (_, None) => "none is reclaimed while Java Leaf is present (worker.java-leaf)".to_owned(),
        (Some(_), _) => format!("the next can be reclaimed in {} s", in_ms.div_ceil(1000)),
        (None, _) => "none can be reclaimed as long as their owners live".to_owned(),
    };
    let text = format!(
        "all {} worker IDs of the layout are taken, {} of them live; {then}. Stop instances, \
         release IDs that are gone for good (`leafctl worker release`), or let instances give \
         theirs back (worker.give-back)",
        me.max_worker.saturating_add(1),
        view.live.len()
    );
    (text, in_ms)
}

/// What a report says.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The node.
    pub name: &'a NodeName,
    /// Its version and that of leafd's record, before.
    pub versions: (i32, i32),
    /// The host's time, or the ceiling if that is later (ms since 1970).
    pub timestamp_ms: u64,
    /// Nothing has been issued at or past this (ms since 1970).
    pub ceiling_ms: u64,
    /// Nothing will be without another report (ms since 1970).
    pub limit_ms: u64,
}

/// The writes of a report.
#[must_use]
pub fn report(me: &Me, report: &Report<'_>) -> Vec<Op> {
    let (leaf, holder) = report.versions;
    let text = me.holder(Phase::Held, report.ceiling_ms, report.limit_ms, leaf + 1);
    vec![
        // A session can end between two reports: then the instance has to register again.
        Op::Check(view::temporary(report.name), 0),
        Op::Set(view::forever(report.name), me.leaf(report.timestamp_ms), Some(leaf)),
        Op::Set(view::holder(report.name), text, Some(holder)),
    ]
}

/// The writes that free the worker ID of an instance that does not live, at `now_ms` by ZooKeeper's
/// clock.
#[must_use]
pub fn release(entry: &Entry, now_ms: u64) -> Vec<Op> {
    let name = &entry.name;
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let ceiling = entry.holder().map_or(0, |holder| holder.ceiling);
    let javas = if is_written_by_others(entry) { after_java(entry, now_ms) } else { 0 };
    let not_before = (now_ms + UNKNOWN_CEILING_MS).max(timestamp).max(ceiling).max(javas);
    let free = Free { version: record::VERSION, not_before };
    let mut ops = vec![
        // Fails when there is one.
        Op::CreateEphemeral(view::temporary(name), Vec::new()),
        Op::Delete(view::temporary(name), 0),
    ];
    ops.extend(entry.holder.as_ref().map(|it| Op::Delete(view::holder(name), it.version)));
    ops.push(Op::Delete(view::forever(name), entry.leaf.version));
    ops.push(Op::Create(view::free(name), record::write(&free)));
    ops
}

/// The writes that give a worker ID back, live node included, for anybody's use from
/// `not_before_ms` on.
#[must_use]
pub fn give_back(name: &NodeName, versions: (i32, i32), not_before_ms: u64) -> Vec<Op> {
    let (leaf, holder) = versions;
    let free = Free { version: record::VERSION, not_before: not_before_ms };
    vec![
        Op::Delete(view::temporary(name), 0),
        Op::Delete(view::holder(name), holder),
        Op::Delete(view::forever(name), leaf),
        Op::Create(view::free(name), record::write(&free)),
    ]
}
