//! The double buffer of one tag. A plain state machine: requests, leases and disk writes come in
//! as calls with the time as an argument; what has to be done next is asked for with the `poll_…`
//! methods. No clock, no IO, no waiting.
//!
//! An ID passes three places. It is leased into `reserve`, which is what the disk says is left. It
//! moves to `ready` once the disk says that it is no longer left: the durable ceiling has passed
//! it. Only from `ready` is it issued. A restart begins with what the disk says is left, so it can
//! lose what was in `ready`, and never repeats.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::{Range, RangeQueue, Runs};
use crate::segment::rate::Rate;
use crate::segment::step::{StepRule, USUAL_MOST};
use crate::segment::terms::{Answer, Figures, LeaseFailure, Record, Refusal, Rules, Ticket, View};
use crate::segment::window::Window;
use crate::store::{Lease, LeaseAsk};

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    count: u32,
    deadline: Duration,
}

#[derive(Debug)]
enum LeaseState {
    Idle,
    InFlight {
        wanted: u64,
    },
    Resting {
        until: Duration,
    },
    /// The store is down for everybody; [`Segment::store_is_back`] ends it.
    StoreDown,
    Absent {
        until: Duration,
    },
}

#[derive(Debug)]
enum Persist {
    /// The disk says what is true.
    Clean,
    /// The disk does not know the latest; nothing hurries but to write it.
    Due,
    /// A record is being written; `due` when there is news already.
    InFlight {
        due: bool,
    },
    Resting {
        until: Duration,
        error: String,
    },
    /// The tag is closed; nothing is issued any more.
    Closed,
}

/// Of those who wait, so many are looked at when somebody can be served. More gain little, and a
/// long queue would cost each request a walk along it.
const LOOKED_AT: usize = 4096;

/// One tag.
#[derive(Debug)]
pub struct Segment {
    rules: Rules,
    ready: RangeQueue,
    granting: RangeQueue,
    reserve: RangeQueue,
    /// The ranges as they were leased, the one being issued first.
    leases: VecDeque<Range>,
    floor: u64,
    /// With `ready` at or below this, there is more to do than to issue.
    alarm: u64,
    issued: u64,
    rate: Rate,
    last_size: u64,
    /// Somebody has asked in this life, or is expected to: keep a range at hand.
    wanted: bool,
    window: Window,
    step: StepRule,
    lease: LeaseState,
    /// Why there was no lease when one was last asked for; also while the next try is under way,
    /// which is most of the time when the store takes long to say no.
    trouble: Option<LeaseFailure>,
    lease_backoff: Backoff,
    persist: Persist,
    persist_backoff: Backoff,
    waiters: VecDeque<Waiter>,
    /// A lower bound of the counts of all waiting requests.
    least: u32,
    demand: u64,
    /// Refused, and not told yet.
    refused: VecDeque<(Ticket, Refusal)>,
}

impl Segment {
    /// A tag that nothing is known of. `seed` feeds the jitter of its back-off.
    #[must_use]
    pub fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            ready: RangeQueue::default(),
            granting: RangeQueue::default(),
            reserve: RangeQueue::default(),
            leases: VecDeque::new(),
            floor: 0,
            alarm: 0,
            issued: 0,
            rate: Rate::default(),
            last_size: 0,
            wanted: false,
            window: Window::default(),
            step: StepRule::new(rules.max_step),
            lease: LeaseState::Idle,
            trouble: None,
            lease_backoff: Backoff::for_stores(seed),
            persist: Persist::Clean,
            persist_backoff: Backoff::for_disks(seed),
            waiters: VecDeque::new(),
            least: 0,
            demand: 0,
            refused: VecDeque::new(),
        }
    }

    /// A tag as the disk remembers it.
    #[must_use]
    pub fn restored(rules: Rules, seed: u64, record: Record) -> Self {
        Self {
            leases: record.left.iter().collect(),
            reserve: record.left,
            floor: record.floor,
            ..Self::new(rules, seed)
        }
    }

    /// Someone will want IDs soon: raise the ceiling and lease before they ask.
    pub fn prepare(&mut self) {
        self.wanted = true;
    }

    /// The fast path: `count` IDs from one range that is ready, and whether the `poll_…` methods
    /// have something to say now. `None` means [`Self::request`].
    #[inline]
    pub fn take(&mut self, count: u32) -> Option<(u64, bool)> {
        if !self.waiters.is_empty() {
            return None;
        }
        let first = self.ready.take_run(u64::from(count))?;
        self.issued += u64::from(count);
        Some((first, self.ready.total() <= self.alarm))
    }

    /// Asks for `count` IDs at `now`, to be had by `deadline`. Ask the `poll_…` methods after it.
    pub fn request(
        &mut self,
        now: Duration,
        ticket: Ticket,
        count: u32,
        deadline: Duration,
    ) -> Answer {
        if matches!(self.persist, Persist::Closed) {
            return Answer::Refused(Refusal::Stopping);
        }
        if matches!(self.lease, LeaseState::Absent { until } if now < until) {
            return Answer::Refused(Refusal::UnknownTag);
        }
        self.wanted = true;
        if self.ready.total() >= u64::from(count) && !self.is_one_ahead() {
            return Answer::Now(self.issue(count));
        }
        if self.waiters.len() >= self.rules.max_waiting {
            return Answer::Refused(Refusal::TooManyWaiting(self.rules.max_waiting));
        }
        self.least = if self.waiters.is_empty() { count } else { self.least.min(count) };
        self.waiters.push_back(Waiter { ticket, count, deadline });
        self.demand += u64::from(count);
        Answer::Later
    }

    /// Whether an earlier request has to be served first. Requests for more than memory has wait for
    /// the store and block nobody.
    fn is_one_ahead(&self) -> bool {
        let memory = self.in_memory();
        let mut counts = self.waiters.iter().take(LOOKED_AT).map(|waiter| u64::from(waiter.count));
        counts.any(|count| count <= memory) || self.waiters.len() > LOOKED_AT
    }

    fn issue(&mut self, count: u32) -> Runs {
        let mut runs = Runs::default();
        for range in self.ready.take_up_to(u64::from(count)).iter() {
            // No longer than `count`, which is a u32.
            runs.push(range.start(), u32::try_from(range.count()).unwrap_or(u32::MAX));
        }
        self.issued += u64::from(count);
        runs
    }

    /// The next answer. Requests are answered in order of arrival, except that one for more than memory
    /// has waits for a lease and does not block smaller ones behind it.
    pub fn poll_done(&mut self) -> Option<(Ticket, Result<Runs, Refusal>)> {
        if let Some((ticket, refusal)) = self.refused.pop_front() {
            return Some((ticket, Err(refusal)));
        }
        let at = self.next_to_serve()?;
        let waiter = self.waiters.remove(at)?;
        self.demand -= u64::from(waiter.count);
        Some((waiter.ticket, Ok(self.issue(waiter.count))))
    }

    /// The first of those that memory can serve, if it can be served at once.
    fn next_to_serve(&mut self) -> Option<usize> {
        // Each request that begins to wait asks, and must not walk along the queue for nothing.
        if self.ready.total() < u64::from(self.least) {
            return None;
        }
        let memory = self.in_memory();
        let mut waiters = self.waiters.iter().take(LOOKED_AT).map(|waiter| u64::from(waiter.count));
        let Some(at) = waiters.position(|count| count <= memory) else {
            if self.waiters.len() <= LOOKED_AT {
                self.least = self.waiters.iter().map(|waiter| waiter.count).min().unwrap_or(0);
            }
            return None;
        };
        let count = u64::from(self.waiters.get(at)?.count);
        (count <= self.ready.total()).then_some(at)
    }

    /// How much of memory is asked for by those that it can serve.
    fn servable(&self) -> u64 {
        let memory = self.in_memory();
        let counts = self.waiters.iter().take(LOOKED_AT).map(|waiter| u64::from(waiter.count));
        counts.fold(0, |sum, count| if sum + count <= memory { sum + count } else { sum })
    }

    /// A lease to ask the store for. The outcome goes to [`Self::leased`] or
    /// [`Self::lease_failed`]; until then there is no other.
    pub fn poll_lease(&mut self, now: Duration) -> Option<LeaseAsk> {
        self.note_rate(now);
        match self.lease {
            LeaseState::Idle => {}
            LeaseState::Resting { until } if now >= until => self.lease_is_possible(),
            LeaseState::Absent { until } if now >= until => {}
            LeaseState::InFlight { .. }
            | LeaseState::StoreDown
            | LeaseState::Resting { .. }
            | LeaseState::Absent { .. } => return None,
        }
        if matches!(self.persist, Persist::Closed) || !self.wants_lease() {
            return None;
        }
        let wanted = self.step.next(now);
        // All that is asked for, and not less by what memory has: that goes to others meanwhile.
        let most = self.rules.max_step.min(USUAL_MOST);
        let starving = if self.unmet() > 0 { self.demand.min(most) } else { 0 };
        self.lease = LeaseState::InFlight { wanted };
        Some(LeaseAsk { at_least: wanted.max(starving), floor: self.floor })
    }

    /// IDs that are asked for and not in memory.
    fn unmet(&self) -> u64 {
        self.demand.saturating_sub(self.in_memory())
    }

    /// Whether somebody waits for more than memory has.
    #[must_use]
    pub fn is_starving(&self) -> bool {
        self.unmet() > 0
    }

    fn in_memory(&self) -> u64 {
        self.ready.total() + self.granting.total() + self.reserve.total()
    }

    fn position(&self) -> Option<u64> {
        self.ready.position().or(self.granting.position()).or(self.reserve.position())
    }

    fn wants_lease(&mut self) -> bool {
        self.drop_spent_leases();
        self.unmet() > 0
            || match (self.leases.len(), self.leases.front(), self.position()) {
                (0, ..) => self.wanted,
                (1, Some(current), Some(position)) => position >= next_wanted_at(*current),
                _ => false,
            }
    }

    fn drop_spent_leases(&mut self) {
        let position = self.position();
        while let Some(front) = self.leases.front()
            && position.is_none_or(|position| front.end() <= position)
        {
            self.leases.pop_front();
        }
    }

    /// The store gave a lease.
    pub fn leased(&mut self, now: Duration, lease: Lease) {
        let LeaseState::InFlight { wanted } = self.lease else { return };
        if lease.range.start() < self.floor {
            // The store's own check should have caught this; it must not pass here either.
            let error = format!(
                "the store gave a range from {} although this host has seen {}",
                lease.range.start(),
                self.floor
            );
            return self.lease_failed(now, LeaseFailure::Unavailable(error));
        }
        self.reserve.push_back(lease.range);
        self.leases.push_back(lease.range);
        self.floor = lease.range.end();
        self.last_size = lease.range.count();
        self.step.leased(now, wanted, lease.row_step);
        self.lease_backoff.reset();
        self.lease = LeaseState::Idle;
        self.trouble = None;
        self.news();
    }

    /// The store gave none.
    pub fn lease_failed(&mut self, now: Duration, failure: LeaseFailure) {
        if !matches!(self.lease, LeaseState::InFlight { .. }) {
            return;
        }
        match &failure {
            LeaseFailure::Unavailable(_) => self.rest(now),
            LeaseFailure::NotTried(_) => self.lease = LeaseState::StoreDown,
            LeaseFailure::BadRow(error) => {
                self.rest(now);
                self.refuse_beyond_memory(&Refusal::BadRow(error.clone()));
                self.leave_store_alone();
            }
            LeaseFailure::NoRoom { limit, removed } => {
                self.rest(now);
                let (limit, removed) = (*limit, *removed);
                self.refuse_beyond_memory(&Refusal::TooManyTags { limit, removed });
                self.leave_store_alone();
            }
            LeaseFailure::UnknownTag => return self.removed(now),
        }
        self.trouble = Some(failure);
    }

    fn rest(&mut self, now: Duration) {
        self.lease = LeaseState::Resting { until: now + self.lease_backoff.fail() };
    }

    fn refuse_beyond_memory(&mut self, refusal: &Refusal) {
        while self.unmet() > 0
            && let Some(waiter) = self.waiters.pop_back()
        {
            self.demand -= u64::from(waiter.count);
            // Answered in order of arrival: the last goes behind those refused before it.
            self.refused.push_front((waiter.ticket, refusal.clone()));
        }
    }

    /// The store has no such row (any more): what is in memory is dropped, what is known of the
    /// highest end is kept.
    pub fn removed(&mut self, now: Duration) {
        self.lease = LeaseState::Absent { until: now + self.rules.absent_for };
        let had = self.in_memory() > 0;
        (self.ready, self.granting, self.reserve) = Default::default();
        self.leases.clear();
        self.trouble = None;
        self.wanted = false;
        self.refuse_beyond_memory(&Refusal::UnknownTag);
        if had {
            self.news();
        }
    }

    /// What is in memory comes from another database than the store's: it is dropped, and what is
    /// known of the highest end is kept. Says how much was dropped, and what the disk has to say.
    pub fn give_up_ranges(&mut self) -> (u64, Record) {
        let dropped = self.in_memory();
        (self.ready, self.granting, self.reserve) = Default::default();
        self.leases.clear();
        self.news();
        (dropped, Record { floor: self.floor, left: RangeQueue::default() })
    }

    /// The tag was made or seen in the store: look it up again at once.
    pub fn appeared(&mut self) {
        if matches!(self.lease, LeaseState::Absent { .. }) {
            self.lease = LeaseState::Idle;
        }
    }

    /// The store can be asked again.
    pub fn store_is_back(&mut self) {
        if matches!(self.lease, LeaseState::StoreDown) {
            self.lease_is_possible();
            // What is not asked for is not in trouble.
            if !self.wants_lease() {
                self.trouble = None;
            }
        }
    }

    /// A failure no longer holds up the next lease, so use has to be watched again.
    fn lease_is_possible(&mut self) {
        self.lease = LeaseState::Idle;
        self.set_alarm();
    }

    /// Whether nothing is asked of the store until it is back.
    #[must_use]
    pub const fn waits_for_store(&self) -> bool {
        matches!(self.lease, LeaseState::StoreDown)
    }

    /// The row was read, and its next lease would start at `max_id`: all below it is somebody's.
    /// Says whether that is more than was known, so that the disk has to be told.
    pub fn row_is_at(&mut self, max_id: u64) -> bool {
        // What a lease in flight has done to the row is not somebody else's; one that is closed
        // has said its last word; and of a tag that was never used here nothing is kept.
        let settled = !matches!(self.lease, LeaseState::InFlight { .. })
            && !matches!(self.persist, Persist::Closed);
        let news = settled && self.floor > 0 && max_id > self.floor;
        if news {
            self.floor = max_id;
            self.news();
        }
        news
    }

    /// The row's step as the store has it now.
    pub fn row_step_is(&mut self, row_step: u64) {
        self.step.row_step_is(row_step);
    }

    fn news(&mut self) {
        match &mut self.persist {
            Persist::Clean => self.persist = Persist::Due,
            Persist::InFlight { due } => *due = true,
            // The next try writes the latest anyway.
            Persist::Due | Persist::Resting { .. } | Persist::Closed => {}
        }
    }

    /// Whether the disk has to be told something; none when nothing can be written now.
    fn persist_is_due(&self, now: Duration) -> Option<bool> {
        match self.persist {
            Persist::Clean => Some(false),
            Persist::Due => Some(true),
            Persist::Resting { until, .. } if now >= until => Some(true),
            Persist::Resting { .. } | Persist::InFlight { .. } | Persist::Closed => None,
        }
    }

    /// Whether [`Self::poll_persist`] has a record to write at `now`. Cheap, so that a thread that
    /// writes need not be woken to find out that there is nothing to write.
    pub fn wants_persist(&mut self, now: Duration) -> bool {
        let wants = self.persist_is_due(now).map(|due| due || self.grant() > 0);
        if wants == Some(false) {
            self.set_alarm();
        }
        wants == Some(true)
    }

    /// A record to write and sync. The outcome goes to [`Self::persisted`] or
    /// [`Self::persist_failed`]; until then there is no other.
    pub fn poll_persist(&mut self, now: Duration) -> Option<Record> {
        self.note_rate(now);
        let due = self.persist_is_due(now)?;
        let grant = self.grant();
        if !due && grant == 0 {
            self.set_alarm();
            return None;
        }
        if grant > 0 {
            // The new size counts at once: half of it, granted for the old one, would be used up
            // in no time and make the window grow again.
            self.window.raised(now);
            let grant = self.grant().max(grant);
            self.granting = self.reserve.take_up_to(grant);
        }
        self.persist = Persist::InFlight { due: false };
        self.set_alarm();
        Some(Record { floor: self.floor, left: self.reserve.clone() })
    }

    /// How many IDs to move below the ceiling now.
    fn grant(&self) -> u64 {
        if self.reserve.total() == 0 {
            return 0;
        }
        let ready = self.ready.total();
        let asked = self.servable();
        if !self.wanted || (ready > self.window.size() / 2 && asked <= ready) {
            return 0;
        }
        (self.window.size().max(asked).saturating_sub(ready)).min(self.reserve.total())
    }

    fn set_alarm(&mut self) {
        self.drop_spent_leases();
        let writing = matches!(self.persist, Persist::InFlight { .. });
        let for_grant =
            if writing || self.reserve.total() == 0 { 0 } else { self.window.size() / 2 };
        // The last range is the current one, and used so far, when no more than this is left. While
        // a lease is under way or cannot be tried, nothing can be done about that.
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
    pub fn persisted(&mut self) {
        let Persist::InFlight { due } = self.persist else { return };
        for range in std::mem::take(&mut self.granting).iter() {
            self.ready.push_back(range);
        }
        self.persist_backoff.reset();
        self.persist = if due { Persist::Due } else { Persist::Clean };
    }

    /// The record is not, or not surely, on disk.
    pub fn persist_failed(&mut self, now: Duration, error: String) {
        if !matches!(self.persist, Persist::InFlight { .. }) {
            return;
        }
        let granting = std::mem::take(&mut self.granting);
        self.reserve.put_back(granting);
        self.persist = Persist::Resting { until: now + self.persist_backoff.fail(), error };
    }

    /// The earliest deadline of those who wait.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.waiters.iter().map(|waiter| waiter.deadline).min()
    }

    /// Refuses those whose deadline has passed.
    pub fn expire(&mut self, now: Duration) {
        let waiters = std::mem::take(&mut self.waiters);
        let mut before = 0;
        for waiter in waiters {
            let count = u64::from(waiter.count);
            if waiter.deadline > now {
                before += count;
                self.waiters.push_back(waiter);
            } else {
                let refusal = self.why_waiting(now, before + count);
                self.demand -= count;
                self.refused.push_back((waiter.ticket, refusal));
            }
        }
        self.leave_store_alone();
    }

    /// Forgets a request whose caller is gone.
    pub fn withdraw(&mut self, ticket: Ticket) {
        if let Some(at) = self.waiters.iter().position(|waiter| waiter.ticket == ticket)
            && let Some(waiter) = self.waiters.remove(at)
        {
            self.demand -= u64::from(waiter.count);
            self.leave_store_alone();
        }
    }

    /// With nothing in memory and nobody waiting any more, the store is not asked again and again.
    fn leave_store_alone(&mut self) {
        if self.waiters.is_empty() && self.in_memory() == 0 {
            self.wanted = false;
        }
    }

    /// What holds up the request that needs `upto` IDs together with those before it.
    fn why_waiting(&self, now: Duration, upto: u64) -> Refusal {
        let from = |until: Duration| until.saturating_sub(now);
        if upto > self.in_memory() {
            let next = match self.lease {
                LeaseState::Absent { .. } => return Refusal::UnknownTag,
                LeaseState::Resting { until } => from(until),
                LeaseState::Idle | LeaseState::InFlight { .. } | LeaseState::StoreDown => {
                    Duration::ZERO
                }
            };
            return match (&self.trouble, &self.lease) {
                (Some(LeaseFailure::BadRow(error)), _) => Refusal::BadRow(error.clone()),
                (Some(trouble), _) => Refusal::Store(trouble.to_string(), next),
                (None, LeaseState::Idle) => Refusal::Deadline,
                (None, _) => Refusal::Store("it has not answered yet".into(), next),
            };
        }
        match &self.persist {
            Persist::Resting { until, error } => Refusal::State(error.clone(), from(*until)),
            Persist::InFlight { .. } => {
                Refusal::State("the disk has not answered yet".into(), Duration::ZERO)
            }
            Persist::Clean | Persist::Due | Persist::Closed => Refusal::Deadline,
        }
    }

    /// When [`Self::poll_lease`] is worth asking again after a failure (monotonic).
    #[must_use]
    pub const fn lease_rests_until(&self) -> Option<Duration> {
        match self.lease {
            LeaseState::Resting { until, .. } => Some(until),
            _ => None,
        }
    }

    /// When [`Self::poll_persist`] is worth asking again after a failure (monotonic).
    #[must_use]
    pub const fn persist_rests_until(&self) -> Option<Duration> {
        match self.persist {
            Persist::Resting { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Ends the tag: nothing is issued any more, who waits is refused, and the record says exactly
    /// what was not issued. It has to be written after every earlier one.
    pub fn close(&mut self) -> Record {
        self.persist = Persist::Closed;
        let reserve = std::mem::take(&mut self.reserve);
        let mut left = std::mem::take(&mut self.ready);
        for range in std::mem::take(&mut self.granting).iter().chain(reserve.iter()) {
            left.push_back(range);
        }
        self.refuse_beyond_memory(&Refusal::Stopping);
        Record { floor: self.floor, left }
    }

    /// Whether nobody waits, nothing is in memory or under way, and the disk knows all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty()
            && self.in_memory() == 0
            && !matches!(self.lease, LeaseState::InFlight { .. })
            && matches!(self.persist, Persist::Clean)
    }

    /// The high-water mark of a tag that the store has no row of and that nothing is left of.
    #[must_use]
    pub fn mark_of_removed(&self) -> Option<u64> {
        let absent = matches!(self.lease, LeaseState::Absent { .. });
        (absent && self.floor > 0 && self.is_idle()).then_some(self.floor)
    }

    /// Whether somebody waits.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// What is added up over many tags.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            waiting: self.waiters.len() as u64,
            issued: self.issued,
            leases: self.step.leases(),
            floor: self.floor,
            absent: matches!(self.lease, LeaseState::Absent { .. }),
        }
    }

    /// What people want to know.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            row_step: self.step.row_step(),
            leases: self.leases.iter().copied().collect(),
            position: self.position(),
            remaining: self.in_memory(),
            issued: self.issued,
            lease_count: self.step.leases(),
            last_lease: self.step.last_lease(),
            last_size: self.last_size,
            waiting: self.waiters.len(),
            floor: self.floor,
            absent: matches!(self.lease, LeaseState::Absent { .. }),
            leasing: matches!(self.lease, LeaseState::InFlight { .. }),
            lease_error: self.trouble.as_ref().map(ToString::to_string),
        }
    }

    /// The size of the next lease if it were taken at `now`, for people.
    #[must_use]
    pub fn next_step(&self, now: Duration) -> u64 {
        self.step.next(now).max(self.step.row_step())
    }

    /// Looks how many have been issued; the `poll_…` methods do so too, but a tag at rest is asked
    /// for nothing.
    pub fn note_rate(&mut self, now: Duration) {
        self.rate.note(now, self.issued);
    }

    /// How many seconds memory lasts at the present rate; none when nobody asks. Who waits has
    /// asked.
    #[must_use]
    pub fn seconds_left(&self, now: Duration) -> Option<u64> {
        self.rate.seconds_for(self.in_memory(), now, self.issued.saturating_add(self.demand))
    }
}

/// When 10 % of the range being issued is gone, the next is leased.
fn next_wanted_at(current: Range) -> u64 {
    current.start() + current.count().div_ceil(10)
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
