//! What leafd wrote into a registry. The records have the same paths and texts in every one.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::TestRegistry;
use crate::PATIENCE;
use crate::host::Host;
use crate::zookeeper::java_leaf::Endpoint;

/// A record as a registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRecord {
    /// The text.
    pub data: String,
    /// How often it was written since it was made.
    pub version: i32,
    /// When it was written last, in ms since 1970 by the registry's clock. None where neither the registry
    /// records it nor anybody watches.
    pub modified_ms: Option<u64>,
    /// The session to which a live marker belongs; 0 for any other record.
    pub session: i64,
}

/// A worker ID with its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// The name of the record: owner, `-` and worker ID.
    pub name: String,
    /// The owner, with `-`, `%` and `/` encoded.
    pub owner: String,
    /// The worker ID.
    pub worker: u64,
    /// What the record says.
    pub endpoint: Endpoint,
}

/// The name of the records of a worker ID. The identity must have no characters that are encoded.
fn name(identity: &str, worker: u64) -> String {
    format!("{identity}-{worker:010}")
}

impl TestRegistry {
    fn record(&self, path: &str) -> Option<RegistryRecord> {
        self.servers.record(&self.fleet, path)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.servers.names(&self.fleet, folder)
    }

    /// The names of all worker IDs that have an owner.
    #[must_use]
    pub fn owned(&self) -> Vec<String> {
        self.names("forever")
    }

    /// The names of all live markers.
    #[must_use]
    pub fn live(&self) -> Vec<String> {
        self.names("temporary")
    }

    /// The names of all worker IDs that were given back.
    #[must_use]
    pub fn free(&self) -> Vec<String> {
        self.names("free")
    }

    /// All worker IDs that have an owner, by number. Fails on a record that Java Leaf could not parse.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerRow> {
        let row = |name: String| {
            let (owner, worker) = name.split_once('-').expect("owner and worker ID");
            let record = self.record(&format!("forever/{name}"))?;
            let endpoint = serde_json::from_str(&record.data);
            let endpoint = endpoint.unwrap_or_else(|error| panic!("{name}: {error}: {record:?}"));
            let (owner, worker) = (owner.to_owned(), worker.parse().expect("a worker ID"));
            Some(WorkerRow { name, owner, worker, endpoint })
        };
        let mut rows: Vec<_> = self.owned().into_iter().filter_map(row).collect();
        rows.sort_unstable_by_key(|row| row.worker);
        rows
    }

    /// Whether a worker ID is an instance's.
    #[must_use]
    pub fn is_owned(&self, identity: &str, worker: u64) -> bool {
        self.record(&format!("forever/{}", name(identity, worker))).is_some()
    }

    /// Waits until a worker ID is an instance's.
    pub fn wait_owned(&self, identity: &str, worker: u64) {
        let began = Instant::now();
        while !self.is_owned(identity, worker) {
            let waited = began.elapsed();
            assert!(waited < PATIENCE, "{identity} does not get {worker}: {:?}", self.owned());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts new hosts, so that the first gets worker ID 0.
    pub fn start_in_order<'a>(&self, hosts: impl IntoIterator<Item = &'a mut Host>) {
        let mut started = Vec::new();
        for (host, worker) in hosts.into_iter().zip(0..) {
            host.start();
            self.wait_owned(host.name(), worker);
            started.push((host, worker));
        }
        for (host, worker) in started {
            assert_eq!(host.serves(), worker);
        }
    }

    /// When the owner of a worker ID reported last, in ms since 1970 by the registry's clock.
    #[must_use]
    pub fn reported_ms(&self, identity: &str, worker: u64) -> u64 {
        let record = self.record(&format!("forever/{}", name(identity, worker)));
        record.expect("a record of the worker ID").modified_ms.expect("a time")
    }

    /// Up to when the owner of a worker ID may issue, in ms since 1970.
    #[must_use]
    pub fn limit_ms(&self, identity: &str, worker: u64) -> u64 {
        self.field(&format!("forever/{}/leafd", name(identity, worker)), "limit")
    }

    /// Before when a worker ID that was given back must not be used, in ms since 1970.
    #[must_use]
    pub fn not_before_ms(&self, identity: &str, worker: u64) -> u64 {
        self.field(&format!("free/{}", name(identity, worker)), "notBefore")
    }

    fn field(&self, path: &str, field: &str) -> u64 {
        let record = self.record(path).unwrap_or_else(|| panic!("{path} is not there"));
        let fields: Value = serde_json::from_str(&record.data).expect("a record");
        fields[field].as_u64().unwrap_or_else(|| panic!("no {field} in {fields}"))
    }

    /// The live marker of an instance.
    #[must_use]
    pub fn marker(&self, identity: &str, worker: u64) -> Option<RegistryRecord> {
        self.record(&format!("temporary/{}", name(identity, worker)))
    }

    /// When an instance registered its worker ID in its present session, in ms since 1970 by the
    /// registry's clock. The claim of a worker ID makes the marker, in one step with the rest.
    #[must_use]
    pub fn registered_ms(&self, identity: &str, worker: u64) -> u64 {
        self.marker(identity, worker).expect("a live marker").modified_ms.expect("a time")
    }
}
