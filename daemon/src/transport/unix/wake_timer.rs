//! Wakes connections when a timeout has passed or the daemon stops.
//!
//! The thread that serves has no timers, because waiting for events *with a time limit* costs it
//! some microseconds per request (see `docs/decisions/003-runtime-and-threads.md`). So each
//! connection notes when it wants to be woken, and one task on the main thread checks all of them
//! periodically.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// When to wake one connection.
#[derive(Debug)]
pub(super) struct WakeTimer {
    began: Instant,
    /// In ms after `began`, or [`NOW`].
    due_ms: AtomicU64,
    stopping: AtomicBool,
    waker: AtomicWaker,
}

impl WakeTimer {
    /// Sets the timer to `due`, instead of the time that it had.
    pub(super) fn wake_at(&self, due: Instant) {
        let after = due.saturating_duration_since(self.began).as_millis();
        self.due_ms.store(u64::try_from(after).unwrap_or(u64::MAX).max(NOW + 1), Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ready once the time has come. Also wakes the task when the daemon stops; see
    /// [`Self::is_stopping`].
    pub(super) fn poll_due(&self, cx: &Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.due_ms.load(Ordering::Acquire) == NOW { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Wakes the connection if its time has come.
    fn check(&self, now: Instant) {
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        let now_ms = now.saturating_duration_since(self.began).as_millis();
        if due_ms == NOW || u128::from(due_ms) > now_ms {
            return;
        }
        // Fails if the connection has set another time since.
        let fired = self.due_ms.compare_exchange(due_ms, NOW, Ordering::AcqRel, Ordering::Relaxed);
        if fired.is_ok() {
            self.waker.wake();
        }
    }
}

/// Stored instead of a time once that has come.
const NOW: u64 = 0;

/// The timers of all open connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct WakeTimers(Arc<WakeTimerList>);

#[derive(Debug, Default)]
struct WakeTimerList {
    open: Mutex<HashMap<u64, Arc<WakeTimer>>>,
    next_key: AtomicU64,
    first_added: Notify,
}

/// A connection's own timer. Dropping it removes it from the list.
#[derive(Debug)]
pub(super) struct RegisteredTimer {
    timers: WakeTimers,
    key: u64,
    timer: Arc<WakeTimer>,
}

impl Deref for RegisteredTimer {
    type Target = WakeTimer;

    #[inline]
    fn deref(&self) -> &WakeTimer {
        &self.timer
    }
}

impl Drop for RegisteredTimer {
    fn drop(&mut self) {
        self.timers.lock().remove(&self.key);
    }
}

impl WakeTimers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<WakeTimer>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, to be woken after `first` unless it sets another time.
    pub(super) fn add(&self, now: Instant, first: Duration) -> RegisteredTimer {
        let timer = Arc::new(WakeTimer {
            began: now,
            due_ms: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        timer.wake_at(now + first);
        let key = self.0.next_key.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, Arc::clone(&timer));
        self.0.first_added.notify_one();
        RegisteredTimer { timers: self.clone(), key, timer }
    }

    /// Number of open connections.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Checks all timers every `interval`, until `stop`. A reload may change what `interval` returns.
    pub(super) async fn watch(
        self,
        environment: &Environment,
        interval: impl Fn() -> Duration,
        stop: CancellationToken,
    ) {
        loop {
            // Without connections this task sleeps until the first one comes.
            let is_empty = self.lock().is_empty();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.0.first_added.notified(), if is_empty => {}
                () = tokio::time::sleep(interval()), if !is_empty => {}
            }
            let open: Vec<_> = self.lock().values().cloned().collect();
            let now = environment.now();
            for timer in open {
                timer.check(now);
            }
        }
    }

    /// Wakes all connections, to say goodbye. No connection may be added after this.
    pub(super) fn stop(&self) {
        for timer in self.lock().values() {
            timer.stopping.store(true, Ordering::Release);
            timer.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn due(timer: &WakeTimer) {
        std::future::poll_fn(|cx| timer.poll_due(cx)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_woken_when_its_time_has_come_and_no_earlier() {
        let timers = WakeTimers::default();
        let stop = CancellationToken::new();
        let (watched, stopped) = (timers.clone(), stop.clone());
        tokio::spawn(async move {
            let environment = Environment::system();
            watched.watch(&environment, || Duration::from_millis(100), stopped).await;
        });
        let began = Instant::now();
        let timer = timers.add(began, Duration::from_secs(10));
        due(&timer).await;
        assert!(began.elapsed() >= Duration::from_secs(10));
        timer.wake_at(Instant::now() + Duration::from_secs(5));
        due(&timer).await;
        assert!(began.elapsed() >= Duration::from_secs(15));
        assert!(!timer.is_stopping());
        timer.wake_at(Instant::now() + Duration::from_secs(3600));
        stop.cancel();
        timers.stop();
        assert!(timer.is_stopping());
        assert_eq!(timers.count(), 1);
        drop(timer);
        assert_eq!(timers.count(), 0);
    }
}
