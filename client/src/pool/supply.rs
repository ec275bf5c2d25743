//! What the callers of a pool and its refill thread share in one process, apart from the tickets: who
//! waits, why the last refill failed, and which ranges local handles have given back. A child never
//! uses its parent's supply, whose locks may be held for ever there.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Instant;

use super::tickets::Lease;
use crate::error::Error;

/// Ranges that local handles have given back and none has taken: each is the rest of a batch, and a server
/// may end all its threads at once.
const RETURNED: usize = 4096;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Supply {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    returned: Mutex<Vec<Lease>>,
    /// Whether the refill thread was started, or is about to be.
    started: AtomicBool,
    /// The refill thread, once it runs.
    thread: OnceLock<Thread>,
    asked: AtomicBool,
    pub(super) counters: Counters,
}

/// Counters that the pool shows, and those that its decisions need.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// IDs in the batches of local handles, and in what they gave back.
    pub(super) lent: AtomicU64,
    /// Local handles.
    pub(super) locals: AtomicU64,
    /// IDs that were given back and then lost.
    pub(super) dropped: AtomicU64,
    /// IDs that are leased, and published as soon as there is room.
    pub(super) backlog: AtomicU64,
    /// IDs that became too old before there was room.
    pub(super) outdated: AtomicU64,
    pub(super) leased: AtomicU64,
    pub(super) refills: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) chunk: AtomicU64,
    /// IDs per second between the last two leases, as the bits of a float.
    pub(super) rate: AtomicU64,
}

/// Why the last attempt to lease failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// When the next attempt may be made. Until then, an error that does not pass is every caller's.
    pub(super) until: Instant,
}

/// The callers that wait, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) failure: Option<Failure>,
    /// Asynchronous callers, by deadline.
    wakers: BTreeMap<(Instant, u64), Waker>,
    next_key: u64,
}

impl Failure {
    /// Whether callers that find no ID get this error now, instead of waiting.
    pub(super) fn is_final(&self, now: Instant) -> bool {
        !self.error.is_temporary() && now < self.until
    }
}

impl Waiting {
    /// Adds or renews an asynchronous caller; `key` is what the last call returned.
    pub(super) fn wake_later(&mut self, key: Option<u64>, deadline: Instant, waker: &Waker) -> u64 {
        let key = key.unwrap_or_else(|| {
            self.next_key += 1;
            self.next_key
        });
        self.wakers.insert((deadline, key), waker.clone());
        key
    }

    /// Removes an asynchronous caller.
    pub(super) fn forget(&mut self, key: u64, deadline: Instant) {
        self.wakers.remove(&(deadline, key));
    }
}

impl Supply {
    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Waits until something changes, or until the deadline.
    pub(super) fn wait<'a>(
        &self,
        waiting: MutexGuard<'a, Waiting>,
        deadline: Instant,
    ) -> MutexGuard<'a, Waiting> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout(waiting, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Tells everybody that waits to look again. `failure` is why a refill failed; `None`: it did not.
    pub(super) fn tell(&self, failure: Option<Failure>) {
        let mut waiting = self.waiting();
        waiting.failure = failure;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Wakes the asynchronous callers whose deadline has passed. Returns the next deadline.
    pub(super) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        let mut overdue = Vec::new();
        let mut waiting = self.waiting();
        while let Some(entry) = waiting.wakers.first_entry()
            && entry.key().0 <= now
        {
            overdue.push(entry.remove());
        }
        let next = waiting.wakers.first_key_value().map(|((deadline, _), _)| *deadline);
        drop(waiting);
        overdue.into_iter().for_each(Waker::wake);
        next
    }

    /// Asks the refill thread to look. Starts it by `start` if there is none.
    ///
    /// # Errors
    /// That of `start`. The next caller tries again.
    pub(super) fn ask(&self, start: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.wake_refiller() || self.started.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        start().inspect_err(|_| self.started.store(false, Ordering::Release))
    }

    /// Wakes the refill thread, unless it has yet to look since the last call. Returns whether it runs.
    pub(super) fn wake_refiller(&self) -> bool {
        // The thread tells who it is and then takes this flag: if it has missed the flag, it is known here.
        let asked = self.asked.swap(true, Ordering::AcqRel);
        match self.thread.get() {
            Some(_) if asked => true,
            Some(thread) => {
                thread.unpark();
                true
            }
            None => false,
        }
    }

    /// Whether the refill thread runs.
    pub(super) fn is_refilled(&self) -> bool {
        self.thread.get().is_some()
    }

    /// Tells that the current thread is the refill thread.
    pub(super) fn refilled_here(&self) {
        self.thread.get_or_init(thread::current);
    }

    /// Whether somebody has asked since the last call.
    pub(super) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel)
    }

    /// Takes back what a local handle has not used. It is lost if there is no room.
    pub(super) fn give_back(&self, lease: Lease) {
        let mut returned = lock(&self.returned);
        if returned.len() < RETURNED {
            returned.push(lease);
        } else {
            drop(returned);
            self.lose(lease.count);
        }
    }

    /// Counts IDs of a local handle that nobody gets.
    pub(super) fn lose(&self, count: u64) {
        self.counters.lent.fetch_sub(count, Ordering::Relaxed);
        self.counters.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Something that a local handle has given back.
    pub(super) fn take_returned(&self) -> Option<Lease> {
        lock(&self.returned).pop()
    }
}

// A panic while a lock is held leaves these values whole: each is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_caller_that_asks_while_another_one_starts_the_thread_is_heard() {
        let supply = Arc::new(Supply::default());
        let (heard, hears) = mpsc::channel();
        let hears = || hears.recv_timeout(Duration::from_secs(60)).expect("the thread looks");
        let refiller = Arc::clone(&supply);
        let start = || {
            // Another caller asks before anybody knows the thread.
            supply.ask(|| panic!("it was started"))?;
            thread::Builder::new().spawn(move || {
                refiller.refilled_here();
                let mut words = 0;
                while words < 2 {
                    let asked = refiller.take_asked();
                    words += u32::from(asked);
                    heard.send(asked).unwrap();
                    if !asked {
                        thread::park();
                    }
                }
            })?;
            Ok(())
        };
        supply.ask(start).unwrap();
        // It hears the callers, and finds nothing more to do.
        assert!(hears() && !hears());
        supply.ask(|| panic!("it runs")).unwrap();
        while !hears() {}
    }

    #[test]
    fn a_thread_that_could_not_start_is_started_for_the_next_caller() {
        let supply = Supply::default();
        let full = || Err(io::Error::from(io::ErrorKind::OutOfMemory));
        assert!(supply.ask(full).is_err());
        let mut started = false;
        let start = || {
            started = true;
            Ok(())
        };
        supply.ask(start).unwrap();
        assert!(started);
    }
}
