//! `leafd schema`: the table, for whoever makes it.

use clap::ValueEnum;

use super::Failure;
use super::print;
use crate::segment::store::schema;

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
    const fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Sqlite => ("SQLite (leafd makes the table itself)", schema::SQLITE),
            Self::MySql => ("MySQL, from 8.0.17 on", schema::MYSQL),
            Self::MariaDb => ("MariaDB, from 10.2 on", schema::MARIADB),
            Self::Postgres => ("PostgreSQL", schema::POSTGRES),
        }
    }
}

/// `leafd schema`: of one dialect, or of all.
///
/// # Errors
/// When standard output cannot be written.
pub fn schema(dialect: Option<SchemaDialect>) -> Result<(), Failure> {
    let dialects = dialect.as_ref().map_or(SchemaDialect::value_variants(), std::slice::from_ref);
    let texts = dialects.iter().map(|dialect| {
        let (name, statements) = dialect.parts();
        format!("-- {name}\n{statements}")
    });
    print(&texts.collect::<Vec<_>>().join("\n"))
}
