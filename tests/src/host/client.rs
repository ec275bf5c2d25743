//! The client of a host. It asks the daemon, and its successors, for snowflake IDs until it is
//! stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaf_client::{Error, Ids, Layout, Options, blocking};

use super::CALL;
use crate::Background;
use crate::load::SNOWFLAKE;
use crate::unique_ids::UniqueIds;

/// Most IDs of one call. With a call every few milliseconds, two hosts that use the same worker ID
/// issue a duplicate within a second.
const MOST: u32 = 200;

/// The pause after an answer, and after a call that failed.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(10)];

#[derive(Debug)]
pub(super) struct Client {
    tally: Arc<Mutex<Tally>>,
    thread: Background<()>,
}

/// What a client has received.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    failures: u64,
    /// Keyed by worker ID.
    pub(super) issued: BTreeMap<u64, Issued>,
}

/// What a host issued with one worker ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// Number of IDs.
    pub count: u64,
    /// The time in the first ID, in ms since 1970.
    pub first_ms: u64,
    /// The time in the last ID, in ms since 1970.
    pub last_ms: u64,
}

impl Client {
    pub(super) fn start(options: &Options, layout: Layout, seen: &UniqueIds) -> Self {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (noted, seen) = (Arc::clone(&tally), seen.clone());
        let mut client = blocking::Client::new(options.clone().timeout(CALL));
        let thread = Background::start(move |stop| {
            while !stop.is_set() {
                let answer = client.snowflake_many(fastrand::u32(1..=MOST));
                if let Ok(ids) = &answer {
                    seen.add(SNOWFLAKE, ids);
                }
                let pause = PAUSES[usize::from(answer.is_err())];
                noted.lock().unwrap_or_else(PoisonError::into_inner).note(layout, answer);
                std::thread::sleep(pause);
            }
        });
        Self { tally, thread }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it ended by itself, which means that it found a bug.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    pub(super) fn end(self) -> std::thread::Result<()> {
        self.thread.try_finish()
    }
}

impl Tally {
    fn note(&mut self, layout: Layout, answer: Result<Ids, Error>) {
        let ids = match answer {
            Ok(ids) => ids,
            Err(error) => {
                assert!(error.is_temporary(), "a call failed for good: {error}");
                self.failures += 1;
                return;
            }
        };
        self.calls += 1;
        for run in ids.runs() {
            let id = layout.decode(run.first).expect("an ID of this layout");
            let first = Issued { count: 0, first_ms: id.unix_ms, last_ms: id.unix_ms };
            let issued = self.issued.entry(id.worker).or_insert(first);
            issued.count += u64::from(run.count);
            issued.last_ms = id.unix_ms;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, failures, issued } = self;
        let counts: BTreeMap<_, _> = issued.iter().map(|(worker, it)| (worker, it.count)).collect();
        write!(formatter, "{calls} calls, {failures} failed, IDs by worker ID {counts:?}")
    }
}
