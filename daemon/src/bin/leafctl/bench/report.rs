//! The results of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::engine::{Errors, Measured, Meter};
use super::plan::{Plan, Target};
use super::verify::Verifier;
use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};

/// The figures of a run. Its fields are the JSON of `leafctl bench --json`.
#[derive(Debug, Serialize)]
pub(crate) struct BenchReport {
    /// The tag, or the prefix of many tags' names; `None` for snowflake.
    tag: Option<String>,
    /// The number of tags, with `--tags`.
    tags: Option<u32>,
    connections: u32,
    in_flight: u32,
    count: u32,
    /// Length of the measurement, without the warm-up.
    duration_seconds: f64,
    /// Requests answered with IDs.
    requests: u64,
    ids: u64,
    requests_per_second: f64,
    ids_per_second: f64,
    latency_us: Latency,
    /// Errors that answered a request or closed a connection.
    errors: u64,
    errors_by_name: BTreeMap<String, u64>,
    /// Connections that broke.
    disconnects: u64,
    /// Failed attempts to connect again.
    failed_connects: u64,
    /// Requests that were in flight on connections that broke.
    unanswered: u64,
    #[serde(flatten)]
    verification: Option<Verification>,
    /// The last message of each error, and why the last connection broke.
    #[serde(skip)]
    remarks: Vec<String>,
}

/// Time from before the write of a request to after the read of its answer, in µs.
#[derive(Debug, Serialize)]
struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

/// What the uniqueness check found in the whole run, warm-up included.
#[derive(Debug, Serialize)]
struct Verification {
    /// IDs checked.
    verified: u64,
    /// IDs that had come before.
    duplicates: u64,
    /// IDs so far below earlier ones that no correct leafd would issue them.
    too_old: u64,
    /// The first ranges that failed, as `[first, last]`.
    failed: Vec<[u64; 2]>,
}

impl BenchReport {
    pub(crate) fn new(plan: &Plan, measured: Measured, meter: &Meter) -> Self {
        let seconds = Duration::from_nanos(measured.elapsed).as_secs_f64();
        let per_second =
            |count: u64| if seconds > 0.0 { rounded(count as f64 / seconds, 1) } else { 0.0 };
        let ids = measured.requests * u64::from(plan.count);
        let remark = |errors: &Errors| format!("{}: {}", errors.name, errors.message);
        let broke = meter.last_break().map(|why| format!("connection: {why}"));
        Self {
            tag: match &plan.target {
                Target::Tag(tag) | Target::Tags(tag, _) => Some(tag.clone()),
                Target::Snowflake => None,
            },
            tags: match plan.target {
                Target::Tags(_, tags) => Some(tags),
                Target::Tag(_) | Target::Snowflake => None,
            },
            connections: plan.connections,
            in_flight: plan.in_flight,
            count: plan.count,
            duration_seconds: rounded(seconds, 6),
            requests: measured.requests,
            ids,
            requests_per_second: per_second(measured.requests),
            ids_per_second: per_second(ids),
            latency_us: Latency::new(meter.latencies()),
            errors: meter.error_count(),
            errors_by_name: meter
                .errors()
                .iter()
                .map(|(number, errors)| (error_name(*number, errors), errors.count))
                .collect(),
            disconnects: meter.disconnects(),
            failed_connects: meter.failed_connects(),
            unanswered: meter.unanswered(),
            verification: meter.verifier().map(Verification::new),
            remarks: meter.errors().values().map(remark).chain(broke).collect(),
        }
    }

    pub(crate) fn print<W: Write>(&self, json: bool, out: &mut Output<W>) -> Result<(), Failure> {
        if json {
            return out.json(self);
        }
        out.line(format_args!(
            "{}: connections {}, in flight on each {}, IDs per request {}, measured for {:.1} s",
            match (&self.tag, self.tags) {
                (None, _) => "snowflake".to_owned(),
                (Some(tag), None) => format!("tag {}", harmless(tag)),
                (Some(tag), Some(tags)) => format!("{tags} tags {}-…", harmless(tag)),
            },
            self.connections,
            self.in_flight,
            self.count,
            self.duration_seconds,
        ))?;
        out.line(format_args!("requests/s   {}", grouped(self.requests_per_second as u64)))?;
        out.line(format_args!("IDs/s        {}", grouped(self.ids_per_second as u64)))?;
        let Latency { p50, p90, p99, p99_9, max, .. } = self.latency_us;
        out.line(format_args!(
            "latency      p50 {p50:.1}  p90 {p90:.1}  p99 {p99:.1}  p99.9 {p99_9:.1}  max {max:.1} µs"
        ))?;
        out.line(format_args!("errors       {}", grouped(self.errors)))?;
        if self.disconnects + self.failed_connects > 0 {
            out.line(format_args!(
                "disconnects  {}, requests left unanswered {}, failed attempts to connect {}",
                grouped(self.disconnects),
                grouped(self.unanswered),
                grouped(self.failed_connects),
            ))?;
        }
        for remark in &self.remarks {
            out.line(format_args!("             {}", harmless(remark)))?;
        }
        if let Some(verification) = &self.verification {
            out.line(format_args!(
                "verified     {}, duplicates {}",
                grouped(verification.verified),
                grouped(verification.duplicates)
            ))?;
        }
        Ok(())
    }
}

impl Latency {
    fn new(histogram: &Histogram<u64>) -> Self {
        let us = |ns: f64| rounded(ns / 1000.0, 3);
        let quantile = |q: f64| us(histogram.value_at_quantile(q) as f64);
        Self {
            min: us(histogram.min() as f64),
            mean: us(histogram.mean()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            max: us(histogram.max() as f64),
        }
    }
}

impl Verification {
    fn new(verifier: &Verifier) -> Self {
        Self {
            verified: verifier.verified(),
            duplicates: verifier.duplicates(),
            too_old: verifier.too_old(),
            failed: verifier.examples().iter().map(|ids| [ids.first, ids.last]).collect(),
        }
    }
}

/// The error's name, or its number if this leafctl does not know it.
fn error_name(number: u16, errors: &Errors) -> String {
    if errors.name == "Other" { number.to_string() } else { errors.name.to_owned() }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::tests::plan;
    use crate::output::tests::printed;
    use leaf_client::wire::{ErrorCode, WireError};

    fn report(verifier: Option<Verifier>) -> BenchReport {
        let mut meter = Meter::new(verifier).unwrap();
        meter.start_recording();
        for (sent_at, first) in [(1000, 1), (1000, 4), (5000, 4)] {
            meter.answer(sent_at, first, 3, 13_345);
        }
        meter.settle(13_345);
        meter.error(WireError::new(ErrorCode::StoreUnavailable, "away"));
        meter.error(WireError::new(ErrorCode::Other(999), "new"));
        meter.disconnect("reset".to_owned(), 2);
        BenchReport::new(&plan(64), Measured { elapsed: 500_000_000, requests: 3 }, &meter)
    }

    #[test]
    fn json_is_one_object_with_rates_latencies_and_errors() {
        let value = serde_json::to_value(report(None)).unwrap();
        assert_eq!(value["tag"], "bench");
        assert_eq!(value["requests_per_second"], 6.0);
        assert_eq!(value["ids_per_second"], 18.0);
        assert_eq!(value["errors"], 2);
        assert_eq!(value["errors_by_name"]["StoreUnavailable"], 1);
        assert_eq!(value["errors_by_name"]["999"], 1);
        assert_eq!((&value["disconnects"], &value["unanswered"]), (&1.into(), &2.into()));
        for name in ["min", "mean", "p50", "p90", "p99", "p99_9", "max"] {
            let us = value["latency_us"][name].as_f64().unwrap();
            assert!((8.0..12.5).contains(&us), "{name}: {us}");
        }
        // Latencies have digits below a microsecond.
        assert!(value["latency_us"]["p50"].as_f64().unwrap().fract() > 0.0);
        for absent in ["verified", "duplicates", "remarks"] {
            assert!(value.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn json_of_a_verified_run_lists_the_duplicates() {
        let value = serde_json::to_value(report(Some(Verifier::unordered()))).unwrap();
        assert_eq!((&value["verified"], &value["duplicates"]), (&9.into(), &3.into()));
        assert_eq!(value["failed"], serde_json::json!([[4, 6]]));
    }

    #[test]
    fn a_run_without_an_answer_still_has_figures() {
        let meter = Meter::new(None).unwrap();
        let report = BenchReport::new(&plan(1), Measured::default(), &meter);
        let value = serde_json::to_value(report).unwrap();
        assert_eq!((&value["requests_per_second"], &value["requests"]), (&0.0.into(), &0.into()));
        assert_eq!(value["latency_us"]["max"], 0.0);
    }

    #[test]
    fn the_text_shows_the_figures_and_what_went_wrong() {
        let text = printed(|out| report(Some(Verifier::unordered())).print(false, out));
        for part in ["tag bench: connections 1,", "StoreUnavailable: away", "reset", "duplicates 3"]
        {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}
