//! Clients that ask for IDs until they are told to stop, and record all that they receive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaf_client::{Error, Options, blocking};

use crate::background::{Background, Stop};
use crate::unique_ids::UniqueIds;

/// The name space of snowflake IDs in [`UniqueIds`].
pub const SNOWFLAKE: &str = "snowflake";

/// Blocking clients, each on a thread of its own.
#[derive(Debug)]
pub struct Load {
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    calls: Arc<Calls>,
    thread: Background<()>,
}

/// How many calls of a client were served, and how many failed.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    served: AtomicU64,
    failures: Mutex<Failures>,
}

/// The number of failed calls by the name of the error.
pub type Failures = BTreeMap<&'static str, u64>;

impl Calls {
    pub(crate) fn add_served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure. A permanent one fails the test.
    pub(crate) fn add_failure(&self, space: &str, error: &Error) {
        assert!(error.is_temporary(), "a call for {space} failed for good: {error}");
        let name = match error {
            Error::Refused(refusal) => refusal.code().name(),
            Error::Unavailable { .. } => "no connection",
            _ => "no answer",
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(name).or_default() += 1;
    }

    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Failures {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Load {
    /// Starts one client for each name in `spaces`, which asks for 1 to 8 IDs at a time and now and
    /// then for `most`. A call that fails is counted and repeated; a permanent failure fails the
    /// test.
    #[must_use]
    pub fn start(options: &Options, seen: &UniqueIds, spaces: &[&str], most: u32) -> Self {
        let clients = spaces.iter().map(|space| {
            let calls = Arc::new(Calls::default());
            let counted = Arc::clone(&calls);
            let (seen, space) = (seen.clone(), (*space).to_owned());
            let mut client = blocking::Client::new(options.clone());
            let thread = Background::start(move |stop| {
                while !stop.is_set() {
                    let count = if fastrand::u8(..) < 240 { fastrand::u32(1..=8) } else { most };
                    match ask(&mut client, &space, count) {
                        Ok(ids) => {
                            seen.add(&space, &ids);
                            counted.add_served();
                        }
                        Err(error) => {
                            counted.add_failure(&space, &error);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            });
            Client { calls, thread }
        });
        Self { clients: clients.collect() }
    }

    /// Stops the clients and returns how many calls failed. If a client received a duplicate, the
    /// test fails here.
    pub fn finish(self) -> u64 {
        self.finish_with_names().values().sum()
    }

    /// As [`Self::finish`], but returns the failures by the name of the error.
    pub fn finish_with_names(self) -> Failures {
        let mut failures = Failures::new();
        for client in self.clients {
            client.thread.finish();
            add(&mut failures, &client.calls.failures());
        }
        failures
    }

    /// Whether a client has ended early, which it does when it receives a duplicate.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.clients.iter().any(|client| client.thread.has_ended())
    }

    /// How many calls of each client were served so far.
    #[must_use]
    pub fn served(&self) -> Vec<u64> {
        self.clients.iter().map(|client| client.calls.served()).collect()
    }
}

/// Adds the counts of `more` to those of `all`.
pub fn add(all: &mut Failures, more: &Failures) {
    for (name, count) in more {
        *all.entry(name).or_default() += count;
    }
}

/// Asynchronous tasks that share one connection.
#[derive(Debug)]
pub struct AsyncLoad(Background<Vec<String>>);

impl AsyncLoad {
    /// Starts tasks that ask for IDs of the tag "orders" and for snowflakes.
    #[must_use]
    pub fn start(options: &Options, seen: &UniqueIds) -> Self {
        let (options, seen) = (options.clone(), seen.clone());
        Self(Background::start(move |stop| {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
            runtime.block_on(run_tasks(options, seen, stop))
        }))
    }

    /// Stops the tasks and returns the errors of the calls that failed. If a task received a
    /// duplicate, the test fails here.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.0.finish()
    }
}

async fn run_tasks(options: Options, seen: UniqueIds, stop: Stop) -> Vec<String> {
    let client = leaf_client::Client::connect(options).await.expect("leafd serves");
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (client, seen, stop) = (client.clone(), seen.clone(), stop.clone());
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while !stop.is_set() {
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
        failed.extend(task.await.expect("no duplicate"));
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
