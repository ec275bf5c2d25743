//! Instances that take their worker IDs from ZooKeeper, and those who ask them for snowflake IDs:
//! every ID is noted, and so is the worker ID in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, Reply, Run, SnowflakeStatus, WireError};
use leaf_client::{Error, Layout, blocking};

use crate::daemon::Home;
use crate::load::SNOWFLAKE;
use crate::raw::Raw;
use crate::seen::Seen;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a caller has patience with one request.
const CALL: Duration = Duration::from_secs(5);

/// What a batch of IDs has at the least, and at the most: all that a daemon gives at once.
const BATCH: [u32; 2] = [1000, 100_000];

/// An instance in `folder`, which an ensemble knows as `identity`, and which notices within seconds
/// that it does not reach it.
#[must_use]
pub fn instance(folder: &Path, servers: &str, identity: &str) -> Home {
    Home::new(folder)
        .with_zookeeper(servers)
        .with_peer("127.0.0.1:0")
        .with("WORKER_IDENTITY", identity)
        .with("ZOOKEEPER_SESSION_TIMEOUT", "2s")
        .with("ZOOKEEPER_TIMEOUT", "500ms")
}

/// Asks an instance, and whoever is started in its place. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Customer {
    home: Home,
    seen: Seen,
}

impl Customer {
    /// A customer of whoever is started in `home`.
    #[must_use]
    pub fn of(home: &Home, seen: &Seen) -> Self {
        Self { home: home.clone(), seen: seen.clone() }
    }

    /// Asks for `count` IDs, to be had within `wait`, and returns the worker ID in them. The daemon
    /// keeps the time, and no client.
    ///
    /// # Errors
    /// What the daemon says.
    ///
    /// # Panics
    /// When it says nothing, or an ID has been seen before.
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

    /// Gets `count` IDs, however long that takes, and returns the worker ID in them.
    ///
    /// # Panics
    /// When it does not.
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

    /// Asks until it is refused with `text` in the reason.
    ///
    /// # Panics
    /// When it is not.
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

    /// What the daemon says of its snowflake side.
    ///
    /// # Panics
    /// When it does not say.
    #[must_use]
    pub fn status(&self) -> SnowflakeStatus {
        let status = blocking::Client::new(self.home.options().timeout(PATIENCE)).status();
        status.expect("a status").snowflake
    }

    /// Waits until this holds.
    ///
    /// # Panics
    /// When it does not come to it.
    pub fn wait_status(&self, what: &str, mut holds: impl FnMut(&SnowflakeStatus) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return;
            }
            let log = self.home.log();
            assert!(began.elapsed() < PATIENCE, "in vain: {what}; {status:?}\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for a report that ZooKeeper takes from now on.
    ///
    /// # Panics
    /// When none comes.
    pub fn reports(&self) {
        let began = Instant::now();
        self.wait_status("a report", |status| {
            let elapsed = began.elapsed().as_millis();
            status.last_report_ms_ago.is_some_and(|ago| u128::from(ago) < elapsed)
        });
    }

    /// Waits until a report has failed.
    ///
    /// # Panics
    /// When none does.
    pub fn is_cut_off(&self) {
        self.wait_status("no ZooKeeper", |status| !status.registry_error.is_empty());
    }
}

/// A client that asks for large batches all the time, whoever is started in its daemon's place.
#[derive(Debug)]
pub struct Batches {
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Tally {
    served: AtomicU64,
    /// By name.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    workers: Mutex<BTreeSet<u64>>,
}

/// What became of a client's calls.
#[derive(Debug)]
pub struct Figures {
    /// Those that failed, by the name of the error.
    pub failures: BTreeMap<&'static str, u64>,
    /// The worker IDs in the others.
    pub workers: BTreeSet<u64>,
}

impl Batches {
    /// Asks whoever is started in `home`, which has this layout. Calls that fail are counted and
    /// made again; a failure that does not pass by itself ends the test.
    #[must_use]
    pub fn of(home: &Home, layout: Layout, seen: &Seen) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Tally::default());
        let (stopped, counted, seen) = (Arc::clone(&stop), Arc::clone(&tally), seen.clone());
        let mut client = blocking::Client::new(home.options().timeout(CALL));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match client.snowflake_many(fastrand::u32(BATCH[0]..=BATCH[1])) {
                    Ok(ids) => {
                        seen.add(SNOWFLAKE, &ids);
                        counted.note(ids.runs().iter().map(|run| worker_of(&layout, run)));
                    }
                    Err(error) => {
                        counted.failed(&error);
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        });
        Self { stop, tally, thread }
    }

    /// How many calls were served so far.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.tally.served.load(Ordering::Relaxed)
    }

    /// Whether it has ended early, which it does at a duplicate.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it has been served twice more: at most one call was under way before.
    ///
    /// # Panics
    /// When it is not.
    pub fn are_served(&self, home: &Home) {
        let (before, began) = (self.served(), Instant::now());
        while self.served() < before + 2 {
            assert!(!self.is_broken(), "a client has ended\n{}", home.log());
            assert!(began.elapsed() < PATIENCE, "a client is not served\n{}", home.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it; a duplicate ends the test.
    ///
    /// # Panics
    /// When it panicked.
    #[must_use]
    pub fn finish(self) -> Figures {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        let failures = self.tally.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = self.tally.workers.lock().unwrap_or_else(PoisonError::into_inner);
        Figures { failures: failures.clone(), workers: workers.clone() }
    }
}

impl Tally {
    fn note(&self, workers: impl Iterator<Item = u64>) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).extend(workers);
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, error: &Error) {
        assert!(error.is_temporary(), "a call failed for good: {error}");
        let name = match error {
            Error::Refused(refusal) => refusal.code().name(),
            Error::Unavailable { .. } => "no connection",
            _ => "no answer",
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(name).or_default() += 1;
    }
}

fn worker_of(layout: &Layout, run: &Run) -> u64 {
    layout.decode(run.first).expect("an ID of this layout").worker
}
