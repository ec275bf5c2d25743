//! etcd as a registry. A fleet is a name in it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{RegistryAccess, RegistryKind, RegistryRecord, RegistryServers};
use crate::EtcdCluster;
use crate::etcd::gateway::now_ms;
use crate::etcd::{EtcdWatch, Snapshot};

/// etcd.
#[derive(Debug)]
pub struct Etcd;

#[derive(Debug)]
struct Members {
    cluster: EtcdCluster,
    /// At members that nobody disturbs.
    watch: Option<EtcdWatch>,
    fleets: AtomicU32,
}

impl Members {
    fn of(cluster: EtcdCluster, watch: Option<EtcdWatch>) -> Self {
        Self { cluster, watch, fleets: AtomicU32::new(0) }
    }
}

/// The key of a path in leafd's tree.
fn key(fleet: &str, path: &str) -> String {
    format!("/leafd/{fleet}/{path}")
}

/// What leafd wrote, and how many of the key's versions belong to an earlier record: leafd overwrites a key
/// instead of removing it and making it anew.
fn without_overwrites(value: String) -> (String, i64) {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(&value) else { return (value, 0) };
    match fields.remove("overwrites") {
        Some(overwrites) => {
            (Value::Object(fields).to_string(), overwrites.as_i64().expect("a number"))
        }
        None => (value, 0),
    }
}

impl RegistryKind for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn called(&self) -> &'static str {
        "etcd"
    }

    fn observes_ages(&self) -> bool {
        true
    }

    fn start(&self, size: usize) -> Arc<dyn RegistryServers> {
        Arc::new(Members::of(EtcdCluster::of(size), None))
    }

    fn shared(&self) -> Arc<dyn RegistryServers> {
        static SHARED: OnceLock<Arc<Members>> = OnceLock::new();
        let start = || {
            let cluster = EtcdCluster::single();
            let watch = cluster.watch();
            Arc::new(Members::of(cluster, Some(watch)))
        };
        Arc::<Members>::clone(SHARED.get_or_init(start))
    }
}

impl RegistryServers for Members {
    fn new_fleet(&self) -> String {
        format!("fleet {}", self.fleets.fetch_add(1, Ordering::Relaxed))
    }

    fn ports(&self) -> Vec<u16> {
        (0..self.cluster.size()).map(|member| self.cluster.port(member)).collect()
    }

    fn access(&self, fleet: &str, ports: &[u16]) -> RegistryAccess {
        let endpoints: Vec<_> =
            ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        // An instance that watches another one's record for 20 s begins again after each call that fails.
        RegistryAccess::new("etcd", "ETCD", "2s")
            .with("ENDPOINTS", &endpoints.join(","))
            .with("NAME", fleet)
    }

    fn record(&self, fleet: &str, path: &str) -> Option<RegistryRecord> {
        let found = self.cluster.key(&key(fleet, path))?;
        let (data, overwrites) = without_overwrites(found.value);
        let version = i32::try_from(found.version - 1 - overwrites).expect("a version");
        let modified_ms = self.watch.as_ref().map(|watch| watch.came_ms(found.revision));
        Some(RegistryRecord { data, version, modified_ms, session: found.lease })
    }

    fn names(&self, fleet: &str, folder: &str) -> Vec<String> {
        let folder = key(fleet, folder);
        let keys = self.cluster.keys_below(&folder);
        let names = keys.iter().filter_map(|key| key.strip_prefix(&folder)?.strip_prefix('/'));
        names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// The members have this host's.
    fn now_ms(&self, _fleet: &str) -> u64 {
        now_ms()
    }

    fn pass_over(&self, fleet: &str, numbers: u64) {
        self.cluster.add(&key(fleet, "leafd/next"), numbers);
    }

    fn wipe(&self) {
        self.cluster.wipe();
    }

    fn back_up(&self) -> String {
        self.cluster.snapshot().file().to_owned()
    }

    fn restore(&self, backup: &str) {
        self.cluster.restore(&Snapshot::in_file(backup));
    }

    fn leader(&self) -> usize {
        self.cluster.leader()
    }

    fn kill(&self, server: usize) {
        self.cluster.kill(server);
    }

    fn start_again(&self, server: usize) {
        self.cluster.start_again(server);
    }

    fn freeze(&self, server: usize) {
        self.cluster.freeze(server);
    }

    fn thaw(&self, server: usize) {
        self.cluster.thaw(server);
    }

    fn kill_all(&self) {
        self.cluster.kill_all();
    }

    fn start_all(&self) {
        self.cluster.start_all();
    }

    fn freeze_all(&self) {
        self.cluster.freeze_all();
    }

    fn thaw_all(&self) {
        self.cluster.thaw_all();
    }

    fn wait_serving(&self) {
        self.cluster.wait_serving();
    }
}
