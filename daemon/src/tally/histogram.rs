//! How long something took, in fixed buckets. Recording takes two additions, so it can be done wherever
//! a task waits for a disk or a store anyway; it has no place on the path of a request that memory
//! answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The inclusive upper bounds of the buckets, in tenths of a millisecond. A last bucket takes the rest.
/// From a write that a fast disk takes to a call that runs into every timeout.
const BOUNDS: [u64; 16] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000];

/// The bounds of the buckets, in milliseconds.
pub(crate) const BOUNDS_MS: [f64; BOUNDS.len()] = {
    let mut ms = [0.0; BOUNDS.len()];
    let mut index = 0;
    while index < BOUNDS.len() {
        #[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
        {
            ms[index] = BOUNDS[index] as f64 / 10.0;
        }
        index += 1;
    }
    ms
};

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct DurationHistogram {
    buckets: [AtomicU64; BOUNDS.len()],
    beyond: AtomicU64,
    micros: AtomicU64,
}

/// What a histogram held at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HistogramReading {
    /// The count of each bucket of [`BOUNDS_MS`] alone, not of those below.
    pub(crate) buckets: [u64; BOUNDS.len()],
    /// What took longer than the last bound.
    pub(crate) beyond: u64,
    pub(crate) sum: Duration,
}

impl DurationHistogram {
    pub(crate) fn record(&self, took: Duration) {
        let tenths = took.as_micros().div_ceil(100);
        let fits = |bound: &u64| tenths <= u128::from(*bound);
        let bucket = BOUNDS.iter().position(fits).and_then(|index| self.buckets.get(index));
        bucket.unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> HistogramReading {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        HistogramReading {
            buckets,
            beyond: self.beyond.load(Ordering::Relaxed),
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}

impl HistogramReading {
    /// How many durations there were.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum::<u64>() + self.beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_holds_it() {
        let histogram = DurationHistogram::default();
        for micros in [0, 100, 101, 10_000_000, 10_000_001, 3_600_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let reading = histogram.read();
        assert_eq!(reading.buckets[..3], [2, 1, 0]);
        assert_eq!(reading.buckets[15], 1);
        assert_eq!((reading.beyond, reading.count()), (2, 6));
        assert_eq!(reading.sum, Duration::from_micros(3_620_000_202));
    }

    #[test]
    fn the_bounds_rise_from_a_tenth_of_a_millisecond_to_ten_seconds() {
        assert!(BOUNDS_MS.is_sorted());
        assert_eq!((BOUNDS_MS[0], BOUNDS_MS[15]), (0.1, 10_000.0));
    }
}
