//! Which registries there are.

use std::path::Path;
use std::sync::Arc;

use super::WorkerRegistry;
use super::zookeeper::{WORDS, ZooKeeperAccess, ZooKeeperRegistry};
use crate::config::Config;
use crate::environment::Environment;
use crate::worker::claim::instance::ClaimRules;

/// Where this instance's worker ID comes from.
pub(crate) enum WorkerSource {
    /// The configuration gives this one.
    Fixed(u64),
    /// A registry that other hosts use as well. It is connected to later.
    Shared(SharedRegistry),
}

#[derive(Clone)]
pub(crate) struct SharedRegistry {
    pub(crate) registry: Arc<dyn WorkerRegistry>,
    pub(crate) rules: ClaimRules,
}

/// Makes the registry that the configuration names. `credentials` is the folder in which the service
/// manager puts secrets.
///
/// # Errors
/// What is wrong with the configuration, or with the file of a password.
pub(crate) fn open(
    config: &Config,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<WorkerSource, String> {
    let Some(ensemble) = config.ensemble().map_err(|problem| problem.to_string())? else {
        return Ok(WorkerSource::Fixed(config.worker.id));
    };
    let access = ZooKeeperAccess::new(config, ensemble, credentials)?;
    let rules = ClaimRules::new(&config.worker, access.session_timeout, access.timeout, WORDS);
    let registry = Arc::new(ZooKeeperRegistry::new(access, environment.clone()));
    Ok(WorkerSource::Shared(SharedRegistry { registry, rules }))
}
