//! Somebody who asks for IDs of one tag, notes all that come, and is told why none come.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking;
use leaf_client::wire::{Call, ErrorCode, Reply, TagStatus, WireError};

use crate::daemon::{Daemon, Home};
use crate::raw::Raw;
use crate::seen::Seen;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(50);

/// The design promises 2 s from the return of a store on; a machine that tests is slow.
const RECOVERY: Duration = Duration::from_secs(10);

/// What a request that waited came to, and when.
type Outcome = (Result<(), WireError>, Instant);

/// Asks for IDs of a tag. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    home: Home,
    tag: String,
    seen: Seen,
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    thread: JoinHandle<Outcome>,
    home: Home,
}

impl Caller {
    /// Asks `daemon`, and whoever is started in its place.
    #[must_use]
    pub fn of(daemon: &Daemon, tag: &str, seen: &Seen) -> Self {
        Self { home: daemon.home().clone(), tag: tag.to_owned(), seen: seen.clone() }
    }

    /// Asks for `count` IDs, to be had within `wait`. The daemon keeps the time, and no client.
    ///
    /// # Errors
    /// What the daemon says.
    ///
    /// # Panics
    /// When it says nothing.
    #[expect(clippy::panic, reason = "a test cannot go on")]
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

    /// Gets `count` IDs, however long that takes.
    ///
    /// # Panics
    /// When it does not.
    #[expect(clippy::panic, reason = "a test cannot go on")]
    pub fn gets(&self, count: u32) {
        if let Err(error) = self.ask(count, PATIENCE) {
            panic!("{}: {error}\n{}", self.tag, self.home.log());
        }
    }

    /// Asks for one ID and is refused because of the store, with a time to come again.
    ///
    /// # Panics
    /// When it is served, or refused for something else.
    pub fn is_refused(&self, wait: Duration) -> WireError {
        let error = self.ask(1, wait).expect_err("it is served");
        assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}\n{}", self.home.log());
        assert!(error.retry_after_ms > 0, "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        error
    }

    /// Takes all that memory has, one ID in every request and then many, and returns how many
    /// there were. The store gives nothing meanwhile. Each request has `wait`.
    ///
    /// # Panics
    /// When one is not served.
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

    /// What memory knows of the tag. The store is not asked.
    ///
    /// # Panics
    /// When the daemon does not say.
    #[must_use]
    pub fn status(&self) -> Option<TagStatus> {
        // From memory: asking the store would change what the tests look at.
        let mut before = self.tag.clone();
        before.pop();
        assert!(!before.is_empty(), "no name is before {:?}", self.tag);
        let page = blocking::Client::new(self.home.options()).tags_used(&before, 10);
        page.expect("a page").into_iter().find(|status| status.tag == self.tag)
    }

    /// Waits until memory knows this of the tag.
    ///
    /// # Panics
    /// When it does not come to it.
    pub fn wait_status(&self, what: &str, mut holds: impl FnMut(&TagStatus) -> bool) {
        wait_until(&self.home, what, || self.status().is_some_and(|status| holds(&status)));
    }

    /// Uses the tag until memory has the next range as well, and returns how many IDs it has then.
    ///
    /// # Panics
    /// When it does not come to it.
    pub fn fills_memory(&self) -> u64 {
        wait_until(&self.home, "both ranges", || {
            let status = self.status();
            let in_use =
                status.as_ref().and_then(|status| Some((status.position, status.current?)));
            // From a tenth on, the next range is on its way.
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

    /// Asks for one ID in a thread of its own, and returns when the request waits.
    ///
    /// # Panics
    /// When it does not get to wait.
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
    /// It is served, soon after the store `returned`. Prints how long it took.
    ///
    /// # Panics
    /// When it is not.
    pub fn is_served(self, what: &str, returned: Instant) {
        let (outcome, at) = self.thread.join().expect("its thread");
        assert_eq!(outcome, Ok(()), "{}", self.home.log());
        in_bounds(what, at.saturating_duration_since(returned));
    }
}

/// Prints how long it took from the return of a store to the first ID.
///
/// # Panics
/// When it was far longer than promised.
pub fn in_bounds(what: &str, took: Duration) {
    println!("{what}: served {took:.1?} after the return");
    assert!(took < RECOVERY, "{what}: {took:?}");
}

/// Waits until something holds.
///
/// # Panics
/// When it does not come to it.
pub fn wait_until(home: &Home, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks with this time limit until leafd answers: on a busy machine a refusal may come later than the
/// client waits for it.
///
/// # Errors
/// With leafd's refusal.
///
/// # Panics
/// When leafd does not answer.
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

/// What the daemon says of its store; empty when it works.
///
/// # Panics
/// When the daemon does not say.
#[must_use]
pub fn store_error(home: &Home) -> String {
    let status = blocking::Client::new(home.options()).status();
    status.expect("a status").segments.store_error
}
