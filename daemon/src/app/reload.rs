//! What SIGHUP does: reads the configuration again, and puts in force what can change while leafd
//! runs. All of it or, when it is wrong, nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::access::{access, tag_quotas};
use super::descriptors::room_for;
use super::failure::Failure;
use super::load;
use crate::config::{Config, ConfigError, Loaded};
use crate::input;
use crate::log;
use crate::manager::Manager;
use crate::segment::service::Segments;
use crate::service::Service;
use crate::service::terms::{Limits, Terms};

/// Keys and, with a dot at the end, sections that a reload changes. `segment.*` is not among them
/// but for the waits: the others are part of the state of each tag.
const RELOADED: [&str; 12] = [
    "access.",
    "quota.",
    "socket.max-connections",
    "socket.max-in-flight",
    "socket.max-count",
    "socket.max-request-bytes",
    "socket.idle-timeout",
    "socket.request-timeout",
    "socket.write-timeout",
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
}

impl Reloader {
    pub(super) fn new(
        path: Option<&Path>,
        started: &Loaded,
        log: log::Handle,
        service: &Arc<Service>,
        segments: &Segments,
    ) -> Self {
        Self {
            path: path.map(Path::to_owned),
            started: started.clone(),
            latest: started.clone(),
            log,
            service: Arc::clone(service),
            segments: segments.clone(),
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
            let terms = terms(&loaded.config)?;
            Ok((loaded, terms))
        });
        // Left behind if it hangs, so that the next reload has a chance.
        let read = tokio::time::timeout(LIMIT, read).await.map_err(|_| {
            Failure::not_now(format!(
                "the configuration, and the users and groups that it names, were not read within \
                 {LIMIT:?}; look at the file system and the user database"
            ))
        })?;
        let (loaded, terms) =
            read.unwrap_or_else(|error| Err(Failure::software(&format!("a defect: {error}"))))?;
        // Checked with the rest, so that it can only fail together with the log.
        self.log.set_level(&loaded.config.log.level).map_err(|error| {
            Failure::config(format!("log.level: {:?}: {error}", loaded.config.log.level))
        })?;
        self.service.change(terms);
        self.segments.refresh_soon();
        let mut now = self.latest.differences(&loaded);
        now.retain(|key| is_reloaded(key));
        let mut later = self.started.differences(&loaded);
        later.retain(|key| !is_reloaded(key));
        self.latest = loaded;
        let now = if now.is_empty() { "no key has changed".to_owned() } else { now.join(", ") };
        tracing::info!("configuration reloaded: {now}; the list of tags is read again");
        if !later.is_empty() {
            tracing::warn!("changed, and in force from the next start on: {}", later.join(", "));
        }
        Ok(())
    }
}

fn is_reloaded(key: &str) -> bool {
    RELOADED.iter().any(|known| match known.strip_suffix('.') {
        Some(section) => key.split('.').next() == Some(section),
        None => key == *known,
    })
}

/// The terms that `config` sets.
pub(super) fn terms(config: &Config) -> Result<Terms, Failure> {
    let socket = &config.socket;
    let limits = Limits {
        max_connections: room_for(config),
        max_in_flight: socket.max_in_flight,
        max_count: socket.max_count,
        max_request_bytes: socket.max_request_bytes,
        idle_timeout: socket.idle_timeout,
        request_timeout: socket.request_timeout,
        write_timeout: socket.write_timeout,
        wait: config.segment.wait,
        max_wait: config.segment.max_wait,
    };
    Ok(Terms { limits, access: access(config)?, tags: tag_quotas(config) })
}
