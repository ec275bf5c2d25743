//! Whose state directory this is, and what to do with one of another host.

use crate::config::Config;
use crate::state::dir::ForeignPolicy;
use crate::state::owner::StateOwner;
use crate::store::StoreLocation;

/// The owner that this host's state directory has.
pub(super) fn owner(config: &Config, store: &StoreLocation) -> StateOwner {
    let identity = config.worker.identity.as_deref().unwrap_or_default();
    let shared = store.identity();
    StateOwner::here(config.state.machine_id.as_deref(), identity, shared.as_deref())
}

/// What to do with another host's state directory. An embedded store was copied with it; a shared
/// store still knows what the other host leased. Nothing knows about a fixed worker ID.
pub(super) fn foreign_policy(config: &Config, store: &StoreLocation) -> ForeignPolicy {
    if store.is_embedded() {
        return ForeignPolicy::Refuse;
    }
    let is_fixed = config.snowflake.enabled && !config.worker.registry.is_shared();
    let fixed_worker = is_fixed.then_some(config.worker.id);
    ForeignPolicy::SetAside { fixed_worker }
}
