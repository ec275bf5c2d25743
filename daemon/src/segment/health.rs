//! Whether the store works, judged by the outcome of its calls. A plain state machine; time comes
//! in as an argument.
//!
//! A store that is down for one tag is down for all: leafd tries no lease until the store answers
//! again, so that thousands of drained tags do not storm a database that is just coming back. An
//! answer proves little, since a full disk gives one. Only a committed write shows that the store
//! works: a lease or, if no lease is needed, a write of the same kind.
//!
//! A working store that nothing is asked of is checked every few seconds, so that the log reports
//! its failure before somebody needs it.

use std::time::Duration;

use crate::backoff::Backoff;

/// The longest time between two checks of a working store. Together with the time that a check may
/// take (`store.timeout` for the connection and once more for the call), leafd notices a dead store
/// within 10 s at the default timeout.
const CHECK_EVERY: Duration = Duration::from_secs(4);

/// How soon after a good probe the store has to prove that it writes. Leases that requests wait for
/// are tried at once and prove it sooner.
const PROVE_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
enum HealthState {
    /// The last write was committed, or there was none.
    Working {
        /// `None` while a check is in flight.
        next_check: Option<Duration>,
    },
    /// The store does not answer, or refuses what every call needs. No lease is tried.
    Failing { error: String, next_probe: Duration },
    /// The store answers again, so leases are tried. It has not written anything yet.
    Unproven {
        error: String,
        /// `None` while a proof is in flight.
        next_proof: Option<Duration>,
    },
}

/// A call that finds out how the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreCheck {
    /// Is a working store still there?
    Look,
    /// Is a failing store back? On a new connection.
    Probe,
    /// Write as a lease does, without taking anything.
    Prove,
}

/// The health of one store.
#[derive(Debug)]
pub(crate) struct StoreHealth {
    state: HealthState,
    /// When a write was last committed.
    worked: Option<Duration>,
    backoff: Backoff,
    random: fastrand::Rng,
}

impl StoreHealth {
    /// Nothing is known, so nothing is wrong. `seed` feeds the jitter.
    pub(crate) fn new(seed: u64) -> Self {
        let state = HealthState::Working { next_check: None };
        let random = fastrand::Rng::with_seed(seed);
        let mut this = Self { state, worked: None, backoff: Backoff::for_stores(seed), random };
        this.answered(Duration::ZERO);
        this
    }

    /// Between three quarters of `most` and all of it from `now` on, so that hosts that started
    /// together drift apart.
    fn soon(&mut self, now: Duration, most: Duration) -> Duration {
        now + most.mul_f64(0.75 + self.random.f64() / 4.0)
    }

    /// A call that began at `begun` found the store down. Returns whether that is news for the log.
    pub(crate) fn failed(&mut self, now: Duration, begun: Duration, error: &str) -> bool {
        if self.worked.is_some_and(|worked| begun < worked) {
            // The call belongs to an earlier outage, or used a connection that nobody else uses.
            self.answered(now);
            return false;
        }
        let news = matches!(self.state, HealthState::Working { .. });
        let next_probe = match self.state {
            HealthState::Failing { next_probe, .. } => next_probe,
            HealthState::Working { .. } | HealthState::Unproven { .. } => now + self.backoff.fail(),
        };
        self.state = HealthState::Failing { error: error.to_owned(), next_probe };
        news
    }

    /// A write was committed. Returns whether that is news for the log.
    pub(crate) fn worked(&mut self, now: Duration) -> bool {
        self.worked = Some(now);
        let news = !matches!(self.state, HealthState::Working { .. });
        self.state = HealthState::Working { next_check: Some(self.soon(now, CHECK_EVERY)) };
        self.backoff.reset();
        news
    }

    /// The store answered, which it also does when its disk is full: the next check can wait.
    pub(crate) fn answered(&mut self, now: Duration) {
        let (check, proof) = (self.soon(now, CHECK_EVERY), self.soon(now, PROVE_WITHIN));
        match &mut self.state {
            HealthState::Working { next_check } => *next_check = Some(check),
            HealthState::Unproven { next_proof: next @ None, .. } => *next = Some(proof),
            HealthState::Unproven { .. } | HealthState::Failing { .. } => {}
        }
    }

    /// The check to make now, if one is due. A failure goes to [`Self::failed`]. Otherwise the
    /// outcome of a probe goes to [`Self::is_back`], of a proof to [`Self::worked`], of any other
    /// check to [`Self::answered`].
    pub(crate) fn poll_check(&mut self, now: Duration) -> Option<StoreCheck> {
        let due = |at: &mut Option<Duration>| at.take_if(|at| now >= *at).is_some();
        match &mut self.state {
            HealthState::Working { next_check } => due(next_check).then_some(StoreCheck::Look),
            HealthState::Unproven { next_proof, .. } => {
                due(next_proof).then_some(StoreCheck::Prove)
            }
            HealthState::Failing { next_probe, .. } => {
                let probe = now >= *next_probe;
                if probe {
                    *next_probe = now + self.backoff.fail();
                }
                probe.then_some(StoreCheck::Probe)
            }
        }
    }

    /// A probe succeeded: leases may be tried. Returns whether they could not before.
    pub(crate) fn is_back(&mut self, now: Duration) -> bool {
        let proof = self.soon(now, PROVE_WITHIN);
        let HealthState::Failing { error, .. } = &mut self.state else { return false };
        let error = std::mem::take(error);
        self.state = HealthState::Unproven { error, next_proof: Some(proof) };
        true
    }

    /// Whether leases may be tried.
    pub(crate) const fn is_open(&self) -> bool {
        !matches!(self.state, HealthState::Failing { .. })
    }

    /// When to call [`Self::poll_check`] next; `None` while the outcome of a check is awaited.
    pub(crate) const fn wake(&self) -> Option<Duration> {
        match self.state {
            HealthState::Working { next_check: at }
            | HealthState::Unproven { next_proof: at, .. } => at,
            HealthState::Failing { next_probe, .. } => Some(next_probe),
        }
    }

    /// What is wrong, as far as leafd knows.
    pub(crate) fn error(&self) -> Option<String> {
        match &self.state {
            HealthState::Working { .. } => None,
            HealthState::Failing { error, .. } => Some(error.clone()),
            HealthState::Unproven { error, .. } => {
                Some(format!("it answers again, but has not written anything since: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failing() -> StoreHealth {
        let mut health = StoreHealth::new(1);
        assert!(health.failed(Duration::ZERO, Duration::ZERO, "disk full"));
        health
    }

    /// Runs the checks that are due until `end`, with these answers of the store.
    fn run(
        health: &mut StoreHealth,
        from: Duration,
        end: Duration,
        mut answer: impl FnMut(StoreCheck) -> Result<(), &'static str>,
    ) -> Vec<(Duration, StoreCheck)> {
        let (mut checks, mut now) = (Vec::new(), from);
        while let Some(wake) = health.wake().filter(|wake| *wake < end) {
            now = now.max(wake);
            let Some(check) = health.poll_check(now) else { continue };
            checks.push((now, check));
            match (answer(check), check) {
                (Err(error), _) => drop(health.failed(now, now, error)),
                (Ok(()), StoreCheck::Probe) => drop(health.is_back(now)),
                (Ok(()), StoreCheck::Prove) => drop(health.worked(now)),
                (Ok(()), StoreCheck::Look) => health.answered(now),
            }
        }
        checks
    }

    #[test]
    fn a_store_that_is_down_is_probed_less_and_less_often_but_at_least_once_a_second() {
        let mut health = failing();
        let checks = run(&mut health, Duration::ZERO, 10 * SECOND, |_| Err("refused still"));
        assert!((10..30).contains(&checks.len()), "{checks:?}");
        assert!(checks.windows(2).all(|pair| pair[1].0 - pair[0].0 <= SECOND), "{checks:?}");
        assert!(checks.iter().all(|(_, check)| *check == StoreCheck::Probe));
        assert!(!health.is_open() && health.error().as_deref() == Some("refused still"));
        assert!(!health.failed(10 * SECOND, 10 * SECOND, "refused still"), "logged once");
    }

    #[test]
    fn a_store_that_answers_and_cannot_write_does_not_count_as_working_however_long_that_lasts() {
        let mut health = failing();
        let full_disk = |check| if check == StoreCheck::Prove { Err("disk full") } else { Ok(()) };
        let checks = run(&mut health, Duration::ZERO, 3600 * SECOND, full_disk);
        assert!(health.error().is_some_and(|error| error.contains("disk full")));
        assert!(health.worked.is_none());
        // And leafd does not storm it.
        assert!(checks.len() < 3600, "{}", checks.len());
    }

    #[test]
    fn the_store_works_again_after_a_committed_lease_or_a_write_of_the_same_kind() {
        for by_lease in [true, false] {
            let mut health = failing();
            assert!(health.is_back(SECOND) && health.is_open());
            let error = health.error().expect("it is not proven");
            assert!(error.contains("answers again") && error.contains("disk full"), "{error}");
            // That it reads shows nothing.
            health.answered(2 * SECOND);
            assert!(health.error().is_some());
            if by_lease {
                assert!(health.worked(2 * SECOND));
            } else {
                let checks = run(&mut health, SECOND, 10 * SECOND, |_| Ok(()));
                assert_eq!(checks.first().map(|(_, check)| *check), Some(StoreCheck::Prove));
            }
            assert_eq!(health.error(), None);
            assert!(!health.worked(11 * SECOND), "logged once");
        }
    }

    #[test]
    fn a_proof_that_cannot_be_made_is_retried_and_the_store_stays_unproven() {
        let mut health = failing();
        health.is_back(SECOND);
        let mut proofs = 0;
        for second in 1..100 {
            let now = second * SECOND;
            if health.poll_check(now) == Some(StoreCheck::Prove) {
                proofs += 1;
                // The row is locked, or this host has no tag.
                health.answered(now);
            }
        }
        assert!((20..=50).contains(&proofs), "{proofs}");
        assert!(health.is_open() && health.error().is_some());
    }

    #[test]
    fn an_idle_working_store_is_checked_so_that_its_failure_is_known_within_10_s() {
        let mut health = StoreHealth::new(1);
        let looks = run(&mut health, Duration::ZERO, 3600 * SECOND, |_| Ok(()));
        assert!(looks.iter().all(|(_, check)| *check == StoreCheck::Look));
        assert!(looks.windows(2).all(|pair| pair[1].0 - pair[0].0 <= CHECK_EVERY));
        assert!(looks.len() <= 1200, "{}", looks.len());
        // With the time that a look may take at the default timeout, it is known within 10 s.
        let timeout = 2 * SECOND;
        assert!(CHECK_EVERY + 2 * (timeout * 5 / 4) < 10 * SECOND);
        let mut news = None;
        for step in 36_000..36_100 {
            let now = step * SECOND / 10;
            if health.poll_check(now) == Some(StoreCheck::Look) {
                news = news.or(health.failed(now, now, "refused").then_some(now));
            }
        }
        assert!(news.is_some_and(|at| at <= 3600 * SECOND + CHECK_EVERY), "{news:?}");
    }

    #[test]
    fn a_store_with_committed_leases_is_not_checked() {
        let mut health = StoreHealth::new(1);
        for second in 1..1000 {
            assert_eq!(health.poll_check(second * SECOND), None);
            assert!(!health.worked(second * SECOND));
        }
    }

    #[test]
    fn hosts_that_started_together_check_at_different_times() {
        let first: std::collections::HashSet<_> =
            (0..100).map(|seed| StoreHealth::new(seed).wake()).collect();
        assert!(first.len() > 90);
    }

    #[test]
    fn the_late_failure_of_an_earlier_call_does_not_undo_a_lease_that_was_committed_since() {
        let mut health = StoreHealth::new(1);
        health.failed(SECOND, Duration::ZERO, "hangs");
        health.is_back(2 * SECOND);
        health.worked(3 * SECOND);
        assert!(!health.failed(4 * SECOND, SECOND, "hung"));
        assert!(health.is_open() && health.error().is_none() && health.wake().is_some());
        assert!(health.failed(4 * SECOND, 3 * SECOND, "hangs again"));
    }
}
