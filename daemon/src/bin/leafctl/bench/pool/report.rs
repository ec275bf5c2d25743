//! The results of a pool's run, as text and as JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leaf_client::pool::PoolStats;
use leaf_client::wire::ErrorCode;
use leafd::cli::leafctl::PoolMode;
use serde::Serialize;

use super::figures::{Figures, Series};
use super::outages::Outages;
use super::trouble::ErrorTally;
use crate::bench::plan::{Plan, Target};
use crate::bench::report::{Verification, rounded};
use crate::bench::verify::Verifier;
use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};

/// A run that is over.
#[derive(Debug)]
pub(super) struct PoolRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) mode: PoolMode,
    pub(super) threads: usize,
    /// Length of the measurement.
    pub(super) measured: Duration,
    pub(super) figures: Figures,
    pub(super) stats: PoolStats,
    pub(super) outages: Outages,
}

impl PoolRun<'_> {
    /// Why no ID came at all, if that is so.
    pub(super) fn no_ids(&self) -> Option<String> {
        let Self { figures, outages, .. } = self;
        let mut errors = figures.errors.kinds().chain(outages.errors.kinds());
        (figures.ids == 0).then(|| {
            let short = "the measurement was too short".to_owned();
            errors.next().map_or(short, |(_, _, kind)| kind.message.clone())
        })
    }
}

/// The figures of a run. Its fields are the JSON of `leafctl bench --pool … --json`.
#[derive(Debug, Serialize)]
pub(super) struct PoolReport {
    mode: &'static str,
    threads: usize,
    /// `None` for snowflake.
    tag: Option<String>,
    /// Length of the measurement, without the warm-up: rounds with the pool, and rounds without.
    duration_seconds: f64,
    /// IDs of the whole run, warm-up and sampled rounds included.
    ids: u64,
    /// Of all threads together, in the rounds that only take IDs. Waits are included.
    ids_per_second: f64,
    /// In each thread.
    ns_per_id: Option<f64>,
    /// Rounds of each kind.
    rounds: usize,
    /// `ids_per_second` in relation to `fetch_add_per_second`: the median over all rounds.
    fetch_add_ratio: Option<f64>,
    /// The lowest and the highest.
    fetch_add_ratio_range: Option<[f64; 2]>,
    /// `ns_per_id` in relation to `ns_per_addition`: the median over all rounds.
    addition_ratio: Option<f64>,
    addition_ratio_range: Option<[f64; 2]>,
    /// Additions to one counter by all threads, with `AtomicU64::fetch_add`: the median.
    fetch_add_per_second: Option<f64>,
    /// An addition to a counter of the thread's own: the median.
    ns_per_addition: Option<f64>,
    /// Whether the speed and the ratios contain the time of the uniqueness check.
    check_included: bool,
    latency_ns: LatencyView,
    /// Calls that found no ID, and waited for a refill or an error. They are not in `latency_ns`.
    waits: u64,
    longest_wait_ms: f64,
    /// The sum over all threads.
    waited_seconds: f64,
    /// Chunks that leafd has leased to the pool.
    refills: u64,
    /// Stretches in which the pool could not lease.
    outages: u64,
    outages_by_name: BTreeMap<String, u64>,
    longest_outage_ms: f64,
    /// Errors that calls got.
    errors: u64,
    errors_by_name: BTreeMap<String, u64>,
    errors_by_code: Vec<ErrorKind>,
    pool: StatsView,
    #[serde(flatten)]
    verification: Option<Verification>,
    #[serde(skip)]
    outage_kinds: Vec<ErrorKind>,
}

/// Times of sampled calls in ns. Each includes the reading of the clock, `clock`.
#[derive(Debug, Serialize)]
struct LatencyView {
    samples: u64,
    clock: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    p99_99: u64,
    max: u64,
}

/// All errors of one kind.
#[derive(Debug, Serialize)]
struct ErrorKind {
    /// `None` if the client itself found it.
    code: Option<u16>,
    name: &'static str,
    count: u64,
    /// The message of the last one.
    message: String,
}

/// The counters of the pool at the end, in IDs.
#[derive(Debug, Serialize)]
struct StatsView {
    leased: u64,
    issued: u64,
    /// Not used when the run ended.
    held: u64,
    /// The same, in what local handles gave back.
    lent: u64,
    /// Nobody gets them: too old, or taken at the moment of a refill.
    lost: u64,
    /// Attempts to lease that failed.
    failures: u64,
    /// The size of a chunk.
    chunk: u64,
}

impl PoolReport {
    pub(super) fn new(run: &PoolRun<'_>, verifier: Option<&Verifier>) -> Self {
        let PoolRun { plan, figures, stats, outages, .. } = run;
        let ids_per_second = figures.ids_per_second();
        let ns_each = |per_second: f64| {
            (per_second > 0.0).then(|| rounded(run.threads as f64 * 1e9 / per_second, 3))
        };
        let ratio = |series: &Series| series.median().map(|ratio| rounded(ratio, 4));
        let range = |series: &Series| series.range().map(|range| range.map(|end| rounded(end, 4)));
        let ms = |wait: Duration| rounded(wait.as_secs_f64() * 1000.0, 6);
        Self {
            mode: match run.mode {
                PoolMode::Ordered => "ordered",
                PoolMode::PerThread => "per-thread",
            },
            threads: run.threads,
            tag: match &plan.target {
                Target::Tag(tag) | Target::Tags(tag, _) => Some(tag.clone()),
                Target::Snowflake => None,
            },
            duration_seconds: rounded(run.measured.as_secs_f64(), 6),
            ids: figures.ids,
            ids_per_second: rounded(ids_per_second, 1),
            ns_per_id: ns_each(ids_per_second),
            rounds: figures.fetch_add_ratios.len(),
            fetch_add_ratio: ratio(&figures.fetch_add_ratios),
            fetch_add_ratio_range: range(&figures.fetch_add_ratios),
            addition_ratio: ratio(&figures.addition_ratios),
            addition_ratio_range: range(&figures.addition_ratios),
            fetch_add_per_second: figures.fetch_adds.median().map(|speed| rounded(speed, 1)),
            ns_per_addition: figures.additions.median().and_then(ns_each),
            check_included: verifier.is_some(),
            latency_ns: LatencyView::new(&figures.latencies),
            waits: figures.waits.count,
            longest_wait_ms: ms(figures.waits.longest),
            waited_seconds: rounded(figures.waits.total.as_secs_f64(), 6),
            refills: stats.refills,
            outages: outages.errors.total(),
            outages_by_name: by_name(&outages.errors),
            longest_outage_ms: ms(outages.longest),
            errors: figures.errors.total(),
            errors_by_name: by_name(&figures.errors),
            errors_by_code: kinds(&figures.errors),
            pool: StatsView {
                leased: stats.leased,
                issued: stats.issued,
                held: stats.held,
                lent: stats.lent,
                lost: stats.lost,
                failures: stats.failures,
                chunk: stats.chunk,
            },
            verification: verifier.map(Verification::new),
            outage_kinds: kinds(&outages.errors),
        }
    }

    pub(super) fn print<W: Write>(&self, json: bool, out: &mut Output<W>) -> Result<(), Failure> {
        if json {
            return out.json(self);
        }
        let what = self
            .tag
            .as_ref()
            .map_or_else(|| "snowflake".to_owned(), |tag| format!("tag {}", harmless(tag)));
        let threads =
            if self.threads == 1 { "1 thread" } else { &format!("{} threads", self.threads) };
        out.line(format_args!("{what}, measured for {:.1} s", self.duration_seconds))?;
        out.line(format_args!("load         pool {}, {threads}", self.mode))?;
        let check = if self.check_included { ", with the time of the check" } else { "" };
        out.line(format_args!("IDs/s        {}{check}", grouped(self.ids_per_second as u64)))?;
        if let Some(ns) = self.ns_per_id {
            out.line(format_args!("per ID       {ns:.2} ns in each thread"))?;
        }
        if let (Some(ratio), Some([low, high])) = (self.fetch_add_ratio, self.fetch_add_ratio_range)
        {
            out.line(format_args!(
                "fetch_add    {ratio:.2} of the speed of a shared AtomicU64 ({low:.2} to {high:.2})"
            ))?;
        }
        if let (Some(ratio), Some([low, high])) = (self.addition_ratio, self.addition_ratio_range) {
            out.line(format_args!(
                "addition     {ratio:.2} × the time of adding to a number ({low:.2} to {high:.2})"
            ))?;
        }
        let LatencyView { clock, p50, p90, p99, p99_9, p99_99, max, .. } = self.latency_ns;
        out.line(format_args!(
            "latency      p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p99_9}  p99.99 {p99_99}  max {max} ns"
        ))?;
        out.line(format_args!("             of which the clock takes {clock:.0} ns"))?;
        self.print_trouble(out)?;
        self.verification.as_ref().map_or(Ok(()), |verification| verification.print(out))
    }

    /// The waits and errors of calls, and the pool's own trouble with leafd.
    fn print_trouble<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        out.line(match self.waits {
            0 => "waits        0".to_owned(),
            waits => format!(
                "waits        {}, the longest {:.1} ms, {:.1} s in all threads",
                grouped(waits),
                self.longest_wait_ms,
                self.waited_seconds
            ),
        })?;
        out.line(format_args!(
            "refills      {}, outages {}, IDs lost {}",
            grouped(self.refills),
            grouped(self.outages),
            grouped(self.pool.lost)
        ))?;
        print_kinds(&self.outage_kinds, out)?;
        out.line(format_args!("errors       {}", grouped(self.errors)))?;
        print_kinds(&self.errors_by_code, out)
    }
}

fn print_kinds<W: Write>(kinds: &[ErrorKind], out: &mut Output<W>) -> Result<(), Failure> {
    for ErrorKind { code, name, count, message } in kinds {
        let (count, message) = (grouped(*count), harmless(message));
        match code {
            Some(code) => {
                let code = ErrorCode::from_number(*code);
                out.line(format_args!("             {count} × {code}: {message}"))?;
            }
            None => out.line(format_args!("             {count} × {name}: {message}"))?,
        }
    }
    Ok(())
}

/// The names of errors, or the numbers of those that this leafctl does not know.
fn by_name(errors: &ErrorTally) -> BTreeMap<String, u64> {
    let named = errors.kinds().map(|(number, name, kind)| {
        let is_unknown = number != 0 && name == "Other";
        (if is_unknown { number.to_string() } else { name.to_owned() }, kind.count)
    });
    named.collect()
}

fn kinds(errors: &ErrorTally) -> Vec<ErrorKind> {
    let kinds = errors.kinds().map(|(number, name, kind)| ErrorKind {
        code: (number != 0).then_some(number),
        name,
        count: kind.count,
        message: kind.message.clone(),
    });
    kinds.collect()
}

impl LatencyView {
    fn new(histogram: &Histogram<u64>) -> Self {
        let quantile = |q: f64| histogram.value_at_quantile(q);
        Self {
            samples: histogram.len(),
            clock: clock_ns(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: histogram.max(),
        }
    }
}

/// What the clock adds to each sample, in ns: the median of many empty ones.
fn clock_ns() -> f64 {
    let mut empty: Vec<_> = (0..1001).map(|_| Instant::now().elapsed().as_nanos()).collect();
    empty.sort_unstable();
    empty.get(empty.len() / 2).map_or(0.0, |ns| *ns as f64)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
