//! Whether the store works, as its calls tell. A plain state machine; time comes in as an argument.
//!
//! A store that is down for one tag is down for all: no lease is tried until it answers again, so
//! that thousands of drained tags do not storm a database that is just coming back. An answer
//! proves little, since a full disk gives one. Only a committed write shows that the store works: a
//! lease, or where none is needed, a write like that of a lease.
//!
//! While nothing is asked of a working store, it is looked at now and then, so that people hear of
//! its end before somebody needs it.

use std::time::Duration;

use crate::backoff::Backoff;

/// The longest time between two looks at a working store. With what a look may take
/// (`store.timeout`, for the connection and once more for the call), a store that has died is known
/// to be down within 10 s at the default timeout.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// The longest time that a store that answers again has to wait for a write that proves it. Leases
/// that somebody waits for are tried at once and prove it sooner.
const PROVE_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug)]
enum State {
    /// The last write went well, or there was none.
    Working {
        /// None while one is under way.
        next_look: Option<Duration>,
    },
    /// Does not answer, or refuses what every call needs. Leases are not tried.
    Failing { error: String, next_probe: Duration },
    /// Answers again, so leases are tried; that it can write is not shown yet.
    Unproven {
        error: String,
        /// None while one is under way.
        next_proof: Option<Duration>,
    },
}

/// What to ask of the store now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Whether a working store is still there.
    Look,
    /// Whether a failing store is back, on a connection of its own.
    Probe,
    /// To write as a lease does, without taking anything.
    Prove,
}

/// Of one store.
#[derive(Debug)]
pub struct Health {
    state: State,
    /// When a write last went well.
    worked: Option<Duration>,
    backoff: Backoff,
    random: fastrand::Rng,
}

impl Health {
    /// Nothing is known, so nothing is wrong. `seed` feeds the jitter.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State::Working { next_look: None };
        let random = fastrand::Rng::with_seed(seed);
        let mut this = Self { state, worked: None, backoff: Backoff::for_stores(seed), random };
        this.answered(Duration::ZERO);
        this
    }

    /// Between three quarters and all of `most` from `now` on: hosts that began together part.
    fn soon(&mut self, now: Duration, most: Duration) -> Duration {
        now + most.mul_f64(0.75 + self.random.f64() / 4.0)
    }

    /// A call that was `begun` at that time found the store down. Says whether that is news for
    /// people.
    pub fn failed(&mut self, now: Duration, begun: Duration, error: &str) -> bool {
        if self.worked.is_some_and(|worked| begun < worked) {
            // A call of an earlier outage, or on a connection that nobody else uses.
            self.answered(now);
            return false;
        }
        let news = matches!(self.state, State::Working { .. });
        let next_probe = match self.state {
            State::Failing { next_probe, .. } => next_probe,
            State::Working { .. } | State::Unproven { .. } => now + self.backoff.fail(),
        };
        self.state = State::Failing { error: error.to_owned(), next_probe };
        news
    }

    /// A write was committed. Says whether that is news for people.
    pub fn worked(&mut self, now: Duration) -> bool {
        self.worked = Some(now);
        let news = !matches!(self.state, State::Working { .. });
        self.state = State::Working { next_look: Some(self.soon(now, LOOK_EVERY)) };
        self.backoff.reset();
        news
    }

    /// The store has answered, which a store with a full disk does too: whatever was to be asked
    /// of it next has time.
    pub fn answered(&mut self, now: Duration) {
        let (look, proof) = (self.soon(now, LOOK_EVERY), self.soon(now, PROVE_AFTER));
        match &mut self.state {
            State::Working { next_look } => *next_look = Some(look),
            State::Unproven { next_proof: next @ None, .. } => *next = Some(proof),
            State::Unproven { .. } | State::Failing { .. } => {}
        }
    }

    /// What to ask now, if anything. The outcome goes to [`Self::failed`]; or else that of a probe
    /// to [`Self::is_back`], that of a proof to [`Self::worked`], and any other to
    /// [`Self::answered`].
    pub fn poll_check(&mut self, now: Duration) -> Option<Check> {
        let due = |at: &mut Option<Duration>| at.take_if(|at| now >= *at).is_some();
        match &mut self.state {
            State::Working { next_look } => due(next_look).then_some(Check::Look),
            State::Unproven { next_proof, .. } => due(next_proof).then_some(Check::Prove),
            State::Failing { next_probe, .. } => {
                let probe = now >= *next_probe;
                if probe {
                    *next_probe = now + self.backoff.fail();
                }
                probe.then_some(Check::Probe)
            }
        }
    }

    /// A probe went well: leases may be tried. Says whether they could not before.
    pub fn is_back(&mut self, now: Duration) -> bool {
        let proof = self.soon(now, PROVE_AFTER);
        let State::Failing { error, .. } = &mut self.state else { return false };
        let error = std::mem::take(error);
        self.state = State::Unproven { error, next_proof: Some(proof) };
        true
    }

    /// Whether leases may be tried.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Failing { .. })
    }

    /// When [`Self::poll_check`] is worth asking; none before the outcome of a check.
    #[must_use]
    pub const fn wake(&self) -> Option<Duration> {
        match self.state {
            State::Working { next_look: at } | State::Unproven { next_proof: at, .. } => at,
            State::Failing { next_probe, .. } => Some(next_probe),
        }
    }

    /// What is wrong, as far as it is known.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match &self.state {
            State::Working { .. } => None,
            State::Failing { error, .. } => Some(error.clone()),
            State::Unproven { error, .. } => {
                Some(format!("it answers again, but has not written anything since: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failing() -> Health {
        let mut health = Health::new(1);
        assert!(health.failed(Duration::ZERO, Duration::ZERO, "disk full"));
        health
    }

    /// Runs the checks that are due until `end`, with these answers of the store.
    fn run(
        health: &mut Health,
        from: Duration,
        end: Duration,
        mut answer: impl FnMut(Check) -> Result<(), &'static str>,
    ) -> Vec<(Duration, Check)> {
        let (mut checks, mut now) = (Vec::new(), from);
        while let Some(wake) = health.wake().filter(|wake| *wake < end) {
            now = now.max(wake);
            let Some(check) = health.poll_check(now) else { continue };
            checks.push((now, check));
            match (answer(check), check) {
                (Err(error), _) => drop(health.failed(now, now, error)),
                (Ok(()), Check::Probe) => drop(health.is_back(now)),
                (Ok(()), Check::Prove) => drop(health.worked(now)),
                (Ok(()), Check::Look) => health.answered(now),
            }
        }
        checks
    }

    #[test]
    fn a_store_that_is_down_is_probed_ever_more_rarely_and_not_less_than_once_a_second() {
        let mut health = failing();
        let checks = run(&mut health, Duration::ZERO, 10 * SECOND, |_| Err("refused still"));
        assert!((10..30).contains(&checks.len()), "{checks:?}");
        assert!(checks.windows(2).all(|pair| pair[1].0 - pair[0].0 <= SECOND), "{checks:?}");
        assert!(checks.iter().all(|(_, check)| *check == Check::Probe));
        assert!(!health.is_open() && health.error().as_deref() == Some("refused still"));
        assert!(!health.failed(10 * SECOND, 10 * SECOND, "refused still"), "told once");
    }

    #[test]
    fn a_store_that_answers_and_cannot_write_does_not_count_as_working_however_long_that_lasts() {
        let mut health = failing();
        let full_disk = |check| if check == Check::Prove { Err("disk full") } else { Ok(()) };
        let checks = run(&mut health, Duration::ZERO, 3600 * SECOND, full_disk);
        assert!(health.error().is_some_and(|error| error.contains("disk full")));
        assert!(health.worked.is_none());
        // And it is not stormed meanwhile.
        assert!(checks.len() < 3600, "{}", checks.len());
    }

    #[test]
    fn the_alarm_ends_with_a_lease_that_went_well_or_with_a_write_like_that_of_a_lease() {
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
                assert_eq!(checks.first().map(|(_, check)| *check), Some(Check::Prove));
            }
            assert_eq!(health.error(), None);
            assert!(!health.worked(11 * SECOND), "told once");
        }
    }

    #[test]
    fn a_proof_that_nobody_can_give_is_tried_again_and_leaves_the_question_open() {
        let mut health = failing();
        health.is_back(SECOND);
        let mut proofs = 0;
        for second in 1..100 {
            let now = second * SECOND;
            if health.poll_check(now) == Some(Check::Prove) {
                proofs += 1;
                // The row is locked, or this host has no tag.
                health.answered(now);
            }
        }
        assert!((20..=50).contains(&proofs), "{proofs}");
        assert!(health.is_open() && health.error().is_some());
    }

    #[test]
    fn a_working_store_is_looked_at_while_nothing_is_asked_of_it_so_that_its_end_is_known_soon() {
        let mut health = Health::new(1);
        let looks = run(&mut health, Duration::ZERO, 3600 * SECOND, |_| Ok(()));
        assert!(looks.iter().all(|(_, check)| *check == Check::Look));
        assert!(looks.windows(2).all(|pair| pair[1].0 - pair[0].0 <= LOOK_EVERY));
        assert!(looks.len() <= 1200, "{}", looks.len());
        // With the time that a look may take at the default timeout, it is known within 10 s.
        let timeout = 2 * SECOND;
        assert!(LOOK_EVERY + 2 * (timeout * 5 / 4) < 10 * SECOND);
        let mut news = None;
        for step in 36_000..36_100 {
            let now = step * SECOND / 10;
            if health.poll_check(now) == Some(Check::Look) {
                news = news.or(health.failed(now, now, "refused").then_some(now));
            }
        }
        assert!(news.is_some_and(|at| at <= 3600 * SECOND + LOOK_EVERY), "{news:?}");
    }

    #[test]
    fn a_store_whose_leases_go_well_is_not_looked_at() {
        let mut health = Health::new(1);
        for second in 1..1000 {
            assert_eq!(health.poll_check(second * SECOND), None);
            assert!(!health.worked(second * SECOND));
        }
    }

    #[test]
    fn hosts_that_began_together_look_at_different_times() {
        let first: std::collections::HashSet<_> =
            (0..100).map(|seed| Health::new(seed).wake()).collect();
        assert!(first.len() > 90);
    }

    #[test]
    fn the_late_failure_of_an_earlier_call_does_not_undo_a_lease_that_went_well_since() {
        let mut health = Health::new(1);
        health.failed(SECOND, Duration::ZERO, "hangs");
        health.is_back(2 * SECOND);
        health.worked(3 * SECOND);
        assert!(!health.failed(4 * SECOND, SECOND, "hung"));
        assert!(health.is_open() && health.error().is_none() && health.wake().is_some());
        assert!(health.failed(4 * SECOND, 3 * SECOND, "hangs again"));
    }
}
