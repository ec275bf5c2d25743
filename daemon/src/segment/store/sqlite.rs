//! The embedded store: SQLite in the state directory, for one host. A lease is on disk when it is
//! given (WAL, `synchronous=FULL`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};

use super::connections::Connect;
use super::dialect::{Blame, Dialect, Lack, Statements, calls_by_sqlx};
use super::sql::Sql;
use super::{Limits, Store, schema};

/// SQLITE_BUSY and SQLITE_LOCKED, in the low byte of the code: another process has the lock. A
/// probe would not wait for it.
const BUSY: [u32; 2] = [5, 6];

/// Whether a missing database file may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Nothing was ever leased from it.
    Create,
    /// Ranges were leased from it: a new one would know nothing of them.
    Refuse,
}

struct Sqlite {
    path: PathBuf,
    options: SqliteConnectOptions,
    if_missing: IfMissing,
}

/// A store in an SQLite file, which is opened when it is first used, so that one that cannot be
/// opened does not hold up the start. `timeout` bounds the wait for locks.
///
/// # Errors
/// When the pool cannot be built.
pub fn sqlite(
    path: &Path,
    timeout: Duration,
    if_missing: IfMissing,
) -> Result<impl Store + use<>, String> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(if_missing == IfMissing::Create)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Before the call itself is given up, so that the error says what it waited for.
        .busy_timeout(timeout * 4 / 5);
    let described = format!("sqlite {}", path.display());
    let dialect = Sqlite { path: path.to_owned(), options, if_missing };
    // One connection, kept open: nobody else needs it, and opening it reads the file.
    Sql::new(described, dialect, Limits { timeout, connections: 1 }, None)
}

impl Connect for Sqlite {
    type Connection = SqliteConnection;

    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        if self.if_missing == IfMissing::Refuse && !self.path.exists() {
            return Err(sqlx::Error::Configuration(
                "the file is missing although ranges were leased from it; restore it, or let \
                 leafd make a new one above everything this host has issued with `leafd adopt`"
                    .into(),
            ));
        }
        let mut connection = self.options.connect().await?;
        Self::execute(&mut connection, schema::SQLITE).await?;
        Ok(connection)
    }
}

impl Dialect for Sqlite {
    const STATEMENTS: Statements = Statements {
        all: "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description \
              FROM leaf_alloc",
        one: "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description \
              FROM leaf_alloc WHERE biz_tag = ?",
        locked: "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description \
                 FROM leaf_alloc WHERE biz_tag = ?",
        set_max_id: "UPDATE leaf_alloc SET max_id = ?, update_time = CURRENT_TIMESTAMP \
                     WHERE biz_tag = ? AND max_id = ?",
        set_step: "UPDATE leaf_alloc SET step = ?, update_time = CURRENT_TIMESTAMP \
                   WHERE biz_tag = ?",
        insert: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
        delete: "DELETE FROM leaf_alloc WHERE biz_tag = ? AND max_id = ?",
        tombstone: "SELECT biz_tag, CAST(max_id AS TEXT), NULL, NULL \
                    FROM leafd_tombstone WHERE biz_tag = ?",
        insert_tombstone: "INSERT INTO leafd_tombstone (biz_tag, max_id) VALUES (?, ?)",
        raise_tombstone: "UPDATE leafd_tombstone SET max_id = ?, \
                          deleted = CURRENT_TIMESTAMP WHERE biz_tag = ?",
        probe: "UPDATE leaf_alloc SET max_id = max_id + step WHERE 1 = 0",
    };

    /// Takes the write lock at once: two processes on one file queue up here instead of failing
    /// at the UPDATE.
    fn begin_writing(&self) -> String {
        "BEGIN IMMEDIATE".into()
    }

    fn begin_reading(&self) -> String {
        "BEGIN".into()
    }

    calls_by_sqlx!(SqliteConnection, keep_statements: true);

    fn blame(error: &dyn DatabaseError) -> Blame {
        let code = error.code().and_then(|code| code.parse::<u32>().ok());
        if code.is_some_and(|code| BUSY.contains(&(code & 0xff))) {
            return Blame::Call;
        }
        match Blame::by_standard(error) {
            Blame::Value => Blame::Value,
            Blame::Server | Blame::Call => Blame::Server,
        }
    }

    /// leafd makes the tables itself, and files know no rights.
    fn lack(_: &dyn DatabaseError) -> Option<Lack> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::store::{NewTag, StoreError};
    use crate::segment::tag::BizTag;
    use crate::segment::terms::LeaseAsk;

    const SECOND: Duration = Duration::from_secs(1);
    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn store(dir: &tempfile::TempDir) -> impl Store + use<> {
        sqlite(&dir.path().join("leafd.db"), SECOND, IfMissing::Create).unwrap()
    }

    #[tokio::test]
    async fn leases_follow_each_other_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(&dir);
        first.create(&tag("a"), NewTag::new(1, 2000, "d")).await.unwrap();
        assert_eq!(
            first.create(&tag("a"), NewTag::new(1, 2000, "d")).await,
            Err(StoreError::Exists)
        );
        let leased = first.lease(&tag("a"), ASK).await.unwrap();
        assert_eq!((leased.lease.range.start(), leased.lease.range.end()), (1, 2001));
        first.close().await;
        let second = store(&dir);
        let ask = LeaseAsk { at_least: 4000, floor: 2001 };
        assert_eq!(second.lease(&tag("a"), ask).await.unwrap().lease.range.start(), 2001);
        let row = second.show(&tag("a")).await.unwrap();
        assert_eq!(
            (row.max_id, row.step, row.description.as_str()),
            (6001.into(), 2000.into(), "d")
        );
    }

    #[tokio::test]
    async fn a_row_that_went_backwards_is_moved_forward() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        store.create(&tag("a"), NewTag::new(1, 10, "")).await.unwrap();
        let leased = store.lease(&tag("a"), LeaseAsk { at_least: 0, floor: 500 }).await.unwrap();
        assert_eq!((leased.lease.range.start(), leased.moved_from), (500, Some(1)));
        assert_eq!(store.show(&tag("a")).await.unwrap().max_id.get(), Some(510));
    }

    #[tokio::test]
    async fn missing_rows_and_rows_of_the_wrong_kind_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        assert_eq!(store.lease(&tag("a"), ASK).await, Err(StoreError::NoSuchTag));
        assert_eq!(store.set_step(&tag("a"), 5).await, Err(StoreError::NoSuchTag));
        store.create(&tag("good"), NewTag::new(1, 10, "")).await.unwrap();
        let options = SqliteConnectOptions::new().filename(dir.path().join("leafd.db"));
        let mut other = options.connect().await.unwrap();
        sqlx::raw_sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 'many')")
            .execute(&mut other)
            .await
            .unwrap();
        let Err(StoreError::BadRow(error)) = store.lease(&tag("a"), ASK).await else { panic!() };
        assert_eq!(error, "step is many, not a whole number below 2^63");
        assert_eq!(store.list().await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_missing_file_is_made_only_when_nothing_was_leased_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        let store = sqlite(&path, SECOND, IfMissing::Refuse).unwrap();
        let Err(StoreError::Down(error)) = store.list().await else { panic!() };
        assert!(error.contains("leafd adopt") && !path.exists(), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_unavailable_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        std::fs::write(&path, "this is not a database, and longer than a header of one").unwrap();
        let store = sqlite(&path, SECOND, IfMissing::Create).unwrap();
        assert!(matches!(store.list().await, Err(StoreError::Down(_))));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
    }
}
