//! The store's server or the network is down, frozen or slow, or loses connections. IDs in memory are
//! served as usual, requests that need a lease get an error with the reason at their deadline, and
//! leafd recovers by itself.

use std::time::{Duration, Instant};

use leafd_tests::caller::{Caller, in_bounds, store_error, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::load::Load;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Proxy, StoreServer, UniqueIds, on_every_store_server};

/// A deadline that memory always meets, and that a store which does not answer always misses.
const SOON: Duration = Duration::from_secs(5);

/// A deadline that a lease through the slow network misses.
const MEMORY: Duration = Duration::from_millis(900);

/// A deadline that passes during the outage.
const SHORT: Duration = Duration::from_millis(700);

/// A `store.timeout` with which a slow call to the store does not fail.
const LONG: &str = "60s";

/// The name of a fault, and the function that begins it.
type Fault<T> = (&'static str, fn(&T));

on_every_store_server! {
    a_frozen_server_delays_no_request_that_memory_can_serve,
    a_server_frozen_for_longer_than_the_timeout_is_reported_as_down,
    a_killed_or_restarted_server_fails_no_call_with_a_longer_deadline,
    memory_is_served_while_the_network_hangs_or_breaks_and_leases_resume_once_it_is_back,
    connections_that_a_firewall_forgot_cost_one_timeout_and_not_one_each,
    a_slow_network_delays_leases_but_no_request_that_memory_can_serve,
    the_status_shows_what_each_tag_has_left_and_why_its_leases_fail,
}

fn a_frozen_server_delays_no_request_that_memory_can_serve(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::start_with_tag(kind, "orders", 1000);
    let home = Home::new(folder.path()).with_store(&server).with("STORE_TIMEOUT", LONG);
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let left = orders.fills_memory();
    server.freeze();
    assert_eq!(orders.drain(SOON), left);
    orders.is_refused(SHORT);
    daemon.client().snowflake().unwrap();
    let waiter = orders.waits();
    server.thaw();
    waiter.is_served("frozen and thawed", Instant::now());
    assert_eq!(store_error(&home), "", "it was only slow");
    daemon.stop();
}

fn a_server_frozen_for_longer_than_the_timeout_is_reported_as_down(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::start_with_tag(kind, "orders", 1000);
    let home = Home::new(folder.path()).with_store(&server).with("STORE_TIMEOUT", "1600ms");
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let left = orders.fills_memory();
    server.freeze();
    assert_eq!(orders.drain(SOON), left);
    wait_until(&home, "the status reports it", || store_error(&home).contains("2000 ms"));
    let error = orders.is_refused(SHORT);
    assert!(error.message.contains("store.timeout"), "{error}");
    let waiter = orders.waits();
    server.thaw();
    waiter.is_served("frozen for long, and thawed", Instant::now());
    assert_eq!(store_error(&home), "");
    home.log().wait_for("the store works again");
    daemon.stop();
}

fn a_killed_or_restarted_server_fails_no_call_with_a_longer_deadline(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::start(kind);
    server.create_table();
    for tag in ["orders", "users", "items"] {
        server.insert_tag(tag, 1, 500);
    }
    // Small steps, so that there are leases all the time.
    let home = Home::new(folder.path()).with_store(&server).with("SEGMENT_MAX_STEP", "1000");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let options = home.options().timeout(Duration::from_secs(55));
    let load = Load::start(&options, &seen, &["orders", "orders", "users", "items"], 100);
    let status = || daemon.client().status().unwrap().segments;
    for (what, kills) in [("killed", true), ("restarted", false)] {
        let before = status().leases;
        wait_until(&home, "leases go on", || status().leases > before + 20);
        if kills {
            server.kill();
        } else {
            server.stop();
        }
        wait_until(&home, "all requests wait", || status().waiting == 4);
        server.start_again();
        let returned = Instant::now();
        wait_until(&home, "a request is served", || status().waiting < 4);
        in_bounds(what, returned.elapsed());
    }
    assert_eq!(load.finish(), 0, "calls failed\n{}", home.log());
    println!("{} IDs across a kill and a restart of the server", seen.total());
    daemon.stop();
}

fn memory_is_served_while_the_network_hangs_or_breaks_and_leases_resume_once_it_is_back(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    let proxy = Proxy::to(server.port());
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    let daemon = home.with("STORE_TIMEOUT", "1600ms").start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let faults: [Fault<Proxy>; 2] = [("a hang", Proxy::hold), ("a cut", Proxy::cut)];
    for (what, begin) in faults {
        let left = orders.fills_memory();
        begin(&proxy);
        assert_eq!(orders.drain(SOON), left);
        orders.is_refused(SHORT);
        let home = daemon.home();
        wait_until(home, "the status reports it", || !store_error(home).is_empty());
        let waiter = orders.waits();
        proxy.pass();
        waiter.is_served(what, Instant::now());
    }
    daemon.stop();
}

fn connections_that_a_firewall_forgot_cost_one_timeout_and_not_one_each(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    let proxy = Proxy::to(server.port());
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    // Waiting for the timeout of four connections in turn would take too long.
    let daemon = home.with("STORE_TIMEOUT", "3s").start();
    let seen = UniqueIds::default();
    let left = Caller::of(&daemon, "orders", &seen).fills_memory();
    let tags: Vec<String> = (0..6).map(|number| format!("tag {number}")).collect();
    for tag in &tags {
        server.insert_tag(tag, 1, 1000);
        Caller::of(&daemon, tag, &seen).gets(1);
    }
    // Simultaneous leases, so that leafd opens several connections.
    proxy.delay(Duration::from_millis(50));
    std::thread::scope(|scope| {
        for tag in &tags {
            let caller = Caller::of(&daemon, tag, &seen);
            scope.spawn(move || caller.gets(5000));
        }
    });
    proxy.delay(Duration::ZERO);
    for tag in &tags {
        Caller::of(&daemon, tag, &seen).fills_memory();
    }
    let forgotten = proxy.connections();
    // Redis has one connection for all calls.
    let least = if kind == StoreServerKind::Redis { 1 } else { 4 };
    assert!(forgotten >= least, "{forgotten} connections");
    proxy.lose();
    let orders = Caller::of(&daemon, "orders", &seen);
    assert_eq!(orders.drain(SOON), left);
    proxy.pass();
    let returned = Instant::now();
    orders.gets(1);
    in_bounds(&format!("{forgotten} connections forgotten"), returned.elapsed());
    daemon.stop();
}

fn a_slow_network_delays_leases_but_no_request_that_memory_can_serve(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    let proxy = Proxy::to(server.port());
    proxy.delay(Duration::from_millis(300));
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    let daemon = home.with("STORE_TIMEOUT", LONG).start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let began = Instant::now();
    orders.gets(1);
    println!("300 ms per round trip: the first ID after {:.1?}", began.elapsed());
    let left = orders.fills_memory();
    let leases = orders.status().unwrap().leases;
    // IDs in memory are served at once, and the next range is leased meanwhile.
    for _ in 0..left / 10 {
        assert_eq!(orders.ask(10, MEMORY), Ok(()));
    }
    orders.wait_status("the next lease", |status| status.leases > leases);
    assert_eq!(store_error(daemon.home()), "", "{}", daemon.home().log());
    daemon.stop();
}

fn the_status_shows_what_each_tag_has_left_and_why_its_leases_fail(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 1000);
    server.insert_tag("users", 1, 1000);
    let proxy = Proxy::to(server.port());
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    let daemon = home.start();
    let seen = UniqueIds::default();
    let (orders, users) =
        (Caller::of(&daemon, "orders", &seen), Caller::of(&daemon, "users", &seen));
    let (_, left) = (orders.fills_memory(), users.fills_memory());
    proxy.cut();
    orders.drain(SOON);
    let waiter = orders.waits();
    let mut client = daemon.client();
    wait_until(&home, "the status of orders has an error", || {
        let status = client.tag_show("orders").unwrap();
        assert_eq!((status.remaining, status.seconds_left), (0, Some(0)), "{status:?}");
        !status.lease_error.is_empty()
    });
    let status = client.tag_show("orders").unwrap();
    assert_eq!(status.waiting, 1);
    assert!(!status.lease_error.contains("secret"), "{status:?}");
    let status = client.tag_show("users").unwrap();
    assert_eq!((status.remaining, status.lease_error.as_str()), (left, ""));
    let segments = client.status().unwrap().segments;
    assert!(!segments.store_error.is_empty() && !segments.store_error.contains("secret"));
    assert_eq!(segments.waiting, 1);
    let listed: Vec<_> = client.tag_list("", 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|status| status.tag.as_str()).collect();
    assert_eq!(listed, ["orders", "users"]);
    proxy.pass();
    waiter.is_served("a cut", Instant::now());
    assert_eq!(client.tag_show("orders").unwrap().lease_error, "");
    assert_eq!(store_error(&home), "");
    daemon.stop();
}
