//! ZooKeeper loses its data, or gets those of an older backup, while instances run and newcomers start.
//! Running instances keep their worker IDs and put them back into the tree; newcomers get others.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use leaf_client::Layout;
use leafd_tests::daemon::Home;
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::zookeeper::java_leaf::records;
use leafd_tests::{Daemon, Ensemble, UniqueIds};
use tempfile::TempDir;

/// An instance under load.
struct Host {
    customer: SnowflakeCaller,
    home: Home,
    daemon: Daemon,
    batches: BatchLoad,
    _folder: TempDir,
}

impl Host {
    /// Starts one with ZooKeeper's default timeouts, and does not wait for it.
    fn start(ensemble: &Ensemble, number: u32, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = instance(folder.path(), &ensemble.connect_string(), &format!("host-{number}"))
            .with("ZOOKEEPER_SESSION_TIMEOUT", "10s")
            .with("ZOOKEEPER_TIMEOUT", "2s");
        let (customer, batches) =
            (SnowflakeCaller::of(&home, seen), BatchLoad::of(&home, Layout::LEAF, seen));
        Self { customer, daemon: home.spawn(), home, batches, _folder: folder }
    }

    fn worker(&self) -> u64 {
        self.batches.are_served(&self.home);
        self.customer.gets(1)
    }

    fn stop(self) -> BTreeSet<u64> {
        self.batches.are_served(&self.home);
        let figures = self.batches.finish();
        self.daemon.stop();
        figures.workers
    }
}

fn start(ensemble: &Ensemble, numbers: RangeInclusive<u32>, seen: &UniqueIds) -> Vec<Host> {
    numbers.map(|number| Host::start(ensemble, number, seen)).collect()
}

fn with_worker_ids(hosts: Vec<Host>) -> Vec<(Host, u64)> {
    let with_worker_id = |host: Host| {
        let worker = host.worker();
        (host, worker)
    };
    hosts.into_iter().map(with_worker_id).collect()
}

/// Asserts that each of `old` kept its worker ID throughout, that each newcomer had exactly one of its
/// own, and that the tree records all of them.
fn all_have_their_own(ensemble: &Ensemble, old: Vec<(Host, u64)>, newcomers: Vec<Host>) {
    let mut all = BTreeSet::new();
    for (host, worker) in &old {
        host.customer.reports();
        assert_eq!(host.worker(), *worker, "{}", host.home.log());
    }
    for host in &newcomers {
        host.worker();
        host.customer.reports();
    }
    let tree = ensemble.tree();
    let records = records(&tree, "leaf").unwrap();
    let mut of_each: Vec<BTreeSet<u64>> = Vec::new();
    for (host, worker) in old {
        let workers = host.stop();
        assert!(workers.iter().eq([&worker]), "{workers:?}");
        of_each.push(workers);
    }
    of_each.extend(newcomers.into_iter().map(Host::stop));
    println!("worker IDs: {of_each:?}");
    for workers in &of_each {
        assert_eq!(workers.len(), 1, "{of_each:?}");
        assert!(all.is_disjoint(workers), "{of_each:?}");
        all.extend(workers);
    }
    let recorded = records.iter().map(|record| u64::try_from(record.worker).unwrap());
    let recorded: BTreeSet<u64> = recorded.collect();
    assert!(recorded.is_superset(&all), "{recorded:?} are in the tree, {all:?} in use");
}

#[test]
fn running_instances_refill_a_wiped_tree_and_newcomers_get_other_worker_ids() {
    let ensemble = Ensemble::of(3);
    let seen = UniqueIds::default();
    let old = start(&ensemble, 1..=3, &seen);
    let old = with_worker_ids(old);
    // Some newcomers start before the wipe, some after it.
    let mut newcomers = start(&ensemble, 4..=5, &seen);
    ensemble.wipe();
    newcomers.extend(start(&ensemble, 6..=7, &seen));
    all_have_their_own(&ensemble, old, newcomers);
    println!("{} IDs over a loss of all data", seen.count(SNOWFLAKE));
}

#[test]
fn after_an_older_backup_is_restored_no_newcomer_gets_a_worker_id_in_use() {
    let ensemble = Ensemble::single();
    let seen = UniqueIds::default();
    let mut old = start(&ensemble, 1..=1, &seen);
    old[0].worker();
    let backup = ensemble.backup();
    old.extend(start(&ensemble, 2..=4, &seen));
    let old = with_worker_ids(old);
    ensemble.restore(&backup);
    let newcomers = start(&ensemble, 5..=7, &seen);
    all_have_their_own(&ensemble, old, newcomers);
    println!("{} IDs over a return to an older backup", seen.count(SNOWFLAKE));
}
