//! The list of stores: the only place that knows which there are. A new one needs its own folder, a
//! place in the configuration, and an entry here.

use std::sync::Arc;

#[cfg(feature = "redis")]
use super::redis::{self, RedisPlace, RedisStore};
use super::several::{self, ListedShares, MemberPlace, MemberStore, SeveralParts};
use super::sql::{mysql, postgres, sqlite};
use super::{
    BadAddress, DatabaseGuard, EmbeddedStore, SchemaDialect, SharedDatabase, SharedStore, Store,
    StoreAddress, StoreLimits,
};
use crate::environment::Environment;
use crate::secret::Secret;
use crate::state::database::{DatabaseIdentity, NoIdentity};

/// The servers that several hosts can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// What `leafd schema` can print.
pub(crate) static SCHEMAS: [SchemaDialect; 10] = [
    sqlite::SQLITE_SCHEMA,
    mysql::MYSQL_SCHEMA,
    mysql::MARIADB_SCHEMA,
    postgres::POSTGRES_SCHEMA,
    mysql::MYSQL_SEVERAL_SCHEMA,
    mysql::MARIADB_SEVERAL_SCHEMA,
    postgres::POSTGRES_SEVERAL_SCHEMA,
    mysql::MYSQL_WITNESS_SCHEMA,
    postgres::POSTGRES_WITNESS_SCHEMA,
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
    /// Several database servers, each with a share of the IDs.
    Several(Box<SeveralPlace>),
}

/// Several database servers.
#[derive(Debug, Clone)]
pub struct SeveralPlace {
    /// Where they are, in the order in which leafd prefers them.
    pub addresses: Vec<StoreAddress>,
    /// The division's name, 32 hexadecimal digits. `None` before `leafd division make` gave one.
    division: Option<DatabaseIdentity>,
}

impl std::fmt::Display for SeveralPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "several databases: {}", addresses.join(", "))
    }
}

impl SeveralPlace {
    /// The division's name, if it is known.
    pub(crate) const fn division(&self) -> Option<DatabaseIdentity> {
        self.division
    }

    /// Servers that have no division yet.
    pub(crate) const fn undivided(addresses: Vec<StoreAddress>) -> Self {
        Self { addresses, division: None }
    }

    /// Servers whose division is named by its text.
    ///
    /// # Errors
    /// When the text is no name.
    pub fn new(addresses: Vec<StoreAddress>, division: &str) -> Result<Self, String> {
        let division = division.parse().map_err(|error: NoIdentity| error.to_string())?;
        Ok(Self { addresses, division: Some(division) })
    }
}

/// Several servers, and how leafd uses them.
#[derive(Debug, Clone)]
pub struct SeveralStores {
    /// Where they are.
    pub place: SeveralPlace,
    /// The password for those whose URL has none.
    pub password: Option<Secret>,
    /// The bounds of the use of each.
    pub limits: StoreLimits,
    /// The host.
    pub environment: Environment,
}

impl SeveralStores {
    fn shared(&self) -> impl Iterator<Item = SharedStore> + '_ {
        self.place.addresses.iter().map(|address| SharedStore {
            address: address.clone(),
            password: self.password.clone().filter(|_| !address.has_password()),
            limits: self.limits,
        })
    }

    fn open(self, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
        let division = self.place.division.ok_or("store.division is missing")?;
        let shares = Arc::new(ListedShares::default());
        let stores = self.shared().enumerate().map(|(index, shared)| {
            let place = MemberPlace { division, index, shares: Arc::clone(&shares) };
            (shared.address.database().open_member)(&shared, Arc::clone(&guard), Some(place))
        });
        let stores = stores.collect::<Result<Vec<_>, _>>()?;
        let parts = SeveralParts {
            described: self.place.to_string(),
            shares,
            guard,
            environment: self.environment,
            timeout: self.limits.timeout,
        };
        Ok(several::open(stores, parts))
    }
}

/// The databases of a division, for `leafd division`, whether they have a share or not.
///
/// # Errors
/// When an address or a pool cannot be used.
pub(crate) fn open_members(source: &SeveralStores) -> Result<Vec<Arc<dyn MemberStore>>, String> {
    let stores = source.shared().map(|shared| {
        (shared.address.database().open_member)(&shared, DatabaseGuard::unrecorded(), None)
    });
    stores.collect()
}

impl StoreLocation {
    pub(crate) const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The addresses of all databases.
    pub(crate) fn addresses(&self) -> &[StoreAddress] {
        match self {
            Self::Shared(address) => std::slice::from_ref(address),
            Self::Several(place) => &place.addresses,
            _ => &[],
        }
    }

    /// Tells one shared store from another; none for the embedded one.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address.identity()),
            #[cfg(feature = "redis")]
            Self::Redis(place) => Some(place.identity()),
            // Databases come and go; the division stays.
            Self::Several(place) => Some(match place.division {
                Some(division) => format!("several {division}"),
                None => "several".to_owned(),
            }),
        }
    }

    /// What users call a shared store; none for the embedded one.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address.to_string()),
            #[cfg(feature = "redis")]
            Self::Redis(place) => Some(place.to_string()),
            Self::Several(place) => Some(place.to_string()),
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
    /// Several database servers, each with a share of the IDs.
    Several(Box<SeveralStores>),
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
        StoreSource::Several(stores) => stores.open(guard),
    }
}
