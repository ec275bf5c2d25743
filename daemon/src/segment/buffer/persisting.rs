//! What the disk has to know about a tag, and when. IDs move from `reserve` to `granting` with the
//! record that no longer lists them, and to `ready` once that record is on disk.

use std::time::Duration;

use super::waiting::SEARCHED;
use super::{LeaseState, PersistState, TagBuffer, next_wanted_at};
use crate::segment::messages::BufferRecord;
use crate::segment::window::Use;

impl TagBuffer {
    /// The record on disk is out of date.
    pub(super) fn record_changed(&mut self) {
        match &mut self.persist {
            PersistState::Clean => self.persist = PersistState::Due,
            PersistState::InFlight { due } => *due = true,
            // The next attempt writes the latest record anyway.
            PersistState::Due | PersistState::BackingOff { .. } | PersistState::Closed => {}
        }
    }

    /// Whether the record on disk is out of date; `None` if nothing can be written now.
    fn persist_is_due(&self, now: Duration) -> Option<bool> {
        match self.persist {
            PersistState::Clean => Some(false),
            PersistState::Due => Some(true),
            PersistState::BackingOff { until, .. } if now >= until => Some(true),
            PersistState::BackingOff { .. }
            | PersistState::InFlight { .. }
            | PersistState::Closed => None,
        }
    }

    /// Whether [`Self::poll_persist`] would return a record at `now`, unless the window shrinks then. Cheap, so
    /// that the writing thread is not woken for nothing.
    pub(crate) fn wants_persist(&mut self, now: Duration) -> bool {
        let wants = self.persist_is_due(now).map(|due| due || self.grant() > 0);
        if wants == Some(false) {
            self.set_alarm();
        }
        wants == Some(true)
    }

    /// A record to write and sync. The outcome goes to [`Self::persisted`] or
    /// [`Self::persist_failed`]; until then there is no other.
    pub(crate) fn poll_persist(&mut self, now: Duration) -> Option<BufferRecord> {
        self.note_rate(now);
        let due = self.persist_is_due(now)?;
        if self.grant() > 0 {
            let requests_wait = self.asked() > self.ready.total();
            let (issued, leased) = (self.issued, self.size_of_leases());
            self.window.raised(now, Use { issued, leased, requests_wait });
        }
        // For the new size. A grant for the old one would be used up in no time if the window has grown, and
        // keep it large if it has shrunk.
        let grant = self.grant();
        if !due && grant == 0 {
            self.set_alarm();
            return None;
        }
        self.granting = self.reserve.take_up_to(grant);
        self.granted_before_need = self.waiting.is_empty();
        self.persist = PersistState::InFlight { due: false };
        self.set_alarm();
        Some(BufferRecord { high_water_mark: self.high_water_mark, left: self.reserve.clone() })
    }

    /// How many IDs the last lease had. After a start, what is left or the row's step stands for it.
    fn size_of_leases(&self) -> u64 {
        let left = || self.leases.iter().map(|range| range.count()).max();
        match self.last_size {
            0 => left().unwrap_or(0).max(self.step.row_step()),
            size => size,
        }
    }

    /// How many IDs of those in memory requests wait for.
    fn asked(&self) -> u64 {
        self.waiting.servable(self.in_memory())
    }

    /// How many IDs to move below the ceiling now: a window beyond what requests wait for, so that a large
    /// request is not followed by another grant.
    fn grant(&self) -> u64 {
        if self.reserve.total() == 0 {
            return 0;
        }
        let ready = self.ready.total();
        let asked = self.asked();
        if !self.keep_ready || (ready > self.window.size() / 2 && asked <= ready) {
            return 0;
        }
        let wanted = self.window.size().saturating_add(asked);
        wanted.saturating_sub(ready).min(self.reserve.total())
    }

    pub(super) fn set_alarm(&mut self) {
        self.drop_spent_leases();
        let writing = matches!(self.persist, PersistState::InFlight { .. });
        let for_grant =
            if writing || self.reserve.total() == 0 { 0 } else { self.window.size() / 2 };
        // The next lease is due when no more than this is left in `ready`, provided that the last
        // range is the current one. While a lease is in flight or cannot be tried, none is due.
        let behind = self.granting.total() + self.reserve.total();
        let for_lease = match self.leases.back() {
            Some(last) if matches!(self.lease, LeaseState::Idle) => {
                (last.end() - next_wanted_at(*last)).saturating_sub(behind)
            }
            _ => 0,
        };
        self.alarm = for_grant.max(for_lease);
    }

    /// The record is on disk.
    pub(crate) fn persisted(&mut self) {
        let PersistState::InFlight { due } = self.persist else { return };
        let granted = std::mem::take(&mut self.granting);
        for range in granted.iter() {
            self.ready.push_back(range);
        }
        if granted.total() > 0 && self.fell_short() {
            self.window.fell_short();
        }
        self.persist_backoff.reset();
        self.persist = if due { PersistState::Due } else { PersistState::Clean };
    }

    /// Whether requests wait because the record that has just been written took long: nobody did before, or
    /// more do than it gave.
    fn fell_short(&self) -> bool {
        let enough = if self.granted_before_need { 0 } else { self.ready.total() };
        let are_countless = self.waiting.len() > SEARCHED;
        self.asked() > enough || (are_countless && self.reserve.total() > 0)
    }

    /// The record is not on disk, or may not be.
    pub(crate) fn persist_failed(&mut self, now: Duration, error: String) {
        if !matches!(self.persist, PersistState::InFlight { .. }) {
            return;
        }
        let granting = std::mem::take(&mut self.granting);
        self.reserve.put_back(granting);
        self.persist = PersistState::BackingOff { until: now + self.persist_backoff.fail(), error };
    }

    /// When to retry a failed write (monotonic).
    pub(crate) const fn retry_persist_at(&self) -> Option<Duration> {
        match self.persist {
            PersistState::BackingOff { until, .. } => Some(until),
            _ => None,
        }
    }
}
