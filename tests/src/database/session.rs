//! A test's own connection to a database server. It blocks, like the rest of the harness.

use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, MySqlConnection, PgConnection, Row, SqliteConnection};
use tokio::runtime::{Builder, Runtime};

/// The rows of a query. Values are text, and none stands for NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// A session, for transactions that a test keeps open. Dropping it closes it, which rolls back what
/// is not committed. It cannot be used inside an asynchronous runtime.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    runtime: Runtime,
}

#[derive(Debug)]
enum Connection {
    // Boxed, since their sizes differ a lot.
    MySql(Box<MySqlConnection>),
    Postgres(Box<PgConnection>),
    Sqlite(Box<SqliteConnection>),
}

impl Session {
    /// Opens a session at one of leafd's URLs, `mysql://…` or `postgres://…`, or with an existing
    /// embedded store at `sqlite:PATH`. Fails if the server is down or refuses the login.
    pub fn open(url: &str) -> sqlx::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(sqlx::Error::Io)?;
        let connection = runtime.block_on(connect(url))?;
        Ok(Self { connection, runtime })
    }

    /// Opens a session; none if that fails or takes longer than `time`.
    pub(crate) fn open_within(time: Duration, url: &str) -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let connection = runtime.block_on(async { tokio::time::timeout(time, connect(url)).await });
        Some(Self { connection: connection.ok()?.ok()?, runtime })
    }

    /// Executes a statement.
    pub fn execute(&mut self, statement: &str) {
        self.query(statement);
    }

    /// Executes a statement, and returns its rows.
    pub fn query(&mut self, statement: &str) -> Rows {
        self.try_query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Executes a statement that may fail, with the server's error or that of the connection.
    pub fn try_query(&mut self, statement: &str) -> sqlx::Result<Rows> {
        self.runtime.block_on(self.connection.rows(statement))
    }

    /// How many of leafd's transactions in this database, of MariaDB or PostgreSQL, wait for a lock.
    pub fn waiting_for_locks(&mut self) -> usize {
        let query = match self.connection {
            Connection::MySql(_) => {
                // The table innodb_trx is outdated for as long as it is queried more often.
                std::thread::sleep(Duration::from_millis(200));
                "SELECT 1 FROM information_schema.innodb_trx
                 JOIN information_schema.processlist ON id = trx_mysql_thread_id
                 WHERE trx_state = 'LOCK WAIT' AND db = DATABASE() AND user = 'leaf'"
            }
            Connection::Postgres(_) => {
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND datname = current_database() AND usename = 'leaf'"
            }
            Connection::Sqlite(_) => panic!("SQLite has no list of waiting transactions"),
        };
        self.query(query).len()
    }

    /// Executes a statement, and returns none if the answer is not complete within `time`. The session
    /// cannot be used afterwards, so this consumes it.
    pub fn query_within(mut self, time: Duration, statement: &str) -> Option<sqlx::Result<Rows>> {
        let rows = self.connection.rows(statement);
        self.runtime.block_on(async { tokio::time::timeout(time, rows).await.ok() })
    }
}

async fn connect(url: &str) -> sqlx::Result<Connection> {
    if url.starts_with("mysql:") {
        let options = MySqlConnectOptions::from_str(url)?.ssl_mode(MySqlSslMode::Disabled);
        Ok(Connection::MySql(Box::new(options.connect().await?)))
    } else if let Some(path) = url.strip_prefix("sqlite:") {
        let options = SqliteConnectOptions::new().filename(path);
        Ok(Connection::Sqlite(Box::new(options.connect().await?)))
    } else {
        let options = PgConnectOptions::from_str(url)?.ssl_mode(PgSslMode::Disable);
        Ok(Connection::Postgres(Box::new(options.connect().await?)))
    }
}

impl Connection {
    /// Sends the statement as plain text; the values then arrive as plain text.
    async fn rows(&mut self, statement: &str) -> sqlx::Result<Rows> {
        let query = sqlx::raw_sql(AssertSqlSafe(statement));
        match self {
            Self::MySql(connection) => {
                query.fetch_all(connection.as_mut()).await?.iter().map(texts).collect()
            }
            Self::Postgres(connection) => {
                query.fetch_all(connection.as_mut()).await?.iter().map(texts).collect()
            }
            Self::Sqlite(connection) => {
                query.fetch_all(connection.as_mut()).await?.iter().map(texts).collect()
            }
        }
    }
}

fn texts<R: Row>(row: &R) -> sqlx::Result<Vec<Option<String>>>
where
    usize: sqlx::ColumnIndex<R>,
    Option<String>: for<'r> sqlx::Decode<'r, R::Database>,
{
    (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()
}
