//! Somebody who asks a daemon for snowflake IDs all the time and keeps them, so that a test can count
//! what somebody else issued as well instead of ending at the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leaf_client::blocking;
use leaf_client::wire::Run;

use crate::daemon::Home;

/// How many IDs are asked for at once: one request in each millisecond or two.
const BATCH: u32 = 20;

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(2);

/// A thread that asks whoever is started in a daemon's place.
#[derive(Debug)]
pub struct Asker {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<Vec<Run>>,
}

impl Asker {
    /// Asks whoever is started in `home`, from now on.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let mut client = blocking::Client::new(home.options().timeout(Duration::from_secs(1)));
        let thread = std::thread::spawn(move || {
            let mut runs = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(ids) = client.snowflake_many(BATCH) {
                    runs.extend_from_slice(ids.runs());
                    counted.fetch_add(u64::from(BATCH), Ordering::Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
            runs
        });
        Self { stop, count, thread }
    }

    /// How many IDs it has so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends it; all IDs that it got.
    ///
    /// # Panics
    /// When it panicked.
    #[must_use]
    pub fn finish(self) -> Vec<Run> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}
