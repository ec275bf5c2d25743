//! A peer that breaks the protocol fails the call in flight, and nothing in its message is used.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use common::{patient, with_both};
use leaf_client::testing::Fault;
use leaf_client::wire::{Reply, Response, Run, encode_response};
use leaf_client::{Error, ProtocolError};

fn raw(id: u64, reply: Reply) -> Fault {
    let mut bytes = Vec::new();
    encode_response(&Response { id, reply }, &mut bytes);
    Fault::Raw(bytes)
}

/// The request ID of a client's first call.
const FIRST: u64 = 2;

fn ids(first: u64, count: u32) -> Reply {
    Reply::Ids { first: Run { first, count }, more: vec![] }
}

/// Makes a first call for `count` IDs that meets `fault`, and passes its error to `check`. Then
/// makes sure that the next call succeeds and that there were `connections` in all.
fn error_of(fault: &Fault, count: u32, connections: u64, check: impl Fn(ProtocolError)) {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        daemon.fault_after(0, fault.clone());
        match client.next_many("order", count) {
            Err(Error::Protocol(error)) => check(error),
            other => panic!("{other:?}"),
        }
        client.next("order").unwrap();
        assert_eq!(daemon.connections(), connections);
    });
}

#[test]
fn an_answer_that_does_not_decode_ends_the_connection_but_not_the_client() {
    let fault = Fault::Raw([&[0, 0, 0, 40][..], &[0xFF; 40]].concat());
    error_of(&fault, 1, 2, |error| assert!(matches!(error, ProtocolError::Undecodable(_))));
}

#[test]
fn a_length_above_the_limit_ends_the_connection() {
    let fault = Fault::Raw(vec![0xFF; 8]);
    error_of(&fault, 1, 2, |error| assert!(matches!(error, ProtocolError::Frame(_)), "{error}"));
}

#[test]
fn an_answer_with_an_unknown_id_ends_the_connection() {
    let fault = raw(FIRST + 1, ids(1, 1));
    error_of(&fault, 1, 2, |error| assert_eq!(error, ProtocolError::Unasked(FIRST + 1)));
}

#[test]
fn an_unsolicited_reply_other_than_goodbye_ends_the_connection() {
    let fault = raw(0, ids(1, 1));
    error_of(&fault, 1, 2, |error| {
        assert!(matches!(error, ProtocolError::UnexpectedReply { .. }));
    });
}

#[test]
fn invalid_ids_never_reach_the_caller() {
    let top = i64::MAX as u64;
    let check = |reply, count, expected: ProtocolError| {
        error_of(&raw(FIRST, reply), count, 1, |error| assert_eq!(error, expected));
    };
    check(ids(7, 0), 1, ProtocolError::EmptyRun { first: 7 });
    check(ids(top, 2), 2, ProtocolError::RunTooHigh { first: top, count: 2 });
    check(ids(u64::MAX, 1), 1, ProtocolError::RunTooHigh { first: u64::MAX, count: 1 });
    check(ids(7, 3), 4, ProtocolError::WrongTotal { asked: 4, got: 3 });
    check(ids(7, 5), 4, ProtocolError::WrongTotal { asked: 4, got: 5 });
    let twice =
        Reply::Ids { first: Run { first: 7, count: 2 }, more: vec![Run { first: 8, count: 2 }] };
    check(twice, 4, ProtocolError::DuplicateId { id: 8 });
}

#[test]
fn a_reply_of_the_wrong_kind_fails_its_call_only() {
    let fault = raw(FIRST, Reply::Time { unix_ms: 7 });
    error_of(&fault, 1, 1, |error| {
        assert_eq!(error, ProtocolError::UnexpectedReply { expected: "Ids", got: "Time" });
    });
}
