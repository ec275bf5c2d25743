//! The store and the registry, and each of several databases, over connections of their own, at the same
//! time.

use std::future::Future;
use std::time::Duration;

use crate::app::store::source;
use crate::app::{paths, runtime};
use crate::config::Config;
use crate::doctor::facts::Seen;
use crate::environment::Environment;
use crate::state::database::DatabaseIdentity;
use crate::store::inspection::inspect as inspect_store;
use crate::store::several::Membership;
use crate::store::{IfMissing, StoreFacts, StoreLimits, StoreLocation, StoreSource, open_members};
use crate::worker::registry::inspection::{RegistryFacts, inspect as inspect_registry};
#[cfg(feature = "database")]
use crate::worker::registry::worker_node::{
    WorkerNodeAccess, WorkerNodeTable,
    messages::{NodeAction, NodeOutcome},
};
use crate::worker::registry::{self, RegistryError, WorkerSource};

/// What each of several databases says.
type DatabaseFacts = Vec<(String, Result<String, String>)>;

/// Looks at all, for `limit` each.
pub(super) fn look(
    config: &Config,
    environment: &Environment,
    limit: Duration,
) -> (Seen<StoreFacts>, Seen<RegistryFacts>, DatabaseFacts) {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(failure) => {
            let why = failure.message();
            return (Seen::Not(why.to_owned()), Seen::Not(why.to_owned()), Vec::new());
        }
    };
    let seen = runtime.block_on(async {
        tokio::join!(
            within(limit, store(config, environment, limit)),
            within(limit, registry(config, environment)),
            databases(config, environment, limit)
        )
    });
    // A name that is being resolved must not hold up the report.
    runtime.shutdown_background();
    seen
}

/// What `look` brings: nothing, if there is nothing to look at.
async fn within<T>(
    limit: Duration,
    look: impl Future<Output = Result<Option<T>, String>>,
) -> Seen<T> {
    match tokio::time::timeout(limit, look).await {
        Ok(Ok(Some(value))) => Seen::As(value),
        Ok(Ok(None)) => Seen::Nothing,
        Ok(Err(why)) => Seen::Not(why),
        Err(_) => Seen::Not(format!("no answer within {limit:?} (--timeout)")),
    }
}

async fn store(
    config: &Config,
    environment: &Environment,
    limit: Duration,
) -> Result<Option<StoreFacts>, String> {
    let location = config.store_location().map_err(|problem| problem.to_string())?;
    let Some(described) = location.shown() else { return Ok(None) };
    let secrets = paths::store_secrets(config).map_err(|error| error.to_string())?;
    let limits = StoreLimits { timeout: limit, connections: 1 };
    let source = source(config, location, secrets, limits, (environment, IfMissing::Refuse));
    inspect_store(source).await.map_err(|why| format!("{described}: {why}"))
}

/// Several databases, each by itself. Nothing, if the store is another one.
async fn databases(config: &Config, environment: &Environment, limit: Duration) -> DatabaseFacts {
    let (Ok(location), Ok(secrets)) = (config.store_location(), paths::store_secrets(config))
    else {
        return Vec::new();
    };
    let division = match &location {
        StoreLocation::Several(place) => place.division(),
        _ => return Vec::new(),
    };
    let limits = StoreLimits { timeout: limit, connections: 1 };
    let source = source(config, location, secrets, limits, (environment, IfMissing::Refuse));
    let StoreSource::Several(source) = source else { return Vec::new() };
    let stores = match open_members(&source) {
        Ok(stores) => stores,
        Err(why) => return vec![(source.place.to_string(), Err(why))],
    };
    let looks = stores.iter().map(|store| async move {
        let seen = match tokio::time::timeout(limit, store.membership()).await {
            Ok(Ok(Some(membership))) => judged(&membership, division),
            Ok(Ok(None)) => Err("it has no share yet; run `leafd division make`".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?} (--timeout)")),
        };
        // A server logs a connection that ends without a goodbye. One that hangs gets none.
        let _ = tokio::time::timeout(limit, store.close()).await;
        (store.describe(), seen)
    });
    futures_util::future::join_all(looks).await
}

/// The share of a database, if leafd may lease from it.
fn judged(membership: &Membership, division: Option<DatabaseIdentity>) -> Result<String, String> {
    match membership.share() {
        _ if Some(membership.name) != division => {
            Err(format!("it belongs to the division {}, not to store.division", membership.name))
        }
        _ if membership.is_closed => Err("its share is closed; remove it from store.urls".into()),
        Some(share) => Ok(share.to_string()),
        None => Err("it has no share yet; run `leafd division make` again".to_owned()),
    }
}

/// How far Baidu's table is.
#[cfg(feature = "database")]
async fn inspect_table(access: WorkerNodeAccess) -> Result<RegistryFacts, String> {
    let mut facts = RegistryFacts::of_nothing(access.to_string());
    let mut table = WorkerNodeTable::new(access, "");
    let outcome = table.execute(&NodeAction::Survey).await;
    table.close().await;
    match outcome {
        NodeOutcome::Surveyed(survey) => facts.next_worker = survey.highest.saturating_add(1),
        NodeOutcome::Failed(why) => return Err(why),
        other => return Err(format!("an unexpected answer: {other:?}")),
    }
    Ok(facts)
}

async fn registry(
    config: &Config,
    environment: &Environment,
) -> Result<Option<RegistryFacts>, String> {
    if !config.snowflake.enabled {
        return Ok(None);
    }
    let credentials = paths::credentials();
    let shared = match registry::open(config, credentials.as_deref(), environment)? {
        WorkerSource::Fixed(_) => return Ok(None),
        #[cfg(feature = "database")]
        WorkerSource::Assigned(access) => return inspect_table(access).await.map(Some),
        WorkerSource::Shared(shared) => shared,
    };
    let name = shared.registry.name();
    let look = async {
        match shared.registry.join().await {
            Ok(session) => inspect_registry(&*session, name).await,
            Err(RegistryError::Conflict) => Ok(RegistryFacts::of_nothing(name)),
            Err(error) => Err(error),
        }
    };
    look.await.map(Some).map_err(|error| error.to_string())
}
