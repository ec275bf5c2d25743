//! ZooKeeper, or the network in front of it, is down or hangs. An instance that had a worker ID keeps
//! using it through any number of starts, one that never had one says why, and all recover by
//! themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leaf_client::{Layout, blocking};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::zookeeper::java_leaf::forever;
use leafd_tests::{Ensemble, Proxy, UniqueIds};

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than enough for a daemon that has a worker ID.
const SOON: Duration = Duration::from_secs(5);

/// A fault: its name, how to begin it, and how to end it.
type Fault<T> = (&'static str, fn(&T), fn(&T));

const OUTAGES: [Fault<Ensemble>; 2] = [
    ("killed", Ensemble::kill_all, Ensemble::start_all),
    ("frozen", Ensemble::freeze_all, Ensemble::thaw_all),
];

/// Logged by a start that does not reach ZooKeeper.
const FROM_FILE: &str = "worker ID from the worker file";

fn wait_until(what: &str, home: &Home, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn nodes(ensemble: &Ensemble) -> Vec<String> {
    ensemble.tree().children(&forever("leaf"))
}

#[test]
fn without_zookeeper_every_restart_serves_with_the_same_worker_id() {
    for (what, begin, end) in OUTAGES {
        let folder = tempfile::tempdir().unwrap();
        let ensemble = Ensemble::single();
        let home = instance(folder.path(), &ensemble.connect_string(), "host-1");
        let seen = UniqueIds::default();
        let customer = SnowflakeCaller::of(&home, &seen);
        let daemon = home.start();
        let worker = customer.gets(1000);
        begin(&ensemble);
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
        end(&ensemble);
        customer.reports();
        assert_eq!(customer.gets(1000), worker);
        assert_eq!(nodes(&ensemble), ["host%2D1-0000000000"]);
        daemon.stop();
        let lives = kills.len() + 1;
        println!("{what}: {} IDs, {lives} lives without ZooKeeper", seen.count(SNOWFLAKE));
    }
}

#[test]
fn an_instance_without_a_worker_id_says_why_and_serves_segments_until_zookeeper_answers() {
    for (what, begin, end) in OUTAGES {
        let folder = tempfile::tempdir().unwrap();
        let ensemble = Ensemble::single();
        begin(&ensemble);
        let home = instance(folder.path(), &ensemble.connect_string(), "host-1");
        let home = home.with("STORE_TIMEOUT", "1m");
        let seen = UniqueIds::default();
        let customer = SnowflakeCaller::of(&home, &seen);
        for life in 0..2 {
            let daemon = home.start();
            let mut patient =
                blocking::Client::new(home.options().timeout(Duration::from_secs(60)));
            let error = customer.is_refused("ZooKeeper has to give one");
            assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{what}: {error}");
            let server = format!("127.0.0.1:{}", ensemble.port(0));
            assert!(error.message.contains(&server), "{what}: {error}");
            assert!(error.retry_after_ms > 0, "{what}: {error:?}");
            let status = customer.status();
            let refused = matches!(&status.state, SnowflakeState::Refused { reason }
                if reason.contains("ZooKeeper has to give one"));
            assert!(refused && status.worker.is_none(), "{what}: {status:?}");
            seen.add("orders", &patient.next_many("orders", 100).unwrap());
            let list = daemon.client().worker_list(0, 10).unwrap_err();
            assert_eq!(list.code(), Some(ErrorCode::RegistryUnavailable), "{what}: {list}");
            if life == 0 {
                daemon.stop();
                continue;
            }
            end(&ensemble);
            assert_eq!(customer.gets(1000), 0);
            seen.add("orders", &patient.next_many("orders", 100).unwrap());
            home.log().wait_for("ZooKeeper answers again");
            daemon.stop();
        }
        println!("{what}: {} IDs once it came", seen.count(SNOWFLAKE));
    }
}

#[test]
fn clients_notice_nothing_when_servers_fail_and_reports_resume_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = Ensemble::of(3);
    let home = instance(folder.path(), &ensemble.connect_string(), "host-1");
    let seen = UniqueIds::default();
    let customer = SnowflakeCaller::of(&home, &seen);
    let daemon = home.start();
    let worker = customer.gets(1000);
    let batches = BatchLoad::of(&home, Layout::LEAF, &seen);
    for (what, frozen) in [("killed", false), ("frozen", true)] {
        for lost in 1..=3 {
            let leader = ensemble.leader();
            for server in (0..3).cycle().skip(leader).take(lost) {
                if frozen {
                    ensemble.freeze(server);
                } else {
                    ensemble.kill(server);
                }
            }
            if lost > 1 {
                customer.is_cut_off();
            } else {
                customer.reports();
            }
            batches.are_served(&home);
            if frozen {
                ensemble.thaw_all();
            } else {
                ensemble.start_all();
            }
            customer.reports();
            assert_eq!(customer.status().registry_error, "", "{lost} {what}");
            batches.are_served(&home);
        }
    }
    let figures = batches.finish();
    assert!(figures.failures.is_empty(), "{figures:?}\n{}", home.log());
    assert!(figures.workers.iter().eq([&worker]), "{figures:?}");
    assert_eq!(nodes(&ensemble).len(), 1);
    daemon.stop();
    println!("{} IDs over six losses of servers", seen.count(SNOWFLAKE));
}

#[test]
fn with_default_timeouts_the_worker_file_serves_whatever_hangs_or_breaks_at_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = Ensemble::single();
    let (proxies, servers) = ensemble.through_proxies();
    let home = Home::new(folder.path())
        .with_zookeeper(&servers)
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
    let network: [Fault<Proxy>; 2] =
        [("a hang", Proxy::hold, Proxy::pass), ("a cut", Proxy::cut, Proxy::pass)];
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
    for (what, begin, end) in network {
        begin(&proxies[0]);
        life(what, &|| end(&proxies[0]));
    }
    for (what, begin, end) in OUTAGES {
        begin(&ensemble);
        life(what, &|| end(&ensemble));
    }
    println!("{} IDs, {daemons} starts without ZooKeeper", seen.count(SNOWFLAKE));
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

#[test]
fn a_frozen_ensemble_slows_no_client_down() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let ensemble = Ensemble::single();
    let home = instance(folders[0].path(), &ensemble.connect_string(), "host-1");
    // Without ZooKeeper: shows what the machine can do at the same time.
    let other = Home::new(folders[1].path()).with("WORKER_ID", "1023");
    let seen = UniqueIds::default();
    let daemons = [home.start(), other.start()];
    let customer = SnowflakeCaller::of(&home, &seen);
    assert_eq!(customer.gets(1), 0);
    ensemble.freeze_all();
    customer.is_cut_off();
    // If calls waited for ZooKeeper, this daemon would lose every try. The scheduler makes it lose only
    // some.
    let keeps_up = (1..=30).any(|_| {
        let [calls, others] = calls_at_the_same_time(&daemons, &home, &seen);
        println!("{calls} calls with a frozen ZooKeeper while {others} were served without one");
        calls > others / 4
    });
    assert!(keeps_up, "slower in each of 30 tries");
    assert!(!customer.status().registry_error.is_empty(), "ZooKeeper answered meanwhile");
    ensemble.thaw_all();
    customer.reports();
    daemons.into_iter().for_each(|daemon| drop(daemon.stop()));
}

#[test]
fn a_stop_while_zookeeper_hangs_is_clean_however_long_its_calls_take() {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = Ensemble::single();
    let home = instance(folder.path(), &ensemble.connect_string(), "host-1")
        .with("ZOOKEEPER_SESSION_TIMEOUT", "60s")
        .with("SHUTDOWN_GRACE", "1s");
    let seen = UniqueIds::default();
    let mut lives = 0;
    for (timeout, what) in [("200ms", "calls fail soon"), ("10s", "calls hang")] {
        let home = home.clone().with("ZOOKEEPER_TIMEOUT", timeout);
        let customer = SnowflakeCaller::of(&home, &seen);
        for reporting in [false, true] {
            let daemon = home.start();
            assert_eq!(customer.gets(1000), 0, "{what}");
            customer.reports();
            ensemble.freeze_all();
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
            let tried = ended.count("ZooKeeper was not told of the end");
            assert!(what != "calls hang" || tried >= lives - 2, "{ended}");
            ensemble.thaw_all();
        }
    }
    let daemon = home.start();
    assert_eq!(SnowflakeCaller::of(&home, &seen).gets(1000), 0);
    daemon.stop();
    println!("{} IDs, {lives} stops while ZooKeeper hung", seen.count(SNOWFLAKE));
}

#[test]
fn an_outage_and_its_end_are_logged_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = Ensemble::single();
    let (proxies, servers) = ensemble.through_proxies();
    // A cut shows at once, so a slow machine may have its time: an answer that is late would be one
    // more outage in the log.
    let home = instance(folder.path(), &servers, "host-1")
        .with("ZOOKEEPER_TIMEOUT", "3s")
        .with("ZOOKEEPER_SESSION_TIMEOUT", "10s");
    let seen = UniqueIds::default();
    let customer = SnowflakeCaller::of(&home, &seen);
    let daemon = home.start();
    assert_eq!(customer.gets(1000), 0);
    let (begins, ends) = ("; trying again", "ZooKeeper answers again");
    for outage in 1..=2 {
        proxies[0].cut();
        let before = proxies[0].accepted();
        wait_until("it tries again", &home, || proxies[0].accepted() > before + 8);
        customer.is_cut_off();
        home.log().wait_times(begins, outage);
        proxies[0].pass();
        customer.reports();
        let log = home.log().wait_times(ends, outage);
        assert_eq!(log.matches(begins).count(), outage, "{log}");
        assert_eq!(customer.gets(1000), 0);
    }
    let ended = daemon.stop();
    assert_eq!((ended.count(begins), ended.count(ends)), (2, 2), "{ended}");
    assert_eq!(ended.count("no snowflake IDs: "), 0, "{ended}");
    println!("{} IDs, two outages", seen.count(SNOWFLAKE));
}
