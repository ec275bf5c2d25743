//! What a pool tells about itself.

use std::time::Duration;

use crate::error::Error;

/// The counters of a pool in this process, since its first use there. Each counter is exact by
/// itself; while others use the pool, they may belong to slightly different moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// IDs that the daemon has leased to the pool: those issued, held, lent and lost.
    pub leased: u64,
    /// IDs that callers got, and IDs of batches that local handles have used up.
    pub issued: u64,
    /// IDs that any caller can take now. This is what an outage leaves.
    pub held: u64,
    /// IDs of the batches that local handles hold, used or not.
    pub lent: u64,
    /// IDs that nobody gets: older than `max-age`, or taken at the moment of a refill by a caller that
    /// then found nothing.
    pub lost: u64,
    /// Chunks that the daemon has leased.
    pub refills: u64,
    /// Attempts to lease that failed.
    pub failures: u64,
    /// Calls that had to wait for a refill.
    pub waits: u64,
    /// The size of a chunk at present, in IDs.
    pub chunk: u64,
}

/// What happens to a pool in the background. An outage is reported once, when it has lasted for a second or
/// does not pass by itself; so is its end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PoolEvent {
    /// The pool cannot lease. It goes on trying.
    OutageBegan {
        /// Why.
        error: Error,
        /// The IDs that it still holds.
        held: u64,
    },
    /// The pool has leased again.
    OutageEnded {
        /// How long it could not.
        after: Duration,
    },
}
