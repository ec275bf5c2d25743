//! Where ranges come from: the trait [`Store`]. `plan` has the rules that all stores share, `guard`
//! keeps leafd from mistaking one database for another, and [`open()`] is the only place that knows
//! which stores there are. Nothing here knows a tag's buffer, a client or a socket.

mod address;
mod guard;
mod identity;
pub(crate) mod inspection;
mod open;
pub(crate) mod plan;
#[cfg(feature = "redis")]
mod redis;
mod row;
pub(crate) mod several;
mod sql;
pub(crate) mod witness;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use self::witness::WitnessStore;
use crate::ids::{BizTag, Range};

pub use address::{BadAddress, SharedStore, StoreAddress};
pub(crate) use address::{SharedDatabase, SharedOptions};
pub use guard::DatabaseGuard;
pub(crate) use guard::{DatabaseRecorder, UnusableDatabase};
pub(crate) use inspection::StoreFacts;
pub(crate) use open::{SCHEMAS, open_members};
pub use open::{ServerKind, SeveralPlace, SeveralStores, StoreLocation, StoreSource, open};
#[cfg(feature = "redis")]
pub use redis::{KeyPattern, RedisPlace, RedisStore};
pub use row::{Number, Row};
pub use sql::schema::SchemaDialect;
pub use sql::sqlite::{EmbeddedStore, IfMissing};
pub(crate) use sql::sqlite::{SQLITE_WORKERS, is_a_copy, may_be_another, take_over};

/// Leaf's tables in each dialect.
pub mod schema {
    pub use super::sql::mysql::{MARIADB, MARIADB_SEVERAL};
    pub use super::sql::postgres::{POSTGRES, POSTGRES_SEVERAL};
    pub use super::sql::sqlite::SQLITE;
}

/// The most tags that one statement looks for. More would make long statements, which delay leases
/// where there is only one connection.
pub(crate) const FIND_AT_ONCE: usize = 256;

/// The bounds on the use of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Time limit for connecting, and again for each call.
    pub timeout: Duration,
    /// The most connections at the same time.
    pub connections: usize,
}

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a lease should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The least number of IDs. If the row's step is larger, the lease has that many.
    pub at_least: u64,
    /// The highest end that this host has seen of the tag. A lease that starts below it would repeat
    /// IDs, so the row is moved forward first.
    pub floor: u64,
}

/// A range that a store has leased to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The leased range.
    pub range: Range,
    /// The row's step.
    pub row_step: u64,
}

/// A lease, and whether the row was where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// The range, for the tag's buffer.
    pub lease: Lease,
    /// Where the row stood, if it was below the highest end seen and was moved forward.
    pub moved_from: Option<u64>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, does not answer, or refuses what every call needs. No call will
    /// succeed before that is repaired.
    #[error("{0}")]
    Down(String),
    /// The store works, but this call failed, for example because the row is locked. A retry may
    /// succeed.
    #[error("{0}")]
    Busy(String),
    /// There is no such row.
    #[error("the store has no such tag")]
    NoSuchTag,
    /// There is already a row of this name.
    #[error("the store has this tag already")]
    Exists,
    /// The row's values cannot be used.
    #[error("{0}")]
    BadRow(String),
    /// The call needs a table or a right that the database lacks.
    #[error("{0}")]
    NotSetUp(String),
}

/// Records outside of the store where a new tag begins, before its row is committed.
pub trait Witness: Send + Sync {
    /// Returns when `first`, the first ID of `tag`, is on disk.
    fn begins_at<'a>(
        &'a self,
        tag: &'a BizTag,
        first: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// The row of a new tag.
#[derive(Clone, Copy)]
pub struct NewTag<'a> {
    /// The tag's lowest ID.
    pub first: u64,
    /// IDs per lease.
    pub step: u64,
    /// Free text of at most 256 characters.
    pub description: &'a str,
    /// Called when nothing but the commit can fail any more, so that a refused row leaves no trace.
    pub witness: Option<&'a dyn Witness>,
}

impl<'a> NewTag<'a> {
    /// A tag that begins at `first`, without a witness.
    #[must_use]
    pub const fn new(first: u64, step: u64, description: &'a str) -> Self {
        Self { first, step, description, witness: None }
    }
}

/// A new row, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTag {
    /// The first ID that the tag will give.
    pub first: u64,
    /// Whether the database keeps tombstones. Without them, nobody knows where an earlier, deleted tag
    /// of this name ended.
    pub knows_deleted: bool,
}

/// A deleted row, and what remains of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTag {
    /// The row as it was.
    pub row: Row,
    /// A new tag of this name begins here or above.
    pub tombstone: u64,
}

/// How many databases a store has, and how many of them fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseCount {
    /// All of them.
    pub all: usize,
    /// Those that failed when they were last used.
    pub failing: usize,
}

/// A database with a table `leaf_alloc`, or with what stands for its rows. Except for [`Self::page`], no call
/// that a lease waits for takes longer than two and a half times [`StoreLimits::timeout`].
pub trait Store: Send + Sync {
    /// The store in a few words for users, without a password.
    fn describe(&self) -> String;

    /// Knows which database this has to be. `None`: nothing checks that.
    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        None
    }

    /// Whether leafd can notice that the store has lost what it had confirmed.
    #[expect(private_interfaces, reason = "only leafd itself attends to the table")]
    fn witness(&self) -> Option<&dyn WitnessStore> {
        None
    }

    /// How many databases there are, if any one that works is enough.
    fn databases(&self) -> Option<DatabaseCount> {
        None
    }

    /// Leases a range in one transaction, by `plan_lease`.
    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>>;

    /// Checks the store as a lease would use it, on an open connection, or else on a new one, which is
    /// closed again. Changes nothing.
    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Moves a row and puts it back in one transaction. Succeeds if a lease would, and takes no IDs.
    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Whether leases will work again after one found the store down: tries what a lease needs, on a
    /// new connection. Changes nothing.
    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// At most `limit` rows whose tags come after `after`, in byte order of the tags. Fewer than
    /// `limit` rows mean that these are the last.
    fn page<'a>(
        &'a self,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// The rows of these tags that exist, in any order.
    fn find<'a>(&'a self, tags: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// The row of one tag.
    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>>;

    /// Makes a row in one transaction, by `plan_creation`, never below the tag's tombstone.
    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>>;

    /// Deletes a row and writes its tombstone in the same transaction, by `plan_deletion`.
    /// `floor` is the highest end that this host has seen.
    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>>;

    /// Moves a row forward to `floor` if it is below, and returns where it was then. Never moves a row
    /// backward. Reads the row locked, as a lease does, so never from a replica.
    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>>;

    /// Changes the step of a row, and returns the row as it was.
    fn set_step<'a>(&'a self, tag: &'a BizTag, step: u64)
    -> BoxFuture<'a, Result<Row, StoreError>>;

    /// Closes the connections politely.
    fn close(&self) -> BoxFuture<'_, ()>;
}
