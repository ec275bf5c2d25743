//! The sections of the configuration with the default of each key. `default.toml` says what each
//! key means; a test compares its values with the defaults here.

use std::path::PathBuf;
use std::time::Duration;

use leaf_client::Layout;
use leaf_client::form::FleetId;
use serde::Deserialize;

use super::values::{self, AutoCreate};
use crate::secret::Secret;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct SocketSection {
    #[serde(deserialize_with = "values::path")]
    pub(crate) path: Option<PathBuf>,
    #[serde(deserialize_with = "values::mode")]
    pub(crate) mode: u32,
    #[serde(deserialize_with = "values::text")]
    pub(crate) group: Option<String>,
    pub(crate) max_connections: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_count: u32,
    pub(crate) max_request_bytes: usize,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) idle_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) request_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) write_timeout: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct StateSection {
    #[serde(deserialize_with = "values::path")]
    pub(crate) dir: Option<PathBuf>,
    #[serde(deserialize_with = "values::text")]
    pub(crate) machine_id: Option<String>,
    pub(crate) unstable_inodes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct StoreSection {
    pub(crate) kind: StoreKind,
    #[serde(deserialize_with = "values::path")]
    pub(crate) path: Option<PathBuf>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) url: Option<Secret>,
    #[serde(deserialize_with = "values::secrets")]
    pub(crate) urls: Vec<Secret>,
    #[serde(deserialize_with = "values::text")]
    pub(crate) division: Option<String>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) tls_verify: bool,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) timeout: Duration,
    pub(crate) max_connections: usize,
    pub(crate) missing_hosts: MissingHostsKind,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) missing_after: Duration,
    pub(crate) missing_margin: u64,
}

/// What to do about hosts that do not confirm an epoch of the witness table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MissingHostsKind {
    Wait,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreKind {
    Sqlite,
    #[serde(rename = "mysql", alias = "mariadb")]
    MySql,
    #[serde(alias = "postgresql")]
    Postgres,
    Redis,
    Several,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct RedisSection {
    #[serde(deserialize_with = "values::text")]
    pub(crate) servers: Option<String>,
    #[serde(deserialize_with = "values::text")]
    pub(crate) sentinel: Option<String>,
    pub(crate) database: u32,
    #[serde(deserialize_with = "values::text")]
    pub(crate) user: Option<String>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) password_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::text")]
    pub(crate) sentinel_user: Option<String>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) sentinel_password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) sentinel_password_file: Option<PathBuf>,
    pub(crate) tls: bool,
    #[serde(deserialize_with = "values::path")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) cert_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key: String,
    pub(crate) own_keys: String,
    pub(crate) margin: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct SegmentSection {
    #[serde(deserialize_with = "values::auto_create")]
    pub(crate) auto_create: AutoCreate,
    pub(crate) default_step: u64,
    pub(crate) max_step: u64,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) wait: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) max_wait: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) max_tags: usize,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) refresh: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) unknown_for: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) retire_after: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct SnowflakeSection {
    pub(crate) enabled: bool,
    #[serde(deserialize_with = "values::layout")]
    pub(crate) layout: Layout,
    #[serde(deserialize_with = "values::fleet")]
    pub(crate) fleet: Option<FleetId>,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) ceiling_ahead: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) max_lead: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) clock_tolerance: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) start_wait: Duration,
    pub(crate) random_start: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct WorkerSection {
    pub(crate) registry: RegistryKind,
    pub(crate) id: u64,
    #[serde(deserialize_with = "values::text")]
    pub(crate) identity: Option<String>,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) reclaim_after: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) fence_after: Duration,
    pub(crate) java_leaf: bool,
    pub(crate) give_back: bool,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) max_clock_offset: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct LendSection {
    pub(crate) pools: String,
    pub(crate) max_loans: usize,
    pub(crate) max_per_user: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RegistryKind {
    /// `worker.id`.
    Fixed,
    /// ZooKeeper, in Java Leaf's tree.
    #[serde(rename = "zookeeper")]
    ZooKeeper,
    /// A table.
    Database,
    /// Keys in etcd.
    Etcd,
    /// Baidu's table.
    WorkerNode,
}

impl RegistryKind {
    /// The name in the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::ZooKeeper => "zookeeper",
            Self::Database => "database",
            Self::Etcd => "etcd",
            Self::WorkerNode => "worker-node",
        }
    }

    /// Whether this leafd was built with it.
    pub(crate) const fn is_built(self) -> bool {
        match self {
            Self::Fixed => true,
            Self::ZooKeeper => cfg!(feature = "zookeeper"),
            Self::Database | Self::WorkerNode => cfg!(feature = "database"),
            Self::Etcd => cfg!(feature = "etcd"),
        }
    }

    /// Whether other hosts use the registry too, so that it gives this host a worker ID.
    pub(crate) const fn is_shared(self) -> bool {
        !matches!(self, Self::Fixed)
    }

    /// Whether instances claim worker IDs in it, report them, and find each other there. Elsewhere an
    /// instance has its worker ID for good.
    pub(crate) const fn has_claims(self) -> bool {
        matches!(self, Self::ZooKeeper | Self::Database | Self::Etcd)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ZooKeeperSection {
    #[serde(deserialize_with = "values::text")]
    pub(crate) servers: Option<String>,
    pub(crate) name: String,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) session_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) timeout: Duration,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) auth: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) auth_file: Option<PathBuf>,
    pub(crate) acl: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct DatabaseSection {
    #[serde(deserialize_with = "values::secret")]
    pub(crate) url: Option<Secret>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) tls_verify: bool,
    #[serde(deserialize_with = "values::path")]
    pub(crate) path: Option<PathBuf>,
    pub(crate) name: String,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) session_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct EtcdSection {
    #[serde(deserialize_with = "values::text")]
    pub(crate) endpoints: Option<String>,
    pub(crate) name: String,
    #[serde(deserialize_with = "values::text")]
    pub(crate) user: Option<String>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) password_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) cert_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) key_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) session_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct WorkerNodeSection {
    #[serde(deserialize_with = "values::secret")]
    pub(crate) url: Option<Secret>,
    #[serde(deserialize_with = "values::secret")]
    pub(crate) password: Option<Secret>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) tls_verify: bool,
    pub(crate) table: String,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct PeerSection {
    #[serde(deserialize_with = "values::text")]
    pub(crate) listen: Option<String>,
    #[serde(deserialize_with = "values::text")]
    pub(crate) advertise: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct MetricsSection {
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct LogSection {
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// `Journald` if standard error is the journal, else `Human`.
    Auto,
    Human,
    /// One JSON object per line.
    Json,
    /// The journal's own protocol, with a field for each value.
    Journald,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ShutdownSection {
    #[serde(deserialize_with = "values::duration")]
    pub(crate) grace: Duration,
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Default for SocketSection {
    fn default() -> Self {
        Self {
            path: None,
            mode: 0o660,
            group: None,
            max_connections: 16_384,
            max_in_flight: 1024,
            max_count: 100_000,
            max_request_bytes: 4096,
            idle_timeout: seconds(600),
            request_timeout: seconds(10),
            write_timeout: seconds(10),
        }
    }
}

impl Default for StoreSection {
    fn default() -> Self {
        Self {
            kind: StoreKind::Sqlite,
            path: None,
            url: None,
            urls: Vec::new(),
            division: None,
            password: None,
            password_file: None,
            tls_verify: true,
            timeout: seconds(2),
            max_connections: 8,
            missing_hosts: MissingHostsKind::Wait,
            missing_after: seconds(60),
            missing_margin: 1_000_000,
        }
    }
}

impl Default for SegmentSection {
    fn default() -> Self {
        Self {
            auto_create: AutoCreate::Auto,
            default_step: 1000,
            max_step: 100_000_000,
            wait: seconds(5),
            max_wait: seconds(60),
            max_waiting: 100_000,
            max_tags: 100_000,
            refresh: seconds(60),
            unknown_for: seconds(1),
            retire_after: seconds(30 * 86_400),
        }
    }
}

impl Default for SnowflakeSection {
    fn default() -> Self {
        Self {
            enabled: true,
            layout: Layout::LEAF,
            fleet: None,
            ceiling_ahead: seconds(1),
            max_lead: Duration::from_millis(10),
            clock_tolerance: Duration::from_millis(5),
            start_wait: seconds(15),
            random_start: 100,
        }
    }
}

impl Default for LendSection {
    fn default() -> Self {
        Self { pools: "default:10".to_owned(), max_loans: 256, max_per_user: 128 }
    }
}

impl Default for WorkerSection {
    fn default() -> Self {
        Self {
            registry: RegistryKind::Fixed,
            id: 0,
            identity: None,
            reclaim_after: seconds(24 * 3600),
            fence_after: seconds(12 * 3600),
            java_leaf: false,
            give_back: false,
            max_clock_offset: seconds(5),
        }
    }
}

impl Default for ZooKeeperSection {
    fn default() -> Self {
        Self {
            servers: None,
            name: "leaf".into(),
            session_timeout: seconds(10),
            timeout: seconds(2),
            auth: None,
            auth_file: None,
            acl: "anyone".into(),
        }
    }
}

impl Default for DatabaseSection {
    fn default() -> Self {
        Self {
            url: None,
            password: None,
            password_file: None,
            tls_verify: true,
            path: None,
            name: "leaf".into(),
            session_timeout: seconds(10),
            timeout: seconds(2),
        }
    }
}

impl Default for WorkerNodeSection {
    fn default() -> Self {
        Self {
            url: None,
            password: None,
            password_file: None,
            tls_verify: true,
            table: "WORKER_NODE".into(),
            timeout: seconds(1),
        }
    }
}

impl Default for RedisSection {
    fn default() -> Self {
        Self {
            servers: None,
            sentinel: None,
            database: 0,
            user: None,
            password: None,
            password_file: None,
            sentinel_user: None,
            sentinel_password: None,
            sentinel_password_file: None,
            tls: false,
            ca_file: None,
            cert_file: None,
            key_file: None,
            key: "id:{tag}".into(),
            own_keys: "leafd".into(),
            margin: 1000,
        }
    }
}

impl Default for EtcdSection {
    fn default() -> Self {
        Self {
            endpoints: None,
            name: "leaf".into(),
            user: None,
            password: None,
            password_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            session_timeout: seconds(10),
            timeout: seconds(2),
        }
    }
}

impl Default for PeerSection {
    fn default() -> Self {
        Self { listen: Some("0.0.0.0:8735".into()), advertise: None }
    }
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}

impl Default for ShutdownSection {
    fn default() -> Self {
        Self { grace: seconds(5) }
    }
}
