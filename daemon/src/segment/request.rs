//! Requests that the fast path could not serve: they may take a name into the table, wait for a
//! lease or a write, and end with the caller.

use std::sync::Arc;

use leaf_client::wire::WireError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::deadline_timer::TimerChange;
use super::messages::{Answer, Refusal, Ticket};
use super::service::{Segments, lock};
use super::table::{Asker, TableFull};
use super::tag::Tag;
use crate::actor::Actor;
use crate::ids::{BizTag, Runs};

/// The answer to a request.
pub(crate) enum SegmentOutcome {
    Now(Runs),
    /// [`PendingSegment::outcome`] returns the answer.
    Later(PendingSegment),
    Refused(WireError),
}

/// A request that waits. Dropping it before its answer withdraws the request.
pub(crate) struct PendingSegment {
    segments: Segments,
    tag: Arc<Tag>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Result<Runs, Refusal>>,
}

impl Segments {
    /// `count` IDs of the tag `name` now, or by `deadline`. A new name takes one of the asker's
    /// places until it is answered. If leafd makes the tag for it, `actor` is in the audit.
    pub(crate) fn request(
        &self,
        name: &BizTag,
        (asker, actor): (Asker, Actor),
        count: u32,
        deadline: Instant,
    ) -> SegmentOutcome {
        loop {
            match self.find_or_look_up(name, asker) {
                Ok(tag) => {
                    if let Some(outcome) = self.request_from(&tag, &actor, count, deadline) {
                        return outcome;
                    }
                }
                Err(refusal) => return SegmentOutcome::Refused(refusal.to_wire(name)),
            }
        }
    }

    fn find_or_look_up(&self, name: &BizTag, asker: Asker) -> Result<Arc<Tag>, Refusal> {
        let make = |mark, lane| {
            Tag::new(name.clone(), self.empty_buffer(mark), self.unix_seconds(), Some(lane))
        };
        let found = lock(&self.0.tags).find_or_look_up(name, asker, make);
        found.map_err(|full| match full {
            TableFull::Tags { limit, removed } => Refusal::TooManyTags { limit, removed },
            TableFull::Lookups(own) => Refusal::TooManyNew(own),
        })
    }

    /// `None` if the table no longer has the tag.
    fn request_from(
        &self,
        tag: &Arc<Tag>,
        actor: &Actor,
        count: u32,
        deadline: Instant,
    ) -> Option<SegmentOutcome> {
        let (sender, receiver) = oneshot::channel();
        let mut state = tag.lock();
        if state.forgotten {
            return None;
        }
        state.note_actor(actor);
        let ticket = state.next_ticket();
        let until = deadline.saturating_duration_since(self.0.started);
        let answer = state.buffer.request(self.now(), ticket, count, until);
        let waits = matches!(answer, Answer::Later);
        let mut timer = TimerChange::Keep;
        if waits {
            state.add_caller(ticket, sender);
            timer = state.note_deadline(until);
        }
        drop(state);
        if waits {
            tag.hurry.notify_one();
        }
        if self.attend_to_some(tag) {
            // The serving thread leaves the rest of a long queue to another one.
            let (this, tag) = (self.clone(), Arc::clone(tag));
            drop(self.0.background.spawn(async move { this.attend(&tag) }));
        }
        match timer {
            TimerChange::Start => {
                drop(self.0.background.spawn(self.clone().watch_deadlines(Arc::clone(tag))));
            }
            TimerChange::WakeSooner => tag.deadlines_changed.notify_one(),
            TimerChange::Keep => {}
        }
        Some(match answer {
            Answer::Now(runs) => SegmentOutcome::Now(runs),
            Answer::Later => SegmentOutcome::Later(PendingSegment {
                segments: self.clone(),
                tag: Arc::clone(tag),
                ticket,
                receiver,
            }),
            Answer::Refused(refusal) => SegmentOutcome::Refused(refusal.to_wire(tag.name())),
        })
    }

    /// The error for the caller. While the store is down, its error replaces what the tag last saw.
    fn explain(&self, refusal: Refusal, tag: &BizTag) -> WireError {
        match (refusal, self.store_down()) {
            (Refusal::Store(..), Some((error, next))) => Refusal::Store(error, next).to_wire(tag),
            (refusal, _) => refusal.to_wire(tag),
        }
    }
}

impl PendingSegment {
    /// The answer, at the deadline at the latest. Needs no timer in the runtime that waits for it.
    ///
    /// # Errors
    /// Why the buffer refused the request.
    pub(crate) async fn outcome(mut self) -> Result<Runs, WireError> {
        let answer = (&mut self.receiver).await.unwrap_or(Err(Refusal::Deadline));
        answer.map_err(|refusal| self.segments.explain(refusal, self.tag.name()))
    }
}

impl Drop for PendingSegment {
    fn drop(&mut self) {
        if !self.tag.lock().remove_caller(self.ticket) {
            return;
        }
        // Finding it in a long queue takes a while, and connections end on the serving thread.
        let (tag, ticket) = (Arc::clone(&self.tag), self.ticket);
        self.segments.0.background.spawn(async move {
            tag.lock().buffer.withdraw(ticket);
            tag.note_if_abandoned();
        });
    }
}
