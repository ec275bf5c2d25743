//! Whether the store works, as its calls tell. A plain state machine; time comes in as an argument.
//!
//! A store that is down for one tag is down for all: no lease is tried until a probe has gone
//! well, so that thousands of drained tags do not storm a database that is just coming back. A
//! probe proves little (a full disk takes it), so the store counts as working again only when a
//! lease has gone well, or when nothing has failed for a while.

use std::time::Duration;

use crate::backoff::Backoff;

/// After a good probe, so long without a failure counts as working.
const SETTLED: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum State {
    Working,
    /// Probes are made and no leases.
    Failing {
        error: String,
        next_probe: Duration,
    },
    /// A probe has gone well, and leases are made again.
    Trying {
        error: String,
        settled: Duration,
    },
}

/// Of one store.
#[derive(Debug)]
pub struct Health {
    state: State,
    /// When a lease last went well.
    worked: Option<Duration>,
    backoff: Backoff,
}

impl Health {
    /// Nothing is known, so nothing is wrong. `seed` feeds the jitter of the probes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: State::Working, worked: None, backoff: Backoff::for_stores(seed) }
    }

    /// A call that was `begun` at that time found the store down. Says whether that is news for
    /// people.
    pub fn failed(&mut self, now: Duration, begun: Duration, error: &str) -> bool {
        if self.worked.is_some_and(|worked| begun < worked) {
            // A call of an earlier outage, or on a connection that nobody else uses.
            return false;
        }
        let news = matches!(self.state, State::Working);
        self.state = match std::mem::replace(&mut self.state, State::Working) {
            State::Failing { next_probe, .. } => {
                State::Failing { error: error.to_owned(), next_probe }
            }
            State::Working | State::Trying { .. } => {
                State::Failing { error: error.to_owned(), next_probe: now + self.backoff.fail() }
            }
        };
        news
    }

    /// A lease went well. Says whether that is news for people.
    pub fn worked(&mut self, now: Duration) -> bool {
        self.worked = Some(now);
        let news = !matches!(self.state, State::Working);
        self.state = State::Working;
        self.backoff.reset();
        news
    }

    /// Whether to probe now. The outcome goes to [`Self::failed`] or [`Self::probe_worked`].
    pub fn poll_probe(&mut self, now: Duration) -> bool {
        match &mut self.state {
            State::Failing { next_probe, .. } if now >= *next_probe => {
                *next_probe = now + self.backoff.fail();
                true
            }
            _ => false,
        }
    }

    /// A probe went well: leases may be tried.
    pub fn probe_worked(&mut self, now: Duration) {
        self.state = match std::mem::replace(&mut self.state, State::Working) {
            State::Failing { error, .. } => State::Trying { error, settled: now + SETTLED },
            state => state,
        };
    }

    /// Takes notice of the time. Says whether the store counts as working from now on, which it
    /// did not before.
    pub fn settle(&mut self, now: Duration) -> bool {
        matches!(self.state, State::Trying { settled, .. } if now >= settled) && self.worked(now)
    }

    /// Whether leases may be tried.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Failing { .. })
    }

    /// When [`Self::poll_probe`] or [`Self::settle`] is worth asking.
    #[must_use]
    pub const fn wake(&self) -> Option<Duration> {
        match self.state {
            State::Working => None,
            State::Failing { next_probe: at, .. } | State::Trying { settled: at, .. } => Some(at),
        }
    }

    /// What is wrong, as far as it is known.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.state {
            State::Working => None,
            State::Failing { error, .. } | State::Trying { error, .. } => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_store_that_is_down_is_probed_ever_more_rarely_and_not_less_than_once_a_second() {
        let mut health = Health::new(1);
        assert!(health.is_open() && health.wake().is_none());
        assert!(health.failed(Duration::ZERO, Duration::ZERO, "refused"));
        let mut probes = Vec::new();
        while let Some(at) = health.wake().filter(|at| *at < 10 * SECOND) {
            assert!(!health.poll_probe(at - Duration::from_nanos(1)));
            assert!(health.poll_probe(at) && !health.is_open());
            assert!(!health.failed(at, at, "refused still"), "told once");
            probes.push(at);
        }
        assert!((10..30).contains(&probes.len()), "{probes:?}");
        assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= SECOND), "{probes:?}");
        assert_eq!(health.error(), Some("refused still"));
    }

    #[test]
    fn after_a_good_probe_a_lease_decides() {
        let mut health = Health::new(1);
        health.failed(Duration::ZERO, Duration::ZERO, "disk full");
        health.probe_worked(SECOND);
        assert!(health.is_open() && health.error() == Some("disk full"));
        assert!(!health.failed(SECOND, SECOND, "disk full"), "no news");
        assert!(!health.is_open());
        health.probe_worked(2 * SECOND);
        assert!(health.worked(3 * SECOND) && health.error().is_none());
        assert!(!health.worked(3 * SECOND), "told once");
    }

    #[test]
    fn failures_after_good_probes_do_not_make_the_probes_more_frequent() {
        let mut health = Health::new(1);
        let mut now = Duration::ZERO;
        let mut probes = 0;
        while now < 20 * SECOND {
            health.failed(now, now, "disk full");
            now = health.wake().unwrap();
            assert!(health.poll_probe(now));
            health.probe_worked(now);
            probes += 1;
        }
        assert!(probes < 60, "{probes}");
    }

    #[test]
    fn after_a_good_probe_a_while_without_failure_is_enough() {
        let mut health = Health::new(1);
        health.failed(Duration::ZERO, Duration::ZERO, "refused");
        health.probe_worked(SECOND);
        assert_eq!(health.wake(), Some(SECOND + SETTLED));
        assert!(!health.settle(SECOND));
        assert!(health.settle(SECOND + SETTLED) && health.error().is_none());
        assert!(!health.settle(100 * SECOND));
    }

    #[test]
    fn the_late_failure_of_an_earlier_call_does_not_undo_a_lease_that_went_well_since() {
        let mut health = Health::new(1);
        health.failed(SECOND, Duration::ZERO, "hangs");
        health.probe_worked(2 * SECOND);
        health.worked(3 * SECOND);
        assert!(!health.failed(4 * SECOND, SECOND, "hung"));
        assert!(health.is_open() && health.error().is_none());
        assert!(health.failed(4 * SECOND, 3 * SECOND, "hangs again"));
    }
}
