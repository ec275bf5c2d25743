//! What a holder writes: its reports, and the end of its claim. And what an operator's release writes
//! in its place.

use super::super::instance::Instance;
use super::super::name::NodeName;
use super::super::record::{self, ClaimPhase, FreeRecord};
use super::super::view::WorkerEntry;
use super::super::write::{Key, RegistryRecord, RegistryWrite};
use super::finding::{after_java, is_written_by_others};
use crate::safety::UNKNOWN_CEILING_MS;

/// What a report says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimReport<'a> {
    /// The node.
    pub(crate) name: &'a NodeName,
    /// Its version and that of leafd's record, before.
    pub(crate) versions: (i32, i32),
    /// The host's time, or the ceiling if that is later (ms since 1970).
    pub(crate) timestamp_ms: u64,
    /// Nothing has been issued at or past this (ms since 1970).
    pub(crate) ceiling_ms: u64,
    /// Nothing will be without another report (ms since 1970).
    pub(crate) limit_ms: u64,
}

/// The writes of a report.
pub(crate) fn report(me: &Instance, report: &ClaimReport<'_>) -> Vec<RegistryWrite> {
    let (leaf, holder) = report.versions;
    let issued = (report.ceiling_ms, report.limit_ms);
    let record = me.holder(report.name, ClaimPhase::Held, issued, leaf + 1);
    vec![
        // A session can end between two reports: then the instance has to register again.
        RegistryWrite::Check(Key::live(report.name), 0),
        RegistryWrite::Set(me.leaf(report.name, report.timestamp_ms), Some(leaf)),
        RegistryWrite::Set(record, Some(holder)),
    ]
}

/// The writes that free the worker ID of an instance that does not live, at `now_ms` by the registry's
/// clock.
pub(crate) fn release(entry: &WorkerEntry, now_ms: u64) -> Vec<RegistryWrite> {
    let name = &entry.name;
    let timestamp = entry.leaf.value.as_ref().map_or(0, |leaf| leaf.timestamp);
    let ceiling = entry.holder().map_or(0, |holder| holder.ceiling);
    let javas = if is_written_by_others(entry) { after_java(entry, now_ms) } else { 0 };
    let not_before = (now_ms + UNKNOWN_CEILING_MS).max(timestamp).max(ceiling).max(javas);
    let free = FreeRecord { version: record::VERSION, not_before };
    let mut ops = vec![RegistryWrite::Absent(Key::live(name))];
    ops.extend(
        entry.holder.as_ref().map(|it| RegistryWrite::Delete(Key::holder(name), it.version)),
    );
    ops.push(RegistryWrite::Delete(Key::leaf(name), entry.leaf.version));
    ops.push(RegistryWrite::Create(RegistryRecord::Free(name.clone(), free)));
    ops
}

/// The writes that give a worker ID back, and end its live marker, for anybody's use from
/// `not_before_ms` on.
pub(crate) fn give_back(
    name: &NodeName,
    versions: (i32, i32),
    not_before_ms: u64,
) -> Vec<RegistryWrite> {
    let (leaf, holder) = versions;
    let free = FreeRecord { version: record::VERSION, not_before: not_before_ms };
    vec![
        RegistryWrite::Delete(Key::live(name), 0),
        RegistryWrite::Delete(Key::holder(name), holder),
        RegistryWrite::Delete(Key::leaf(name), leaf),
        RegistryWrite::Create(RegistryRecord::Free(name.clone(), free)),
    ]
}
