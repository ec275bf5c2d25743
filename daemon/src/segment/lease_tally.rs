//! What leases cost, for the metrics.

use crate::tally::{Count, DurationHistogram};

/// What leases cost since the start.
#[derive(Debug, Default)]
pub(crate) struct LeaseTally {
    /// Every call that leased or tried to.
    pub(crate) seconds: DurationHistogram,
    pub(crate) granted: Count,
    pub(crate) failed: Count,
}
