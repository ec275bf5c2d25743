//! What differs between databases: their statements, how they are executed, and what their errors
//! mean.

use std::future::Future;

use sqlx::error::{DatabaseError, ErrorKind};

use super::connections::Connect;
use crate::store::{Number, Row};

/// The statements of a database. Rows are read as `biz_tag`, `max_id`, `step` and `description`, all
/// as text.
pub(super) struct Statements {
    /// The tables' names, for messages.
    pub(super) tags: &'static str,
    pub(super) tombstones: &'static str,
    /// Values: a tag, a number. That many rows from this tag on, in byte order of the tags, by an index
    /// of the table.
    pub(super) page: &'static str,
    /// Set if the index may have another order.
    pub(super) order: Option<Order>,
    /// The beginning of a statement that ends with a list of tags in parentheses.
    pub(super) find: &'static str,
    /// Values: a tag.
    pub(super) one: &'static str,
    /// Values: a tag. Locks the row until the end of the transaction.
    pub(super) locked: &'static str,
    /// Values: the new `max_id`, the tag, the `max_id` that was read.
    pub(super) set_max_id: &'static str,
    /// Values: the new step, the tag.
    pub(super) set_step: &'static str,
    /// Values: tag, `max_id`, step, description.
    pub(super) insert: &'static str,
    /// Values: the tag, the `max_id` that was read.
    pub(super) delete: &'static str,
    /// Values: a tag. The latest committed tombstone, as a row without a step.
    pub(super) tombstone: &'static str,
    /// Values: the tag, its `max_id`.
    pub(super) insert_tombstone: &'static str,
    /// Values: the new `max_id`, the tag.
    pub(super) raise_tombstone: &'static str,
    /// Changes no row, and fails if a lease would: without the right, without the table, or on a
    /// read-only server.
    pub(super) probe: &'static str,
}

/// Which tables a store works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// `leaf_alloc`, as Java Leaf does.
    Leaf,
    /// Those of a database that has a share of the IDs.
    Shares,
}

/// The statements of a database that has a share of the IDs (`store.kind = "several"`). Rows are read as
/// those of tags.
pub(super) struct ShareStatements {
    /// The division's name; the share; the block; and the number of shares, whether it is closed, the
    /// member's name, and the end of its range of shares.
    pub(super) division: &'static str,
    /// Values: the division's name, the member's name, the number of shares, the block. The row of a
    /// database that has no share yet.
    pub(super) join: &'static str,
    /// The same values and the division's name once more, where such a row of another division is there.
    pub(super) rejoin: &'static str,
    /// Values: the share, the end of the range, the member's name. Only while it has none.
    pub(super) set_share: &'static str,
    /// Values: 1 to close, 0 to open; the member's name.
    pub(super) set_closed: &'static str,
    /// Values: the member's name. What was given to it: its name, the share, the end of the range.
    pub(super) grant_of: &'static str,
    /// Values: the new end of the range of shares; and what was read: the end, the division's name, the
    /// member's name.
    pub(super) take: &'static str,
    /// Values: the member's name, the share, the end of the range.
    pub(super) grant: &'static str,
}

/// The statements about the witness table. Each row comes as one text, in the place of a description: beat, base,
/// confirmed, presence, roster, joined, seen, server and name, with bars between.
pub(super) struct WitnessStatements {
    /// Values: this host's name. No tag, the database's clock in seconds since 1970, and three texts with
    /// semicolons between: the server, the fleet's row, this host's row.
    pub(super) glance: &'static str,
    /// Values: this host's name, a tag. As [`Statements::locked`], with the text of `glance`.
    pub(super) leasable: &'static str,
    /// The table's name in the place of a tag, or an empty one. Never fails for want of the table.
    pub(super) look: &'static str,
    /// Locks the fleet's row until the end of the transaction.
    pub(super) lock_fleet: &'static str,
    /// All rows, each with its host's name in the place of a tag.
    pub(super) all: &'static str,
    /// Values: beat, base, confirmed, presence, roster, joined, seen, server, name for people; and the host's
    /// name.
    pub(super) insert: &'static str,
    /// The same values.
    pub(super) update: &'static str,
    /// Values: the host's name.
    pub(super) delete: &'static str,
    /// Values: a number, the highest `max_id` that has room for it. Move the rows and the tombstones of all tags
    /// forward.
    pub(super) skip: [&'static str; 2],
}

/// The number of tags in the shorter of the two statements of [`Dialect::find`].
pub(super) const FIND_FEW: usize = 16;

/// How to read a page if the order of the index is not known beforehand.
pub(super) struct Order {
    /// Reads the collation of the tags, in the place of a row's tag.
    pub(super) collation: &'static str,
    /// Whether a collation of this name orders by bytes.
    pub(super) is_by_bytes: fn(&str) -> bool,
    /// Reads a page by sorting the whole table.
    pub(super) sorted_page: &'static str,
}

/// A value in a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// Which calls an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// Every call.
    Server,
    /// Calls with this value, which the table cannot hold or compare.
    Value,
    /// Only this call; the next one may succeed.
    Call,
}

impl Blame {
    /// By standard SQL: a value may be out of the column's range, too long, against a constraint, or
    /// have characters that the column cannot hold.
    pub(super) fn by_standard(error: &dyn DatabaseError) -> Self {
        // The class of data exceptions. SQLite's codes are shorter.
        let of_data = |code: &str| code.len() == 5 && code.starts_with("22");
        let is_data = error.code().is_some_and(|code| of_data(&code));
        if is_data || matches!(error.kind(), ErrorKind::CheckViolation) {
            return Self::Value;
        }
        Self::Call
    }
}

/// What a failed statement lacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The table, or the right to know that it exists.
    Table,
    /// A right to a table that exists.
    Right,
}

/// What differs between databases.
pub(super) trait Dialect: Connect {
    /// The statements for these tables.
    fn statements(tables: Tables) -> &'static Statements;

    /// The statements about shares; none if this database cannot have one.
    const SHARES: Option<ShareStatements> = None;

    /// The statements about the witness table; none if this database cannot have one.
    const WITNESS: Option<WitnessStatements> = None;

    /// Whether commits wait in a log beside the database for [`Self::checkpoint`].
    const CHECKPOINTS: bool = false;

    /// Moves commits from the log into the database itself. Returns whether it moved all of them.
    fn checkpoint(
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send {
        std::future::ready(Ok(true))
    }

    /// Begins a transaction that may write, with time limits that the server enforces.
    fn begin_writing(&self) -> String;

    /// Begins a transaction that only reads, and may take [`super::LONG_READ`] times as long.
    fn begin_reading(&self) -> String;

    /// Executes statements without values.
    fn execute(
        connection: &mut Self::Connection,
        statements: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The placeholder of the value with this number; the first is 1.
    fn placeholder(number: usize) -> String;

    /// The statement that looks for [`FIND_FEW`] or [`crate::store::FIND_AT_ONCE`] tags. With only two
    /// lengths, a connection keeps two prepared statements instead of hundreds.
    fn find(tables: Tables, few: bool) -> &'static str;

    /// Reads the rows of a statement.
    fn read(
        connection: &mut Self::Connection,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Changes rows, and returns how many.
    fn change(
        connection: &mut Self::Connection,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// What an error of a statement about one row means for other calls. In doubt nothing: a tag that
    /// the database cannot hold must not stop the leases of other tags.
    fn blame(error: &dyn DatabaseError) -> Blame;

    /// The table or right that the failed statement lacks, if that is the cause.
    fn lack(error: &dyn DatabaseError) -> Option<Lack>;
}

/// The statement that looks for this many tags.
pub(super) fn find_statement<D: Dialect>(tables: Tables, tags: usize) -> String {
    let values: Vec<_> = (1..=tags).map(D::placeholder).collect();
    format!("{}({})", D::statements(tables).find, values.join(", "))
}

/// The calls of a [`Dialect`] that are the same text for every database of `sqlx`. Written once as a
/// macro, because the trait bounds of a generic function would be longer than the text.
macro_rules! calls_by_sqlx {
    ($dialect:ty, $connection:ty, keep_statements: $keep:literal) => {
        fn find(tables: $crate::store::sql::dialect::Tables, few: bool) -> &'static str {
            use std::sync::LazyLock;
            use $crate::store::sql::dialect::{FIND_FEW, Tables, find_statement};
            fn both(tables: Tables) -> [String; 2] {
                [FIND_FEW, $crate::store::FIND_AT_ONCE]
                    .map(|tags| find_statement::<$dialect>(tables, tags))
            }
            static LEAF: LazyLock<[String; 2]> = LazyLock::new(|| both(Tables::Leaf));
            static SHARES: LazyLock<[String; 2]> = LazyLock::new(|| both(Tables::Shares));
            let [of_few, of_many] = match tables {
                Tables::Leaf => &*LEAF,
                Tables::Shares => &*SHARES,
            };
            if few { of_few } else { of_many }
        }

        async fn execute(
            connection: &mut $connection,
            statements: &str,
        ) -> Result<(), sqlx::Error> {
            let statements = sqlx::AssertSqlSafe(statements);
            sqlx::raw_sql(statements).execute(connection).await.map(drop)
        }

        async fn read(
            connection: &mut $connection,
            statement: &'static str,
            values: &[$crate::store::sql::dialect::Value<'_>],
        ) -> Result<Vec<$crate::store::Row>, sqlx::Error> {
            use $crate::store::sql::dialect::Value;
            let query = sqlx::query(statement).persistent($keep);
            let query = values.iter().fold(query, |query, value| match *value {
                Value::Text(text) => query.bind(text),
                Value::Number(number) => query.bind(number),
            });
            let rows = query.fetch_all(connection).await?;
            rows.iter().map($crate::store::sql::dialect::read_row).collect()
        }

        async fn change(
            connection: &mut $connection,
            statement: &'static str,
            values: &[$crate::store::sql::dialect::Value<'_>],
        ) -> Result<u64, sqlx::Error> {
            use $crate::store::sql::dialect::Value;
            let query = sqlx::query(statement).persistent($keep);
            let query = values.iter().fold(query, |query, value| match *value {
                Value::Text(text) => query.bind(text),
                Value::Number(number) => query.bind(number),
            });
            Ok(query.execute(connection).await?.rows_affected())
        }
    };
}
pub(super) use calls_by_sqlx;

/// A row as every statement returns it.
pub(super) fn read_row<R>(row: &R) -> Result<Row, sqlx::Error>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    for<'r> Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    let text = |column: usize| row.try_get::<Option<String>, _>(column);
    Ok(Row {
        tag: text(0)?.unwrap_or_default(),
        max_id: Number::new(text(1)?),
        step: Number::new(text(2)?),
        description: text(3)?.unwrap_or_default(),
    })
}
