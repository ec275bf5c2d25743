//! The test harness: starts real leafd daemons in folders of their own, kills them, steps their
//! clocks, and records every ID that a client receives.
//!
//! A helper that does not get what its name promises panics, which fails the test. The message has
//! the daemon's log where there is a daemon.

use std::time::Duration;

mod background;
pub mod binaries;
pub mod borrower;
pub mod browser;
mod cache;
pub mod caller;
pub mod certificates;
pub mod citations;
mod cleanup;
pub mod clock_host;
pub mod collector;
pub mod conformance;
pub mod daemon;
pub mod database;
pub mod doctor;
pub mod etcd;
pub mod faketime;
pub mod fixture;
pub mod fleet;
pub mod forked;
pub mod host;
pub mod http;
mod instance;
pub mod java_leaf;
pub mod lending;
pub mod links;
pub mod literals;
pub mod load;
pub mod log;
pub mod long;
pub mod malformed;
pub mod manifest;
pub mod manual;
pub mod moving;
pub mod nspawn;
pub mod openapi;
pub mod other_user;
#[cfg(feature = "pod")]
pub mod pod;
pub mod processes;
pub mod prometheus;
pub mod proxy;
pub mod raw;
pub mod redis;
pub mod registry;
pub mod scrape;
pub mod service_manager;
pub mod several;
pub mod snowflakes;
pub mod store_lock;
pub mod store_server;
pub mod stores;
pub mod structure;
pub mod terminal;
pub mod unique_ids;
pub mod watch;
pub mod workers;
pub mod zookeeper;

pub use background::{Background, SetOnDrop, with_each};
pub use borrower::Borrower;
pub use caller::Caller;
pub use daemon::Daemon;
pub use database::Database;
pub use etcd::EtcdCluster;
pub use host::Host;
pub use nspawn::Container;
pub use proxy::{Proxies, Proxy};
pub use redis::Redis;
pub use registry::TestRegistry;
pub use store_lock::StoreLock;
pub use store_server::StoreServer;
pub use terminal::Terminal;
pub use unique_ids::UniqueIds;
pub use zookeeper::Ensemble;

/// How long a test waits for anything before it fails. No test measures time with it.
pub const PATIENCE: Duration = Duration::from_secs(60);
