//! The embedded store: SQLite in the state directory, for one host. A lease is on disk when it is
//! given (WAL, `synchronous=FULL`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Connection as _, Row as _, SqlitePool};

use super::{BoxFuture, Leased, Row, Store, StoreError, plan_lease};
use crate::segment::tag::BizTag;
use crate::segment::terms::LeaseAsk;

/// Leaf's table in SQLite's dialect.
pub const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) NOT NULL DEFAULT '' PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
";

const COLUMNS: &str = "SELECT biz_tag, max_id, step, description FROM leaf_alloc";

/// Whether a missing database file may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Nothing was ever leased from it.
    Create,
    /// Ranges were leased from it: a new one would know nothing of them.
    Refuse,
}

/// A connection in the middle of a transaction. When that ends in an error, or is given up at its
/// time limit, nobody knows which state the connection is in: it is closed and not used again.
struct Suspect(Option<PoolConnection<sqlx::Sqlite>>);

impl Suspect {
    /// The transaction has ended in good order.
    fn acquit(mut self) {
        self.0 = None;
    }
}

impl Drop for Suspect {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.close_on_drop();
        }
    }
}

/// An SQLite database.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    pool: SqlitePool,
    if_missing: IfMissing,
    /// The table has been made or found since the start.
    prepared: tokio::sync::OnceCell<()>,
}

impl Sqlite {
    /// A store that opens the file when it is first used, so that a database that cannot be opened
    /// does not hold up the start. `timeout` bounds the wait for locks and connections.
    #[must_use]
    pub fn new(path: &Path, timeout: Duration, if_missing: IfMissing) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(if_missing == IfMissing::Create)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(timeout);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(timeout)
            .connect_lazy_with(options);
        let prepared = tokio::sync::OnceCell::new();
        Self { path: path.to_owned(), pool, if_missing, prepared }
    }

    /// The pool, with the table in its place.
    async fn ready(&self) -> Result<&SqlitePool, StoreError> {
        self.prepared
            .get_or_try_init(|| async {
                if self.if_missing == IfMissing::Refuse && !self.path.exists() {
                    return Err(StoreError::Unavailable(format!(
                        "{} is missing although ranges were leased from it; restore the file, or \
                         let leafd make a new one above everything this host has issued with \
                         `leafd adopt`",
                        self.path.display()
                    )));
                }
                let made = sqlx::raw_sql(SCHEMA).execute(&self.pool).await;
                made.map(drop).map_err(|error| self.unavailable(&error))
            })
            .await?;
        Ok(&self.pool)
    }

    fn unavailable(&self, error: &sqlx::Error) -> StoreError {
        StoreError::Unavailable(format!("SQLite {}: {error}", self.path.display()))
    }

    async fn lease_row(&self, tag: &BizTag, ask: LeaseAsk) -> Result<Leased, StoreError> {
        let connection = self.ready().await?.acquire().await;
        let mut connection = Suspect(Some(connection.map_err(|error| self.unavailable(&error))?));
        let outcome = self.lease_on(&mut connection, tag, ask).await;
        if !matches!(outcome, Err(StoreError::Unavailable(_))) {
            connection.acquit();
        }
        outcome
    }

    async fn lease_on(
        &self,
        connection: &mut Suspect,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let unavailable = |error| self.unavailable(&error);
        let gone = || StoreError::Unavailable("the connection is gone".into());
        let connection = connection.0.as_mut().ok_or_else(gone)?;
        // IMMEDIATE takes the write lock at once: two processes on one file queue up here instead
        // of failing at the UPDATE.
        let mut transaction =
            connection.begin_with("BEGIN IMMEDIATE").await.map_err(unavailable)?;
        let row = sqlx::query("SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?")
            .bind(tag.as_str())
            .fetch_optional(&mut *transaction)
            .await
            .map_err(unavailable)?
            .ok_or(StoreError::NoSuchTag)?;
        let leased = plan_lease(integer(&row, "max_id")?, integer(&row, "step")?, ask)?;
        sqlx::query(
            "UPDATE leaf_alloc SET max_id = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?",
        )
        .bind(leased.lease.range.end().cast_signed())
        .bind(tag.as_str())
        .execute(&mut *transaction)
        .await
        .map_err(unavailable)?;
        transaction.commit().await.map_err(unavailable)?;
        Ok(leased)
    }

    async fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let unavailable = |error| self.unavailable(&error);
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!("{COLUMNS} ORDER BY biz_tag")))
            .fetch_all(self.ready().await?)
            .await
            .map_err(unavailable)?;
        // A row that cannot even be read must not hide the others; a lease on it will say why.
        Ok(rows.iter().filter_map(|row| read(row).ok()).collect())
    }

    async fn row(&self, tag: &BizTag) -> Result<Row, StoreError> {
        let unavailable = |error| self.unavailable(&error);
        let row = sqlx::query(sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE biz_tag = ?")))
            .bind(tag.as_str())
            .fetch_optional(self.ready().await?)
            .await
            .map_err(unavailable)?;
        read(&row.ok_or(StoreError::NoSuchTag)?)
    }

    async fn insert(
        &self,
        tag: &BizTag,
        first: u64,
        step: u64,
        description: &str,
    ) -> Result<(), StoreError> {
        let unavailable = |error| self.unavailable(&error);
        let made = sqlx::query(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?) \
             ON CONFLICT (biz_tag) DO NOTHING",
        )
        .bind(tag.as_str())
        .bind(first.cast_signed())
        .bind(step.cast_signed())
        .bind(description)
        .execute(self.ready().await?)
        .await
        .map_err(unavailable)?;
        if made.rows_affected() == 0 { Err(StoreError::Exists) } else { Ok(()) }
    }

    async fn update_step(&self, tag: &BizTag, step: u64) -> Result<(), StoreError> {
        let unavailable = |error| self.unavailable(&error);
        let changed = sqlx::query(
            "UPDATE leaf_alloc SET step = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?",
        )
        .bind(step.cast_signed())
        .bind(tag.as_str())
        .execute(self.ready().await?)
        .await
        .map_err(unavailable)?;
        if changed.rows_affected() == 0 { Err(StoreError::NoSuchTag) } else { Ok(()) }
    }
}

fn integer(row: &SqliteRow, column: &str) -> Result<i64, StoreError> {
    row.try_get(column)
        .map_err(|error| StoreError::BadRow(format!("{column} is not an integer: {error}")))
}

fn read(row: &SqliteRow) -> Result<Row, StoreError> {
    let text = |column: &str| {
        row.try_get::<Option<String>, _>(column)
            .map(Option::unwrap_or_default)
            .map_err(|error| StoreError::BadRow(format!("{column} is not a text: {error}")))
    };
    Ok(Row {
        tag: text("biz_tag")?,
        max_id: integer(row, "max_id")?,
        step: integer(row, "step")?,
        description: text("description")?,
    })
}

impl Store for Sqlite {
    fn describe(&self) -> String {
        format!("sqlite {}", self.path.display())
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        Box::pin(self.lease_row(tag, ask))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Row>, StoreError>> {
        Box::pin(self.rows())
    }

    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.row(tag))
    }

    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        first: u64,
        step: u64,
        description: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.insert(tag, first, step, description))
    }

    fn set_step<'a>(&'a self, tag: &'a BizTag, step: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.update_step(tag, step))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.pool.close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn store(dir: &tempfile::TempDir) -> Sqlite {
        Sqlite::new(&dir.path().join("leafd.db"), SECOND, IfMissing::Create)
    }

    #[tokio::test]
    async fn leases_follow_each_other_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(&dir);
        first.create(&tag("a"), 1, 2000, "d").await.unwrap();
        assert_eq!(first.create(&tag("a"), 1, 2000, "d").await, Err(StoreError::Exists));
        let leased = first.lease(&tag("a"), ASK).await.unwrap();
        assert_eq!((leased.lease.range.start(), leased.lease.range.end()), (1, 2001));
        first.close().await;
        let second = store(&dir);
        let ask = LeaseAsk { at_least: 4000, floor: 2001 };
        assert_eq!(second.lease(&tag("a"), ask).await.unwrap().lease.range.start(), 2001);
        let row = second.show(&tag("a")).await.unwrap();
        assert_eq!((row.max_id, row.step, row.description.as_str()), (6001, 2000, "d"));
    }

    #[tokio::test]
    async fn a_row_that_went_backwards_is_moved_forward() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        store.create(&tag("a"), 1, 10, "").await.unwrap();
        let leased = store.lease(&tag("a"), LeaseAsk { at_least: 0, floor: 500 }).await.unwrap();
        assert_eq!((leased.lease.range.start(), leased.moved_from), (500, Some(1)));
        assert_eq!(store.show(&tag("a")).await.unwrap().max_id, 510);
    }

    #[tokio::test]
    async fn missing_rows_and_rows_of_the_wrong_kind_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        assert_eq!(store.lease(&tag("a"), ASK).await, Err(StoreError::NoSuchTag));
        assert_eq!(store.set_step(&tag("a"), 5).await, Err(StoreError::NoSuchTag));
        store.create(&tag("good"), 1, 10, "").await.unwrap();
        sqlx::raw_sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 'many')")
            .execute(&store.pool)
            .await
            .unwrap();
        assert!(matches!(store.lease(&tag("a"), ASK).await, Err(StoreError::BadRow(_))));
        assert_eq!(store.list().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_missing_file_is_made_only_when_nothing_was_leased_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        let store = Sqlite::new(&path, SECOND, IfMissing::Refuse);
        let Err(StoreError::Unavailable(error)) = store.list().await else { panic!() };
        assert!(error.contains("leafd adopt") && !path.exists(), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_unavailable_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        std::fs::write(&path, "this is not a database, and longer than a header of one").unwrap();
        let store = Sqlite::new(&path, SECOND, IfMissing::Create);
        assert!(matches!(store.list().await, Err(StoreError::Unavailable(_))));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
    }
}
