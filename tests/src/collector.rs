//! A client that keeps asking for snowflake IDs in small batches and keeps them all, for tests that
//! count duplicates instead of failing at the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaf_client::blocking;
use leaf_client::wire::Run;

use crate::Background;
use crate::daemon::Home;

/// IDs per request.
const BATCH: u32 = 20;

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(2);

/// The client, on a thread of its own.
#[derive(Debug)]
pub struct SnowflakeCollector {
    count: Arc<AtomicU64>,
    thread: Background<Vec<Run>>,
}

impl SnowflakeCollector {
    /// Starts asking the daemon in `home`, and its successors.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let mut client = blocking::Client::new(home.options().timeout(Duration::from_secs(1)));
        let thread = Background::start(move |stop| {
            let mut runs = Vec::new();
            while !stop.is_set() {
                if let Ok(ids) = client.snowflake_many(BATCH) {
                    runs.extend_from_slice(ids.runs());
                    counted.fetch_add(u64::from(BATCH), Ordering::Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
            runs
        });
        Self { count, thread }
    }

    /// Number of IDs received so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Stops the client and returns all IDs that it received.
    #[must_use]
    pub fn finish(self) -> Vec<Run> {
        self.thread.finish()
    }
}
