//! The options of a client, asynchronous or blocking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::path::default_socket_path;

/// The longest timeout. The bound keeps deadlines within the range of the clock.
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
    /// The defaults: the socket of [`default_socket_path`], a timeout of 5 s per call, a back-off
    /// of 5 ms to 500 ms between attempts to connect.
    #[must_use]
    pub fn new() -> Self {
        Self::at(default_socket_path())
    }

    /// The defaults with another socket.
    #[must_use]
    pub fn at(socket_path: impl Into<PathBuf>) -> Self {
        Self {
            socket_path: socket_path.into(),
            timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_millis(500),
        }
    }

    /// Sets the timeout of a call, which covers connecting, waiting and retries. Values above 24
    /// hours are lowered to 24 hours.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = cut(timeout);
        self
    }

    /// Sets the pauses between attempts to connect. They start at `min` and double up to `max`;
    /// random jitter shortens each by up to half. The first attempt after a working connection is
    /// immediate. A `min` below 1 ms is raised to 1 ms, and a `max` below `min` to `min`.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        // Without a pause, each client of a daemon that is down would use up a core.
        self.backoff_min = cut(min).max(Duration::from_millis(1));
        self.backoff_max = cut(max).max(self.backoff_min);
        self
    }

    /// The path of the socket.
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

/// Lowers a timeout to [`MAX_TIMEOUT`].
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
    fn values_out_of_range_are_moved_into_it() {
        let options =
            Options::at("/x").timeout(Duration::MAX).backoff(Duration::ZERO, Duration::ZERO);
        assert_eq!(options.call_timeout(), MAX_TIMEOUT);
        assert_eq!(options.backoff_range(), (Duration::from_millis(1), Duration::from_millis(1)));
        let options = options.backoff(Duration::MAX, Duration::ZERO);
        assert_eq!(options.backoff_range(), (MAX_TIMEOUT, MAX_TIMEOUT));
    }
}
