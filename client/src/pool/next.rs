//! The next ID as a future, for any runtime. The refill thread wakes it, at its deadline too.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::Pool;
use crate::error::Error;
use crate::fork::ProcessMark;

/// The future of [`Pool::next_async`]. It takes its ID at the moment in which it is ready.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Next<'a> {
    pool: &'a Pool,
    timeout: Duration,
    deadline: Instant,
    /// Its place among those that wait, and in which process.
    place: Option<(u64, ProcessMark)>,
}

impl<'a> Next<'a> {
    pub(super) fn new(pool: &'a Pool, timeout: Duration) -> Self {
        Self { pool, timeout, deadline: Instant::now() + timeout, place: None }
    }

    /// The key of its place, if it has one in this process.
    fn key(&self) -> Option<u64> {
        self.place.filter(|(_, process)| process.is_current()).map(|(key, _)| key)
    }
}

impl Future for Next<'_> {
    type Output = Result<u64, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(id) = self.pool.try_next() {
            return Poll::Ready(Ok(id));
        }
        let (pool, deadline, key) = (self.pool, self.deadline, self.key());
        let supply = pool.supply();
        let mut waiting = supply.waiting();
        // Under the lock: what is published after this look wakes this future.
        if let Some(id) = pool.try_next() {
            return Poll::Ready(Ok(id));
        }
        if let Some(error) = pool.give_up(&waiting, deadline, self.timeout) {
            return Poll::Ready(Err(error));
        }
        let place = waiting.wake_later(key, deadline, context.waker());
        drop(waiting);
        if key.is_none() {
            supply.counters.waits.fetch_add(1, Relaxed);
            self.place = Some((place, ProcessMark::current()));
        }
        // The refill thread has to know the deadline, too.
        match pool.ask() {
            Ok(()) => {
                // Another caller may be starting the thread, and may fail: nobody would wake this one.
                if !supply.is_refilled() {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key()
            && let Some(supply) = self.pool.shared().known_supply()
        {
            supply.waiting().forget(key, self.deadline);
        }
    }
}
