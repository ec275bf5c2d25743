//! What SIGHUP does: reads the configuration again, and puts in force what can change while leafd
//! runs. All of it or, when it is wrong, nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::access::{access, tag_quotas};
use super::failure::Failure;
use super::load;
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
const RELOADED: [&str; 7] = [
    "access.",
    "quota.",
    "socket.max-in-flight",
    "socket.max-count",
    "segment.wait",
    "segment.max-wait",
    "log.level",
];

/// How long a reload may read, user database included.
const LIMIT: Duration = Duration::from_secs(30);

/// What a reload needs.
pub(super) struct Reloader {
    path: Option<PathBuf>,
    /// What leafd was started with,
    started: Loaded,
    /// and what it has read last.
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

    /// Reloads; log and service manager are told what comes of it.
    pub(super) async fn reload(&mut self, manager: &Manager) {
        manager.reloading();
        let outcome = self.put_in_force().await;
        if let Err(failure) = &outcome {
            tracing::error!("not reloaded, nothing is changed: {}", failure.message());
        }
        manager.reloaded(outcome.err().as_ref().map(Failure::message));
    }

    async fn put_in_force(&mut self) -> Result<(), Failure> {
        let path = self.path.clone();
        // On a thread of its own: the file and the list of users may be on another host, which
        // hangs.
        let read = tokio::task::spawn_blocking(move || {
            if let Some(path) = &path {
                input::can_be_read_again(path)
                    .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
            }
            let (loaded, _) = load(path.as_deref())?;
            let policy = policy(&loaded.config)?;
            Ok((loaded, policy))
        });
        // Left behind if it hangs, so that the next reload has a chance.
        let read = tokio::time::timeout(LIMIT, read).await.map_err(|_| {
            Failure::not_now(format!(
                "the configuration, and the users and groups that it names, were not read within \
                 {LIMIT:?}; look at the file system and the user database"
            ))
        })?;
        let (loaded, policy) =
            read.unwrap_or_else(|error| Err(Failure::software(&format!("a defect: {error}"))))?;
        // Checked with the rest, so that it can only fail together with the log.
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
        tracing::info!("configuration reloaded: {now}; the list of tags is read again");
        if !later.is_empty() {
            tracing::warn!("changed, and in force from the next start on: {}", later.join(", "));
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
    Ok(Policy { limits, access: access(config)?, tags: tag_quotas(config) })
}
