//! An instance is cut off from the registry: it stops issuing before its worker ID can be taken over,
//! whether it runs, is frozen or is restarted, and resumes when it is back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::Layout;
use leaf_client::wire::ErrorCode;
use leafd_tests::daemon::Home;
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::registry::RegistryKind;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::{Daemon, Proxies, TestRegistry, UniqueIds, on_every_registry};

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than enough for a daemon that has a worker ID.
const SOON: Duration = Duration::from_secs(5);

/// An instance that is cut off for longer than `worker.fence-after`.
struct Fenced {
    customer: SnowflakeCaller,
    home: Home,
    network: Proxies,
    daemon: Daemon,
    worker: u64,
    _folder: tempfile::TempDir,
}

impl Fenced {
    fn start(registry: &TestRegistry, number: u32, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (network, access) = registry.through_proxies();
        let home = instance(folder.path(), access, &format!("host-{number}"))
            .with("WORKER_FENCE_AFTER", "10s")
            .with("WORKER_RECLAIM_AFTER", "20s");
        let customer = SnowflakeCaller::of(&home, seen);
        let daemon = home.start();
        Self { customer, home, network, daemon, worker: 0, _folder: folder }
    }

    fn is_fenced(&self) {
        let error = self.customer.is_refused("worker.fence-after");
        assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{error}");
        assert!(error.retry_after_ms > 0, "{error:?}");
        for _ in 0..3 {
            self.customer.ask(1, SOON).expect_err("the worker ID may be another's");
        }
        self.daemon.client().next("orders").expect("segments do not need it");
    }
}

on_every_registry! {
    an_instance_cut_off_for_too_long_stops_before_its_worker_id_can_be_taken_and_resumes_later,
}

fn an_instance_cut_off_for_too_long_stops_before_its_worker_id_can_be_taken_and_resumes_later(
    kind: &'static dyn RegistryKind,
) {
    // Nobody disturbs the servers, only the way to them.
    let registry = TestRegistry::shared(kind);
    let seen = UniqueIds::default();
    let start = |number| Fenced::start(&registry, number, &seen);
    let [mut steady, mut killed, mut asleep] = [1, 2, 3].map(start);
    for instance in [&mut steady, &mut killed, &mut asleep] {
        instance.worker = instance.customer.gets(1000);
    }
    for instance in [&steady, &killed, &asleep] {
        instance.customer.reports();
    }
    for instance in [&steady, &killed, &asleep] {
        instance.network.cut();
    }
    killed.daemon.kill();
    killed.daemon = killed.home.start();
    let limits = [&killed, &steady, &asleep].map(|instance| {
        instance.customer.is_cut_off();
        // For some seconds more, the worker ID is its own.
        assert_eq!(instance.customer.gets(1000), instance.worker);
        instance.customer.status().limit_unix_ms.expect("reports set a limit")
    });
    asleep.daemon.freeze();
    let batches = BatchLoad::of(&steady.home, Layout::LEAF, &seen);
    steady.is_fenced();
    killed.is_fenced();
    assert!(!batches.finish().failures.is_empty());
    // It sleeps past the end of its time, and must look at the clock before it issues anything.
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let slept = Instant::now();
    while now_ms() < u128::from(limits[2]) {
        assert!(slept.elapsed() < PATIENCE, "its time does not end: {limits:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    asleep.daemon.thaw();
    asleep.customer.ask(1000, SOON).expect_err("the worker ID may be another's");
    asleep.is_fenced();
    for clean in [false, true] {
        if clean {
            killed.daemon.stop();
        } else {
            killed.daemon.kill();
        }
        killed.daemon = killed.home.start();
        killed.is_fenced();
    }
    let last_ms = Layout::LEAF.decode(seen.highest(SNOWFLAKE).unwrap()).unwrap().unix_ms;
    let limit_ms = limits.into_iter().max().unwrap();
    assert!(last_ms < limit_ms, "{last_ms}, {limits:?}");
    for Fenced { customer, network, daemon, worker, .. } in [steady, killed, asleep] {
        network.pass();
        assert_eq!(customer.gets(1000), worker, "nobody else wanted it");
        daemon.stop();
    }
    println!("{}: {} IDs before and after the fence", kind.name(), seen.count(SNOWFLAKE));
}
