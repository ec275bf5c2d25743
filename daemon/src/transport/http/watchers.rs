//! Those who watch the daemon in a browser: how many streams there are, and how much work they make.
//! However many watch, gathering what they see takes at most a tenth of the thread.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// Streams at a time. Whoever comes later gets one event per request instead of a stream.
pub(super) const MAX_STREAMS: usize = 16;

/// The longest look that the next one waits for in proportion, since a host that slept makes any look
/// seem long.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// How often the registry is asked for the workers of the fleet, while somebody watches.
const FLEET_EVERY: Duration = Duration::from_secs(30);

/// What all watchers share.
pub(super) struct Watchers {
    places: Arc<Semaphore>,
    /// When the next look may begin.
    turn: AsyncMutex<Option<Instant>>,
    fleet: Mutex<Fleet>,
}

/// The workers of the fleet, as an event.
#[derive(Default)]
struct Fleet {
    edition: u64,
    event: Arc<str>,
    read_at: Option<Instant>,
    /// Somebody asks the registry now.
    asking: bool,
}

impl Default for Watchers {
    fn default() -> Self {
        let (turn, fleet) = (AsyncMutex::default(), Mutex::default());
        Self { places: Arc::new(Semaphore::new(MAX_STREAMS)), turn, fleet }
    }
}

impl Watchers {
    /// A place for a stream, until it is dropped; `None` if there are too many.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Does `work` when it is its turn: one after the other, with pauses of nine times as long.
    pub(super) async fn in_turn<T>(
        &self,
        now: impl Fn() -> Instant,
        work: impl Future<Output = T>,
    ) -> T {
        let mut not_before = self.turn.lock().await;
        if let Some(at) = *not_before {
            sleep_until(at).await;
        }
        let began = now();
        let outcome = work.await;
        let ended = now();
        *not_before = Some(ended + ended.duration_since(began).min(LONGEST_LOOK) * 9);
        outcome
    }

    /// Whether the caller is to ask the registry for the workers, and then call [`Self::set_fleet`].
    pub(super) fn is_to_ask(&self, now: Instant) -> bool {
        let mut fleet = lock(&self.fleet);
        let is_new = fleet.read_at.is_some_and(|at| now.duration_since(at) < FLEET_EVERY);
        let asks = !is_new && !fleet.asking;
        fleet.asking |= asks;
        asks
    }

    pub(super) fn set_fleet(&self, event: &str, now: Instant) {
        let mut fleet = lock(&self.fleet);
        (fleet.read_at, fleet.asking) = (Some(now), false);
        if *fleet.event != *event {
            (fleet.edition, fleet.event) = (fleet.edition + 1, event.into());
        }
    }

    /// The workers, if they differ from those of `edition`, and their edition.
    pub(super) fn fleet_after(&self, edition: u64) -> Option<(u64, Arc<str>)> {
        let fleet = lock(&self.fleet);
        (fleet.edition > edition).then(|| (fleet.edition, Arc::clone(&fleet.event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn looks_take_at_most_a_tenth_of_the_time_however_many_watch() {
        let watchers = Watchers::default();
        let work = Duration::from_millis(20);
        let began = Instant::now();
        let look = || async { tokio::time::sleep(work).await };
        let looks = (0..10).map(|_| watchers.in_turn(Instant::now, look()));
        futures_util::future::join_all(looks).await;
        assert_eq!(began.elapsed(), work * (9 * 10 + 1));
    }

    #[test]
    fn streams_are_bounded_and_a_place_becomes_free_again() {
        let watchers = Watchers::default();
        let mut places: Vec<_> = (0..MAX_STREAMS).map(|_| watchers.place().unwrap()).collect();
        assert!(watchers.place().is_none());
        places.pop();
        assert!(watchers.place().is_some());
    }

    #[test]
    fn one_watcher_asks_for_the_workers_and_the_others_hear_of_changes() {
        let (watchers, now) = (Watchers::default(), Instant::now());
        assert_eq!((watchers.is_to_ask(now), watchers.is_to_ask(now)), (true, false));
        assert!(watchers.fleet_after(0).is_none());
        watchers.set_fleet("one", now);
        assert_eq!(watchers.fleet_after(0), Some((1, "one".into())));
        assert!(!watchers.is_to_ask(now));
        assert!(watchers.is_to_ask(now + FLEET_EVERY));
        watchers.set_fleet("one", now);
        assert_eq!(watchers.fleet_after(1), None);
    }
}
