//! Until when the one timer of a tag sleeps. Plain values.

use std::time::Duration;

/// What a new deadline asks of the timer.
pub(super) enum Watch {
    /// None runs yet.
    Start,
    /// It sleeps for too long.
    Sooner,
    /// It wakes in time.
    Enough,
}

/// When the timer wakes; none when none runs.
#[derive(Debug, Default)]
pub(super) struct WatchedUntil(Option<Duration>);

impl WatchedUntil {
    /// A request waits until `deadline`.
    pub(super) fn note(&mut self, deadline: Duration) -> Watch {
        match self.0 {
            Some(until) if until <= deadline => Watch::Enough,
            Some(_) => {
                self.0 = Some(deadline);
                Watch::Sooner
            }
            None => {
                self.0 = Some(deadline);
                Watch::Start
            }
        }
    }

    /// Sets when the timer wakes next.
    pub(super) const fn set(&mut self, next: Option<Duration>) -> Option<Duration> {
        self.0 = next;
        next
    }

    /// Whether a timer runs.
    pub(super) const fn is_watched(&self) -> bool {
        self.0.is_some()
    }
}
