//! The drivers of the conformance suite for the Rust clients: `conformance_driver async` and
//! `conformance_driver sync`. `tests/conformance/README.md` describes the lines.

mod asynchronous;
mod blocking;
mod common;
mod messages;
mod storm;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("async") => asynchronous::run(),
        Some("sync") => blocking::run(),
        other => panic!("the mode is async or sync, not {other:?}"),
    }
}
