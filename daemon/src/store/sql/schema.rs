//! The tables that `leafd schema` prints. Names and types are Leaf's, so that Java Leaf works on the
//! same table; the collation makes tags that differ in one byte two tags. Java Leaf does not touch
//! leafd's own tables: where deleted tags ended, and which database this is.

use crate::state::database::DatabaseIdentity;

/// The tables for one database.
#[derive(Clone, Copy)]
pub struct SchemaDialect {
    /// The argument of `leafd schema`.
    pub(crate) name: &'static str,
    /// The database and its versions, for users.
    pub(crate) title: &'static str,
    /// The statements that make Leaf's table and the tombstones.
    pub(super) tables: &'static str,
    /// The statements that make the table of the identity.
    pub(super) identity: fn(DatabaseIdentity) -> String,
    /// The statements that make the registry's tables.
    pub(super) workers: &'static str,
}

impl std::fmt::Debug for SchemaDialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SchemaDialect").field(&self.name).finish()
    }
}

impl SchemaDialect {
    /// All statements. A shared database gets `identity`; nothing changes if they run again.
    pub(crate) fn statements(&self, identity: DatabaseIdentity) -> String {
        format!("{}{}{}", self.tables, (self.identity)(identity), self.workers)
    }
}

/// The tables where the primary key is part of its column, and leafd writes `update_time` itself.
macro_rules! standard_tables {
    (tag: $tag:literal) => {
        concat!(
            "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     ",
            $tag,
            " NOT NULL DEFAULT '' PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     ",
            $tag,
            " NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
"
        )
    };
}
pub(super) use standard_tables;

/// The tables of worker IDs (`worker.registry = "database"`): a row for each fleet, and the records of all
/// fleets, each below the path that it has in ZooKeeper. Paths are ASCII and compare by bytes.
macro_rules! worker_tables {
    (name: $name:literal, path: $path:literal, options: $options:literal) => {
        concat!(
            "-- For worker.registry = \"database\" alone.
CREATE TABLE IF NOT EXISTS leafd_worker_fleet (
  name        ",
            $name,
            " NOT NULL PRIMARY KEY,
  changes     bigint       NOT NULL DEFAULT 0,
  next_worker bigint       NOT NULL DEFAULT 0
)",
            $options,
            ";
CREATE TABLE IF NOT EXISTS leafd_worker (
  fleet       ",
            $name,
            " NOT NULL,
  path        ",
            $path,
            " NOT NULL,
  record      varchar(2000) NOT NULL,
  version     int          NOT NULL,
  created     bigint       NOT NULL,
  modified_ms bigint       NOT NULL,
  session     bigint       NOT NULL,
  beat        bigint       NOT NULL,
  lasts_ms    bigint       NOT NULL,
  PRIMARY KEY (fleet, path)
)",
            $options,
            ";
"
        )
    };
}
pub(super) use worker_tables;

/// The tables of a database that has a share of the IDs (`store.kind = "several"`). `leafd division` writes
/// the last two.
macro_rules! share_tables {
    (tag: $tag:literal, digits: $digits:literal, now: $now:literal, options: $options:literal) => {
        concat!(
            "\
CREATE TABLE IF NOT EXISTS leafd_share_tag (
  biz_tag     ",
            $tag,
            " NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1,
  step        bigint       NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP",
            $now,
            "
)",
            $options,
            ";
CREATE TABLE IF NOT EXISTS leafd_share_tombstone (
  biz_tag     ",
            $tag,
            " NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP",
            $now,
            "
)",
            $options,
            ";
CREATE TABLE IF NOT EXISTS leafd_division (
  only_row    bigint       NOT NULL PRIMARY KEY CHECK (only_row = 1),
  division    ",
            $digits,
            " NOT NULL,
  member      ",
            $digits,
            " NOT NULL,
  share       bigint       NOT NULL,
  share_end   bigint       NOT NULL,
  shares      bigint       NOT NULL,
  block       bigint       NOT NULL,
  closed      bigint       NOT NULL
)",
            $options,
            ";
CREATE TABLE IF NOT EXISTS leafd_share_grant (
  member      ",
            $digits,
            " NOT NULL PRIMARY KEY,
  share       bigint       NOT NULL,
  share_end   bigint       NOT NULL
)",
            $options,
            ";
"
        )
    };
}
pub(super) use share_tables;

/// The table by which hosts notice that the database has lost what it had confirmed. One row is the fleet's,
/// the others are hosts'.
macro_rules! witness_table {
    (name: $name:literal, options: $options:literal) => {
        concat!(
            "\
CREATE TABLE IF NOT EXISTS leafd_witness (
  host        ",
            $name,
            " NOT NULL PRIMARY KEY,
  beat        bigint       NOT NULL,
  base        bigint       NOT NULL,
  confirmed   bigint       NOT NULL,
  presence    varchar(8)   NOT NULL,
  roster      bigint       NOT NULL,
  joined      bigint       NOT NULL,
  seen        bigint       NOT NULL,
  server      varchar(300) NOT NULL,
  shown       varchar(100) NOT NULL
)",
            $options,
            ";
"
        )
    };
}
pub(super) use witness_table;

/// The table of a shared database's identity, as one database writes it.
pub(super) struct IdentityTable {
    /// The type of 32 hexadecimal digits.
    pub(super) digits: &'static str,
    /// What follows the columns.
    pub(super) options: &'static str,
    /// How an INSERT begins that does nothing if the row exists.
    pub(super) insert: &'static str,
    /// How it ends.
    pub(super) or_nothing: &'static str,
}

impl IdentityTable {
    /// The statements that make the table and write `identity` into it once.
    pub(super) fn statements(&self, identity: DatabaseIdentity) -> String {
        let Self { digits, options, insert, or_nothing } = self;
        format!(
            "-- The identity is this database's alone: in a script that several databases run (migrations),
-- give each its own value.
CREATE TABLE IF NOT EXISTS leafd_identity (
  only_row int NOT NULL PRIMARY KEY CHECK (only_row = 1),
  identity {digits} NOT NULL
){options};
{insert} INTO leafd_identity (only_row, identity) VALUES (1, '{identity}'){or_nothing};
"
        )
    }
}
