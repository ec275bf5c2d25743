//! MySQL and MariaDB: the table that Java Leaf works on, shared by many hosts.
//!
//! REPEATABLE READ, since every `binlog_format` allows it, and set for the session, whatever the
//! server's default is. A lease begins with a locking read by primary key, which gets the latest
//! committed row and locks that row alone (or the gap where it would be, until the end of the
//! transaction, which comes at once); no transaction locks two, so there is no deadlock, neither
//! among leafd nor with Java Leaf, whose UPDATE locks one row as well.

use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};

use super::Sql;
use super::connections::Connect;
use super::dialect::{Blame, Dialect, Lack, Order, Statements, calls_by_sqlx};
use crate::store::guard::{DatabaseGuard, check_shared};
use crate::store::{IDLE, SharedStore, Store};

/// What no call goes well with: too many connections, of all or of this user; no access to the
/// server, database, table or column; a table or column that is not there; a server that stops, is
/// read-only, offline, out of memory or of disk, or not part of its cluster; a connection that was
/// closed.
const GENERAL: [u16; 37] = [
    1021, 1030, 1037, 1038, 1040, 1041, 1044, 1045, 1046, 1047, 1049, 1053, 1054, 1114, 1129, 1130,
    1142, 1143, 1146, 1184, 1203, 1223, 1226, 1227, 1290, 1461, 1698, 1792, 1820, 1836, 1874, 1927,
    1932, 3032, 3100, 3118, 4031,
];

/// Collations that cannot be compared, two of them or many; a string that cannot be converted to the column's letters,
/// in a comparison and in a value: they have no SQLSTATE of their own.
const NO_ROOM: [u16; 5] = [1267, 1270, 1271, 3854, 1366];

/// No such table; and no right to it, which users without a right to the whole database are told
/// of tables that are not there as well.
const NO_TABLE: [u16; 3] = [1142, 1143, 1146];

/// A silent connection is closed by the server after this, and what it locks is free again: a host
/// that freezes in the middle of a lease must not hold up the others for long.
const SILENCE: Duration = Duration::from_secs(30);

struct MySql {
    options: MySqlConnectOptions,
    session: String,
    guard: Arc<DatabaseGuard>,
}

/// A store in MySQL or MariaDB, which connects when it is first used.
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
    let options = address.mysql(password.as_ref()).map_err(|error| error.to_string())?;
    // The server gives up a lock before leafd gives up the call, and says so.
    let lock_wait = (limits.timeout.as_millis() * 4 / 5 / 1000).max(1);
    let silence = SILENCE.max(limits.timeout * 3).as_secs();
    // The first of these times is for a row, the second for the table, as during an ALTER. Strict:
    // a server that is not stores the nearest value that fits where a new `max_id` does not, and
    // the next lease would begin within this one.
    let session = format!(
        "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {lock_wait}, \
         SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = {silence}, \
         SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')"
    );
    let dialect = MySql { options, session, guard };
    Sql::new(address.to_string(), dialect, *limits, Some(IDLE))
}

impl Connect for MySql {
    type Connection = MySqlConnection;

    async fn connect(&self) -> Result<MySqlConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        Self::execute(&mut connection, isolation).await?;
        Self::execute(&mut connection, &self.session).await?;
        let identity = sqlx::query_scalar("SELECT identity FROM leafd_identity WHERE only_row = 1");
        let identity = identity.fetch_optional(&mut connection).await;
        check_shared(&self.guard, identity, |error| Self::lack(error).is_some()).await?;
        Ok(connection)
    }

    fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }
}

/// Whether a collation has the order of the bytes of UTF-8. A column of bytes has none, and has it.
fn is_by_bytes(collation: &str) -> bool {
    let of_utf8 = collation.starts_with("utf8") || collation.starts_with("ascii");
    collation.is_empty() || (of_utf8 && collation.ends_with("_bin"))
}

/// Also columns of bytes are read as text.
macro_rules! row {
    ($which:literal) => {
        concat!(
            "SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), CAST(step AS CHAR), ",
            "CAST(description AS CHAR) FROM leaf_alloc",
            $which
        )
    };
}

impl Dialect for MySql {
    const STATEMENTS: Statements = Statements {
        page: row!(" WHERE biz_tag >= ? ORDER BY biz_tag LIMIT ?"),
        order: Some(Order {
            collation: "SELECT collation_name, NULL, NULL, NULL FROM information_schema.columns \
                        WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc' \
                        AND column_name = 'biz_tag'",
            is_by_bytes,
            sorted_page: row!(
                " WHERE CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) >= CAST(? AS BINARY) \
                 ORDER BY CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) LIMIT ?"
            ),
        }),
        find: row!(" WHERE biz_tag IN "),
        one: row!(" WHERE biz_tag = ?"),
        locked: row!(" WHERE biz_tag = ? FOR UPDATE"),
        set_max_id: "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ? AND max_id = ?",
        set_step: "UPDATE leaf_alloc SET step = ? WHERE biz_tag = ?",
        insert: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
        delete: "DELETE FROM leaf_alloc WHERE biz_tag = ? AND max_id = ?",
        // Locked, since only a locking read sees what others have committed by now.
        tombstone: "SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), NULL, NULL \
                    FROM leafd_tombstone WHERE biz_tag = ? FOR UPDATE",
        insert_tombstone: "INSERT INTO leafd_tombstone (biz_tag, max_id) VALUES (?, ?)",
        raise_tombstone: "UPDATE leafd_tombstone SET max_id = ? WHERE biz_tag = ?",
        probe: "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = '' AND 1 = 0",
    };

    fn begin_writing(&self) -> String {
        "START TRANSACTION".into()
    }

    fn begin_reading(&self) -> String {
        "START TRANSACTION READ ONLY".into()
    }

    fn placeholder(_: usize) -> String {
        "?".into()
    }

    calls_by_sqlx!(MySql, MySqlConnection, keep_statements: true);

    fn blame(error: &dyn DatabaseError) -> Blame {
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
        match number {
            Some(number) if GENERAL.contains(&number) => Blame::Server,
            Some(number) if NO_ROOM.contains(&number) => Blame::Value,
            _ => Blame::by_standard(error),
        }
    }

    fn lack(error: &dyn DatabaseError) -> Option<Lack> {
        match error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number) {
            Some(number) if NO_TABLE.contains(&number) => Some(Lack::Table),
            _ => None,
        }
    }
}
