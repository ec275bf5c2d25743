//! Outages of the embedded store. Leased IDs are served, even after a restart; requests that need a
//! lease get a clear error at their deadline; and leafd recovers by itself when the store is back.

use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::wire::{Call, Reply};
use leaf_client::wire::{ErrorCode, WireError};
use leafd_tests::caller::ask_until_answered;
use leafd_tests::daemon::Home;
use leafd_tests::raw::Raw;
use leafd_tests::watch::main_thread_sleeps;
use leafd_tests::{Daemon, StoreLock, UniqueIds};

/// Hides the database while leafd is down.
fn hide(home: &Home) {
    for suffix in ["", "-wal", "-shm"] {
        let path = home.state().join(format!("leafd.db{suffix}"));
        if path.exists() {
            std::fs::rename(&path, home.state().join(format!("hidden{suffix}"))).unwrap();
        }
    }
}

fn bring_back(home: &Home) {
    for suffix in ["", "-wal", "-shm"] {
        let path = home.state().join(format!("hidden{suffix}"));
        if path.exists() {
            std::fs::rename(&path, home.state().join(format!("leafd.db{suffix}"))).unwrap();
        }
    }
}

fn next(daemon: &Daemon, seen: &UniqueIds, count: u32) -> Result<(), WireError> {
    let limit = Duration::from_secs(2);
    let ids = ask_until_answered(daemon.home(), limit, |client| client.next_many("orders", count))?;
    seen.add("orders", &ids);
    Ok(())
}

fn wait_served(daemon: &Daemon, seen: &UniqueIds) {
    let began = Instant::now();
    while let Err(error) = next(daemon, seen, 1) {
        assert!(began.elapsed() < Duration::from_secs(30), "{error}\n{}", daemon.home().log());
    }
}

#[test]
fn a_restart_without_the_store_serves_the_rest_of_the_leased_ranges_after_a_stop_or_a_crash() {
    for crash in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let seen = UniqueIds::default();
        let daemon = home.start();
        next(&daemon, &seen, 10).unwrap();
        if crash {
            daemon.kill()
        } else {
            daemon.stop()
        };
        hide(&home);
        let daemon = home.start();
        let mut served = 0;
        let error = loop {
            match next(&daemon, &seen, 10) {
                Ok(()) => served += 10,
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
        assert!(error.retry_after_ms > 0 && error.message.contains("leafd.db"), "{error:?}");
        // The first lease was 1..=1000. A clean stop loses none of it, and a crash at most a window.
        let lost = 1000 - 10 - served;
        assert!(if crash { lost <= 100 } else { lost == 0 }, "{lost} lost, crash: {crash}");
        home.log().wait_for("the store fails");
        let status = daemon.client().status().unwrap().segments;
        assert!(status.store_error.contains("missing"), "{}", status.store_error);
        // The store comes back while leafd runs.
        bring_back(&home);
        wait_served(&daemon, &seen);
        home.log().wait_for("the store works again");
        daemon.stop();
        println!("crash: {crash}; {served} IDs served without the store, {lost} lost");
    }
}

#[test]
fn a_first_start_with_a_store_that_cannot_be_opened_serves_snowflakes_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    home.break_store();
    let daemon = home.start();
    let error = next(&daemon, &seen, 1).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
    daemon.client().snowflake().unwrap();
    home.repair_store();
    wait_served(&daemon, &seen);
}

#[test]
fn a_store_locked_by_another_process_delays_leases_but_no_request_that_memory_can_serve() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("STORE_TIMEOUT", "300ms");
    let seen = UniqueIds::default();
    let daemon = home.start();
    next(&daemon, &seen, 1).unwrap();
    let lock = StoreLock::hold(&home);
    let mut served = 0;
    let error = loop {
        match next(&daemon, &seen, 1) {
            Ok(()) => served += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(served, 999, "all that memory had");
    assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
    drop(lock);
    wait_served(&daemon, &seen);
    assert_eq!(seen.highest("orders"), Some(1001), "nothing was lost in between");
}

#[test]
fn a_row_set_back_by_hand_is_moved_forward_and_reported_and_gives_no_id_twice() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    let daemon = home.start();
    for _ in 0..15 {
        next(&daemon, &seen, 100).unwrap();
    }
    for statement in [
        "UPDATE leaf_alloc SET max_id = 1",
        "DELETE FROM leaf_alloc",
        "UPDATE leaf_alloc SET max_id = max_id / 2, step = 7",
    ] {
        home.sql(statement);
        for _ in 0..100 {
            next(&daemon, &seen, 100).unwrap();
        }
    }
    home.log().wait_for("went backwards");
    daemon.stop();
}

#[test]
fn an_older_copy_of_the_database_gives_no_id_twice() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    let daemon = home.start();
    next(&daemon, &seen, 1).unwrap();
    daemon.stop();
    let backup = std::fs::read(home.database()).unwrap();
    let daemon = home.start();
    next(&daemon, &seen, 50_000).unwrap();
    daemon.stop();
    std::fs::write(home.database(), backup).unwrap();
    let daemon = home.start();
    for _ in 0..10 {
        next(&daemon, &seen, 50_000).unwrap();
    }
    daemon.stop();
}

#[test]
fn an_unusable_row_gives_an_error_with_its_value_and_works_again_once_it_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    let daemon = home.start();
    next(&daemon, &seen, 1).unwrap();
    home.sql("UPDATE leaf_alloc SET step = -5");
    let error = loop {
        if let Err(error) = next(&daemon, &seen, 500) {
            break error;
        }
    };
    assert_eq!(error.code(), ErrorCode::BadRow, "{error}");
    assert!(error.message.contains("-5"), "{error}");
    home.sql("UPDATE leaf_alloc SET step = 1000");
    wait_served(&daemon, &seen);
}

/// Sends requests one after the other, and returns how often the main thread woke up meanwhile.
fn wake_ups(daemon: &Daemon, requests: u64, tag: &str, answered: impl Fn(&Reply) -> bool) -> u64 {
    let mut raw = Raw::greeted(&daemon.home().socket());
    let before = main_thread_sleeps(daemon);
    for id in 2..2 + requests {
        let reply = raw.ask(id, Call::Segment { tag, count: 1, timeout_ms: 30_000 });
        assert!(answered(&reply), "{reply:?}\n{}", daemon.home().log());
    }
    main_thread_sleeps(daemon) - before
}

#[test]
fn requests_that_memory_serves_or_refuses_do_not_wake_the_main_thread_in_an_outage_or_not() {
    const REQUESTS: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_AUTO_CREATE", "false");
    let home = home.with("SEGMENT_UNKNOWN_FOR", "1h");
    let daemon = home.start();
    daemon.client().tag_create("orders", 1_000_000, 1, "").unwrap();
    let seen = UniqueIds::default();
    next(&daemon, &seen, 1).unwrap();
    // A name that the store does not know is refused from memory.
    let unknown = |reply: &Reply| matches!(reply, Reply::Error(error) if error.code() == ErrorCode::UnknownTag);
    let client = daemon.client().next("none");
    assert!(matches!(client, Err(Error::Refused(_))), "{client:?}");
    let refused = wake_ups(&daemon, REQUESTS, "none", unknown);
    daemon.stop();
    hide(&home);
    let daemon = home.start();
    // More than a tenth of the range is used, and the next one cannot be leased.
    next(&daemon, &seen, 100_000).unwrap();
    next(&daemon, &seen, 100_000).unwrap();
    home.log().wait_for("the store fails");
    let served = wake_ups(&daemon, REQUESTS, "orders", |reply| matches!(reply, Reply::Ids { .. }));
    println!("{REQUESTS} requests: {refused} wake-ups when refused, {served} when served");
    // The number of other wake-ups, for probes and writes of the ceiling, does not depend on the
    // requests.
    assert!(refused < REQUESTS / 10, "{refused} wake-ups");
    assert!(served < REQUESTS / 10, "{served} wake-ups");
    daemon.stop();
}
