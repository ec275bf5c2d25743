//! Which stores there are.

use std::sync::Arc;

use super::sql::{mysql, postgres, sqlite};
use super::{DatabaseGuard, EmbeddedStore, ServerKind, Store, StoreAddress, StoreLimits};
use crate::secret::Secret;

/// Which store the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// A database file of this host alone, which goes wherever the state directory goes.
    Embedded,
    /// A database server that other hosts lease from as well.
    Shared(StoreAddress),
}

impl StoreLocation {
    /// Whether the store is this host's alone.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The address of a shared one.
    #[must_use]
    pub const fn address(&self) -> Option<&StoreAddress> {
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
    /// A database server that other hosts lease from as well.
    Shared(SharedStore),
}

/// A database server, and how leafd uses it.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// Where it is.
    pub address: StoreAddress,
    /// The password of the address' user.
    pub password: Option<Secret>,
    /// What bounds its use.
    pub limits: StoreLimits,
}

/// Makes the store. It connects when it is first used.
///
/// # Errors
/// When the address or the pool of connections cannot be used.
pub fn open(source: StoreSource, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
    Ok(match source {
        StoreSource::Embedded(embedded) => Arc::new(sqlite::open(embedded, guard)?),
        StoreSource::Shared(shared) => match shared.address.server() {
            ServerKind::MySql => Arc::new(mysql::open(&shared, guard)?),
            ServerKind::Postgres => Arc::new(postgres::open(&shared, guard)?),
        },
    })
}
