//! The client of a host: it asks for snowflake IDs until it is told to end, whoever is started in
//! the daemon's place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use leaf_client::{Error, Ids, Layout, Options, blocking};

use super::CALL;
use crate::load::SNOWFLAKE;
use crate::seen::Seen;

/// Most IDs of one call. A call is made every few milliseconds, so that two who issue with one
/// worker ID meet within a second.
const MOST: u32 = 200;

/// How long it rests after an answer, and after a call that failed.
const RESTS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(10)];

#[derive(Debug)]
pub(super) struct Client {
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    thread: JoinHandle<()>,
}

/// What a client has received.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    failures: u64,
    /// By worker ID.
    pub(super) issued: BTreeMap<u64, Issued>,
}

/// What a host issued with one worker ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// So many IDs.
    pub count: u64,
    /// The time of the first, in ms since 1970.
    pub first_ms: u64,
    /// That of the last.
    pub last_ms: u64,
}

impl Client {
    pub(super) fn start(options: &Options, layout: Layout, seen: &Seen) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (stopped, noted, seen) = (Arc::clone(&stop), Arc::clone(&tally), seen.clone());
        let mut client = blocking::Client::new(options.clone().timeout(CALL));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let answer = client.snowflake_many(fastrand::u32(1..=MOST));
                if let Ok(ids) = &answer {
                    seen.add(SNOWFLAKE, ids);
                }
                let rest = RESTS[usize::from(answer.is_err())];
                noted.lock().unwrap_or_else(PoisonError::into_inner).note(layout, answer);
                std::thread::sleep(rest);
            }
        });
        Self { stop, tally, thread }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It ends by itself only when something is wrong.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn end(self) -> std::thread::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join()
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
