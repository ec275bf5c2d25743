//! Where ranges come from: one small trait. [`plan`] has the rules that all stores share, `guard`
//! keeps leafd from taking one database for another, and [`open()`] is the one place that knows which
//! stores there are. Nothing here knows a tag's buffer, a client or a socket.

mod address;
mod guard;
mod identity;
mod open;
pub mod plan;
mod row;
mod sql;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{BizTag, Range};

pub use address::{BadAddress, ServerKind, StoreAddress};
pub use guard::{DatabaseGuard, DatabaseRecorder, UnusableDatabase};
pub use open::{SharedStore, StoreLocation, StoreSource, open};
pub use row::{Number, Row};
pub use sql::schema;
pub use sql::sqlite::{EmbeddedStore, IfMissing, is_a_copy, may_be_another, take_over};

/// Idle for this long, a connection to a shared database is closed.
const IDLE: Duration = Duration::from_secs(10);

/// Reading many rows may take so many times longer than other calls.
const LONG_READ: u32 = 5;

/// Tags that one statement looks for. More would make long statements, and hold up leases where
/// there is only one connection.
pub const FIND_AT_ONCE: usize = 256;

/// What bounds the use of a shared database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Of connecting, and of what follows.
    pub timeout: Duration,
    /// Most connections at the same time.
    pub connections: usize,
}

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What to ask of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The lease is of the row's step or of this, whichever is larger.
    pub at_least: u64,
    /// A lease that starts below this is a repetition; the row has to be moved forward first.
    pub floor: u64,
}

/// What the store gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The leased range.
    pub range: Range,
    /// The row's step.
    pub row_step: u64,
}

/// A lease, and what the row looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// For the buffer.
    pub lease: Lease,
    /// Where the row stood when it was below the highest end seen, and was moved forward.
    pub moved_from: Option<u64>,
}

/// Why a store did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, does not answer, or refuses what every call needs: no call will go
    /// better before that is mended.
    #[error("{0}")]
    Down(String),
    /// It works, and this call failed: the row is locked, say. Worth another try.
    #[error("{0}")]
    Busy(String),
    /// There is no such row.
    #[error("the store has no such tag")]
    NoSuchTag,
    /// There is such a row already.
    #[error("the store has this tag already")]
    Exists,
    /// The row cannot be used as it is.
    #[error("{0}")]
    BadRow(String),
    /// The database is not set up for the call: a table or a right is missing.
    #[error("{0}")]
    NotSetUp(String),
}

/// Writes down elsewhere where a tag begins before its row is committed.
pub trait Witness: Send + Sync {
    /// Returns when `first`, the first ID of `tag`, is on disk.
    fn begins_at<'a>(
        &'a self,
        tag: &'a BizTag,
        first: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A row to be made.
#[derive(Clone, Copy)]
pub struct NewTag<'a> {
    /// The lowest ID that the tag may give.
    pub first: u64,
    /// IDs per lease.
    pub step: u64,
    /// For people.
    pub description: &'a str,
    /// Told of the row once nothing but its commit can fail, so that a refused one leaves no trace.
    pub witness: Option<&'a dyn Witness>,
}

impl<'a> NewTag<'a> {
    /// A row that begins at `first`.
    #[must_use]
    pub const fn new(first: u64, step: u64, description: &'a str) -> Self {
        Self { first, step, description, witness: None }
    }
}

/// A row that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTag {
    /// The first ID that the tag gives, as the row has it.
    pub first: u64,
    /// Whether the database keeps tombstones. Without them, nothing says where a tag of this name
    /// ended that was deleted earlier.
    pub knows_deleted: bool,
}

/// A row that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTag {
    /// The row as it was.
    pub row: Row,
    /// A new tag of this name begins here or above.
    pub tombstone: u64,
}

/// A database with a table `leaf_alloc`. No call takes longer than two and a half times
/// [`StoreLimits::timeout`], but for the list.
pub trait Store: Send + Sync {
    /// What it is, for people; never with a password.
    fn describe(&self) -> String;

    /// Knows which database it has to be; none where that is not watched over.
    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        None
    }

    /// Leases a range in one transaction, by [`plan::plan_lease`].
    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>>;

    /// Whether it is still there, asked as a lease would ask: on a connection that is open, or else
    /// on a new one, which is closed again. Changes nothing.
    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Moves a row and puts it back in one transaction: goes well where a lease would, and takes
    /// nothing.
    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Whether leases can be taken again, after one has found it down: asks on a connection of its
    /// own for what a lease needs, and changes nothing.
    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// At most `limit` rows whose tags come after `after`, in byte order of the tags. Fewer rows
    /// than `limit` are the last ones.
    fn page<'a>(
        &'a self,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// The rows of these tags, as far as there are any, in any order.
    fn find<'a>(&'a self, tags: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// One row.
    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>>;

    /// Makes a row in one transaction, by [`plan::plan_creation`]: never below the tag's tombstone.
    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>>;

    /// Deletes a row, and in the same transaction writes its tombstone, by [`plan::plan_deletion`].
    /// `floor` is the highest end that this host has seen.
    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>>;

    /// Moves a row forward to `floor` if it is below, and says where it was then. Never moves it
    /// backward. Reads the row as a lease does, locked, and so from nowhere but where it is written.
    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>>;

    /// Changes the step of a row.
    fn set_step<'a>(&'a self, tag: &'a BizTag, step: u64) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends its connections in good order.
    fn close(&self) -> BoxFuture<'_, ()>;
}
