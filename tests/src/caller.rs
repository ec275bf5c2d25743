//! A client of one tag, for tests about outages: it records every ID and every refusal.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking;
use leaf_client::wire::{Call, ErrorCode, Reply, TagStatus, WireError};

use crate::daemon::{Daemon, Home};
use crate::raw::Raw;
use crate::unique_ids::UniqueIds;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(50);

/// The longest time from the return of a store to the first ID. The design promises 2 s; a busy
/// machine needs more.
const RECOVERY: Duration = Duration::from_secs(10);

/// The answer to a request that waited, and when it came.
type Outcome = (Result<(), WireError>, Instant);

/// Asks for IDs of one tag. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    home: Home,
    tag: String,
    seen: UniqueIds,
}

/// A request that waits for a lease, on a thread of its own.
#[derive(Debug)]
pub struct Waiter {
    thread: JoinHandle<Outcome>,
    home: Home,
}

impl Caller {
    /// A client of `daemon` and its successors.
    #[must_use]
    pub fn of(daemon: &Daemon, tag: &str, seen: &UniqueIds) -> Self {
        Self { home: daemon.home().clone(), tag: tag.to_owned(), seen: seen.clone() }
    }

    /// Asks for `count` IDs. The daemon, not the client, enforces the deadline `wait`. Fails with the
    /// daemon's refusal.
    pub fn ask(&self, count: u32, wait: Duration) -> Result<(), WireError> {
        let timeout_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let call = Call::Segment { tag: &self.tag, count, timeout_ms };
        match Raw::greeted(&self.home.socket()).ask(2, call) {
            Reply::Ids { first, more } => {
                for run in std::iter::once(first).chain(more) {
                    self.seen.add_run(&self.tag, run.first, u64::from(run.count));
                }
                Ok(())
            }
            Reply::Error(error) => Err(error),
            other => panic!("{}: {other:?}\n{}", self.tag, self.home.log()),
        }
    }

    /// Gets `count` IDs, with a deadline of 50 s.
    pub fn gets(&self, count: u32) {
        if let Err(error) = self.ask(count, PATIENCE) {
            panic!("{}: {error}\n{}", self.tag, self.home.log());
        }
    }

    /// Asks for one ID and expects `StoreUnavailable` with a time after which to retry.
    pub fn is_refused(&self, wait: Duration) -> WireError {
        let error = self.ask(1, wait).expect_err("it is served");
        assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}\n{}", self.home.log());
        assert!(error.retry_after_ms > 0, "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        error
    }

    /// Takes all IDs that the daemon has in memory, first one by one and then many at a time, and
    /// returns their number. The store must be down. Each request has the deadline `wait`.
    pub fn drain(&self, wait: Duration) -> u64 {
        let mut drained = 0;
        loop {
            let left = self.status().map_or(0, |status| status.remaining);
            let count = if drained < 20 { left.min(1) } else { left.min(10_000) };
            if count == 0 {
                return drained;
            }
            let outcome = self.ask(u32::try_from(count).unwrap_or(1), wait);
            assert_eq!(outcome, Ok(()), "memory has {left}\n{}", self.home.log());
            drained += count;
        }
    }

    /// The tag's status if the daemon has the tag in memory. The daemon does not ask the store.
    #[must_use]
    pub fn status(&self) -> Option<TagStatus> {
        // `tags_used` reads memory only; asking the store would change what the tests look at.
        let mut before = self.tag.clone();
        before.pop();
        assert!(!before.is_empty(), "no name is before {:?}", self.tag);
        let page = blocking::Client::new(self.home.options()).tags_used(&before, 10);
        page.expect("a page").into_iter().find(|status| status.tag == self.tag)
    }

    /// Waits until the tag's status satisfies `holds`.
    pub fn wait_status(&self, what: &str, mut holds: impl FnMut(&TagStatus) -> bool) {
        wait_until(&self.home, what, || self.status().is_some_and(|status| holds(&status)));
    }

    /// Uses the tag until the daemon has leased the next range ahead, and returns how many IDs it has
    /// in memory then.
    pub fn fills_memory(&self) -> u64 {
        wait_until(&self.home, "both ranges", || {
            let status = self.status();
            let in_use =
                status.as_ref().and_then(|status| Some((status.position, status.current?)));
            // leafd leases the next range once a tenth of the current one is used.
            let used = in_use.is_some_and(|(position, range)| {
                position >= range.start + (range.end - range.start).div_ceil(10)
            });
            if !used {
                self.gets(10);
            }
            status.is_some_and(|status| status.next.is_some())
        });
        self.status().map_or(0, |status| status.remaining)
    }

    /// Asks for one ID on a thread of its own, and returns once the daemon counts the request as
    /// waiting.
    #[must_use]
    pub fn waits(&self) -> Waiter {
        let waiting = || {
            let status = blocking::Client::new(self.home.options()).status();
            status.expect("a status").segments.waiting
        };
        let before = waiting();
        let this = self.clone();
        let thread = std::thread::spawn(move || (this.ask(1, PATIENCE), Instant::now()));
        wait_until(&self.home, "the request waits", || waiting() > before);
        Waiter { thread, home: self.home.clone() }
    }
}

impl Waiter {
    /// Asserts that the request is served soon after the store `returned`. Prints how long it took.
    pub fn is_served(self, what: &str, returned: Instant) {
        let (outcome, at) = self.thread.join().expect("its thread");
        assert_eq!(outcome, Ok(()), "{}", self.home.log());
        in_bounds(what, at.saturating_duration_since(returned));
    }
}

/// Prints the time from the return of a store to the first ID, and asserts that it is short enough.
pub fn in_bounds(what: &str, took: Duration) {
    println!("{what}: served {took:.1?} after the return");
    assert!(took < RECOVERY, "{what}: {took:?}");
}

/// Waits until `holds` returns true. The message of a failure has the daemon's log.
pub fn wait_until(home: &Home, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `ask` with clients of this timeout until leafd answers: on a busy machine the client may time
/// out before leafd's refusal arrives. Fails with leafd's refusal.
pub fn ask_until_answered<T>(
    home: &Home,
    limit: Duration,
    mut ask: impl FnMut(&mut blocking::Client) -> Result<T, Error>,
) -> Result<T, WireError> {
    let began = Instant::now();
    let mut client = blocking::Client::new(home.options().timeout(limit));
    loop {
        match ask(&mut client) {
            Ok(answer) => return Ok(answer),
            Err(Error::Refused(error)) => return Err(error),
            Err(Error::DeadlineExceeded { .. }) if began.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}\n{}", home.log()),
        }
    }
}

/// The store's error in the daemon's status; empty while the store works.
#[must_use]
pub fn store_error(home: &Home) -> String {
    let status = blocking::Client::new(home.options()).status();
    status.expect("a status").segments.store_error
}
