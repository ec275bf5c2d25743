//! Which ID comes next. A plain state machine: the clock comes in as an argument, IDs and the
//! reason for stopping come out. No clock, no IO, no waiting.
//!
//! Two rules make a duplicate impossible. The pair (time, sequence) only grows within a life of
//! the sequencer; and nothing is issued at or past the ceiling, which is on disk before it is told
//! here, and from which the next life starts.

use leaf_client::Layout;

use crate::ids::Runs;

/// What shapes the sequence, apart from its ceiling.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Bits, unit and epoch.
    pub layout: Layout,
    /// The worker ID; fits the layout.
    pub worker: u64,
    /// How far timestamps may lead the clock when a time unit is used up, in ms.
    pub max_lead_ms: u64,
    /// How far behind the clock may fall and be waited for, in ms.
    pub tolerance_ms: u64,
    /// As `tolerance_ms`, while the ceiling of an earlier life lies ahead of the clock.
    pub start_wait_ms: u64,
    /// A time unit entered with the clock starts at a random sequence below this; 0 and 1 turn it
    /// off. Leaf uses 100, so that low bits spread evenly when traffic is low.
    pub random_start: u64,
}

/// Why no more was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All that was asked for has been issued.
    Done,
    /// More when the clock reaches this (ms since 1970).
    Until(u64),
    /// More when the ceiling has been raised.
    Ceiling,
    /// The clock is too far behind to wait for it.
    ClockBackwards {
        /// Distance in milliseconds.
        behind_ms: u64,
    },
    /// More when the worker ID has been reported again: from here on it may be another's.
    Fenced,
    /// The clock is before the layout's epoch, so it is wrong: there is no waiting for it.
    BeforeEpoch {
        /// Distance in milliseconds to where IDs begin.
        behind_ms: u64,
    },
    /// The clock is past the end of the layout's time field: it is wrong, or no ID will ever come
    /// again in this layout.
    TimeExhausted,
}

/// The state between two calls.
#[derive(Debug, Clone)]
pub struct Sequencer {
    rules: Rules,
    /// The time unit in use, in units since the epoch; `None` before the first and only when the
    /// ceiling lies at or before the epoch.
    time: Option<u64>,
    /// The next sequence in it; above the layout's maximum when the unit is used up.
    sequence: u64,
    /// The latest clock reading that was used (or, at the start, the ceiling): less than this is
    /// "behind".
    high_ms: u64,
    /// Until the clock has passed the ceiling of the earlier life.
    starting: bool,
    ceiling_ms: u64,
    /// The worker ID is this one's for times below (ms since 1970).
    limit_ms: u64,
    random: fastrand::Rng,
}

impl Sequencer {
    /// Starts at `ceiling_ms` (ms since 1970), the highest among all witnesses of earlier lives;
    /// 0 when there was none. `seed` feeds the random start within a time unit.
    #[must_use]
    pub fn new(rules: Rules, ceiling_ms: u64, seed: u64) -> Self {
        let layout = rules.layout;
        // Every unit that begins before the ceiling may have been used.
        let used_units = ceiling_ms.saturating_sub(layout.epoch_ms()).div_ceil(layout.unit_ms());
        Self {
            rules,
            time: used_units.checked_sub(1),
            sequence: layout.max_sequence() + 1,
            high_ms: ceiling_ms.max(layout.epoch_ms()),
            starting: true,
            ceiling_ms,
            limit_ms: u64::MAX,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Issues up to `count` IDs into `runs` at the clock reading `now_ms` (ms since 1970), and
    /// says why it stopped.
    pub fn take(&mut self, now_ms: u64, count: u32, runs: &mut Runs) -> Stop {
        if let Some(stop) = self.refusal(now_ms) {
            return stop;
        }
        let layout = self.rules.layout;
        let clock_unit = self.unit_of(now_ms);
        if self.time.is_none_or(|time| time < clock_unit) {
            // Nothing is noted of a reading that nothing is issued with: the clock may be ahead for
            // a moment only, and this would wait for it to come back there.
            if self.unit_start_ms(clock_unit) >= self.ceiling_ms {
                return Stop::Ceiling;
            }
            self.enter_with_clock(clock_unit);
        }
        self.high_ms = now_ms;
        self.starting = false;
        let mut left = count;
        while left > 0 {
            if self.sequence > layout.max_sequence()
                && let Err(stop) = self.roll_over(now_ms)
            {
                return stop;
            }
            let time = self.time.unwrap_or(clock_unit);
            if self.unit_start_ms(time) >= self.limit_ms {
                return Stop::Fenced;
            }
            if self.unit_start_ms(time) >= self.ceiling_ms {
                return Stop::Ceiling;
            }
            let Some(first) = layout.compose(time, self.rules.worker, self.sequence) else {
                return Stop::TimeExhausted;
            };
            let room = layout.max_sequence() + 1 - self.sequence;
            let run = u32::try_from(room).unwrap_or(u32::MAX).min(left);
            runs.push(first, run);
            self.sequence += u64::from(run);
            left -= run;
        }
        Stop::Done
    }

    /// Why nothing can be issued while the clock reads `now_ms`, whatever the ceiling.
    #[must_use]
    #[inline]
    pub fn refusal(&self, now_ms: u64) -> Option<Stop> {
        if now_ms < self.high_ms {
            return Some(self.behind(now_ms));
        }
        let clock_unit = self.unit_of(now_ms);
        if clock_unit > self.rules.layout.max_time() {
            return Some(Stop::TimeExhausted);
        }
        (self.unit_start_ms(clock_unit) >= self.limit_ms).then_some(Stop::Fenced)
    }

    #[cold]
    fn behind(&self, now_ms: u64) -> Stop {
        let behind_ms = self.high_ms - now_ms;
        if now_ms < self.rules.layout.epoch_ms() {
            return Stop::BeforeEpoch { behind_ms };
        }
        let patience =
            if self.starting { self.rules.start_wait_ms } else { self.rules.tolerance_ms };
        if behind_ms <= patience {
            Stop::Until(self.high_ms)
        } else {
            Stop::ClockBackwards { behind_ms }
        }
    }

    /// The clock has moved on to a unit that nothing was issued in.
    fn enter_with_clock(&mut self, unit: u64) {
        let max = self.rules.layout.max_sequence();
        let saturated = self.sequence > max && self.time.is_some_and(|time| time + 1 == unit);
        self.time = Some(unit);
        self.sequence = if saturated || self.rules.random_start < 2 {
            0
        } else {
            self.random.u64(0..self.rules.random_start.min(max + 1))
        };
    }

    /// The unit is used up: borrow the next one from the future, as far as the lead allows.
    fn roll_over(&mut self, now_ms: u64) -> Result<(), Stop> {
        let next = self.time.map_or(0, |time| time + 1);
        let allowed_at = self.unit_start_ms(next).saturating_sub(self.rules.max_lead_ms);
        if now_ms < allowed_at {
            return Err(Stop::Until(allowed_at));
        }
        self.time = Some(next);
        self.sequence = 0;
        Ok(())
    }

    fn unit_of(&self, ms: u64) -> u64 {
        let layout = self.rules.layout;
        ms.saturating_sub(layout.epoch_ms()) / layout.unit_ms()
    }

    fn unit_start_ms(&self, unit: u64) -> u64 {
        let layout = self.rules.layout;
        layout.epoch_ms().saturating_add(unit.saturating_mul(layout.unit_ms()))
    }

    /// Nothing is issued at or past this time (ms since 1970).
    #[must_use]
    pub const fn ceiling_ms(&self) -> u64 {
        self.ceiling_ms
    }

    /// The ceiling has been raised on disk to `ceiling_ms`; a lower one is ignored.
    pub fn raised(&mut self, ceiling_ms: u64) {
        self.ceiling_ms = self.ceiling_ms.max(ceiling_ms);
    }

    /// The worker ID is this one's for times below `limit_ms` (ms since 1970), and for later ones
    /// when this is said again.
    pub fn limited(&mut self, limit_ms: u64) {
        self.limit_ms = limit_ms;
    }

    /// The ceiling to write next, `ahead_ms` above what is in use, when less than half of that is
    /// left. `None` while nothing can be issued at the clock reading `now_ms`.
    ///
    /// `use_ms` is how far time has come since the last use ([`super::last_use`]): a clock that
    /// nobody uses raises no ceiling. For a request that waits for a higher one it is `now_ms`.
    #[must_use]
    pub fn wanted_ceiling(&self, now_ms: u64, use_ms: u64, ahead_ms: u64) -> Option<u64> {
        if self.refusal(now_ms).is_some() {
            return None;
        }
        let lead_ms = self.rules.max_lead_ms + self.rules.layout.unit_ms();
        let used_ms = self.time.map_or(0, |time| self.unit_start_ms(time)).max(use_ms.min(now_ms));
        // Less than the lead ahead would stop a saturated sequence short of its lead.
        let ahead_ms = ahead_ms.max(2 * lead_ms);
        let next_ms = used_ms.saturating_add(ahead_ms).min(self.limit_ms);
        // One at or below the unit of the clock would serve no request.
        let least_ms = self.unit_start_ms(self.unit_of(now_ms)).max(self.ceiling_ms);
        let is_of_use = next_ms > least_ms;
        (is_of_use && self.ceiling_ms < used_ms.saturating_add(ahead_ms / 2)).then_some(next_ms)
    }

    /// The lowest ceiling that is right when nothing more is issued: what a clean stop writes.
    #[must_use]
    pub fn exact_ceiling_ms(&self) -> u64 {
        match self.time {
            Some(time) => self.unit_start_ms(time.saturating_add(1)).min(self.ceiling_ms),
            None => self.ceiling_ms,
        }
    }

    /// Start of the time unit in use (ms since 1970).
    #[must_use]
    pub fn last_ms(&self) -> Option<u64> {
        self.time.map(|time| self.unit_start_ms(time))
    }

    /// The clock reading that was used last (ms since 1970); at the start, the ceiling.
    #[must_use]
    pub const fn last_use_ms(&self) -> u64 {
        self.high_ms
    }
}

#[cfg(test)]
#[path = "sequencer_tests.rs"]
mod tests;
