//! PostgreSQL, shared by many hosts.
//!
//! Each BEGIN asks for READ COMMITTED, whatever the server's default is. A lease begins with a locking
//! read of its row, which waits for the transaction that holds the row and then reads what that one
//! committed; stricter levels would fail there with a serialization error. No lease locks two
//! rows, so there is no deadlock.

mod inspection;
mod url;

use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::connections::{Connect, IdentifiedBy};
use super::dialect::{
    Blame, Dialect, Lack, ShareStatements, Statements, Tables, WitnessStatements, calls_by_sqlx,
};
use super::schema::{
    IdentityTable, SchemaDialect, share_tables, standard_tables, witness_table, worker_tables,
};
use super::{LONG_READ, open_member, open_shared};
use crate::store::guard::DatabaseGuard;
use crate::store::several::{MemberPlace, MemberStore};
use crate::store::{SharedStore, Store};

use inspection::inspect;
pub(in crate::store) use url::POSTGRES_DATABASE;

/// Leaf's tables in PostgreSQL.
pub const POSTGRES: &str = standard_tables!(tag: "varchar(128) COLLATE \"C\"");

const IDENTITY: IdentityTable = IdentityTable {
    digits: "char(32)",
    options: "",
    insert: "INSERT",
    or_nothing: " ON CONFLICT DO NOTHING",
};

pub(in crate::store) const POSTGRES_SCHEMA: SchemaDialect = SchemaDialect {
    name: "postgres",
    title: "PostgreSQL",
    tables: POSTGRES,
    identity: |identity| IDENTITY.statements(identity),
    workers: worker_tables!(
        name: "varchar(64) COLLATE \"C\"",
        path: "varchar(640) COLLATE \"C\"",
        options: ""
    ),
};

/// The tables of one of several databases in PostgreSQL.
pub const POSTGRES_SEVERAL: &str = share_tables!(
    tag: "varchar(128) COLLATE \"C\"", digits: "char(32)", now: "", options: ""
);

pub(in crate::store) const POSTGRES_SEVERAL_SCHEMA: SchemaDialect = SchemaDialect {
    name: "postgres-several",
    title: "PostgreSQL, as one of several databases (store.kind = \"several\")",
    tables: POSTGRES_SEVERAL,
    identity: |_| String::new(),
    workers: "",
};

pub(in crate::store) const POSTGRES_WITNESS_SCHEMA: SchemaDialect = SchemaDialect {
    name: "postgres-witness",
    title: "PostgreSQL, in addition: the table by which a fleet notices lost leases",
    tables: witness_table!(name: "varchar(32) COLLATE \"C\"", options: ""),
    identity: |_| String::new(),
    workers: "",
};

/// Beginnings of SQLSTATEs that concern every call: connection, authorization, a database or schema
/// that does not exist, resources, a server that is stopping, the system, a defect; and a read-only
/// server, no right to the table, a table or column that does not exist.
const GENERAL: [&str; 12] =
    ["08", "28", "3D", "3F", "53", "57P", "58", "XX", "25006", "42501", "42P01", "42703"];

struct Postgres {
    options: PgConnectOptions,
    timeout: Duration,
    guard: Arc<DatabaseGuard>,
    identified_by: IdentifiedBy,
}

/// A store in PostgreSQL, which connects on first use.
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
) -> Result<Postgres, String> {
    let SharedStore { address, password, limits } = shared;
    let options = url::options(address, password.as_ref()).map_err(|error| error.to_string())?;
    Ok(Postgres { options, timeout: limits.timeout, guard, identified_by })
}

impl Postgres {
    /// The server gives up before leafd does, and says what it waited for, so nothing stays behind
    /// on the server that waits for a lock. A statement that queues for a row behind another one
    /// takes two locks, one after the other, so the statement has a bound too. A host that freezes in
    /// the middle of a lease does not block the others for long. The transaction sets all bounds
    /// itself, so that they also hold behind a pooler.
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
        let identity = sqlx::query_scalar(match self.identified_by {
            IdentifiedBy::Itself => "SELECT identity::text FROM leafd_identity WHERE only_row = 1",
            IdentifiedBy::Division(_) => {
                "SELECT division::text FROM leafd_division WHERE only_row = 1"
            }
            IdentifiedBy::Nothing => return Ok(connection),
        });
        let answer = identity.persistent(false).fetch_optional(&mut connection).await;
        self.identified_by.check(&self.guard, answer, |error| Self::lack(error).is_some()).await?;
        Ok(connection)
    }

    fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }
}

/// The statements on two tables: of tags, and of tombstones. They read one type and collation, whatever
/// the tables have.
macro_rules! statements {
    ($tags:literal, $tombstones:literal) => {{
        macro_rules! row {
            ($which:literal) => {
                concat!(
                    "SELECT biz_tag::text COLLATE \"C\", max_id::text, step::text, ",
                    "description::text COLLATE \"C\" FROM ",
                    $tags,
                    $which
                )
            };
        }
        Statements {
            tags: $tags,
            tombstones: $tombstones,
            // Uses the index where the column has this collation, and sorts where it has another.
            page: row!(
                " WHERE biz_tag COLLATE \"C\" >= $1 ORDER BY biz_tag COLLATE \"C\" LIMIT $2"
            ),
            order: None,
            find: row!(" WHERE biz_tag IN "),
            one: row!(" WHERE biz_tag = $1"),
            locked: row!(" WHERE biz_tag = $1 FOR UPDATE"),
            set_max_id: concat!(
                "UPDATE ",
                $tags,
                " SET max_id = $1, update_time = CURRENT_TIMESTAMP ",
                "WHERE biz_tag = $2 AND max_id = $3"
            ),
            set_step: concat!(
                "UPDATE ",
                $tags,
                " SET step = $1::bigint, update_time = CURRENT_TIMESTAMP WHERE biz_tag = $2"
            ),
            insert: concat!(
                "INSERT INTO ",
                $tags,
                " (biz_tag, max_id, step, description) VALUES ($1, $2, $3::bigint, $4)"
            ),
            delete: concat!("DELETE FROM ", $tags, " WHERE biz_tag = $1 AND max_id = $2"),
            tombstone: concat!(
                "SELECT biz_tag::text COLLATE \"C\", max_id::text, NULL::text, NULL::text FROM ",
                $tombstones,
                " WHERE biz_tag = $1"
            ),
            insert_tombstone: concat!(
                "INSERT INTO ",
                $tombstones,
                " (biz_tag, max_id) VALUES ($1, $2)"
            ),
            raise_tombstone: concat!(
                "UPDATE ",
                $tombstones,
                " SET max_id = GREATEST(max_id, $1), deleted = CURRENT_TIMESTAMP WHERE biz_tag = $2"
            ),
            probe: concat!("UPDATE ", $tags, " SET max_id = max_id + step WHERE false"),
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
        "concat_ws('|', beat, base, confirmed, presence, roster, joined, seen, server, shown)"
    };
}

/// The start of the server, to the microsecond, the fleet's row, and the row of one host: one subquery, since each
/// lease plans it anew.
macro_rules! facts {
    () => {
        concat!(
            "concat((extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, ';', ",
            "(SELECT concat(coalesce(max(",
            columns!(),
            ") FILTER (WHERE host = ",
            fleet!(),
            "), '-'), ';', coalesce(max(",
            columns!(),
            ") FILTER (WHERE host <> ",
            fleet!(),
            "), '-')) FROM leafd_witness WHERE host IN (",
            fleet!(),
            ", $1)))"
        )
    };
}

impl Dialect for Postgres {
    fn statements(tables: Tables) -> &'static Statements {
        static LEAF: Statements = statements!("leaf_alloc", "leafd_tombstone");
        static SHARES: Statements = statements!("leafd_share_tag", "leafd_share_tombstone");
        match tables {
            Tables::Leaf => &LEAF,
            Tables::Shares => &SHARES,
        }
    }

    const SHARES: Option<ShareStatements> = Some(ShareStatements {
        division: "SELECT division::text, share::text, block::text, \
                   concat(shares, ' ', closed, ' ', member, ' ', share_end) \
                   FROM leafd_division WHERE only_row = 1",
        join: "INSERT INTO leafd_division \
               (only_row, division, member, shares, block, share, share_end, closed) \
               VALUES (1, $1, $2, $3, $4, -1, -1, 0)",
        rejoin: "UPDATE leafd_division SET division = $1, member = $2, shares = $3, block = $4, \
                    closed = 0 WHERE only_row = 1 AND share = -1 AND division <> $5",
        set_share: "UPDATE leafd_division SET share = $1, share_end = $2 \
                    WHERE only_row = 1 AND share = -1 AND member = $3",
        set_closed: "UPDATE leafd_division SET closed = $1 WHERE only_row = 1 AND member = $2",
        grant_of: "SELECT member::text, share::text, share_end::text, NULL::text \
                   FROM leafd_share_grant WHERE member = $1",
        take: "UPDATE leafd_division SET share_end = $1 \
               WHERE only_row = 1 AND share_end = $2 AND division = $3 AND member = $4",
        grant: "INSERT INTO leafd_share_grant (member, share, share_end) VALUES ($1, $2, $3)",
    });

    const WITNESS: Option<WitnessStatements> = Some(WitnessStatements {
        glance: concat!(
            "SELECT ''::text, extract(epoch FROM now())::bigint::text, NULL::text, ",
            facts!()
        ),
        leasable: concat!(
            "SELECT biz_tag::text COLLATE \"C\", max_id::text, step::text, ",
            facts!(),
            " FROM leaf_alloc WHERE biz_tag = $2 FOR UPDATE"
        ),
        look: "SELECT to_regclass('leafd_witness')::text, NULL::text, NULL::text, NULL::text",
        lock_fleet: concat!(
            "SELECT host::text, NULL::text, NULL::text, NULL::text FROM leafd_witness WHERE host = ",
            fleet!(),
            " FOR UPDATE"
        ),
        all: concat!(
            "SELECT host::text, NULL::text, NULL::text, ",
            columns!(),
            " FROM leafd_witness"
        ),
        insert: "INSERT INTO leafd_witness (beat, base, confirmed, presence, roster, joined, seen, \
                 server, shown, host) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        update: "UPDATE leafd_witness SET beat = $1, base = $2, confirmed = $3, presence = $4, \
                 roster = $5, joined = $6, seen = $7, server = $8, shown = $9 WHERE host = $10",
        delete: "DELETE FROM leafd_witness WHERE host = $1",
        skip: [
            "UPDATE leaf_alloc SET max_id = max_id + $1 WHERE max_id >= 0 AND max_id <= $2",
            "UPDATE leafd_tombstone SET max_id = max_id + $1 WHERE max_id >= 0 AND max_id <= $2",
        ],
    });

    /// A committed lease is on disk, even if the server's default is not to wait for the disk. leafd
    /// does not ask for READ WRITE: if transactions are read-only by default, that fences an old
    /// primary.
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

    // A pooler may change the server's connection after each transaction; a statement that an earlier
    // transaction prepared then no longer exists.
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
