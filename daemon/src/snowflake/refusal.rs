//! Why there are no snowflake IDs: in words, and as the error that callers get.

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, WireError};

use super::sequencer::StopReason;
use crate::rfc3339::rfc3339;

/// Why nothing is issued while the clock reads `clock_ms`, and what to do about it.
fn words(stop: StopReason, layout: &Layout, clock_ms: u64) -> String {
    match stop {
        StopReason::ClockBackwards { behind_ms } => format!(
            "the clock is {behind_ms} ms behind the times already used; IDs go on when it has \
             caught up"
        ),
        StopReason::BeforeEpoch { .. } => format!(
            "the clock says {}, before the epoch of snowflake.layout, {}; set it right (NTP), and \
             IDs begin by themselves",
            rfc3339(clock_ms),
            rfc3339(layout.epoch_ms())
        ),
        StopReason::TimeExhausted => format!(
            "the clock says {}, and the time field of snowflake.layout {layout} ended at {}; set \
             the clock right (NTP), and IDs begin by themselves; if it is right, choose a layout \
             with a later epoch",
            rfc3339(clock_ms),
            rfc3339(layout.end_ms())
        ),
        StopReason::Fenced => {
            "the registry has not taken a report for too long, or the clock has jumped ahead, so \
             another host may get the worker ID; IDs go on after the next report"
                .to_owned()
        }
        StopReason::Ceiling => "the worker file cannot be written".to_owned(),
        StopReason::Until(_) | StopReason::Done => {
            "could not make that many IDs in time: the layout's limit is reached".to_owned()
        }
    }
}

/// The error for a caller that got nothing because of `stop`.
pub(super) fn refusal(
    stop: StopReason,
    layout: &Layout,
    clock_ms: u64,
    disk_error: Option<&str>,
) -> WireError {
    let words = words(stop, layout, clock_ms);
    match stop {
        StopReason::ClockBackwards { behind_ms } | StopReason::BeforeEpoch { behind_ms } => {
            WireError::new(ErrorCode::ClockBackwards, words)
                .with_detail(behind_ms)
                .with_retry_after_ms(u32::try_from(behind_ms).unwrap_or(u32::MAX))
        }
        StopReason::TimeExhausted => WireError::new(ErrorCode::TimeExhausted, words),
        StopReason::Fenced => {
            WireError::new(ErrorCode::WorkerUnavailable, words).with_retry_after_ms(1000)
        }
        StopReason::Ceiling => {
            let why = disk_error.unwrap_or("the disk has not answered yet");
            WireError::new(ErrorCode::StateUnavailable, format!("{words}: {why}"))
                .with_retry_after_ms(200)
        }
        StopReason::Until(_) | StopReason::Done => {
            WireError::new(ErrorCode::DeadlineExceeded, words).with_retry_after_ms(10)
        }
    }
}
