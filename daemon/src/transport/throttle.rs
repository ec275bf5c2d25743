//! Keeps an accept loop calm when accepting fails or a flood of connections arrives.

use std::time::Duration;

use tokio::time::Instant;

/// Pause after a failed accept, which usually means that no descriptor is left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Minimum interval between log lines for one problem.
const INTERVAL: Duration = Duration::from_secs(30);

/// Limits how often one problem is logged, so that clients cannot fill the log.
#[derive(Debug, Default)]
pub(super) struct LogThrottle {
    logged: Option<Instant>,
}

impl LogThrottle {
    /// Whether to log now. Returns true at most once per interval.
    pub(super) fn may_log(&mut self, now: Instant) -> bool {
        let is_quiet =
            self.logged.is_some_and(|then| now.saturating_duration_since(then) < INTERVAL);
        if !is_quiet {
            self.logged = Some(now);
        }
        !is_quiet
    }
}
