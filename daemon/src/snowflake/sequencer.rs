//! Which ID comes next. A plain state machine: the clock comes in as an argument, IDs and the
//! reason for stopping come out. No clock, no IO, no waiting.
//!
//! Two rules make a duplicate impossible. Within a life of the sequencer, the pair (time, sequence)
//! only grows. And it issues nothing at or past the ceiling, which is on disk before the sequencer
//! hears of it, and from which the next life starts.

use leaf_client::Layout;

use crate::ids::Runs;

/// The parameters of a sequence, apart from its ceiling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequencerRules {
    /// Bits, time unit and epoch.
    pub(crate) layout: Layout,
    /// The worker ID; fits the layout.
    pub(crate) worker: u64,
    /// How far timestamps may lead the clock when a time unit is used up, in ms.
    pub(crate) max_lead_ms: u64,
    /// How far the clock may be behind for requests to wait, in ms.
    pub(crate) tolerance_ms: u64,
    /// As `tolerance_ms`, while the ceiling of an earlier life lies ahead of the clock.
    pub(crate) start_wait_ms: u64,
    /// A time unit that is entered as the clock moves on starts at a random sequence below this; 0
    /// and 1 mean at 0. Leaf uses 100, so that low bits spread evenly under little traffic.
    pub(crate) random_start: u64,
}

/// Why the sequencer stopped issuing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It issued everything that was asked for.
    Done,
    /// It goes on when the clock reaches this (ms since 1970).
    Until(u64),
    /// It goes on when the ceiling has been raised.
    Ceiling,
    /// The clock is too far behind to wait for it.
    ClockBackwards { behind_ms: u64 },
    /// It goes on after the next report to the registry: at these times, another host may have the
    /// worker ID.
    Fenced,
    /// The clock is before the layout's epoch, so it is wrong, and nobody waits for it. IDs begin
    /// `behind_ms` later.
    BeforeEpoch { behind_ms: u64 },
    /// The clock is past the end of the layout's time field: it is wrong, or this layout has no
    /// more IDs.
    TimeExhausted,
}

/// The sequence of one worker ID.
#[derive(Debug, Clone)]
pub(crate) struct Sequencer {
    rules: SequencerRules,
    /// The time unit in use, in units since the epoch. `None` before the first one, if the ceiling
    /// lies at or before the epoch.
    time: Option<u64>,
    /// The next sequence in that unit; above the layout's maximum once the unit is used up.
    sequence: u64,
    /// The latest clock reading that was used, at the start the ceiling. A lower reading is
    /// "behind".
    high_ms: u64,
    /// The clock has not yet passed the ceiling of the earlier life.
    starting: bool,
    ceiling_ms: u64,
    /// The worker ID may be used for times below this (ms since 1970).
    limit_ms: u64,
    random: fastrand::Rng,
}

impl Sequencer {
    /// Starts at `ceiling_ms` (ms since 1970), the highest that any record of earlier lives has; 0
    /// if there was none. `seed` feeds the random start within a time unit.
    pub(crate) fn new(rules: SequencerRules, ceiling_ms: u64, seed: u64) -> Self {
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
    /// returns why it stopped.
    pub(crate) fn take(&mut self, now_ms: u64, count: u32, runs: &mut Runs) -> StopReason {
        if let Some(stop) = self.refusal(now_ms) {
            return stop;
        }
        let layout = self.rules.layout;
        let clock_unit = self.unit_of(now_ms);
        if self.time.is_none_or(|time| time < clock_unit) {
            // Forget a reading that nothing is issued with. The clock may be ahead only for a
            // moment, and the sequencer would then wait for it to get there again.
            if self.unit_start_ms(clock_unit) >= self.ceiling_ms {
                return StopReason::Ceiling;
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
                return StopReason::Fenced;
            }
            if self.unit_start_ms(time) >= self.ceiling_ms {
                return StopReason::Ceiling;
            }
            let Some(first) = layout.compose(time, self.rules.worker, self.sequence) else {
                return StopReason::TimeExhausted;
            };
            let room = (layout.max_sequence() + 1 - self.sequence).min(layout.longest_run());
            let run = u32::try_from(room).unwrap_or(u32::MAX).min(left);
            runs.push(first, run);
            self.sequence += u64::from(run);
            left -= run;
        }
        StopReason::Done
    }

    /// Why nothing can be issued at the clock reading `now_ms`, whatever the ceiling.
    #[inline]
    pub(crate) fn refusal(&self, now_ms: u64) -> Option<StopReason> {
        if now_ms < self.high_ms {
            return Some(self.behind(now_ms));
        }
        let clock_unit = self.unit_of(now_ms);
        if clock_unit > self.rules.layout.max_time() {
            return Some(StopReason::TimeExhausted);
        }
        (self.unit_start_ms(clock_unit) >= self.limit_ms).then_some(StopReason::Fenced)
    }

    #[cold]
    fn behind(&self, now_ms: u64) -> StopReason {
        let behind_ms = self.high_ms - now_ms;
        if now_ms < self.rules.layout.epoch_ms() {
            return StopReason::BeforeEpoch { behind_ms };
        }
        let patience =
            if self.starting { self.rules.start_wait_ms } else { self.rules.tolerance_ms };
        if behind_ms <= patience {
            StopReason::Until(self.high_ms)
        } else {
            StopReason::ClockBackwards { behind_ms }
        }
    }

    /// The clock has moved on to a unit in which nothing was issued.
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

    /// The unit is used up: borrow the next one from the future, if the lead allows it.
    fn roll_over(&mut self, now_ms: u64) -> Result<(), StopReason> {
        let next = self.time.map_or(0, |time| time + 1);
        let allowed_at = self.unit_start_ms(next).saturating_sub(self.rules.max_lead_ms);
        if now_ms < allowed_at {
            return Err(StopReason::Until(allowed_at));
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
    pub(crate) const fn ceiling_ms(&self) -> u64 {
        self.ceiling_ms
    }

    /// The ceiling on disk has been raised to `ceiling_ms`. A lower one is ignored.
    pub(crate) fn raised(&mut self, ceiling_ms: u64) {
        self.ceiling_ms = self.ceiling_ms.max(ceiling_ms);
    }

    /// The worker ID may be used for times below `limit_ms` (ms since 1970), until the next call.
    pub(crate) fn limited(&mut self, limit_ms: u64) {
        self.limit_ms = limit_ms;
    }

    /// The ceiling to write next, `ahead_ms` above what is in use, if less than half of that is
    /// left. `None` while nothing can be issued at the clock reading `now_ms`.
    ///
    /// `use_ms` is how far time has come since the last use ([`super::last_use`]), since a clock
    /// that nobody uses must raise no ceiling. For a request that waits for a higher ceiling it is
    /// `now_ms`.
    pub(crate) fn wanted_ceiling(&self, now_ms: u64, use_ms: u64, ahead_ms: u64) -> Option<u64> {
        if self.refusal(now_ms).is_some() {
            return None;
        }
        let lead_ms = self.rules.max_lead_ms + self.rules.layout.unit_ms();
        let used_ms = self.time.map_or(0, |time| self.unit_start_ms(time)).max(use_ms.min(now_ms));
        // With less than this, a saturated sequence could not use its whole lead.
        let ahead_ms = ahead_ms.max(2 * lead_ms);
        let next_ms = used_ms.saturating_add(ahead_ms).min(self.limit_ms);
        // A ceiling at or below the unit of the clock would serve no request.
        let least_ms = self.unit_start_ms(self.unit_of(now_ms)).max(self.ceiling_ms);
        let is_of_use = next_ms > least_ms;
        (is_of_use && self.ceiling_ms < used_ms.saturating_add(ahead_ms / 2)).then_some(next_ms)
    }

    /// The lowest correct ceiling if nothing more is issued: what a clean stop writes.
    pub(crate) fn exact_ceiling_ms(&self) -> u64 {
        match self.time {
            Some(time) => self.unit_start_ms(time.saturating_add(1)).min(self.ceiling_ms),
            None => self.ceiling_ms,
        }
    }

    /// Start of the time unit in use (ms since 1970).
    pub(crate) fn last_ms(&self) -> Option<u64> {
        self.time.map(|time| self.unit_start_ms(time))
    }

    /// The latest clock reading that was used (ms since 1970); at the start, the ceiling.
    pub(crate) const fn last_use_ms(&self) -> u64 {
        self.high_ms
    }
}

#[cfg(test)]
#[path = "sequencer_tests.rs"]
mod tests;
