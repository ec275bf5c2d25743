//! Which registries there are.

use std::path::Path;
use std::sync::Arc;

use super::WorkerRegistry;
#[cfg(feature = "database")]
use super::database::{self, DatabaseAccess, DatabaseRegistry};
#[cfg(feature = "etcd")]
use super::etcd::{self, EtcdAccess, EtcdRegistry};
#[cfg(feature = "database")]
use super::worker_node::WorkerNodeAccess;
#[cfg(feature = "zookeeper")]
use super::zookeeper::{self, ZooKeeperAccess, ZooKeeperRegistry};
use crate::config::{Config, PoolRules, RegistryKind};
use crate::environment::Environment;
use crate::worker::claim::instance::{ClaimRules, Numbers};

/// Where this instance's worker ID comes from.
pub(crate) enum WorkerSource {
    /// The configuration gives this one.
    Fixed(u64),
    /// A registry that other instances use as well. It is connected to later.
    Shared(SharedRegistry),
    /// A table that gives each start a worker ID of its own.
    #[cfg(feature = "database")]
    Assigned(WorkerNodeAccess),
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
    open_fleet(config, config.snowflake.layout.to_string(), credentials, environment)
}

/// Makes the registry of a fleet that has agreed on `layout`.
fn open_fleet(
    config: &Config,
    layout: String,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<WorkerSource, String> {
    match config.worker.registry {
        RegistryKind::Fixed => Ok(WorkerSource::Fixed(config.worker.id)),
        #[cfg(feature = "zookeeper")]
        RegistryKind::ZooKeeper => in_zookeeper(config, layout, credentials, environment),
        #[cfg(feature = "database")]
        RegistryKind::Database => in_database(config, layout, credentials, environment),
        #[cfg(feature = "etcd")]
        RegistryKind::Etcd => in_etcd(config, layout, credentials, environment),
        #[cfg(feature = "database")]
        RegistryKind::WorkerNode => {
            WorkerNodeAccess::new(config, credentials).map(WorkerSource::Assigned)
        }
        #[cfg(not(all(feature = "zookeeper", feature = "database", feature = "etcd")))]
        kind => {
            let _ = (layout, credentials, environment);
            Err(format!("worker.registry: this leafd was built without {:?}", kind.name()))
        }
    }
}

/// Makes the registry of a pool's worker IDs: a fleet of its own beside that of leafd. `None` if the
/// configuration numbers the hosts.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_pool(
    config: &Config,
    pool: &PoolRules,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<Option<SharedRegistry>, String> {
    let mut config = config.clone();
    for name in [&mut config.zookeeper.name, &mut config.database.name, &mut config.etcd.name] {
        *name = Config::fleet_of_pool(name, &pool.name);
    }
    // No Java Leaf knows this fleet.
    config.worker.java_leaf = false;
    match open_fleet(&config, pool.layout(), credentials, environment)? {
        WorkerSource::Fixed(_) => Ok(None),
        #[cfg(feature = "database")]
        WorkerSource::Assigned(_) => Ok(None),
        WorkerSource::Shared(SharedRegistry { registry, rules }) => {
            let rules = ClaimRules { numbers: Numbers::OfPool, ..rules };
            Ok(Some(SharedRegistry { registry, rules }))
        }
    }
}

#[cfg(feature = "zookeeper")]
fn in_zookeeper(
    config: &Config,
    layout: String,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<WorkerSource, String> {
    let ensemble = config.configured_ensemble().map_err(|problem| problem.to_string())?;
    let mut access = ZooKeeperAccess::new(config, ensemble, credentials)?;
    access.layout = layout;
    let (session, call) = (access.session_timeout, access.timeout);
    let rules = ClaimRules::new(&config.worker, session, call, zookeeper::WORDS);
    let registry = Arc::new(ZooKeeperRegistry::new(access, environment.clone()));
    Ok(WorkerSource::Shared(SharedRegistry { registry, rules }))
}

#[cfg(feature = "database")]
fn in_database(
    config: &Config,
    layout: String,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<WorkerSource, String> {
    let mut access = DatabaseAccess::new(config, credentials)?;
    access.layout = layout;
    let (session, call) = (access.session_timeout, access.timeout);
    let rules = ClaimRules::new(&config.worker, session, call, database::WORDS).observing_ages();
    let registry = Arc::new(DatabaseRegistry::new(access, environment.clone()));
    Ok(WorkerSource::Shared(SharedRegistry { registry, rules }))
}

#[cfg(feature = "etcd")]
fn in_etcd(
    config: &Config,
    layout: String,
    credentials: Option<&Path>,
    environment: &Environment,
) -> Result<WorkerSource, String> {
    let mut access = EtcdAccess::new(config, credentials)?;
    access.layout = layout;
    let (session, call) = (access.session_timeout, access.timeout);
    let rules = ClaimRules::new(&config.worker, session, call, etcd::WORDS).observing_ages();
    let registry = Arc::new(EtcdRegistry::new(access, environment.clone()));
    Ok(WorkerSource::Shared(SharedRegistry { registry, rules }))
}
