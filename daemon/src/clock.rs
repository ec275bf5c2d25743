//! The host's clocks, as the one place that reads them for IDs. Tests inject their own.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::boot;

/// Tells the time, by the clock of the host and by the one that nobody sets. Cheap to clone.
#[derive(Clone)]
pub struct Clock {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    boot_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Clock {
    /// The system's clocks. A time before 1970 is told as 0.
    #[must_use]
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// A clock of one's own, beside the system's boot clock.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { now_ms: Arc::new(now_ms), boot_ms: Arc::new(boot::now_ms) }
    }

    /// The same, with a boot clock of one's own.
    #[must_use]
    pub fn with_boot(self, boot_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { boot_ms: Arc::new(boot_ms), ..self }
    }

    /// The time, in milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    #[inline]
    pub fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    /// Milliseconds since the boot, suspension included.
    #[must_use]
    pub fn boot_ms(&self) -> u64 {
        (self.boot_ms)()
    }
}
