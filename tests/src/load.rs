//! Clients that ask for IDs until they are told to stop, and note all that they receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leaf_client::{Error, Options, blocking};

use crate::seen::Seen;

/// The name space of snowflake IDs in [`Seen`].
pub const SNOWFLAKE: &str = "snowflake";

/// Threads with a client each.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    failures: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Asks through `options`: for each name of `spaces` a client, with counts from 1 to `most`.
    /// Calls that fail are counted and made again.
    #[must_use]
    pub fn start(options: &Options, seen: &Seen, spaces: &[&str], most: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(AtomicU64::new(0));
        let threads = spaces.iter().map(|space| {
            let (stop, failures) = (Arc::clone(&stop), Arc::clone(&failures));
            let (seen, space) = (seen.clone(), (*space).to_owned());
            let mut client = blocking::Client::new(options.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Mostly few, sometimes many.
                    let count = if fastrand::u8(..) < 240 { fastrand::u32(1..=8) } else { most };
                    match ask(&mut client, &space, count) {
                        Ok(ids) => seen.add(&space, &ids),
                        Err(_) => {
                            failures.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { stop, failures, threads }
    }

    /// Ends it; a client that saw a duplicate ends the test. Returns how many calls failed.
    ///
    /// # Panics
    /// When a client panicked.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether a client has ended early, which it does at a duplicate.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

fn ask(client: &mut blocking::Client, space: &str, count: u32) -> Result<leaf_client::Ids, Error> {
    if space.starts_with(SNOWFLAKE) {
        client.snowflake_many(count)
    } else {
        client.next_many(space, count)
    }
}
