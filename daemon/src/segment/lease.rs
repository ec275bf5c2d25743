//! Leasing: one task per lease in flight, which retries after a failure and ends once the tag wants
//! no lease. The buffer decides when and how much; this file makes the call and logs its outcome.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, RwLockReadGuard, SemaphorePermit};

use super::messages::{BufferView, LeaseFailure};
use super::service::{Segments, lock};
use super::table::{Lane, TableFull};
use super::tag::Tag;
use crate::actor::{AuditEntry, AuditOutcome};
use crate::state::lease_log::LeaseLogEntry;
use crate::store::{Lease, LeaseAsk};
use crate::store::{Leased, NewTag, StoreError};

/// Minimum interval, over all tags, between log lines about requests that had to wait for a lease.
const STARVATION_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The permits to call the store now. Their semaphores are never closed.
struct LeaseTurn<'a> {
    _ahead: Option<SemaphorePermit<'a>>,
    _turn: Option<SemaphorePermit<'a>>,
    _lane: Option<OwnedSemaphorePermit>,
}

impl Segments {
    /// Carries out `ask`, and then the leases that the tag wants next.
    pub(super) async fn lease(self, tag: Arc<Tag>, ask: LeaseAsk) {
        // After a panic in here, the tag would wait for this lease for ever.
        let breakdown = self.0.fatal.clone().drop_guard();
        let mut next = Some(ask);
        while let Some(ask) = next.take() {
            let mut gate = None;
            let outcome = self.lease_in_turn(&tag, ask, &mut gate).await;
            self.take_in(&tag, outcome);
            drop(gate);
            next = self.next_ask(&tag).await;
        }
        drop(breakdown.disarm());
    }

    fn take_in(&self, tag: &Arc<Tag>, outcome: Result<Leased, LeaseFailure>) {
        let now = self.now();
        if let Ok(leased) = &outcome {
            self.log_leased(tag, leased);
        }
        let mut state = tag.lock();
        match outcome {
            Ok(leased) => {
                let view = state.buffer.view();
                // Requests always wait for a tag's first lease.
                if view.lease_count > 0 && state.buffer.is_starving() {
                    self.log_starvation(tag, view.waiting, leased.lease);
                }
                self.record_lease(tag, leased.lease);
                state.buffer.leased(now, leased.lease);
                drop(state);
                self.keep_as_tag(tag);
            }
            Err(failure) => {
                // An outage of the store is in the log already, once for all tags.
                if self.store_down().is_none() {
                    log_failure(tag, &state.buffer.view(), &failure);
                }
                state.buffer.lease_failed(now, failure);
                let removed = state.buffer.counts().absent && state.lane.is_none();
                drop(state);
                if removed {
                    lock(&self.0.tags).note_removed();
                }
            }
        }
        self.attend(tag);
    }

    fn log_leased(&self, tag: &Tag, leased: &Leased) {
        let range = leased.lease.range;
        if let Some(from) = leased.moved_from {
            self.log_backwards(tag, from, range.start());
        }
        tracing::debug!(
            tag = tag.name().as_str(),
            start = range.start(),
            end = range.end(),
            row_step = leased.lease.row_step,
            "leased a range"
        );
    }

    /// The row was found at `found`, below `mark`, and moved forward to it.
    pub(super) fn log_backwards(&self, tag: &Tag, found: u64, mark: u64) {
        // Of a tag of a past day that is only looked up, nothing is known but where its series left, and its
        // row may well be below.
        let is_lookup = tag.lane().is_some();
        let is_of_series = {
            let table = lock(&self.0.tags);
            table.removed_mark(tag.name()) == 0 && table.retired_floor(tag.name().as_str()) > 0
        };
        if !(is_lookup && is_of_series) {
            return log_backwards(tag, found, mark);
        }
        tracing::info!(
            tag = tag.name().as_str(),
            found,
            mark,
            "a tag of a past day is used again; leafd moved its row above all that this host has seen of \
             such tags"
        );
    }

    /// Adds the lease to the log that `leafd audit` reads. It goes ahead of the journal's record in
    /// the writer's queue.
    fn record_lease(&self, tag: &Tag, lease: Lease) {
        self.0.writer.leased(LeaseLogEntry::Lease {
            time_ms: self.0.environment.unix_ms(),
            database: self.0.store.guard().and_then(|guard| guard.recorded().identity),
            tag: tag.name().as_str().to_owned(),
            range: lease.range,
        });
    }

    /// A step that is too small for the load grows by itself, but an operator may want to know.
    fn log_starvation(&self, tag: &Tag, waiting: usize, lease: Lease) {
        let mut logged = lock(&self.0.starvation_logged);
        let environment = &self.0.environment;
        if logged.is_some_and(|logged| environment.since(logged) < STARVATION_LOG_INTERVAL) {
            return;
        }
        *logged = Some(environment.now());
        tracing::info!(
            tag = tag.name().as_str(),
            waiting,
            leased = lease.range.count(),
            row_step = lease.row_step,
            "requests had to wait for this lease. That is normal after an outage; otherwise the \
             row's step is small for the load, and the step of the next leases grows by itself"
        );
    }

    /// What the tag wants next, once it no longer backs off or waits for the store.
    async fn next_ask(&self, tag: &Arc<Tag>) -> Option<LeaseAsk> {
        loop {
            let (down, abandoned, until) = {
                let state = tag.lock();
                let buffer = &state.buffer;
                (buffer.waits_for_store(), state.is_abandoned(), buffer.retry_lease_at())
            };
            if down {
                tokio::select! {
                    () = self.0.stop.cancelled() => return None,
                    () = self.store_opens() => {}
                    () = tag.hurry.notified(), if !abandoned => continue,
                    // The next request starts a lease again.
                    () = std::future::ready(()), if abandoned => {}
                }
                let mut state = tag.lock();
                state.buffer.store_is_back();
                return state.poll_lease(self.now());
            }
            let until = until?;
            let wake = self.0.environment.now() + until.saturating_sub(self.now());
            tokio::select! {
                () = self.0.stop.cancelled() => return None,
                () = tokio::time::sleep_until(wake) => {}
            }
            if self.now() >= until {
                return tag.lock().poll_lease(self.now());
            }
        }
    }

    /// `gate` is held from before the call on, so that its outcome comes into memory before it opens.
    async fn lease_in_turn<'a>(
        &'a self,
        tag: &Tag,
        ask: LeaseAsk,
        gate: &mut Option<RwLockReadGuard<'a, ()>>,
    ) -> Result<Leased, LeaseFailure> {
        let Some(_turn) = self.turn(tag).await else {
            return Err(LeaseFailure::NotTried("no request waits for it any more".into()));
        };
        if self.0.stop.is_cancelled() {
            return Err(LeaseFailure::NotTried("leafd is stopping".into()));
        }
        if let Some((error, _)) = self.store_down() {
            return Err(LeaseFailure::NotTried(error));
        }
        if tag.lock().lane.is_some()
            && let Err(TableFull::Tags { limit, removed }) = lock(&self.0.tags).check_room()
        {
            return Err(LeaseFailure::NoRoom { limit, removed });
        }
        // Before the gate: what it waits for may need the gate.
        if let Some(witness) = self.0.store.witness() {
            witness.ready().await;
        }
        *gate = Some(self.0.lease_gate.read().await);
        let begun = self.now();
        let ask = LeaseAsk { floor: self.or_base(ask.floor), ..ask };
        let mut outcome = self.0.store.lease(tag.name(), ask).await;
        if self.0.settings.auto_create && outcome == Err(StoreError::NoSuchTag) {
            // A lease ahead of need must not bring back a tag that somebody deleted, least of all
            // at a start, when only the journal remembers it.
            if !tag.lock().buffer.is_starving() {
                return Err(LeaseFailure::NotMade);
            }
            outcome = self.lease_from_new_row(tag, ask).await;
        }
        let tally = &self.0.lease_tally;
        tally.seconds.record(self.now().saturating_sub(begun));
        let count = if outcome.is_ok() { &tally.granted } else { &tally.failed };
        count.add(1);
        match &outcome {
            Ok(_) => self.note_works(),
            Err(StoreError::Down(error)) => self.note_down(begun, error),
            // This concerns one row. It shows neither that the store is down nor that it writes.
            Err(_) => {}
        }
        Ok(outcome?)
    }

    /// Waits for permits to call the store. That is not the store's fault and does not count as its
    /// time. Tags that a request waits for go ahead of those that lease ahead of need.
    async fn turn(&self, tag: &Tag) -> Option<LeaseTurn<'_>> {
        if let Some(lane) = tag.lane() {
            return self.first_turn(tag, lane).await;
        }
        let starving = || tag.lock().buffer.is_starving();
        let mut ahead = None;
        while ahead.is_none() && !starving() {
            tokio::select! {
                permit = self.0.leasing_ahead.acquire() => ahead = permit.ok(),
                // The signal may be an old one.
                () = tag.hurry.notified() => {}
            }
        }
        let turn = self.0.leasing.acquire().await.ok();
        Some(LeaseTurn { _ahead: ahead, _turn: turn, _lane: None })
    }

    /// The same for a lookup: first in the lane of its asker, so that one that asks for thousands
    /// of names does not hold up others, and then among all. `None` once no request waits for the
    /// name.
    async fn first_turn(&self, tag: &Tag, mut lane: Lane) -> Option<LeaseTurn<'_>> {
        let mut own = pin!(Arc::clone(&lane).acquire_owned());
        let own = loop {
            tokio::select! {
                permit = &mut own => break permit.ok(),
                () = tag.hurry.notified() => {}
            }
            let shorter = tag.lane().filter(|now| !Arc::ptr_eq(now, &lane));
            if let Some(shorter) = shorter {
                own.set(Arc::clone(&shorter).acquire_owned());
                lane = shorter;
            }
            if tag.lock().is_abandoned() {
                return None;
            }
        };
        let turn = self.0.first_leasing.acquire().await.ok();
        let turn = LeaseTurn { _ahead: None, _turn: turn, _lane: own };
        (!tag.lock().is_abandoned()).then_some(turn)
    }

    /// Makes the row of a tag that a request waits for, and leases from it.
    async fn lease_from_new_row(&self, tag: &Tag, ask: LeaseAsk) -> Result<Leased, StoreError> {
        let step = self.0.settings.default_step;
        let new = NewTag::new(ask.floor.max(1), step, "");
        match self.create_row(tag.name(), new).await {
            Ok(made) => log_created(tag, step, made.first),
            // Another host was faster.
            Err(StoreError::Exists) => {}
            Err(error) => return Err(error),
        }
        self.0.store.lease(tag.name(), ask).await
    }
}

/// leafd created the tag because somebody asked for its IDs (`segment.auto-create`).
fn log_created(tag: &Tag, step: u64, first: u64) {
    let name = tag.name().as_str();
    let actor = tag.lock().actor.clone();
    let Some(actor) = actor else {
        // A tag in use whose row has gone, and which leafd leases ahead for.
        return tracing::info!(tag = name, step, first, "created a tag again that was in use");
    };
    let new = format!("step {step}, first {first}");
    let entry = AuditEntry {
        action: "tag-create-on-use",
        tag: Some(name),
        new: Some(&new),
        ..AuditEntry::default()
    };
    actor.log(&entry, &AuditOutcome::Done);
}

/// Logs a failure once for each reason.
fn log_failure(tag: &Tag, view: &BufferView, failure: &LeaseFailure) {
    match failure {
        LeaseFailure::BadRow(why) if view.lease_error.as_ref() != Some(failure) => {
            let error = failure.code();
            tracing::error!(tag = tag.name().as_str(), %error, "the row cannot be used: {why}");
        }
        LeaseFailure::Unavailable(why) if view.lease_error.as_ref() != Some(failure) => {
            let (tag, error) = (tag.name().as_str(), failure.code());
            tracing::warn!(tag, %error, "a lease failed and will be retried: {why}");
        }
        // An unknown name concerns only its callers; a tag that is gone, the operator too.
        LeaseFailure::UnknownTag if view.remaining > 0 => log_gone(tag, view),
        LeaseFailure::NotMade => log_gone(tag, view),
        LeaseFailure::BadRow(_)
        | LeaseFailure::Unavailable(_)
        | LeaseFailure::UnknownTag
        | LeaseFailure::NoRoom { .. }
        | LeaseFailure::NotTried(_) => {}
    }
}

/// The row of a tag has disappeared. An operator has to know of one that is in use; a tag that was
/// deleted earlier, of which the journal only has the high-water mark, is none.
pub(super) fn log_gone(tag: &Tag, view: &BufferView) {
    let (tag, dropped) = (tag.name().as_str(), view.remaining);
    if dropped == 0 && view.lease_count == 0 {
        tracing::debug!(tag, mark = view.high_water_mark, "the store does not have this tag");
        return;
    }
    let error = ErrorCode::UnknownTag;
    tracing::warn!(
        tag,
        dropped,
        %error,
        "the tag is gone from the store; leafd no longer serves it"
    );
}

/// The row was found at `found`, below `mark`, and moved forward to it. This host cannot know where
/// the row was set back to: others may have leased from there up to `found` before this host
/// looked.
fn log_backwards(tag: &Tag, found: u64, mark: u64) {
    tracing::error!(
        tag = tag.name().as_str(),
        found,
        mark,
        "the row's max_id went backwards to {found}, below {mark} which this host has seen; leafd \
         moved it forward, so this host repeats nothing. Was a backup restored, did a failover \
         lose writes, was the row edited, or did this host come from another database? If the row \
         was set back to exactly {found}, no ID was issued twice. If it was set back further, \
         other hosts leased from there up to {found}, and those IDs may have been issued twice; \
         IDs from {found} on were not"
    );
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
