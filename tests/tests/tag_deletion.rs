//! A tag that was deleted stays deleted, whoever restarts. What hosts still hold of it lies below its
//! tombstone, so they may issue it.

use std::path::Path;

use leaf_client::blocking::Client;
use leaf_client::wire::ErrorCode;
use leaf_client::{Error, TagStatus};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::database::Session;
use leafd_tests::stores::{TestStore, wait_until};
use leafd_tests::{UniqueIds, on_every_server, on_every_sql_store, on_every_store};

on_every_store! {
    a_deleted_tag_stays_deleted_over_kills_and_restarts_of_its_host,
    a_tag_that_was_deleted_while_its_host_was_down_is_not_made_again_by_its_start,
    a_request_makes_a_deleted_tag_again_only_where_requests_make_tags,
}

on_every_sql_store! {
    without_room_to_remember_deleted_tags_leafctl_deletes_nothing_and_names_the_remedy,
}

on_every_server! {
    hosts_that_hold_ids_of_a_deleted_tag_go_on_with_them_and_repeat_none,
    a_busy_host_makes_a_deleted_tag_again_and_fails_no_request,
}

/// A host on the store, with a state directory of its own. If the store is embedded, there can only be
/// one.
fn home(store: &TestStore, folder: &Path, auto_create: bool) -> Home {
    let home = Home::new(folder)
        .with_time_for_the_disk()
        .with("SEGMENT_AUTO_CREATE", &auto_create.to_string())
        .with("SEGMENT_UNKNOWN_FOR", "0s");
    match store.kind() {
        None => home,
        Some(_) => home.with_store(store.server()),
    }
}

fn ready(store: &TestStore) {
    if store.kind().is_some() {
        store.create_table();
        store.server().grant_deleting();
    }
}

/// How many rows a tag has, read past leafd, whose store is `home`'s if it is embedded.
fn rows(store: &TestStore, home: &Home, tag: &str) -> usize {
    let statement = format!("SELECT biz_tag FROM leaf_alloc WHERE biz_tag = '{tag}'");
    match store.kind() {
        None => {
            let url = format!("sqlite:{}", home.database().display());
            Session::open(&url).unwrap().query(&statement).len()
        }
        Some(_) => usize::from(store.has(tag)),
    }
}

fn is_listed(client: &mut Client, tag: &str) -> bool {
    client.tag_list("", 100).unwrap().iter().any(|listed| listed.tag == tag)
}

/// Waits until the daemon has read its tags, and stops it, so that nothing is under way any more.
fn settle(daemon: Daemon, tag: &str) {
    let mut client = daemon.client();
    wait_until("the tag is not listed", || !is_listed(&mut client, tag));
    daemon.stop();
}

fn code<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorCode {
    match outcome {
        Err(Error::Refused(error)) => error.code(),
        other => panic!("{other:?}"),
    }
}

fn a_deleted_tag_stays_deleted_over_kills_and_restarts_of_its_host(store: &TestStore) {
    ready(store);
    for auto_create in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let home = home(store, folder.path(), auto_create);
        let tag = format!("typo {auto_create}");
        let daemon = home.start();
        let mut client = daemon.client();
        client.tag_create(&tag, 1000, 1, "").unwrap();
        client.next_many(&tag, 3).unwrap();
        client.tag_delete(&tag).unwrap();
        assert!(!is_listed(&mut client, &tag));
        // What the journal says of the tag now depends on when exactly the daemon is killed.
        daemon.kill();
        for _ in 0..2 {
            settle(home.start(), &tag);
            assert_eq!(rows(store, &home, &tag), 0, "{}", home.log());
        }
        // Nor does an operator read about it at every start.
        let daemon = home.start();
        settle(daemon, &tag);
        let log = home.log().to_string();
        let warnings = log.lines().filter(|line| line.contains("gone from the store")).count();
        assert!(warnings <= 1, "{log}");
    }
}

fn a_tag_that_was_deleted_while_its_host_was_down_is_not_made_again_by_its_start(
    store: &TestStore,
) {
    ready(store);
    let folder = tempfile::tempdir().unwrap();
    let home = home(store, folder.path(), true);
    let daemon = home.start();
    daemon.client().next_many("typo", 3).unwrap();
    // The journal keeps what is left of the range.
    daemon.kill();
    match store.kind() {
        None => home.sql("DELETE FROM leaf_alloc WHERE biz_tag = 'typo'"),
        Some(_) => store.remove("typo"),
    }
    settle(home.start(), "typo");
    assert_eq!(rows(store, &home, "typo"), 0, "{}", home.log());
}

fn a_request_makes_a_deleted_tag_again_only_where_requests_make_tags(store: &TestStore) {
    ready(store);
    let folder = tempfile::tempdir().unwrap();
    let with = |auto_create| home(store, folder.path(), auto_create);
    let seen = UniqueIds::default();
    let daemon = with(false).start();
    let mut client = daemon.client();
    client.tag_create("orders", 1000, 1, "").unwrap();
    seen.add("orders", &client.next_many("orders", 3).unwrap());
    let TagStatus { max_id: end, .. } = client.tag_delete("orders").unwrap();
    daemon.kill();
    let daemon = with(false).start();
    // The start may not have compared its journal with the store yet: what is left may be issued.
    let mut client = daemon.client();
    wait_until("the tag is not listed", || !is_listed(&mut client, "orders"));
    assert_eq!(code(client.next("orders")), ErrorCode::UnknownTag);
    daemon.kill();
    let daemon = with(true).start();
    let mut client = daemon.client();
    wait_until("the tag is not listed", || !is_listed(&mut client, "orders"));
    let ids = client.next_many("orders", 2000).unwrap();
    assert!(ids.first() >= end, "{} is below {end}", ids.first());
    seen.add("orders", &ids);
    assert!(is_listed(&mut client, "orders"));
}

fn without_room_to_remember_deleted_tags_leafctl_deletes_nothing_and_names_the_remedy(
    store: &TestStore,
) {
    // An embedded store makes its tables itself.
    if store.kind().is_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(store, folder.path(), true);
        let daemon = home.start();
        daemon.client().next("orders").unwrap();
        let (code, out, errors) = home.run("leafctl", &["tag", "delete", "orders", "--yes"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(out.contains("deleted orders"), "{out}");
        return;
    }
    ready(store);
    store.sql("DROP TABLE leafd_tombstone");
    let folder = tempfile::tempdir().unwrap();
    let home = home(store, folder.path(), true);
    let daemon = home.start();
    let first = daemon.client().next("orders").unwrap();
    let (code, out, errors) = home.run("leafctl", &["tag", "delete", "orders", "--yes"]);
    assert_eq!((code, out.as_str()), (Some(64), ""), "{errors}");
    for part in ["207 NotConfigured", "leafd_tombstone", "leafd schema"] {
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(daemon.client().next("orders").unwrap(), first + 1);
    assert_eq!(rows(store, &home, "orders"), 1);
}

fn hosts_that_hold_ids_of_a_deleted_tag_go_on_with_them_and_repeat_none(store: &TestStore) {
    ready(store);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    // No host reads its tags again by itself during the test.
    let [deletes, holds, creates] = folders
        .each_ref()
        .map(|folder| home(store, folder.path(), false).with("SEGMENT_REFRESH", "1h").start());
    let seen = UniqueIds::default();
    deletes.client().tag_create("orders", 1000, 1, "").unwrap();
    for host in [&deletes, &holds] {
        seen.add("orders", &host.client().next_many("orders", 3).unwrap());
    }
    let TagStatus { max_id: end, .. } = deletes.client().tag_delete("orders").unwrap();
    // The host where the tag was deleted drops what it had.
    assert_eq!(code(deletes.client().next("orders")), ErrorCode::UnknownTag);
    let held = holds.client().next_many("orders", 20).unwrap();
    assert!(held.first() + 19 < end, "{} and {end}", held.first());
    seen.add("orders", &held);
    let made = creates.client().tag_create("orders", 1000, 1, "").unwrap();
    assert!(made.max_id >= end, "{} and {end}", made.max_id);
    seen.add("orders", &creates.client().next_many("orders", 500).unwrap());
    seen.add("orders", &holds.client().next_many("orders", 20).unwrap());
    // A restart in between changes nothing, however it comes.
    let home = holds.home().clone();
    holds.kill();
    let holds = home.start();
    seen.add("orders", &holds.client().next_many("orders", 1500).unwrap());
    seen.add("orders", &deletes.client().next_many("orders", 1500).unwrap());
    seen.add("orders", &creates.client().next_many("orders", 1500).unwrap());
}

fn a_busy_host_makes_a_deleted_tag_again_and_fails_no_request(store: &TestStore) {
    ready(store);
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [deletes, busy] = folders.each_ref().map(|folder| home(store, folder.path(), true).start());
    let seen = UniqueIds::default();
    let mut client = busy.client();
    let mut end = 0;
    for round in 0..400 {
        // Many leases, ahead of need and of requests that wait, meet a row that is gone.
        seen.add("orders", &client.next_many("orders", 1 + round % 90).unwrap());
        if round % 20 == 10 {
            let deleted = deletes.client().tag_delete("orders").map(|tag| tag.max_id);
            match deleted {
                Ok(max_id) => {
                    assert!(max_id >= end, "{max_id} and {end}");
                    end = max_id;
                }
                // The busy host has not needed a lease since the last deletion.
                Err(Error::Refused(error)) if error.code() == ErrorCode::UnknownTag => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(end > 0);
}
