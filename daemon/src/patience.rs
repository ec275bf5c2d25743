//! Waiting for something that may hang, for a bounded time.

use std::sync::mpsc;
use std::time::Duration;

/// Runs `work` on a thread of its own and waits for it, but not longer than `limit`: whoever ends
/// the process must not wait for a pipe that nobody reads. Returns whether it was done in time.
pub(crate) fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    value_within(limit, work).is_some()
}

/// The same for work that has a value. After `limit`, the thread is left behind.
pub(crate) fn value_within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::Builder::new().name("leafd-bounded".into()).spawn(move || {
        // Nobody waits any more: fine.
        let _ = done.send(work());
    });
    thread.ok()?;
    outcome.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_behind_and_what_ends_is_waited_for() {
        assert!(within(Duration::from_secs(60), || {}));
        let (_open, never) = mpsc::channel::<()>();
        assert!(!within(Duration::from_millis(1), move || {
            let _ = never.recv();
        }));
    }
}
