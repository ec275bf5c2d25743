//! Whose state directory this is, and what happens to one of another host.

use crate::config::{Config, Registry};
use crate::state::dir::ForeignPolicy;
use crate::state::owner::StateOwner;
use crate::store::{StoreAddress, StoreLocation};

/// Whose state this is when it is this host's.
pub(super) fn owner(config: &Config, store: &StoreLocation) -> StateOwner {
    let identity = config.worker.identity.as_deref().unwrap_or_default();
    let shared = store.address().map(StoreAddress::identity);
    StateOwner::here(config.state.machine_id.as_deref(), identity, shared.as_deref())
}

/// An embedded store is copied together with the directory; a shared one knows of the host that
/// the directory comes from. Of a worker ID that is fixed nobody knows.
pub(super) fn foreign_policy(config: &Config, store: &StoreLocation) -> ForeignPolicy {
    if store.is_embedded() {
        return ForeignPolicy::Refuse;
    }
    let fixed_worker = match config.worker.registry {
        Registry::Fixed => config.snowflake.enabled.then_some(config.worker.id),
        Registry::ZooKeeper => None,
    };
    ForeignPolicy::SetAside { fixed_worker }
}
