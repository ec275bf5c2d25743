//! What an issuer is told from outside while it lives: the worker ID that it may use, the limit of
//! that, and what its registry says; and how refusals are put into words.

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;

use super::sequencer::{Rules, Sequencer, Stop};
use crate::rfc3339::rfc3339;
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

/// How far use has come, in ms since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// What the host's clock reads.
    pub clock_ms: u64,
    /// Nothing has been issued at or past this with the worker ID in use; 0 when none is.
    pub ceiling_ms: u64,
    /// How far time has come since the last use, by a clock that nobody sets; 0 when no worker ID
    /// is in use.
    pub use_ms: u64,
    /// A request waits for a report that allows this time; 0 when none does.
    pub awaited_ms: u64,
}

/// Why nothing is issued while the clock reads `clock_ms`, and what to do.
pub(super) fn words(stop: Stop, layout: &Layout, clock_ms: u64) -> String {
    match stop {
        Stop::ClockBackwards { behind_ms } => format!(
            "the clock is {behind_ms} ms behind the times already used; IDs go on when it has \
             caught up"
        ),
        Stop::BeforeEpoch { .. } => format!(
            "the clock says {}, before the epoch of snowflake.layout, {}; set it right (NTP), and \
             IDs begin by themselves",
            rfc3339(clock_ms),
            rfc3339(layout.epoch_ms())
        ),
        Stop::TimeExhausted => format!(
            "the clock says {}, and the time field of snowflake.layout {layout} ended at {}; set \
             the clock right (NTP), and IDs begin by themselves; if it is right, choose a layout \
             with a later epoch",
            rfc3339(clock_ms),
            rfc3339(layout.end_ms())
        ),
        Stop::Fenced => "the registry has not taken a report for too long, or the clock has \
                         jumped ahead, so the worker ID may become another's; IDs go on after \
                         the next report"
            .to_owned(),
        Stop::Ceiling => "the worker file cannot be written".to_owned(),
        Stop::Until(_) | Stop::Done => {
            "so many IDs could not be made in time; the layout's limit is reached".to_owned()
        }
    }
}

/// The reason for a stop, as the caller is told it.
pub(super) fn refusal(
    stop: Stop,
    layout: &Layout,
    clock_ms: u64,
    disk_error: Option<&str>,
) -> WireError {
    let words = words(stop, layout, clock_ms);
    match stop {
        Stop::ClockBackwards { behind_ms } | Stop::BeforeEpoch { behind_ms } => {
            WireError::new(ErrorCode::ClockBackwards, words)
                .with_detail(behind_ms)
                .with_retry_after_ms(u32::try_from(behind_ms).unwrap_or(u32::MAX))
        }
        Stop::TimeExhausted => WireError::new(ErrorCode::TimeExhausted, words),
        Stop::Fenced => {
            WireError::new(ErrorCode::WorkerUnavailable, words).with_retry_after_ms(1000)
        }
        Stop::Ceiling => {
            let why = disk_error.unwrap_or("the disk has not answered yet");
            WireError::new(ErrorCode::StateUnavailable, format!("{words}: {why}"))
                .with_retry_after_ms(200)
        }
        Stop::Until(_) | Stop::Done => {
            WireError::new(ErrorCode::DeadlineExceeded, words).with_retry_after_ms(10)
        }
    }
}
