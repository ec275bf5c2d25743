//! Looks after the store's health: notices its end while nobody needs it, probes it until it is
//! back, lets the leases go on, and has it prove that it writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::health::Check;
use super::service::{Segments, Tag, lock};
use crate::ids::BizTag;
use crate::store::StoreError;

/// Probes that may be without an answer at the same time. The next one does not wait for the last,
/// which may hang on a connection that leads nowhere.
const MOST_PROBES: usize = 4;

/// When a store is back, its table is read within this.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// What a check has come to, and when it was begun.
type Checked = (Check, Duration, Result<(), StoreError>);

impl Segments {
    pub(super) async fn probe_for_ever(self) {
        let mut open = self.0.open.subscribe();
        // Probes are in the way of nothing once the store is back; the others hold what a lease
        // would, and say what a lease would be told.
        let (mut probes, mut checks) = (JoinSet::new(), JoinSet::new());
        loop {
            let wake = lock(&self.0.health).wake();
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                // Whoever changes the state sends, also when it only fails again.
                changed = open.changed() => if changed.is_err() { return },
                () = until(wake.map(|wake| self.0.started + wake)) => {}
                // One that was cancelled has nothing to say.
                Some(outcome) = probes.join_next() => if let Ok(outcome) = outcome {
                    self.checked(outcome);
                },
                Some(outcome) = checks.join_next() => if let Ok(outcome) = outcome {
                    self.checked(outcome);
                },
            }
            let check = lock(&self.0.health).poll_check(self.now());
            match check {
                Some(Check::Probe) if probes.len() < MOST_PROBES => {
                    probes.spawn(self.clone().check(Check::Probe));
                }
                Some(check @ (Check::Look | Check::Prove)) => {
                    checks.spawn(self.clone().check(check));
                }
                Some(Check::Probe) | None => {}
            }
            if self.store_is_open() {
                probes.abort_all();
            }
        }
    }

    async fn check(self, check: Check) -> Checked {
        let begun = self.now();
        let store = &self.0.store;
        let outcome = match check {
            Check::Look => store.look().await,
            Check::Probe => store.probe().await,
            Check::Prove => match self.any_tag() {
                Some(tag) => store.prove(&tag).await,
                // There is nothing that a lease could be needed of.
                None => store.look().await.and(Err(StoreError::NoSuchTag)),
            },
        };
        (check, begun, outcome)
    }

    /// A tag that has a row, as far as this host knows. Not always the same one: it may be locked.
    fn any_tag(&self) -> Option<BizTag> {
        let table = lock(&self.0.tags);
        let skip = self.0.environment.random().usize(..=table.len());
        let has_row = |tag: &&Arc<Tag>| {
            let view = tag.lock().segment.view();
            view.floor > 0 && !view.absent
        };
        let after = table.values().skip(skip).find(has_row);
        after.or_else(|| table.values().find(has_row)).map(|tag| tag.name().clone())
    }

    fn checked(&self, (check, begun, outcome): Checked) {
        match (check, outcome) {
            // It was begun before the store was back.
            (Check::Probe, Err(_)) if self.store_is_open() => {}
            (_, Err(StoreError::Down(error))) => self.note_down(begun, &error),
            (Check::Probe, Ok(())) => self.note_back(),
            (Check::Prove, Ok(())) => self.note_works(),
            // A probe that met a lock is repeated at its time.
            (_, Ok(()) | Err(_)) => self.note_answers(),
        }
    }

    /// A probe went well.
    fn note_back(&self) {
        if !lock(&self.0.health).is_back(self.now()) {
            return;
        }
        self.0.open.send_replace(true);
        // Much may have happened to the table meanwhile. Not all hosts look at once.
        let this = self.clone();
        self.0.tasks.spawn(async move {
            let wait = LOOK_AFTER.mul_f64(this.0.environment.random().f64());
            tokio::select! {
                () = this.0.stop.cancelled() => {}
                () = tokio::time::sleep(wait) => this.0.refresh_now.notify_one(),
            }
        });
    }

    /// Remembers that a call that was `begun` at that time found the store down, and tells people
    /// when that is news.
    pub(super) fn note_down(&self, begun: Duration, error: &str) {
        let mut health = lock(&self.0.health);
        let news = health.failed(self.now(), begun, error);
        let open = health.is_open();
        drop(health);
        self.0.open.send_replace(open);
        if news {
            tracing::warn!(
                store = self.0.store.describe(),
                "the store fails; IDs come from memory as long as it has them: {error}"
            );
        }
    }

    /// Remembers that the store has answered, which does not show that it writes.
    pub(super) fn note_answers(&self) {
        lock(&self.0.health).answered(self.now());
    }

    /// Remembers that a write was committed, and tells people when that is news.
    pub(super) fn note_works(&self) {
        if lock(&self.0.health).worked(self.now()) {
            tracing::info!(store = self.0.store.describe(), "the store works again");
            self.0.open.send_replace(true);
        }
    }

    pub(super) fn store_is_open(&self) -> bool {
        lock(&self.0.health).is_open()
    }

    /// Whether the store is down: its error, and when it is probed next.
    pub(super) fn store_down(&self) -> Option<(String, Duration)> {
        let health = lock(&self.0.health);
        if health.is_open() {
            return None;
        }
        let next = health.wake().unwrap_or_default().saturating_sub(self.now());
        Some((health.error().unwrap_or_default(), next))
    }

    /// What the store's last calls said; empty when it works.
    pub(super) fn store_error(&self) -> String {
        lock(&self.0.health).error().unwrap_or_default()
    }

    /// Waits until leases may be tried.
    pub(super) async fn store_opens(&self) {
        let mut open: watch::Receiver<bool> = self.0.open.subscribe();
        // Its sender lives as long as this.
        let _ = open.wait_for(|open| *open).await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
