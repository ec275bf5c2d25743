//! What differs between databases: their statements, how they are executed, and what their errors
//! mean.

use std::future::Future;

use sqlx::error::{DatabaseError, ErrorKind};

use super::connections::Connect;
use super::{Number, Row};

/// The statements of a database. A row is read as `biz_tag`, `max_id`, `step`, `description`, all
/// of them as text.
pub(super) struct Statements {
    /// Every row.
    pub(super) all: &'static str,
    /// One row, by its tag.
    pub(super) one: &'static str,
    /// One row, by its tag, locked to the end of the transaction.
    pub(super) locked: &'static str,
    /// Values: the new `max_id`, the tag, the `max_id` that was read.
    pub(super) set_max_id: &'static str,
    /// Values: the new step, the tag.
    pub(super) set_step: &'static str,
    /// Values: tag, `max_id`, step, description.
    pub(super) insert: &'static str,
    /// Values: the tag, the `max_id` that was read.
    pub(super) delete: &'static str,
    /// The latest tombstone of a tag that was committed, as a row without a step.
    pub(super) tombstone: &'static str,
    /// Values: the tag, its `max_id`.
    pub(super) insert_tombstone: &'static str,
    /// Values: the new `max_id`, the tag.
    pub(super) raise_tombstone: &'static str,
    /// Changes no row, and fails where a lease would: without the right, without the table, or on
    /// a server that takes no writes.
    pub(super) probe: &'static str,
}

/// A value in a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// What an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// Every call.
    Server,
    /// A value that the table cannot hold or compare.
    Value,
    /// This call; the next one may go well.
    Call,
}

impl Blame {
    /// What the standard says of an error: out of the column's range, too long, against a
    /// constraint, of letters that it does not know.
    pub(super) fn by_standard(error: &dyn DatabaseError) -> Self {
        // The class of data exceptions. SQLite's codes have fewer characters.
        let of_data = |code: &str| code.len() == 5 && code.starts_with("22");
        let is_data = error.code().is_some_and(|code| of_data(&code));
        if is_data || matches!(error.kind(), ErrorKind::CheckViolation) {
            return Self::Value;
        }
        Self::Call
    }
}

/// What a statement failed for lack of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The table, or the right to know that it is there.
    Table,
    /// A right to a table that is there.
    Right,
}

/// A database.
pub(super) trait Dialect: Connect {
    const STATEMENTS: Statements;

    /// Whether what is committed waits in a log beside the database for [`Self::checkpoint`].
    const CHECKPOINTS: bool = false;

    /// Moves what is committed into the database itself. Says whether all of it was moved.
    fn checkpoint(
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send {
        std::future::ready(Ok(true))
    }

    /// Begins a transaction that may write, with the bounds that the server itself keeps.
    fn begin_writing(&self) -> String;

    /// Begins a transaction that only reads, and may read for long.
    fn begin_reading(&self) -> String;

    /// Executes statements without values.
    fn execute(
        connection: &mut Self::Connection,
        statements: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Reads the rows of a statement, with a tag in it where there is one.
    fn read(
        connection: &mut Self::Connection,
        statement: &'static str,
        tag: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Changes rows, and says how many.
    fn change(
        connection: &mut Self::Connection,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// What an error of a statement about one row says of other calls. In doubt nothing: nobody
    /// may stop the leases of others with a tag that the database cannot take.
    fn blame(error: &dyn DatabaseError) -> Blame;

    /// What the statement lacks that failed with this error, if it is a table or a right.
    fn lack(error: &dyn DatabaseError) -> Option<Lack>;
}

/// The calls of a [`Dialect`] that read alike for every database of `sqlx` and that no bound on a
/// type parameter can say in less words.
macro_rules! calls_by_sqlx {
    ($connection:ty, keep_statements: $keep:literal) => {
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
            tag: Option<&str>,
        ) -> Result<Vec<$crate::segment::store::Row>, sqlx::Error> {
            let query = sqlx::query(statement).persistent($keep);
            let query = tag.into_iter().fold(query, |query, tag| query.bind(tag));
            let rows = query.fetch_all(connection).await?;
            rows.iter().map($crate::segment::store::dialect::read_row).collect()
        }

        async fn change(
            connection: &mut $connection,
            statement: &'static str,
            values: &[$crate::segment::store::dialect::Value<'_>],
        ) -> Result<u64, sqlx::Error> {
            use $crate::segment::store::dialect::Value;
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

/// A row as every statement reads it.
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
