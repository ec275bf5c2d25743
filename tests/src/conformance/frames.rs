//! The bytes that a fake daemon sends, right or wrong.

use leaf_client::wire::{Reply, Response, Run, UNSOLICITED, WireError, encode_response};

/// The frame of any reply.
#[must_use]
pub fn reply(id: u64, reply: Reply) -> Vec<u8> {
    let mut out = Vec::new();
    encode_response(&Response { id, reply }, &mut out);
    out
}

/// An answer with IDs, as runs (first, count).
#[must_use]
pub fn ids(id: u64, runs: &[(u64, u32)]) -> Vec<u8> {
    let mut runs = runs.iter().map(|&(first, count)| Run { first, count });
    let first = runs.next().unwrap_or(Run { first: 0, count: 0 });
    reply(id, Reply::Ids { first, more: runs.collect() })
}

/// An error.
#[must_use]
pub fn error(id: u64, code: u16) -> Vec<u8> {
    error_with(id, code, 0, 0)
}

/// An error with all that belongs to it.
#[must_use]
pub fn error_with(id: u64, code: u16, retry_after_ms: u32, detail: u64) -> Vec<u8> {
    let message = format!("error {code}, as the scenario wants it");
    reply(id, Reply::Error(WireError { code, retry_after_ms, detail, message }))
}

/// The announcement that the daemon stops.
#[must_use]
pub fn goodbye() -> Vec<u8> {
    reply(UNSOLICITED, Reply::Goodbye)
}

/// The answer to a hello.
#[must_use]
pub fn hello(id: u64, version: u16, max_count: u32, max_in_flight: u32) -> Vec<u8> {
    reply(id, Reply::Hello { version, max_count, max_in_flight })
}

/// A header that announces the body, and the body.
#[must_use]
pub fn frame(body: &[u8]) -> Vec<u8> {
    crate::raw::frame_of(body)
}
