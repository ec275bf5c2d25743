//! A call ends at its timeout, whatever the daemon does, and says what it waited for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use std::io;
use std::time::Duration;

use common::{SOON, hasty, patient, with_both};
use leaf_client::Error;
use leaf_client::testing::Fault;

#[test]
fn an_absent_daemon_is_reported_with_the_path_of_its_socket() {
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
fn a_daemon_that_never_answers_is_given_up_at_the_timeout() {
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
        assert!(daemon.connections() > 1, "a connection without a sign of life is given up");
    });
}

#[test]
fn a_daemon_that_never_says_hello_is_not_reachable() {
    with_both(|daemon, make| {
        daemon.fault_on_hello(Some(Fault::Silence));
        let error = make(hasty(&daemon)).next("order").unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    });
}

#[test]
fn connections_that_always_break_are_reported_as_such() {
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
fn no_time_at_all_is_at_most_a_timeout() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon).timeout(Duration::ZERO));
        for _ in 0..3 {
            // Timers are no finer than a millisecond, in which a call may well succeed.
            if let Err(error) = client.next("order") {
                assert!(error.is_temporary(), "{error:?}");
            }
        }
    });
}

#[test]
fn a_late_answer_is_never_taken_for_that_of_a_later_call() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        client.time().unwrap();
        client.set_timeout(SOON);
        daemon.fault_after(0, Fault::Late(SOON + SOON / 4));
        assert!(matches!(client.next("order"), Err(Error::DeadlineExceeded { .. })));
        client.set_timeout(Duration::from_secs(30));
        // The first ID is lost with its answer, which comes at some time during these.
        let ids: Vec<u64> = (0..2000).map(|_| client.next("order").unwrap()).collect();
        assert!(ids.into_iter().eq(2..2002));
    });
}
