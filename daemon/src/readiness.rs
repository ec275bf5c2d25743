//! Whether a host should get work, judged by the daemon's status alone: `leafctl health --ready` and
//! `/readyz` ask nothing of the store or the registry.

use leaf_client::wire::{DaemonStatus, ErrorCode, SnowflakeState, SnowflakeStatus};

use crate::rfc3339::rfc3339;

/// Why this host should get no work, if there is a reason. `offered` tells whether snowflake IDs are
/// turned on. A failing store is no reason as long as leafd serves everyone from memory: it fails for
/// all hosts at once, and leafd exists to outlast that.
///
/// The reason may quote what a store or a registry said, with any characters.
pub fn unready(status: &DaemonStatus, offered: impl FnOnce() -> bool) -> Option<String> {
    let segments = &status.segments;
    if segments.waiting > 0 && !segments.store_error.is_empty() {
        return Some(format!(
            "requests wait for a store that fails, {} now: {}",
            segments.waiting, segments.store_error
        ));
    }
    let reason = no_snowflakes(&status.snowflake)?;
    let settled = matches!(status.snowflake.state, SnowflakeState::Refused { .. });
    (!settled || offered()).then_some(format!("no snowflake IDs: {reason}"))
}

fn no_snowflakes(status: &SnowflakeStatus) -> Option<String> {
    match &status.state {
        SnowflakeState::Serving => {
            // While the registry answers, the next request triggers a report and is served.
            let is_past =
                |limit: &u64| *limit <= status.clock_unix_ms && !status.registry_error.is_empty();
            let limit = status.limit_unix_ms.filter(is_past)?;
            let limit = rfc3339(limit);
            let code = ErrorCode::WorkerUnavailable;
            Some(format!("{code}: no report has reached the registry, and IDs ended at {limit}"))
        }
        SnowflakeState::ClockBehind { behind_ms } => {
            let code = ErrorCode::ClockBackwards;
            Some(format!("{code}: the clock is {behind_ms} ms behind the times already used"))
        }
        SnowflakeState::Refused { reason } | SnowflakeState::Starting { reason } => {
            Some(reason.clone())
        }
    }
}
