//! How a connection is woken by something else than its socket: it is to stop, or its time is up.
//!
//! The thread that serves has no timers, because waiting for events *with a time limit* costs it
//! some microseconds per request (see `docs/decisions/003-runtime-and-threads.md`). So each
//! connection says when it wants to be woken, and one task elsewhere looks at all of them now and
//! then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// One connection.
#[derive(Debug)]
pub(super) struct WakeTimer {
    began: Instant,
    /// Wake it from this on, in ms after `began`.
    due_ms: AtomicU64,
    stopping: AtomicBool,
    waker: AtomicWaker,
}

impl WakeTimer {
    /// Wants to be woken at `due`, and no more at what was said before.
    pub(super) fn wake_at(&self, due: Instant) {
        let after = due.saturating_duration_since(self.began).as_millis();
        self.due_ms.store(u64::try_from(after).unwrap_or(u64::MAX).max(NOW + 1), Ordering::Relaxed);
    }

    /// Whether the daemon stops.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ready when it is time. Whoever asks is woken then, and when the daemon stops.
    pub(super) fn poll_due(&self, cx: &Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.due_ms.load(Ordering::Acquire) == NOW { Poll::Ready(()) } else { Poll::Pending }
    }

    fn look(&self, now: Instant) {
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        let now_ms = now.saturating_duration_since(self.began).as_millis();
        if due_ms == NOW || u128::from(due_ms) > now_ms {
            return;
        }
        // Unless it has asked for another time in between.
        let come = self.due_ms.compare_exchange(due_ms, NOW, Ordering::AcqRel, Ordering::Relaxed);
        if come.is_ok() {
            self.waker.wake();
        }
    }
}

/// In place of a time: it has come.
const NOW: u64 = 0;

/// All connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct WakeTimers(Arc<All>);

#[derive(Debug, Default)]
struct All {
    open: Mutex<HashMap<u64, Arc<WakeTimer>>>,
    last: AtomicU64,
    first_came: Notify,
}

/// Takes a connection out of the list when it ends.
#[derive(Debug)]
pub(super) struct Listed {
    timers: WakeTimers,
    key: u64,
    pub(super) timer: Arc<WakeTimer>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.timers.lock().remove(&self.key);
    }
}

impl WakeTimers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<WakeTimer>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, to be woken after `first` unless it asks for another time.
    pub(super) fn add(&self, now: Instant, first: Duration) -> Listed {
        let timer = Arc::new(WakeTimer {
            began: now,
            due_ms: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        timer.wake_at(now + first);
        let key = self.0.last.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, Arc::clone(&timer));
        self.0.first_came.notify_one();
        Listed { timers: self.clone(), key, timer }
    }

    /// Number of open connections.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Looks every `interval` whose time has come, until `stop`. The interval is asked for anew each
    /// time.
    pub(super) async fn watch(
        self,
        environment: &Environment,
        interval: impl Fn() -> Duration,
        stop: CancellationToken,
    ) {
        loop {
            // Without connections there is nothing to wake up for.
            let nobody = self.lock().is_empty();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.0.first_came.notified(), if nobody => {}
                () = tokio::time::sleep(interval()), if !nobody => {}
            }
            let open: Vec<_> = self.lock().values().cloned().collect();
            let now = environment.now();
            for timer in open {
                timer.look(now);
            }
        }
    }

    /// Wakes all to say goodbye. No connection may be added after this.
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
    async fn a_connection_is_woken_when_its_time_has_come_and_not_before() {
        let timers = WakeTimers::default();
        let stop = CancellationToken::new();
        let (watched, stopped) = (timers.clone(), stop.clone());
        tokio::spawn(async move {
            let environment = Environment::system();
            watched.watch(&environment, || Duration::from_millis(100), stopped).await;
        });
        let began = Instant::now();
        let listed = timers.add(began, Duration::from_secs(10));
        due(&listed.timer).await;
        assert!(began.elapsed() >= Duration::from_secs(10));
        listed.timer.wake_at(Instant::now() + Duration::from_secs(5));
        due(&listed.timer).await;
        assert!(began.elapsed() >= Duration::from_secs(15));
        assert!(!listed.timer.is_stopping());
        listed.timer.wake_at(Instant::now() + Duration::from_secs(3600));
        stop.cancel();
        timers.stop();
        assert!(listed.timer.is_stopping());
        assert_eq!(timers.count(), 1);
        drop(listed);
        assert_eq!(timers.count(), 0);
    }
}
