//! The configuration: one TOML file, in which the environment overrides any key, checked as a whole
//! before anything starts. `default.toml` is the reference, and `leafd default-config` prints it.

mod access;
#[cfg(feature = "zookeeper")]
pub(crate) mod acl;
mod check;
mod database;
mod environment;
pub(crate) mod etcd;
mod examine;
mod exposed;
mod http;
mod lend;
mod load;
pub(crate) mod log_level;
mod metrics;
mod mistake;
mod nearest;
mod password;
mod problems;
mod public;
mod reader;
mod redis;
mod registry;
mod remedy;
mod sections;
mod several;
mod syntax;
mod token;
mod values;
mod warnings;
mod worker_node;
mod written;
mod zookeeper;

use serde::Deserialize;

use crate::store::witness::rules::MissingHosts;
use crate::store::{ServerKind, StoreLocation};

pub(crate) use access::{AccessRule, UserOrGroup};
use access::{AccessSection, QuotaSection};
pub(crate) use database::RegistryDatabase;
use http::HttpSection;
pub(crate) use http::MetricsAudience;
pub(crate) use lend::{LENT, PoolRules};
pub(crate) use load::{Loaded, load};
pub(crate) use mistake::ConfigError;
pub(crate) use password::{NoPassword, StoreSecrets, place};
pub(crate) use problems::Problem;
use public::PublicSection;
pub use registry::PeerAddress;
use sections::MissingHostsKind;
use sections::{
    DatabaseSection, EtcdSection, LendSection, MetricsSection, PeerSection, RedisSection,
    SegmentSection, ShutdownSection, SnowflakeSection, SocketSection, StateSection, StoreSection,
    WorkerNodeSection, ZooKeeperSection,
};
pub(crate) use sections::{LogFormat, LogSection, RegistryKind, StoreKind, WorkerSection};
use values::AutoCreate;
pub use zookeeper::Ensemble;

/// The default configuration with its comments.
pub const DEFAULT: &str = include_str!("default.toml");

/// Every key of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) socket: SocketSection,
    pub(crate) http: HttpSection,
    pub(crate) access: AccessSection,
    pub(crate) quota: QuotaSection,
    pub(crate) state: StateSection,
    pub(crate) store: StoreSection,
    pub(crate) redis: RedisSection,
    pub(crate) segment: SegmentSection,
    pub(crate) snowflake: SnowflakeSection,
    pub(crate) public: PublicSection,
    pub(crate) worker: WorkerSection,
    pub(crate) zookeeper: ZooKeeperSection,
    pub(crate) database: DatabaseSection,
    pub(crate) etcd: EtcdSection,
    pub(crate) worker_node: WorkerNodeSection,
    pub(crate) lend: LendSection,
    pub(crate) peer: PeerSection,
    pub(crate) metrics: MetricsSection,
    pub(crate) log: LogSection,
    pub(crate) shutdown: ShutdownSection,
}

impl Config {
    /// Whether leafd creates tags on first use.
    #[must_use]
    pub(crate) fn makes_tags(&self) -> bool {
        match self.segment.auto_create {
            AutoCreate::Auto => self.store.kind == StoreKind::Sqlite,
            AutoCreate::Always(create) => create,
        }
    }

    /// What this host does about others that do not confirm an epoch of the witness table.
    pub(crate) fn missing_hosts(&self) -> MissingHosts {
        match self.store.missing_hosts {
            MissingHostsKind::Wait => MissingHosts::Wait,
            MissingHostsKind::Skip => MissingHosts::Skip {
                after: self.store.missing_after,
                margin: self.store.missing_margin,
            },
        }
    }

    /// Where the store is, with the parsed address of a shared one.
    ///
    /// # Errors
    /// When the address is missing or invalid.
    pub(crate) fn store_location(&self) -> Result<StoreLocation, Problem> {
        let server = match self.store.kind {
            StoreKind::Sqlite => return Ok(StoreLocation::Embedded),
            StoreKind::MySql => ServerKind::MySql,
            StoreKind::Postgres => ServerKind::Postgres,
            StoreKind::Redis => return self.redis_location(),
            StoreKind::Several => return self.several_location(),
        };
        let problem = |text| Problem::new("store.url", text).with(&["store.kind"]);
        let url = self.store.url.as_ref();
        let url =
            url.ok_or_else(|| problem(format!("is missing; write it like {}", server.example())))?;
        let address = server.address(url.expose(), self.store.tls_verify);
        address.map(StoreLocation::Shared).map_err(|error| problem(error.to_string()))
    }
}
