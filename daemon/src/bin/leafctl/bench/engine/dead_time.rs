//! How long a run got no IDs: the stretches between two answers with IDs that are longer than an
//! ordinary wait. No clock; time comes in as an argument.

use std::time::Duration;

use super::{Nanos, nanos};

/// A shorter stretch without IDs is latency, which the histogram has.
const SHORTEST: Duration = Duration::from_millis(100);

/// The stretches without IDs, from the start of the measurement on.
#[derive(Debug, Default)]
pub(crate) struct DeadTime {
    began: Nanos,
    /// When IDs last came; at first the start of the measurement.
    last: Nanos,
    total: Nanos,
    stretches: u64,
    longest: Option<Stretch>,
}

/// A stretch of time without IDs, in ns since the start of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) from: Nanos,
    pub(crate) length: Nanos,
}

impl DeadTime {
    /// The measurement begins.
    pub(super) fn begin(&mut self, now: Nanos) {
        *self = Self { began: now, last: now, ..Self::default() };
    }

    /// IDs have come.
    #[inline]
    pub(super) fn alive(&mut self, now: Nanos) {
        if now.saturating_sub(self.last) >= nanos(SHORTEST) {
            self.add(now);
        }
        self.last = self.last.max(now);
    }

    /// The measurement is over; nothing is dead afterwards.
    pub(super) fn end(&mut self, now: Nanos) {
        self.alive(now);
        self.last = Nanos::MAX;
    }

    #[cold]
    fn add(&mut self, now: Nanos) {
        let length = now.saturating_sub(self.last);
        self.total = self.total.saturating_add(length);
        self.stretches += 1;
        if self.longest.is_none_or(|longest| length > longest.length) {
            self.longest = Some(Stretch { from: self.last.saturating_sub(self.began), length });
        }
    }

    /// The sum of all stretches.
    pub(crate) fn total(&self) -> Nanos {
        self.total
    }

    pub(crate) fn stretches(&self) -> u64 {
        self.stretches
    }

    /// `None` if there was no stretch.
    pub(crate) fn longest(&self) -> Option<Stretch> {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn only_stretches_between_start_and_end_count_and_only_long_ones() {
        let mut dead = DeadTime::default();
        dead.begin(1000 * MS);
        for ms in [1050, 1149, 2149, 2150, 2450] {
            dead.alive(ms * MS);
        }
        assert_eq!((dead.stretches(), dead.total()), (2, 1300 * MS));
        assert_eq!(dead.longest(), Some(Stretch { from: 149 * MS, length: 1000 * MS }));
        dead.end(2500 * MS);
        dead.alive(9000 * MS);
        assert_eq!((dead.stretches(), dead.total()), (2, 1300 * MS));
    }

    #[test]
    fn a_run_without_ids_at_its_beginning_or_its_end_was_dead_there() {
        let mut dead = DeadTime::default();
        dead.begin(0);
        dead.alive(300 * MS);
        dead.end(5300 * MS);
        assert_eq!((dead.stretches(), dead.total()), (2, 5300 * MS));
        assert_eq!(dead.longest(), Some(Stretch { from: 300 * MS, length: 5000 * MS }));
    }
}
