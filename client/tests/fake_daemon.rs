//! Promises of the fake daemon that the other tests do not cover.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use common::patient;
use leaf_client::blocking::Client;
use leaf_client::testing::FakeDaemon;
use leaf_client::wire::{
    Call, ErrorCode, MAX_RESPONSE_LEN, Reply, Request, UNSOLICITED, decode_response,
    encode_request, split_frame,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn two_fake_daemons_are_independent() {
    let (one, other) = (FakeDaemon::start().unwrap(), FakeDaemon::start().unwrap());
    let (mut first, mut second) = (Client::new(patient(&one)), Client::new(patient(&other)));
    first.next_many("order", 10).unwrap();
    assert_eq!(second.next("order").unwrap(), 1);
}

#[test]
fn a_dropped_daemon_leaves_nothing_on_disk() {
    let mut daemon = FakeDaemon::start().unwrap();
    let path = daemon.path().to_owned();
    assert!(path.exists());
    daemon.stop();
    assert!(!path.exists() && path.parent().unwrap().exists());
    daemon.restart().unwrap();
    assert!(path.exists());
    drop(daemon);
    assert!(!path.parent().unwrap().exists());
}

/// The ID and the code of the error with which the daemon answers these bytes and closes.
fn answer_to(daemon: &FakeDaemon, bytes: &[u8]) -> Option<(u64, ErrorCode)> {
    let mut stream = UnixStream::connect(daemon.path()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (body, rest) = split_frame(&received, MAX_RESPONSE_LEN).unwrap()?;
    assert!(rest.is_empty());
    let response = decode_response(body).unwrap();
    match response.reply {
        Reply::Error(error) => Some((response.id, error.code())),
        other => panic!("{other:?}"),
    }
}

fn request(call: Call<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&Request { id: 7, call }, &mut bytes);
    bytes
}

#[test]
fn a_client_that_breaks_the_protocol_gets_the_same_errors_as_from_a_real_daemon() {
    let daemon = FakeDaemon::start().unwrap();
    let told = |bytes: &[u8]| answer_to(&daemon, bytes).unwrap();
    assert_eq!(told(&request(Call::Time)), (7, ErrorCode::HelloExpected));
    let hello = |magic: &[u8; 4], version| request(Call::Hello { magic: *magic, version });
    assert_eq!(told(&hello(b"LEAG", 1)), (7, ErrorCode::BadMagic));
    assert_eq!(told(&hello(b"LEAF", 0)), (7, ErrorCode::VersionUnsupported));
    assert_eq!(told(&[0xFF; 4]), (UNSOLICITED, ErrorCode::FrameTooLarge));
}
