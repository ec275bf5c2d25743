//! Whose state directory this is, and what happens to one of another host.

use crate::config::{Config, RegistryKind};
use crate::state::dir::ForeignPolicy;
use crate::state::owner::Owner;
use crate::store::{Address, Location};

/// Whose state this is when it is this host's.
pub(super) fn owner(config: &Config, store: &Location) -> Owner {
    let identity = config.worker.identity.as_deref().unwrap_or_default();
    let shared = store.address().map(Address::identity);
    Owner::here(config.state.machine_id.as_deref(), identity, shared.as_deref())
}

/// An embedded store is copied together with the directory; a shared one knows of the host that
/// the directory comes from. Of a worker ID that is fixed nobody knows.
pub(super) fn foreign_policy(config: &Config, store: &Location) -> ForeignPolicy {
    if store.is_embedded() {
        return ForeignPolicy::Refuse;
    }
    let fixed_worker = match config.worker.registry {
        RegistryKind::Fixed => config.snowflake.enabled.then_some(config.worker.id),
        RegistryKind::ZooKeeper => None,
    };
    ForeignPolicy::SetAside { fixed_worker }
}
