//! MySQL and MariaDB: the table that Java Leaf works on, shared by many hosts.
//!
//! leafd sets REPEATABLE READ for the session, whatever the server's default is, because every
//! `binlog_format` allows it. A lease begins with a locking read by primary key. The read gets the
//! latest committed row and locks only that row (or, until the transaction ends at once, the gap where
//! the row would be). No lease locks two rows, so there is no deadlock among leafd daemons or with
//! Java Leaf, whose UPDATE also locks one row.

mod inspection;
mod tables;
mod url;

use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};

use super::connections::{Connect, IdentifiedBy};
use super::dialect::{
    Blame, Dialect, Lack, Order, ShareStatements, Statements, Tables, WitnessStatements,
    calls_by_sqlx,
};
use super::{open_member, open_shared};
use crate::store::guard::DatabaseGuard;
use crate::store::several::{MemberPlace, MemberStore};
use crate::store::{SharedStore, Store};

use inspection::inspect;
pub use tables::{MARIADB, MARIADB_SEVERAL};
pub(in crate::store) use tables::{
    MARIADB_SCHEMA, MARIADB_SEVERAL_SCHEMA, MYSQL_SCHEMA, MYSQL_SEVERAL_SCHEMA,
    MYSQL_WITNESS_SCHEMA, WORKER_NODE_SCHEMA,
};
pub(in crate::store) use url::MYSQL_DATABASE;

/// Errors that concern every call: too many connections, in all or of this user; no access to the
/// server, database, table or column; a table or column that does not exist; a server that is
/// stopping, read-only, offline, out of memory or disk, or not part of its cluster; a connection that
/// was closed.
const GENERAL: [u16; 37] = [
    1021, 1030, 1037, 1038, 1040, 1041, 1044, 1045, 1046, 1047, 1049, 1053, 1054, 1114, 1129, 1130,
    1142, 1143, 1146, 1184, 1203, 1223, 1226, 1227, 1290, 1461, 1698, 1792, 1820, 1836, 1874, 1927,
    1932, 3032, 3100, 3118, 4031,
];

/// Errors about a value that have no SQLSTATE of their own: two or more collations that cannot be
/// compared; a string that the column's character set cannot hold, in a comparison or in a value.
const BAD_VALUE: [u16; 5] = [1267, 1270, 1271, 3854, 1366];

/// No such table, and no right to it: users without a right to the whole database get the second
/// error for missing tables too.
const NO_TABLE: [u16; 3] = [1142, 1143, 1146];

/// The server closes a silent connection after this and releases its locks: a host that freezes in
/// the middle of a lease must not block the others for long.
const SILENCE: Duration = Duration::from_secs(30);

struct MySql {
    options: MySqlConnectOptions,
    session: String,
    guard: Arc<DatabaseGuard>,
    identified_by: IdentifiedBy,
}

/// A store in MySQL or MariaDB, which connects on first use.
///
/// # Errors
/// When the address has a wrong value.
///
/// # Panics
/// Outside of a runtime.
fn open(shared: &SharedStore, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
    open_shared(shared, dialect(shared, guard, IdentifiedBy::Itself)?)
}

/// As [`open`], for one of several databases.
fn open_one_of_several(
    shared: &SharedStore,
    guard: Arc<DatabaseGuard>,
    place: Option<MemberPlace>,
) -> Result<Arc<dyn MemberStore>, String> {
    open_member(shared, dialect(shared, guard, IdentifiedBy::of(place.as_ref()))?, place)
}

fn dialect(
    shared: &SharedStore,
    guard: Arc<DatabaseGuard>,
    identified_by: IdentifiedBy,
) -> Result<MySql, String> {
    let SharedStore { address, password, limits } = shared;
    let options = url::options(address, password.as_ref()).map_err(|error| error.to_string())?;
    // The server gives up waiting for a lock before leafd gives up the call, and says so.
    let lock_wait = (limits.timeout.as_millis() * 4 / 5 / 1000).max(1);
    let silence = SILENCE.max(limits.timeout * 3).as_secs();
    // The first wait is for a row, the second for the table, as during an ALTER. Strict mode: a
    // server without it stores the nearest value that fits instead of a new `max_id` that does not,
    // and the next lease would begin inside this one.
    let session = format!(
        "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {lock_wait}, \
         SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = {silence}, \
         SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')"
    );
    Ok(MySql { options, session, guard, identified_by })
}

impl Connect for MySql {
    type Connection = MySqlConnection;

    async fn connect(&self) -> Result<MySqlConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        Self::execute(&mut connection, isolation).await?;
        Self::execute(&mut connection, &self.session).await?;
        if self.guard.witness().is_some_and(|witness| witness.is_there() == Some(true)) {
            note_server(&mut connection).await?;
        }
        let identity = sqlx::query_scalar(match self.identified_by {
            IdentifiedBy::Itself => "SELECT identity FROM leafd_identity WHERE only_row = 1",
            IdentifiedBy::Division(_) => "SELECT division FROM leafd_division WHERE only_row = 1",
            IdentifiedBy::Nothing => return Ok(connection),
        });
        let answer = identity.fetch_optional(&mut connection).await;
        self.identified_by.check(&self.guard, answer, |error| Self::lack(error).is_some()).await?;
        Ok(connection)
    }

    fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }
}

/// Keeps in the session which start of which server this is. Both clocks in it are read at one instant, so the
/// second of the start comes out the same each time. A proxy that replaces the connection loses it, and a server
/// that does not tell leaves it empty; nothing is leased then.
async fn note_server(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    macro_rules! set {
        ($table:literal) => {
            concat!(
                "SET @leafd_server = CONCAT(REPLACE(REPLACE(@@hostname, ';', ''), '|', ''), '/', ",
                "@@port, '/', @@server_id, '/', CAST(UNIX_TIMESTAMP() - (SELECT VARIABLE_VALUE FROM ",
                $table,
                " WHERE VARIABLE_NAME = 'Uptime') AS SIGNED))"
            )
        };
    }
    let allowed = |outcome| match outcome {
        Ok(()) => Ok(true),
        Err(sqlx::Error::Database(_)) => Ok(false),
        Err(error) => Err(error),
    };
    // The first is MariaDB's, the second MySQL's.
    if !allowed(MySql::execute(connection, set!("information_schema.GLOBAL_STATUS")).await)? {
        allowed(MySql::execute(connection, set!("performance_schema.global_status")).await)?;
    }
    // In newer MariaDBs, a read that waited for a lock fails if the transaction has read something before.
    let isolation = "SET SESSION innodb_snapshot_isolation = OFF";
    allowed(MySql::execute(connection, isolation).await).map(drop)
}

/// Whether a collation orders like the bytes of UTF-8. A column of bytes has no collation, and does.
fn is_by_bytes(collation: &str) -> bool {
    let of_utf8 = collation.starts_with("utf8") || collation.starts_with("ascii");
    collation.is_empty() || (of_utf8 && collation.ends_with("_bin"))
}

/// The statements on two tables: of tags, and of tombstones. The first reads columns of bytes as text too.
macro_rules! statements {
    ($tags:literal, $tombstones:literal) => {{
        macro_rules! row {
            ($which:literal) => {
                concat!(
                    "SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), CAST(step AS CHAR), ",
                    "CAST(description AS CHAR) FROM ",
                    $tags,
                    $which
                )
            };
        }
        Statements {
            tags: $tags,
            tombstones: $tombstones,
            page: row!(" WHERE biz_tag >= ? ORDER BY biz_tag LIMIT ?"),
            order: Some(Order {
                collation: concat!(
                    "SELECT collation_name, NULL, NULL, NULL FROM information_schema.columns ",
                    "WHERE table_schema = DATABASE() AND table_name = '",
                    $tags,
                    "' AND column_name = 'biz_tag'"
                ),
                is_by_bytes,
                sorted_page: row!(
                    " WHERE CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) >= CAST(? AS BINARY) \
                     ORDER BY CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) LIMIT ?"
                ),
            }),
            find: row!(" WHERE biz_tag IN "),
            one: row!(" WHERE biz_tag = ?"),
            locked: row!(" WHERE biz_tag = ? FOR UPDATE"),
            set_max_id: concat!(
                "UPDATE ",
                $tags,
                " SET max_id = ? WHERE biz_tag = ? AND max_id = ?"
            ),
            set_step: concat!("UPDATE ", $tags, " SET step = ? WHERE biz_tag = ?"),
            insert: concat!(
                "INSERT INTO ",
                $tags,
                " (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)"
            ),
            delete: concat!("DELETE FROM ", $tags, " WHERE biz_tag = ? AND max_id = ?"),
            // Locks, because only a locking read sees what others have committed by now.
            tombstone: concat!(
                "SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), NULL, NULL FROM ",
                $tombstones,
                " WHERE biz_tag = ? FOR UPDATE"
            ),
            insert_tombstone: concat!(
                "INSERT INTO ",
                $tombstones,
                " (biz_tag, max_id) VALUES (?, ?)"
            ),
            raise_tombstone: concat!("UPDATE ", $tombstones, " SET max_id = ? WHERE biz_tag = ?"),
            probe: concat!(
                "UPDATE ",
                $tags,
                " SET max_id = max_id + step WHERE biz_tag = '' AND 1 = 0"
            ),
        }
    }};
}

/// The name of the fleet's row.
macro_rules! fleet {
    () => {
        "'00000000000000000000000000000000'"
    };
}

/// A row of the witness table as one text.
macro_rules! columns {
    () => {
        "CAST(CONCAT_WS('|', beat, base, confirmed, presence, roster, joined, seen, server, shown) AS CHAR)"
    };
}

/// The server, the fleet's row, and the row of one host. Reads of a snapshot: they lock nothing.
macro_rules! facts {
    () => {
        concat!(
            "CAST(CONCAT(IFNULL(@leafd_server, ''), ';', IFNULL((SELECT ",
            columns!(),
            " FROM leafd_witness WHERE host = ",
            fleet!(),
            "), '-'), ';', IFNULL((SELECT ",
            columns!(),
            " FROM leafd_witness WHERE host = ?), '-')) AS CHAR)"
        )
    };
}

impl Dialect for MySql {
    fn statements(tables: Tables) -> &'static Statements {
        static LEAF: Statements = statements!("leaf_alloc", "leafd_tombstone");
        static SHARES: Statements = statements!("leafd_share_tag", "leafd_share_tombstone");
        match tables {
            Tables::Leaf => &LEAF,
            Tables::Shares => &SHARES,
        }
    }

    const SHARES: Option<ShareStatements> = Some(ShareStatements {
        division: "SELECT CAST(division AS CHAR), CAST(share AS CHAR), CAST(block AS CHAR), \
                   CONCAT(shares, ' ', closed, ' ', member, ' ', share_end) \
                   FROM leafd_division WHERE only_row = 1",
        join: "INSERT INTO leafd_division \
               (only_row, division, member, shares, block, share, share_end, closed) \
               VALUES (1, ?, ?, ?, ?, -1, -1, 0)",
        rejoin: "UPDATE leafd_division SET division = ?, member = ?, shares = ?, block = ?, \
                    closed = 0 WHERE only_row = 1 AND share = -1 AND division <> ?",
        set_share: "UPDATE leafd_division SET share = ?, share_end = ? \
                    WHERE only_row = 1 AND share = -1 AND member = ?",
        set_closed: "UPDATE leafd_division SET closed = ? WHERE only_row = 1 AND member = ?",
        grant_of: "SELECT CAST(member AS CHAR), CAST(share AS CHAR), CAST(share_end AS CHAR), NULL \
                   FROM leafd_share_grant WHERE member = ?",
        take: "UPDATE leafd_division SET share_end = ? \
               WHERE only_row = 1 AND share_end = ? AND division = ? AND member = ?",
        grant: "INSERT INTO leafd_share_grant (member, share, share_end) VALUES (?, ?, ?)",
    });

    const WITNESS: Option<WitnessStatements> = Some(WitnessStatements {
        glance: concat!("SELECT '', CAST(UNIX_TIMESTAMP() AS CHAR), NULL, ", facts!()),
        leasable: concat!(
            "SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), CAST(step AS CHAR), ",
            facts!(),
            " FROM leaf_alloc WHERE biz_tag = ? FOR UPDATE"
        ),
        look: "SELECT CAST(table_name AS CHAR), NULL, NULL, NULL FROM information_schema.tables \
               WHERE table_schema = DATABASE() AND table_name = 'leafd_witness'",
        lock_fleet: concat!(
            "SELECT CAST(host AS CHAR), NULL, NULL, NULL FROM leafd_witness WHERE host = ",
            fleet!(),
            " FOR UPDATE"
        ),
        all: concat!("SELECT CAST(host AS CHAR), NULL, NULL, ", columns!(), " FROM leafd_witness"),
        insert: "INSERT INTO leafd_witness (beat, base, confirmed, presence, roster, joined, seen, \
                 server, shown, host) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        update: "UPDATE leafd_witness SET beat = ?, base = ?, confirmed = ?, presence = ?, roster = ?, \
                 joined = ?, seen = ?, server = ?, shown = ? WHERE host = ?",
        delete: "DELETE FROM leafd_witness WHERE host = ?",
        skip: [
            "UPDATE leaf_alloc SET max_id = max_id + ? WHERE max_id >= 0 AND max_id <= ?",
            "UPDATE leafd_tombstone SET max_id = max_id + ? WHERE max_id >= 0 AND max_id <= ?",
        ],
    });

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
            Some(number) if BAD_VALUE.contains(&number) => Blame::Value,
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
