//! When a tag leases and how much, what a lease or a failure changes, and what reading the tag's
//! row says about it.

use std::time::Duration;

use super::{LeaseState, PersistState, TagBuffer, next_wanted_at};
use crate::ids::RangeQueue;
use crate::segment::messages::{BufferRecord, LeaseFailure, Refusal};
use crate::segment::step::USUAL_MOST;
use crate::store::{Lease, LeaseAsk};

impl TagBuffer {
    /// A lease to ask the store for. Its outcome goes to [`Self::leased`] or
    /// [`Self::lease_failed`]; until then there is no other.
    pub(crate) fn poll_lease(&mut self, now: Duration) -> Option<LeaseAsk> {
        self.note_rate(now);
        match self.lease {
            LeaseState::Idle => {}
            LeaseState::BackingOff { until } if now >= until => self.lease_is_possible(),
            LeaseState::Absent { until } if now >= until => {}
            LeaseState::InFlight { .. }
            | LeaseState::StoreDown
            | LeaseState::BackingOff { .. }
            | LeaseState::Absent { .. } => return None,
        }
        if matches!(self.persist, PersistState::Closed) || !self.wants_lease() {
            return None;
        }
        let wanted = self.step.next(now);
        // The whole demand, although memory has a part of it: others take that part meanwhile.
        let most = self.rules.max_step.min(USUAL_MOST);
        let starving = if self.is_starving() { self.waiting.demand().min(most) } else { 0 };
        self.lease = LeaseState::InFlight { wanted };
        Some(LeaseAsk { at_least: wanted.max(starving), floor: self.high_water_mark })
    }

    fn wants_lease(&mut self) -> bool {
        self.drop_spent_leases();
        self.is_starving()
            || match (self.leases.len(), self.leases.front(), self.position()) {
                (0, ..) => self.keep_ready,
                (1, Some(current), Some(position)) => position >= next_wanted_at(*current),
                _ => false,
            }
    }

    pub(super) fn drop_spent_leases(&mut self) {
        let position = self.position();
        while let Some(front) = self.leases.front()
            && position.is_none_or(|position| front.end() <= position)
        {
            self.leases.pop_front();
        }
    }

    pub(crate) fn leased(&mut self, now: Duration, lease: Lease) {
        let LeaseState::InFlight { wanted } = self.lease else { return };
        if lease.range.start() < self.high_water_mark {
            // The store's own check should have caught this. Never issue from such a range.
            let error = format!(
                "the store gave a range from {} although this host has seen {}",
                lease.range.start(),
                self.high_water_mark
            );
            return self.lease_failed(now, LeaseFailure::Unavailable(error));
        }
        self.reserve.push_back(lease.range);
        self.leases.push_back(lease.range);
        self.high_water_mark = lease.range.end();
        self.last_size = lease.range.count();
        self.step.leased(now, wanted, lease.row_step);
        self.lease_backoff.reset();
        self.lease = LeaseState::Idle;
        self.lease_error = None;
        self.is_gone = false;
        self.record_changed();
    }

    /// The store granted no lease.
    pub(crate) fn lease_failed(&mut self, now: Duration, failure: LeaseFailure) {
        if !matches!(self.lease, LeaseState::InFlight { .. }) {
            return;
        }
        match &failure {
            LeaseFailure::Unavailable(_) => self.back_off(now),
            LeaseFailure::NotTried(_) => self.lease = LeaseState::StoreDown,
            LeaseFailure::BadRow(error) => {
                self.back_off(now);
                self.refuse_beyond_memory(&Refusal::BadRow(error.clone()));
                self.stop_leasing_if_unused();
            }
            LeaseFailure::NoRoom { limit, removed } => {
                self.back_off(now);
                let (limit, removed) = (*limit, *removed);
                self.refuse_beyond_memory(&Refusal::TooManyTags { limit, removed });
                self.stop_leasing_if_unused();
            }
            LeaseFailure::UnknownTag => return self.removed(now),
            LeaseFailure::NotMade => return self.row_is_gone(now, true),
        }
        self.lease_error = Some(failure);
        self.lease_failed_at = now;
    }

    fn back_off(&mut self, now: Duration) {
        self.lease = LeaseState::BackingOff { until: now + self.lease_backoff.fail() };
    }

    /// Without IDs in memory and without a waiting request, do not retry the lease.
    pub(super) fn stop_leasing_if_unused(&mut self) {
        if self.waiting.is_empty() && self.in_memory() == 0 {
            self.keep_ready = false;
        }
    }

    /// When to retry a failed lease (monotonic).
    pub(crate) const fn retry_lease_at(&self) -> Option<Duration> {
        match self.lease {
            LeaseState::BackingOff { until } => Some(until),
            _ => None,
        }
    }

    /// Whether the tag tries no lease until the store is back.
    pub(crate) const fn waits_for_store(&self) -> bool {
        matches!(self.lease, LeaseState::StoreDown)
    }

    /// Leases may be tried again.
    pub(crate) fn store_is_back(&mut self) {
        if self.waits_for_store() {
            self.lease_is_possible();
            // If nothing is needed from the store, the old error no longer matters.
            if !self.wants_lease() {
                self.lease_error = None;
            }
        }
    }

    /// A failure no longer holds up the next lease, so the fast path has to watch for its time
    /// again.
    fn lease_is_possible(&mut self) {
        self.lease = LeaseState::Idle;
        self.set_alarm();
    }

    /// The row was found to be gone. If requests make tags, those that wait get a lease, which makes
    /// the row.
    pub(crate) fn row_is_gone(&mut self, now: Duration, requests_make_tags: bool) {
        if self.waiting.is_empty() || !requests_make_tags {
            return self.removed(now);
        }
        self.drop_memory();
        if matches!(self.lease, LeaseState::InFlight { .. }) {
            self.lease = LeaseState::Idle;
        }
    }

    /// The store does not have the row (any more): drops what is in memory and keeps the
    /// high-water mark.
    pub(crate) fn removed(&mut self, now: Duration) {
        self.lease = LeaseState::Absent { until: now + self.rules.absent_for };
        self.is_gone = true;
        self.drop_memory();
        self.keep_ready = false;
        self.refuse_beyond_memory(&Refusal::UnknownTag);
    }

    /// The row is gone, and with it the reason to issue what was leased from it.
    fn drop_memory(&mut self) {
        self.lease_error = None;
        if self.forget_ranges() > 0 {
            self.record_changed();
        }
    }

    /// Drops what is in memory, since it comes from another database than the store's, and keeps
    /// the high-water mark. Returns the number of dropped IDs and the record to write.
    pub(crate) fn drop_ranges(&mut self) -> (u64, BufferRecord) {
        let dropped = self.forget_ranges();
        self.record_changed();
        let record =
            BufferRecord { high_water_mark: self.high_water_mark, left: RangeQueue::default() };
        (dropped, record)
    }

    fn forget_ranges(&mut self) -> u64 {
        let dropped = self.in_memory();
        (self.ready, self.granting, self.reserve) = Default::default();
        self.leases.clear();
        dropped
    }

    /// The tag was created or seen in the store: the next request looks it up at once.
    pub(crate) fn appeared(&mut self) {
        self.is_gone = false;
        if matches!(self.lease, LeaseState::Absent { .. }) {
            self.lease = LeaseState::Idle;
        }
    }

    /// The row was read, and its next lease would start at `max_id`: some host has all IDs below.
    /// Returns whether that raises the high-water mark, so that it has to be written.
    pub(crate) fn row_is_at(&mut self, max_id: u64) -> bool {
        // A lease in flight moves the row itself; a closed tag has written its last record; and for
        // a tag that was never used here there is no mark to keep.
        let settled = !matches!(self.lease, LeaseState::InFlight { .. })
            && !matches!(self.persist, PersistState::Closed);
        let raised = settled && self.high_water_mark > 0 && max_id > self.high_water_mark;
        if raised {
            self.high_water_mark = max_id;
            self.record_changed();
        }
        raised
    }

    /// The row's step was read or changed.
    pub(crate) fn row_step_is(&mut self, row_step: u64) {
        self.step.row_step_is(row_step);
    }
}
