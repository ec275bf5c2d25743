//! leafd recognises a database by an identity written into it, not by its path or URL. Another database,
//! a copy, or an empty one in its place repeats no ID.

use std::path::Path;
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, WireError};
use leafd_tests::caller::{Caller, ask_until_answered, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::fixture::{Fixture, LaidOut};
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{
    Daemon, Database, StoreServer, UniqueIds, on_every_database, on_every_store_with_identity,
};

on_every_store_with_identity! {
    another_database_at_the_same_url_gives_no_id_that_was_leased_from_the_first,
    a_database_that_is_replaced_while_leafd_runs_gives_no_lease,
}

mod sql {
    use super::*;

    on_every_database! {
        the_status_says_that_a_database_has_no_identity_until_it_has_one,
    }
}

/// More IDs than are left of any range.
const MANY: u32 = 5000;

fn takes(daemon: &Daemon, seen: &UniqueIds, tag: &str, count: u32) {
    let options = daemon.home().options().timeout(Duration::from_secs(60));
    let ids = Client::new(options).next_many(tag, count);
    let ids = ids.unwrap_or_else(|error| panic!("{tag}: {error}\n{}", daemon.home().log()));
    seen.add(tag, &ids);
}

fn refused(daemon: &Daemon, tag: &str) -> WireError {
    let limit = Duration::from_secs(2);
    let outcome = ask_until_answered(daemon.home(), limit, |client| client.next_many(tag, MANY));
    outcome.expect_err("a refusal")
}

fn remove(home: &Home, suffixes: &[&str]) {
    for suffix in suffixes {
        let _ = std::fs::remove_file(home.state().join(format!("leafd.db{suffix}")));
    }
}

fn at(home: &Home, database: &Path) -> Home {
    home.clone().with("STORE_PATH", &database.display().to_string())
}

#[test]
fn hosts_that_switch_between_embedded_databases_repeat_no_id_of_either() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.db", "b.db"].map(|name| folder.path().join(name));
    let [first, second] = ["1", "2"].map(|name| Home::new(&folder.path().join(name)));
    // IDs 1 to 500 of B are issued, and the second host keeps the rest of a range.
    let of_b = UniqueIds::default();
    let daemon = at(&second, &b).start();
    takes(&daemon, &of_b, "orders", 500);
    daemon.stop();
    let daemon = at(&first, &a).start();
    takes(&daemon, &UniqueIds::default(), "orders", 10);
    daemon.stop();
    let daemon = at(&first, &b).start();
    takes(&daemon, &of_b, "orders", MANY);
    first.log().wait_for("this is another database");
    daemon.stop();
    let daemon = at(&second, &b).start();
    takes(&daemon, &of_b, "orders", MANY);
    daemon.stop();
    // Back to the first database.
    let of_a = UniqueIds::default();
    of_a.add_run("orders", 1, 10);
    let daemon = at(&first, &a).start();
    takes(&daemon, &of_a, "orders", MANY);
    daemon.stop();
}

#[test]
fn another_embedded_database_is_not_taken_for_the_one_of_version_0_1_0() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::of("0.1.0", "embedded-stopped");
    let LaidOut { home, .. } = fixture.lay_out(&folder.path().join("old"));
    let other = Home::new(&folder.path().join("other"));
    let (of_other, path) = (UniqueIds::default(), folder.path().join("other.db"));
    let daemon = at(&other, &path).start();
    takes(&daemon, &of_other, "orders", 500);
    daemon.stop();
    let daemon = at(&home, &path).start();
    takes(&daemon, &of_other, "orders", MANY);
    daemon.stop();
}

#[test]
fn a_database_file_that_is_swapped_while_leafd_runs_gives_no_lease_and_memory_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|name| Home::new(&folder.path().join(name)));
    let seen = UniqueIds::default();
    let daemon = other.start();
    takes(&daemon, &seen, "orders", 10);
    daemon.stop();
    let seen = UniqueIds::default();
    let daemon = ours.start();
    takes(&daemon, &seen, "orders", 10);
    std::fs::rename(other.state().join("leafd.db"), ours.state().join("leafd.db")).unwrap();
    // What was leased before is still served, but there is no new lease.
    takes(&daemon, &seen, "orders", 10);
    let error = refused(&daemon, "orders");
    assert_eq!(error.code(), ErrorCode::StoreUnavailable);
    assert!(error.message.contains("was replaced while leafd ran"), "{error}");
    daemon.stop();
    // leafd takes a restart as the operator's confirmation.
    let daemon = ours.start();
    takes(&daemon, &seen, "orders", MANY);
    daemon.stop();
}

#[test]
fn a_copy_of_the_database_is_refused_until_it_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let (home, seen) = (Home::new(folder.path()), UniqueIds::default());
    let daemon = home.start();
    takes(&daemon, &seen, "orders", 10);
    daemon.stop();
    let (path, backup) = (home.database(), folder.path().join("backup"));
    std::fs::copy(&path, &backup).unwrap();
    let daemon = home.start();
    takes(&daemon, &seen, "orders", MANY);
    daemon.stop();
    std::fs::rename(&backup, &path).unwrap();
    let (code, _, text) = home.run("leafd", &[]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("the file is a copy") && text.contains("leafd adopt"), "{text}");
}

#[test]
fn a_database_that_is_moved_or_renamed_is_the_same_one() {
    let folder = tempfile::tempdir().unwrap();
    let (home, seen) = (Home::new(folder.path()), UniqueIds::default());
    let daemon = home.start();
    takes(&daemon, &seen, "orders", 10);
    daemon.stop();
    let moved = folder.path().join("moved.db");
    std::fs::rename(home.state().join("leafd.db"), &moved).unwrap();
    let daemon = at(&home, &moved).start();
    // The rest of the range is still used, so there is no gap.
    takes(&daemon, &seen, "orders", 10);
    assert_eq!(seen.highest("orders"), Some(20));
    daemon.stop();
}

#[test]
fn a_created_tag_does_not_begin_at_one_when_the_databases_log_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().tag_create("invoices", 0, 5_000_001, "").unwrap();
    daemon.kill();
    remove(&home, &["-wal", "-shm"]);
    let daemon = home.start();
    assert_eq!(daemon.client().next("invoices").unwrap(), 5_000_001);
    daemon.stop();
}

#[test]
fn a_created_tag_whose_database_is_lost_is_refused_and_begins_above_its_first_id_once_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().tag_create("invoices", 0, 5_000_001, "").unwrap();
    daemon.kill();
    remove(&home, &["", "-wal", "-shm"]);
    let daemon = home.start();
    let error = refused(&daemon, "invoices");
    assert_eq!(error.code(), ErrorCode::StoreUnavailable);
    assert!(error.message.contains("leafd adopt"), "{error}");
    daemon.stop();
    let output = home.command("leafd").arg("adopt").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let daemon = home.start();
    assert!(daemon.client().next("invoices").unwrap() >= 5_000_001);
    daemon.stop();
}

#[test]
fn an_emptied_database_is_not_taken_for_a_new_one_with_or_without_a_journal() {
    for journal_is_lost in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (home, seen) = (Home::new(folder.path()), UniqueIds::default());
        let daemon = home.start();
        takes(&daemon, &seen, "orders", 250);
        daemon.stop();
        remove(&home, &["-wal", "-shm"]);
        std::fs::write(home.state().join("leafd.db"), "").unwrap();
        if journal_is_lost {
            std::fs::remove_file(home.state().join("segments.journal")).unwrap();
        }
        for _ in 0..2 {
            let daemon = home.start();
            let error = refused(&daemon, "orders");
            assert_eq!(error.code(), ErrorCode::StoreUnavailable);
            assert!(error.message.contains("leafd adopt"), "{error}");
            daemon.kill();
        }
        assert_eq!(std::fs::metadata(home.state().join("leafd.db")).unwrap().len(), 0);
    }
}

#[test]
fn a_database_of_version_0_1_0_gets_an_identity_once_and_its_unproven_ranges_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::of("0.1.0", "embedded-killed");
    let (seen, LaidOut { home, .. }) = (fixture.issued(), fixture.lay_out(folder.path()));
    let recorded = || std::fs::read_to_string(home.state().join("database.properties")).unwrap();
    let daemon = home.start();
    // Nothing proves that the rest of the range was leased from this database.
    takes(&daemon, &seen, "invoices", 1);
    assert_eq!(seen.highest("invoices"), Some(1001));
    daemon.stop();
    let first = recorded();
    let daemon = home.start();
    takes(&daemon, &seen, "invoices", MANY);
    daemon.kill();
    assert_eq!(recorded(), first);
    assert!(first.contains("identity="), "{first}");
}

/// Changes the database as if the address now led to another one with rows of its own.
fn replace(server: &StoreServer) {
    server.replace_identity();
    server.forget("orders", 1);
}

fn another_database_at_the_same_url_gives_no_id_that_was_leased_from_the_first(
    kind: StoreServerKind,
) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 100);
    server.identify();
    let (home, seen) = (Home::new(folder.path()).with_store(&server), UniqueIds::default());
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &seen);
    orders.gets(10);
    daemon.stop();
    replace(&server);
    let daemon = home.start();
    home.log().wait_for("this is another database");
    // The range of the first database is dropped, and this host stays above it.
    takes(&daemon, &seen, "orders", 100);
    assert!(server.max_id("orders") > 101, "{}", server.max_id("orders"));
    home.log().wait_for("dropped=");
    daemon.kill();
    let daemon = home.start();
    takes(&daemon, &seen, "orders", MANY);
    daemon.stop();
}

fn a_database_that_is_replaced_while_leafd_runs_gives_no_lease(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::start_with_tag(kind, "orders", 100);
    server.identify();
    let (home, seen) = (Home::new(folder.path()).with_store(&server), UniqueIds::default());
    let daemon = home.start();
    takes(&daemon, &seen, "orders", 10);
    replace(&server);
    // Connections end, as in a failover.
    server.restart();
    wait_until(&home, "leases stop", || {
        let limit = Duration::from_secs(2);
        match ask_until_answered(&home, limit, |client| client.next_many("orders", 50)) {
            Ok(ids) => {
                seen.add("orders", &ids);
                false
            }
            Err(error) => error.message.contains("was replaced while leafd ran"),
        }
    });
    assert_eq!(server.max_id("orders"), 1, "nothing was leased from it");
    daemon.stop();
    let daemon = home.start();
    takes(&daemon, &seen, "orders", MANY);
    daemon.stop();
}

fn the_status_says_that_a_database_has_no_identity_until_it_has_one(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::with_tag(kind, "orders", 100);
    let (home, seen) = (Home::new(folder.path()).with_database(&database), UniqueIds::default());
    let daemon = home.start();
    takes(&daemon, &seen, "orders", 10);
    let store = || daemon.client().status().unwrap().segments.store;
    assert!(store().contains("without the table leafd_identity"), "{}", store());
    database.identify();
    // The next connection finds it, and idle connections are closed after some seconds.
    wait_until(&home, "the identity is found", || {
        takes(&daemon, &seen, "orders", 1000);
        std::thread::sleep(Duration::from_millis(20));
        !store().contains("leafd_identity")
    });
    daemon.stop();
}
