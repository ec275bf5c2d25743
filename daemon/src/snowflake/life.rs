//! What an issuer is told from outside while it lives: the worker ID that it may use, the limit of
//! that, and what its registry says; and how refusals are put into words.

use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;

use super::sequencer::{Rules, Sequencer, Stop};
use crate::state::worker_file::SharedClaim;

/// A worker ID that may be used.
#[derive(Debug, Clone)]
pub struct Begin {
    /// With it, and how.
    pub rules: Rules,
    /// From this time on (ms since 1970).
    pub start_ms: u64,
    /// For times below this (ms since 1970); `u64::MAX` when nobody else can ever get it.
    pub limit_ms: u64,
    /// The identity that it was claimed with; empty when there is none.
    pub identity: String,
    /// For the worker file.
    pub shared: Option<SharedClaim>,
}

/// What the registry of worker IDs says, for status.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// The last report that was taken.
    pub reported: Option<Instant>,
    /// What went wrong with the last call; empty when nothing did.
    pub error: String,
    /// The mean of the other instances' clocks minus this one's, at the last check.
    pub offset_ms: Option<i64>,
    /// How many of them answered.
    pub peers: u32,
}

/// Whether IDs are made.
pub(super) enum Phase {
    On {
        sequencer: Box<Sequencer>,
        worker: u64,
    },
    /// Not yet, but soon: requests wait.
    Soon(WireError),
    Off(WireError),
}

/// Puts the reason for a stop into words.
pub(super) fn refusal(stop: Stop, disk_error: Option<&str>) -> WireError {
    match stop {
        Stop::ClockBackwards { behind_ms } => WireError::new(
            ErrorCode::ClockBackwards,
            format!(
                "the clock is {behind_ms} ms behind the times already used; IDs go on when it has \
                 caught up"
            ),
        )
        .with_detail(behind_ms)
        .with_retry_after_ms(u32::try_from(behind_ms).unwrap_or(u32::MAX)),
        Stop::TimeExhausted => WireError::new(
            ErrorCode::TimeExhausted,
            "the time field of the layout is used up; no ID can come any more",
        ),
        Stop::Fenced => WireError::new(
            ErrorCode::WorkerUnavailable,
            "the registry has not taken a report for too long, or the clock has jumped ahead, so \
             the worker ID may become another's; IDs go on after the next report",
        )
        .with_retry_after_ms(1000),
        Stop::Ceiling => WireError::new(
            ErrorCode::StateUnavailable,
            format!(
                "the worker file cannot be written: {}",
                disk_error.unwrap_or("the disk has not answered yet")
            ),
        )
        .with_retry_after_ms(200),
        Stop::Until(_) | Stop::Done => WireError::new(
            ErrorCode::DeadlineExceeded,
            "so many IDs could not be made in time; the layout's limit is reached",
        )
        .with_retry_after_ms(10),
    }
}
