//! The daemon's status.

use hyper::{Response, StatusCode};
use leaf_client::wire::{
    Call, DaemonStatus, Reply, SegmentTotals, SnowflakeState, SnowflakeStatus,
};
use serde::Serialize;

use super::super::answer::{HttpAnswer, json, unexpected, when_replied};
use super::super::body::HttpBody;
use super::super::request::HttpRequest;

#[derive(Debug, Serialize)]
pub(super) struct StatusDocument<'a> {
    daemon: DaemonDocument<'a>,
    segments: SegmentsDocument<'a>,
    snowflake: SnowflakeDocument<'a>,
}

#[derive(Debug, Serialize)]
struct DaemonDocument<'a> {
    version: &'a str,
    pid: u32,
    uptime_ms: u64,
    connections: u32,
    requests: u64,
    state_dir: &'a str,
}

#[derive(Debug, Serialize)]
struct SegmentsDocument<'a> {
    store: &'a str,
    store_error: &'a str,
    tags: u64,
    waiting: u64,
    issued: u64,
    leases: u64,
}

#[derive(Debug, Serialize)]
struct SnowflakeDocument<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    worker: Option<u64>,
    registry: &'a str,
    layout: &'a str,
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

pub(super) fn status(request: &mut HttpRequest<'_>) -> HttpAnswer {
    match request.query(&[]) {
        Ok(_) => when_replied(request.ask(&Call::Status), answer),
        Err(problem) => problem.into(),
    }
}

fn answer(reply: Reply) -> Response<HttpBody> {
    match reply {
        Reply::Status(status) => json(StatusCode::OK, &StatusDocument::of(&status)),
        other => unexpected(other).into_response(),
    }
}

impl<'a> StatusDocument<'a> {
    pub(super) fn of(status: &'a DaemonStatus) -> Self {
        // Destructured in full, here and below, so that the compiler asks for every new field.
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
        let daemon = DaemonDocument {
            version,
            pid: *pid,
            uptime_ms: *uptime_ms,
            connections: *connections,
            requests: *requests,
            state_dir,
        };
        Self { daemon, segments: segments.into(), snowflake: snowflake.into() }
    }
}

impl<'a> From<&'a SegmentTotals> for SegmentsDocument<'a> {
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

impl<'a> From<&'a SnowflakeStatus> for SnowflakeDocument<'a> {
    fn from(status: &'a SnowflakeStatus) -> Self {
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
