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

/// Asynchronous tasks that share one connection, until they are told to stop.
#[derive(Debug)]
pub struct AsyncLoad {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl AsyncLoad {
    /// Asks for IDs of the tag "orders" and for snowflakes.
    #[must_use]
    pub fn start(options: &Options, seen: &Seen) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (options, seen, ended) = (options.clone(), seen.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
            runtime.block_on(ask_at_once(options, seen, ended))
        });
        Self { stop, thread }
    }

    /// Ends it. Returns the calls that failed, in words.
    ///
    /// # Panics
    /// When a task saw a duplicate.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

async fn ask_at_once(options: Options, seen: Seen, stop: Arc<AtomicBool>) -> Vec<String> {
    let client = leaf_client::Client::connect(options).await.expect("leafd serves");
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (client, seen, stop) = (client.clone(), seen.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let space = if number % 2 == 0 { "orders" } else { SNOWFLAKE };
                    let ids = match number % 2 {
                        0 => client.next_many(space, number + 1).await,
                        _ => client.snowflake_many(number).await,
                    };
                    match ids {
                        Ok(ids) => seen.add(space, &ids),
                        Err(error) => failed.push(error.to_string()),
                    }
                }
                failed
            })
        })
        .collect();
    let mut failed = Vec::new();
    for task in tasks {
        failed.extend(task.await.expect("a task that saw no duplicate"));
    }
    failed
}

fn ask(client: &mut blocking::Client, space: &str, count: u32) -> Result<leaf_client::Ids, Error> {
    if space.starts_with(SNOWFLAKE) {
        client.snowflake_many(count)
    } else {
        client.next_many(space, count)
    }
}
