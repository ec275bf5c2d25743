//! The facts that the checks judge, as plain values.

use std::path::PathBuf;

use leaf_client::wire::{DaemonStatus, SnowflakeState, TagStatus};

use super::mounts::{Mount, StorageKind};
use crate::config::{Config, RegistryKind, StoreKind};
use crate::store::StoreFacts;
use crate::worker::registry::inspection::RegistryFacts;

/// What looking at something brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen<T> {
    /// It was seen.
    As(T),
    /// It could not be seen: why.
    Not(String),
    /// There is no such thing here, or no way to it.
    Nothing,
}

/// The configuration, as a leafd of this host would read it.
#[derive(Debug, Clone)]
pub(crate) enum ConfigurationFacts {
    /// leafd would start with it.
    Right {
        config: Box<Config>,
        /// The file, or `defaults`.
        from: String,
        /// When the file was written last (ms since 1970).
        modified_ms: Option<u64>,
        /// What `leafd check` warns of besides.
        warnings: Vec<String>,
    },
    /// leafd would not start with it.
    Wrong(String),
    /// This user may not read it.
    Unreadable(String),
}

/// What the daemon says on its socket.
#[derive(Debug, Clone)]
pub enum DaemonFacts {
    /// It answers.
    Up {
        /// Its status.
        status: Box<DaemonStatus>,
        /// The tags in use, or why they could not be read.
        tags: Result<Vec<TagStatus>, String>,
    },
    /// No daemon listens: why.
    Down(String),
    /// A daemon listens and does not answer, or answers with an error.
    Silent(String),
    /// This user may not ask.
    Closed(String),
}

/// The daemon's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessFacts {
    pub(crate) uid: u32,
    /// The hard limit of open files; none if there is none.
    pub(crate) most_files: Option<u64>,
    /// Open files; none if this user may not count them.
    pub(crate) open_files: Option<u64>,
}

/// Whether the kernel's clock is synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockFacts {
    Synchronised,
    Free,
}

/// The host.
#[derive(Debug, Clone)]
pub(crate) struct HostFacts {
    pub(crate) clock: Seen<ClockFacts>,
    /// Open files of all processes, and their limit.
    pub(crate) all_files: Option<(u64, u64)>,
    /// The daemon's process, if it could be found.
    pub(crate) process: Option<ProcessFacts>,
}

/// What is at the socket's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketFacts {
    pub(crate) path: PathBuf,
    /// Where a client looks that is told nothing.
    pub(crate) clients_look_at: PathBuf,
    /// Mode, owner and group of the socket; none if there is no socket.
    pub(crate) mode: Option<u32>,
    pub(crate) group: String,
    pub(crate) owner: String,
}

/// The room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskFacts {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) free_inodes: u64,
    /// 0 if the file system makes inodes as it needs them.
    pub(crate) total_inodes: u64,
    pub(crate) read_only: bool,
}

/// The state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFacts {
    pub(crate) path: PathBuf,
    pub(crate) uid: u32,
    pub(crate) mode: u32,
    pub(crate) mount: Mount,
    pub(crate) storage: StorageKind,
    pub(crate) disk: DiskFacts,
    /// Files that belong to another user than the directory; none if this user may not look.
    pub(crate) strangers: Option<Vec<String>>,
}

/// Everything that the checks know.
#[derive(Debug, Clone)]
pub struct Facts {
    pub(crate) now_ms: u64,
    /// The version of this program.
    pub(crate) version: &'static str,
    pub(crate) configuration: ConfigurationFacts,
    pub(crate) daemon: DaemonFacts,
    pub(crate) socket: SocketFacts,
    pub(crate) host: HostFacts,
    /// Descriptors that leafd needs besides its connections.
    pub(crate) other_descriptors: u64,
    /// Nothing: there is no directory at this path.
    pub(crate) state: Seen<StateFacts>,
    /// Nothing: the store is embedded, or unknown.
    pub(crate) store: Seen<StoreFacts>,
    /// What each database of a store of several says, in the order of the list: its place and its share,
    /// or why leafd cannot lease from it.
    pub(crate) databases: Vec<(String, Result<String, String>)>,
    /// Nothing: the registry is another one, or unknown.
    pub(crate) registry: Seen<RegistryFacts>,
}

impl Facts {
    pub(crate) const fn config(&self) -> Option<&Config> {
        match &self.configuration {
            ConfigurationFacts::Right { config, .. } => Some(config),
            ConfigurationFacts::Wrong(_) | ConfigurationFacts::Unreadable(_) => None,
        }
    }

    pub(crate) const fn status(&self) -> Option<&DaemonStatus> {
        match &self.daemon {
            DaemonFacts::Up { status, .. } => Some(status),
            DaemonFacts::Down(_) | DaemonFacts::Silent(_) | DaemonFacts::Closed(_) => None,
        }
    }

    /// Whether other hosts lease from the store too. The running daemon knows best.
    pub(super) fn has_shared_store(&self) -> Option<bool> {
        let running = self.status().map(|status| !status.segments.store.starts_with("sqlite "));
        running.or_else(|| self.config().map(|config| config.store.kind != StoreKind::Sqlite))
    }

    /// Whether the configuration numbers the hosts.
    pub(super) fn has_fixed_worker(&self) -> Option<bool> {
        let running = self.status().map(|status| status.snowflake.registry == "fixed");
        running
            .or_else(|| self.config().map(|config| config.worker.registry == RegistryKind::Fixed))
    }

    /// Where the worker ID comes from, by the configuration, or else by what the daemon says.
    pub(super) fn registry_kind(&self) -> RegistryKind {
        let running = self.status().map(|status| status.snowflake.registry.as_str());
        match (self.config(), running) {
            (Some(config), None) => config.worker.registry,
            (_, Some("zookeeper")) => RegistryKind::ZooKeeper,
            (_, Some("database")) => RegistryKind::Database,
            (_, Some("etcd")) => RegistryKind::Etcd,
            (_, Some("worker-node")) => RegistryKind::WorkerNode,
            (_, _) => RegistryKind::Fixed,
        }
    }

    /// Whether snowflake IDs are turned on. A daemon that refuses them does not say which of the two
    /// it is.
    pub(super) fn wants_snowflakes(&self) -> Option<bool> {
        let says = |state: &SnowflakeState| match state {
            SnowflakeState::Refused { reason } => {
                reason.contains("snowflake.enabled").then_some(false)
            }
            _ => Some(true),
        };
        let running = self.status().and_then(|status| says(&status.snowflake.state));
        running.or_else(|| self.config().map(|config| config.snowflake.enabled))
    }
}
