//! A thousand tags without IDs in memory, and their clients, during an outage and after it.

use std::time::Instant;

use leaf_client::blocking;
use leaf_client::wire::{Call, ErrorCode, Reply};
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use leafd_tests::raw::{Raw, frame};
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Daemon, Proxy, StoreServer, UniqueIds, on_every_store_server};

const TAGS: u64 = 1000;

/// A number of connections that would be a storm. A try for each tag makes far more, and occasional
/// probes make far fewer.
const STORM: usize = 50;

/// The deadline in ms of requests that have to be served. A thousand leases take long on a busy
/// machine.
const LONG_MS: u32 = 300_000;

on_every_store_server! {
    a_thousand_drained_tags_do_not_storm_a_store_that_is_down_and_are_all_served_afterwards,
}

fn name(number: u64) -> String {
    format!("tag {number:04}")
}

/// Asks for `count` IDs of every tag over one connection, without reading the answers.
fn ask_all(raw: &mut Raw, count: u32, timeout_ms: u32) {
    for number in 0..TAGS {
        let tag = name(number);
        raw.send(&frame(number + 2, Call::Segment { tag: &tag, count, timeout_ms }));
    }
}

/// Reads the answers, all of which have to be IDs.
fn all_are_served(raw: &mut Raw, daemon: &Daemon, seen: &UniqueIds) {
    for _ in 0..TAGS {
        let response = raw.receive().expect("an answer");
        let Reply::Ids { first, more } = response.reply else {
            panic!("{:?}\n{}", response.reply, daemon.home().log());
        };
        for run in std::iter::once(first).chain(more) {
            seen.add_run(&name(response.id - 2), run.first, u64::from(run.count));
        }
    }
}

fn a_thousand_drained_tags_do_not_storm_a_store_that_is_down_and_are_all_served_afterwards(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::fresh(kind);
    server.create_table();
    let names: Vec<String> = (0..TAGS).map(name).collect();
    server.insert_tags(&names, 2);
    let proxy = Proxy::to(server.port());
    let home = Home::new(folder.path()).with_store_at(&server, proxy.port());
    let home = home.with("SEGMENT_MAX_WAIT", "10m");
    let daemon = home.start();
    let segments = || blocking::Client::new(home.options()).status().unwrap().segments;
    let seen = UniqueIds::default();
    let mut raw = Raw::greeted(&home.socket());
    ask_all(&mut raw, 1, LONG_MS);
    all_are_served(&mut raw, &daemon, &seen);
    wait_until(&home, "each has two ranges", || segments().leases == 2 * TAGS);

    proxy.cut();
    ask_all(&mut raw, 3, LONG_MS);
    all_are_served(&mut raw, &daemon, &seen);
    let before = proxy.accepted();
    ask_all(&mut raw, 1, 5000);
    for _ in 0..TAGS {
        let (_, error) = raw.refusal();
        assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
        assert!(error.retry_after_ms > 0, "{error:?}");
    }
    let tries = proxy.accepted() - before;
    println!("{TAGS} tags waited for 5 s: {tries} connections");
    assert!((1..STORM).contains(&tries), "{tries} connections\n{}", home.log());

    ask_all(&mut raw, 1, LONG_MS);
    wait_until(&home, "all requests wait", || segments().waiting == TAGS);
    let before = (proxy.accepted(), segments().leases);
    proxy.pass();
    let returned = Instant::now();
    all_are_served(&mut raw, &daemon, &seen);
    let took = returned.elapsed();
    let connections = proxy.accepted() - before.0;
    let leases = segments().leases - before.1;
    println!("all served in {took:.1?}, with {connections} connections and {leases} leases");
    assert!(connections < STORM, "{connections} connections");
    // One for the waiting request, and one ahead.
    assert!((TAGS..=2 * TAGS).contains(&leases), "{leases} leases");
    assert_eq!(seen.total(), 5 * TAGS);
    let ended = daemon.stop();
    assert!(ended.count("") < STORM, "{ended}");
}
