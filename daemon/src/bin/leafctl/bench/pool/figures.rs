//! What the rounds of a run add up to. Pure: the times of a round come in as arguments.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::trouble::{ErrorTally, Waits};
use crate::exit::Failure;

/// Longest call that the histogram can tell from longer ones, in ns: an hour.
const MAX_LATENCY: u64 = 3_600_000_000_000;

/// A round: all threads do the same, for the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundKind {
    /// Take IDs from the pool, as fast as possible.
    Take,
    /// Add to one shared counter.
    FetchAdd,
    /// Add to a counter of each thread.
    Addition,
    /// Take IDs from the pool, and time some calls.
    Sample,
}

/// Rounds alternate, so that whatever else the machine does hits all kinds alike.
pub(super) const CYCLE: [RoundKind; 4] =
    [RoundKind::Take, RoundKind::FetchAdd, RoundKind::Addition, RoundKind::Sample];

/// A round lasts so long at most, and in a short run so much less that there are several of each kind.
const LONGEST_ROUND: Duration = Duration::from_millis(100);
const SHORTEST_ROUND: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 40;

/// How long each round of a run of this length lasts.
pub(super) fn round_length(duration: Duration) -> Duration {
    (duration / ROUNDS).clamp(SHORTEST_ROUND, LONGEST_ROUND)
}

/// One thread's part of a round.
#[derive(Debug)]
pub(super) struct RoundPart {
    pub(super) thread: usize,
    /// Numbers that the thread got.
    pub(super) taken: u64,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) waits: Waits,
    pub(super) errors: ErrorTally,
    /// Times of single calls in ns.
    pub(super) samples: Vec<u64>,
}

/// What one thread took in all rounds that count for the speed, and in which time.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadTotal {
    taken: u64,
    time: Duration,
}

/// The figures of a run.
#[derive(Debug)]
pub(super) struct Figures {
    /// IDs that all threads got, in the warm-up too.
    pub(super) ids: u64,
    pub(super) waits: Waits,
    pub(super) errors: ErrorTally,
    /// Times of sampled calls in ns.
    pub(super) latencies: Histogram<u64>,
    totals: Vec<ThreadTotal>,
    /// Speeds of the present cycle, in numbers per second.
    pool: Option<f64>,
    fetch_add: Option<f64>,
    pub(super) fetch_adds: Series,
    pub(super) additions: Series,
    pub(super) fetch_add_ratios: Series,
    pub(super) addition_ratios: Series,
}

impl Figures {
    /// # Errors
    /// `Usage` if the histogram rejects its bounds, which are constants.
    pub(super) fn new(threads: usize) -> Result<Self, Failure> {
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, 3)
            .map_err(|error| Failure::Usage(format!("cannot create a histogram: {error}")))?;
        Ok(Self {
            ids: 0,
            waits: Waits::default(),
            errors: ErrorTally::default(),
            latencies,
            totals: vec![ThreadTotal::default(); threads],
            pool: None,
            fetch_add: None,
            fetch_adds: Series::default(),
            additions: Series::default(),
            fetch_add_ratios: Series::default(),
            addition_ratios: Series::default(),
        })
    }

    /// Adds a round of the warm-up, of which only the IDs count.
    pub(super) fn add_warm_up(&mut self, parts: &[RoundPart]) {
        self.ids += parts.iter().map(|part| part.taken).sum::<u64>();
    }

    /// Adds a round of the measurement.
    pub(super) fn add(&mut self, kind: RoundKind, parts: Vec<RoundPart>) {
        let Some(began) = parts.iter().map(|part| part.began).min() else { return };
        let speed = speed(parts.iter().map(|part| (part.taken, part.ended - began)));
        match kind {
            RoundKind::Take => {
                for RoundPart { thread, taken, ended, .. } in &parts {
                    if let Some(total) = self.totals.get_mut(*thread) {
                        total.taken += taken;
                        total.time += *ended - began;
                    }
                }
                self.pool = Some(speed);
            }
            RoundKind::FetchAdd => {
                self.fetch_adds.add(speed);
                self.fetch_add = Some(speed);
            }
            RoundKind::Addition => {
                self.additions.add(speed);
                if let (Some(pool), Some(fetch_add)) = (self.pool.take(), self.fetch_add.take()) {
                    self.fetch_add_ratios.add(pool / fetch_add);
                    // Both by as many threads, so it is the ratio of the times, too.
                    self.addition_ratios.add(speed / pool);
                }
            }
            RoundKind::Sample => {}
        }
        let are_ids = matches!(kind, RoundKind::Take | RoundKind::Sample);
        for part in parts {
            self.ids += if are_ids { part.taken } else { 0 };
            self.waits.merge(part.waits);
            self.errors.merge(part.errors);
            for sample in part.samples {
                self.latencies.saturating_record(sample.max(1));
            }
        }
    }

    /// IDs per second of all threads together: what each has taken in the time of its rounds.
    pub(super) fn ids_per_second(&self) -> f64 {
        speed(self.totals.iter().map(|total| (total.taken, total.time)))
    }
}

/// Numbers per second of all threads together.
fn speed(threads: impl Iterator<Item = (u64, Duration)>) -> f64 {
    let per_second = |(taken, time): (u64, Duration)| {
        if time.is_zero() { 0.0 } else { taken as f64 / time.as_secs_f64() }
    };
    threads.map(per_second).sum()
}

/// A figure of each cycle.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(Vec<f64>);

impl Series {
    /// Adds a figure. One that a cycle did not have, since it got no ID, is left out.
    fn add(&mut self, figure: f64) {
        if figure.is_finite() {
            self.0.push(figure);
        }
    }

    /// The median.
    pub(super) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (low, high) =
            (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
        Some(f64::midpoint(*low, *high))
    }

    /// The lowest and the highest.
    pub(super) fn range(&self) -> Option<[f64; 2]> {
        let low = self.0.iter().copied().reduce(f64::min)?;
        Some([low, self.0.iter().copied().reduce(f64::max)?])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(thread: usize, taken: u64, began: Instant, ms: u64) -> RoundPart {
        let (waits, errors) = Default::default();
        let ended = began + Duration::from_millis(ms);
        RoundPart { thread, taken, began, ended, waits, errors, samples: Vec::new() }
    }

    #[test]
    fn ratios_compare_rounds_of_one_cycle() {
        let (mut figures, now) = (Figures::new(2).unwrap(), Instant::now());
        let both = |taken, ms| vec![part(0, taken, now, ms), part(1, taken, now, ms)];
        for slower in [1, 2, 4] {
            figures.add(RoundKind::Take, both(8000 / slower, 100));
            figures.add(RoundKind::FetchAdd, both(10_000, 100));
            figures.add(RoundKind::Addition, both(16_000, 100));
            figures.add(RoundKind::Sample, both(50, 100));
        }
        assert_eq!(figures.fetch_add_ratios.median(), Some(0.4));
        assert_eq!(figures.fetch_add_ratios.range(), Some([0.2, 0.8]));
        assert_eq!(figures.addition_ratios.median(), Some(4.0));
        assert_eq!(figures.additions.median(), Some(320_000.0));
        // 14,000 in 300 ms in each thread.
        assert!((figures.ids_per_second() - 28_000.0 / 0.3).abs() < 1.0);
        assert_eq!(figures.ids, 28_000 + 300);
    }

    #[test]
    fn a_thread_that_waits_beyond_the_round_does_not_slow_the_others() {
        let (mut figures, now) = (Figures::new(2).unwrap(), Instant::now());
        let late = now + Duration::from_millis(50);
        figures.add(RoundKind::Take, vec![part(0, 1000, now, 100), part(1, 1000, late, 950)]);
        assert!((figures.ids_per_second() - 11_000.0).abs() < 1.0);
    }

    #[test]
    fn a_cycle_without_ids_has_a_ratio_of_zero_and_no_time_per_id() {
        let (mut figures, now) = (Figures::new(1).unwrap(), Instant::now());
        for kind in CYCLE {
            let taken = if matches!(kind, RoundKind::Take | RoundKind::Sample) { 0 } else { 10 };
            figures.add(kind, vec![part(0, taken, now, 100)]);
        }
        assert_eq!(figures.fetch_add_ratios.median(), Some(0.0));
        assert_eq!(
            (figures.addition_ratios.median(), figures.addition_ratios.range()),
            (None, None)
        );
        assert_eq!(figures.ids_per_second(), 0.0);
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let median = |figures: &[f64]| Series(figures.to_vec()).median();
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn a_short_run_has_short_rounds() {
        let length = |ms| round_length(Duration::from_millis(ms)).as_millis();
        assert_eq!([1, 200, 5000, 3_600_000].map(length), [1, 5, 100, 100]);
    }
}
