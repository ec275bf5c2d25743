//! ZooKeeper as a registry. A fleet is a chroot.

use std::sync::{Arc, Mutex, PoisonError};

use super::{RegistryAccess, RegistryKind, RegistryRecord, RegistryServers};
use crate::zookeeper::{Backup, Ensemble, Node, Tree};

/// ZooKeeper.
#[derive(Debug)]
pub struct ZooKeeper;

#[derive(Debug)]
enum Servers {
    /// The tree is another one after a loss of data: the servers refuse a session that is older.
    Own(Ensemble, Box<Mutex<Tree>>),
    Shared(&'static Ensemble, Box<Tree>),
}

/// leafd's tree below the chroot.
fn below(fleet: &str, path: &str) -> String {
    format!("{fleet}/snowflake/leaf/{path}")
}

impl RegistryKind for ZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn called(&self) -> &'static str {
        "ZooKeeper"
    }

    fn observes_ages(&self) -> bool {
        false
    }

    fn start(&self, size: usize) -> Arc<dyn RegistryServers> {
        let ensemble = Ensemble::of(size);
        let tree = Box::new(Mutex::new(ensemble.tree()));
        Arc::new(Servers::Own(ensemble, tree))
    }

    fn shared(&self) -> Arc<dyn RegistryServers> {
        let ensemble = Ensemble::shared();
        Arc::new(Servers::Shared(ensemble, Box::new(ensemble.tree())))
    }
}

impl Servers {
    fn ensemble(&self) -> &Ensemble {
        match self {
            Self::Own(ensemble, _) => ensemble,
            Self::Shared(ensemble, _) => ensemble,
        }
    }

    fn look_anew(&self) {
        if let Self::Own(ensemble, tree) = self {
            *tree.lock().unwrap_or_else(PoisonError::into_inner) = ensemble.tree();
        }
    }

    fn look<T>(&self, look: impl FnOnce(&Tree) -> T) -> T {
        match self {
            Self::Own(_, tree) => look(&tree.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::Shared(_, tree) => look(tree),
        }
    }
}

impl RegistryServers for Servers {
    fn new_fleet(&self) -> String {
        match self {
            // No chroot.
            Self::Own(..) => String::new(),
            Self::Shared(ensemble, _) => ensemble.fresh_path(),
        }
    }

    fn ports(&self) -> Vec<u16> {
        (0..self.ensemble().size()).map(|server| self.ensemble().port(server)).collect()
    }

    fn access(&self, fleet: &str, ports: &[u16]) -> RegistryAccess {
        let servers: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        RegistryAccess::from(&(servers.join(",") + fleet))
    }

    fn record(&self, fleet: &str, path: &str) -> Option<RegistryRecord> {
        let node = self.look(|tree| tree.get(&below(fleet, path)))?;
        let Node { data, version, mtime, ephemeral_owner } = node;
        let data = String::from_utf8(data).expect("text");
        let modified_ms = Some(u64::try_from(mtime).expect("after 1970"));
        Some(RegistryRecord { data, version, modified_ms, session: ephemeral_owner })
    }

    fn names(&self, fleet: &str, folder: &str) -> Vec<String> {
        self.look(|tree| tree.children(&below(fleet, folder)))
    }

    fn now_ms(&self, fleet: &str) -> u64 {
        let clock = format!("{fleet}/snowflake");
        let node = self.look(|tree| {
            tree.set(&clock, b"");
            tree.get(&clock)
        });
        u64::try_from(node.expect("it was set").mtime).expect("after 1970")
    }

    fn pass_over(&self, fleet: &str, numbers: u64) {
        for _ in 0..numbers {
            self.look(|tree| {
                let node = tree.create_sequential(&below(fleet, "forever/past-"), b"");
                tree.delete_recursive(&node);
            });
        }
    }

    fn wipe(&self) {
        self.ensemble().wipe();
        self.look_anew();
    }

    fn back_up(&self) -> String {
        self.ensemble().backup().name().to_owned()
    }

    fn restore(&self, backup: &str) {
        self.ensemble().restore(&Backup::named(backup));
        self.look_anew();
    }

    fn leader(&self) -> usize {
        self.ensemble().leader()
    }

    fn kill(&self, server: usize) {
        self.ensemble().kill(server);
    }

    fn start_again(&self, server: usize) {
        self.ensemble().start_again(server);
    }

    fn freeze(&self, server: usize) {
        self.ensemble().freeze(server);
    }

    fn thaw(&self, server: usize) {
        self.ensemble().thaw(server);
    }

    fn kill_all(&self) {
        self.ensemble().kill_all();
    }

    fn start_all(&self) {
        self.ensemble().start_all();
    }

    fn freeze_all(&self) {
        self.ensemble().freeze_all();
    }

    fn thaw_all(&self) {
        self.ensemble().thaw_all();
    }

    fn wait_serving(&self) {
        self.ensemble().wait_serving();
    }
}
