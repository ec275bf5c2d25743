//! Somebody who asks daemons for snowflake IDs, notes all of them, and holds each worker ID to its
//! time: it only goes forward, whoever has the worker ID and whatever the clocks say. A repetition
//! shows so even where the very same ID does not come again by chance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, Run, WireError};
use leaf_client::{Ids, Layout, blocking};

use crate::daemon::Home;
use crate::load::SNOWFLAKE;
use crate::raw::Raw;
use crate::seen::Seen;
use crate::workers::Customer;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a daemon may let a request wait.
const WAIT: Duration = Duration::from_secs(10);

/// All that was received in a test. Cheap to clone. Each daemon is asked by one thread at a time.
#[derive(Debug, Clone, Default)]
pub struct Snowflakes {
    seen: Seen,
    /// The last ID of each worker ID.
    last: Arc<Mutex<BTreeMap<u64, u64>>>,
}

/// What came at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// With this worker ID.
    pub worker: u64,
    /// The time in the first ID (ms since 1970).
    pub first_ms: u64,
    /// The time in the last one.
    pub last_ms: u64,
}

impl Snowflakes {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.seen.count(SNOWFLAKE)
    }

    /// The worker IDs in them.
    #[must_use]
    pub fn workers(&self) -> Vec<u64> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Who asks the daemon in `home` how it is.
    #[must_use]
    pub fn customer(&self, home: &Home) -> Customer {
        Customer::of(home, &self.seen)
    }

    /// Asks the daemon in `home` for `count` IDs.
    ///
    /// # Errors
    /// What the daemon says.
    ///
    /// # Panics
    /// When it says nothing, or an ID comes that has been there, or is not after those before it.
    pub fn ask(&self, home: &Home, count: u32) -> Result<Batch, WireError> {
        let timeout_ms = u32::try_from(WAIT.as_millis()).unwrap_or(u32::MAX);
        match Raw::greeted(&home.socket()).ask(2, Call::Snowflake { count, timeout_ms }) {
            Reply::Ids { first, more } => Ok(self.note(first, &more)),
            Reply::Error(error) => Err(error),
            other => panic!("{other:?}\n{}", home.log()),
        }
    }

    fn note(&self, first: Run, more: &[Run]) -> Batch {
        let mut last = first;
        for run in std::iter::once(&first).chain(more) {
            self.add(*run);
            last = *run;
        }
        let [(worker, first_ms), (_, last_ms)] = [first.first, last.first].map(decode);
        Batch { worker, first_ms, last_ms }
    }

    /// Notes IDs that came to another client of the same daemon.
    ///
    /// # Panics
    /// As `add`.
    pub fn add_all(&self, ids: &Ids) {
        ids.runs().iter().for_each(|run| self.add(*run));
    }

    /// Notes IDs that somebody else has made.
    ///
    /// # Panics
    /// When one has been there, or they are not after those before them.
    pub fn add(&self, run: Run) {
        self.seen.add_run(SNOWFLAKE, run.first, u64::from(run.count));
        let (worker, ms) = decode(run.first);
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.insert(worker, run.first + u64::from(run.count) - 1);
        let before = last.map(decode);
        assert!(
            last.is_none_or(|last| last < run.first),
            "the time of worker ID {worker} went back to {ms}, from {before:?}"
        );
    }

    /// Gets `count` IDs, however long that takes.
    ///
    /// # Panics
    /// When it does not.
    pub fn gets(&self, home: &Home, count: u32) -> Batch {
        let began = Instant::now();
        loop {
            match self.ask(home, count) {
                Ok(batch) => return batch,
                Err(error) => {
                    assert!(began.elapsed() < PATIENCE, "{error}\n{}", home.log());
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    /// Asks for some IDs again and again; the last that came.
    ///
    /// # Panics
    /// When none come.
    pub fn works(&self, home: &Home) -> Batch {
        let mut last = self.gets(home, 1);
        for _ in 0..50 {
            last = self.gets(home, fastrand::u32(1..50));
        }
        last
    }

    /// Asks until it is refused with `text` in the reason, however long that takes; segments are
    /// served then.
    ///
    /// # Panics
    /// When it is not, or with another code.
    pub fn is_refused(&self, home: &Home, code: ErrorCode, text: &str) -> WireError {
        let began = Instant::now();
        let error = loop {
            match self.ask(home, 1) {
                Err(error) if error.message.contains(text) => break error,
                outcome => {
                    let log = home.log();
                    assert!(began.elapsed() < PATIENCE, "not {text:?}: {outcome:?}\n{log}");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        assert_eq!(error.code(), code, "{error}\n{}", home.log());
        serves_segments(home);
        error
    }
}

fn decode(id: u64) -> (u64, u64) {
    let decoded = Layout::LEAF.decode(id).expect("a snowflake ID");
    (decoded.worker, decoded.unix_ms)
}

/// Segments are served, whatever else is.
///
/// # Panics
/// When they are not.
pub fn serves_segments(home: &Home) {
    let mut client = blocking::Client::new(home.options().timeout(WAIT));
    let ids = client.next_many("orders", 3);
    assert!(ids.as_ref().is_ok_and(|ids| ids.len() == 3), "{ids:?}\n{}", home.log());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_id_whose_time_goes_back_does_not_go_unnoticed() {
        let id = |ms: u64, worker, sequence| {
            let time = 1_700_000_000_000 + ms - Layout::LEAF.epoch_ms();
            Run { first: Layout::LEAF.compose(time, worker, sequence).unwrap(), count: 5 }
        };
        let snowflakes = Snowflakes::default();
        for run in [id(7, 1, 0), id(7, 1, 5), id(8, 1, 0), id(3, 2, 0)] {
            snowflakes.add(run);
        }
        assert_eq!((snowflakes.count(), snowflakes.workers()), (20, vec![1, 2]));
        for run in [id(7, 1, 100), id(8, 1, 4), id(2, 2, 0)] {
            let again = std::panic::catch_unwind(|| snowflakes.add(run));
            assert!(again.is_err(), "{run:?}");
        }
    }
}
