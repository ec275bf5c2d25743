//! The JSON of the daemon's status.

use leaf_client::wire::{DaemonStatus, SegmentTotals, SnowflakeState, SnowflakeStatus, TagStatus};
use serde::Serialize;

use super::summary::layout_end_ms;
use crate::tag::TagView;

/// All of `leafctl status --json`.
#[derive(Debug, Serialize)]
pub(super) struct StatusView<'a> {
    daemon: DaemonView<'a>,
    segments: SegmentsView<'a>,
    snowflake: SnowflakeView<'a>,
    /// `None` if this user may not see them.
    tags: Option<Vec<TagView<'a>>>,
}

#[derive(Debug, Serialize)]
struct DaemonView<'a> {
    version: &'a str,
    pid: u32,
    uptime_ms: u64,
    connections: u32,
    requests: u64,
    state_dir: &'a str,
}

#[derive(Debug, Serialize)]
struct SegmentsView<'a> {
    store: &'a str,
    store_error: &'a str,
    tags: u64,
    waiting: u64,
    issued: u64,
    leases: u64,
}

#[derive(Debug, Serialize)]
struct SnowflakeView<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    worker: Option<u64>,
    registry: &'a str,
    layout: &'a str,
    layout_end_unix_ms: Option<u64>,
    ceiling_unix_ms: u64,
    last_unix_ms: u64,
    clock_unix_ms: u64,
    issued: u64,
    identity: &'a str,
    last_report_ms_ago: Option<u64>,
    registry_error: &'a str,
    limit_unix_ms: Option<u64>,
    clock_offset_ms: Option<i64>,
    peers: u32,
}

impl<'a> StatusView<'a> {
    pub(super) fn new(status: &'a DaemonStatus, tags: Option<&'a [TagStatus]>) -> Self {
        // Destructured in full, so that the compiler asks for every new field.
        let DaemonStatus {
            version,
            pid,
            uptime_ms,
            connections,
            requests,
            state_dir,
            segments,
            snowflake,
        } = status;
        Self {
            daemon: DaemonView {
                version,
                pid: *pid,
                uptime_ms: *uptime_ms,
                connections: *connections,
                requests: *requests,
                state_dir,
            },
            segments: SegmentsView::from(segments),
            snowflake: SnowflakeView::from(snowflake),
            tags: tags.map(|tags| tags.iter().map(TagView::from).collect()),
        }
    }
}

impl<'a> From<&'a SegmentTotals> for SegmentsView<'a> {
    fn from(totals: &'a SegmentTotals) -> Self {
        let SegmentTotals { store, store_error, tags, waiting, issued, leases } = totals;
        Self {
            store,
            store_error,
            tags: *tags,
            waiting: *waiting,
            issued: *issued,
            leases: *leases,
        }
    }
}

impl<'a> From<&'a SnowflakeStatus> for SnowflakeView<'a> {
    fn from(status: &'a SnowflakeStatus) -> Self {
        let layout_end_unix_ms = layout_end_ms(status);
        let SnowflakeStatus {
            state,
            worker,
            registry,
            layout,
            ceiling_unix_ms,
            last_unix_ms,
            clock_unix_ms,
            issued,
            identity,
            last_report_ms_ago,
            registry_error,
            limit_unix_ms,
            clock_offset_ms,
            peers,
        } = status;
        let (state, behind_ms, reason) = match state {
            SnowflakeState::Serving => ("serving", None, None),
            SnowflakeState::ClockBehind { behind_ms } => ("clock-behind", Some(*behind_ms), None),
            SnowflakeState::Refused { reason } => ("refused", None, Some(reason.as_str())),
            SnowflakeState::Starting { reason } => ("starting", None, Some(reason.as_str())),
        };
        Self {
            state,
            behind_ms,
            reason,
            worker: *worker,
            registry,
            layout,
            layout_end_unix_ms,
            ceiling_unix_ms: *ceiling_unix_ms,
            last_unix_ms: *last_unix_ms,
            clock_unix_ms: *clock_unix_ms,
            issued: *issued,
            identity,
            last_report_ms_ago: *last_report_ms_ago,
            registry_error,
            limit_unix_ms: *limit_unix_ms,
            clock_offset_ms: *clock_offset_ms,
            peers: *peers,
        }
    }
}
