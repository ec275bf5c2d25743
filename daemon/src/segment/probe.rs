//! Looks after the store's health: notices a failure while nobody needs the store, probes it until
//! it is back, lets the leases continue, and makes it prove that it writes.

use std::time::Duration;

use leaf_client::wire::ErrorCode;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::health::StoreCheck;
use super::service::{Segments, lock};
use crate::ids::BizTag;
use crate::store::StoreError;

/// How many probes may be in flight. The next one does not wait for the last, which may hang on a
/// connection that leads nowhere.
const MOST_PROBES: usize = 4;

/// How soon leafd reads its rows once the store is back.
const REFRESH_WITHIN: Duration = Duration::from_secs(3);

/// A check, when it began, and its outcome.
type Checked = (StoreCheck, Duration, Result<(), StoreError>);

impl Segments {
    pub(super) async fn probe_for_ever(self) {
        let mut open = self.0.open.subscribe();
        // Probes end as soon as the store is back. The other checks use what a lease would use, so
        // their outcome tells what a lease would meet.
        let (mut probes, mut checks) = (JoinSet::new(), JoinSet::new());
        loop {
            let wake = lock(&self.0.health).wake();
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                // Every change of the health sends, also when the store only fails again.
                changed = open.changed() => if changed.is_err() { return },
                () = sleep_until_some(wake.map(|wake| self.0.started + wake)) => {}
                // A cancelled check has no outcome.
                Some(outcome) = probes.join_next() => if let Ok(outcome) = outcome {
                    self.checked(outcome);
                },
                Some(outcome) = checks.join_next() => if let Ok(outcome) = outcome {
                    self.checked(outcome);
                },
            }
            let check = lock(&self.0.health).poll_check(self.now());
            match check {
                Some(StoreCheck::Probe) if probes.len() < MOST_PROBES => {
                    probes.spawn(self.clone().check(StoreCheck::Probe));
                }
                Some(check @ (StoreCheck::Look | StoreCheck::Prove)) => {
                    checks.spawn(self.clone().check(check));
                }
                Some(StoreCheck::Probe) | None => {}
            }
            if self.store_is_open() {
                probes.abort_all();
            }
        }
    }

    async fn check(self, check: StoreCheck) -> Checked {
        let begun = self.now();
        let store = &self.0.store;
        let outcome = match check {
            StoreCheck::Look => store.look().await,
            StoreCheck::Probe => store.probe().await,
            StoreCheck::Prove => match self.any_tag() {
                Some(tag) => store.prove(&tag).await,
                // Without a tag there is no row to write to.
                None => store.look().await.and(Err(StoreError::NoSuchTag)),
            },
        };
        (check, begun, outcome)
    }

    /// A tag that has a row, as far as this host knows. Not always the same one: its row may be
    /// locked.
    fn any_tag(&self) -> Option<BizTag> {
        let table = lock(&self.0.tags);
        let skip = self.0.environment.random().usize(..=table.len());
        let after = table.tags().skip(skip).find(|tag| tag.is_known());
        let tag = after.or_else(|| table.tags().find(|tag| tag.is_known()));
        tag.map(|tag| tag.name().clone())
    }

    fn checked(&self, (check, begun, outcome): Checked) {
        match (check, outcome) {
            // It began before the store was back.
            (StoreCheck::Probe, Err(_)) if self.store_is_open() => {}
            (_, Err(StoreError::Down(error))) => self.note_down(begun, &error),
            (StoreCheck::Probe, Ok(())) => self.note_back(),
            (StoreCheck::Prove, Ok(())) => self.note_works(),
            // A probe that met a lock is retried in its turn.
            (_, Ok(()) | Err(_)) => self.note_answers(),
        }
    }

    /// A probe succeeded.
    fn note_back(&self) {
        if !lock(&self.0.health).is_back(self.now()) {
            return;
        }
        self.0.open.send_replace(true);
        // The rows may have changed during the outage. Not all hosts read them at once.
        let this = self.clone();
        self.0.tasks.spawn(async move {
            let wait = REFRESH_WITHIN.mul_f64(this.0.environment.random().f64());
            tokio::select! {
                () = this.0.stop.cancelled() => {}
                () = tokio::time::sleep(wait) => this.0.refresh_now.notify_one(),
            }
        });
    }

    /// A call that began at `begun` found the store down. Logs that if it is news.
    pub(super) fn note_down(&self, begun: Duration, error: &str) {
        let mut health = lock(&self.0.health);
        let news = health.failed(self.now(), begun, error);
        let open = health.is_open();
        drop(health);
        self.0.open.send_replace(open);
        if news {
            tracing::warn!(
                store = self.0.store.describe(),
                error = %ErrorCode::StoreUnavailable,
                "the store fails; IDs come from memory as long as it has them: {error}"
            );
        }
    }

    /// The store answered, which does not show that it writes.
    pub(super) fn note_answers(&self) {
        lock(&self.0.health).answered(self.now());
    }

    /// A write was committed. Logs that if it is news.
    pub(super) fn note_works(&self) {
        if lock(&self.0.health).worked(self.now()) {
            tracing::info!(store = self.0.store.describe(), "the store works again");
            self.0.open.send_replace(true);
        }
    }

    pub(super) fn store_is_open(&self) -> bool {
        lock(&self.0.health).is_open()
    }

    /// If the store is down: its error, and the time until the next probe.
    pub(super) fn store_down(&self) -> Option<(String, Duration)> {
        let health = lock(&self.0.health);
        if health.is_open() {
            return None;
        }
        let next = health.wake().unwrap_or_default().saturating_sub(self.now());
        Some((health.error().unwrap_or_default(), next))
    }

    /// What is wrong with the store; empty while it works.
    pub(super) fn store_error(&self) -> String {
        let error = lock(&self.0.health).error();
        error.map_or_else(String::new, |error| format!("{}: {error}", ErrorCode::StoreUnavailable))
    }

    /// Waits until leases may be tried.
    pub(super) async fn store_opens(&self) {
        let mut open: watch::Receiver<bool> = self.0.open.subscribe();
        // It cannot fail: the sender lives as long as `self`.
        let _ = open.wait_for(|open| *open).await;
    }
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
