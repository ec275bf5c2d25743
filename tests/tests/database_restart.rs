//! leafd restarts during an outage of its store, on the state directory of another host, and with
//! another store than before.

use std::path::Path;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::wire::ErrorCode;
use leafd_tests::caller::{Caller, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Daemon, Proxy, StoreServer, UniqueIds, on_every_store_server};

/// A deadline that memory always meets, and that a store which does not answer always misses.
const SOON: Duration = Duration::from_secs(5);

/// A deadline that passes during the outage.
const SHORT: Duration = Duration::from_millis(700);

on_every_store_server! {
    a_restart_without_the_database_serves_what_is_left_without_waiting,
    a_recently_used_tag_is_leased_at_the_start_before_any_request,
    a_state_directory_copied_from_another_host_is_set_aside_and_repeats_no_id,
    a_copy_with_the_worker_id_of_its_original_issues_no_snowflakes_and_says_what_to_do,
    a_restored_directory_serves_ids_above_those_it_saw_and_no_snowflakes_until_it_is_adopted,
    ranges_of_another_store_are_dropped_and_ids_go_on_above_all_that_was_seen,
}

fn a_restart_without_the_database_serves_what_is_left_without_waiting(kind: StoreServerKind) {
    let server = StoreServer::with_tag(kind, "orders", 10_000);
    let proxy = Proxy::to(server.port());
    let seen = UniqueIds::default();
    for crash in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path())
            .with_store_at(&server, proxy.port())
            .with("STORE_TIMEOUT", "60s")
            .with("SHUTDOWN_GRACE", "1s");
        let daemon = home.start();
        let orders = Caller::of(&daemon, "orders", &seen);
        let filled = orders.fills_memory();
        // More than a window, so that the journal has both ranges.
        orders.gets(3000);
        let left = filled - 3000;
        // A hang, since leafd would wait for it, unlike for a refused connection.
        proxy.hold();
        if crash {
            daemon.kill();
        } else {
            daemon.stop();
        }
        let daemon = home.start();
        assert_eq!(orders.ask(1, SOON), Ok(()), "the first request");
        let served = 1 + orders.drain(SOON);
        let lost = left - served;
        // A crash costs a window, but no range. The window has grown, since it was used up quickly.
        assert!(if crash { lost <= 5000 } else { lost == 0 }, "{lost} lost, crash: {crash}");
        orders.is_refused(SHORT);
        let waiter = orders.waits();
        proxy.pass();
        waiter.is_served("a restart during an outage", Instant::now());
        daemon.stop();
        println!("crash: {crash}; {served} served without the database, {lost} lost");
    }
}

fn a_recently_used_tag_is_leased_at_the_start_before_any_request(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    server.insert_tag("never used here", 1, 1000);
    let proxy = Proxy::to(server.port());
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    orders.fills_memory();
    proxy.cut();
    orders.drain(SOON);
    daemon.stop();
    let max_id = server.max_id("orders");

    // Even if the database comes up after leafd.
    let daemon = home.start();
    home.log().wait_for("the store fails");
    assert_eq!(orders.status().map_or(0, |status| status.remaining), 0);
    proxy.pass();
    orders.wait_status("the lease", |status| status.remaining > 0);
    let status = orders.status().unwrap();
    assert_eq!((status.leases, status.issued, status.remaining), (1, 0, 1000));
    // Of several databases, the one that is back first gives the lease, from its own share.
    let leased = server.max_id("orders");
    let is_next = leased == max_id + 1000;
    assert!(is_next || kind == StoreServerKind::Several && leased > max_id, "{leased}");
    assert_eq!(server.max_id("never used here"), 1);
    proxy.hold();
    assert_eq!(orders.ask(1, SOON), Ok(()), "it was leased ahead");
    proxy.pass();
    daemon.stop();
}

fn copy(from: &Home, to: &Home) {
    std::fs::create_dir_all(to.state()).unwrap();
    for entry in std::fs::read_dir(from.state()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.state().join(entry.file_name())).unwrap();
    }
}

/// A running host that has used the database, and another host with a copy of its state directory.
fn twins(folder: &Path, server: &StoreServer, seen: &UniqueIds) -> (Daemon, Home) {
    let home = |name: &str| {
        let home = Home::new(&folder.join(name)).with("STATE_MACHINE_ID", name);
        home.with_store(server)
    };
    let (original, clone) = (home("original"), home("clone"));
    let daemon = original.start();
    Caller::of(&daemon, "orders", seen).fills_memory();
    seen.add("snowflake", &daemon.client().snowflake_many(100).unwrap());
    daemon.stop();
    copy(&original, &clone);
    (original.start(), clone)
}

fn a_state_directory_copied_from_another_host_is_set_aside_and_repeats_no_id(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    let seen = UniqueIds::default();
    let (original, clone) = twins(folder.path(), &server, &seen);
    let clone = clone.with("WORKER_ID", "1").start();
    for line in ["another host's: machine ID original", "segments.journal is set aside as"] {
        clone.home().log().wait_for(line);
    }
    let daemons = [&original, &clone];
    std::thread::scope(|scope| {
        for daemon in daemons {
            scope.spawn(|| {
                let caller = Caller::of(daemon, "orders", &seen);
                for _ in 0..50 {
                    caller.gets(100);
                    seen.add("snowflake", &daemon.client().snowflake_many(100).unwrap());
                }
            });
        }
    });
    // The original has dropped nothing.
    let ids = original.client().status().unwrap().segments.issued;
    assert!(ids >= 5000 && seen.count("orders") >= 10_000);
    original.stop();
    clone.stop();
}

fn a_copy_with_the_worker_id_of_its_original_issues_no_snowflakes_and_says_what_to_do(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    let seen = UniqueIds::default();
    let (original, clone) = twins(folder.path(), &server, &seen);
    // With the original's configuration. A restart changes nothing.
    for _ in 0..2 {
        let daemon = clone.start();
        let Err(Error::Refused(error)) = daemon.client().snowflake() else { panic!("it serves") };
        assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{error}");
        assert!(error.message.contains("leafd adopt"), "{error}");
        Caller::of(&daemon, "orders", &seen).gets(1500);
        daemon.stop();
    }
    Caller::of(&original, "orders", &seen).gets(1500);
    seen.add("snowflake", &original.client().snowflake_many(100).unwrap());
    original.stop();
}

fn a_restored_directory_serves_ids_above_those_it_saw_and_no_snowflakes_until_it_is_adopted(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 10_000);
    let home = Home::new(folder.path()).with_store(&server);
    let seen = UniqueIds::default();
    let backup = folder.path().join("backup");
    let sh = |script: &str| {
        let script = script.replace("STATE", home.state().to_str().unwrap());
        let script = script.replace("BACKUP", backup.to_str().unwrap());
        let status = std::process::Command::new("sh").args(["-euc", &script]).status();
        assert!(status.unwrap().success(), "{script}");
    };
    let daemon = home.start();
    let get = |daemon: &Daemon| {
        seen.add("orders", &daemon.client().next_many("orders", 300).unwrap());
    };
    get(&daemon);
    sh("cp -a STATE BACKUP");
    get(&daemon);
    daemon.stop();
    sh("rsync -a --delete BACKUP/ STATE/");
    for _ in 0..2 {
        let daemon = home.start();
        get(&daemon);
        let Err(Error::Refused(error)) = daemon.client().snowflake() else { panic!("issued") };
        assert_eq!(error.code(), ErrorCode::WorkerUnavailable);
        assert!(error.message.contains("leafd adopt"), "{error}");
        daemon.stop();
    }
    assert!(home.command("leafd").arg("adopt").status().unwrap().success());
    // A directory that is gone is adopted only if the operator says that it is lost.
    sh("rm -rf STATE");
    assert!(!home.command("leafd").arg("adopt").status().unwrap().success());
    assert!(home.command("leafd").args(["adopt", "--lost"]).status().unwrap().success());
    let daemon = home.start();
    get(&daemon);
    let options = home.options().timeout(Duration::from_secs(30));
    leaf_client::blocking::Client::new(options).snowflake().unwrap();
    daemon.stop();
}

fn ranges_of_another_store_are_dropped_and_ids_go_on_above_all_that_was_seen(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Home::new(folder.path());
    let servers = [(); 2].map(|()| StoreServer::with_tag(kind, "orders", 1000));
    let homes = [
        embedded.clone(),
        embedded.clone().with_store(&servers[0]),
        embedded.clone().with_store(&servers[1]),
        embedded.clone().with_store(&servers[0]),
        embedded.clone(),
    ];
    let seen = UniqueIds::default();
    let mut floor = 0;
    for (number, home) in homes.iter().enumerate() {
        let daemon = home.start();
        let orders = Caller::of(&daemon, "orders", &seen);
        let highest = seen.highest("orders").unwrap_or(0);
        let mut client = daemon.client();
        let first = client.next("orders").unwrap();
        seen.add_run("orders", first, 1);
        assert!(first > highest && first >= floor, "{first} after {highest}, below {floor}");
        home.log().wait_times("are given up", number);
        orders.fills_memory();
        let mut end = 0;
        wait_until(home, "the end of its leases", || {
            end = orders.status().unwrap().max_id;
            end > first
        });
        floor = end;
        daemon.stop();
    }
}
