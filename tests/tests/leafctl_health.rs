//! `leafctl health` as a probe: what makes a daemon alive, what makes it ready, and what must not count
//! against it.

use std::time::{Duration, Instant};

use leaf_client::wire::{Reply, Response};
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::raw::{Raw, hello};
use leafd_tests::{Caller, Database, UniqueIds};

fn health(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    home.run("leafctl", &[&["health"], arguments].concat())
}

/// Asserts that the daemon is alive, and ready unless there is a reason, which the output must contain.
fn is_ready(home: &Home, reason: Option<&str>) {
    let (code, out, errors) = health(home, &["--ready"]);
    match reason {
        None => {
            assert_eq!((code, out.as_str(), errors.as_str()), (Some(0), "leafd is ready\n", ""))
        }
        Some(reason) => {
            assert_eq!((code, out.as_str()), (Some(69), ""), "{errors}");
            assert!(errors.contains("not ready") && errors.contains(reason), "{errors}");
        }
    }
    let (code, out, errors) = health(home, &[]);
    assert_eq!((code, out.as_str(), errors.as_str()), (Some(0), "leafd answers\n", ""));
}

#[test]
fn a_daemon_that_answers_is_healthy_and_one_that_hangs_or_is_gone_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let gone = |arguments| {
        let (code, out, errors) = health(&home, arguments);
        assert_eq!((code, out.as_str()), (Some(69), ""), "{errors}");
        assert!(errors.contains(home.socket().to_str().unwrap()), "{errors}");
    };
    gone(&[]);
    gone(&["--ready"]);
    let daemon = home.start();
    is_ready(&home, None);
    daemon.freeze();
    for arguments in [&["--timeout", "200ms"][..], &["--timeout", "200ms", "--ready"]] {
        let (code, out, errors) = health(&home, arguments);
        assert_eq!((code, out.as_str()), (Some(69), ""), "{errors}");
    }
    daemon.thaw();
    is_ready(&home, None);
    daemon.stop();
    gone(&[]);
}

#[test]
fn a_daemon_with_snowflakes_disabled_is_ready_and_one_that_cannot_issue_them_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    home.start().stop();
    std::fs::remove_file(home.state().join("worker.properties")).unwrap();
    let daemon = home.start();
    is_ready(&home, Some("worker.properties is missing"));
    daemon.stop();
    let home = home.with("SNOWFLAKE_ENABLED", "false");
    let _daemon = home.start();
    is_ready(&home, None);
}

#[test]
fn a_daemon_that_has_no_worker_id_yet_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on port 1.
    let home = Home::new(folder.path()).with_zookeeper("127.0.0.1:1").with_peer("");
    let home = home.with("WORKER_IDENTITY", "a");
    let _daemon = home.start();
    is_ready(&home, Some("no snowflake IDs"));
}

#[test]
fn a_database_that_is_down_makes_a_daemon_unready_only_while_requests_wait_for_it() {
    let database = Database::start(Kind::MariaDb);
    database.create_table();
    database.insert_tag("orders", 1, 1000);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let caller = Caller::of(&daemon, "orders", &UniqueIds::default());
    caller.gets(1);
    database.kill();
    // A request for a tag that is not in memory makes leafd notice the outage.
    let mut client = daemon.client();
    client.next("new").unwrap_err();
    let down = client.status().unwrap().segments;
    assert!(!down.store_error.is_empty() && down.waiting == 0, "{down:?}");
    let (code, ready, _) = health(&home, &["--ready"]);
    assert_eq!(code, Some(0), "memory still serves requests");
    assert!(ready.starts_with("leafd is ready, from memory: the store fails: "), "{ready}");
    caller.drain(Duration::from_secs(5));
    let waiter = caller.waits();
    is_ready(&home, Some("wait for a store that fails, 1 now"));
    database.start_again();
    waiter.is_served("the request that waited", Instant::now());
    is_ready(&home, None);
}

#[test]
fn a_daemon_at_its_connection_limit_is_alive_but_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_MAX_CONNECTIONS", "2");
    let _daemon = home.start();
    let mut inside = Vec::new();
    while inside.len() < 2 {
        // The connection that checked whether the daemon is ready may still be open.
        let mut raw = Raw::connect(&home.socket());
        raw.send(&hello());
        if let Some(Response { reply: Reply::Hello { .. }, .. }) = raw.receive() {
            inside.push(raw);
        }
    }
    let (code, out, errors) = health(&home, &["--timeout", "200ms"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.contains("no room for more connections"), "{out}");
    let (code, _, errors) = health(&home, &["--ready", "--timeout", "200ms"]);
    assert_eq!(code, Some(69));
    assert!(errors.contains("socket.max-connections"), "{errors}");
}
