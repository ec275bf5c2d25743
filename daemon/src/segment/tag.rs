//! One tag: its buffer under a lock, and the callers that wait for it. Locks are short and never
//! held over an await.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::buffer::TagBuffer;
use super::deadline_timer::{DeadlineTimer, TimerChange};
use super::messages::{BufferCounts, BufferRecord, Refusal, Ticket};
use super::table::{Lane, TableEntry};
use crate::actor::Actor;
use crate::ids::{BizTag, Runs};
use crate::prefetch::prefetch_lines;
use crate::state::journal::TagRecord;
use crate::store::LeaseAsk;

/// How many answers are taken out under one lock. Thousands of requests may wait for one lease, and
/// the serving thread must not wait for the whole queue, nor for a thread that was preempted
/// meanwhile.
const ANSWERS_PER_LOCK: usize = 64;

/// Where a waiting request gets its answer.
pub(super) type Caller = oneshot::Sender<Result<Runs, Refusal>>;

pub(super) type Answered = (Caller, Result<Runs, Refusal>);

/// One tag, or a name that is only being looked up.
///
/// What a request reads that memory can answer comes first, in two lines of the processor's cache: with
/// thousands of tags in use, none of them is in a cache when a request comes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Tag {
    name: BizTag,
    state: Mutex<TagState>,
    /// A request began to wait, or nobody waits for a lookup any more.
    pub(super) hurry: Notify,
    /// A deadline is earlier than the timer's, or none is left.
    pub(super) deadlines_changed: Notify,
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct TagState {
    pub(super) buffer: TagBuffer,
    callers: HashMap<Ticket, Caller>,
    last_ticket: Ticket,
    /// Where the first lease queues, while this is only a lookup.
    pub(super) lane: Option<Lane>,
    /// No longer in the table, so whoever still holds it must not request from it: another tag may
    /// have taken its place.
    pub(super) forgotten: bool,
    /// In the list of tags that the persister will look at.
    pub(super) is_dirty: bool,
    pub(super) deadline_timer: DeadlineTimer,
    /// When the tag was last used, in seconds since 1970.
    pub(super) used_s: u64,
    /// The same by the monotonic clock; none before the first use in this process.
    used_at: Option<Duration>,
    /// How many IDs had been issued by then.
    used_up_to: u64,
    /// The first of those that wait, or the last that had to: the audit names it if leafd creates
    /// the tag for it.
    pub(super) actor: Option<Actor>,
}

impl Tag {
    pub(super) fn new(name: BizTag, buffer: TagBuffer, used_s: u64, lane: Option<Lane>) -> Self {
        let state = TagState {
            buffer,
            callers: HashMap::new(),
            last_ticket: 0,
            lane,
            forgotten: false,
            is_dirty: false,
            deadline_timer: DeadlineTimer::default(),
            used_s,
            used_at: None,
            used_up_to: 0,
            actor: None,
        };
        let (hurry, deadlines_changed) = (Notify::new(), Notify::new());
        Self { name, state: Mutex::new(state), hurry, deadlines_changed }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, TagState> {
        // Only the pure core runs under this lock, and a panic there leaves the buffer whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::lock`], without waiting for another thread.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, TagState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    pub(crate) const fn name(&self) -> &BizTag {
        &self.name
    }

    /// Has the processor fetch what a request reads.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_lines(self);
    }

    /// Where the first lease queues; `None` once there was one.
    pub(super) fn lane(&self) -> Option<Lane> {
        self.lock().lane.clone()
    }

    /// See [`TagState::is_known`].
    pub(super) fn is_known(&self) -> bool {
        self.lock().is_known()
    }

    /// Drops the tag if it has been idle since `since_s` (seconds since 1970) and, in this process, for `unused`.
    /// Returns its high-water mark and its counts.
    pub(super) fn leave(
        &self,
        since_s: u64,
        now: Duration,
        unused: Duration,
    ) -> Option<(u64, BufferCounts)> {
        let mut state = self.lock();
        let used_lately = state.used_at.is_some_and(|at| now.saturating_sub(at) < unused);
        if state.used_s > since_s || used_lately || state.is_used_since() {
            return None;
        }
        let counts = state.buffer.counts();
        let mark = state.buffer.leave(now, unused)?;
        state.forgotten = true;
        Some((mark, counts))
    }

    /// Wakes the tasks of a lookup that nobody waits for any more: it need not queue for the store.
    pub(super) fn note_if_abandoned(&self) {
        let state = self.lock();
        let (abandoned, useless) = (state.is_abandoned(), state.timer_is_useless());
        drop(state);
        if abandoned {
            self.hurry.notify_one();
        }
        if useless {
            self.deadlines_changed.notify_one();
        }
    }
}

impl TableEntry for Tag {
    #[inline]
    fn name(&self) -> &BizTag {
        self.name()
    }

    fn evict(&self) -> bool {
        let mut state = self.lock();
        state.forgotten |= state.is_abandoned() && state.buffer.is_idle();
        let forgotten = state.forgotten;
        drop(state);
        if forgotten {
            // A task may wait for the store on its behalf.
            self.hurry.notify_one();
        }
        forgotten
    }

    fn retire(&self) -> Option<u64> {
        let mut state = self.lock();
        let mark = state.buffer.mark_of_removed();
        state.forgotten |= mark.is_some();
        mark
    }

    fn hasten(&self, lane: &Lane) {
        let mut state = self.lock();
        if state.lane.is_some() {
            state.lane = Some(Arc::clone(lane));
        }
        drop(state);
        self.hurry.notify_one();
    }
}

impl TagState {
    /// Whether this is a tag, of which this host knows a high-water mark and, as far as it knows, the
    /// store has the row. Also if memory is drained, which is when operators look for the tag. The
    /// status counts and lists these tags.
    pub(super) fn is_known(&self) -> bool {
        let counts = self.buffer.counts();
        self.lane.is_none() && !counts.gone && counts.high_water_mark > 0
    }

    /// Whether this is a lookup that nobody waits for.
    pub(super) fn is_abandoned(&self) -> bool {
        self.lane.is_some() && !self.buffer.is_waited_for()
    }

    fn is_used_since(&self) -> bool {
        self.buffer.counts().issued > self.used_up_to
    }

    /// Notes that IDs were issued since the last call, if any were: the fast path does not.
    pub(super) fn note_use(&mut self, now: Duration, unix_s: u64) {
        if self.is_used_since() {
            self.used_up_to = self.buffer.counts().issued;
            (self.used_at, self.used_s) = (Some(now), unix_s);
        }
    }

    /// `actor` asks for more than memory has.
    pub(super) fn note_actor(&mut self, actor: &Actor) {
        if self.actor.is_none() || !self.buffer.is_waited_for() {
            self.actor = Some(actor.clone());
        }
    }

    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(super) fn add_caller(&mut self, ticket: Ticket, caller: Caller) {
        self.callers.insert(ticket, caller);
    }

    /// Returns whether the caller still waited.
    pub(super) fn remove_caller(&mut self, ticket: Ticket) -> bool {
        self.callers.remove(&ticket).is_some()
    }

    /// A request waits until `deadline`.
    pub(super) fn note_deadline(&mut self, deadline: Duration) -> TimerChange {
        self.deadline_timer.note(deadline)
    }

    /// Until when the deadline timer sleeps now; `None` ends it.
    pub(super) fn next_deadline(&mut self) -> Option<Duration> {
        self.deadline_timer.set(self.buffer.next_deadline())
    }

    /// Whether the timer of a lookup runs although nobody waits. It must not keep the name in
    /// memory until a deadline that no longer matters.
    pub(super) fn timer_is_useless(&self) -> bool {
        self.deadline_timer.is_running() && self.is_abandoned()
    }

    /// The lease that the tag wants now.
    pub(super) fn poll_lease(&mut self, now: Duration) -> Option<LeaseAsk> {
        if self.forgotten { None } else { self.buffer.poll_lease(now) }
    }

    /// The next answers, to be sent once the lock is released, since sending wakes a thread. And
    /// whether there may be more.
    pub(super) fn next_answers(&mut self) -> (Vec<Answered>, bool) {
        let mut answers = Vec::new();
        for _ in 0..ANSWERS_PER_LOCK {
            let Some((ticket, outcome)) = self.buffer.poll_done() else { return (answers, false) };
            // A caller that hung up is no longer listed.
            answers.extend(self.callers.remove(&ticket).map(|caller| (caller, outcome)));
        }
        (answers, true)
    }

    pub(super) fn to_disk(&self, record: BufferRecord) -> TagRecord {
        TagRecord { floor: record.high_water_mark, used_s: self.used_s, left: record.left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_reads_lies_in_the_two_lines_that_are_fetched_ahead() {
        let rules = crate::segment::messages::BufferRules {
            max_step: 1000,
            max_waiting: 1,
            absent_for: Duration::ZERO,
        };
        let tag = Tag::new(BizTag::new("orders").unwrap(), TagBuffer::new(rules, 0), 0, None);
        let state = tag.lock();
        let buffer_at = (&raw const state.buffer).addr() - (&raw const tag).addr();
        assert!(buffer_at + TagBuffer::HOT_BYTES <= 128, "{buffer_at}");
        assert_eq!((&raw const tag).addr() % 64, 0);
    }
}
