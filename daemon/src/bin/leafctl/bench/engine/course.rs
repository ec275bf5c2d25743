//! The course of a run: warm-up, measurement, the wait for the last answers. No clock; time comes
//! in as an argument.

use super::{Nanos, nanos};
use crate::bench::plan::Plan;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measuring {
        since: Nanos,
        answered: u64,
    },
    /// Nothing new is sent.
    Done(Measured),
}

/// What the measurement came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Length of the measurement in ns.
    pub(crate) elapsed: Nanos,
    /// Requests that were answered with IDs in that time.
    pub(crate) requests: u64,
}

/// What a step of the course means for the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// The warm-up is over.
    Record,
}

/// Where a run is.
#[derive(Debug)]
pub(super) struct Course {
    warm_up: Nanos,
    duration: Nanos,
    phase: Phase,
}

impl Course {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { warm_up: nanos(plan.warm_up), duration: nanos(plan.duration), phase: Phase::WarmUp }
    }

    /// When [`Course::step`] has to be called at the latest.
    pub(super) fn next_turn(&self) -> Nanos {
        match self.phase {
            Phase::WarmUp => self.warm_up,
            Phase::Measuring { since, .. } => since.saturating_add(self.duration),
            Phase::Done(_) => Nanos::MAX,
        }
    }

    /// Goes on to the next phase if it is time; `answered` counts since the start of the run.
    pub(super) fn step(&mut self, now: Nanos, answered: u64) -> Turn {
        if now < self.next_turn() {
            return Turn::None;
        }
        match self.phase {
            Phase::WarmUp => {
                self.phase = Phase::Measuring { since: now, answered };
                Turn::Record
            }
            Phase::Measuring { .. } => {
                self.stop(now, answered);
                Turn::None
            }
            Phase::Done(_) => Turn::None,
        }
    }

    /// Ends the measurement where it is.
    pub(super) fn stop(&mut self, now: Nanos, answered: u64) {
        self.phase = Phase::Done(match self.phase {
            Phase::WarmUp => Measured::default(),
            Phase::Measuring { since, answered: before } => {
                Measured { elapsed: now - since, requests: answered - before }
            }
            Phase::Done(measured) => measured,
        });
    }

    /// What was measured, once it is over.
    pub(super) fn measured(&self) -> Option<Measured> {
        match self.phase {
            Phase::Done(measured) => Some(measured),
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
    fn what_comes_in_the_warm_up_and_after_the_end_is_not_counted() {
        let mut course = Course::new(&Plan { warm_up: Duration::from_nanos(100), ..plan(1) });
        assert_eq!(course.step(99, 5), Turn::None);
        assert_eq!(course.step(103, 7), Turn::Record);
        assert_eq!(course.next_turn(), 1_000_000_103);
        assert_eq!(course.step(1_000_000_102, 900), Turn::None);
        assert_eq!(course.measured(), None);
        course.step(1_000_000_203, 1007);
        course.step(2_000_000_000, 9999);
        course.stop(2_000_000_000, 9999);
        let measured = Measured { elapsed: 1_000_000_100, requests: 1000 };
        assert_eq!(course.measured(), Some(measured));
    }

    #[test]
    fn a_run_stopped_in_the_warm_up_measured_nothing() {
        let mut course = Course::new(&Plan { warm_up: Duration::from_secs(1), ..plan(1) });
        course.stop(5, 5);
        assert_eq!(course.measured(), Some(Measured::default()));
    }
}
