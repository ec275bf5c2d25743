//! Waiting a bounded time for work that may hang.

use std::sync::mpsc;
use std::time::Duration;

/// Runs `work` on its own thread and waits for it, at most for `limit`: a stop must not wait for a pipe
/// that nobody reads. Returns whether the work ended in time.
pub(crate) fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    value_within(limit, work).is_some()
}

/// Like [`within`], for work that returns a value. After `limit`, the thread stays behind.
pub(crate) fn value_within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::Builder::new().name("leafd-bounded".into()).spawn(move || {
        // After `limit` nobody receives this.
        let _ = done.send(work());
    });
    thread.ok()?;
    outcome.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_left_behind_and_work_that_ends_is_waited_for() {
        assert!(within(Duration::from_secs(60), || {}));
        let (_open, never) = mpsc::channel::<()>();
        assert!(!within(Duration::from_millis(1), move || {
            let _ = never.recv();
        }));
    }
}
