//! Reads both clocks that a loan is measured by.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// The time by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// Milliseconds since the host started. The clock counts suspension, and nobody sets it.
    pub(super) boot_ms: u64,
    /// Milliseconds since 1970, by the clock that snowflake libraries read.
    pub(super) unix_ms: u64,
}

impl Moment {
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self { boot_ms: boot_ms(), unix_ms }
    }
}

fn boot_ms() -> u64 {
    // Linux has had this clock since 2.6.39, and reading it cannot fail. If it did, every deadline
    // would have passed.
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return u64::MAX };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let ms = u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(ms)
}
