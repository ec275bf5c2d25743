//! The embedded store: SQLite in the state directory, for one host. A committed lease is on disk (WAL,
//! `synchronous=FULL`). `file.rs` recognises copies of the database file.

mod file;
mod tables;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use self::file::{has_tables, is_original, make, mark_of, options, written_identity};
use super::Sql;
use super::connections::Connect;
use super::dialect::{Blame, Dialect, Lack, Statements, Tables, calls_by_sqlx};
use crate::state::database::{DatabaseIdentity, NoIdentity};
use crate::state::mark::FileMark;
use crate::store::guard::{DatabaseGuard, UnusableDatabase};
use crate::store::{Store, StoreLimits};

pub use file::{EmbeddedStore, IfMissing};
pub(crate) use file::{is_a_copy, may_be_another, take_over};
pub use tables::SQLITE;
pub(in crate::store) use tables::SQLITE_SCHEMA;
pub(crate) use tables::SQLITE_WORKERS;

/// SQLITE_BUSY and SQLITE_LOCKED, in the low byte of the code: another process has the lock. A probe
/// would not wait for it, so the store does not count as down.
const BUSY: [u32; 2] = [5, 6];

struct Sqlite {
    place: EmbeddedStore,
    options: SqliteConnectOptions,
    guard: Arc<DatabaseGuard>,
    /// The file that the open connection works on.
    opened: Mutex<Option<FileMark>>,
}

/// A store in an SQLite file. leafd opens the file on first use, so that one that cannot be opened does
/// not delay the start.
///
/// # Errors
/// When the pool cannot be built.
pub(in crate::store) fn open(
    place: EmbeddedStore,
    guard: Arc<DatabaseGuard>,
) -> Result<Arc<dyn Store>, String> {
    let described = format!("sqlite {}", place.path.display());
    let timeout = place.timeout;
    let dialect = Sqlite { options: options(&place), place, guard, opened: Mutex::default() };
    // One connection, kept open: nobody else needs the file, and opening it takes time.
    Ok(Arc::new(Sql::new(described, dialect, StoreLimits { timeout, connections: 1 }, None)?))
}

impl Sqlite {
    /// An empty or missing file knows nothing of its leases. Called before SQLite opens the file,
    /// because SQLite removes the write-ahead log of an empty one.
    fn refuse_if_empty(&self) -> Result<(), sqlx::Error> {
        let what = match std::fs::metadata(&self.place.path) {
            // SQLite itself refuses what is not a file.
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

    /// Reads which database this is, and checks that it is in the file in which it was made. Makes the
    /// tables if that is allowed.
    async fn identify(
        &self,
        connection: &mut SqliteConnection,
        may_create: bool,
    ) -> Result<(DatabaseIdentity, FileMark), sqlx::Error> {
        let (has_rows, has_identity) = has_tables(connection).await?;
        if !has_rows && !may_create {
            let what = "the table leaf_alloc is missing from the file".to_owned();
            return Err(self.guard.refuse(UnusableDatabase::Lost { what }).into());
        }
        let mark = mark_of(&self.place.path)?;
        let known = if has_identity { written_identity(connection).await? } else { None };
        let (identity, made_in) = match known {
            Some(known) => {
                Self::execute(connection, SQLITE).await?;
                known
            }
            None if has_rows && self.guard.expects_identity() => {
                let what = "the file is older than the database that this host has recorded";
                return Err(self.copied(what.to_owned()));
            }
            None => {
                // Another process may be faster.
                make(
                    connection,
                    DatabaseIdentity::random(&self.place.environment)?,
                    mark,
                    "INSERT OR IGNORE",
                )
                .await?;
                written_identity(connection).await?.ok_or(sqlx::Error::RowNotFound)?
            }
        };
        let identity: DatabaseIdentity = identity
            .parse()
            .map_err(|error: NoIdentity| sqlx::Error::Configuration(error.into()))?;
        if !is_original(&made_in, mark, self.place.inodes) {
            let now = mark.write();
            let what = format!("the file is a copy: it was made as {made_in}, and this is {now}");
            return Err(self.copied(what));
        }
        Ok((identity, mark))
    }
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
        let (identity, mark) = self.identify(&mut connection, may_create).await?;
        self.guard.check(Some(identity), Some(mark)).await?;
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark);
        // Moves the tables that were just made, and whatever a crash left in the log, into the
        // database file itself.
        if !Self::checkpoint(&mut connection).await? {
            tracing::warn!(
                database = %self.place.path.display(),
                "the tables of the database may be only in its write-ahead log, because another \
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

macro_rules! row {
    ($which:literal) => {
        concat!(
            "SELECT biz_tag, CAST(max_id AS TEXT), CAST(step AS TEXT), description FROM leaf_alloc",
            $which
        )
    };
}

static STATEMENTS: Statements = Statements {
    tags: "leaf_alloc",
    tombstones: "leafd_tombstone",
    page: row!(" WHERE biz_tag >= ? ORDER BY biz_tag LIMIT ?"),
    order: None,
    find: row!(" WHERE biz_tag IN "),
    one: row!(" WHERE biz_tag = ?"),
    // The transaction has the lock of the whole file.
    locked: row!(" WHERE biz_tag = ?"),
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

impl Dialect for Sqlite {
    /// A file of this host alone has no share of anything.
    fn statements(_: Tables) -> &'static Statements {
        &STATEMENTS
    }

    const CHECKPOINTS: bool = true;

    /// If a reader is in the way, SQLite answers with a row instead of an error.
    async fn checkpoint(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        file::checkpoint(connection).await
    }

    /// Takes the write lock at once, so that two processes on one file queue here instead of failing
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

    /// Never: leafd makes the tables itself, and a file has no rights per table.
    fn lack(_: &dyn DatabaseError) -> Option<Lack> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::environment::Environment;
    use crate::ids::BizTag;
    use crate::state::mark::Inodes;
    use crate::store::{LeaseAsk, NewTag, StoreError};

    const SECOND: Duration = Duration::from_secs(1);
    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn place(dir: &tempfile::TempDir, if_missing: IfMissing) -> EmbeddedStore {
        let path = dir.path().join("leafd.db");
        EmbeddedStore {
            path,
            timeout: SECOND,
            if_missing,
            inodes: Inodes::Stable,
            environment: Environment::system(),
        }
    }

    fn opened(place: EmbeddedStore) -> Arc<dyn Store> {
        open(place, DatabaseGuard::unrecorded()).unwrap()
    }

    fn store(dir: &tempfile::TempDir) -> Arc<dyn Store> {
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
    async fn a_missing_row_and_a_bad_row_are_different_errors() {
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
    async fn a_missing_file_is_made_only_if_nothing_was_leased_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        let store = opened(place(&dir, IfMissing::Refuse));
        let Err(StoreError::Down(error)) = store.page("", 1000).await else { panic!() };
        assert!(error.contains("leafd adopt") && !path.exists(), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_is_not_a_database_counts_as_down_and_stays_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.db");
        std::fs::write(&path, "this is not a database, and longer than a header of one").unwrap();
        let store = store(&dir);
        assert!(matches!(store.page("", 1000).await, Err(StoreError::Down(_))));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
    }
}
