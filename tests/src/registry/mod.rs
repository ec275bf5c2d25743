//! The registries of worker IDs that hosts share, for tests of what all of them promise. A test is
//! written once and runs on every registry. It kills, freezes, wipes and restores the registry's
//! servers, and reads the records that leafd wrote.
//!
//! A new kind is a file here that implements [`RegistryKind`] and [`RegistryServers`], and a test in
//! [`on_every_registry!`](crate::on_every_registry).

mod access;
mod database;
mod etcd;
mod records;
mod zookeeper;

use std::fmt::Debug;
use std::sync::Arc;

pub use access::RegistryAccess;
pub use database::{DatabaseKind, DatabaseServer, MARIADB, POSTGRES};
pub use etcd::Etcd;
pub use records::{RegistryRecord, WorkerRow};
pub use zookeeper::ZooKeeper;

use crate::proxy::{Proxies, Proxy};

/// Runs functions that take a `&'static dyn RegistryKind` as tests on every registry.
#[macro_export]
macro_rules! on_every_registry {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::registry;

            #[test]
            fn zookeeper() { super::$promise(&registry::ZooKeeper) }
            #[test]
            fn etcd() { super::$promise(&registry::Etcd) }
            #[test]
            fn mariadb() { super::$promise(&registry::MARIADB) }
            #[test]
            fn postgres() { super::$promise(&registry::POSTGRES) }
        }
    )+};
}

/// Runs functions that take a `&'static DatabaseKind` as tests on every database.
#[macro_export]
macro_rules! on_every_registry_database {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::registry;

            #[test]
            fn mariadb() { super::$promise(&registry::MARIADB) }
            #[test]
            fn postgres() { super::$promise(&registry::POSTGRES) }
        }
    )+};
}

/// A kind of registry.
pub trait RegistryKind: Debug + Sync {
    /// Its name in what tests print.
    fn name(&self) -> &'static str;

    /// What leafd's messages call it.
    fn called(&self) -> &'static str;

    /// Whether an instance takes a worker ID over only after it has itself seen it unchanged for long enough,
    /// without a disturbance. Otherwise the registry's clock tells.
    fn observes_ages(&self) -> bool;

    /// Starts servers for one test alone. A kind that has only single servers starts one.
    fn start(&self, size: usize) -> Arc<dyn RegistryServers>;

    /// The servers that the tests of this process share, and must not disturb.
    fn shared(&self) -> Arc<dyn RegistryServers>;
}

/// The servers of a registry. They are numbered from 0 and keep their ports. They end when this is
/// dropped or the test process ends.
pub trait RegistryServers: Debug + Send + Sync {
    /// Makes a place for a fleet of its own, without records, and returns its name.
    fn new_fleet(&self) -> String;

    /// Where the servers listen.
    fn ports(&self) -> Vec<u16>;

    /// How a daemon reaches a fleet through these ports, one for each server.
    fn access(&self, fleet: &str, ports: &[u16]) -> RegistryAccess;

    /// The record at a path, as leafd has it in every registry: `forever/a-0000000000`.
    fn record(&self, fleet: &str, path: &str) -> Option<RegistryRecord>;

    /// The sorted names of the records right below a folder: `forever`, `temporary` or `free`.
    fn names(&self, fleet: &str, folder: &str) -> Vec<String>;

    /// The registry's clock, in ms since 1970.
    fn now_ms(&self, fleet: &str) -> u64;

    /// Makes the registry count as if this many more worker IDs had been given.
    fn pass_over(&self, fleet: &str, numbers: u64);

    /// Deletes all data, of all fleets.
    fn wipe(&self);

    /// Copies all data. The text is for [`Self::restore`] alone.
    fn back_up(&self) -> String;

    /// Replaces all data by those of a backup.
    fn restore(&self, backup: &str);

    /// The server that the others depend on.
    fn leader(&self) -> usize;

    /// Kills a server (SIGKILL), frozen or not.
    fn kill(&self, server: usize);

    /// Starts a killed server again. Waits until it serves, unless most servers are down.
    fn start_again(&self, server: usize);

    /// Freezes a server (SIGSTOP): connections stay open, and nothing answers.
    fn freeze(&self, server: usize);

    /// Resumes a frozen server.
    fn thaw(&self, server: usize);

    /// Kills all servers that run.
    fn kill_all(&self);

    /// Starts all servers that do not run, and waits until they serve.
    fn start_all(&self);

    /// Freezes all servers that run.
    fn freeze_all(&self);

    /// Resumes all frozen servers.
    fn thaw_all(&self);

    /// Waits until every server answers.
    fn wait_serving(&self);
}

/// A fleet in a registry. Its records are empty at first.
#[derive(Debug, Clone)]
pub struct TestRegistry {
    kind: &'static dyn RegistryKind,
    servers: Arc<dyn RegistryServers>,
    fleet: String,
}

impl TestRegistry {
    /// A fleet on the servers that the tests of this process share. The test must not disturb them.
    #[must_use]
    pub fn shared(kind: &'static dyn RegistryKind) -> Self {
        Self::on(kind, kind.shared())
    }

    /// A fleet on servers for this test alone: this many, if a registry of this kind has several.
    #[must_use]
    pub fn alone(kind: &'static dyn RegistryKind, size: usize) -> Self {
        Self::on(kind, kind.start(size))
    }

    /// A new fleet on these servers.
    #[must_use]
    pub fn on(kind: &'static dyn RegistryKind, servers: Arc<dyn RegistryServers>) -> Self {
        let fleet = servers.new_fleet();
        Self { kind, servers, fleet }
    }

    /// The same fleet on other servers, which have a copy of its data.
    #[must_use]
    pub fn moved_to(&self, servers: Arc<dyn RegistryServers>) -> Self {
        Self { kind: self.kind, servers, fleet: self.fleet.clone() }
    }

    /// The name of the kind, in what tests print.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// What leafd's messages call the registry.
    #[must_use]
    pub fn called(&self) -> &'static str {
        self.kind.called()
    }

    /// As [`RegistryKind::observes_ages`].
    #[must_use]
    pub fn observes_ages(&self) -> bool {
        self.kind.observes_ages()
    }

    /// The registry's servers.
    #[must_use]
    pub fn servers(&self) -> &dyn RegistryServers {
        self.servers.as_ref()
    }

    /// Number of servers, running or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.servers.ports().len()
    }

    /// How daemons reach the fleet.
    #[must_use]
    pub fn access(&self) -> RegistryAccess {
        self.servers.access(&self.fleet, &self.servers.ports())
    }

    /// A proxy in front of each server, and how daemons reach the fleet through them.
    #[must_use]
    pub fn through_proxies(&self) -> (Proxies, RegistryAccess) {
        let proxies: Vec<Proxy> = self.servers.ports().into_iter().map(Proxy::to).collect();
        let ports: Vec<u16> = proxies.iter().map(Proxy::port).collect();
        (Proxies::from(proxies), self.servers.access(&self.fleet, &ports))
    }

    /// Kills all servers that run.
    pub fn kill_all(&self) {
        self.servers.kill_all();
    }

    /// Starts all servers that do not run, and waits until they serve.
    pub fn start_all(&self) {
        self.servers.start_all();
    }

    /// Freezes all servers that run.
    pub fn freeze_all(&self) {
        self.servers.freeze_all();
    }

    /// Resumes all frozen servers.
    pub fn thaw_all(&self) {
        self.servers.thaw_all();
    }

    /// The registry's clock, in ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.servers.now_ms(&self.fleet)
    }

    /// Makes the registry count as if this many more worker IDs had been given.
    pub fn pass_over(&self, numbers: u64) {
        self.servers.pass_over(&self.fleet, numbers);
    }
}
