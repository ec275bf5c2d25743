//! Looks after a store that is down: probes it until it is back, and lets the leases go on.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::service::{Segments, lock};
use super::store::StoreError;

/// Probes that may be without an answer at the same time. The next one does not wait for the last,
/// which may hang on a connection that leads nowhere.
const MOST_PROBES: usize = 4;

/// When a store is back, its table is read within this.
const LOOK_AFTER: Duration = Duration::from_secs(3);

impl Segments {
    pub(super) async fn probe_for_ever(self) {
        let mut open = self.0.open.subscribe();
        let mut probes = JoinSet::new();
        loop {
            let wake = lock(&self.0.health).wake();
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                // Whoever changes the state sends, also when it only fails again.
                changed = open.changed() => if changed.is_err() { return },
                () = until(wake.map(|wake| self.0.started + wake)) => {}
                // One that was cancelled has nothing to say.
                Some(outcome) = probes.join_next() => if let Ok(outcome) = outcome {
                    self.probed(outcome);
                },
            }
            let now = self.now();
            let (probe, settled) = {
                let mut health = lock(&self.0.health);
                (health.poll_probe(now), health.settle(now))
            };
            if probe && probes.len() < MOST_PROBES {
                let store = self.0.store.clone();
                probes.spawn(async move { store.probe().await });
            }
            if settled {
                self.say_works();
            }
            if self.store_is_open() {
                probes.abort_all();
            }
        }
    }

    fn probed(&self, outcome: Result<(), StoreError>) {
        let mut health = lock(&self.0.health);
        match outcome {
            Ok(()) if !health.is_open() => {
                health.probe_worked(self.now());
                drop(health);
                self.0.open.send_replace(true);
                // Much may have happened to the table meanwhile. Not all hosts look at once.
                let this = self.clone();
                self.0.tasks.spawn(async move {
                    let wait = LOOK_AFTER.mul_f64(fastrand::f64());
                    tokio::select! {
                        () = this.0.stop.cancelled() => {}
                        () = tokio::time::sleep(wait) => this.0.refresh_now.notify_one(),
                    }
                });
            }
            Ok(()) => {}
            Err(error) => {
                if !health.is_open() {
                    let now = self.now();
                    health.failed(now, now, &error.to_string());
                }
            }
        }
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

    /// Remembers that a lease went well, and tells people when that is news.
    pub(super) fn note_works(&self) {
        if lock(&self.0.health).worked(self.now()) {
            self.say_works();
            self.0.open.send_replace(true);
        }
    }

    fn say_works(&self) {
        tracing::info!(store = self.0.store.describe(), "the store works again");
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
        Some((health.error().unwrap_or_default().to_owned(), next))
    }

    /// What the store's last calls said; empty when it works.
    pub(super) fn store_error(&self) -> String {
        lock(&self.0.health).error().unwrap_or_default().to_owned()
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
