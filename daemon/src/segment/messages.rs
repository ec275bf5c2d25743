//! What a tag's buffer and its shell say to each other: rules, records, refusals, figures. Plain
//! values.

use std::time::Duration;

use crate::ids::{BizTag, Range, RangeQueue, Runs};
use crate::store::StoreError;

/// Names a waiting request. The shell chooses it, unique within the tag.
pub(crate) type Ticket = u64;

/// The limits of every tag's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferRules {
    /// The largest lease, unless the row's own step is larger.
    pub(crate) max_step: u64,
    /// How many requests of one tag may wait.
    pub(crate) max_waiting: usize,
    /// How long to wait before looking up a tag again that the store did not have.
    pub(crate) absent_for: Duration,
}

/// What the disk has to know about a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferRecord {
    /// The highest end of a range that this host has seen.
    pub(crate) high_water_mark: u64,
    /// What is leased and above the durable ceiling.
    pub(crate) left: RangeQueue,
}

/// Why there was no lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LeaseFailure {
    /// The store is down, slow, or reports an error: worth a retry.
    #[error("{0}")]
    Unavailable(String),
    /// Not tried: the store is known to be down, or no request needs the lease any more.
    #[error("{0}")]
    NotTried(String),
    #[error("the store has no such tag")]
    UnknownTag,
    /// The store has no such tag, and leafd makes one only for a request that waits for it.
    #[error("the store has no such tag")]
    NotMade,
    /// leafd cannot use the row as it is.
    #[error("{0}")]
    BadRow(String),
    /// Memory holds `limit` tags, and the high-water marks of `removed` others.
    #[error("memory has {limit} tags already (segment.max-tags)")]
    NoRoom { limit: usize, removed: usize },
}

impl From<StoreError> for LeaseFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchTag => Self::UnknownTag,
            StoreError::BadRow(error) | StoreError::NotSetUp(error) => Self::BadRow(error),
            StoreError::Exists | StoreError::Down(_) | StoreError::Busy(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

/// Why a request got no IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The store has no such tag.
    UnknownTag,
    /// leafd cannot use the row.
    BadRow(String),
    /// Memory has no IDs left and the store grants no lease; with the time until the next attempt.
    Store(String, Duration),
    /// leafd cannot write the state directory; with the time until the next attempt.
    State(String, Duration),
    /// Nothing is broken; there was not enough time for that many IDs.
    Deadline,
    /// This many requests wait for the tag already.
    TooManyWaiting(usize),
    /// Memory holds `limit` tags, and the high-water marks of `removed` others.
    TooManyTags {
        limit: usize,
        removed: usize,
    },
    /// The caller waits for this many new names already.
    TooManyNew(usize),
    Stopping,
}

/// The answer to a request that the fast path could not serve.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Now(Runs),
    /// `TagBuffer::poll_done` will return the answer with the request's ticket.
    Later,
    Refused(Refusal),
}

/// Numbers of one tag that are added up over many tags. Costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferCounts {
    /// Requests that wait.
    pub(crate) waiting: u64,
    /// IDs issued since the start.
    pub(crate) issued: u64,
    /// Leases taken since the start.
    pub(crate) leases: u64,
    /// The highest end of a range that this host has seen.
    pub(crate) high_water_mark: u64,
    /// The store does not have the tag, and it is not time to look again.
    pub(crate) absent: bool,
    /// The store did not have the tag when leafd last looked; also while leafd looks again.
    pub(crate) gone: bool,
}

/// What tags have counted that are no longer in memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RetiredCounts {
    pub(crate) issued: u64,
    pub(crate) leases: u64,
}

/// What a tag's buffer holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BufferView {
    /// The row's step as last read; 0 before the first read.
    pub(crate) row_step: u64,
    /// The ranges in memory as they were leased, the one being issued first.
    pub(crate) leases: Vec<Range>,
    /// The next ID.
    pub(crate) position: Option<u64>,
    /// IDs in memory.
    pub(crate) remaining: u64,
    /// IDs issued since the start.
    pub(crate) issued: u64,
    /// Leases taken since the start.
    pub(crate) lease_count: u64,
    /// When the last lease was taken (monotonic).
    pub(crate) last_lease: Option<Duration>,
    /// IDs in the last lease.
    pub(crate) last_size: u64,
    /// Requests that wait.
    pub(crate) waiting: usize,
    /// The highest end of a range that this host has seen.
    pub(crate) high_water_mark: u64,
    /// The store does not have the tag.
    pub(crate) absent: bool,
    /// A lease is in flight.
    pub(crate) leasing: bool,
    /// Why the last lease failed.
    pub(crate) lease_error: Option<LeaseFailure>,
}

/// One tag, at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TagFigures<'a> {
    pub(crate) name: &'a BizTag,
    /// The highest end of a range that this host has seen: the next lease of any host starts here or
    /// above.
    pub(crate) high_water_mark: u64,
    /// IDs in memory.
    pub(crate) remaining: u64,
    /// IDs issued, and leases taken, since the start.
    pub(crate) issued: u64,
    pub(crate) leases: u64,
    pub(crate) waiting: u64,
    /// The size of the next lease.
    pub(crate) step: u64,
    /// How long memory lasts at the present rate; `None` if nobody asks.
    pub(crate) seconds_left: Option<u64>,
    /// The time since the last lease, or since the start if there was none.
    pub(crate) since_lease: Duration,
    /// Whether the tag wants a lease and has not got it yet.
    pub(crate) is_leasing: bool,
    /// Whether the last lease failed, and somebody needs another.
    pub(crate) is_failing: bool,
}
