//! When to connect again. The first attempt after a working connection is immediate. After attempts
//! without an answer the pauses double, with jitter, so that the clients of a restarted daemon do
//! not all arrive at once.

use std::time::{Duration, Instant};

/// A daemon that asks for a longer pause than this is asked again all the same: it may be another one by then.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

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

    /// Notes that an attempt failed or the connection ended. `jitter` is a random number in 0..1,
    /// `retry_after` what the daemon asked for: zero if nothing.
    pub(crate) fn lost(&mut self, now: Instant, jitter: f64, retry_after: Duration) {
        let pause = if std::mem::take(&mut self.answered) {
            self.fruitless = 0;
            Duration::ZERO
        } else {
            let doublings = self.fruitless.min(20);
            self.fruitless = self.fruitless.saturating_add(1);
            let pause = self.min.saturating_mul(1 << doublings).min(self.max);
            pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
        };
        self.not_before = now.checked_add(pause.max(retry_after.min(MAX_RETRY_AFTER)));
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
                backoff.lost(now, jitter, Duration::ZERO);
                assert_eq!(backoff.pause(now), expected * MS / divisor);
            }
            for _ in 0..100 {
                backoff.lost(now, jitter, Duration::ZERO);
            }
            assert_eq!(backoff.pause(now), 500 * MS / divisor);
        }
    }

    #[test]
    fn time_that_has_passed_shortens_the_pause() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        backoff.lost(now, 0.0, Duration::ZERO);
        assert_eq!(backoff.pause(now + 2 * MS), 3 * MS);
        assert_eq!(backoff.pause(now + 9 * MS), Duration::ZERO);
    }

    #[test]
    fn only_the_first_attempt_after_an_answer_is_immediate() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        for _ in 0..9 {
            backoff.lost(now, 0.0, Duration::ZERO);
        }
        backoff.answered();
        backoff.lost(now, 0.0, Duration::ZERO);
        assert_eq!(backoff.pause(now), Duration::ZERO);
        // The next connection completes the handshake but answers no call.
        backoff.lost(now, 0.0, Duration::ZERO);
        assert_eq!(backoff.pause(now), 5 * MS);
    }

    #[test]
    fn a_pause_that_the_daemon_asks_for_is_kept_up_to_a_minute() {
        let now = Instant::now();
        let mut backoff = Backoff::new((5 * MS, 500 * MS));
        backoff.lost(now, 0.0, 700 * MS);
        assert_eq!(backoff.pause(now), 700 * MS);
        // A shorter one does not shorten the pause, and a working connection does not shorten this one.
        backoff.lost(now, 0.0, MS);
        assert_eq!(backoff.pause(now), 10 * MS);
        backoff.answered();
        backoff.lost(now, 0.0, 300 * MS);
        assert_eq!(backoff.pause(now), 300 * MS);
        backoff.lost(now, 0.0, Duration::MAX);
        assert_eq!(backoff.pause(now), MAX_RETRY_AFTER);
    }
}
