//! The harness: starts real daemons in folders of their own, kills them, steps their clocks, and
//! keeps every ID that anybody received.

pub mod asker;
pub mod binaries;
pub mod caller;
pub mod citations;
pub mod clocked;
pub mod daemon;
pub mod database;
pub mod faketime;
pub mod fixture;
pub mod fleet;
pub mod host;
mod instance;
pub mod java_leaf;
mod keeper;
pub mod links;
pub mod literals;
pub mod load;
pub mod log;
pub mod long;
pub mod malformed;
pub mod manager;
pub mod manifest;
pub mod manual;
pub mod nspawn;
#[cfg(feature = "pod")]
pub mod pod;
pub mod proxy;
pub mod raw;
pub mod seen;
pub mod snowflakes;
pub mod someone;
pub mod stores;
pub mod structure;
pub mod watch;
pub mod workers;
pub mod zookeeper;

pub use caller::Caller;
pub use daemon::Daemon;
pub use database::Database;
pub use host::Host;
pub use instance::processes_in;
pub use nspawn::Container;
pub use proxy::Proxy;
pub use seen::Seen;
pub use zookeeper::Ensemble;
