//! When the one deadline timer of a tag wakes. Plain values.

use std::time::Duration;

/// What a new deadline means for the timer.
pub(super) enum TimerChange {
    /// No timer runs: start one.
    Start,
    /// The timer sleeps past the deadline: wake it.
    WakeSooner,
    /// The timer wakes in time.
    Keep,
}

/// The time at which the timer wakes; `None` while no timer runs.
#[derive(Debug, Default)]
pub(super) struct DeadlineTimer(Option<Duration>);

impl DeadlineTimer {
    /// A request waits until `deadline`.
    pub(super) fn note(&mut self, deadline: Duration) -> TimerChange {
        match self.0 {
            Some(until) if until <= deadline => TimerChange::Keep,
            Some(_) => {
                self.0 = Some(deadline);
                TimerChange::WakeSooner
            }
            None => {
                self.0 = Some(deadline);
                TimerChange::Start
            }
        }
    }

    /// The timer sleeps until `next`, or ends on `None`.
    pub(super) const fn set(&mut self, next: Option<Duration>) -> Option<Duration> {
        self.0 = next;
        next
    }

    pub(super) const fn is_running(&self) -> bool {
        self.0.is_some()
    }
}
