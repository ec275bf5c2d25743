//! Reloads the configuration on SIGHUP: applies every change that is possible while leafd runs or,
//! if anything is wrong, none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::access::{access, patterns, tag_quotas};
use super::failure::Failure;
use super::{load, paths};
use crate::config::{Config, ConfigError, Loaded};
use crate::input;
use crate::log;
use crate::manager::Manager;
use crate::segment::service::Segments;
use crate::service::Service;
use crate::service::policy::{Policy, RequestLimits};
use crate::transport::lifecycle::Transports;

/// The keys that a reload puts in force, besides those of the transports
/// ([`crate::transport::lifecycle::Transport::reloaded_keys`]). A dot at the end means the whole
/// section. Of `[segment]`, only the waits: the rest is part of each tag's state.
const RELOADED: [&str; 10] = [
    "access.",
    "http.tokens",
    "metrics.",
    "public.",
    "quota.",
    "socket.max-in-flight",
    "socket.max-count",
    "segment.wait",
    "segment.max-wait",
    "log.level",
];

/// Deadline for reading the configuration and the user database.
const LIMIT: Duration = Duration::from_secs(30);

/// Reloads the configuration.
pub(super) struct Reloader {
    path: Option<PathBuf>,
    /// The configuration that leafd started with.
    started: Loaded,
    /// The configuration of the latest reload.
    latest: Loaded,
    log: log::Handle,
    service: Arc<Service>,
    segments: Segments,
    transports: Transports,
}

impl Reloader {
    pub(super) fn new(
        path: Option<&Path>,
        started: &Loaded,
        log: log::Handle,
        service: &Arc<Service>,
        segments: &Segments,
        transports: &Transports,
    ) -> Self {
        Self {
            path: path.map(Path::to_owned),
            started: started.clone(),
            latest: started.clone(),
            log,
            service: Arc::clone(service),
            segments: segments.clone(),
            transports: transports.clone(),
        }
    }

    /// Reloads, and reports the outcome to the log and the service manager.
    pub(super) async fn reload(&mut self, manager: &Manager) {
        manager.reloading();
        let outcome = self.apply().await;
        if let Err(failure) = &outcome {
            tracing::error!("not reloaded, nothing has changed: {}", failure.message());
        }
        manager.reloaded(outcome.err().as_ref().map(Failure::message));
    }

    async fn apply(&mut self) -> Result<(), Failure> {
        let path = self.path.clone();
        // On a separate thread: the file and the user database may be on another host that hangs.
        let read = tokio::task::spawn_blocking(move || {
            if let Some(path) = &path {
                input::can_be_read_again(path)
                    .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
            }
            let (loaded, _) = load(path.as_deref())?;
            let policy = policy(&loaded.config)?;
            Ok((loaded, policy))
        });
        // If the thread hangs, leave it behind, so that the next reload has a chance.
        let read = tokio::time::timeout(LIMIT, read).await.map_err(|_| {
            Failure::not_now(format!(
                "reading the configuration, and the users and groups that it names, took longer \
                 than {LIMIT:?}; check the file system and the user database"
            ))
        })?;
        let (loaded, policy) =
            read.unwrap_or_else(|error| Err(Failure::software(&format!("a defect: {error}"))))?;
        // The level has been checked, so this fails only if the log has ended.
        self.log.set_level(&loaded.config.log.level).map_err(|error| {
            Failure::config(format!("log.level: {:?}: {error}", loaded.config.log.level))
        })?;
        // In this order: see `Transport::reload`.
        self.transports.reload(&loaded.config);
        self.service.change_policy(policy);
        self.segments.refresh_soon();
        let mut now = self.latest.differences(&loaded);
        now.retain(|key| self.is_reloaded(key));
        let mut later = self.started.differences(&loaded);
        later.retain(|key| !self.is_reloaded(key));
        self.latest = loaded;
        let now = if now.is_empty() { "no key has changed".to_owned() } else { now.join(", ") };
        tracing::info!("configuration reloaded: {now}; leafd also reads the list of tags again");
        if !later.is_empty() {
            tracing::warn!("changed, but applied only at the next start: {}", later.join(", "));
        }
        Ok(())
    }

    fn is_reloaded(&self, key: &str) -> bool {
        let mut known = RELOADED.into_iter().chain(self.transports.reloaded_keys());
        known.any(|known| match known.strip_suffix('.') {
            Some(section) => key.split('.').next() == Some(section),
            None => key == known,
        })
    }
}

/// The policy that `config` sets for requests.
pub(super) fn policy(config: &Config) -> Result<Policy, Failure> {
    let limits = RequestLimits {
        max_in_flight: config.socket.max_in_flight,
        max_count: config.socket.max_count,
        wait: config.segment.wait,
        max_wait: config.segment.max_wait,
    };
    let (access, tags) = (access(config)?, tag_quotas(config));
    let (tokens, public_keys) = (paths::http_tokens(config)?, paths::public_keys(config)?);
    let metrics_tags = patterns(&config.metrics.tags);
    Ok(Policy { limits, access, tags, tokens, public_keys, metrics_tags })
}
