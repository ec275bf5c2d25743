//! leafd follows the tags in the store as they are created, changed and deleted.

use std::time::{Duration, Instant};

use leaf_client::wire::ErrorCode;
use leaf_client::{Error, blocking};
use leafd_tests::UniqueIds;
use leafd_tests::daemon::Home;

fn refused(outcome: Result<u64, Error>) -> Option<ErrorCode> {
    match outcome {
        Ok(_) => None,
        Err(Error::Refused(error)) => Some(error.code()),
        Err(error) => panic!("{error}"),
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "gave up waiting: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_new_user_gets_1_then_2_then_3_to_7() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    assert_eq!(client.next("orders").unwrap(), 1);
    assert_eq!(client.next("orders").unwrap(), 2);
    let ids: Vec<u64> = client.next_many("orders", 5).unwrap().into_iter().collect();
    assert_eq!(ids, [3, 4, 5, 6, 7]);
}

#[test]
fn without_auto_create_an_unknown_tag_is_refused_until_it_appears() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SEGMENT_AUTO_CREATE", "false")
        .with("SEGMENT_UNKNOWN_FOR", "100ms");
    let daemon = home.start();
    let mut client = daemon.client();
    assert_eq!(refused(client.next("orders")), Some(ErrorCode::UnknownTag));
    // Created by the daemon, the tag is found at once.
    client.tag_create("orders", 50, 1000, "made here").unwrap();
    assert_eq!(client.next("orders").unwrap(), 1000);
    // Created by hand, it is found once `segment.unknown-for` has passed.
    assert_eq!(refused(client.next("users")), Some(ErrorCode::UnknownTag));
    home.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('users', 1, 10)");
    wait_until("users is found", || client.next("users").is_ok());
}

#[test]
fn tags_of_a_cleared_table_end_at_the_next_refresh_and_a_refilled_table_repeats_no_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SEGMENT_AUTO_CREATE", "false")
        .with("SEGMENT_UNKNOWN_FOR", "0s")
        .with("SEGMENT_REFRESH", "200ms");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let mut client = daemon.client();
    client.tag_create("orders", 1000, 1, "").unwrap();
    seen.add("orders", &client.next_many("orders", 10).unwrap());
    home.sql("DELETE FROM leaf_alloc");
    wait_until("orders ends", || match client.next_many("orders", 1) {
        Ok(ids) => {
            seen.add("orders", &ids);
            false
        }
        Err(Error::Refused(error)) => {
            assert_eq!(error.code(), ErrorCode::UnknownTag);
            true
        }
        Err(error) => panic!("{error}"),
    });
    home.log().wait_for("gone from the store");
    home.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 1000)");
    wait_until("orders is back", || {
        client.next_many("orders", 1).is_ok_and(|ids| {
            seen.add("orders", &ids);
            true
        })
    });
    seen.add("orders", &client.next_many("orders", 5000).unwrap());
}

#[test]
fn a_changed_step_applies_from_the_next_lease_on() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    client.tag_create("orders", 10, 1, "").unwrap();
    client.next("orders").unwrap();
    let status = client.tag_set_step("orders", 5000).unwrap();
    assert_eq!(status.row_step, 5000);
    client.next_many("orders", 100).unwrap();
    assert_eq!(client.tag_show("orders").unwrap().last_lease_size, 5000);
}

#[test]
fn a_burst_against_a_step_of_10_is_served_with_few_leases() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    client.tag_create("burst", 10, 1, "").unwrap();
    let seen = UniqueIds::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = blocking::Client::new(daemon.home().options());
                for _ in 0..2000 {
                    seen.add("burst", &client.next_many("burst", 10).unwrap());
                }
            });
        }
    });
    let status = client.tag_show("burst").unwrap();
    println!("burst: {} IDs in {} leases", seen.count("burst"), status.leases);
    assert_eq!(seen.count("burst"), 160_000);
    // Doubling from 10 reaches 160,000 in 14 leases; waiting requests need some more.
    assert!(status.leases < 40, "{} leases", status.leases);
}

#[test]
fn the_list_of_many_tags_comes_in_pages_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    let mut expected: Vec<String> = (0..250).map(|n| format!("tag {n}")).collect();
    for tag in &expected {
        client.next(tag).unwrap();
    }
    expected.sort_unstable();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let after = listed.last().cloned().unwrap_or_default();
        let page = client.tag_list(&after, 100).unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|status| status.tag));
    }
    assert_eq!(listed, expected);
}

#[test]
fn the_status_stops_estimating_how_long_an_unused_tag_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).with("SEGMENT_REFRESH", "200ms").start();
    let mut client = daemon.client();
    client.next_many("orders", 1000).unwrap();
    // These need no lease and no write, so that no other part of leafd notices them.
    for _ in 0..3 {
        client.next("orders").unwrap();
    }
    wait_until("orders counts as unused", || {
        let status = client.tag_show("orders").unwrap();
        status.remaining > 0 && status.seconds_left.is_none()
    });
}

#[test]
fn odd_names_are_tags_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let long = "é".repeat(128);
    let names = ["a", "A", "a ", " a", "á", "a.b/c'd\"e", "🦀", "a%20b", "-", long.as_str()];
    for name in names {
        assert_eq!(daemon.client().next(name).unwrap(), 1, "{name:?}");
    }
    daemon.stop();
    let daemon = home.start();
    for name in names {
        assert_eq!(daemon.client().next(name).unwrap(), 2, "{name:?} after a restart");
    }
}

#[test]
fn a_tag_that_cannot_be_created_affects_no_later_tag() {
    const FAR: u64 = 9_000_000_000_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    let mut seen = vec![client.next("orders").unwrap()];
    let outcome = client.tag_create("orders", 0, FAR, "");
    assert_eq!(refused(outcome.map(|status| status.max_id)), Some(ErrorCode::TagExists));
    // A trigger makes the table refuse this tag.
    home.sql(
        "CREATE TRIGGER no_users BEFORE INSERT ON leaf_alloc WHEN NEW.biz_tag = 'users' \
         BEGIN SELECT RAISE(ABORT, 'as a test'); END",
    );
    assert!(client.tag_create("users", 0, FAR, "").is_err());
    home.sql("DROP TRIGGER no_users");
    daemon.kill();
    let journal = std::fs::read_to_string(home.state().join("segments.journal")).unwrap();
    assert!(!journal.contains(&FAR.to_string()) && !journal.contains("users"), "{journal}");
    let daemon = home.start();
    let mut client = daemon.client();
    seen.extend(client.next_many("orders", 50_000).unwrap());
    assert!(seen.iter().all(|id| *id < 1_000_000), "{:?}", seen.iter().max());
    assert_eq!(client.next("users").unwrap(), 1);
}
