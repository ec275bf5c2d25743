//! The list of stores: the only place that knows which there are. A new one needs its own folder, a
//! place in the configuration, and an entry here.

use std::sync::Arc;

use super::sql::{mysql, postgres, sqlite};
use super::{
    BadAddress, DatabaseGuard, EmbeddedStore, SchemaDialect, SharedDatabase, SharedStore, Store,
    StoreAddress,
};

/// The servers that several hosts can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// What `leafd schema` can print.
pub(crate) static SCHEMAS: [SchemaDialect; 4] =
    [sqlite::SQLITE_SCHEMA, mysql::MYSQL_SCHEMA, mysql::MARIADB_SCHEMA, postgres::POSTGRES_SCHEMA];

impl ServerKind {
    const fn database(self) -> &'static SharedDatabase {
        match self {
            Self::MySql => &mysql::MYSQL_DATABASE,
            Self::Postgres => &postgres::POSTGRES_DATABASE,
        }
    }

    /// A URL for an error message to show.
    pub(crate) const fn example(self) -> &'static str {
        self.database().example
    }

    /// Checks a URL. With `verify_tls`, a URL that asks for TLS makes leafd verify the server's
    /// certificate and name, even if it asks for encryption only.
    ///
    /// # Errors
    /// When a part is missing, unknown or wrong.
    pub fn address(self, url: &str, verify_tls: bool) -> Result<StoreAddress, BadAddress> {
        StoreAddress::new(self.database(), url, verify_tls)
    }
}

/// The store that the configuration names.
#[derive(Debug, Clone)]
pub enum StoreLocation {
    /// A database file of this host alone, which is copied and lost with the state directory.
    Embedded,
    /// A database server from which other hosts lease too.
    Shared(StoreAddress),
}

impl StoreLocation {
    pub(crate) const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The address of a shared store.
    pub(crate) const fn address(&self) -> Option<&StoreAddress> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address),
        }
    }
}

/// What [`open`] needs to know of a store.
#[derive(Debug, Clone)]
pub enum StoreSource {
    /// A database file of this host alone.
    Embedded(EmbeddedStore),
    /// A database server from which other hosts lease too.
    Shared(SharedStore),
}

/// Makes a store, which connects on first use.
///
/// # Errors
/// When the address or the connection pool cannot be used.
pub fn open(source: StoreSource, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
    match source {
        StoreSource::Embedded(embedded) => sqlite::open(embedded, guard),
        StoreSource::Shared(shared) => (shared.address.database().open)(&shared, guard),
    }
}
