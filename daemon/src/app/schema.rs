//! `leafd schema`: the tables, for whoever makes them.

use clap::ValueEnum;

use super::Failure;
use super::print;
use crate::state::database::DatabaseIdentity;
use crate::store::{ServerKind, schema};

/// The databases that the table can be made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaDialect {
    /// SQLite
    Sqlite,
    /// MySQL from 8.0.17 on
    #[value(name = "mysql")]
    MySql,
    /// MariaDB from 10.2 on
    #[value(name = "mariadb")]
    MariaDb,
    /// PostgreSQL
    Postgres,
}

impl SchemaDialect {
    const fn parts(self) -> (&'static str, &'static str, Option<ServerKind>) {
        match self {
            Self::Sqlite => ("SQLite (leafd makes its tables itself)", schema::SQLITE, None),
            Self::MySql => ("MySQL, from 8.0.17 on", schema::MYSQL, Some(ServerKind::MySql)),
            Self::MariaDb => ("MariaDB, from 10.2 on", schema::MARIADB, Some(ServerKind::MySql)),
            Self::Postgres => ("PostgreSQL", schema::POSTGRES, Some(ServerKind::Postgres)),
        }
    }
}

/// `leafd schema`: of one dialect, or of all.
///
/// # Errors
/// When standard output cannot be written.
pub fn schema(dialect: Option<SchemaDialect>) -> Result<(), Failure> {
    let dialects = dialect.as_ref().map_or(SchemaDialect::value_variants(), std::slice::from_ref);
    let identity =
        DatabaseIdentity::random().map_err(|error| Failure::system("no random bytes", &error))?;
    let texts = dialects.iter().map(|dialect| {
        let (name, statements, server) = dialect.parts();
        let identity = server.map(|server| schema::shared_identity(server, identity));
        let identity = identity.unwrap_or_else(|| schema::SQLITE_IDENTITY.to_owned());
        format!("-- {name}\n{statements}{identity}")
    });
    print(&texts.collect::<Vec<_>>().join("\n"))
}
