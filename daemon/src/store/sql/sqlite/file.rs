//! The file of the embedded store: where it is, which database it holds, and whether it is a copy.
//! `leafd adopt` makes a copy this host's own.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};

use super::tables::{IDENTITY, SQLITE};
use crate::environment::Environment;
use crate::state::database::DatabaseIdentity;
use crate::state::mark::{FileMark, Inodes};

/// Whether leafd may make tables where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Yes: nothing was ever leased from the database.
    Create,
    /// No: ranges were leased, and new tables would know nothing of them.
    Refuse,
}

/// Where an embedded store is, and what leafd knows of it.
#[derive(Debug, Clone)]
pub struct EmbeddedStore {
    /// The database file.
    pub path: PathBuf,
    /// Time limit for a call, including the wait for locks.
    pub timeout: Duration,
    /// Whether leafd may make tables where there are none.
    pub if_missing: IfMissing,
    /// Whether the inode number tells the file from a copy.
    pub inodes: Inodes,
    /// Gives a new database its random identity.
    pub environment: Environment,
}

pub(super) fn options(place: &EmbeddedStore) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&place.path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Shorter than the limit of the call, so that the error says what it waited for.
        .busy_timeout(place.timeout * 4 / 5)
}

/// Gives the database at `place` a new identity and records the present file in it. After that it
/// counts neither as a copy nor as the database that any host's remembered ranges come from. Nothing
/// else changes. Returns whether the tables existed; makes them only if `place` allows it.
///
/// # Errors
/// When the file is no database, is in use, or cannot be written.
pub(crate) async fn take_over(place: &EmbeddedStore) -> Result<bool, String> {
    let may_create = place.if_missing == IfMissing::Create;
    let take_over = async {
        // SQLite removes the write-ahead log of an empty file.
        let is_empty = std::fs::metadata(&place.path).map_or(true, |file| file.len() == 0);
        if is_empty && !may_create {
            return Ok(false);
        }
        let mut connection = options(place).create_if_missing(may_create).connect().await?;
        let (has_rows, _) = has_tables(&mut connection).await?;
        if has_rows || may_create {
            make(
                &mut connection,
                DatabaseIdentity::random(&place.environment)?,
                mark_of(&place.path)?,
                "REPLACE",
            )
            .await?;
            if !checkpoint(&mut connection).await? {
                return Err(sqlx::Error::Protocol("another process reads it".into()));
            }
        }
        sqlx::Connection::close(connection).await?;
        Ok(has_rows)
    };
    take_over.await.map_err(|error: sqlx::Error| format!("{}: {error}", place.path.display()))
}

/// Whether the file at `place` is a copy of the database that leafd made, or lacks the identity that it
/// is known to have. Its rows may then be older than what was issued.
///
/// # Errors
/// When it cannot be read as a database.
pub(crate) async fn is_a_copy(place: &EmbeddedStore, has_identity: bool) -> Result<bool, String> {
    let look = async {
        let mut connection = options(place).connect().await?;
        let (_, has_table) = has_tables(&mut connection).await?;
        let known = if has_table { written_identity(&mut connection).await? } else { None };
        sqlx::Connection::close(connection).await?;
        let Some((_, made_in)) = known else { return Ok(has_identity) };
        Ok(!is_original(&made_in, mark_of(&place.path)?, place.inodes))
    };
    look.await.map_err(|error: sqlx::Error| format!("{}: {error}", place.path.display()))
}

/// Whether a database that was made in the file `made_in` is still in that file, which has `mark`.
pub(super) fn is_original(made_in: &str, mark: FileMark, inodes: Inodes) -> bool {
    FileMark::read(made_in).is_some_and(|written| !written.differs_by(mark, inodes))
}

/// Whether a file that cannot be opened as a database might be another database than the one in the
/// file `recorded`: it has another mark, and its header may be that of a database.
pub(crate) fn may_be_another(path: &Path, recorded: Option<FileMark>) -> bool {
    let Some(recorded) = recorded else { return false };
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let is_other = metadata.is_file() && FileMark::of(&metadata).differs_from(recorded);
    let mut header = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    is_other && (read.is_err() || header == *b"SQLite format 3\0")
}

pub(super) fn mark_of(path: &Path) -> Result<FileMark, sqlx::Error> {
    Ok(FileMark::of(&std::fs::metadata(path)?))
}

/// Makes the tables and the identity in one transaction. `verb` is the SQL verb that writes the
/// identity: it decides what happens to one that exists.
pub(super) async fn make(
    connection: &mut SqliteConnection,
    identity: DatabaseIdentity,
    mark: FileMark,
    verb: &str,
) -> Result<(), sqlx::Error> {
    let tables = [SQLITE, IDENTITY].concat();
    let mark = mark.write();
    let text = format!(
        "BEGIN IMMEDIATE; {tables} {verb} INTO leafd_identity (only_row, identity, file) VALUES \
         (1, '{identity}', '{mark}'); COMMIT"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(connection).await.map(drop)
}

/// Moves the write-ahead log into the database file. Returns false if a reader is in the way.
pub(super) async fn checkpoint(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let (busy, _, _): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(connection).await?;
    Ok(busy == 0)
}

/// Whether there is a table of tags, and one for the identity.
pub(super) async fn has_tables(
    connection: &mut SqliteConnection,
) -> Result<(bool, bool), sqlx::Error> {
    let tables = "SELECT count(*) FILTER (WHERE name = 'leaf_alloc') > 0, \
                  count(*) FILTER (WHERE name = 'leafd_identity') > 0 \
                  FROM sqlite_master WHERE type = 'table'";
    sqlx::query_as(tables).fetch_one(connection).await
}

/// The identity in a database, and the mark of the file in which it was made.
pub(super) async fn written_identity(
    connection: &mut SqliteConnection,
) -> Result<Option<(String, String)>, sqlx::Error> {
    let identity = "SELECT identity, file FROM leafd_identity WHERE only_row = 1";
    sqlx::query_as(identity).fetch_optional(connection).await
}
