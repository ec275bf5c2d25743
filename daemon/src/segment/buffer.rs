//! The double buffer of one tag: what is in memory, and which request gets it. A plain state
//! machine: requests, leases and disk writes come in as calls with the time as an argument, and the
//! `poll_…` methods return what to do next. No clock, no IO, no waiting.
//!
//! An ID passes through three places. A lease puts it into `reserve`, which is what the disk says
//! is left. It moves to `ready` once a record without it is on disk: the durable ceiling has passed
//! it. leafd issues only from `ready`. A restart begins with what the disk says is left, so it can
//! lose what was in `ready`, and never repeats it.
//!
//! `buffer/leasing.rs` decides when to lease and what a failure means, `persisting.rs` what to
//! write, `waiting.rs` keeps the requests that wait, and `view.rs` reports what the buffer holds.

mod leasing;
mod persisting;
mod view;
mod waiting;

use std::collections::VecDeque;
use std::time::Duration;

use self::waiting::WaitingRequests;
use crate::backoff::Backoff;
use crate::ids::{Range, RangeQueue, Runs};
use crate::segment::messages::{Answer, BufferRecord, BufferRules, LeaseFailure, Refusal, Ticket};
use crate::segment::rate::IssueRate;
use crate::segment::step::StepRule;
use crate::segment::window::Window;

#[derive(Debug)]
enum LeaseState {
    Idle,
    InFlight {
        /// What the step rule asked for.
        wanted: u64,
    },
    BackingOff {
        until: Duration,
    },
    /// The store is down for every tag, until [`TagBuffer::store_is_back`].
    StoreDown,
    /// The store has no such row; looked up again at `until` or once the tag appears.
    Absent {
        until: Duration,
    },
}

#[derive(Debug)]
enum PersistState {
    /// The disk has the latest record.
    Clean,
    /// The record on disk is out of date.
    Due,
    /// A record is being written; `due` if it is out of date already.
    InFlight {
        due: bool,
    },
    BackingOff {
        until: Duration,
        error: String,
    },
    /// The tag is closed: it issues nothing more.
    Closed,
}

/// The buffer of one tag. What [`Self::take`] needs comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TagBuffer {
    issued: u64,
    /// Once `ready` is down to this, the fast path asks for the buffer to be polled.
    alarm: u64,
    /// May be issued.
    ready: RangeQueue,
    waiting: WaitingRequests,
    rules: BufferRules,
    /// Becomes `ready` once the record that is being written is on disk.
    granting: RangeQueue,
    /// Leased, and left according to the disk.
    reserve: RangeQueue,
    /// The ranges as they were leased, the one being issued first.
    leases: VecDeque<Range>,
    /// The highest end of a range that this host has seen.
    high_water_mark: u64,
    rate: IssueRate,
    last_size: u64,
    /// Somebody has asked since the start, or is expected to: keep IDs ready and a range leased.
    keep_ready: bool,
    window: Window,
    /// Nobody waited when the record that is being written was made.
    granted_before_need: bool,
    step: StepRule,
    lease: LeaseState,
    /// Why the last lease failed. It stays while the next attempt is in flight, which is most of
    /// the time when the store is slow to refuse.
    lease_error: Option<LeaseFailure>,
    /// When it failed (monotonic).
    lease_failed_at: Duration,
    /// The store did not have the row, and nothing has shown since that it has.
    is_gone: bool,
    lease_backoff: Backoff,
    persist: PersistState,
    persist_backoff: Backoff,
    /// Refusals that [`Self::poll_done`] has yet to return.
    refused: VecDeque<(Ticket, Refusal)>,
}

impl TagBuffer {
    /// How many bytes [`Self::take`] needs, from the first.
    #[cfg(test)]
    pub(crate) const HOT_BYTES: usize = std::mem::offset_of!(Self, waiting) + size_of::<u64>();

    /// A tag of which nothing is known. `seed` feeds the jitter of its back-off.
    pub(crate) fn new(rules: BufferRules, seed: u64) -> Self {
        Self {
            rules,
            ready: RangeQueue::default(),
            granting: RangeQueue::default(),
            reserve: RangeQueue::default(),
            leases: VecDeque::new(),
            high_water_mark: 0,
            alarm: 0,
            issued: 0,
            rate: IssueRate::default(),
            last_size: 0,
            keep_ready: false,
            window: Window::default(),
            granted_before_need: false,
            step: StepRule::new(rules.max_step),
            lease: LeaseState::Idle,
            lease_error: None,
            lease_failed_at: Duration::ZERO,
            is_gone: false,
            lease_backoff: Backoff::for_stores(seed),
            persist: PersistState::Clean,
            persist_backoff: Backoff::for_disks(seed),
            waiting: WaitingRequests::default(),
            refused: VecDeque::new(),
        }
    }

    /// A tag as the disk remembers it.
    pub(crate) fn restored(rules: BufferRules, seed: u64, record: BufferRecord) -> Self {
        Self {
            leases: record.left.iter().collect(),
            reserve: record.left,
            high_water_mark: record.high_water_mark,
            ..Self::new(rules, seed)
        }
    }

    /// Raises the ceiling and leases ahead of the first request.
    pub(crate) fn prepare(&mut self) {
        self.keep_ready = true;
    }

    /// The fast path: `count` IDs from one range that is ready, and whether the `poll_…` methods
    /// now have something to do. On `None`, call [`Self::request`].
    #[inline]
    pub(crate) fn take(&mut self, count: u32) -> Option<(u64, bool)> {
        if self.waiting.demand() > 0 {
            return None;
        }
        let first = self.ready.take_run(u64::from(count))?;
        self.issued += u64::from(count);
        Some((first, self.ready.total() <= self.alarm))
    }

    /// Requests `count` IDs at `now`, to be answered by `deadline`. Poll the buffer afterwards.
    pub(crate) fn request(
        &mut self,
        now: Duration,
        ticket: Ticket,
        count: u32,
        deadline: Duration,
    ) -> Answer {
        if matches!(self.persist, PersistState::Closed) {
            return Answer::Refused(Refusal::Stopping);
        }
        if matches!(self.lease, LeaseState::Absent { until } if now < until) {
            return Answer::Refused(Refusal::UnknownTag);
        }
        self.keep_ready = true;
        let is_ready = self.ready.total() >= u64::from(count);
        if is_ready && !self.waiting.one_comes_first(self.in_memory()) {
            return Answer::Now(self.issue(count));
        }
        if self.waiting.len() >= self.rules.max_waiting {
            return Answer::Refused(Refusal::TooManyWaiting(self.rules.max_waiting));
        }
        self.waiting.push(ticket, count, deadline);
        Answer::Later
    }

    fn issue(&mut self, count: u32) -> Runs {
        let mut runs = Runs::default();
        for range in self.ready.take_up_to(u64::from(count)).iter() {
            // At most `count`, which is a u32.
            runs.push(range.start(), u32::try_from(range.count()).unwrap_or(u32::MAX));
        }
        self.issued += u64::from(count);
        runs
    }

    /// The next answer. Requests are answered in order of arrival, except that one for more than
    /// memory has waits for a lease and does not block smaller ones behind it.
    pub(crate) fn poll_done(&mut self) -> Option<(Ticket, Result<Runs, Refusal>)> {
        if let Some((ticket, refusal)) = self.refused.pop_front() {
            return Some((ticket, Err(refusal)));
        }
        let (ticket, count) = self.waiting.next_to_serve(self.in_memory(), self.ready.total())?;
        Some((ticket, Ok(self.issue(count))))
    }

    fn in_memory(&self) -> u64 {
        self.ready.total() + self.granting.total() + self.reserve.total()
    }

    fn position(&self) -> Option<u64> {
        self.ready.position().or(self.granting.position()).or(self.reserve.position())
    }

    /// IDs that waiting requests need beyond what memory has.
    fn unmet(&self) -> u64 {
        self.waiting.demand().saturating_sub(self.in_memory())
    }

    /// Whether waiting requests need more than memory has.
    pub(crate) fn is_starving(&self) -> bool {
        self.unmet() > 0
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The earliest deadline of a waiting request.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.waiting.next_deadline()
    }

    /// Refuses the requests whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Duration) {
        for (ticket, needed) in self.waiting.take_expired(now) {
            let refusal = self.why_waiting(now, needed);
            self.refused.push_back((ticket, refusal));
        }
        self.stop_leasing_if_unused();
    }

    /// Forgets a request whose caller is gone.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        if self.waiting.remove(ticket) {
            self.stop_leasing_if_unused();
        }
    }

    /// Refuses the latest requests until memory can serve the rest.
    fn refuse_beyond_memory(&mut self, refusal: &Refusal) {
        while self.unmet() > 0
            && let Some(ticket) = self.waiting.pop_last()
        {
            // Refusals go out in order of arrival, and this one arrived before those already here.
            self.refused.push_front((ticket, refusal.clone()));
        }
    }

    /// Why a request waits, if it and those before it need `needed` IDs.
    fn why_waiting(&self, now: Duration, needed: u64) -> Refusal {
        let from_now = |until: Duration| until.saturating_sub(now);
        if needed > self.in_memory() {
            let retry_after = match self.lease {
                LeaseState::Absent { .. } => return Refusal::UnknownTag,
                LeaseState::BackingOff { until } => from_now(until),
                LeaseState::Idle | LeaseState::InFlight { .. } | LeaseState::StoreDown => {
                    Duration::ZERO
                }
            };
            return match (&self.lease_error, &self.lease) {
                (Some(LeaseFailure::BadRow(error)), _) => Refusal::BadRow(error.clone()),
                (Some(error), _) => Refusal::Store(error.to_string(), retry_after),
                (None, LeaseState::Idle) => Refusal::Deadline,
                (None, _) => Refusal::Store("it has not answered yet".into(), retry_after),
            };
        }
        match &self.persist {
            PersistState::BackingOff { until, error } => {
                Refusal::State(error.clone(), from_now(*until))
            }
            PersistState::InFlight { .. } => {
                Refusal::State("the disk has not answered yet".into(), Duration::ZERO)
            }
            PersistState::Clean | PersistState::Due | PersistState::Closed => Refusal::Deadline,
        }
    }

    /// Closes the tag: it issues nothing more and refuses waiting requests. The record says exactly
    /// what was not issued, and has to be written after every earlier one.
    pub(crate) fn close(&mut self) -> BufferRecord {
        self.persist = PersistState::Closed;
        let reserve = std::mem::take(&mut self.reserve);
        let mut left = std::mem::take(&mut self.ready);
        for range in std::mem::take(&mut self.granting).iter().chain(reserve.iter()) {
            left.push_back(range);
        }
        self.refuse_beyond_memory(&Refusal::Stopping);
        BufferRecord { high_water_mark: self.high_water_mark, left }
    }

    /// Whether no request waits, nothing is in memory or in flight, and the disk has the latest
    /// record.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.in_memory() == 0
            && !matches!(self.lease, LeaseState::InFlight { .. })
            && matches!(self.persist, PersistState::Clean)
    }

    /// Drops the IDs of a tag that has leased nothing for `unused`, and returns its high-water mark. `None` if it
    /// has leased since, or if a request waits or a lease or a write is under way.
    pub(crate) fn leave(&mut self, now: Duration, unused: Duration) -> Option<u64> {
        let leased_lately =
            self.step.last_lease().is_some_and(|last| now.saturating_sub(last) < unused);
        let under_way = matches!(self.lease, LeaseState::InFlight { .. })
            || !matches!(self.persist, PersistState::Clean);
        if leased_lately || under_way || self.is_waited_for() {
            return None;
        }
        self.ready = RangeQueue::default();
        self.granting = RangeQueue::default();
        self.reserve = RangeQueue::default();
        self.leases.clear();
        self.keep_ready = false;
        Some(self.high_water_mark)
    }

    /// The high-water mark of a tag without a row, once nothing of it is left in memory.
    pub(crate) fn mark_of_removed(&self) -> Option<u64> {
        let absent = matches!(self.lease, LeaseState::Absent { .. });
        (absent && self.high_water_mark > 0 && self.is_idle()).then_some(self.high_water_mark)
    }
}

/// The position in `current` from which on the next range is leased: when 10 % of it is issued.
fn next_wanted_at(current: Range) -> u64 {
    current.start() + current.count().div_ceil(10)
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
