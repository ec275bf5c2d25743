//! What every accept loop needs against a flood.

use std::time::Duration;

use tokio::time::Instant;

/// Pause after an accept that failed, as when the process has no descriptor left.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Minimum interval between log lines for one problem.
const INTERVAL: Duration = Duration::from_secs(30);

/// Keeps clients from filling the log.
#[derive(Debug, Default)]
pub(super) struct LogThrottle {
    logged: Option<Instant>,
}

impl LogThrottle {
    /// Whether to log now. If so, the next lines wait for the interval to pass.
    pub(super) fn may_log(&mut self, now: Instant) -> bool {
        let is_quiet =
            self.logged.is_some_and(|then| now.saturating_duration_since(then) < INTERVAL);
        if !is_quiet {
            self.logged = Some(now);
        }
        !is_quiet
    }
}
