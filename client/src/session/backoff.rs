//! When to connect again. The first attempt after a working connection is immediate. After attempts
//! without an answer the pauses double, with jitter, so that the clients of a restarted daemon do
//! not all arrive at once.

use std::time::{Duration, Instant};

/// The pauses between attempts to connect.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    /// Attempts since the last answer. Each doubles the pause.
    fruitless: u32,
    /// Whether the last connection answered a call. A completed handshake is not enough: otherwise
    /// a daemon that says hello and then fails would be called in a tight loop.
    answered: bool,
    not_before: Option<Instant>,
}

impl Backoff {
    pub(crate) const fn new((min, max): (Duration, Duration)) -> Self {
        Self { min, max, fruitless: 0, answered: false, not_before: None }
    }

    /// Notes that a call was answered on the present connection.
    pub(crate) const fn answered(&mut self) {
        self.answered = true;
    }

    /// Notes that an attempt failed or the connection ended. `jitter` is a random number in 0..1.
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

    /// The time to wait from `now` before the next attempt.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_limit_and_jitter_shortens_them_by_up_to_half() {
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
    fn time_that_has_passed_shortens_the_pause() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now + 2 * MS), 3 * MS);
        assert_eq!(backoff.pause(now + 9 * MS), Duration::ZERO);
    }

    #[test]
    fn only_the_first_attempt_after_an_answer_is_immediate() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        for _ in 0..9 {
            backoff.lost(now, 0.0);
        }
        backoff.answered();
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now), Duration::ZERO);
        // The next connection completes the handshake but answers no call.
        backoff.lost(now, 0.0);
        assert_eq!(backoff.pause(now), 5 * MS);
    }
}
