//! `leafd schema`: the tables, for whoever makes them.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::Failure;
use super::print;
use crate::environment::Environment;
use crate::state::database::DatabaseIdentity;
use crate::store::SCHEMAS;
pub use crate::store::SchemaDialect;

impl ValueEnum for SchemaDialect {
    fn value_variants<'a>() -> &'a [Self] {
        &SCHEMAS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.title))
    }
}

/// `leafd schema`: prints the tables in one dialect, or in all.
///
/// # Errors
/// When standard output cannot be written.
pub fn schema(dialect: Option<SchemaDialect>) -> Result<(), Failure> {
    let dialects = dialect.as_ref().map_or(&SCHEMAS[..], std::slice::from_ref);
    let identity = DatabaseIdentity::random(&Environment::system())
        .map_err(|error| Failure::system("no random bytes", &error))?;
    let texts = dialects
        .iter()
        .map(|dialect| format!("-- {}\n{}", dialect.title, dialect.statements(identity)));
    print(&texts.collect::<Vec<_>>().join("\n"))
}
