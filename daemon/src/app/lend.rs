//! Builds what lends worker IDs, if a registry that hosts share gives them.

use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::paths;
use crate::config::Config;
use crate::duration::ms;
use crate::environment::Environment;
use crate::worker::lending::{Lender, LenderSettings, Lending, PoolSettings};
use crate::worker::registry;

const NO_CLAIMS: &str =
    "lending worker IDs needs worker.registry = \"zookeeper\", \"database\" or \"etcd\"";

const NO_POOL: &str = "leafd lends no worker IDs (lend.pools is empty)";

/// The most of a host's name that is in the names of its claims, in characters: a registry's records have
/// names of a few hundred bytes.
const MAX_HOST: usize = 64;

/// A name for readers, which need not be unique.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".:_".contains(c) { c } else { '_' };
    name.chars().take(MAX_HOST).map(plain).collect()
}

/// Starts to lend. Call this in the runtime with timers.
pub(super) fn start(
    config: &Config,
    environment: &Environment,
    fatal: &CancellationToken,
) -> Result<Lending, Failure> {
    if !config.worker.registry.has_claims() {
        return Ok(Lending::Off(NO_CLAIMS.to_owned()));
    }
    let credentials = paths::credentials();
    let mut pools = Vec::new();
    for rules in config.lend_pools()? {
        let shared = registry::open_pool(config, &rules, credentials.as_deref(), environment);
        let Some(registry) = shared.map_err(Failure::config)? else {
            return Ok(Lending::Off(NO_CLAIMS.to_owned()));
        };
        pools.push(PoolSettings { rules, registry });
    }
    if pools.is_empty() {
        return Ok(Lending::Off(NO_POOL.to_owned()));
    }
    let settings = LenderSettings {
        fence_after_ms: ms(config.worker.fence_after),
        reclaim_after_ms: ms(config.worker.reclaim_after),
        max_loans: config.lend.max_loans,
        max_per_user: config.lend.max_per_user,
    };
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let host = config.worker.identity.clone().or(host).unwrap_or_else(|| "host".to_owned());
    let host = plain(&host);
    Ok(Lending::On(Lender::start(settings, pools, &host, environment, fatal)))
}
