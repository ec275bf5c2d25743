//! Clients that ask for IDs until they are told to stop, and note all that they receive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    tally: Arc<Tally>,
    thread: JoinHandle<()>,
}

/// What became of a client's calls.
#[derive(Debug, Default)]
struct Tally {
    served: AtomicU64,
    /// By name.
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

impl Load {
    /// Asks through `options`: for each name of `spaces` a client, with counts from 1 to `most`.
    /// Calls that fail are counted and made again; a failure that does not pass by itself ends the
    /// test.
    #[must_use]
    pub fn start(options: &Options, seen: &Seen, spaces: &[&str], most: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = spaces.iter().map(|space| {
            let tally = Arc::new(Tally::default());
            let (stop, counted) = (Arc::clone(&stop), Arc::clone(&tally));
            let (seen, space) = (seen.clone(), (*space).to_owned());
            let mut client = blocking::Client::new(options.clone());
            let thread = std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Mostly few, sometimes many.
                    let count = if fastrand::u8(..) < 240 { fastrand::u32(1..=8) } else { most };
                    match ask(&mut client, &space, count) {
                        Ok(ids) => {
                            seen.add(&space, &ids);
                            counted.served.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            counted.failed(&space, &error);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            });
            Client { tally, thread }
        });
        let clients = clients.collect();
        Self { stop, clients }
    }

    /// Ends it; a client that saw a duplicate ends the test. Returns how many calls failed.
    ///
    /// # Panics
    /// When a client panicked.
    pub fn finish(self) -> u64 {
        self.finish_with_names().values().sum()
    }

    /// The same, by the name of the error.
    ///
    /// # Panics
    /// When a client panicked.
    pub fn finish_with_names(self) -> BTreeMap<&'static str, u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = BTreeMap::new();
        for client in self.clients {
            if let Err(panic) = client.thread.join() {
                std::panic::resume_unwind(panic);
            }
            add(
                &mut failures,
                &client.tally.failures.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        failures
    }

    /// Whether a client has ended early, which it does at a duplicate.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.clients.iter().any(|client| client.thread.is_finished())
    }

    /// How many calls of each client were served so far.
    #[must_use]
    pub fn served(&self) -> Vec<u64> {
        self.clients.iter().map(|client| client.tally.served.load(Ordering::Relaxed)).collect()
    }
}

/// Adds what failed somewhere else.
pub fn add(all: &mut BTreeMap<&'static str, u64>, more: &BTreeMap<&'static str, u64>) {
    for (name, count) in more {
        *all.entry(name).or_default() += count;
    }
}

impl Tally {
    fn failed(&self, space: &str, error: &Error) {
        assert!(error.is_temporary(), "a call for {space} failed for good: {error}");
        let name = match error {
            Error::Refused(refusal) => refusal.code().name(),
            Error::Unavailable { .. } => "no connection",
            _ => "no answer",
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(name).or_default() += 1;
    }
}

fn ask(client: &mut blocking::Client, space: &str, count: u32) -> Result<leaf_client::Ids, Error> {
    if space.starts_with(SNOWFLAKE) {
        client.snowflake_many(count)
    } else {
        client.next_many(space, count)
    }
}
