//! What a tag's buffer holds and how fast it goes, for the status, the refresh and the log.

use std::time::Duration;

use super::{LeaseState, TagBuffer};
use crate::ids::BizTag;
use crate::segment::messages::{BufferCounts, BufferView, TagFigures};

/// How long a lease that failed counts as trouble if nobody asks again. Longer than an alert waits.
const RECENT_FAILURE: Duration = Duration::from_secs(600);

impl TagBuffer {
    /// Numbers to add up over many tags.
    pub(crate) fn counts(&self) -> BufferCounts {
        BufferCounts {
            waiting: self.waiting.len() as u64,
            issued: self.issued,
            leases: self.step.leases(),
            high_water_mark: self.high_water_mark,
            absent: matches!(self.lease, LeaseState::Absent { .. }),
            gone: self.is_gone,
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
            lease_error: self.lease_error.clone(),
        }
    }

    /// Everything that the metrics say about the tag `name` at `now`. Costs no allocation.
    pub(crate) fn figures<'a>(&self, name: &'a BizTag, now: Duration) -> TagFigures<'a> {
        TagFigures {
            name,
            high_water_mark: self.high_water_mark,
            remaining: self.in_memory(),
            issued: self.issued,
            leases: self.step.leases(),
            waiting: self.waiting.len() as u64,
            step: self.next_step(now),
            seconds_left: self.seconds_left(now),
            since_lease: now.saturating_sub(self.step.last_lease().unwrap_or_default()),
            is_leasing: !matches!(self.lease, LeaseState::Idle | LeaseState::Absent { .. }),
            is_failing: self.is_failing(now),
        }
    }

    /// Whether the last lease failed, and somebody needs another. Nobody does if leafd no longer
    /// retries and no request has caused another attempt: an old failure then is no trouble.
    fn is_failing(&self, now: Duration) -> bool {
        let is_recent = now.saturating_sub(self.lease_failed_at) < RECENT_FAILURE;
        self.lease_error.is_some() && (self.keep_ready || is_recent)
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
