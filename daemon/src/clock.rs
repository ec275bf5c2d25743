//! The only place that reads the host's clocks for IDs. Tests inject their own.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::boot;

/// The wall clock and the boot clock. Cheap to clone.
#[derive(Clone)]
pub struct Clock {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    boot_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Clock {
    /// The system's clocks. A time before 1970 reads as 0.
    #[must_use]
    pub(crate) fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// A wall clock for tests, with the system's boot clock.
    pub(crate) fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { now_ms: Arc::new(now_ms), boot_ms: Arc::new(boot::now_ms) }
    }

    /// Replaces the boot clock, for tests.
    #[must_use]
    pub fn with_boot(self, boot_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { boot_ms: Arc::new(boot_ms), ..self }
    }

    /// The time, in milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    /// Milliseconds since boot, suspension included.
    #[must_use]
    pub(crate) fn boot_ms(&self) -> u64 {
        (self.boot_ms)()
    }
}
