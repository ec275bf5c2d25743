//! A tag that was deleted and created again repeats no ID, whichever host creates it.

use std::sync::Arc;

use leaf_client::wire::ErrorCode;
use leaf_client::{Error, TagStatus};
use leafd::store::LeaseAsk;
use leafd::store::{NewTag, ServerKind, Store, StoreError};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::stores::{ASK, TestStore, run, span, spawn, tag};
use leafd_tests::{StoreServer, UniqueIds, on_every_server, on_every_sql_server, on_every_store};

on_every_store! {
    a_tag_created_again_begins_where_the_deleted_one_ended,
    a_tombstone_only_rises_and_belongs_to_one_name,
    a_tag_without_room_above_its_tombstone_is_not_created,
    a_row_that_does_not_show_what_was_issued_is_not_deleted,
    deletions_and_creations_of_many_hosts_lease_no_id_twice,
}

on_every_server! {
    a_host_that_never_saw_a_deleted_tag_repeats_no_id_when_it_creates_it_again,
    a_host_creates_a_tag_again_above_what_it_saw_even_if_the_row_was_deleted_by_hand,
}

on_every_sql_server! {
    without_the_tombstone_table_tags_can_be_created_and_not_deleted,
    without_the_rights_tags_cannot_be_deleted_and_the_store_is_not_down,
}

/// Creates the tables, with the rights that deleting tags needs.
fn ready(bench: &TestStore) {
    bench.create_table();
    if bench.kind().is_some() {
        bench.server().grant_deleting();
    }
}

fn lease(store: &Arc<dyn Store>, name: &str) -> (u64, u64) {
    span(&run(store.lease(&tag(name), ASK)).unwrap())
}

fn make(store: &Arc<dyn Store>, name: &str, first: u64) -> u64 {
    run(store.create(&tag(name), NewTag::new(first, 10, ""))).unwrap().first
}

fn a_tag_created_again_begins_where_the_deleted_one_ended(bench: &TestStore) {
    ready(bench);
    let (one, other) = (bench.open(), bench.open());
    assert_eq!(make(&one, "orders", 1), 1);
    assert_eq!(lease(&one, "orders"), (1, 11));
    assert_eq!(lease(&other, "orders"), (11, 21));
    let deleted = run(one.delete(&tag("orders"), 0)).unwrap();
    assert_eq!((deleted.tombstone, deleted.row.max_id.get()), (21, Some(21)));
    assert_eq!(run(one.delete(&tag("orders"), 0)), Err(StoreError::NoSuchTag));
    assert_eq!(make(&other, "orders", 1), 21);
    assert_eq!(bench.max_id("orders"), 21);
    assert_eq!(lease(&one, "orders"), (21, 31));
    // The new tag may begin further up.
    run(other.delete(&tag("orders"), 0)).unwrap();
    assert_eq!(make(&one, "orders", 5000), 5000);
}

fn a_tombstone_only_rises_and_belongs_to_one_name(bench: &TestStore) {
    ready(bench);
    let store = bench.open();
    for name in ["orders", "Orders", "orders "] {
        make(&store, name, 1);
    }
    // This host has seen more than the row says.
    assert_eq!(run(store.delete(&tag("orders"), 700)).unwrap().tombstone, 700);
    assert_eq!(make(&store, "orders", 1), 700);
    bench.set_max_id("orders", "5");
    assert_eq!(run(store.delete(&tag("orders"), 0)).unwrap().tombstone, 700);
    for name in ["Orders", "orders "] {
        assert_eq!(run(store.delete(&tag(name), 0)).unwrap().tombstone, 1, "{name:?}");
        assert_eq!(make(&store, name, 1), 1, "{name:?}");
    }
}

fn a_tag_without_room_above_its_tombstone_is_not_created(bench: &TestStore) {
    ready(bench);
    let store = bench.open();
    let end = bench.last_end(true).unsigned_abs();
    make(&store, "orders", end - 10);
    assert_eq!(lease(&store, "orders"), (end - 10, end));
    run(store.delete(&tag("orders"), 0)).unwrap();
    let Err(StoreError::BadRow(why)) = run(store.create(&tag("orders"), NewTag::new(1, 10, "")))
    else {
        panic!("the tag was created")
    };
    assert!(why.contains("deleted"), "{why}");
    assert_eq!(run(store.show(&tag("orders"))), Err(StoreError::NoSuchTag));
}

fn a_row_that_does_not_show_what_was_issued_is_not_deleted(bench: &TestStore) {
    ready(bench);
    let store = bench.open();
    bench.insert("orders", "-5", "10");
    let Err(StoreError::BadRow(why)) = run(store.delete(&tag("orders"), 0)) else {
        panic!("the tag was deleted")
    };
    assert!(why.contains(&bench.shown(-5)), "{why}");
    bench.set_max_id("orders", "500");
    assert_eq!(run(store.delete(&tag("orders"), 0)).unwrap().tombstone, 500);
}

fn deletions_and_creations_of_many_hosts_lease_no_id_twice(bench: &TestStore) {
    ready(bench);
    let hosts = (0..3).map(|host| {
        let store = bench.open();
        spawn(async move {
            let (mut ranges, mut deleted) = (Vec::new(), 0);
            let name = tag("orders");
            for _ in 0..60 {
                match store.lease(&name, LeaseAsk { at_least: 0, floor: 0 }).await {
                    Ok(leased) => ranges.push(span(&leased)),
                    // Another host has deleted the tag, or is changing it.
                    Err(StoreError::NoSuchTag | StoreError::Busy(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                let done = match host {
                    0 => store.delete(&name, 0).await.map(|_| deleted += 1),
                    _ => store.create(&name, NewTag::new(1, 10, "")).await.map(drop),
                };
                let usual = [Ok(()), Err(StoreError::NoSuchTag), Err(StoreError::Exists)];
                assert!(
                    usual.contains(&done) || matches!(done, Err(StoreError::Busy(_))),
                    "{done:?}"
                );
            }
            (ranges, deleted)
        })
    });
    let hosts: Vec<_> = hosts.collect();
    let (mut ranges, mut deletions) = (Vec::new(), 0);
    for host in hosts {
        let (leased, deleted) = run(host).unwrap();
        ranges.extend(leased);
        deletions += deleted;
    }
    ranges.sort_unstable();
    println!("{} leases, {deletions} deletions", ranges.len());
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two leases overlap");
}

fn without_the_tombstone_table_tags_can_be_created_and_not_deleted(bench: &TestStore) {
    ready(bench);
    bench.sql("DROP TABLE leafd_tombstone");
    let store = bench.open();
    let made = run(store.create(&tag("orders"), NewTag::new(7, 10, ""))).unwrap();
    assert_eq!((made.first, made.knows_deleted), (7, false));
    assert_eq!(lease(&store, "orders"), (7, 17));
    assert!(refused_deletion(&store, "orders").contains("`leafd schema`"));
    assert_eq!(bench.max_id("orders"), 17);
    ready(bench);
    assert_eq!(run(store.delete(&tag("orders"), 0)).unwrap().tombstone, 17);
    assert_eq!(make(&store, "orders", 1), 17);
}

fn refused_deletion(store: &Arc<dyn Store>, name: &str) -> String {
    match run(store.delete(&tag(name), 0)) {
        Err(StoreError::NotSetUp(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn without_the_rights_tags_cannot_be_deleted_and_the_store_is_not_down(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    make(&store, "orders", 1);
    let why = refused_deletion(&store, "orders");
    assert!(why.contains("leafd_tombstone") && why.contains("DELETE"), "{why}");
    assert_eq!(lease(&store, "orders"), (1, 11));
    // A table that exists but cannot be read may hold a tombstone of this name.
    bench.sql("GRANT SELECT, INSERT, UPDATE ON leafd_tombstone TO leaf");
    bench.sql("REVOKE SELECT ON leafd_tombstone FROM leaf");
    let made = run(store.create(&tag("users"), NewTag::new(1, 10, "")));
    match bench.speaks() {
        ServerKind::Postgres => assert!(matches!(made, Err(StoreError::NotSetUp(_))), "{made:?}"),
        // MariaDB gives the same error for a missing table.
        ServerKind::MySql => assert!(!made.unwrap().knows_deleted),
    }
    assert_eq!(lease(&store, "orders"), (11, 21));
    bench.database().grant_deleting();
    assert_eq!(run(store.delete(&tag("orders"), 0)).unwrap().tombstone, 21);
}

/// A daemon as a host of its own.
struct OwnHost {
    daemon: Daemon,
    home: Home,
    _folder: tempfile::TempDir,
}

fn host(server: &StoreServer, auto_create: &str) -> OwnHost {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with_store(server)
        .with("SEGMENT_AUTO_CREATE", auto_create)
        .with("SEGMENT_UNKNOWN_FOR", "0s");
    OwnHost { daemon: home.start(), home, _folder: folder }
}

fn refusal(outcome: Result<TagStatus, Error>) -> (ErrorCode, String) {
    match outcome {
        Err(Error::Refused(error)) => (error.code(), error.message),
        other => panic!("{other:?}"),
    }
}

fn a_host_that_never_saw_a_deleted_tag_repeats_no_id_when_it_creates_it_again(bench: &TestStore) {
    bench.create_table();
    let server = bench.server();
    server.grant_deleting();
    let (one, other) = (host(server, "false"), host(server, "false"));
    let mut client = one.daemon.client();
    client.tag_create("again", 1000, 1, "").unwrap();
    let seen = UniqueIds::default();
    seen.add("again", &client.next_many("again", 3).unwrap());
    let ends = client.tag_delete("again").unwrap().max_id;
    assert!(ends >= 1001, "{ends}");
    assert_eq!(refusal(client.tag_show("again")).0, ErrorCode::UnknownTag);
    let made = other.daemon.client().tag_create("again", 1000, 1, "").unwrap();
    // The answer has the value in the row.
    assert_eq!((made.max_id, server.max_id("again")), (ends, ends.cast_signed()));
    seen.add("again", &other.daemon.client().next_many("again", 1500).unwrap());
    seen.add("again", &client.next_many("again", 1500).unwrap());
}

fn a_host_creates_a_tag_again_above_what_it_saw_even_if_the_row_was_deleted_by_hand(
    bench: &TestStore,
) {
    bench.create_table();
    let server = bench.server();
    let (one, other) = (host(server, "false"), host(server, "false"));
    let mut client = one.daemon.client();
    client.tag_create("again", 1000, 1, "").unwrap();
    let seen = UniqueIds::default();
    seen.add("again", &client.next_many("again", 3).unwrap());
    server.delete_tag("again");
    let made = client.tag_create("again", 1000, 1, "").unwrap();
    assert_eq!(made.max_id.cast_signed(), server.max_id("again"));
    assert!(made.max_id >= 1001, "{}", made.max_id);
    seen.add("again", &other.daemon.client().next_many("again", 3).unwrap());
    seen.add("again", &client.next_many("again", 3).unwrap());
}

#[test]
fn a_tag_made_on_first_use_begins_above_its_tombstone_and_a_missing_tombstone_table_is_logged() {
    let server = StoreServer::fresh(StoreServerKind::POSTGRES);
    server.create_table();
    server.grant_deleting();
    let (one, other) = (host(&server, "true"), host(&server, "true"));
    let seen = UniqueIds::default();
    seen.add("again", &one.daemon.client().next_many("again", 3).unwrap());
    one.daemon.client().tag_delete("again").unwrap();
    seen.add("again", &other.daemon.client().next_many("again", 3).unwrap());
    server.sql().sql("DROP TABLE leafd_tombstone");
    let mut client = other.daemon.client();
    client.next("users").unwrap();
    other.home.log().wait_for("without the table leafd_tombstone");
    let (code, why) = refusal(client.tag_delete("users"));
    assert_eq!(code, ErrorCode::NotConfigured);
    assert!(why.contains("leafd schema"), "{why}");
    assert_eq!(client.next("users").unwrap(), 2);
}

#[test]
fn the_embedded_store_remembers_deleted_tags_in_a_database_of_0_1_0_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let seen = UniqueIds::default();
    seen.add("again", &daemon.client().next_many("again", 3).unwrap());
    daemon.stop();
    // Version 0.1.0 did not create this table.
    home.sql("DROP TABLE leafd_tombstone");
    let daemon = home.start();
    daemon.client().tag_delete("again").unwrap();
    daemon.stop();
    // The journal, which also remembers the tag, must not be needed.
    std::fs::remove_file(home.state().join("segments.journal")).unwrap();
    let daemon = home.start();
    seen.add("again", &daemon.client().next_many("again", 3).unwrap());
}

#[test]
fn a_first_id_without_room_for_a_range_is_refused_when_the_tag_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    let end = i64::MAX.unsigned_abs();
    // The client does not know the daemon's step.
    let (code, why) = refusal(client.tag_create("orders", 0, end - 999, ""));
    assert_eq!(code, ErrorCode::BadCount);
    assert!(why.contains(&(end - 1000).to_string()), "{why}");
    client.tag_create("orders", 0, end - 1000, "").unwrap();
    assert_eq!(client.next("orders").unwrap(), end - 1000);
    let leafctl = |first: u64| {
        let mut command = daemon.home().command("leafctl");
        let command = command.args(["tag", "create", "users", "--step", "1000", "--first"]);
        command.arg(first.to_string()).output().unwrap()
    };
    for first in [0, end - 999, end, u64::MAX] {
        let output = leafctl(first);
        assert_eq!(output.status.code(), Some(64), "{first}");
    }
    assert!(leafctl(end - 1000).status.success());
}

#[test]
fn leafctl_deletes_a_tag_only_with_yes_and_says_where_a_new_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    daemon.client().tag_create("orders", 10, 500, "").unwrap();
    let delete = |more: &[&str]| {
        let mut command = daemon.home().command("leafctl");
        let output = command.args(["tag", "delete", "orders"]).args(more).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = delete(&[]);
    assert!(code == Some(64) && text.contains("tag delete --yes -- orders"), "{text}");
    assert_eq!(daemon.client().tag_show("orders").unwrap().max_id, 500);
    let (code, text) = delete(&["--yes"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "deleted orders; a new tag of this name begins at 500\n")
    );
    assert_eq!(delete(&["--yes"]).0, Some(64));
}
