//! Daemons that take their worker IDs from a registry, and clients that ask them for snowflake IDs.
//! The clients record every ID and the worker ID in it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, Reply, Run, SnowflakeStatus, WireError};
use leaf_client::{Layout, blocking};

use crate::Background;
use crate::daemon::Home;
use crate::load::{Calls, Failures, SNOWFLAKE};
use crate::raw::Raw;
use crate::registry::RegistryAccess;
use crate::unique_ids::UniqueIds;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(150);

/// The deadline of one request.
const CALL: Duration = Duration::from_secs(5);

/// The fewest and the most IDs of a batch. The most is the daemon's default limit for one request.
const BATCH: [u32; 2] = [1000, 100_000];

/// A daemon in `folder` that registers as `identity`. Its timeouts are short, so that it notices
/// within seconds that it cannot reach the registry.
#[must_use]
pub fn instance(folder: &Path, registry: impl Into<RegistryAccess>, identity: &str) -> Home {
    let home = Home::new(folder).with_peer("127.0.0.1:0").with("WORKER_IDENTITY", identity);
    registry.into().apply_impatiently(home)
}

/// Asks the daemon in a folder, and its successors, for snowflake IDs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SnowflakeCaller {
    home: Home,
    seen: UniqueIds,
}

impl SnowflakeCaller {
    /// A client of the daemons that are started in `home`.
    #[must_use]
    pub fn of(home: &Home, seen: &UniqueIds) -> Self {
        Self { home: home.clone(), seen: seen.clone() }
    }

    /// Asks for `count` IDs and returns the worker ID in them. The daemon, not the client, enforces
    /// the deadline `wait`. Fails with the daemon's refusal.
    pub fn ask(&self, count: u32, wait: Duration) -> Result<u64, WireError> {
        let timeout_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        match Raw::greeted(&self.home.socket()).ask(2, Call::Snowflake { count, timeout_ms }) {
            Reply::Ids { first, more } => {
                for run in std::iter::once(&first).chain(&more) {
                    self.seen.add_run(SNOWFLAKE, run.first, u64::from(run.count));
                }
                Ok(worker_of(&Layout::LEAF, &first))
            }
            Reply::Error(error) => Err(error),
            other => panic!("{other:?}\n{}", self.home.log()),
        }
    }

    /// Gets `count` IDs, retrying until they come, and returns the worker ID in them.
    #[must_use]
    pub fn gets(&self, count: u32) -> u64 {
        let began = Instant::now();
        loop {
            match self.ask(count, CALL) {
                Ok(worker) => return worker,
                Err(error) => {
                    assert!(began.elapsed() < PATIENCE, "{error}\n{}", self.home.log());
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Asks until a request is refused with a message that contains `text`.
    pub fn is_refused(&self, text: &str) -> WireError {
        let began = Instant::now();
        loop {
            let outcome = self.ask(1, CALL);
            match outcome {
                Err(error) if error.message.contains(text) => return error,
                outcome => {
                    let log = self.home.log();
                    assert!(began.elapsed() < PATIENCE, "not {text:?}: {outcome:?}\n{log}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// The snowflake part of the daemon's status.
    #[must_use]
    pub fn status(&self) -> SnowflakeStatus {
        let status = blocking::Client::new(self.home.options().timeout(PATIENCE)).status();
        status.expect("a status").snowflake
    }

    /// Waits until the status satisfies `holds`.
    pub fn wait_status(&self, what: &str, mut holds: impl FnMut(&SnowflakeStatus) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return;
            }
            let log = self.home.log();
            assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}; {status:?}\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the daemon has reported to the registry once more.
    pub fn reports(&self) {
        let began = Instant::now();
        self.wait_status("a report", |status| {
            let elapsed = began.elapsed().as_millis();
            status.last_report_ms_ago.is_some_and(|ago| u128::from(ago) < elapsed)
        });
    }

    /// Waits until a report to the registry has failed.
    pub fn is_cut_off(&self) {
        self.wait_status("no registry", |status| !status.registry_error.is_empty());
    }
}

/// Pause after a batch. Without one, the clients of a fleet take all the processor time, and calls to the
/// registry are late.
const BREATH: Duration = Duration::from_millis(20);

/// A client that keeps asking for large batches of snowflake IDs.
#[derive(Debug)]
pub struct BatchLoad {
    calls: Arc<Calls>,
    workers: Arc<Mutex<BTreeSet<u64>>>,
    thread: Background<()>,
}

/// The result of a client's calls.
#[derive(Debug)]
pub struct BatchOutcome {
    /// How many calls failed, by the name of the error.
    pub failures: Failures,
    /// The worker IDs in the IDs that it received.
    pub workers: BTreeSet<u64>,
}

impl BatchLoad {
    /// Starts asking the daemon in `home`, and its successors, which have this layout. A call that
    /// fails is counted and repeated; a permanent failure fails the test.
    #[must_use]
    pub fn of(home: &Home, layout: Layout, seen: &UniqueIds) -> Self {
        let calls = Arc::new(Calls::default());
        let workers = Arc::new(Mutex::new(BTreeSet::new()));
        let (counted, used, seen) = (Arc::clone(&calls), Arc::clone(&workers), seen.clone());
        let mut client = blocking::Client::new(home.options().timeout(CALL));
        let thread = Background::start(move |stop| {
            while !stop.is_set() {
                match client.snowflake_many(fastrand::u32(BATCH[0]..=BATCH[1])) {
                    Ok(ids) => {
                        seen.add(SNOWFLAKE, &ids);
                        let workers = ids.runs().iter().map(|run| worker_of(&layout, run));
                        used.lock().unwrap_or_else(PoisonError::into_inner).extend(workers);
                        counted.add_served();
                        std::thread::sleep(BREATH);
                    }
                    Err(error) => {
                        counted.add_failure(SNOWFLAKE, &error);
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        });
        Self { calls, workers, thread }
    }

    /// How many calls were served so far.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.calls.served()
    }

    /// Whether it has ended early, which it does when it receives a duplicate.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.thread.has_ended()
    }

    /// Waits until it has been served twice more. At most one of the two calls was in flight before.
    pub fn are_served(&self, home: &Home) {
        let (before, began) = (self.served(), Instant::now());
        while self.served() < before + 2 {
            assert!(!self.is_broken(), "a client has ended\n{}", home.log());
            assert!(began.elapsed() < PATIENCE, "a client is not served\n{}", home.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the client. If it received a duplicate, the test fails here.
    #[must_use]
    pub fn finish(self) -> BatchOutcome {
        self.thread.finish();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        BatchOutcome { failures: self.calls.failures(), workers }
    }
}

fn worker_of(layout: &Layout, run: &Run) -> u64 {
    layout.decode(run.first).expect("an ID of this layout").worker
}
