//! The registry loses its data, or gets those of an older backup, while instances run and newcomers start.
//! Running instances keep their worker IDs and put them back; newcomers get others.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use leaf_client::Layout;
use leafd_tests::daemon::Home;
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::registry::{DatabaseKind, DatabaseServer, RegistryAccess, RegistryKind};
use leafd_tests::stores::wait_until;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::{
    Daemon, Database, Proxy, TestRegistry, UniqueIds, on_every_registry,
    on_every_registry_database, with_each,
};
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
    /// Starts one with the default timeouts, and does not wait for it.
    fn start(access: &RegistryAccess, number: u32, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = instance(folder.path(), access, &format!("host-{number}"))
            .with(&access.key("SESSION_TIMEOUT"), "10s")
            .with(&access.key("TIMEOUT"), "2s");
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

fn start(access: &RegistryAccess, numbers: RangeInclusive<u32>, seen: &UniqueIds) -> Vec<Host> {
    numbers.map(|number| Host::start(access, number, seen)).collect()
}

fn with_worker_ids(hosts: Vec<Host>) -> Vec<(Host, u64)> {
    let with_worker_id = |host: Host| {
        let worker = host.worker();
        (host, worker)
    };
    hosts.into_iter().map(with_worker_id).collect()
}

/// Asserts that each of `old` kept its worker ID throughout, that each newcomer had exactly one of its
/// own, and that the registry has records of all of them.
fn all_have_their_own(registry: &TestRegistry, old: Vec<(Host, u64)>, newcomers: Vec<Host>) {
    let mut all = BTreeSet::new();
    with_each(&old, |(host, worker)| {
        host.customer.reports();
        assert_eq!(host.worker(), *worker, "{}", host.home.log());
    });
    with_each(&newcomers, |host| {
        host.worker();
        host.customer.reports();
    });
    let recorded: BTreeSet<u64> = registry.workers().iter().map(|row| row.worker).collect();
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
    assert!(recorded.is_superset(&all), "{recorded:?} are in the registry, {all:?} in use");
}

on_every_registry! {
    running_instances_refill_a_wiped_tree_and_newcomers_get_other_worker_ids,
    after_an_older_backup_is_restored_no_newcomer_gets_a_worker_id_in_use,
}

on_every_registry_database! {
    after_a_failover_that_lost_writes_no_newcomer_gets_a_worker_id_in_use,
}

fn running_instances_refill_a_wiped_tree_and_newcomers_get_other_worker_ids(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::alone(kind, 3);
    let seen = UniqueIds::default();
    let old = start(&registry.access(), 1..=3, &seen);
    let old = with_worker_ids(old);
    // Some newcomers start before the wipe, some after it.
    let mut newcomers = start(&registry.access(), 4..=5, &seen);
    registry.servers().wipe();
    newcomers.extend(start(&registry.access(), 6..=7, &seen));
    all_have_their_own(&registry, old, newcomers);
    println!("{}: {} IDs over a loss of all data", kind.name(), seen.count(SNOWFLAKE));
}

fn after_an_older_backup_is_restored_no_newcomer_gets_a_worker_id_in_use(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::alone(kind, 1);
    let seen = UniqueIds::default();
    let mut old = start(&registry.access(), 1..=1, &seen);
    old[0].worker();
    let backup = registry.servers().back_up();
    old.extend(start(&registry.access(), 2..=4, &seen));
    let old = with_worker_ids(old);
    registry.servers().restore(&backup);
    let newcomers = start(&registry.access(), 5..=7, &seen);
    all_have_their_own(&registry, old, newcomers);
    let ids = seen.count(SNOWFLAKE);
    println!("{}: {ids} IDs over a return to an older backup", kind.name());
}

fn after_a_failover_that_lost_writes_no_newcomer_gets_a_worker_id_in_use(
    kind: &'static DatabaseKind,
) {
    let primary = Arc::new(DatabaseServer::new(Database::start_primary(kind.kind())));
    let line = Proxy::to(primary.database().port());
    let replica = primary.database().start_replica(line.port());
    let replica = Arc::new(DatabaseServer::with_tables(replica));
    let registry = TestRegistry::on(kind, Arc::<DatabaseServer>::clone(&primary));
    let (network, access) = registry.through_proxies();
    let seen = UniqueIds::default();
    let old = with_worker_ids(start(&access, 1..=3, &seen));
    wait_until("the replica follows", || {
        registry.owned().len() == 3 && has_all(&replica, &primary)
    });
    line.cut();
    // The replica never hears of these worker IDs, nor of later reports of the others.
    let lost = with_worker_ids(start(&access, 4..=5, &seen));
    with_each(old.iter().chain(&lost), |(host, _)| host.customer.reports());
    assert!(!has_all(&replica, &primary));
    let unknown = primary.summary().len() - replica.summary().len();
    primary.database().kill();
    replica.database().promote();
    network.lead_to(replica.database().port());
    let newcomers = start(&access, 6..=8, &seen);
    let old = old.into_iter().chain(lost).collect();
    all_have_their_own(&registry.moved_to(replica), old, newcomers);
    println!(
        "{}: {} IDs, none twice, over a failover that lost {unknown} records",
        kind.name(),
        seen.count(SNOWFLAKE)
    );
}

fn has_all(replica: &DatabaseServer, primary: &DatabaseServer) -> bool {
    replica.summary() == primary.summary()
}
