//! Records all snowflake IDs of a test, and asserts that the time in the IDs of each worker ID only goes
//! forward, whichever host has the worker ID and whatever the clocks show. This finds a repetition
//! even if by chance no ID comes twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, Run, WireError};
use leaf_client::{Ids, Layout, blocking};

use crate::daemon::Home;
use crate::load::SNOWFLAKE;
use crate::raw::Raw;
use crate::unique_ids::UniqueIds;
use crate::workers::SnowflakeCaller;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(90);

/// The deadline that a request gives to the daemon.
const WAIT: Duration = Duration::from_secs(10);

/// The IDs of a test. Clones share them. Only one thread at a time may ask a daemon, since IDs have to
/// be added in the order of their issue.
#[derive(Debug, Clone)]
pub struct Snowflakes {
    layout: Layout,
    seen: UniqueIds,
    /// The last ID by worker ID.
    last: Arc<Mutex<BTreeMap<u64, u64>>>,
}

/// The IDs of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The worker ID in the first ID.
    pub worker: u64,
    /// The time in the first ID, in ms since 1970.
    pub first_ms: u64,
    /// The time in the last ID, in ms since 1970.
    pub last_ms: u64,
}

/// IDs of Leaf's layout.
impl Default for Snowflakes {
    fn default() -> Self {
        Self::of(Layout::LEAF)
    }
}

impl Snowflakes {
    /// IDs of this layout.
    #[must_use]
    pub fn of(layout: Layout) -> Self {
        Self { layout, seen: UniqueIds::default(), last: Arc::default() }
    }

    /// Number of IDs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.seen.count(SNOWFLAKE)
    }

    /// The worker IDs in all IDs.
    #[must_use]
    pub fn workers(&self) -> Vec<u64> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// A client of the daemon in `home`, for its status.
    #[must_use]
    pub fn caller(&self, home: &Home) -> SnowflakeCaller {
        SnowflakeCaller::of(home, &self.seen)
    }

    /// Asks the daemon in `home` for `count` IDs. Fails with the daemon's refusal.
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
        let [(worker, first_ms), (_, last_ms)] =
            [first.first, last.first].map(|id| self.decode(id));
        Batch { worker, first_ms, last_ms }
    }

    /// Adds the IDs of an answer that another client received.
    pub fn add_all(&self, ids: &Ids) {
        ids.runs().iter().for_each(|run| self.add(*run));
    }

    /// Adds a run of IDs.
    pub fn add(&self, run: Run) {
        self.seen.add_run(SNOWFLAKE, run.first, u64::from(run.count));
        let (worker, ms) = self.decode(run.first);
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.insert(worker, run.first + u64::from(run.count) - 1);
        let before = last.map(|id| self.decode(id));
        assert!(
            last.is_none_or(|last| last < run.first),
            "the time of worker ID {worker} went back to {ms}, from {before:?}"
        );
    }

    fn decode(&self, id: u64) -> (u64, u64) {
        let decoded = self.layout.decode(id).expect("a snowflake ID");
        (decoded.worker, decoded.unix_ms)
    }

    /// Gets `count` IDs, retrying until they come.
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

    /// Gets 51 batches of IDs and returns the last one.
    pub fn works(&self, home: &Home) -> Batch {
        let mut last = self.gets(home, 1);
        for _ in 0..50 {
            last = self.gets(home, fastrand::u32(1..50));
        }
        last
    }

    /// Asks until a request is refused with `code` and a message that contains `text`, and asserts that
    /// segments are served then.
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

/// Asserts that the daemon serves segment IDs.
pub fn serves_segments(home: &Home) {
    let mut client = blocking::Client::new(home.options().timeout(WAIT));
    let ids = client.next_many("orders", 3);
    assert!(ids.as_ref().is_ok_and(|ids| ids.len() == 3), "{ids:?}\n{}", home.log());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_whose_time_is_before_the_last_one_of_its_worker_id_panics() {
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
