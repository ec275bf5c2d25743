//! When to connect again. A connection that was in use is replaced at once; after attempts that
//! led nowhere the pauses double, with jitter, so that the clients of a daemon that comes back do
//! not all arrive together.

use std::time::{Duration, Instant};

/// The pauses between attempts to connect.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    /// Attempts since the last answer; what grows the pause.
    fruitless: u32,
    /// Whether the connection of the last attempt gave an answer. To be let in is not enough: a
    /// daemon that greets and then fails must not be called in a tight loop.
    answered: bool,
    not_before: Option<Instant>,
}

impl Backoff {
    pub(crate) const fn new((min, max): (Duration, Duration)) -> Self {
        Self { min, max, fruitless: 0, answered: false, not_before: None }
    }

    /// A call was answered on the connection.
    pub(crate) const fn answered(&mut self) {
        self.answered = true;
    }

    /// An attempt failed or a connection ended. `jitter` is a random number in 0..1.
    pub(crate) fn lost(&mut self, now: Instant, jitter: f64) {
        if std::mem::take(&mut self.answered) {
            self.fruitless = 0;
            self.not_before = None;
            return;
        }
        let doublings = self.fruitless.min(20);
        self.fruitless = self.fruitless.saturating_add(1);
        let pause = self.min.saturating_mul(1 << doublings).min(self.max);
        let pause = pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        self.not_before = now.checked_add(pause);
    }

    /// How long to wait from `now` before the next attempt.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_limit_and_are_cut_by_up_to_a_half() {
        let now = Instant::now();
        for (jitter, divisor) in [(0.0, 1), (1.0, 2)] {
            let mut backoff = Backoff::new((5 * MS, 500 * MS));
            assert_eq!(backoff.pause(now), Duration::ZERO);
            for expected in [5, 10, 20, 40, 80, 160, 320, 500, 500] {
                backoff.lost(now, jitter);
                assert_eq!(backoff.pause(now), expected * MS / divisor);
            }
            for _ in 0..100 {
                backoff.lost(now, jitter);
            }
            assert_eq!(backoff.pause(now), 500 * MS / divisor);
        }
    }

    #[test]
    fn time_that_has_passed_counts() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now + 2 * MS), 3 * MS);
        assert_eq!(backoff.pause(now + 9 * MS), Duration::ZERO);
    }

    #[test]
    fn a_connection_that_was_in_use_is_replaced_at_once_but_only_once() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        for _ in 0..9 {
            backoff.lost(now, 0.0);
        }
        backoff.answered();
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now), Duration::ZERO);
        // The next one is let in but gives no answer.
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now), 5 * MS);
    }
}
