//! What the asynchronous and the blocking client share: checking calls, interpreting answers, the
//! handshake, and the back-off between connections. Plain values in and out; no socket, no clock.

mod answer;
mod backoff;
mod checked_call;
mod event;
mod failure;
mod hello;

pub(crate) use answer::{
    forecasts, ids, loan, only_id, public_ids, public_numbers, status, tag, tags, time, worker,
    workers,
};
pub(crate) use backoff::Backoff;
pub(crate) use checked_call::CheckedCall;
pub(crate) use event::DaemonEvent;
pub(crate) use failure::ConnectionFailure;
#[cfg(feature = "blocking")]
pub(crate) use hello::Limits;
pub(crate) use hello::{FIRST_CALL_ID, greet, welcome};

use std::time::Duration;

/// How long to read from a connection after the daemon has said goodbye. Answers from memory take
/// far less; calls that take longer are repeated on the next connection.
pub(crate) const DRAIN: Duration = Duration::from_millis(100);
