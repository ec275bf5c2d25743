//! Requests for unknown tags take no other tag's place in memory, however they end. A removed tag frees
//! its place, and its IDs never come again.

use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply};
use leafd_tests::UniqueIds;
use leafd_tests::caller::{Caller, wait_until};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::raw::{Raw, frame};

/// Number of unknown tags that a test asks for.
const NAMES: u64 = 5000;

/// Number of tags that leafd may have in memory.
const PLACES: &str = "1000";

fn home(folder: &std::path::Path) -> Home {
    Home::new(folder).with("SEGMENT_MAX_TAGS", PLACES).with("SEGMENT_AUTO_CREATE", "false")
}

/// Asks for an ID of each name, and returns the errors.
fn ask_for_names(home: &Home, timeout_ms: u32) -> Vec<ErrorCode> {
    let mut raw = Raw::greeted(&home.socket());
    let mut refused = Vec::new();
    // In batches, since leafd stops reading from a client that does not read its answers.
    for part in 0..NAMES / 500 {
        let names = (0..500).map(|nth| (part * 500 + nth + 2, format!("name {part} {nth}")));
        let frames: Vec<u8> = names
            .flat_map(|(id, tag)| frame(id, Call::Segment { tag: &tag, count: 1, timeout_ms }))
            .collect();
        raw.send(&frames);
        for _ in 0..500 {
            match raw.receive().expect("an answer").reply {
                Reply::Error(error) => refused.push(error.code()),
                other => panic!("{other:?}"),
            }
        }
    }
    refused
}

/// Asserts that a tag which is new to the daemon is served.
fn a_new_tag_is_served(daemon: &Daemon, tag: &str) {
    daemon.client().tag_create(tag, 10, 1, "").unwrap();
    Caller::of(daemon, tag, &UniqueIds::default()).gets(1);
}

#[test]
fn names_that_are_refused_because_too_many_requests_wait_take_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("SOCKET_MAX_IN_FLIGHT", "2");
    let daemon = home.start();
    let refused = ask_for_names(&home, 1000);
    assert!(refused.contains(&ErrorCode::TooManyInFlight), "{refused:?}");
    assert!(!refused.contains(&ErrorCode::TooManyTags));
    assert_eq!(daemon.client().status().unwrap().segments.tags, 0);
    a_new_tag_is_served(&daemon, "orders");
    daemon.stop();
}

#[test]
fn names_that_a_quota_refuses_take_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let quota = "[{ tags = ['name *'], ids-per-second = 1 }]";
    let home = home(folder.path()).with("QUOTA_TAGS", quota);
    let daemon = home.start();
    // Each request asks for more than the quota ever allows, so it is refused.
    let mut raw = Raw::greeted(&home.socket());
    for id in 2..2 + NAMES {
        let tag = format!("name {id}");
        let reply = raw.ask(id, Call::Segment { tag: &tag, count: 2, timeout_ms: 0 });
        assert!(matches!(&reply, Reply::Error(error) if error.code() == ErrorCode::BadCount));
    }
    a_new_tag_is_served(&daemon, "orders");
    daemon.stop();
}

#[test]
fn names_asked_for_in_an_outage_take_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    home.break_store();
    let daemon = home.start();
    let refused = ask_for_names(&home, 1);
    assert!(refused.contains(&ErrorCode::StoreUnavailable), "{refused:?}");
    assert!(!refused.contains(&ErrorCode::TooManyTags));
    home.repair_store();
    let mut client = daemon.client();
    wait_until(&home, "a tag is created", || client.tag_create("users", 10, 1, "").is_ok());
    Caller::of(&daemon, "users", &UniqueIds::default()).gets(1);
    a_new_tag_is_served(&daemon, "orders");
    daemon.stop();
}

#[test]
fn removed_tags_free_their_places_and_go_on_above_their_ids_when_they_are_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("SEGMENT_MAX_TAGS", "3").with("SEGMENT_REFRESH", "100ms");
    let seen = UniqueIds::default();
    let none_is_left = |daemon: &Daemon| {
        let mut client = daemon.client();
        wait_until(&home, "no tag is left in memory", || {
            client.status().unwrap().segments.tags == 0
        });
    };
    // The row of the last removed tag may have been read before its place was freed, so TooManyTags
    // is retried.
    let serves = |daemon: &Daemon, tag: &str| {
        let caller = Caller::of(daemon, tag, &seen);
        wait_until(&home, "there is room", || match caller.ask(1, Duration::from_secs(30)) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::TooManyTags, "{error}");
                false
            }
        });
    };
    let daemon = home.start();
    for tag in ["a", "b", "c"] {
        daemon.client().tag_create(tag, 10, 1, "").unwrap();
        serves(&daemon, tag);
    }
    home.sql("DELETE FROM leaf_alloc");
    none_is_left(&daemon);
    daemon.client().tag_create("first", 10, 1, "").unwrap();
    serves(&daemon, "first");
    // Removed tags are remembered after a kill too, and take no place.
    daemon.kill();
    let daemon = home.start();
    for tag in ["a", "b"] {
        daemon.client().tag_create(tag, 10, 1, "").unwrap();
        // This also checks that the ID did not come before.
        serves(&daemon, tag);
        assert!(seen.highest(tag).is_some_and(|id| id > 10), "{tag}");
    }
    daemon.stop();
}
