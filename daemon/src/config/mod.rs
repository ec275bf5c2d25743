//! The configuration: one TOML file, every key overridable by the environment, checked as a whole
//! before anything starts. `default.toml` is the reference and is what `leafd default-config`
//! prints; a test holds it to the defaults here.

mod access;
pub mod acl;
mod check;
mod environment;
mod load;
pub mod log_level;
mod password;
mod registry;
mod zookeeper;

use std::path::PathBuf;
use std::time::Duration;

use leaf_client::Layout;
use serde::{Deserialize, Deserializer};

use crate::secret::Secret;
use crate::store::{Address, Location, Server};

pub use access::{Access, AccessRule, Principal, Quota, TagQuota};
pub use check::Problem;
pub use load::{ConfigError, Loaded, load};
pub use password::NoPassword;
pub use registry::Address as PeerAddress;
pub use zookeeper::Ensemble;

/// The default configuration with its comments.
pub const DEFAULT: &str = include_str!("default.toml");

/// Every key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Where and how applications connect.
    pub socket: Socket,
    /// Who may do what.
    pub access: Access,
    /// How much of it.
    pub quota: Quota,
    /// What survives a restart.
    pub state: State,
    /// Where ranges come from.
    pub store: Store,
    /// Segment IDs.
    pub segment: Segment,
    /// Snowflake IDs.
    pub snowflake: Snowflake,
    /// Who this host is.
    pub worker: Worker,
    /// Where worker IDs come from, if from ZooKeeper.
    pub zookeeper: ZooKeeper,
    /// How other instances ask for the time.
    pub peer: Peer,
    /// What is logged.
    pub log: Log,
    /// How leafd stops.
    pub shutdown: Shutdown,
}

/// Where and how applications connect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Socket {
    #[serde(deserialize_with = "path")]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "mode")]
    pub mode: u32,
    #[serde(deserialize_with = "text")]
    pub group: Option<String>,
    pub max_connections: usize,
    pub max_in_flight: usize,
    pub max_count: u32,
    pub max_request_bytes: usize,
    #[serde(deserialize_with = "duration")]
    pub idle_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub request_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub write_timeout: Duration,
}

/// What survives a restart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[derive(Default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct State {
    #[serde(deserialize_with = "path")]
    pub dir: Option<PathBuf>,
    #[serde(deserialize_with = "text")]
    pub machine_id: Option<String>,
    pub unstable_inodes: bool,
}

/// Where ranges come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Store {
    pub kind: StoreKind,
    #[serde(deserialize_with = "path")]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "secret")]
    pub url: Option<Secret>,
    #[serde(deserialize_with = "secret")]
    pub password: Option<Secret>,
    #[serde(deserialize_with = "path")]
    pub password_file: Option<PathBuf>,
    pub tls_verify: bool,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    pub max_connections: usize,
}

/// The databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// Embedded, for one host.
    Sqlite,
    /// MySQL or MariaDB, shared.
    #[serde(rename = "mysql", alias = "mariadb")]
    MySql,
    /// PostgreSQL, shared.
    #[serde(alias = "postgresql")]
    Postgres,
}

/// Whether tags are made on first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoCreate {
    /// With the embedded store, which no administrator fills.
    Auto,
    /// As said.
    Always(bool),
}

/// Segment IDs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Segment {
    #[serde(deserialize_with = "auto_create")]
    pub auto_create: AutoCreate,
    pub default_step: u64,
    pub max_step: u64,
    #[serde(deserialize_with = "duration")]
    pub wait: Duration,
    #[serde(deserialize_with = "duration")]
    pub max_wait: Duration,
    pub max_waiting: usize,
    pub max_tags: usize,
    #[serde(deserialize_with = "duration")]
    pub refresh: Duration,
    #[serde(deserialize_with = "duration")]
    pub unknown_for: Duration,
}

/// Snowflake IDs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Snowflake {
    pub enabled: bool,
    #[serde(deserialize_with = "layout")]
    pub layout: Layout,
    #[serde(deserialize_with = "duration")]
    pub ceiling_ahead: Duration,
    #[serde(deserialize_with = "duration")]
    pub max_lead: Duration,
    #[serde(deserialize_with = "duration")]
    pub clock_tolerance: Duration,
    #[serde(deserialize_with = "duration")]
    pub start_wait: Duration,
    pub random_start: u64,
}

/// Who this host is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Worker {
    pub registry: Registry,
    pub id: u64,
    #[serde(deserialize_with = "text")]
    pub identity: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub reclaim_after: Duration,
    #[serde(deserialize_with = "duration")]
    pub fence_after: Duration,
    pub java_leaf: bool,
    pub give_back: bool,
    #[serde(deserialize_with = "duration")]
    pub max_clock_offset: Duration,
}

/// Where worker IDs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Registry {
    /// The configuration.
    Fixed,
    /// ZooKeeper, in Java Leaf's tree.
    #[serde(rename = "zookeeper")]
    ZooKeeper,
}

impl Registry {
    /// As the configuration names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Whether other hosts use it as well, so that it gives this host a worker ID.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !matches!(self, Self::Fixed)
    }
}

/// The ensemble, and the tree in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct ZooKeeper {
    #[serde(deserialize_with = "text")]
    pub servers: Option<String>,
    pub name: String,
    #[serde(deserialize_with = "duration")]
    pub session_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    #[serde(deserialize_with = "secret")]
    pub auth: Option<Secret>,
    #[serde(deserialize_with = "path")]
    pub auth_file: Option<PathBuf>,
    pub acl: String,
}

/// How other instances ask for the time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Peer {
    #[serde(deserialize_with = "text")]
    pub listen: Option<String>,
    #[serde(deserialize_with = "text")]
    pub advertise: Option<String>,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For the journal where standard error is the journal, else for people.
    Auto,
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
    /// The journal's own, with fields.
    Journald,
}

/// How leafd stops.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "default.toml documents each key")]
pub struct Shutdown {
    #[serde(deserialize_with = "duration")]
    pub grace: Duration,
}

impl Config {
    /// Whether tags are made on first use.
    #[must_use]
    pub fn makes_tags(&self) -> bool {
        match self.segment.auto_create {
            AutoCreate::Auto => self.store.kind == StoreKind::Sqlite,
            AutoCreate::Always(make) => make,
        }
    }

    /// The store, with the checked address of a shared one.
    ///
    /// # Errors
    /// When its address is missing or cannot be meant.
    pub fn store_location(&self) -> Result<Location, Problem> {
        let server = match self.store.kind {
            StoreKind::Sqlite => return Ok(Location::Embedded),
            StoreKind::MySql => Server::MySql,
            StoreKind::Postgres => Server::Postgres,
        };
        let problem = |text| Problem { key: "store.url", text };
        let url = self.store.url.as_ref();
        let url =
            url.ok_or_else(|| problem(format!("is missing; write it as in {}", server.example())))?;
        let address = Address::new(server, url.expose(), self.store.tls_verify);
        address.map(Location::Shared).map_err(|error| problem(error.to_string()))
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Default for Socket {
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

impl Default for Store {
    fn default() -> Self {
        Self {
            kind: StoreKind::Sqlite,
            path: None,
            url: None,
            password: None,
            password_file: None,
            tls_verify: true,
            timeout: seconds(2),
            max_connections: 8,
        }
    }
}

impl Default for Segment {
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
        }
    }
}

impl Default for Snowflake {
    fn default() -> Self {
        Self {
            enabled: true,
            layout: Layout::LEAF,
            ceiling_ahead: seconds(1),
            max_lead: Duration::from_millis(10),
            clock_tolerance: Duration::from_millis(5),
            start_wait: seconds(15),
            random_start: 100,
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            registry: Registry::Fixed,
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

impl Default for ZooKeeper {
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

impl Default for Peer {
    fn default() -> Self {
        Self { listen: Some("0.0.0.0:8735".into()), advertise: None }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace: seconds(5) }
    }
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(from)?).filter(|text| !text.is_empty()))
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(from)?.map(PathBuf::from))
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    // The error of a text that is none would show the value.
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        _ => return Err(serde::de::Error::custom("the value is not a text; put it in quotes")),
    };
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

fn auto_create<'de, D: Deserializer<'de>>(from: D) -> Result<AutoCreate, D::Error> {
    // In the file a boolean, in the environment a text.
    match toml::Value::deserialize(from)? {
        toml::Value::Boolean(make) => Ok(AutoCreate::Always(make)),
        toml::Value::String(text) => match text.as_str() {
            "auto" => Ok(AutoCreate::Auto),
            "true" => Ok(AutoCreate::Always(true)),
            "false" => Ok(AutoCreate::Always(false)),
            _ => {
                let error = format!("{text:?} is neither \"auto\" nor true nor false");
                Err(serde::de::Error::custom(error))
            }
        },
        other => {
            let error = format!("{other} is neither \"auto\" nor true nor false");
            Err(serde::de::Error::custom(error))
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    crate::duration::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn layout<'de, D: Deserializer<'de>>(from: D) -> Result<Layout, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let text = String::deserialize(from)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is not a mode; write it in octal, as in \"0660\""
        ))
    })
}
