//! `leafd schema`: the SQL that creates leafd's tables.

use clap::ValueEnum;

use super::Failure;
use super::print;
use crate::state::database::Identity;
use crate::store::{Server, schema};

/// The databases that leafd has a schema for.
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
    const fn parts(self) -> (&'static str, &'static str, Option<Server>) {
        match self {
            Self::Sqlite => ("SQLite (leafd creates its tables itself)", schema::SQLITE, None),
            Self::MySql => ("MySQL, from 8.0.17 on", schema::MYSQL, Some(Server::MySql)),
            Self::MariaDb => ("MariaDB, from 10.2 on", schema::MARIADB, Some(Server::MySql)),
            Self::Postgres => ("PostgreSQL", schema::POSTGRES, Some(Server::Postgres)),
        }
    }
}

/// `leafd schema`, for one dialect or for all.
///
/// # Errors
/// When standard output cannot be written.
pub fn schema(dialect: Option<SchemaDialect>) -> Result<(), Failure> {
    let dialects = dialect.as_ref().map_or(SchemaDialect::value_variants(), std::slice::from_ref);
    let identity =
        Identity::random().map_err(|error| Failure::system("no random bytes", &error))?;
    let texts = dialects.iter().map(|dialect| {
        let (name, statements, server) = dialect.parts();
        let identity = server.map(|server| schema::shared_identity(server, identity));
        let identity = identity.unwrap_or_else(|| schema::SQLITE_IDENTITY.to_owned());
        format!("-- {name}\n{statements}{identity}")
    });
    print(&texts.collect::<Vec<_>>().join("\n"))
}
