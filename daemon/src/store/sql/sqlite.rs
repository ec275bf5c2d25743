//! The embedded store: SQLite in the state directory, for one host. A lease is on disk when it is
//! given (WAL, `synchronous=FULL`).

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};

use super::Sql;
use super::connections::Connect;
use super::dialect::{Blame, Dialect, Lack, Statements, calls_by_sqlx};
use crate::state::database::{DatabaseIdentity, NoIdentity};
use crate::state::mark::{FileMark, Inodes};
use crate::store::guard::{DatabaseGuard, UnusableDatabase};
use crate::store::{Store, StoreLimits, schema};

/// SQLITE_BUSY and SQLITE_LOCKED, in the low byte of the code: another process has the lock. A
/// probe would not wait for it.
const BUSY: [u32; 2] = [5, 6];

/// Whether tables may be made where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Nothing was ever leased from it.
    Create,
    /// Ranges were leased from it: a new one would know nothing of them.
    Refuse,
}

/// Where an embedded store is, and what is known of it.
#[derive(Debug, Clone)]
pub struct EmbeddedStore {
    /// The file.
    pub path: PathBuf,
    /// Bounds calls, and the wait for locks.
    pub timeout: Duration,
    /// Whether tables may be made where there are none.
    pub if_missing: IfMissing,
    /// Whether they tell a copy of the file.
    pub inodes: Inodes,
}

struct Sqlite {
    place: EmbeddedStore,
    options: SqliteConnectOptions,
    guard: Arc<DatabaseGuard>,
    /// The file that the open connection works on.
    opened: Mutex<Option<FileMark>>,
}

/// A store in an SQLite file, which is opened when it is first used, so that one that cannot be
/// opened does not hold up the start.
///
/// # Errors
/// When the pool cannot be built.
pub(in crate::store) fn open(
    place: EmbeddedStore,
    guard: Arc<DatabaseGuard>,
) -> Result<impl Store + use<>, String> {
    let described = format!("sqlite {}", place.path.display());
    let timeout = place.timeout;
    let dialect = Sqlite { options: options(&place), place, guard, opened: Mutex::default() };
    // One connection, kept open: nobody else needs it, and opening it reads the file.
    Sql::new(described, dialect, StoreLimits { timeout, connections: 1 }, None)
}

fn options(place: &EmbeddedStore) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&place.path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Before the call itself is given up, so that the error says what it waited for.
        .busy_timeout(place.timeout * 4 / 5)
}

/// Makes the file at `place` a database of its own: with another identity, and with the file as it
/// is now recorded in it, so that it counts neither as a copy nor as the one that ranges remembered
/// by any host come from. Nothing else in it is changed. Says whether its tables were there; they
/// are made only where `place` allows it.
///
/// # Errors
/// When the file is no database, is in use, or cannot be written.
pub async fn take_over(place: &EmbeddedStore) -> Result<bool, String> {
    let may_create = place.if_missing == IfMissing::Create;
    let take_over = async {
        // SQLite removes the write-ahead log of an empty file.
        let is_empty = std::fs::metadata(&place.path).map_or(true, |file| file.len() == 0);
        if is_empty && !may_create {
            return Ok(false);
        }
        let mut connection = options(place).create_if_missing(may_create).connect().await?;
        let (has_rows, _) = tables(&mut connection).await?;
        if has_rows || may_create {
            make(&mut connection, DatabaseIdentity::random()?, mark_of(&place.path)?, "REPLACE")
                .await?;
            if !Sqlite::checkpoint(&mut connection).await? {
                return Err(sqlx::Error::Protocol("another process reads it".into()));
            }
        }
        sqlx::Connection::close(connection).await?;
        Ok(has_rows)
    };
    take_over.await.map_err(|error: sqlx::Error| format!("{}: {error}", place.path.display()))
}

/// Whether the file at `place` is a copy of the database that leafd made, or without the identity
/// that it is known to have, so that its rows may be older than what was issued.
///
/// # Errors
/// When it cannot be read as a database.
pub async fn is_a_copy(place: &EmbeddedStore, has_identity: bool) -> Result<bool, String> {
    let look = async {
        let mut connection = options(place).connect().await?;
        let (_, names_itself) = tables(&mut connection).await?;
        let said = if names_itself { said(&mut connection).await? } else { None };
        sqlx::Connection::close(connection).await?;
        let Some((_, written_to)) = said else { return Ok(has_identity) };
        Ok(!is_own(&written_to, mark_of(&place.path)?, place.inodes))
    };
    look.await.map_err(|error: sqlx::Error| format!("{}: {error}", place.path.display()))
}

/// Whether a database that says which file it was written to is in that file.
fn is_own(written_to: &str, mark: FileMark, inodes: Inodes) -> bool {
    FileMark::read(written_to).is_some_and(|written| !written.differs_by(mark, inodes))
}

/// Whether a file that cannot be opened as a database might be another one than `recorded`: it has
/// another mark, and nothing shows that it is no database.
#[must_use]
pub fn may_be_another(path: &Path, recorded: Option<FileMark>) -> bool {
    let Some(recorded) = recorded else { return false };
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let is_other = metadata.is_file() && FileMark::of(&metadata).differs_from(recorded);
    let mut header = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    is_other && (read.is_err() || header == *b"SQLite format 3\0")
}

fn mark_of(path: &Path) -> Result<FileMark, sqlx::Error> {
    Ok(FileMark::of(&std::fs::metadata(path)?))
}

/// Makes the tables, and the identity with them, in one transaction.
async fn make(
    connection: &mut SqliteConnection,
    identity: DatabaseIdentity,
    mark: FileMark,
    verb: &str,
) -> Result<(), sqlx::Error> {
    let tables = [schema::SQLITE, schema::SQLITE_IDENTITY].concat();
    let mark = mark.write();
    let text = format!(
        "BEGIN IMMEDIATE; {tables} {verb} INTO leafd_identity (only_row, identity, file) VALUES \
         (1, '{identity}', '{mark}'); COMMIT"
    );
    Sqlite::execute(connection, &text).await
}

impl Sqlite {
    /// What has no table has none of its leases. Looked at before SQLite does, which removes the
    /// write-ahead log of an empty file.
    fn refuse_if_empty(&self) -> Result<(), sqlx::Error> {
        let what = match std::fs::metadata(&self.place.path) {
            // What is no file is SQLite's to refuse.
            Ok(metadata) if metadata.len() > 0 || !metadata.is_file() => return Ok(()),
            Ok(_) => "the file is empty",
            Err(error) if error.kind() == ErrorKind::NotFound => "the file is missing",
            Err(error) => return Err(error.into()),
        };
        Err(self.guard.refuse(UnusableDatabase::Lost { what: what.to_owned() }).into())
    }

    fn copied(&self, what: String) -> sqlx::Error {
        self.guard.refuse(UnusableDatabase::Copied { what }).into()
    }

    /// Which database this is: what it says, and whether it says so in the file that it was
    /// written to. Makes the tables where that is allowed.
    async fn look(
        &self,
        connection: &mut SqliteConnection,
        may_create: bool,
    ) -> Result<(DatabaseIdentity, FileMark), sqlx::Error> {
        let (has_rows, has_identity) = tables(connection).await?;
        if !has_rows && !may_create {
            let what = "the table leaf_alloc is missing from the file".to_owned();
            return Err(self.guard.refuse(UnusableDatabase::Lost { what }).into());
        }
        let mark = mark_of(&self.place.path)?;
        let known = if has_identity { said(connection).await? } else { None };
        let said = match known {
            Some(said) => {
                Self::execute(connection, schema::SQLITE).await?;
                said
            }
            None if has_rows && self.guard.expects_identity() => {
                let what = "the file is older than the database that this host has recorded";
                return Err(self.copied(what.to_owned()));
            }
            None => {
                // Another process may be faster.
                make(connection, DatabaseIdentity::random()?, mark, "INSERT OR IGNORE").await?;
                said(connection).await?.ok_or(sqlx::Error::RowNotFound)?
            }
        };
        let (identity, written_to) = said;
        let identity: DatabaseIdentity = identity
            .parse()
            .map_err(|error: NoIdentity| sqlx::Error::Configuration(error.into()))?;
        if !is_own(&written_to, mark, self.place.inodes) {
            let now = mark.write();
            let what =
                format!("the file is a copy: it was made as {written_to}, and this is {now}");
            return Err(self.copied(what));
        }
        Ok((identity, mark))
    }
}

/// Whether there is a table of tags, and one for the identity.
async fn tables(connection: &mut SqliteConnection) -> Result<(bool, bool), sqlx::Error> {
    let tables = "SELECT count(*) FILTER (WHERE name = 'leaf_alloc') > 0, \
                  count(*) FILTER (WHERE name = 'leafd_identity') > 0 \
                  FROM sqlite_master WHERE type = 'table'";
    sqlx::query_as(tables).fetch_one(connection).await
}

/// The identity in a database, and the file that it was written to.
async fn said(connection: &mut SqliteConnection) -> Result<Option<(String, String)>, sqlx::Error> {
    let said = "SELECT identity, file FROM leafd_identity WHERE only_row = 1";
    sqlx::query_as(said).fetch_optional(connection).await
}

impl Connect for Sqlite {
    type Connection = SqliteConnection;

    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        let may_create = self.place.if_missing == IfMissing::Create && !self.guard.has_seen_one();
        if !may_create {
            self.refuse_if_empty()?;
        }
        let options = self.options.clone().create_if_missing(may_create);
        let mut connection = options.connect().await?;
        let (identity, mark) = self.look(&mut connection, may_create).await?;
        self.guard.check(Some(identity), Some(mark)).await?;
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark);
        // Moves the tables that were just made, and what a crash left in the log, into the database
        // file itself.
        if !Self::checkpoint(&mut connection).await? {
            tracing::warn!(
                database = %self.place.path.display(),
                "the tables of the database may be in its write-ahead log alone, since another \
                 process reads the database; do not remove its -wal file"
            );
        }
        Ok(connection)
    }

    fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }

    fn is_still_there(&self) -> bool {
        let opened = *self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let there = mark_of(&self.place.path);
        there.is_ok_and(|there| {
            opened.is_some_and(|opened| !opened.differs_by(there, self.place.inodes))
        })
    }
}

impl Dialect for Sqlite {
    const STATEMENTS: Statements = Statements {
        page: "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description \
               FROM leaf_alloc WHERE biz_tag >= ? ORDER BY biz_tag LIMIT ?",
        order: None,
        find: "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description \
               FROM leaf_alloc WHERE biz_tag IN ",
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

    const CHECKPOINTS: bool = true;

    /// The answer is a row, and not an error, when somebody who reads holds it up.
    async fn checkpoint(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let (busy, _, _): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(connection).await?;
        Ok(busy == 0)
    }

    /// Takes the write lock at once: two processes on one file queue up here instead of failing
    /// at the UPDATE.
    fn begin_writing(&self) -> String {
        "BEGIN IMMEDIATE".into()
    }

    fn begin_reading(&self) -> String {
        "BEGIN".into()
    }

    fn placeholder(_: usize) -> String {
        "?".into()
    }

    calls_by_sqlx!(Sqlite, SqliteConnection, keep_statements: true);

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
    use crate::ids::BizTag;
    use crate::store::LeaseAsk;
    use crate::store::{NewTag, StoreError};

    const SECOND: Duration = Duration::from_secs(1);
    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn place(dir: &tempfile::TempDir, if_missing: IfMissing) -> EmbeddedStore {
        let path = dir.path().join("leafd.db");
        EmbeddedStore { path, timeout: SECOND, if_missing, inodes: Inodes::Stable }
    }

    fn opened(place: EmbeddedStore) -> impl Store + use<> {
        open(place, DatabaseGuard::unrecorded()).unwrap()
    }

    fn store(dir: &tempfile::TempDir) -> impl Store + use<> {
        opened(place(dir, IfMissing::Create))
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
        assert_eq!(store.page("", 1000).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_missing_file_is_made_only_when_nothing_was_leased_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        let store = opened(place(&dir, IfMissing::Refuse));
        let Err(StoreError::Down(error)) = store.page("", 1000).await else { panic!() };
        assert!(error.contains("leafd adopt") && !path.exists(), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_unavailable_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        std::fs::write(&path, "this is not a database, and longer than a header of one").unwrap();
        let store = store(&dir);
        assert!(matches!(store.page("", 1000).await, Err(StoreError::Down(_))));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
    }
}
