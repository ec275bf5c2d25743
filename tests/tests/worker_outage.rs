//! The registry, or the network in front of it, is down or hangs. An instance that had a worker ID keeps
//! using it through any number of starts, one that never had one says why, and all recover by
//! themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leaf_client::{Layout, blocking};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::registry::RegistryKind;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::{Proxies, TestRegistry, UniqueIds, on_every_registry, with_each};

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than enough for a daemon that has a worker ID.
const SOON: Duration = Duration::from_secs(5);

/// A fault: its name, how to begin it, and how to end it.
type Fault<T> = (&'static str, fn(&T), fn(&T));

const OUTAGES: [Fault<TestRegistry>; 2] = [
    ("killed", TestRegistry::kill_all, TestRegistry::start_all),
    ("frozen", TestRegistry::freeze_all, TestRegistry::thaw_all),
];

/// Logged by a start that does not reach the registry.
const FROM_FILE: &str = "worker ID from the worker file";

on_every_registry! {
    without_zookeeper_every_restart_serves_with_the_same_worker_id,
    an_instance_without_a_worker_id_says_why_and_serves_segments_until_zookeeper_answers,
    clients_notice_nothing_when_servers_fail_and_reports_resume_afterwards,
    with_default_timeouts_the_worker_file_serves_whatever_hangs_or_breaks_at_a_start,
    a_frozen_ensemble_slows_no_client_down,
    a_stop_while_zookeeper_hangs_is_clean_however_long_its_calls_take,
    an_outage_and_its_end_are_logged_once_each,
}

fn wait_until(what: &str, home: &Home, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn without_zookeeper_every_restart_serves_with_the_same_worker_id(kind: &'static dyn RegistryKind) {
    with_each(OUTAGES, |(what, begin, end)| {
        let folder = tempfile::tempdir().unwrap();
        let registry = TestRegistry::alone(kind, 1);
        let home = instance(folder.path(), registry.access(), "host-1");
        let seen = UniqueIds::default();
        let customer = SnowflakeCaller::of(&home, &seen);
        let daemon = home.start();
        let worker = customer.gets(1000);
        begin(&registry);
        assert_eq!(customer.gets(1000), worker);
        daemon.stop();
        let kills = [false, true, true, false, false, true];
        for (number, killed) in (1..).zip(kills) {
            let daemon = home.start();
            assert_eq!(customer.gets(1000), worker, "{what}");
            home.log().wait_times(FROM_FILE, number);
            assert!(customer.status().last_report_ms_ago.is_none(), "{what}");
            if killed {
                daemon.kill();
            } else {
                daemon.stop();
            }
        }
        let daemon = home.start();
        assert_eq!(customer.gets(1000), worker);
        end(&registry);
        customer.reports();
        assert_eq!(customer.gets(1000), worker);
        assert_eq!(registry.owned(), ["host%2D1-0000000000"]);
        daemon.stop();
        let lives = kills.len() + 1;
        let (kind, ids) = (kind.name(), seen.count(SNOWFLAKE));
        println!("{kind}, {what}: {ids} IDs, {lives} lives without it");
    });
}

fn an_instance_without_a_worker_id_says_why_and_serves_segments_until_zookeeper_answers(
    kind: &'static dyn RegistryKind,
) {
    let no_worker_id = format!("no worker ID yet, {} has to give one", kind.called());
    with_each(OUTAGES, |(what, begin, end)| {
        let folder = tempfile::tempdir().unwrap();
        let registry = TestRegistry::alone(kind, 1);
        begin(&registry);
        let home = instance(folder.path(), registry.access(), "host-1");
        let home = home.with("STORE_TIMEOUT", "1m");
        let seen = UniqueIds::default();
        let customer = SnowflakeCaller::of(&home, &seen);
        for life in 0..2 {
            let daemon = home.start();
            let mut patient =
                blocking::Client::new(home.options().timeout(Duration::from_secs(60)));
            let error = customer.is_refused(&no_worker_id);
            assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{what}: {error}");
            let server = format!("127.0.0.1:{}", registry.servers().ports()[0]);
            assert!(error.message.contains(&server), "{what}: {error}");
            assert!(error.retry_after_ms > 0, "{what}: {error:?}");
            let status = customer.status();
            let refused = matches!(&status.state, SnowflakeState::Refused { reason }
                if reason.contains(&no_worker_id));
            assert!(refused && status.worker.is_none(), "{what}: {status:?}");
            seen.add("orders", &patient.next_many("orders", 100).unwrap());
            let list = daemon.client().worker_list(0, 10).unwrap_err();
            assert_eq!(list.code(), Some(ErrorCode::RegistryUnavailable), "{what}: {list}");
            if life == 0 {
                daemon.stop();
                continue;
            }
            end(&registry);
            assert_eq!(customer.gets(1000), 0);
            seen.add("orders", &patient.next_many("orders", 100).unwrap());
            home.log().wait_for(&format!("{} answers again", kind.called()));
            daemon.stop();
        }
        println!("{}, {what}: {} IDs once it came", kind.name(), seen.count(SNOWFLAKE));
    });
}

fn clients_notice_nothing_when_servers_fail_and_reports_resume_afterwards(
    kind: &'static dyn RegistryKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let registry = TestRegistry::alone(kind, 3);
    let home = instance(folder.path(), registry.access(), "host-1");
    let seen = UniqueIds::default();
    let customer = SnowflakeCaller::of(&home, &seen);
    let daemon = home.start();
    let (worker, size) = (customer.gets(1000), registry.size());
    let batches = BatchLoad::of(&home, Layout::LEAF, &seen);
    for (what, frozen) in [("killed", false), ("frozen", true)] {
        for lost in 1..=size {
            let leader = registry.servers().leader();
            for server in (0..size).cycle().skip(leader).take(lost) {
                if frozen {
                    registry.servers().freeze(server);
                } else {
                    registry.servers().kill(server);
                }
            }
            if lost > size / 2 {
                customer.is_cut_off();
            } else {
                customer.reports();
            }
            batches.are_served(&home);
            if frozen {
                registry.thaw_all();
            } else {
                registry.start_all();
            }
            customer.reports();
            assert_eq!(customer.status().registry_error, "", "{lost} {what}");
            batches.are_served(&home);
        }
    }
    let figures = batches.finish();
    assert!(figures.failures.is_empty(), "{figures:?}\n{}", home.log());
    assert!(figures.workers.iter().eq([&worker]), "{figures:?}");
    assert_eq!(registry.owned().len(), 1);
    daemon.stop();
    let (kind, ids) = (kind.name(), seen.count(SNOWFLAKE));
    println!("{kind}: {ids} IDs over {} losses of servers", 2 * size);
}

fn with_default_timeouts_the_worker_file_serves_whatever_hangs_or_breaks_at_a_start(
    kind: &'static dyn RegistryKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let registry = TestRegistry::alone(kind, 1);
    let (network, access) = registry.through_proxies();
    let home = access
        .apply(Home::new(folder.path()))
        .with_peer("127.0.0.1:0")
        .with("WORKER_IDENTITY", "host-1");
    let seen = UniqueIds::default();
    let customer = SnowflakeCaller::of(&home, &seen);
    home.start().stop();
    let worker = {
        let daemon = home.start();
        let worker = customer.gets(1000);
        customer.reports();
        daemon.kill();
        worker
    };
    let faults: [Fault<Proxies>; 2] =
        [("a hang", Proxies::hold, Proxies::pass), ("a cut", Proxies::cut, Proxies::pass)];
    let mut daemons = 0;
    let mut life = |what: &str, end: &dyn Fn()| {
        let daemon = home.start();
        assert_eq!(customer.gets(1000), worker, "{what}");
        daemons += 1;
        home.log().wait_times(FROM_FILE, daemons);
        end();
        customer.reports();
        assert_eq!(customer.gets(1000), worker, "{what}");
        daemon.kill();
    };
    for (what, begin, end) in faults {
        begin(&network);
        life(what, &|| end(&network));
    }
    for (what, begin, end) in OUTAGES {
        begin(&registry);
        life(what, &|| end(&registry));
    }
    let (kind, ids) = (kind.name(), seen.count(SNOWFLAKE));
    println!("{kind}: {ids} IDs, {daemons} starts without it");
}

/// The number of calls that each has served when the first has served 2,000.
fn calls_at_the_same_time(daemons: &[Daemon; 2], home: &Home, seen: &UniqueIds) -> [u64; 2] {
    const CALLS: u64 = 2000;
    let counts = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        for (daemon, count) in daemons.iter().zip(&counts) {
            scope.spawn(move || {
                let mut client = blocking::Client::new(daemon.home().options().timeout(SOON));
                for _ in 0..CALLS {
                    seen.add(SNOWFLAKE, &client.snowflake_many(10).unwrap());
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let calls = || counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        wait_until("one is ready", home, || calls().contains(&CALLS));
        calls()
    })
}

fn a_frozen_ensemble_slows_no_client_down(kind: &'static dyn RegistryKind) {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let registry = TestRegistry::alone(kind, 1);
    let home = instance(folders[0].path(), registry.access(), "host-1");
    // Without a registry: shows what the machine can do at the same time.
    let other = Home::new(folders[1].path()).with("WORKER_ID", "1023");
    let seen = UniqueIds::default();
    let daemons = [home.start(), other.start()];
    let customer = SnowflakeCaller::of(&home, &seen);
    assert_eq!(customer.gets(1), 0);
    registry.freeze_all();
    customer.is_cut_off();
    // If calls waited for the registry, this daemon would lose every try. The scheduler makes it lose only
    // some.
    let keeps_up = (1..=30).any(|_| {
        let [calls, others] = calls_at_the_same_time(&daemons, &home, &seen);
        println!("{}: {calls} calls while it was frozen, {others} without one", kind.name());
        calls > others / 4
    });
    assert!(keeps_up, "slower in each of 30 tries");
    assert!(!customer.status().registry_error.is_empty(), "it answered meanwhile");
    registry.thaw_all();
    customer.reports();
    daemons.into_iter().for_each(|daemon| drop(daemon.stop()));
}

fn a_stop_while_zookeeper_hangs_is_clean_however_long_its_calls_take(
    kind: &'static dyn RegistryKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let registry = TestRegistry::alone(kind, 1);
    let access = registry.access();
    let home = instance(folder.path(), &access, "host-1")
        .with(&access.key("SESSION_TIMEOUT"), "60s")
        .with("SHUTDOWN_GRACE", "1s");
    let seen = UniqueIds::default();
    let mut lives = 0;
    for (timeout, what) in [("200ms", "calls fail soon"), ("10s", "calls hang")] {
        let home = home.clone().with(&access.key("TIMEOUT"), timeout);
        let customer = SnowflakeCaller::of(&home, &seen);
        for reporting in [false, true] {
            let daemon = home.start();
            assert_eq!(customer.gets(1000), 0, "{what}");
            customer.reports();
            registry.freeze_all();
            if reporting {
                // Reports begin every 3 s.
                customer.wait_status("a report is under way", |status| {
                    status.last_report_ms_ago.is_some_and(|ago| ago > 3500)
                });
            }
            let ended = daemon.stop();
            lives += 1;
            assert_eq!(ended.count("INFO stopped"), lives, "{ended}");
            // A daemon that has noticed the outage does not try.
            let tried = ended.count("was not told of the end");
            assert!(what != "calls hang" || tried >= lives - 2, "{ended}");
            registry.thaw_all();
        }
    }
    let daemon = home.start();
    assert_eq!(SnowflakeCaller::of(&home, &seen).gets(1000), 0);
    daemon.stop();
    println!("{}: {} IDs, {lives} stops while it hung", kind.name(), seen.count(SNOWFLAKE));
}

fn an_outage_and_its_end_are_logged_once_each(kind: &'static dyn RegistryKind) {
    let folder = tempfile::tempdir().unwrap();
    let registry = TestRegistry::alone(kind, 1);
    let (network, access) = registry.through_proxies();
    // A cut shows at once, so a slow machine may have its time: an answer that is late would be one
    // more outage in the log.
    let home = instance(folder.path(), &access, "host-1")
        .with(&access.key("TIMEOUT"), "3s")
        .with(&access.key("SESSION_TIMEOUT"), "10s");
    let seen = UniqueIds::default();
    let customer = SnowflakeCaller::of(&home, &seen);
    let daemon = home.start();
    assert_eq!(customer.gets(1000), 0);
    let (begins, ends) = ("; trying again", format!("{} answers again", kind.called()));
    for outage in 1..=2 {
        network.cut();
        let before = network.accepted();
        wait_until("it tries again", &home, || network.accepted() > before + 8);
        customer.is_cut_off();
        home.log().wait_times(begins, outage);
        network.pass();
        customer.reports();
        let log = home.log().wait_times(&ends, outage);
        assert_eq!(log.matches(begins).count(), outage, "{log}");
        assert_eq!(customer.gets(1000), 0);
    }
    let ended = daemon.stop();
    assert_eq!((ended.count(begins), ended.count(&ends)), (2, 2), "{ended}");
    assert_eq!(ended.count("no snowflake IDs: "), 0, "{ended}");
    println!("{}: {} IDs, two outages", kind.name(), seen.count(SNOWFLAKE));
}
