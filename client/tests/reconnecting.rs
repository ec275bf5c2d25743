//! A restart of the daemon fails no call. A permanent refusal is reported at once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{hasty, patient, runtime, with_both};
use leaf_client::testing::{FakeDaemon, Fault};
use leaf_client::{Client, Error, ErrorCode, WireError};

#[test]
fn a_call_whose_connection_breaks_is_repeated() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        daemon.fault_after(0, Fault::Close);
        daemon.fault_after(1, Fault::Close);
        daemon.fault_after(3, Fault::Close);
        let ids: Vec<_> = (0..5).map(|_| client.next("order").unwrap()).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        assert_eq!(daemon.connections(), 4);
    });
}

#[test]
fn a_restart_between_two_calls_goes_unnoticed() {
    with_both(|mut daemon, make| {
        let mut client = make(patient(&daemon));
        assert_eq!(client.next("order").unwrap(), 1);
        for id in 2..5 {
            daemon.restart().unwrap();
            assert_eq!(client.next("order").unwrap(), id);
        }
    });
}

#[test]
fn a_call_waits_for_a_daemon_that_starts_later() {
    with_both(|mut daemon, make| {
        daemon.stop();
        let mut client = make(patient(&daemon));
        let call = std::thread::spawn(move || client.next("order"));
        std::thread::sleep(Duration::from_millis(20));
        daemon.restart().unwrap();
        assert_eq!(call.join().unwrap().unwrap(), 1);
    });
}

#[test]
fn a_goodbye_fails_no_call() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        assert_eq!(client.next("order").unwrap(), 1);
        daemon.say_goodbye();
        assert_eq!(client.next("order").unwrap(), 2, "Goodbye without a call in flight");
        daemon.fault_after(0, Fault::GoodbyeThenAnswer);
        assert_eq!(client.next("order").unwrap(), 3, "Goodbye before the answer");
        assert_eq!(client.next("order").unwrap(), 4, "the connection has ended");
        daemon.fault_after(0, Fault::GoodbyeThenClose);
        assert_eq!(client.next("order").unwrap(), 5, "Goodbye instead of the answer");
        assert_eq!(daemon.connections(), 4);
    });
}

#[test]
fn a_call_that_a_stopping_daemon_turns_away_is_repeated() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        let stopping = WireError::new(ErrorCode::ShuttingDown, "stopping");
        daemon.fault_after(0, Fault::Refuse(stopping.clone()));
        daemon.fault_after(1, Fault::CloseWith(stopping));
        assert_eq!(client.next("order").unwrap(), 1);
        assert_eq!(daemon.connections(), 3);
    });
}

#[test]
fn a_full_daemon_is_retried_until_it_has_room() {
    with_both(|daemon, make| {
        let full = WireError::new(ErrorCode::TooManyConnections, "full");
        for fault in [Fault::Refuse(full.clone()), Fault::CloseWith(full)] {
            daemon.fault_on_hello(Some(fault));
            let error = make(hasty(&daemon)).next("order").unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::TooManyConnections), "{error}");

            let mut client = make(patient(&daemon));
            let before = daemon.connections();
            let call = std::thread::spawn(move || client.next("order"));
            assert!(daemon.wait_until(|daemon| daemon.connections() > before + 1));
            daemon.fault_on_hello(None);
            call.join().unwrap().unwrap();
        }
    });
}

#[test]
fn a_permanent_refusal_is_reported_without_a_retry() {
    with_both(|daemon, make| {
        for code in [ErrorCode::VersionUnsupported, ErrorCode::BadMagic, ErrorCode::Forbidden] {
            daemon.fault_on_hello(Some(Fault::Refuse(WireError::new(code, "no"))));
            let before = daemon.connections();
            let mut client = make(patient(&daemon));
            assert_eq!(client.next("order").unwrap_err().code(), Some(code));
            assert_eq!(daemon.connections(), before + 1);
            daemon.fault_on_hello(None);
            client.next("order").unwrap();
        }
    });
}

#[test]
fn a_peer_that_is_not_a_leafd_is_reported_without_a_retry() {
    with_both(|daemon, make| {
        daemon.fault_on_hello(Some(Fault::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())));
        let mut client = make(patient(&daemon));
        assert!(matches!(client.next("order"), Err(Error::Protocol(_))));
        assert_eq!(daemon.connections(), 1);
    });
}

#[test]
fn restarts_under_load_fail_no_call_and_repeat_no_id() {
    let mut daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let mut ids = Vec::new();
                    for _ in 0..300 {
                        ids.push(client.next("order").await.unwrap());
                    }
                    ids
                })
            })
        })
        .collect();
    for restart in 1..=5 {
        // Restart only after some more calls, so that others are in flight.
        assert!(daemon.wait_until(|daemon| daemon.requests() >= restart * 100));
        daemon.restart().unwrap();
    }
    let ids: Vec<u64> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1200);
}
