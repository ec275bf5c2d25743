//! The results of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use leaf_client::wire::ErrorCode;
use serde::Serialize;

use super::engine::{DeadTime, Errors, Measured, Meter};
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
    errors_by_code: Vec<CountedError>,
    /// Connections that broke.
    disconnects: u64,
    /// Failed attempts to connect again.
    failed_connects: u64,
    /// Requests that were in flight on connections that broke.
    unanswered: u64,
    /// Time without IDs, in stretches of 100 ms and more.
    dead_time: DeadTimeView,
    #[serde(flatten)]
    verification: Option<Verification>,
    /// Why the last connection broke.
    #[serde(skip)]
    last_break: Option<String>,
}

/// All errors with one number.
#[derive(Debug, Serialize)]
struct CountedError {
    code: u16,
    name: &'static str,
    count: u64,
    /// The message of the last one.
    message: String,
}

/// How long the run got no IDs.
#[derive(Debug, Serialize)]
struct DeadTimeView {
    seconds: f64,
    stretches: u64,
    longest_seconds: f64,
    /// When the longest stretch began, since the start of the measurement.
    longest_from_seconds: Option<f64>,
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
pub(crate) struct Verification {
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
            errors_by_code: meter
                .errors()
                .iter()
                .map(|(number, errors)| CountedError {
                    code: *number,
                    name: errors.name,
                    count: errors.count,
                    message: errors.message.clone(),
                })
                .collect(),
            disconnects: meter.disconnects(),
            failed_connects: meter.failed_connects(),
            unanswered: meter.unanswered(),
            dead_time: DeadTimeView::new(meter.dead_time()),
            verification: meter.verifier().map(Verification::new),
            last_break: meter.last_break().map(str::to_owned),
        }
    }

    pub(crate) fn print<W: Write>(&self, json: bool, out: &mut Output<W>) -> Result<(), Failure> {
        if json {
            return out.json(self);
        }
        let what = match (&self.tag, self.tags) {
            (None, _) => "snowflake".to_owned(),
            (Some(tag), None) => format!("tag {}", harmless(tag)),
            (Some(tag), Some(tags)) => format!("{tags} tags {}-…", harmless(tag)),
        };
        out.line(format_args!("{what}, measured for {:.1} s", self.duration_seconds))?;
        out.line(format_args!(
            "load         connections {}, in flight on each {}, IDs per request {}",
            self.connections, self.in_flight, self.count,
        ))?;
        out.line(format_args!("requests/s   {}", grouped(self.requests_per_second as u64)))?;
        out.line(format_args!("IDs/s        {}", grouped(self.ids_per_second as u64)))?;
        let Latency { p50, p90, p99, p99_9, max, .. } = self.latency_us;
        out.line(format_args!(
            "latency      p50 {p50:.1}  p90 {p90:.1}  p99 {p99:.1}  p99.9 {p99_9:.1}  max {max:.1} µs"
        ))?;
        self.print_trouble(out)?;
        self.verification.as_ref().map_or(Ok(()), |verification| verification.print(out))
    }
}

impl BenchReport {
    /// What went wrong: errors by number, lost connections, and how long no IDs came.
    fn print_trouble<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        out.line(match self.unanswered {
            0 => format!("errors       {}", grouped(self.errors)),
            lost => format!(
                "errors       {}, and {} requests without an answer",
                grouped(self.errors),
                grouped(lost)
            ),
        })?;
        for CountedError { code, count, message, .. } in &self.errors_by_code {
            let (count, code) = (grouped(*count), ErrorCode::from_number(*code));
            out.line(format_args!("             {count} × {code}: {}", harmless(message)))?;
        }
        if self.disconnects + self.failed_connects > 0 {
            out.line(format_args!(
                "disconnects  {}, failed attempts to connect {}",
                grouped(self.disconnects),
                grouped(self.failed_connects),
            ))?;
        }
        if let Some(why) = &self.last_break {
            out.line(format_args!("             the last: {}", harmless(why)))?;
        }
        let DeadTimeView { seconds, stretches, longest_seconds, longest_from_seconds } =
            self.dead_time;
        match longest_from_seconds {
            Some(from) if stretches == 1 => out.line(format_args!(
                "dead time    {seconds:.1} s without IDs, from {from:.1} s on"
            )),
            Some(from) => out.line(format_args!(
                "dead time    {seconds:.1} s without IDs, {} times; the longest {longest_seconds:.1} \
                 s, from {from:.1} s on",
                grouped(stretches),
            )),
            None => Ok(()),
        }
    }
}

impl DeadTimeView {
    fn new(dead: &DeadTime) -> Self {
        let seconds = |ns: u64| rounded(Duration::from_nanos(ns).as_secs_f64(), 6);
        let longest = dead.longest();
        Self {
            seconds: seconds(dead.total()),
            stretches: dead.stretches(),
            longest_seconds: longest.map_or(0.0, |longest| seconds(longest.length)),
            longest_from_seconds: longest.map(|longest| seconds(longest.from)),
        }
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
    pub(crate) fn new(verifier: &Verifier) -> Self {
        Self {
            verified: verifier.verified(),
            duplicates: verifier.duplicates(),
            too_old: verifier.too_old(),
            failed: verifier.examples().iter().map(|ids| [ids.first, ids.last]).collect(),
        }
    }

    pub(crate) fn print<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        out.line(format_args!(
            "verified     {}, duplicates {}",
            grouped(self.verified),
            grouped(self.duplicates)
        ))
    }
}

/// The error's name, or its number if this leafctl does not know it.
fn error_name(number: u16, errors: &Errors) -> String {
    if errors.name == "Other" { number.to_string() } else { errors.name.to_owned() }
}

pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
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
        meter.start_recording(0);
        for (sent_at, first) in [(1000, 1), (1000, 4), (5000, 4)] {
            meter.answer(sent_at, first, 3, 13_345);
        }
        meter.settle(13_345);
        meter.error(WireError::new(ErrorCode::StoreUnavailable, "away"));
        meter.error(WireError::new(ErrorCode::Other(999), "new"));
        meter.disconnect("reset".to_owned(), 2);
        meter.stop_sending(2_000_000_000);
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
        let unavailable = &value["errors_by_code"][0];
        assert_eq!((&unavailable["code"], &unavailable["count"]), (&302.into(), &1.into()));
        assert_eq!(unavailable["name"], "StoreUnavailable");
        let dead = &value["dead_time"];
        assert_eq!((&dead["stretches"], &dead["seconds"]), (&1.into(), &1.999_987.into()));
        for absent in ["verified", "duplicates", "last_break"] {
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
        for part in [
            "tag bench, measured for 0.5 s",
            "load         connections 1,",
            "errors       2, and 2 requests without an answer",
            "1 × 302 StoreUnavailable: away",
            "1 × error 999: new",
            "disconnects  1, failed attempts to connect 0",
            "the last: reset",
            "dead time    2.0 s without IDs, from 0.0 s on",
            "duplicates 3",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}
