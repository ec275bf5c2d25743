//! leafd in Java Leaf's tree: it takes over the node that a Java Leaf left, keeps away from one in use,
//! leaves a node that a Java Leaf can continue from, and writes nothing that a Java Leaf cannot read.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, Run, SnowflakeState};
use leafd_tests::Ensemble;
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::snowflakes::{Batch, Snowflakes};
use leafd_tests::workers::instance;
use leafd_tests::zookeeper::java_leaf::{Record, Refusal, Running, forever, records};
use leafd_tests::zookeeper::{JavaLeaf, Tree};
use serde_json::Value;
use tempfile::TempDir;

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The default name of a fleet, in leafd and in Java Leaf.
const NAME: &str = "leaf";

/// The address of the Java Leaf that leafd replaces.
const IP: &str = "10.0.0.1";
const PORT: u16 = 8080;

/// leafd watches a Java Leaf's node for longer than this (ms) before it takes the node over.
const QUIET: u64 = 20_000;

/// A tree, and all IDs issued in it.
struct Fleet {
    servers: String,
    tree: Tree,
    all: Snowflakes,
    folders: Vec<TempDir>,
}

impl Fleet {
    fn new() -> Self {
        let servers = Ensemble::shared().fresh_chroot();
        let tree = Tree::at(&servers);
        Self { servers, tree, all: Snowflakes::default(), folders: Vec::new() }
    }

    fn leafd(&mut self, identity: &str) -> Home {
        self.folders.push(tempfile::tempdir().unwrap());
        instance(self.folders.last().unwrap().path(), &self.servers, identity)
    }

    fn works(&self, home: &Home) -> Batch {
        self.all.works(home)
    }

    fn java(&self, ip: &str) -> JavaLeaf {
        JavaLeaf::at(&self.servers, NAME, ip, PORT)
    }

    /// All records in the tree, as a Java Leaf reads them.
    fn records(&self) -> Vec<Record> {
        records(&self.tree, NAME).unwrap()
    }

    fn timestamp(&self, worker: u64) -> u64 {
        let records = self.records();
        let of = |record: &&Record| u64::try_from(record.worker) == Ok(worker);
        let record = records.iter().find(of).unwrap();
        u64::try_from(record.endpoint.timestamp).unwrap()
    }

    /// Notes every ID that a Java Leaf can have issued in this time.
    fn issued_by_java(&self, worker: u64, from_ms: u64, until_ms: u64) {
        let layout = Layout::LEAF;
        for ms in from_ms..until_ms {
            let first = layout.compose(ms - layout.epoch_ms(), worker, 0).unwrap();
            self.all.add(Run { first, count: 4096 });
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Starts a Java Leaf. leafd records a time up to a second ahead, and a Java Leaf refuses to start before
/// that.
fn start(java: &JavaLeaf) -> Running {
    let began = Instant::now();
    loop {
        match java.start() {
            Ok(running) => return running,
            Err(Refusal::Clock { .. }) => std::thread::sleep(Duration::from_millis(20)),
            Err(refusal) => panic!("{refusal}"),
        }
        assert!(began.elapsed() < PATIENCE, "the record stays ahead of the clock");
    }
}

fn worker(running: &Running) -> u64 {
    u64::try_from(running.worker()).unwrap()
}

#[test]
fn leafd_joins_a_java_leafs_node_once_it_is_quiet_and_repeats_nothing_it_issued() {
    let mut fleet = Fleet::new();
    let ahead = 2000;
    let began = now_ms();
    let java = fleet.java(IP).with_clock(ahead).start().unwrap();
    let beside = fleet.java("10.0.0.2").start().unwrap();
    assert_eq!((java.worker(), beside.worker()), (0, 1));
    let ahead = ahead.unsigned_abs();
    let [home, new] = [format!("{IP}:{PORT}"), "10.0.0.3:8080".to_owned()]
        .map(|identity| fleet.leafd(&identity).with("WORKER_JAVA_LEAF", "true"));
    let _new = new.start();
    let daemon = home.start();
    let text = "is being written by something that is not a leafd: a Java Leaf with this address?";
    fleet.all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
    // A new identity gets the next number meanwhile.
    assert_eq!(fleet.works(&new).worker, 2);
    fleet.all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
    drop(java);
    fleet.issued_by_java(0, began + ahead, now_ms() + ahead);
    let last = fleet.timestamp(0);
    assert!(last > began + ahead);
    let first = fleet.all.gets(&home, 1);
    assert_eq!(first.worker, 0);
    assert!(first.first_ms >= last + QUIET, "{first:?} after the timestamp {last}");
    fleet.works(&home);
    let as_before = |fleet: &Fleet| {
        let owners: Vec<_> = fleet.records().into_iter().map(|record| record.owner).collect();
        assert_eq!(owners, [IP, "10.0.0.2", "10.0.0.3"].map(|ip| format!("{ip}:{PORT}")));
    };
    as_before(&fleet);
    daemon.stop();
    as_before(&fleet);
    let daemon = home.start();
    assert_eq!(fleet.works(&home).worker, 0);
    as_before(&fleet);
    daemon.kill();
    let _daemon = home.start();
    assert_eq!(fleet.works(&home).worker, 0);
    as_before(&fleet);
    // The other Java Leaf still reports.
    let reports = beside.reports();
    wait_until("another report", || beside.reports() > reports);
    println!("{} IDs, with those that the Java Leaf may have issued", fleet.all.count());
    assert!(fleet.all.count() > 10_000);
}

#[test]
fn leafd_stops_and_says_why_when_a_java_leaf_starts_on_its_address() {
    let mut fleet = Fleet::new();
    let home = fleet.leafd(&format!("{IP}:{PORT}"));
    let _daemon = home.start();
    fleet.works(&home);
    let java = start(&fleet.java(IP));
    let text = "something that is not a leafd writes the node 10.0.0.1:8080-0000000000 of this";
    let error = fleet.all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
    let refused_at = now_ms();
    assert!(error.message.contains("worker.identity"), "{error}");
    let state = fleet.all.caller(&home).status().state;
    assert!(
        matches!(&state, SnowflakeState::Refused { reason } if reason.contains(text)),
        "{state:?}"
    );
    home.log().wait_for(text);
    // leafd refuses as long as the Java Leaf lives.
    let reports = java.reports();
    wait_until("two reports", || {
        fleet.all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
        java.reports() > reports + 1
    });
    assert_eq!(java.worker(), 0);
    drop(java);
    fleet.issued_by_java(0, refused_at, now_ms());
    let last = fleet.timestamp(0);
    let first = fleet.all.gets(&home, 1);
    assert!(first.worker == 0 && first.first_ms >= last + QUIET, "{first:?} after {last}");
    fleet.works(&home);
    assert_eq!(fleet.records().len(), 1);
    println!("{} IDs, with those that the Java Leaf may have issued", fleet.all.count());
    assert!(fleet.all.count() > 10_000);
}

#[test]
fn a_java_leaf_continues_after_leafd_and_leafd_after_the_java_leaf() {
    let mut fleet = Fleet::new();
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = fleet.leafd(&format!("{IP}:{PORT}")).with_clock(&clock);
    let daemon = home.start();
    fleet.works(&home);
    // The recorded time covers what was issued while the clock was ahead.
    clock.set_offset_ms(5000);
    let last = fleet.works(&home);
    clock.set_offset_ms(0);
    daemon.stop();
    let recorded = fleet.timestamp(last.worker);
    assert!(recorded > last.last_ms, "{recorded}, and the last ID has {}", last.last_ms);
    let refused = fleet.java(IP).start();
    assert!(matches!(refused, Err(Refusal::Clock { .. })), "{refused:?}");
    let java = start(&fleet.java(IP));
    let began = now_ms();
    assert_eq!((worker(&java), java.node()), (last.worker, &*node(&fleet, "10.0.0.1:8080")));
    wait_until("a report", || java.reports() > 0);
    drop(java);
    fleet.issued_by_java(last.worker, began, now_ms());
    let java_last = fleet.timestamp(last.worker);
    assert!(java_last > recorded);
    // leafd starts again, on its old state.
    let _daemon = home.start();
    let text = "something that is not a leafd wrote the node 10.0.0.1:8080-0000000000 last";
    fleet.all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
    let first = fleet.all.gets(&home, 1);
    assert_eq!(first.worker, last.worker);
    assert!(first.first_ms >= java_last + QUIET, "{first:?} after the timestamp {java_last}");
    fleet.works(&home);
    println!("{} IDs, with those that the Java Leaf may have issued", fleet.all.count());
    assert!(fleet.all.count() > 5000);
}

/// The path of the owner's only node.
fn node(fleet: &Fleet, owner: &str) -> String {
    let records = fleet.records();
    let own: Vec<_> = records.iter().filter(|record| record.owner == owner).collect();
    assert_eq!(own.len(), 1, "{records:?}");
    format!("{}/{}", forever(NAME), own[0].name)
}

fn json(fleet: &Fleet, path: &str) -> Value {
    let node = fleet.tree.get(path).unwrap_or_else(|| panic!("{path} is not there"));
    serde_json::from_slice(&node.data).unwrap()
}

#[test]
fn an_instances_nodes_hold_what_they_should_and_its_live_node_ends_with_it() {
    let mut fleet = Fleet::new();
    let home = fleet.leafd("node-7/ä%b:1");
    let daemon = home.start();
    let worked = fleet.works(&home);
    let name = "node%2D7%2F%C3%A4%25b:1-0000000000";
    let node = format!("{}/{name}", forever(NAME));
    let live = format!("/snowflake/{NAME}/temporary/{name}");
    assert_eq!((worked.worker, fleet.tree.children(&forever(NAME))), (0, vec![name.to_owned()]));
    // Java Leaf's three fields, and the address at which peers find it.
    let record = json(&fleet, &node);
    let fields: Vec<_> = record.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["ip", "port", "timestamp"]);
    let there = json(&fleet, &live);
    assert_eq!((&record["ip"], &there["ip"]), (&"127.0.0.1".into(), &"127.0.0.1".into()));
    let port = there["port"].as_u64().unwrap();
    assert_eq!(record["port"], port.to_string());
    std::net::TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    assert_ne!(fleet.tree.get(&live).unwrap().ephemeral_owner, 0);
    let holder = json(&fleet, &format!("{node}/leafd"));
    assert_eq!((&holder["phase"], &holder["nonce"]), (&"held".into(), &there["nonce"]));
    let layout = &json(&fleet, &format!("/snowflake/{NAME}/leafd"))["layout"];
    assert_eq!(*layout, Layout::LEAF.to_string());
    // Each report has a later time than the one before.
    let mut reports: Vec<(i32, i64, u64)> = Vec::new();
    wait_until("four reports", || {
        fleet.works(&home);
        let there = fleet.tree.get(&node).unwrap();
        if reports.last().is_none_or(|(version, ..)| *version < there.version) {
            let record: Value = serde_json::from_slice(&there.data).unwrap();
            let timestamp = record["timestamp"].as_u64().unwrap();
            reports.push((there.version, there.mtime, timestamp));
        }
        reports.len() == 4
    });
    for pair in reports.windows(2) {
        let [(version, mtime, timestamp), (next, next_mtime, next_timestamp)] = [pair[0], pair[1]];
        println!("a report {} ms after the one before", next_mtime - mtime);
        // Not `next == version + 1`: on a busy machine this test may miss a report.
        assert!(next > version && next_mtime > mtime && next_timestamp > timestamp);
    }
    let (last, before) = (fleet.all.gets(&home, 1), fleet.tree.get(&live).unwrap());
    // The next start takes the live node over at once.
    daemon.kill();
    let daemon = home.start();
    assert_eq!(fleet.works(&home).worker, last.worker);
    let after = fleet.tree.get(&live).unwrap();
    assert_ne!(before.ephemeral_owner, after.ephemeral_owner);
    daemon.stop();
    assert_eq!(fleet.tree.get(&live), None, "the live node goes with a stop");
    assert_eq!(fleet.tree.children(&forever(NAME)), [name], "and the other one stays");
    // A crash leaves it until the session has ended.
    home.start().kill();
    let _ = fleet.tree.get(&live).map(|_| fleet.tree.wait_gone(&live));
    assert!(fleet.all.count() > 5000);
}

#[test]
fn whatever_leafd_does_to_the_tree_a_java_leaf_can_read_it_and_gets_the_next_number() {
    let mut fleet = Fleet::new();
    let odd = fleet.leafd("a-b-0000000009");
    let [giver, taker] = ["giver", "taker/1"].map(|identity| {
        let times = [("WORKER_RECLAIM_AFTER", "20s"), ("WORKER_FENCE_AFTER", "10s")];
        let home = fleet.leafd(identity).with("WORKER_GIVE_BACK", "true");
        times.iter().fold(home, |home, (key, value)| home.with(key, value))
    });
    let _odd = odd.start();
    fleet.works(&odd);
    let daemon = giver.start();
    let given = fleet.works(&giver);
    daemon.stop();
    assert_eq!(fleet.records().len(), 1, "the worker ID was given back");
    let free = format!("/snowflake/{NAME}/free");
    let names = fleet.tree.children(&free);
    assert_eq!(names, [format!("giver-{:010}", given.worker)]);
    let not_before = json(&fleet, &format!("{free}/{}", names[0]))["notBefore"].as_u64().unwrap();
    assert!(not_before > given.last_ms);
    // Another instance takes it.
    let _daemon = taker.start();
    let taken = fleet.works(&taker);
    assert_eq!(taken.worker, given.worker);
    assert!(taken.first_ms >= not_before && fleet.tree.children(&free).is_empty());
    let owners: Vec<_> = fleet.records().into_iter().map(|record| record.owner).collect();
    assert_eq!(owners, ["a%2Db%2D0000000009", "taker%2F1"]);
    let java = fleet.java("10.0.0.9").start().unwrap();
    let workers = fleet.all.workers();
    assert!(!workers.contains(&worker(&java)), "{} is among {workers:?}", java.worker());
    wait_until("a report", || java.reports() > 0);
    fleet.works(&odd);
    fleet.works(&taker);
    println!("leafds have {workers:?}, the Java Leaf {}", java.worker());
    assert!(fleet.all.count() > 5000);
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
