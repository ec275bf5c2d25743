//! What a client can be told; the same for the asynchronous and the blocking one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::path::default_socket_path;

/// Longer timeouts are cut to this: nobody waits longer, and sums with the clock stay in range.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How to reach the daemon and how long to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    socket_path: PathBuf,
    timeout: Duration,
    backoff_min: Duration,
    backoff_max: Duration,
}

impl Options {
    /// Everything by default: the socket by [`default_socket_path`], 5 s per call, 5 ms to 500 ms
    /// between attempts to connect.
    #[must_use]
    pub fn new() -> Self {
        Self::at(default_socket_path())
    }

    /// The defaults with this socket.
    #[must_use]
    pub fn at(socket_path: impl Into<PathBuf>) -> Self {
        Self {
            socket_path: socket_path.into(),
            timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_millis(500),
        }
    }

    /// How long a call may take in all: connecting, waiting, trying again. At most 24 hours; more
    /// is cut to that.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = cut(timeout);
        self
    }

    /// How long to wait between attempts to connect: from `min` on, doubling up to `max`, each
    /// wait cut at random by up to a half. The first attempt after a connection that was in use is
    /// made at once. `min` is at least 1 ms and `max` at least `min`.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        // Without a pause, a daemon that is down would cost its clients a core each.
        self.backoff_min = cut(min).max(Duration::from_millis(1));
        self.backoff_max = cut(max).max(self.backoff_min);
        self
    }

    /// The socket.
    #[must_use]
    pub fn socket_path(&self) -> &Path {
        &self.socket_path
    }

    pub(crate) const fn call_timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) const fn backoff_range(&self) -> (Duration, Duration) {
        (self.backoff_min, self.backoff_max)
    }
}

/// Cuts a timeout to what this crate computes with.
pub(crate) fn cut(timeout: Duration) -> Duration {
    timeout.min(MAX_TIMEOUT)
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_values_are_cut_to_what_works() {
        let options =
            Options::at("/x").timeout(Duration::MAX).backoff(Duration::ZERO, Duration::ZERO);
        assert_eq!(options.call_timeout(), MAX_TIMEOUT);
        assert_eq!(options.backoff_range(), (Duration::from_millis(1), Duration::from_millis(1)));
        let options = options.backoff(Duration::MAX, Duration::ZERO);
        assert_eq!(options.backoff_range(), (MAX_TIMEOUT, MAX_TIMEOUT));
    }
}
