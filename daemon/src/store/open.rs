//! The list of stores: the only place that knows which there are. A new one needs its own folder, a
//! place in the configuration, and an entry here.

use std::sync::Arc;

#[cfg(feature = "redis")]
use super::redis::{self, RedisPlace, RedisStore};
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
pub(crate) static SCHEMAS: [SchemaDialect; 5] = [
    sqlite::SQLITE_SCHEMA,
    mysql::MYSQL_SCHEMA,
    mysql::MARIADB_SCHEMA,
    postgres::POSTGRES_SCHEMA,
    mysql::WORKER_NODE_SCHEMA,
];

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
    /// A Redis server from which other hosts lease too.
    #[cfg(feature = "redis")]
    Redis(Box<RedisPlace>),
}

impl StoreLocation {
    pub(crate) const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The address of a shared database.
    pub(crate) const fn address(&self) -> Option<&StoreAddress> {
        match self {
            Self::Shared(address) => Some(address),
            _ => None,
        }
    }

    /// Tells one shared store from another; none for the embedded one.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address.identity()),
            #[cfg(feature = "redis")]
            Self::Redis(place) => Some(place.identity()),
        }
    }

    /// What users call a shared store; none for the embedded one.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address.to_string()),
            #[cfg(feature = "redis")]
            Self::Redis(place) => Some(place.to_string()),
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
    /// A Redis server from which other hosts lease too.
    #[cfg(feature = "redis")]
    Redis(Box<RedisStore>),
}

/// Makes a store, which connects on first use.
///
/// # Errors
/// When the address or the connection pool cannot be used.
pub fn open(source: StoreSource, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
    match source {
        StoreSource::Embedded(embedded) => sqlite::open(embedded, guard),
        StoreSource::Shared(shared) => (shared.address.database().open)(&shared, guard),
        #[cfg(feature = "redis")]
        StoreSource::Redis(store) => redis::open(*store, guard),
    }
}
