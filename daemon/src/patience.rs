//! Waits for work that may hang, but only for a limited time.

use std::sync::mpsc;
use std::time::Duration;

/// Runs `work` on a separate thread and waits up to `limit` for it, so that the end of the process
/// does not wait for a pipe that nobody reads. Returns whether the work was done in time.
pub(crate) fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    value_within(limit, work).is_some()
}

/// As [`within`], for work that returns a value. After `limit`, the thread stays behind.
pub(crate) fn value_within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::Builder::new().name("leafd-bounded".into()).spawn(move || {
        // This fails if the caller no longer waits, which is fine.
        let _ = done.send(work());
    });
    thread.ok()?;
    outcome.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_stays_behind_and_work_that_ends_returns_its_value() {
        assert!(within(Duration::from_secs(60), || {}));
        let (_open, never) = mpsc::channel::<()>();
        assert!(!within(Duration::from_millis(1), move || {
            let _ = never.recv();
        }));
    }
}
