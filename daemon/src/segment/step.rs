//! How many IDs the next lease asks for. A plain rule: time comes in as an argument.
//!
//! Leaf's rule: the first two leases use the row's step. After that, the step doubles, up to a
//! million, if the previous lease is less than 15 minutes old, stays the same up to 30 minutes, and
//! halves from there on. Unlike Leaf's, this rule uses a monotonic clock, a failed lease changes
//! nothing, and nothing overflows. And it doubles further for a tag that uses up a million IDs
//! within a second: hundreds of leases a second would keep the database busy and delay every other
//! client of the host.

use std::time::Duration;

/// A previous lease younger than this doubles the step.
const DOUBLE_BELOW: Duration = Duration::from_secs(15 * 60);

/// A previous lease of this age or older halves the step.
const HALVE_FROM: Duration = Duration::from_secs(30 * 60);

/// The largest step of a tag that does not use it up within [`DOUBLE_FURTHER_BELOW`]. Leaf's.
pub(super) const USUAL_MOST: u64 = 1_000_000;

/// A previous lease younger than this doubles the step beyond [`USUAL_MOST`] too. A tag leases one
/// range ahead, so no lease is larger than four times what the tag used in this time.
const DOUBLE_FURTHER_BELOW: Duration = Duration::from_secs(1);

/// A previous lease younger than this keeps a step beyond [`USUAL_MOST`].
const KEEP_BELOW: Duration = Duration::from_secs(10);

/// The step of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepRule {
    max_step: u64,
    leases: u64,
    row_step: u64,
    step: u64,
    last: Duration,
}

impl StepRule {
    /// Before the first lease. Doubling never exceeds `max_step`; a row's own step above it is used
    /// as it is.
    pub(crate) const fn new(max_step: u64) -> Self {
        Self { max_step, leases: 0, row_step: 0, step: 0, last: Duration::ZERO }
    }

    /// The smallest size of a lease taken at `now` (monotonic); 0 leaves it to the row.
    pub(crate) fn next(&self, now: Duration) -> u64 {
        if self.leases < 2 {
            return 0;
        }
        let doubled = self.step.saturating_mul(2);
        let usual = self.max_step.min(USUAL_MOST);
        let adapted = match now.checked_sub(self.last) {
            Some(age) if age < DOUBLE_FURTHER_BELOW => doubled.min(self.max_step),
            Some(age) if age < KEEP_BELOW && self.step > usual => self.step,
            Some(age) if age < DOUBLE_BELOW => doubled.min(usual),
            Some(age) if age >= HALVE_FROM => (self.step / 2).min(usual),
            Some(_) => self.step.min(usual),
            // A clock that seems to run backwards says nothing about the load.
            None => self.step,
        };
        adapted.max(self.row_step)
    }

    /// A lease was taken at `now`. [`Self::next`] had returned `wanted`, and the row's step was
    /// `row_step`.
    pub(crate) fn leased(&mut self, now: Duration, wanted: u64, row_step: u64) {
        self.leases = self.leases.saturating_add(1);
        self.row_step = row_step;
        self.step = wanted.max(row_step);
        self.last = now;
    }

    /// The row's step changed; the next lease is at least as large.
    pub(crate) fn row_step_is(&mut self, row_step: u64) {
        self.row_step = row_step;
    }

    /// The row's step as last read; 0 before the first read.
    pub(crate) const fn row_step(&self) -> u64 {
        self.row_step
    }

    /// How many leases were taken.
    pub(crate) const fn leases(&self) -> u64 {
        self.leases
    }

    /// When the last lease was taken (monotonic).
    pub(crate) fn last_lease(&self) -> Option<Duration> {
        (self.leases > 0).then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const MS: Duration = Duration::from_millis(1);

    /// A rule after two leases of 2000, the second at time 0.
    fn rule() -> StepRule {
        let mut rule = StepRule::new(1_000_000);
        rule.leased(Duration::ZERO, rule.next(Duration::ZERO), 2000);
        rule.leased(Duration::ZERO, rule.next(Duration::ZERO), 2000);
        rule
    }

    #[test]
    fn the_first_two_leases_use_the_rows_step() {
        let mut rule = StepRule::new(1_000_000);
        assert_eq!(rule.next(Duration::ZERO), 0);
        rule.leased(Duration::ZERO, 0, 2000);
        assert_eq!(rule.next(MINUTE), 0);
        rule.leased(MINUTE, 0, 2000);
        assert_eq!(rule.next(MINUTE), 4000);
    }

    #[test]
    fn the_step_doubles_below_15_minutes_stays_below_30_and_halves_from_there_on() {
        let mut rule = rule();
        rule.leased(Duration::ZERO, 8000, 2000);
        for (age, step) in [
            (Duration::ZERO, 16_000),
            (15 * MINUTE - MS, 16_000),
            (15 * MINUTE, 8000),
            (30 * MINUTE - MS, 8000),
            (30 * MINUTE, 4000),
            (1000 * MINUTE, 4000),
        ] {
            assert_eq!(rule.next(age), step, "after {age:?}");
        }
    }

    #[test]
    fn the_step_never_falls_below_the_rows_nor_doubles_above_the_maximum() {
        let mut rule = rule();
        assert_eq!(rule.next(60 * MINUTE), 2000);
        rule.leased(Duration::ZERO, 600_000, 2000);
        assert_eq!(rule.next(MINUTE), 1_000_000);
        rule.leased(Duration::ZERO, 1_000_000, 2000);
        assert_eq!(rule.next(MINUTE), 1_000_000);
    }

    #[test]
    fn a_row_step_above_2_to_the_30_neither_wraps_nor_doubles() {
        let mut rule = StepRule::new(1_000_000);
        let huge = (1 << 30) + 1;
        rule.leased(Duration::ZERO, 0, huge);
        rule.leased(Duration::ZERO, 0, huge);
        assert_eq!(rule.next(MINUTE), huge);
    }

    #[test]
    fn the_step_does_not_grow_while_leases_fail() {
        let rule = rule();
        // A failed lease is one that `leased` is not called for: asking again changes nothing.
        assert_eq!((0..10).map(|_| rule.next(MINUTE)).max(), Some(4000));
    }

    #[test]
    fn a_clock_that_runs_backwards_does_not_double_the_step() {
        let mut rule = rule();
        rule.leased(60 * MINUTE, 4000, 2000);
        assert_eq!(rule.next(MINUTE), 4000);
    }

    #[test]
    fn a_row_step_that_was_raised_counts_at_once_and_one_that_was_lowered_lets_it_shrink() {
        let mut rule = rule();
        rule.row_step_is(50_000);
        assert_eq!(rule.next(MINUTE), 50_000);
        rule.leased(Duration::ZERO, 50_000, 50_000);
        rule.row_step_is(10);
        assert_eq!(rule.next(40 * MINUTE), 25_000);
    }

    #[test]
    fn only_a_tag_that_uses_up_a_million_within_a_second_gets_more_and_not_for_long() {
        let mut rule = StepRule::new(100_000_000);
        rule.leased(Duration::ZERO, 0, 1000);
        rule.leased(Duration::ZERO, 0, 1000);
        let second = Duration::from_secs(1);
        let mut now = Duration::ZERO;
        for _ in 0..20 {
            now += 2 * second;
            rule.leased(now, rule.next(now), 1000);
        }
        assert_eq!(rule.next(now + second), 1_000_000);
        for step in [2_000_000, 4_000_000, 8_000_000] {
            now += second - MS;
            assert_eq!(rule.next(now), step);
            rule.leased(now, step, 1000);
        }
        assert_eq!(rule.next(now + second), 8_000_000, "kept: it lasts for a while now");
        assert_eq!(rule.next(now + 10 * second - MS), 8_000_000);
        for later in [10 * second, 14 * MINUTE, 20 * MINUTE, 40 * MINUTE] {
            assert_eq!(rule.next(now + later), 1_000_000, "after {later:?}");
        }
        for _ in 0..20 {
            rule.leased(now, rule.next(now), 1000);
        }
        assert_eq!(rule.next(now), 100_000_000, "and never more than the limit");
    }

    proptest! {
        #[test]
        fn the_step_stays_within_its_bounds_for_any_history(
            history in proptest::collection::vec(
                (prop_oneof![0..2000u64, 0..20_000u64, 0..100_000_000u64], 1..=i64::MAX as u64),
                1..50,
            ),
            max_step in 1..1_000_000_000u64,
        ) {
            let mut rule = StepRule::new(max_step);
            let mut now = Duration::ZERO;
            for (ms, row_step) in history {
                now += Duration::from_millis(ms);
                let wanted = rule.next(now);
                prop_assert!(wanted >= rule.row_step() || rule.leases() < 2);
                prop_assert!(wanted <= max_step.max(rule.row_step()).max(rule.step));
                let calm = ms >= 10_000;
                prop_assert!(!calm || wanted <= max_step.min(USUAL_MOST).max(rule.row_step()));
                rule.leased(now, wanted, row_step);
            }
        }
    }
}
