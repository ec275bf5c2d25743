//! One connection to the registry's database: opened with bounds that the server enforces, and asked with
//! texts and numbers.

use std::time::Duration;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::access::{DatabaseAccess, DatabasePlace};
use crate::store::{SQLITE_WORKERS, SharedOptions};

/// A server closes a silent connection after this, and releases its locks: a host that freezes in the
/// middle of a claim must not keep the others from theirs for long.
const SILENCE: Duration = Duration::from_secs(30);

/// Codes that mean that another transaction was in the way and nothing was written: deadlock, serialization.
const IN_THE_WAY: [&str; 2] = ["40P01", "40001"];

/// The same in MariaDB from 11.6 on, which has no SQLSTATE for it.
const CHANGED_SINCE_READ: u16 = 1020;

/// Codes of a table that is missing, in MySQL and in PostgreSQL.
const NO_TABLE: [&str; 2] = ["42S02", "42P01"];

pub(super) enum Link {
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// Why a call did not do what it should.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nothing was written: the records are not as expected, or another transaction was in the way.
    Conflict,
    /// The connection is of no more use. A write may have been executed.
    Failed(String),
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(it) if is_in_the_way(&**it) => Self::Conflict,
            sqlx::Error::Database(it) if lacks_table(&**it) => Self::Failed(format!(
                "{it}; `leafd schema` prints the tables leafd_worker_fleet and leafd_worker"
            )),
            _ => Self::Failed(error.to_string()),
        }
    }
}

fn is_in_the_way(error: &dyn DatabaseError) -> bool {
    let number = error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
    error.kind() == ErrorKind::UniqueViolation
        || number == Some(CHANGED_SINCE_READ)
        || error.code().is_some_and(|code| IN_THE_WAY.contains(&&*code))
}

fn lacks_table(error: &dyn DatabaseError) -> bool {
    error.code().is_some_and(|code| NO_TABLE.contains(&&*code))
}

/// Does the same with any kind of connection.
macro_rules! with {
    ($link:expr, $connection:ident => $work:expr) => {
        match $link {
            Link::MySql($connection) => $work,
            Link::Postgres($connection) => $work,
            Link::Sqlite($connection) => $work,
        }
    };
}

/// A statement with its values. A pooler before PostgreSQL may change the server's connection after each
/// transaction, and a statement that an earlier one prepared then no longer exists.
macro_rules! query {
    ($text:expr, $values:expr, $is_kept:expr) => {{
        let query = sqlx::query(AssertSqlSafe($text.to_owned())).persistent($is_kept);
        $values.iter().fold(query, |query, value| match *value {
            Value::Text(text) => query.bind(text.to_owned()),
            Value::Number(number) => query.bind(number),
        })
    }};
}

impl Link {
    pub(super) async fn open(
        access: &DatabaseAccess,
        may_create: bool,
    ) -> Result<Self, sqlx::Error> {
        let timeout = access.timeout;
        let options = match &access.place {
            DatabasePlace::Server { options, .. } => &**options,
            DatabasePlace::File(path) => {
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .create_if_missing(may_create)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(timeout * 4 / 5)
                    .disable_statement_logging();
                let mut connection = options.connect().await?;
                if may_create {
                    sqlx::raw_sql(SQLITE_WORKERS).execute(&mut connection).await?;
                }
                return Ok(Self::Sqlite(connection));
            }
        };
        match options {
            SharedOptions::MySql(options) => {
                let lock_wait = (timeout.as_millis() * 4 / 5 / 1000).max(1);
                let silence = SILENCE.max(timeout * 3).as_secs();
                let session = format!(
                    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                     SET SESSION autocommit = 1, SESSION completion_type = NO_CHAIN, SESSION time_zone = '+00:00', \
                     SESSION innodb_lock_wait_timeout = {lock_wait}, \
                     SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = {silence}, \
                     SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')"
                );
                let mut connection = options.connect().await?;
                sqlx::raw_sql(AssertSqlSafe(session)).execute(&mut connection).await?;
                Ok(Self::MySql(connection))
            }
            SharedOptions::Postgres(options) => Ok(Self::Postgres(options.connect().await?)),
        }
    }

    /// Executes statements without values.
    pub(super) async fn run(&mut self, text: &str) -> Result<(), sqlx::Error> {
        let text = AssertSqlSafe(text.to_owned());
        with!(self, connection => sqlx::raw_sql(text).execute(connection).await.map(drop))
    }

    /// The rows of a statement whose columns are all text.
    pub(super) async fn rows(
        &mut self,
        text: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Vec<String>>, sqlx::Error> {
        let is_kept = !matches!(self, Self::Postgres(_));
        with!(self, connection => {
            let rows = query!(text, values, is_kept).fetch_all(connection).await?;
            let column = |row: &_, at: usize| cell(row, at);
            rows.iter().map(|row| (0..row.len()).map(|at| column(row, at)).collect()).collect()
        })
    }

    /// Changes rows, and returns how many.
    pub(super) async fn change(
        &mut self,
        text: &str,
        values: &[Value<'_>],
    ) -> Result<u64, sqlx::Error> {
        let is_kept = !matches!(self, Self::Postgres(_));
        with!(self, connection => {
            Ok(query!(text, values, is_kept).execute(connection).await?.rows_affected())
        })
    }

    /// Servers log a connection that ends without a goodbye.
    pub(super) async fn close(self) {
        let _ = with!(self, connection => connection.close().await);
    }
}

fn cell<R>(row: &R, at: usize) -> Result<String, sqlx::Error>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    for<'r> Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    Ok(row.try_get::<Option<String>, _>(at)?.unwrap_or_default())
}
