//! What a tag's buffer and the world around it say to each other. Plain values.

use std::time::Duration;

use crate::ids::{Range, RangeQueue, Runs};
use crate::store::StoreError;

/// Names a waiting request; given by the caller, unique within the tag.
pub type Ticket = u64;

/// What bounds a tag.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The largest lease, unless the row's own step is larger.
    pub max_step: u64,
    /// Most requests that may wait.
    pub max_waiting: usize,
    /// For how long a tag that the store does not know is not looked up again.
    pub absent_for: Duration,
}

/// What the disk has to say about a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The highest end of a range that this host has seen for the tag.
    pub floor: u64,
    /// What is leased and above the durable ceiling.
    pub left: RangeQueue,
}

/// Why the store gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseFailure {
    /// Down, slow, or in error: worth another try.
    #[error("{0}")]
    Unavailable(String),
    /// The store is known to be down, and was not asked.
    #[error("{0}")]
    NotTried(String),
    /// There is no such row.
    #[error("the store has no such tag")]
    UnknownTag,
    /// The row cannot be used as it is.
    #[error("{0}")]
    BadRow(String),
    /// Memory has as many tags as it may; with how many removed ones it remembers.
    #[error("memory has {limit} tags already (segment.max-tags)")]
    NoRoom {
        /// Most tags.
        limit: usize,
        /// Removed tags whose high-water marks are kept.
        removed: usize,
    },
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

/// Why a request got nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The store knows no such tag.
    UnknownTag,
    /// The row cannot be used.
    BadRow(String),
    /// Memory is drained and the store does not deliver; when it is asked next.
    Store(String, Duration),
    /// The state directory cannot be written; when it is tried next.
    State(String, Duration),
    /// Nothing is broken; it was too much for the time.
    Deadline,
    /// So many wait already.
    TooManyWaiting(usize),
    /// Memory has as many tags as it may; with how many removed ones it remembers.
    TooManyTags {
        /// Most tags.
        limit: usize,
        /// Removed tags whose high-water marks are kept.
        removed: usize,
    },
    /// The asker waits for so many names that are new here.
    TooManyNew(usize),
    /// The daemon stops.
    Stopping,
}

/// The answer to a request that does not come from the fast path.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Here they are.
    Now(Runs),
    /// `Segment::poll_done` will tell, under the ticket.
    Later,
    /// No.
    Refused(Refusal),
}

/// What is added up over many tags. Costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Requests that wait.
    pub waiting: u64,
    /// IDs issued in this life.
    pub issued: u64,
    /// Leases taken in this life.
    pub leases: u64,
    /// The highest end of a range that this host has seen.
    pub floor: u64,
    /// The store does not know the tag.
    pub absent: bool,
}

/// What people want to know of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The row's step as last read; 0 before.
    pub row_step: u64,
    /// The ranges in memory as they were leased, the one being issued first.
    pub leases: Vec<Range>,
    /// The next ID.
    pub position: Option<u64>,
    /// IDs in memory.
    pub remaining: u64,
    /// IDs issued in this life.
    pub issued: u64,
    /// Leases taken in this life.
    pub lease_count: u64,
    /// When the last one was taken (monotonic).
    pub last_lease: Option<Duration>,
    /// Its size.
    pub last_size: u64,
    /// Requests that wait.
    pub waiting: usize,
    /// The highest end of a range that this host has seen.
    pub floor: u64,
    /// The store does not know the tag.
    pub absent: bool,
    /// A lease is in flight.
    pub leasing: bool,
    /// Why the last lease failed.
    pub lease_error: Option<String>,
}
