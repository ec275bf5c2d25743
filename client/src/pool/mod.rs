//! Pools: IDs at the speed of memory. The daemon leases ranges of IDs to this process ahead of need, and
//! the application takes them from there: a call costs an addition instead of a system call.
//!
//! ```
//! # #[cfg(feature = "testing")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let daemon = leaf_client::testing::FakeDaemon::start()?;
//! # let options = leaf_client::Options::at(daemon.path());
//! use leaf_client::pool::Pool;
//!
//! # #[cfg(any())]
//! let pool = Pool::tag("order").build()?;
//! # let pool = Pool::tag("order").options(options).build()?;
//! let order = pool.next()?;
//!
//! // In a thread with a hot loop: a handle with a range of its own.
//! let local = pool.local()?;
//! let line = local.next()?;
//! assert_ne!(order, line);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "testing"))]
//! # fn main() {}
//! ```
//!
//! # What a pool promises
//!
//! - **No ID twice**, in all threads, in all children of a `fork`, and among all processes of the host.
//! - **Order**, of [`Pool::next`] and its kin: an ID that is taken after another one was returned, by any
//!   thread of the process, is higher. The exception is the daemon's: after it has switched to another
//!   store, its IDs may be lower. [`Pool::local`] promises uniqueness only. Processes have ranges of
//!   their own, so between them there is no order.
//! - **Age**: a snowflake ID is at most `max-age` old (1 s by default) when it is taken, measured from
//!   before it was requested, also while the machine sleeps. What is older is dropped.
//! - **Loss**: a process that ends loses what its pool holds: at most two chunks.
//!
//! # Refills
//!
//! The pool leases in the background, by a thread of its own, once half of a chunk is used. A chunk lasts
//! about a second at the rate of the last one, between 100 and 1,000,000 IDs. If even the largest lasts for less
//! than a quarter of that time, the pool leases up to two at once. While the daemon does not
//! answer, the pool gives what it holds ([`PoolStats::held`], [`Pool::seconds_left`]); after that, calls
//! wait until their deadline and get the error of the last attempt. An error that does not pass by itself,
//! such as `Forbidden`, is returned at once. [`PoolBuilder::on_event`] reports an outage once, when it has
//! lasted for a second or does not pass by itself.
//!
//! # Fork
//!
//! A child's pool is empty. At its first use it gets a connection and a thread of its own.
//! The parent's connection stays as it is. This holds whatever other threads of the process do at the
//! moment of the fork, if that is the C library's `fork` and the allocator works in its children, as
//! glibc's does. Pools need Linux 4.14 or later: [`PoolBuilder::build`] fails where the kernel
//! cannot wipe memory in a child. Do not call `fork` in a signal handler that returns into a call of a
//! pool, and do not restore a snapshot of a process (CRIU, SnapStart) more than once.

mod builder;
mod local;
mod next;
mod plan;
mod refill;
mod shared;
mod stats;
mod supply;
mod tickets;

pub use builder::PoolBuilder;
pub use local::LocalPool;
pub use next::Next;
pub use stats::{PoolEvent, PoolStats};

use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::ids::Ids;
use crate::options::cut;
use crate::wire::Run;
use shared::{PageRef, Shared, Source};
use supply::{Supply, Waiting};
use tickets::{Lease, Taken};

/// A pool of IDs of one tag, or of snowflake IDs. Cloning is cheap; all clones share. See the
/// [module](self) for what it promises.
#[derive(Debug, Clone)]
pub struct Pool {
    page: PageRef,
    /// Whether its IDs age.
    ages: bool,
    /// Ends the refill thread when the last clone is dropped.
    _open: Arc<Open>,
}

#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        if let Some(supply) = self.0.known_supply() {
            supply.wake_refiller();
        }
    }
}

impl Pool {
    /// Begins a pool of IDs of this tag.
    pub fn tag(tag: impl Into<String>) -> PoolBuilder {
        PoolBuilder::new(Source::Tag(tag.into().into()))
    }

    /// Begins a pool of snowflake IDs.
    pub fn snowflake() -> PoolBuilder {
        PoolBuilder::new(Source::Snowflake)
    }

    fn start(shared: Arc<Shared>) -> Self {
        let ages = shared.settings.max_age.is_some();
        Self { page: PageRef::new(Arc::clone(&shared)), ages, _open: Arc::new(Open(shared)) }
    }

    /// Takes the next ID if one is there. Wait-free, but for the first call in a process, which starts
    /// the refill thread. `None`: a refill is under way, and a later call may succeed.
    #[inline]
    pub fn try_next(&self) -> Option<u64> {
        match self.page.tickets().take() {
            Taken::Id(id) => Some(id),
            taken => self.try_slowly(taken),
        }
    }

    /// The rest of [`Self::try_next`]: IDs that age, the first of a record, or nothing in front.
    #[cold]
    fn try_slowly(&self, taken: Taken) -> Option<u64> {
        let tickets = self.page.tickets();
        let taken = match taken {
            Taken::Nothing if self.ages => tickets.take_fresh(|| self.oldest()),
            Taken::Nothing => tickets.take_slowly(),
            taken => taken,
        };
        match taken {
            Taken::Id(id) => Some(id),
            Taken::IdOfNext(id) => {
                self.ask_if_low();
                Some(id)
            }
            Taken::Nothing => {
                // Without a thread, a caller that waits gets the error.
                let _ = self.ask();
                None
            }
        }
    }

    /// Takes the next ID, and waits for one at most as long as the timeout of the pool's options (5 s by
    /// default).
    ///
    /// # Errors
    /// When no ID came in time, the error of the last attempt to lease: see [`Error`].
    #[inline]
    pub fn next(&self) -> Result<u64, Error> {
        match self.page.tickets().take() {
            Taken::Id(id) => Ok(id),
            taken => self.next_slowly(taken),
        }
    }

    #[cold]
    fn next_slowly(&self, taken: Taken) -> Result<u64, Error> {
        match self.try_slowly(taken) {
            Some(id) => Ok(id),
            None => self.next_within(self.timeout()),
        }
    }

    /// As [`Self::next`], with another timeout of at most 24 hours.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
        self.wait_for(cut(timeout), || self.try_next())
    }

    /// Takes the next ID without blocking the thread, on any runtime. Cancel-safe: a future that is
    /// dropped has taken no ID.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn next_async(&self) -> Next<'_> {
        Next::new(self, self.timeout())
    }

    /// As [`Self::next_async`], with another timeout of at most 24 hours.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn next_async_within(&self, timeout: Duration) -> Next<'_> {
        Next::new(self, cut(timeout))
    }

    /// Takes `count` IDs, and waits for them at most as long as [`Self::next`] does. Those taken before
    /// an error are lost.
    ///
    /// # Errors
    /// Those of [`Self::next`], and [`Error::Invalid`] if the count is 0.
    pub fn next_many(&self, count: u32) -> Result<Ids, Error> {
        if count == 0 {
            return Err(crate::error::Invalid::CountZero.into());
        }
        let (mut runs, mut left) = (Vec::new(), u64::from(count));
        let take = || {
            left -= self.take_runs(left, &mut runs);
            (left == 0).then_some(())
        };
        self.wait_for(self.timeout(), take)?;
        let more = runs.split_off(runs.len().min(1));
        let first = runs.pop().unwrap_or(Run { first: 0, count: 0 });
        Ok(Ids::check(first, more, count)?)
    }

    /// Makes a handle for the present thread, with a range of its own.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the system has no memory for it.
    pub fn local(&self) -> Result<LocalPool, Error> {
        LocalPool::new(self.clone()).map_err(unsupported)
    }

    /// How long the IDs that the pool holds last at the rate of the last chunk. `None` while the pool
    /// does not know a rate.
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = f64::from_bits(self.shared().known_supply()?.counters.rate.load(Relaxed));
        (rate > 0.0).then(|| self.page.tickets().left() as f64 / rate)
    }

    /// The counters of the pool in this process.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let tally = self.page.tickets().tally();
        let Some(supply) = self.shared().known_supply() else { return PoolStats::default() };
        let counters = &supply.counters;
        let (lent, dropped) = (counters.lent.load(Relaxed), counters.dropped.load(Relaxed));
        PoolStats {
            leased: counters.leased.load(Relaxed),
            issued: tally.taken.saturating_sub(lent + dropped),
            held: tally.left + counters.backlog.load(Relaxed),
            lent,
            lost: tally.lost + dropped + counters.outdated.load(Relaxed),
            refills: counters.refills.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            waits: counters.waits.load(Relaxed),
            chunk: counters.chunk.load(Relaxed),
        }
    }

    /// Takes up to `count` IDs as runs. Returns how many.
    fn take_runs(&self, count: u64, runs: &mut Vec<Run>) -> u64 {
        let mut taken = 0;
        let mut add = |first, count| {
            taken += count;
            // A record has fewer IDs than an answer.
            runs.push(Run { first, count: u32::try_from(count).unwrap_or(u32::MAX) });
            taken
        };
        let mut left = count;
        while left > 0 {
            let outdated =
                self.take_leases(left, |lease| left = count - add(lease.first, lease.count));
            // The next record may be too old as well. Taking one ID drops those that are.
            let next = if outdated && left > 0 { self.take_fresh() } else { None };
            let Some(id) = next else { break };
            left = count - add(id, 1);
        }
        self.ask_if_low();
        taken
    }

    /// Takes up to `count` IDs, and passes on those that are not too old. Returns whether some were.
    fn take_leases(&self, count: u64, mut pass: impl FnMut(Lease)) -> bool {
        let mut outdated = false;
        self.page.tickets().take_many(count, |lease| {
            // Asked after the tickets were taken, as each caller of one ID does.
            if self.ages && lease.born < self.oldest() {
                outdated = true;
                // Counted as lent and lost at once.
                let supply = self.supply();
                supply.counters.lent.fetch_add(lease.count, Relaxed);
                supply.lose(lease.count);
            } else {
                pass(lease);
            }
        });
        outdated
    }

    /// Takes an ID that is not too old, and drops what is.
    fn take_fresh(&self) -> Option<u64> {
        match self.page.tickets().take_fresh(|| self.oldest()) {
            Taken::Id(id) | Taken::IdOfNext(id) => Some(id),
            Taken::Nothing => None,
        }
    }

    /// Tries `take` until it succeeds, waiting for refills in between.
    fn wait_for<T>(
        &self,
        timeout: Duration,
        mut take: impl FnMut() -> Option<T>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + timeout;
        if let Some(taken) = take() {
            return Ok(taken);
        }
        let supply = self.supply();
        supply.counters.waits.fetch_add(1, Relaxed);
        loop {
            let asked = self.ask();
            let waiting = supply.waiting();
            // Under the lock: what is published after this look wakes this caller.
            if let Some(taken) = take() {
                return Ok(taken);
            }
            asked?;
            if let Some(error) = self.give_up(&waiting, deadline, timeout) {
                return Err(error);
            }
            drop(supply.wait(waiting, deadline));
        }
    }

    /// The error for a caller that finds nothing, if it should not wait any longer.
    fn give_up(&self, waiting: &Waiting, deadline: Instant, timeout: Duration) -> Option<Error> {
        let now = Instant::now();
        match &waiting.failure {
            Some(failure) if failure.is_final(now) || now >= deadline => {
                Some(failure.error.clone())
            }
            None if now >= deadline => {
                let call = match &self.shared().settings.source {
                    Source::Tag(_) => "Segment",
                    Source::Snowflake => "Snowflake",
                };
                Some(Error::DeadlineExceeded { call, timeout })
            }
            _ => None,
        }
    }

    /// Asks the refill thread to look.
    #[cold]
    fn ask(&self) -> Result<(), Error> {
        self.supply().ask(|| refill::start(self.shared())).map_err(|source| Error::Unsupported {
            what: "a thread that refills the pool",
            source: Arc::new(source),
        })
    }

    /// Asks if half of a chunk is used.
    #[cold]
    fn ask_if_low(&self) {
        let chunk = self.supply().counters.chunk.load(Relaxed);
        if self.page.tickets().left() <= chunk / 2 {
            // Without a thread, a caller that finds nothing gets the error.
            let _ = self.ask();
        }
    }

    /// The boot time before which an ID is too old.
    fn oldest(&self) -> u64 {
        self.shared().oldest()
    }

    fn supply(&self) -> &Supply {
        self.shared().supply()
    }

    fn shared(&self) -> &Arc<Shared> {
        self.page.shared()
    }

    fn timeout(&self) -> Duration {
        self.shared().settings.options.call_timeout()
    }
}

fn unsupported(source: std::io::Error) -> Error {
    Error::Unsupported { what: "a pool: memory that a fork wipes", source: Arc::new(source) }
}

// Two attributes, since clippy takes the first alone for that of tests.
#[cfg(test)]
#[cfg(not(loom))]
mod memory_tests;
