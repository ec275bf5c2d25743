//! The golden vectors: every message as bytes, in both directions, and the numbers of the errors.
//! They come from `protocol/vectors.json`, which was written by hand from `docs/protocol.md`. When
//! a test here fails, the code is wrong: released clients speak those bytes.

mod fields;

use super::*;
use bincode::error::DecodeError;
use fields::Fields;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A link to the file in the folder `protocol`. Cargo packages the file in its place, so a packaged
/// crate tests itself against the same vectors.
const VECTORS: &str = include_str!("golden/vectors.json");

/// The frames of one direction's vectors, each with what `read` makes of its ID, message and
/// fields.
fn vectors<T>(direction: &str, read: impl Fn(u64, &str, Fields) -> T) -> Vec<(Vec<u8>, T)> {
    let all: Value = serde_json::from_str(VECTORS).expect(
        "golden/vectors.json is a link to protocol/vectors.json: check out with symbolic links",
    );
    assert_eq!(all["protocol_version"], VERSION);
    let (mut names, mut found) = (BTreeSet::new(), Vec::new());
    for vector in all["vectors"].as_array().unwrap() {
        let text = |key: &str| vector[key].as_str().unwrap_or_else(|| panic!("{key}: {vector}"));
        assert!(names.insert(text("name")), "two vectors are called {}", text("name"));
        assert!(["request", "response"].contains(&text("direction")), "{vector}");
        if text("direction") == direction {
            let lines = vector["hex"].as_array().unwrap().iter();
            let frame = lines.flat_map(|line| bytes(line.as_str().unwrap())).collect();
            let id = text("id").parse().unwrap();
            found.push((frame, read(id, text("message"), Fields::new(&vector["fields"]))));
        }
    }
    found
}

/// Every request, with its frame.
pub(super) fn requests() -> Vec<(Vec<u8>, Request<'static>)> {
    vectors("request", |id, message, fields| Request { id, call: fields::call(message, fields) })
}

/// Every response, with its frame.
pub(super) fn responses() -> Vec<(Vec<u8>, Response)> {
    vectors("response", |id, message, fields| Response {
        id,
        reply: fields::reply(message, fields),
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_request_has_the_bytes_of_its_vector() {
    for (golden, request) in requests() {
        let mut out = vec![0xAA];
        encode_request(&request, &mut out);
        assert_eq!(out[1..], golden, "{request:?}");
        let (body, rest) = split_frame(&golden, MAX_REQUEST_LEN).unwrap().unwrap();
        assert_eq!(decode_request(body).unwrap(), request);
        assert!(rest.is_empty());
        let tag = match request.call {
            Call::Segment { tag, .. } => Some(tag.as_bytes()),
            _ => None,
        };
        assert_eq!(peek_tag(body), tag);
        // Whatever is cut off, it neither panics nor reads beyond the end.
        for len in 0..body.len() {
            assert!(peek_tag(&body[..len]).is_none_or(|peeked| Some(peeked) == tag));
        }
    }
}

#[test]
fn every_response_has_the_bytes_of_its_vector() {
    for (golden, response) in responses() {
        let mut out = vec![0xAA];
        encode_response(&response, &mut out);
        assert_eq!(out[1..], golden, "{response:?}");
        let (body, rest) = split_frame(&golden, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
        assert!(rest.is_empty());
    }
}

#[test]
fn every_call_and_every_reply_has_a_vector() {
    /// The number of vectors for each variant. The variant's number follows header and ID.
    fn counts<T>(vectors: &[(Vec<u8>, T)]) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        for (frame, _) in vectors {
            *counts.entry(frame[12]).or_default() += 1;
        }
        counts
    }
    let unknown =
        |variant: u8| [&[1, 0, 0, 0, 0, 0, 0, 0, variant, 0, 0, 0], &[0; 64][..]].concat();

    let calls = counts(&requests());
    assert!(calls.keys().copied().eq(0..20), "a call lacks a vector: {calls:?}");
    let refused = decode_request(&unknown(20)).unwrap_err().error;
    assert_eq!(refused.code(), ErrorCode::UnknownCall, "the new call 20 needs a vector");

    let replies = counts(&responses());
    assert!(replies.keys().copied().eq(0..12), "a reply lacks a vector: {replies:?}");
    // Not just any error: the zeros need not decode as the fields of a new reply.
    let refused = decode_response(&unknown(12)).unwrap_err();
    assert!(refused.0.contains("found: 12"), "the new reply 12 needs a vector: {refused}");
}

#[test]
fn every_state_has_a_vector() {
    let (mut snowflake, mut worker) = (BTreeSet::new(), BTreeSet::new());
    for (_, response) in responses() {
        match response.reply {
            Reply::Status(status) => {
                snowflake.insert(match status.snowflake.state {
                    SnowflakeState::Serving => 0,
                    SnowflakeState::ClockBehind { .. } => 1,
                    SnowflakeState::Refused { .. } => 2,
                    SnowflakeState::Starting { .. } => 3,
                });
            }
            Reply::Workers(workers) => {
                worker.extend(workers.iter().map(|worker| match worker.state {
                    WorkerState::Held => 0,
                    WorkerState::Settling => 1,
                    WorkerState::Released => 2,
                    WorkerState::JavaLeaf => 3,
                }))
            }
            _ => {}
        }
    }
    assert!(snowflake.into_iter().eq(0..4), "a snowflake state lacks a vector");
    assert!(worker.into_iter().eq(0..4), "a worker state lacks a vector");

    let unknown = [&[4, 0, 0, 0], &[0; 64][..]].concat();
    let config = bincode::config::legacy();
    let decoded = bincode::decode_from_slice::<SnowflakeState, _>(&unknown, config);
    let refused = matches!(decoded, Err(DecodeError::UnexpectedVariant { found: 4, .. }));
    assert!(refused, "the new snowflake state 4 needs a vector: {decoded:?}");
    let decoded = bincode::decode_from_slice::<WorkerState, _>(&unknown, config);
    let refused = matches!(decoded, Err(DecodeError::UnexpectedVariant { found: 4, .. }));
    assert!(refused, "the new worker state 4 needs a vector: {decoded:?}");
}

#[test]
fn the_number_of_an_error_never_changes() {
    let golden = [
        (100, "BadMagic"),
        (101, "VersionUnsupported"),
        (102, "HelloExpected"),
        (103, "Malformed"),
        (104, "UnknownCall"),
        (105, "FrameTooLarge"),
        (200, "BadCount"),
        (201, "BadTag"),
        (202, "UnknownTag"),
        (203, "TagExists"),
        (204, "BadStep"),
        (205, "BadDescription"),
        (206, "Forbidden"),
        (207, "NotConfigured"),
        (208, "TooManyTags"),
        (209, "UnknownWorker"),
        (210, "WorkerInUse"),
        (211, "WrongOwner"),
        (212, "BadPublicId"),
        (300, "TooManyConnections"),
        (301, "TooManyInFlight"),
        (302, "StoreUnavailable"),
        (303, "StateUnavailable"),
        (304, "ClockBackwards"),
        (305, "WorkerUnavailable"),
        (306, "TimeExhausted"),
        (307, "BadRow"),
        (308, "DeadlineExceeded"),
        (309, "ShuttingDown"),
        (310, "TooManyWaiting"),
        (311, "RegistryUnavailable"),
        (312, "QuotaExceeded"),
    ];
    for (number, name) in golden {
        assert_eq!(ErrorCode::from_number(number).name(), name, "{number}");
    }
    assert_eq!(ErrorCode::ALL.len(), golden.len(), "a new error needs a line here");
}
