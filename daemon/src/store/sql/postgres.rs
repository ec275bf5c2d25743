//! PostgreSQL, shared by many hosts.
//!
//! READ COMMITTED, said at each BEGIN, whatever the server's default is: a lease begins with a
//! locking read of its row, which waits for who has it and then reads what that one committed; the
//! stricter levels would end in a serialization failure there. No transaction locks two rows, so
//! there is no deadlock.

use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::Sql;
use super::connections::Connect;
use super::dialect::{Blame, Dialect, Lack, Statements, calls_by_sqlx};
use crate::store::guard::{DatabaseGuard, check_shared};
use crate::store::{IDLE, LONG_READ, SharedStore, Store};

/// What no call goes well with, by the beginning of its code: connection, authorization, a database
/// or schema that is not there, resources, a server that stops, the system, a defect; and a server
/// that is read-only, no right to the table, a table or column that is not there.
const GENERAL: [&str; 12] =
    ["08", "28", "3D", "3F", "53", "57P", "58", "XX", "25006", "42501", "42P01", "42703"];

struct Postgres {
    options: PgConnectOptions,
    timeout: Duration,
    guard: Arc<DatabaseGuard>,
}

/// A store in PostgreSQL, which connects when it is first used.
///
/// # Errors
/// When the address has a wrong value.
///
/// # Panics
/// Outside of a runtime.
pub(in crate::store) fn open(
    shared: &SharedStore,
    guard: Arc<DatabaseGuard>,
) -> Result<impl Store + use<>, String> {
    let SharedStore { address, password, limits } = shared;
    let options = address.postgres(password.as_ref()).map_err(|error| error.to_string())?;
    let dialect = Postgres { options, timeout: limits.timeout, guard };
    Sql::new(address.to_string(), dialect, *limits, Some(IDLE))
}

impl Postgres {
    /// The server gives up before leafd does, and says what it waited for: nothing that waits for
    /// a lock stays behind on it. Who queues for a row behind another one takes two locks, one
    /// after the other, so the statement is bounded too. A host that freezes in the middle of a
    /// lease does not hold up the others for long. All of that is said in the transaction, so that
    /// it holds behind a pooler as well.
    fn bounds(&self, statement: Duration) -> String {
        let ms = |time: Duration| time.as_millis().max(1);
        format!(
            "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}",
            ms(self.timeout * 4 / 5),
            ms(statement),
            ms(self.timeout * 3),
        )
    }
}

impl Connect for Postgres {
    type Connection = PgConnection;

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let identity =
            sqlx::query_scalar("SELECT identity::text FROM leafd_identity WHERE only_row = 1");
        let identity = identity.persistent(false).fetch_optional(&mut connection).await;
        check_shared(&self.guard, identity, |error| Self::lack(error).is_some()).await?;
        Ok(connection)
    }

    fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }
}

/// Of one type and collation, whatever the table's are.
macro_rules! row {
    ($which:literal) => {
        concat!(
            "SELECT biz_tag::text COLLATE \"C\", max_id::text, step::text, ",
            "description::text COLLATE \"C\" FROM leaf_alloc",
            $which
        )
    };
}

impl Dialect for Postgres {
    const STATEMENTS: Statements = Statements {
        // Uses the index where the column has this collation, and sorts where it has another.
        page: row!(" WHERE biz_tag COLLATE \"C\" >= $1 ORDER BY biz_tag COLLATE \"C\" LIMIT $2"),
        order: None,
        find: row!(" WHERE biz_tag IN "),
        one: row!(" WHERE biz_tag = $1"),
        locked: row!(" WHERE biz_tag = $1 FOR UPDATE"),
        set_max_id: "UPDATE leaf_alloc SET max_id = $1, update_time = CURRENT_TIMESTAMP \
                     WHERE biz_tag = $2 AND max_id = $3",
        set_step: "UPDATE leaf_alloc SET step = $1::bigint, update_time = CURRENT_TIMESTAMP \
                   WHERE biz_tag = $2",
        insert: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) \
                 VALUES ($1, $2, $3::bigint, $4)",
        delete: "DELETE FROM leaf_alloc WHERE biz_tag = $1 AND max_id = $2",
        tombstone: "SELECT biz_tag::text COLLATE \"C\", max_id::text, NULL::text, NULL::text \
                    FROM leafd_tombstone WHERE biz_tag = $1",
        insert_tombstone: "INSERT INTO leafd_tombstone (biz_tag, max_id) VALUES ($1, $2)",
        raise_tombstone: "UPDATE leafd_tombstone SET max_id = $1, deleted = CURRENT_TIMESTAMP \
                          WHERE biz_tag = $2",
        probe: "UPDATE leaf_alloc SET max_id = max_id + step WHERE false",
    };

    /// A lease that is answered is on disk, also where the server's default is not to wait for
    /// that. Where transactions are read-only by default it is to be so: old primaries are fenced
    /// like that.
    fn begin_writing(&self) -> String {
        let bounds = self.bounds(self.timeout);
        format!("BEGIN ISOLATION LEVEL READ COMMITTED; {bounds}; SET LOCAL synchronous_commit = on")
    }

    fn begin_reading(&self) -> String {
        let bounds = self.bounds(self.timeout * (LONG_READ - 1));
        format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {bounds}")
    }

    fn placeholder(number: usize) -> String {
        format!("${number}")
    }

    // Behind a pooler that changes the server's connection after each transaction, a statement that
    // was prepared in an earlier one is not there any more.
    calls_by_sqlx!(Postgres, PgConnection, keep_statements: false);

    fn blame(error: &dyn DatabaseError) -> Blame {
        let code = error.code().unwrap_or_default();
        if GENERAL.iter().any(|general| code.starts_with(general)) {
            return Blame::Server;
        }
        Blame::by_standard(error)
    }

    fn lack(error: &dyn DatabaseError) -> Option<Lack> {
        match error.code().as_deref() {
            Some("42P01") => Some(Lack::Table),
            Some("42501") => Some(Lack::Right),
            _ => None,
        }
    }
}
