//! Turns what the rooms have counted into samples.

use std::borrow::Cow;
use std::time::Duration;

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, SnowflakeState, SnowflakeStatus};

use super::families as list;
use super::families::Family;
use super::overview::{ChosenTag, TagOverview};
use super::render::{Exposition, SampleValue};
use crate::forecast::IdLimit;
use crate::segment::service::Segments;
use crate::service::Service;
use crate::state::write_tally::{StateFile, WriteTally};
use crate::tally::{CallKind, DurationHistogram};

/// The values of the label `state`.
const STATES: [&str; 4] = ["serving", "starting", "clock-behind", "refused"];

impl Exposition {
    fn whole(&mut self, family: &'static Family, number: u64) {
        self.add(family, Vec::new(), SampleValue::Whole(number));
    }

    fn number(&mut self, family: &'static Family, number: f64) {
        self.add(family, Vec::new(), SampleValue::Number(number));
    }

    fn labelled(
        &mut self,
        family: &'static Family,
        values: impl IntoIterator<Item = Cow<'static, str>>,
        value: SampleValue,
    ) {
        self.add(family, family.labels.iter().copied().zip(values).collect(), value);
    }

    fn histogram(
        &mut self,
        family: &'static Family,
        label: Option<&'static str>,
        histogram: &DurationHistogram,
    ) {
        let value = SampleValue::Histogram(Box::new(histogram.read()));
        self.labelled(family, label.map(Cow::from), value);
    }
}

/// What the HTTP server has counted.
#[derive(Debug)]
pub(crate) struct HttpFigures {
    /// Open connections, those in the reserve included.
    pub(crate) connections: u64,
    /// The limit of the usual ones.
    pub(crate) max_connections: u64,
    /// What it refused by itself, by the label `reason`.
    pub(crate) refused: [(&'static str, u64); 3],
}

/// Milliseconds as seconds.
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn difference(ms: u64, than_ms: u64) -> f64 {
    (i128::from(ms) - i128::from(than_ms)) as f64 / 1000.0
}

/// `starts` is how often leafd has started on its state directory.
pub(super) fn add_daemon(out: &mut Exposition, started_ms: u64, starts: u64) {
    out.labelled(&list::BUILD, [env!("CARGO_PKG_VERSION").into()], SampleValue::Info);
    out.number(&list::START, seconds(started_ms));
    out.whole(&list::STARTS, starts);
}

pub(super) fn add_service(out: &mut Exposition, service: &Service) {
    let counts = &service.counts;
    out.whole(&list::CONNECTIONS, service.connections());
    out.whole(&list::IN_FLIGHT, service.requests_in_flight());
    let mut errors = vec![0; ErrorCode::ALL.len()];
    for &call in CallKind::ALL {
        let of = |outcome: &'static str, code: u16| {
            [Cow::from(call.name()), outcome.into(), code.to_string().into()]
        };
        let answered = SampleValue::Whole(counts.requests.of(call));
        if call != CallKind::Unknown {
            out.labelled(&list::REQUESTS, of("ok", 0), answered);
        }
        for (total, (code, count)) in errors.iter_mut().zip(counts.requests.errors_of(call)) {
            *total += count;
            if count > 0 {
                let labels = of(code.name(), code.number());
                out.labelled(&list::REQUESTS, labels, SampleValue::Whole(count));
            }
        }
    }
    for (code, count) in ErrorCode::ALL.iter().zip(errors) {
        let labels = [Cow::from(code.name()), code.number().to_string().into()];
        out.labelled(&list::ERRORS, labels, SampleValue::Whole(count));
    }
    let (segment_ids, snowflake_ids) = counts.requests.ids();
    for (scheme, ids) in [("segment", segment_ids), ("snowflake", snowflake_ids)] {
        out.labelled(&list::IDS, [scheme.into()], SampleValue::Whole(ids));
    }
    out.histogram(&list::WAITS, Some("segment"), &counts.segment_waits);
    out.histogram(&list::WAITS, Some("snowflake"), &counts.snowflake_waits);
    for (quota, count) in [
        ("user", &counts.over_user_quota),
        ("tag", &counts.over_tag_quota),
        ("connections", &counts.over_connection_quota),
    ] {
        let count = SampleValue::Whole(count.get());
        out.labelled(&list::QUOTA_REFUSALS, [quota.into()], count);
    }
}

/// Samples of one family come one after the other.
pub(super) fn add_loans(out: &mut Exposition, service: &Service) {
    let pools: Vec<_> = service.lending().figures().collect();
    let name = |pool: &str| Cow::from(pool.to_owned());
    for pool in &pools {
        for (state, count) in pool.now.by_state() {
            let labels = [name(pool.pool), state.into()];
            out.labelled(&list::LOANS, labels, SampleValue::Whole(count));
        }
    }
    for pool in &pools {
        out.labelled(&list::LOANS_BEGUN, [name(pool.pool)], SampleValue::Whole(pool.begun));
    }
    for pool in &pools {
        out.labelled(&list::LOANS_LOST, [name(pool.pool)], SampleValue::Whole(pool.lost));
    }
}

pub(super) fn add_http(out: &mut Exposition, http: &HttpFigures) {
    out.whole(&list::HTTP_CONNECTIONS, http.connections);
    out.whole(&list::HTTP_MAX_CONNECTIONS, http.max_connections);
    for (reason, count) in http.refused {
        out.labelled(&list::HTTP_REFUSED, [reason.into()], SampleValue::Whole(count));
    }
}

pub(super) fn add_leases(out: &mut Exposition, segments: &Segments) {
    out.labelled(&list::STORE, [segments.describe_store().into()], SampleValue::Info);
    out.whole(&list::STORE_UP, u64::from(segments.store_works()));
    if let Some(count) = segments.store_databases() {
        let working = count.all.saturating_sub(count.failing);
        for (state, count) in [("working", working), ("failing", count.failing)] {
            let value = SampleValue::Whole(count as u64);
            out.labelled(&list::STORE_DATABASES, [state.into()], value);
        }
    }
    if let Some(status) = segments.store_epoch() {
        out.whole(&list::STORE_EPOCH, status.epoch);
        out.whole(&list::STORE_EPOCH_OPEN, u64::from(status.open));
        let missing = status.missing.len();
        let confirmed = status.hosts.saturating_sub(missing);
        for (state, count) in [("confirmed", confirmed), ("missing", missing)] {
            let value = SampleValue::Whole(count as u64);
            out.labelled(&list::STORE_EPOCH_HOSTS, [state.into()], value);
        }
    }
    let tally = segments.lease_tally();
    for (outcome, count) in [("granted", &tally.granted), ("failed", &tally.failed)] {
        out.labelled(&list::LEASES, [outcome.into()], SampleValue::Whole(count.get()));
    }
    out.histogram(&list::LEASE_DURATION, None, &tally.seconds);
}

pub(super) fn add_writes(out: &mut Exposition, writes: &WriteTally) {
    for file in StateFile::ALL {
        out.histogram(&list::STATE_WRITES, Some(file.name()), &writes.of(file).seconds);
    }
    for file in StateFile::ALL {
        let failed = SampleValue::Whole(writes.of(file).failed.get());
        out.labelled(&list::STATE_FAILURES, [file.name().into()], failed);
    }
}

pub(super) fn add_tags(out: &mut Exposition, all: &TagOverview) {
    out.whole(&list::TAGS, all.tags);
    out.whole(&list::WAITING, all.waiting);
    if let Some(left) = all.lowest_seconds_left {
        out.whole(&list::SECONDS_LEFT, left);
    }
    out.whole(&list::OVERDUE, all.overdue);
    out.whole(&list::FAILING, all.failing);
    for (limit, near) in IdLimit::ALL.into_iter().zip(all.near) {
        out.labelled(&list::NEAR_LIMIT, [limit.name().into()], SampleValue::Whole(near));
    }
    for (limit, at) in IdLimit::ALL.into_iter().zip(all.earliest) {
        if let Some(at) = at {
            out.labelled(&list::EARLIEST_LIMIT, [limit.name().into()], SampleValue::Number(at));
        }
    }
    out.whole(&list::LEFT_OUT, all.left_out);
    add_chosen(out, &all.chosen);
}

/// What is read of each tag, and where it goes. Samples of one family come one after the other.
type TagColumn = (&'static Family, fn(&ChosenTag) -> Option<SampleValue>);

const COLUMNS: [TagColumn; 10] = [
    (&list::TAG_IDS, |tag| Some(SampleValue::Whole(tag.issued))),
    (&list::TAG_LEASES, |tag| Some(SampleValue::Whole(tag.leases))),
    (&list::TAG_MAX_ID, |tag| Some(SampleValue::Whole(tag.max_id))),
    (&list::TAG_REMAINING, |tag| Some(SampleValue::Whole(tag.remaining))),
    (&list::TAG_SECONDS_LEFT, |tag| tag.seconds_left.map(SampleValue::Whole)),
    (&list::TAG_LEASE_AGE, |tag| Some(SampleValue::Number(tag.since_lease.as_secs_f64()))),
    (&list::TAG_WAITING, |tag| Some(SampleValue::Whole(tag.waiting))),
    (&list::TAG_STEP, |tag| Some(SampleValue::Whole(tag.step))),
    (&list::TAG_FAILING, |tag| Some(SampleValue::Whole(tag.is_failing.into()))),
    (&list::TAG_GROWTH, |tag| tag.growth.map(SampleValue::Number)),
];

fn add_chosen(out: &mut Exposition, tags: &[ChosenTag]) {
    let name = |tag: &ChosenTag| Cow::from(tag.name.as_str().to_owned());
    for (family, read) in COLUMNS {
        for tag in tags {
            if let Some(value) = read(tag) {
                out.labelled(family, [name(tag)], value);
            }
        }
    }
    for tag in tags {
        for (limit, at) in IdLimit::ALL.into_iter().zip(tag.limits) {
            if let Some(at) = at {
                let labels = [name(tag), limit.name().into()];
                out.labelled(&list::TAG_LIMIT, labels, SampleValue::Number(at));
            }
        }
    }
}

pub(super) fn add_snowflake(
    out: &mut Exposition,
    status: &SnowflakeStatus,
    layout: Layout,
    fence_after: Option<Duration>,
) {
    let (state, behind_ms) = match &status.state {
        SnowflakeState::Serving => ("serving", 0),
        SnowflakeState::Starting { .. } => ("starting", 0),
        SnowflakeState::ClockBehind { behind_ms } => ("clock-behind", *behind_ms),
        SnowflakeState::Refused { .. } => ("refused", 0),
    };
    for known in STATES {
        let is_it = SampleValue::Whole(u64::from(known == state));
        out.labelled(&list::SNOWFLAKE_STATE, [known.into()], is_it);
    }
    out.number(&list::CLOCK_BEHIND, seconds(behind_ms));
    let clock_ms = status.clock_unix_ms;
    if let Some(worker) = status.worker {
        out.whole(&list::WORKER, worker);
        out.number(&list::CEILING, difference(status.ceiling_unix_ms, clock_ms));
    }
    out.number(&list::LAYOUT_END, seconds(layout.end_ms()));
    let Some(fence_after) = fence_after else { return };
    if let Some(ms) = status.last_report_ms_ago {
        out.number(&list::WORKER_AGE, seconds(ms));
    }
    if let (Some(limit_ms), Some(_)) = (status.limit_unix_ms, status.worker) {
        out.number(&list::FENCE_LEFT, difference(limit_ms, clock_ms));
    }
    out.number(&list::FENCE_AFTER, fence_after.as_secs_f64());
    out.whole(&list::REGISTRY_UP, u64::from(status.registry_error.is_empty()));
    if let Some(ms) = status.clock_offset_ms {
        out.number(&list::CLOCK_OFFSET, ms as f64 / 1000.0);
    }
    out.whole(&list::PEERS, u64::from(status.peers));
}
