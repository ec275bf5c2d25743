//! Numbers that rooms keep about their work, for the metrics: plain atomics, read at a scrape. Nothing
//! here knows what a metric is called or who reads it.

mod histogram;
mod requests;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use histogram::{BOUNDS_MS, DurationHistogram, HistogramReading};
pub(crate) use requests::{BatchTally, CallKind, RequestTally};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
