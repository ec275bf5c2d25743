//! Leaf's tables in SQLite. leafd makes them itself.

use crate::store::sql::schema::{SchemaDialect, standard_tables, worker_tables};

/// Leaf's tables in SQLite.
pub const SQLITE: &str = standard_tables!(tag: "varchar(128)");

/// Which database this is, and the file in which it was made.
pub(super) const IDENTITY: &str = "\
CREATE TABLE IF NOT EXISTS leafd_identity (
  only_row integer NOT NULL PRIMARY KEY CHECK (only_row = 1),
  identity text    NOT NULL,
  file     text    NOT NULL
);
";

/// The registry's tables in SQLite. leafd makes them itself.
pub(crate) const SQLITE_WORKERS: &str =
    worker_tables!(name: "varchar(64)", path: "varchar(640)", options: "");

pub(in crate::store) const SQLITE_SCHEMA: SchemaDialect = SchemaDialect {
    name: "sqlite",
    title: "SQLite (leafd makes its tables itself)",
    tables: SQLITE,
    // leafd writes the identity when it makes the tables.
    identity: |_| IDENTITY.to_owned(),
    workers: SQLITE_WORKERS,
};
