//! What the log, the status and leafctl say of trouble, and what the status counts.

use std::time::Duration;

use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use serde_json::Value;

fn status(home: &Home) -> Value {
    let (code, out, errors) = home.run("leafctl", &["status", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn an_outage_has_the_number_and_the_name_of_its_error_wherever_leafd_speaks_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_WAIT", "100ms");
    home.break_store();
    let daemon = home.start();
    let named = "302 StoreUnavailable: ";
    // On a busy machine, leafctl's own time limit may end before leafd's refusal arrives.
    wait_until(&home, "leafd's refusal arrives in time", || {
        let (code, _, errors) = home.run("leafctl", &["next", "orders", "--timeout", "2s"]);
        assert_eq!(code, Some(69), "{errors}");
        errors.starts_with(&format!("leafctl: leafd refused: {named}"))
    });
    wait_until(&home, "the status reports it", || {
        let status = status(&home);
        status["segments"]["store_error"].as_str().unwrap().starts_with(named)
    });
    let (_, text, _) = home.run("leafctl", &["status"]);
    assert!(text.contains(named), "{text}");
    home.log().wait_while(
        |line| line.contains("the store fails; ") && line.contains("error=302 StoreUnavailable"),
        || {},
    );
    daemon.stop();
}

#[test]
fn a_host_without_snowflake_ids_says_by_which_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", "41/10/12@4102444800000");
    let daemon = home.start();
    let named = "304 ClockBackwards: ";
    let reason = status(&home)["snowflake"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with(named), "{reason}");
    let (code, _, errors) = home.run("leafctl", &["health", "--ready"]);
    assert_eq!(code, Some(69));
    assert!(errors.contains(&format!("no snowflake IDs: {named}")), "{errors}");
    let ended = daemon.stop();
    let is_told = |line: &str| {
        line.contains("no snowflake IDs: ") && line.ends_with("error=304 ClockBackwards")
    };
    assert!(ended.log().lines().any(is_told), "{ended}");
}

#[test]
fn the_status_counts_requests_for_ids_and_not_those_who_watch() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let requests = || status(&home)["daemon"]["requests"].as_u64().unwrap();
    for _ in 0..3 {
        assert_eq!(requests(), 0);
        assert_eq!(home.run("leafctl", &["tag", "list"]).0, Some(0));
        assert_eq!(home.run("leafctl", &["health"]).0, Some(0));
    }
    assert_eq!(home.run("leafctl", &["next", "orders"]).0, Some(0));
    assert_eq!(home.run("leafctl", &["snowflake"]).0, Some(0));
    // One that leafd refuses is a request as well.
    home.sql("insert into leaf_alloc (biz_tag, max_id, step) values ('bad', 1, 0)");
    assert_eq!(home.run("leafctl", &["next", "bad"]).0, Some(69));
    assert_eq!(requests(), 3);
}

#[test]
fn the_status_counts_the_tags_that_it_lists_even_while_a_deleted_one_is_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_REFRESH", "1s").with("SEGMENT_WAIT", "100ms");
    let _daemon = home.start();
    let agrees = || {
        let status = status(&home);
        let listed = status["tags"].as_array().unwrap();
        assert_eq!(status["segments"]["tags"].as_u64().unwrap(), listed.len() as u64, "{status}");
        listed.len()
    };
    for tag in ["deleted", "orders"] {
        assert_eq!(home.run("leafctl", &["next", tag]).0, Some(0));
    }
    assert_eq!(agrees(), 2);
    assert_eq!(home.run("leafctl", &["tag", "delete", "deleted", "--yes"]).0, Some(0));
    assert_eq!(agrees(), 1);
    // After a refresh, leafd only remembers where the tag ended.
    std::thread::sleep(Duration::from_secs(3));
    std::fs::rename(home.database(), folder.path().join("away")).unwrap();
    home.break_store();
    assert_eq!(home.run("leafctl", &["next", "deleted"]).0, Some(69));
    agrees();
    home.repair_store();
}

#[test]
fn a_tag_whose_row_cannot_be_used_has_the_number_and_the_name_of_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    assert_eq!(home.run("leafctl", &["next", "orders"]).0, Some(0));
    home.sql("update leaf_alloc set step = 0");
    let (code, _, errors) = home.run("leafctl", &["next", "orders", "-n", "5000"]);
    assert_eq!(code, Some(69));
    assert!(errors.contains("leafd refused: 307 BadRow: "), "{errors}");
    let error = status(&home)["tags"][0]["lease_error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("307 BadRow: "), "{error}");
    let ended = daemon.stop();
    let is_told =
        |line: &str| line.contains("the row cannot be used: ") && line.contains("error=307 BadRow");
    assert!(ended.log().lines().any(is_told), "{ended}");
}

#[test]
fn a_deleted_tag_is_no_warning_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_REFRESH", "1s");
    let daemon = home.start();
    assert_eq!(home.run("leafctl", &["next", "orders"]).0, Some(0));
    assert_eq!(home.run("leafctl", &["tag", "delete", "orders", "--yes"]).0, Some(0));
    daemon.stop();
    let daemon = home.start();
    // The refresh at the start has compared it with the rows when a request is answered.
    assert_eq!(home.run("leafctl", &["next", "users"]).0, Some(0));
    std::thread::sleep(Duration::from_secs(2));
    let ended = daemon.stop();
    assert_eq!(ended.count("the tag is gone"), 0, "{ended}");
}

#[test]
fn lines_for_those_who_debug_name_the_module_that_log_level_takes_and_no_statement() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("LOG_LEVEL", "debug");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let ended = daemon.stop();
    let leased = |line: &&str| line.contains("leased a range");
    let line = ended.log().lines().find(leased).unwrap_or_else(|| panic!("{ended}")).to_owned();
    assert!(line.contains("DEBUG leafd::segment::lease: leased a range"), "{line}");
    assert_eq!(ended.count("sqlx"), 0, "{ended}");
    assert_eq!(ended.count("leaf_alloc"), 0, "{ended}");

    // The same line by the module that it names, and the statements by theirs.
    let folder = tempfile::tempdir().unwrap();
    let level = "warn,leafd::segment::lease=debug,sqlx::query=debug";
    let home = Home::new(folder.path()).with("LOG_LEVEL", level);
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let ended = daemon.stop();
    assert_eq!(ended.count("DEBUG leafd::segment::lease: leased a range"), 1, "{ended}");
    assert!(ended.count("DEBUG sqlx::query: ") > 0, "{ended}");
}
