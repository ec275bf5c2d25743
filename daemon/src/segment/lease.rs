//! Leasing: one task per lease under way, which ends when the tag wants no other and rests from
//! none. The buffer says when and how much; here is only the call and what people are told.

use std::sync::Arc;

use tokio::time::Instant;

use super::service::{Segments, Tag, lock};
use super::store::{Leased, StoreError, in_time};
use super::terms::{LeaseAsk, LeaseFailure};

impl Segments {
    /// Carries out `ask` and what the tag asks for next.
    pub(super) async fn lease(self, tag: Arc<Tag>, ask: LeaseAsk) {
        // A panic in here would leave the tag waiting for this lease for ever.
        let breakdown = self.0.fatal.clone().drop_guard();
        let mut next = Some(ask);
        while let Some(ask) = next.take() {
            let outcome = self.lease_once(&tag, ask).await;
            self.note_store(outcome.as_ref().err());
            self.take_in(&tag, outcome);
            next = self.rest(&tag).await;
        }
        drop(breakdown.disarm());
    }

    fn take_in(&self, tag: &Arc<Tag>, outcome: Result<Leased, StoreError>) {
        let now = self.now();
        let mut inner = tag.lock();
        match outcome {
            Ok(leased) => {
                report(tag, &leased);
                inner.segment.leased(now, leased.lease);
            }
            Err(error) => {
                if let StoreError::BadRow(why) = &error
                    && inner.segment.view().lease_error.as_ref() != Some(why)
                {
                    tracing::error!(tag = tag.name(), "the row cannot be used: {why}");
                }
                inner.segment.lease_failed(now, LeaseFailure::from(error));
            }
        }
        let absent = inner.segment.view().absent;
        drop(inner);
        if absent {
            self.note_unknown();
        }
        self.attend(tag);
    }

    /// Sleeps while the tag rests from a failure, and says what it wants then.
    async fn rest(&self, tag: &Arc<Tag>) -> Option<LeaseAsk> {
        loop {
            let until = tag.lock().segment.lease_rests_until()?;
            let wake = Instant::now() + until.saturating_sub(self.now());
            tokio::select! {
                () = self.0.stop.cancelled() => return None,
                () = tokio::time::sleep_until(wake) => {}
            }
            if self.now() >= until {
                return tag.lock().segment.poll_lease(self.now());
            }
        }
    }

    async fn lease_once(&self, tag: &Tag, ask: LeaseAsk) -> Result<Leased, StoreError> {
        let settings = &self.0.settings;
        let store = &self.0.store;
        let closed = || StoreError::Unavailable("leafd is stopping".into());
        // Waiting for one's turn is not the store's fault and not in its time.
        let turns = if ask.floor > 0 { &self.0.leasing } else { &self.0.first_leasing };
        let _turn = turns.acquire().await.map_err(|_| closed())?;
        let lease = || in_time(settings.store_timeout, store.lease(&tag.name, ask));
        match lease().await {
            Err(StoreError::NoSuchTag) if settings.auto_create => {
                let first = ask.floor.max(1);
                let create = store.create(&tag.name, first, settings.default_step, "");
                match in_time(settings.store_timeout, create).await {
                    Ok(()) => tracing::info!(
                        tag = tag.name(),
                        step = settings.default_step,
                        "made the tag on its first use (segment.auto-create)"
                    ),
                    // Somebody else was faster.
                    Err(StoreError::Exists) => {}
                    Err(error) => return Err(error),
                }
                lease().await
            }
            outcome => outcome,
        }
    }

    /// Remembers whether the store works, and tells people when that changes.
    pub(super) fn note_store(&self, error: Option<&StoreError>) {
        let mut known = lock(&self.0.store_error);
        match error {
            Some(StoreError::Unavailable(why)) => {
                if known.is_none() {
                    tracing::warn!(
                        store = self.0.store.describe(),
                        "the store fails; IDs come from memory as long as it has them: {why}"
                    );
                }
                *known = Some(why.clone());
            }
            Some(_) | None => {
                if known.take().is_some() {
                    tracing::info!(store = self.0.store.describe(), "the store works again");
                }
            }
        }
    }
}

fn report(tag: &Tag, leased: &Leased) {
    let range = leased.lease.range;
    if let Some(from) = leased.moved_from {
        tracing::error!(
            tag = tag.name(),
            "the row's max_id went backwards to {from}, below {} which this host has seen; moved \
             it forward, so nothing is repeated here. Was a backup restored, or the row edited? \
             Other hosts on this table may have been given IDs twice",
            range.start()
        );
    }
    tracing::debug!(
        tag = tag.name(),
        start = range.start(),
        end = range.end(),
        row_step = leased.lease.row_step,
        "leased a range"
    );
}
