//! A call ends at its deadline whatever the daemon does, and its error says what the client waited
//! for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use std::io;
use std::time::Duration;

use common::{SOON, hasty, patient, with_both};
use leaf_client::Error;
use leaf_client::testing::Fault;

#[test]
fn an_absent_daemon_is_reported_with_its_socket() {
    with_both(|mut daemon, make| {
        daemon.stop();
        let error = make(hasty(&daemon)).next("order").unwrap_err();
        assert!(error.is_temporary());
        assert!(error.to_string().contains(daemon.path().to_str().unwrap()), "{error}");
        let Error::Unavailable { path, source } = error else { panic!("{error:?}") };
        assert_eq!((path.as_path(), source.kind()), (daemon.path(), io::ErrorKind::NotFound));
    });
}

#[test]
fn a_call_without_an_answer_ends_at_its_deadline_and_the_silent_connection_is_replaced() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        client.time().unwrap();
        client.set_timeout(SOON);
        daemon.fault_always(Some(Fault::Silence));
        let error = client.next("order").unwrap_err();
        assert!(matches!(error, Error::DeadlineExceeded { call: "Segment", .. }), "{error:?}");
        assert!(client.next("order").unwrap_err().is_temporary());

        daemon.fault_always(None);
        client.set_timeout(Duration::from_secs(30));
        client.next("order").unwrap();
        assert!(daemon.connections() > 1, "the silent connection has to be replaced");
    });
}

#[test]
fn a_daemon_that_never_answers_hello_is_unavailable() {
    with_both(|daemon, make| {
        daemon.fault_on_hello(Some(Fault::Silence));
        let error = make(hasty(&daemon)).next("order").unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    });
}

#[test]
fn connections_that_break_during_the_handshake_are_reported() {
    with_both(|daemon, make| {
        daemon.fault_on_hello(Some(Fault::Close));
        let error = make(hasty(&daemon)).next("order").unwrap_err();
        let Error::Unavailable { source, .. } = error else { panic!("{error:?}") };
        assert!(
            matches!(
                source.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            ),
            "{source}"
        );
    });
}

#[test]
fn a_timeout_of_zero_causes_no_other_error_than_a_timeout() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon).timeout(Duration::ZERO));
        for _ in 0..3 {
            // A timer may be a millisecond late, which is enough for a call to succeed.
            if let Err(error) = client.next("order") {
                assert!(error.is_temporary(), "{error:?}");
            }
        }
    });
}

#[test]
fn a_late_answer_never_reaches_a_later_call() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        client.time().unwrap();
        client.set_timeout(SOON);
        daemon.fault_after(0, Fault::Late(SOON + SOON / 4));
        assert!(matches!(client.next("order"), Err(Error::DeadlineExceeded { .. })));
        client.set_timeout(Duration::from_secs(30));
        // ID 1 is lost with the late answer, which arrives during these calls.
        let ids: Vec<u64> = (0..2000).map(|_| client.next("order").unwrap()).collect();
        assert!(ids.into_iter().eq(2..2002));
    });
}
