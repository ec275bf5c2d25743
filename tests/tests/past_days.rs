//! Tags of past days leave memory and the journal (`segment.retire-after`), and repeat nothing when they come back.

use std::path::Path;

use leaf_client::wire::ErrorCode;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::database::{Database, Kind};
use leafd_tests::faketime::FakeTime;

const DAY_MS: i64 = 86_400_000;

/// A day that has long been over, and the day before it.
const PAST: &str = "invoices-20200102";
const BEFORE: &str = "invoices-20200101";

fn home(folder: &Path, clock: &FakeTime) -> Home {
    Home::new(folder)
        .with_clock(clock)
        .with_time_for_the_disk()
        .with("SEGMENT_REFRESH", "100ms")
        .with("SEGMENT_RETIRE_AFTER", "48h")
}

fn tags(daemon: &Daemon) -> u64 {
    daemon.client().status().expect("a status").segments.tags
}

fn journal(home: &Home) -> String {
    std::fs::read_to_string(home.state().join("segments.journal")).expect("the journal")
}

/// Uses tags of two past days and two others, and goes on four days later, when the former have left.
fn four_days_later(home: &Home, clock: &FakeTime) -> Daemon {
    clock.set_offset_ms(-4 * DAY_MS);
    let daemon = home.start();
    let mut client = daemon.client();
    for (tag, count) in [(PAST, 40), (BEFORE, 1500), ("orders", 1), ("invoices-99991231", 1)] {
        client.next_many(tag, count).unwrap_or_else(|error| panic!("{tag}: {error}"));
    }
    assert_eq!(tags(&daemon), 4, "a tag that somebody has used lately stays");
    daemon.stop();
    clock.set_offset_ms(0);
    let daemon = home.start();
    wait_until(home, "the past days leave memory", || tags(&daemon) == 2);
    daemon
}

#[test]
fn a_tag_of_a_past_day_leaves_memory_and_the_journal_and_goes_on_above_its_ids() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock);
    let daemon = four_days_later(&home, &clock);
    let ended = daemon.stop();
    assert!(ended.log().contains("tags of past days left memory"), "{}", ended.log());
    let text = journal(&home);
    assert!(!text.contains(PAST) && !text.contains(BEFORE) && text.contains(" orders "), "{text}");
    assert!(text.contains(" - retired\n"), "{text}");
    let daemon = home.start();
    assert_eq!(tags(&daemon), 2);
    let mut client = daemon.client();
    assert!(client.next(PAST).unwrap() > 40);
    assert!(client.next(BEFORE).unwrap() > 1500);
    assert_eq!(client.next("invoices-20200103").unwrap(), 1, "a later day begins at 1");
    assert_eq!(client.next("bills-20200101").unwrap(), 1, "and so does a day of another series");
    assert_eq!(tags(&daemon), 6);
    let ended = daemon.stop();
    assert!(ended.log().contains("a tag of a past day is used again"), "{}", ended.log());
    assert!(!ended.log().contains("went backwards"), "{}", ended.log());
}

#[test]
fn after_a_kill_the_journal_has_the_tags_or_what_is_left_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock);
    let daemon = four_days_later(&home, &clock);
    let first = daemon.client().next(PAST).unwrap();
    assert!(first > 40, "{first}");
    daemon.kill();
    home.sql("UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag LIKE 'invoices-%'");
    let daemon = home.start();
    let mut client = daemon.client();
    assert!(client.next(PAST).unwrap() > first);
    assert!(client.next(BEFORE).unwrap() > 1500);
}

#[test]
fn a_past_day_repeats_nothing_though_its_row_went_back_or_was_deleted_meanwhile() {
    let database = Database::shared(Kind::MariaDb).fresh();
    database.create_table();
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home =
        home(folder.path(), &clock).with_database(&database).with("SEGMENT_AUTO_CREATE", "true");
    let daemon = four_days_later(&home, &clock);
    daemon.stop();
    // A backup from before these days is restored: one row is back, the other one is gone.
    database.sql(&format!("UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = '{PAST}'"));
    database.sql(&format!("DELETE FROM leaf_alloc WHERE biz_tag = '{BEFORE}'"));
    // And the clock goes back to when they were in use.
    clock.set_offset_ms(-4 * DAY_MS);
    let daemon = home.start();
    let mut client = daemon.client();
    assert!(client.next(PAST).unwrap() > 40);
    assert!(client.next(BEFORE).unwrap() > 1500);
}

#[test]
fn a_tag_with_a_date_that_was_used_lately_stays_though_its_last_lease_is_long_ago() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock);
    clock.set_offset_ms(-4 * DAY_MS);
    let daemon = home.start();
    daemon.client().next(PAST).unwrap();
    daemon.client().next(BEFORE).unwrap();
    daemon.stop();
    // No refresh comes between the jump of the clock and the next request.
    let daemon = home.clone().with("SEGMENT_REFRESH", "1h").start();
    clock.set_offset_ms(0);
    assert_eq!(daemon.client().next(PAST).unwrap(), 2);
    daemon.stop();
    let daemon = home.start();
    wait_until(&home, "the other one leaves", || tags(&daemon) == 1);
    assert_eq!(daemon.client().next(PAST).unwrap(), 3);
}

#[test]
fn a_name_of_a_past_day_that_nobody_may_make_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock);
    four_days_later(&home, &clock).stop();
    let daemon = home.clone().with("SEGMENT_AUTO_CREATE", "false").start();
    for day in 1..=9 {
        let error = daemon.client().next(&format!("invoices-2019010{day}")).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UnknownTag), "{error}");
    }
    daemon.stop();
    assert!(!journal(&home).contains("2019"), "{}", journal(&home));
    assert_eq!(tags(&home.start()), 2);
}

#[test]
fn the_row_of_a_past_day_in_use_that_went_back_is_told_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock);
    let daemon = four_days_later(&home, &clock);
    let first = daemon.client().next(PAST).unwrap();
    daemon.stop();
    home.sql(&format!("UPDATE leaf_alloc SET max_id = 5 WHERE biz_tag = '{PAST}'"));
    let daemon = home.start();
    home.log().wait_for("went backwards to 5");
    assert!(daemon.client().next(PAST).unwrap() > first);
}

#[test]
fn with_zero_no_tag_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path(), &clock).with("SEGMENT_RETIRE_AFTER", "0s");
    clock.set_offset_ms(-4 * DAY_MS);
    let daemon = home.start();
    daemon.client().next(PAST).unwrap();
    daemon.stop();
    clock.set_offset_ms(0);
    let daemon = home.start();
    // A tag without a row leaves at a refresh, so by then this one would have left as well.
    daemon.client().tag_create("gone", 10, 1, "").unwrap();
    daemon.client().next("gone").unwrap();
    assert_eq!(tags(&daemon), 2);
    home.sql("DELETE FROM leaf_alloc WHERE biz_tag = 'gone'");
    wait_until(&home, "a refresh", || tags(&daemon) == 1);
    assert_eq!(daemon.client().next(PAST).unwrap(), 2);
}
