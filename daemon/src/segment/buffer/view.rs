//! What a tag's buffer holds and how fast it goes, for the status, the refresh and the log.

use std::time::Duration;

use super::{LeaseState, TagBuffer};
use crate::segment::messages::{BufferCounts, BufferView};

impl TagBuffer {
    /// Numbers to add up over many tags.
    pub(crate) fn counts(&self) -> BufferCounts {
        BufferCounts {
            waiting: self.waiting.len() as u64,
            issued: self.issued,
            leases: self.step.leases(),
            high_water_mark: self.high_water_mark,
            absent: matches!(self.lease, LeaseState::Absent { .. }),
        }
    }

    pub(crate) fn view(&self) -> BufferView {
        BufferView {
            row_step: self.step.row_step(),
            leases: self.leases.iter().copied().collect(),
            position: self.position(),
            remaining: self.in_memory(),
            issued: self.issued,
            lease_count: self.step.leases(),
            last_lease: self.step.last_lease(),
            last_size: self.last_size,
            waiting: self.waiting.len(),
            high_water_mark: self.high_water_mark,
            absent: matches!(self.lease, LeaseState::Absent { .. }),
            leasing: matches!(self.lease, LeaseState::InFlight { .. }),
            lease_error: self.lease_error.as_ref().map(ToString::to_string),
        }
    }

    /// The size that the next lease would have at `now`.
    pub(crate) fn next_step(&self, now: Duration) -> u64 {
        self.step.next(now).max(self.step.row_step())
    }

    /// Notes how many IDs have been issued by `now`. The `poll_…` methods do so too, but nobody
    /// polls an idle tag.
    pub(crate) fn note_rate(&mut self, now: Duration) {
        self.rate.note(now, self.issued);
    }

    /// How many seconds memory lasts at the present rate; `None` if nobody asks. Waiting requests
    /// count as asked for.
    pub(crate) fn seconds_left(&self, now: Duration) -> Option<u64> {
        let asked_for = self.issued.saturating_add(self.waiting.demand());
        self.rate.seconds_for(self.in_memory(), now, asked_for)
    }

    /// How many IDs are asked for in 1000 seconds, at the present rate.
    pub(crate) fn per_1000_s(&self, now: Duration) -> u64 {
        let asked_for = self.issued.saturating_add(self.waiting.demand());
        self.rate.per_1000_s(now, asked_for)
    }
}
