//! The phases of a run: warm-up, measurement, and the wait for the last answers. No clock; time
//! comes in as an argument.

use super::{Nanos, nanos};
use crate::bench::plan::Plan;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    WarmUp,
    Measuring {
        since: Nanos,
        answered: u64,
    },
    /// The run sends nothing new.
    Done(Measured),
}

/// The result of the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Length of the measurement in ns.
    pub(crate) elapsed: Nanos,
    /// Requests that were answered with IDs in that time.
    pub(crate) requests: u64,
}

/// Whether the warm-up has just ended, so that recording begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    Unchanged,
    Begins,
}

/// The progress of a run through its phases.
#[derive(Debug)]
pub(super) struct Course {
    warm_up: Nanos,
    duration: Nanos,
    phase: RunPhase,
}

impl Course {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            warm_up: nanos(plan.warm_up),
            duration: nanos(plan.duration),
            phase: RunPhase::WarmUp,
        }
    }

    /// When the next phase begins: the latest time for the next [`Course::step`].
    pub(super) fn next_phase_at(&self) -> Nanos {
        match self.phase {
            RunPhase::WarmUp => self.warm_up,
            RunPhase::Measuring { since, .. } => since.saturating_add(self.duration),
            RunPhase::Done(_) => Nanos::MAX,
        }
    }

    /// Enters the next phase if it is time. `answered` counts since the start of the run.
    pub(super) fn step(&mut self, now: Nanos, answered: u64) -> Recording {
        if now < self.next_phase_at() {
            return Recording::Unchanged;
        }
        match self.phase {
            RunPhase::WarmUp => {
                self.phase = RunPhase::Measuring { since: now, answered };
                Recording::Begins
            }
            RunPhase::Measuring { .. } => {
                self.stop(now, answered);
                Recording::Unchanged
            }
            RunPhase::Done(_) => Recording::Unchanged,
        }
    }

    /// Ends the measurement now, whatever the phase.
    pub(super) fn stop(&mut self, now: Nanos, answered: u64) {
        self.phase = RunPhase::Done(match self.phase {
            RunPhase::WarmUp => Measured::default(),
            RunPhase::Measuring { since, answered: before } => {
                Measured { elapsed: now - since, requests: answered - before }
            }
            RunPhase::Done(measured) => measured,
        });
    }

    /// The result, once the measurement is over.
    pub(super) fn measured(&self) -> Option<Measured> {
        match self.phase {
            RunPhase::Done(measured) => Some(measured),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::tests::plan;
    use std::time::Duration;

    #[test]
    fn only_answers_between_warm_up_and_end_count() {
        let mut course = Course::new(&Plan { warm_up: Duration::from_nanos(100), ..plan(1) });
        assert_eq!(course.step(99, 5), Recording::Unchanged);
        assert_eq!(course.step(103, 7), Recording::Begins);
        assert_eq!(course.next_phase_at(), 1_000_000_103);
        assert_eq!(course.step(1_000_000_102, 900), Recording::Unchanged);
        assert_eq!(course.measured(), None);
        course.step(1_000_000_203, 1007);
        course.step(2_000_000_000, 9999);
        course.stop(2_000_000_000, 9999);
        let measured = Measured { elapsed: 1_000_000_100, requests: 1000 };
        assert_eq!(course.measured(), Some(measured));
    }

    #[test]
    fn a_run_stopped_during_the_warm_up_measures_nothing() {
        let mut course = Course::new(&Plan { warm_up: Duration::from_secs(1), ..plan(1) });
        course.stop(5, 5);
        assert_eq!(course.measured(), Some(Measured::default()));
    }
}
