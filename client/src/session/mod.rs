//! What the asynchronous and the blocking client share: the questions, the reading of answers, the
//! handshake and the pauses between connections. Plain values in and out; no socket, no clock.

mod answer;
mod backoff;
mod checked_call;
mod event;
mod failure;
mod hello;

pub(crate) use answer::{ids, only_id, status, tag, tags, time, worker, workers};
pub(crate) use backoff::Backoff;
pub(crate) use checked_call::CheckedCall;
pub(crate) use event::DaemonEvent;
pub(crate) use failure::ConnectionFailure;
pub(crate) use hello::{FIRST_CALL_ID, greet, welcome};

use std::time::Duration;

/// How long a connection that ends is still listened to. The daemon answers what it has from
/// memory in far less; what waits longer is asked again on the next connection.
pub(crate) const DRAIN: Duration = Duration::from_millis(100);
