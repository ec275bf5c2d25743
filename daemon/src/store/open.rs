//! Which stores there are.

use std::sync::Arc;

use super::sql::{mysql, postgres, sqlite};
use super::{Address, Embedded, Guard, Limits, Server, Store};
use crate::secret::Secret;

/// Which store the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A database file of this host alone, which goes wherever the state directory goes.
    Embedded,
    /// A database server that other hosts lease from as well.
    Shared(Address),
}

impl Location {
    /// Whether the store is this host's alone.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The address of a shared one.
    #[must_use]
    pub const fn address(&self) -> Option<&Address> {
        match self {
            Self::Embedded => None,
            Self::Shared(address) => Some(address),
        }
    }
}

/// What [`open`] needs to know of a store.
#[derive(Debug, Clone)]
pub enum Source {
    /// A database file of this host alone.
    Embedded(Embedded),
    /// A database server that other hosts lease from as well.
    Shared(Shared),
}

/// A database server, and how leafd uses it.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Where it is.
    pub address: Address,
    /// The password of the address' user.
    pub password: Option<Secret>,
    /// What bounds its use.
    pub limits: Limits,
}

/// Makes the store. It connects when it is first used.
///
/// # Errors
/// When the address or the pool of connections cannot be used.
pub fn open(source: Source, guard: Arc<Guard>) -> Result<Arc<dyn Store>, String> {
    Ok(match source {
        Source::Embedded(embedded) => Arc::new(sqlite::open(embedded, guard)?),
        Source::Shared(shared) => match shared.address.server() {
            Server::MySql => Arc::new(mysql::open(&shared, guard)?),
            Server::Postgres => Arc::new(postgres::open(&shared, guard)?),
        },
    })
}
