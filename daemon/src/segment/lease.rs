//! Leasing: one task per lease under way, which ends when the tag wants no other and rests from
//! none. The buffer says when and how much; here is only the call and what people are told.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};
use tokio::time::Instant;

use super::service::{Segments, Tag, lock};
use super::table::{Full, Lane};
use super::terms::{LeaseFailure, View};
use crate::state::lease_log::LeaseLogEntry;
use crate::store::{Lease, LeaseAsk};
use crate::store::{Leased, NewTag, StoreError};

/// People are told of requests that had to wait not more often than this, over all tags.
const STARVATION_TOLD: Duration = Duration::from_secs(10);

/// The right to ask the store now. The semaphores are never closed.
struct Turn<'a> {
    _ahead: Option<SemaphorePermit<'a>>,
    _turn: Option<SemaphorePermit<'a>>,
    _lane: Option<OwnedSemaphorePermit>,
}

impl Segments {
    /// Carries out `ask` and what the tag asks for next.
    pub(super) async fn lease(self, tag: Arc<Tag>, ask: LeaseAsk) {
        // A panic in here would leave the tag waiting for this lease for ever.
        let breakdown = self.0.fatal.clone().drop_guard();
        let mut next = Some(ask);
        while let Some(ask) = next.take() {
            let outcome = self.lease_in_turn(&tag, ask).await;
            self.take_in(&tag, outcome);
            next = self.rest(&tag).await;
        }
        drop(breakdown.disarm());
    }

    fn take_in(&self, tag: &Arc<Tag>, outcome: Result<Leased, LeaseFailure>) {
        let now = self.now();
        let mut inner = tag.lock();
        match outcome {
            Ok(leased) => {
                report(tag, &leased);
                let view = inner.segment.view();
                // The first one is always waited for.
                if view.lease_count > 0 && inner.segment.is_starving() {
                    self.tell_of_starvation(tag, view.waiting, leased.lease);
                }
                self.log_lease(tag, leased.lease);
                inner.segment.leased(now, leased.lease);
                drop(inner);
                self.keep_as_tag(tag);
            }
            Err(failure) => {
                tell(tag, &inner.segment.view(), &failure);
                let removed = failure == LeaseFailure::UnknownTag && inner.lane.is_none();
                inner.segment.lease_failed(now, failure);
                drop(inner);
                if removed {
                    lock(&self.0.tags).note_removed();
                }
            }
        }
        self.attend(tag);
    }

    /// For `leafd audit`. Ahead of the journal's record of it in the writer's queue.
    fn log_lease(&self, tag: &Tag, lease: Lease) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.writer.leased(LeaseLogEntry::Lease {
            time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            database: self.0.store.guard().and_then(|guard| guard.recorded().identity),
            tag: tag.name().as_str().to_owned(),
            range: lease.range,
        });
    }

    /// A step that is too small for the load grows by itself, but people may want to know.
    fn tell_of_starvation(&self, tag: &Tag, waiting: usize, lease: Lease) {
        let mut told = lock(&self.0.told_of_starvation);
        if told.is_some_and(|told| told.elapsed() < STARVATION_TOLD) {
            return;
        }
        *told = Some(Instant::now());
        tracing::info!(
            tag = tag.name().as_str(),
            waiting,
            leased = lease.range.count(),
            row_step = lease.row_step,
            "requests had to wait for this lease: after an outage that is usual, else the row's \
             step is small for the load; the step of the next leases grows by itself"
        );
    }

    /// Waits while the tag rests from a failure or the store is down, and says what it wants then.
    async fn rest(&self, tag: &Arc<Tag>) -> Option<LeaseAsk> {
        loop {
            let (down, abandoned, until) = {
                let inner = tag.lock();
                let segment = &inner.segment;
                (segment.waits_for_store(), inner.is_abandoned(), segment.lease_rests_until())
            };
            if down {
                tokio::select! {
                    () = self.0.stop.cancelled() => return None,
                    () = self.store_opens() => {}
                    () = tag.hurry.notified(), if !abandoned => continue,
                    // Whoever asks next begins again.
                    () = std::future::ready(()), if abandoned => {}
                }
                let mut inner = tag.lock();
                inner.segment.store_is_back();
                return inner.poll_lease(self.now());
            }
            let until = until?;
            let wake = Instant::now() + until.saturating_sub(self.now());
            tokio::select! {
                () = self.0.stop.cancelled() => return None,
                () = tokio::time::sleep_until(wake) => {}
            }
            if self.now() >= until {
                return tag.lock().poll_lease(self.now());
            }
        }
    }

    async fn lease_in_turn(&self, tag: &Tag, ask: LeaseAsk) -> Result<Leased, LeaseFailure> {
        let Some(_turn) = self.turn(tag).await else {
            return Err(LeaseFailure::NotTried("nobody asks for it any more".into()));
        };
        if self.0.stop.is_cancelled() {
            return Err(LeaseFailure::NotTried("leafd is stopping".into()));
        }
        if let Some((error, _)) = self.store_down() {
            return Err(LeaseFailure::NotTried(error));
        }
        if tag.lock().lane.is_some()
            && let Err(Full::Tags { limit, removed }) = lock(&self.0.tags).is_full()
        {
            return Err(LeaseFailure::NoRoom { limit, removed });
        }
        let begun = self.now();
        let outcome = self.lease_once(tag, ask).await;
        match &outcome {
            Ok(_) => self.note_works(),
            Err(StoreError::Down(error)) => self.note_down(begun, error),
            // Others may have better luck with their rows; but that the store writes is not shown.
            Err(_) => {}
        }
        Ok(outcome?)
    }

    /// Waits for one's turn, which is not the store's fault and not in its time. Tags that
    /// somebody waits for go before those that are leased ahead of need.
    async fn turn(&self, tag: &Tag) -> Option<Turn<'_>> {
        if let Some(lane) = tag.lane() {
            return self.first_turn(tag, lane).await;
        }
        let starving = || tag.lock().segment.is_starving();
        let mut ahead = None;
        while ahead.is_none() && !starving() {
            tokio::select! {
                permit = self.0.leasing_ahead.acquire() => ahead = permit.ok(),
                // Also of a time before.
                () = tag.hurry.notified() => {}
            }
        }
        let turn = self.0.leasing.acquire().await.ok();
        Some(Turn { _ahead: ahead, _turn: turn, _lane: None })
    }

    /// The turn of a lookup: first in the lane of whoever asks, so that one who asks for thousands
    /// of names does not hold up others, and then among all. None once nobody asks.
    async fn first_turn(&self, tag: &Tag, mut lane: Lane) -> Option<Turn<'_>> {
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
        let turn = Turn { _ahead: None, _turn: turn, _lane: own };
        (!tag.lock().is_abandoned()).then_some(turn)
    }

    async fn lease_once(&self, tag: &Tag, ask: LeaseAsk) -> Result<Leased, StoreError> {
        let settings = &self.0.settings;
        let store = &self.0.store;
        let ask = LeaseAsk { floor: self.or_base(ask.floor), ..ask };
        match store.lease(&tag.name, ask).await {
            Err(StoreError::NoSuchTag) if settings.auto_create => {
                let first = ask.floor.max(1);
                let new = NewTag::new(first, settings.default_step, "");
                match self.make(&tag.name, new).await {
                    Ok(made) => tracing::info!(
                        tag = tag.name().as_str(),
                        step = settings.default_step,
                        first = made.first,
                        "made the tag on its first use (segment.auto-create)"
                    ),
                    // Somebody else was faster.
                    Err(StoreError::Exists) => {}
                    Err(error) => return Err(error),
                }
                store.lease(&tag.name, ask).await
            }
            outcome => outcome,
        }
    }
}

/// Tells people of a failure, once for each reason.
fn tell(tag: &Tag, view: &View, failure: &LeaseFailure) {
    match failure {
        LeaseFailure::BadRow(why) if view.lease_error.as_ref() != Some(why) => {
            tracing::error!(tag = tag.name().as_str(), "the row cannot be used: {why}");
        }
        LeaseFailure::Unavailable(why) if view.lease_error.as_ref() != Some(why) => {
            tracing::warn!(tag = tag.name().as_str(), "a lease failed, to be repeated: {why}");
        }
        // Callers are told of a name that is none; people, of a tag that was one.
        LeaseFailure::UnknownTag if view.remaining > 0 => report_gone(tag, view.remaining),
        LeaseFailure::BadRow(_)
        | LeaseFailure::Unavailable(_)
        | LeaseFailure::UnknownTag
        | LeaseFailure::NoRoom { .. }
        | LeaseFailure::NotTried(_) => {}
    }
}

/// The row of a tag in use is no longer there.
pub(super) fn report_gone(tag: &Tag, dropped: u64) {
    tracing::warn!(
        tag = tag.name().as_str(),
        dropped,
        "the tag is gone from the store; it is served no longer"
    );
}

fn report(tag: &Tag, leased: &Leased) {
    let range = leased.lease.range;
    if let Some(from) = leased.moved_from {
        report_backwards(tag, from, range.start());
    }
    tracing::debug!(
        tag = tag.name().as_str(),
        start = range.start(),
        end = range.end(),
        row_step = leased.lease.row_step,
        "leased a range"
    );
}

/// The row was found at `found`, below `mark`, and moved forward to it. Where it was set back to is
/// not known here: others may have leased from there up to `found` before this host looked.
pub(super) fn report_backwards(tag: &Tag, found: u64, mark: u64) {
    tracing::error!(
        tag = tag.name().as_str(),
        found,
        mark,
        "the row's max_id went backwards to {found}, below {mark} which this host has seen; moved \
         it forward, so nothing is repeated here. Was a backup restored, did a failover lose \
         writes, was the row edited, or did this host come from another database? It was set back \
         to {found}, and then no ID was given twice; or to less, and then other hosts have leased \
         from there up to {found}, and those IDs can have been given twice, not those from {found} on"
    );
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
