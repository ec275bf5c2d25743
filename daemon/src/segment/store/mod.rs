//! Where ranges come from: one small trait, one file per database. The rules that all databases
//! share are here, as plain functions; each database executes them in one transaction.

mod address;
mod checkpoints;
mod connections;
mod dialect;
mod guard;
mod identity;
mod mysql;
mod postgres;
pub mod schema;
mod sql;
mod sqlite;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::BizTag;
use crate::ids::Range;
use crate::segment::terms::{Lease, LeaseAsk, LeaseFailure};

pub use address::{Address, BadAddress, Server};
pub use guard::{Guard, Recorded, Recorder, Unusable};
pub use identity::{Identity, NoIdentity};
pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::{Embedded, IfMissing, is_a_copy, may_be_another, sqlite, take_over};

/// Idle for this long, a connection to a shared database is closed.
const IDLE: Duration = Duration::from_secs(10);

/// Reading many rows may take so many times longer than other calls.
const LONG_READ: u32 = 5;

/// Tags that one statement looks for. More would make long statements, and hold up leases where
/// there is only one connection.
pub const FIND_AT_ONCE: usize = 256;

/// What bounds the use of a shared database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of connecting, and of what follows.
    pub timeout: Duration,
    /// Most connections at the same time.
    pub connections: usize,
}

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A row of `leaf_alloc`, as it stands there. Databases hand its values over as text, since a
/// column may be of any type; what is no number fails where the number is needed, and no sooner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `biz_tag`.
    pub tag: String,
    /// `max_id`: the start of the next lease.
    pub max_id: Number,
    /// `step`.
    pub step: Number,
    /// `description`.
    pub description: String,
}

/// A value of a row that should be a whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(Option<String>);

impl Number {
    /// The value as the database writes it; none is NULL.
    #[must_use]
    pub const fn new(text: Option<String>) -> Self {
        Self(text)
    }

    /// The number, if it is one.
    #[must_use]
    pub fn get(&self) -> Option<i64> {
        self.0.as_deref()?.parse().ok()
    }

    /// The number for people and comparisons: one that is none, or negative, counts as 0.
    #[must_use]
    pub fn natural(&self) -> u64 {
        self.get().and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    fn required(&self, column: &str) -> Result<i64, StoreError> {
        self.get().ok_or_else(|| {
            let text = self.0.as_deref().unwrap_or("NULL");
            StoreError::BadRow(format!("{column} is {text}, not a whole number below 2^63"))
        })
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self(Some(number.to_string()))
    }
}

impl Row {
    /// Where the next lease starts, when the row can give one.
    #[must_use]
    pub fn leasable(&self) -> Option<u64> {
        let ask = LeaseAsk { at_least: 0, floor: 0 };
        Some(self.plan(ask).ok()?.lease.range.start())
    }

    /// [`plan_lease`] for this row.
    ///
    /// # Errors
    /// `BadRow` when its values make no range of positive IDs.
    pub fn plan(&self, ask: LeaseAsk) -> Result<Leased, StoreError> {
        plan_lease(self.max_id.required("max_id")?, self.step.required("step")?, ask)
    }
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
pub struct Made {
    /// The first ID that the tag gives, as the row has it.
    pub first: u64,
    /// Whether the database keeps tombstones. Without them, nothing says where a tag of this name
    /// ended that was deleted earlier.
    pub knows_deleted: bool,
}

/// A row that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The row as it was.
    pub row: Row,
    /// A new tag of this name begins here or above.
    pub tombstone: u64,
}

/// A database with a table `leaf_alloc`. No call takes longer than two and a half times
/// [`Limits::timeout`], but for the list.
pub trait Store: Send + Sync {
    /// What it is, for people; never with a password.
    fn describe(&self) -> String;

    /// Knows which database it has to be; none where that is not watched over.
    fn guard(&self) -> Option<&Arc<Guard>> {
        None
    }

    /// Leases a range in one transaction, by [`plan_lease`].
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

    /// Makes a row in one transaction, by [`plan_creation`]: never below the tag's tombstone.
    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<Made, StoreError>>;

    /// Deletes a row, and in the same transaction writes its tombstone, by [`plan_deletion`].
    /// `floor` is the highest end that this host has seen.
    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>>;

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

/// Which range a row gives. Leaf's convention: the `max_id` before is the start, the one after is
/// the end. A row below the highest end seen (a restored backup, a failover that lost writes, a
/// manual edit) is moved forward to it first, never backward.
///
/// # Errors
/// `BadRow` when the row's values make no range of positive IDs.
pub fn plan_lease(max_id: i64, step: i64, ask: LeaseAsk) -> Result<Leased, StoreError> {
    let bad = |what: String| Err(StoreError::BadRow(what));
    let Ok(max_id) = u64::try_from(max_id) else {
        return bad(format!("max_id is {max_id}; set it above the highest ID ever issued"));
    };
    let Some(row_step) = u64::try_from(step).ok().filter(|step| *step > 0) else {
        return bad(format!("step is {step}; set it to 1 or more"));
    };
    let start = max_id.max(ask.floor);
    let size = row_step.max(ask.at_least);
    // A row near its end still gives its own step when the larger wish does not fit.
    let end = [size, row_step]
        .iter()
        .find_map(|size| start.checked_add(*size).and_then(|end| Range::new(start, end)));
    match end {
        Some(range) => Ok(Leased {
            lease: Lease { range, row_step },
            moved_from: (max_id < ask.floor).then_some(max_id),
        }),
        None => bad(format!("max_id {start} and step {row_step} pass the highest ID, 2^63 - 1")),
    }
}

/// Where a new tag begins: not below `first`, and not below where a tag of the same name ended that
/// was deleted.
///
/// # Errors
/// `BadRow` when not even one step fits between there and the highest ID.
pub fn plan_creation(first: u64, tombstone: Option<u64>, step: u64) -> Result<u64, StoreError> {
    let start = first.max(1).max(tombstone.unwrap_or(0));
    if start.checked_add(step).and_then(|end| Range::new(start, end)).is_some() {
        return Ok(start);
    }
    let why = if start > first { "; a tag of this name was deleted there" } else { "" };
    Err(StoreError::BadRow(format!(
        "a tag that begins at {start} with step {step} passes the highest ID, 2^63 - 1{why}"
    )))
}

/// The tombstone of a row: the end of everything that any host leased of it. Hosts that hold ranges
/// go on issuing below it.
///
/// # Errors
/// `BadRow` when the row does not tell.
pub fn plan_deletion(row: &Row, tombstone: Option<u64>, floor: u64) -> Result<u64, StoreError> {
    let max_id = row.max_id.get().and_then(|max_id| u64::try_from(max_id).ok());
    let max_id = max_id.ok_or_else(|| {
        let text = row.max_id.0.as_deref().unwrap_or("NULL");
        StoreError::BadRow(format!(
            "max_id is {text}, which does not tell what was issued; set it above the highest ID \
             ever issued, then delete the tag"
        ))
    })?;
    Ok(max_id.max(floor).max(tombstone.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn span(leased: &Leased) -> (u64, u64) {
        (leased.lease.range.start(), leased.lease.range.end())
    }

    #[test]
    fn a_lease_follows_leafs_convention() {
        let leased = plan_lease(1, 2000, ASK).unwrap();
        assert_eq!((span(&leased), leased.lease.row_step), ((1, 2001), 2000));
        let leased = plan_lease(2001, 2000, LeaseAsk { at_least: 4000, floor: 2001 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((2001, 6001), None));
    }

    #[test]
    fn a_row_below_what_was_seen_is_moved_forward_and_never_backward() {
        let leased = plan_lease(1, 10, LeaseAsk { at_least: 0, floor: 5000 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((5000, 5010), Some(1)));
        let leased = plan_lease(9000, 10, LeaseAsk { at_least: 0, floor: 5000 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((9000, 9010), None));
    }

    #[test]
    fn absurd_rows_are_errors_that_name_the_value() {
        for (max_id, step, named) in [
            (-1, 10, "-1"),
            (1, 0, "step is 0"),
            (1, i64::MIN, "-9223372036854775808"),
            (i64::MAX, 1, "9223372036854775807"),
            (2, i64::MAX - 1, "2^63"),
        ] {
            let Err(StoreError::BadRow(text)) = plan_lease(max_id, step, ASK) else { panic!() };
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn a_row_near_its_end_gives_its_last_step() {
        let ask = LeaseAsk { at_least: 1_000_000, floor: 0 };
        let leased = plan_lease(i64::MAX - 10, 10, ask).unwrap();
        assert_eq!(leased.lease.range.count(), 10);
    }

    #[test]
    fn a_value_that_is_no_number_is_named_where_it_is_needed() {
        for text in [None, Some("many"), Some("9223372036854775808"), Some("1.5"), Some("")] {
            let row = Row {
                tag: "a".into(),
                max_id: Number::new(text.map(str::to_owned)),
                step: 10.into(),
                description: String::new(),
            };
            let Err(StoreError::BadRow(error)) = row.plan(ASK) else { panic!("{text:?}") };
            assert!(error.contains(text.unwrap_or("NULL")), "{error}");
            assert_eq!(row.leasable(), None);
        }
    }

    #[test]
    fn a_new_tag_begins_above_its_tombstone_and_has_room_for_a_step() {
        assert_eq!(plan_creation(1, None, 1000), Ok(1));
        assert_eq!(plan_creation(0, None, 1000), Ok(1));
        assert_eq!(plan_creation(1, Some(1001), 1000), Ok(1001));
        assert_eq!(plan_creation(5000, Some(1001), 1000), Ok(5000));
        let end = i64::MAX as u64;
        assert_eq!(plan_creation(end - 1000, None, 1000), Ok(end - 1000));
        for (first, tombstone) in [(end - 999, None), (1, Some(end)), (u64::MAX, None)] {
            let Err(StoreError::BadRow(text)) = plan_creation(first, tombstone, 1000) else {
                panic!()
            };
            assert!(text.contains(&first.max(tombstone.unwrap_or(0)).to_string()), "{text}");
            assert_eq!(text.contains("deleted"), tombstone.is_some(), "{text}");
        }
    }

    #[test]
    fn a_tombstone_is_the_highest_of_row_host_and_earlier_tombstone() {
        let row = |max_id: i64| Row {
            tag: "a".into(),
            max_id: max_id.into(),
            step: 10.into(),
            description: String::new(),
        };
        assert_eq!(plan_deletion(&row(500), None, 0), Ok(500));
        assert_eq!(plan_deletion(&row(500), Some(400), 900), Ok(900));
        assert_eq!(plan_deletion(&row(500), Some(1000), 900), Ok(1000));
        let Err(StoreError::BadRow(text)) = plan_deletion(&row(-5), Some(7), 9) else { panic!() };
        assert!(text.contains("-5"), "{text}");
    }

    proptest! {
        #[test]
        fn a_lease_never_wraps_nor_starts_below_row_or_floor(
            max_id in any::<i64>(), step in any::<i64>(),
            at_least in any::<u64>(), floor in 0..=i64::MAX as u64,
        ) {
            if let Ok(leased) = plan_lease(max_id, step, LeaseAsk { at_least, floor }) {
                let (start, end) = span(&leased);
                prop_assert!(start < end && end <= i64::MAX as u64);
                prop_assert!(start >= floor && start >= max_id as u64);
            }
        }
    }
}
