//! Exponential backoff, bounded and with jitter, so that a fleet does not retry in step. No clock
//! and no IO.

use std::time::Duration;

/// The delays between retries after consecutive failures.
#[derive(Debug)]
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    /// Doubles from `least` up to `most`.
    #[must_use]
    pub(crate) fn new(least: Duration, most: Duration, seed: u64) -> Self {
        Self { least, most, failures: 0, random: fastrand::Rng::with_seed(seed) }
    }

    /// For stores: short enough to work again within 2 s of a store's return.
    #[must_use]
    pub(crate) fn for_stores(seed: u64) -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(1), seed)
    }

    #[must_use]
    pub(crate) fn for_disks(seed: u64) -> Self {
        Self::new(Duration::from_millis(20), Duration::from_secs(1), seed)
    }

    /// The delay after one more failure: half to all of the doubled time.
    #[must_use]
    pub(crate) fn fail(&mut self) -> Duration {
        let full = self.least.saturating_mul(1 << self.failures.min(16)).min(self.most);
        self.failures = self.failures.saturating_add(1);
        full / 2 + full.mul_f64(self.random.f64() / 2.0)
    }

    /// Call this after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound_and_begin_again_after_a_success() {
        let (least, most) = (Duration::from_millis(50), Duration::from_secs(1));
        let mut backoff = Backoff::new(least, most, 7);
        for (failure, full) in [50, 100, 200, 400, 800, 1000, 1000].into_iter().enumerate() {
            let (rest, full) = (backoff.fail(), Duration::from_millis(full));
            assert!(rest >= full / 2 && rest <= full, "failure {failure}: {rest:?}");
        }
        backoff.reset();
        assert!(backoff.fail() <= least);
        for _ in 0..1000 {
            assert!(backoff.fail() <= most);
        }
    }
}
