//! How fast counts grow, and when a tag's IDs reach a limit at that rate. No IO.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use leaf_client::wire::TagStatus;
use leafd::duration::rough;

use crate::output::grouped;

/// Rates to keep of each count: as many as the widest sparkline shows.
const KEPT: usize = 24;

/// Readings closer to each other than this tell no rate.
const LEAST: Duration = Duration::from_millis(20);

/// Applications in JavaScript, and those with 32-bit columns, fail beyond these.
const LIMITS: [(&str, u64); 3] =
    [("int32", i32::MAX as u64), ("2^53", 1 << 53), ("int64", i64::MAX as u64)];

const DAY_S: u64 = 86_400;
const YEAR_S: u64 = 365 * DAY_S;

/// A rate, in thousandths per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PerSecond(pub(super) u64);

impl fmt::Display for PerSecond {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(thousandths) = *self;
        match thousandths {
            0 => to.pad("0"),
            1..100 => to.pad("<0.1"),
            100..9_950 => {
                let tenths = (thousandths + 50) / 100;
                to.pad(&format!("{}.{}", tenths / 10, tenths % 10))
            }
            _ => to.pad(&grouped(thousandths.saturating_add(500) / 1000)),
        }
    }
}

/// The rate of one count, and its recent history.
#[derive(Debug, Clone, Default)]
pub(super) struct CountRate {
    last: Option<(Duration, u64)>,
    history: VecDeque<u64>,
}

impl CountRate {
    /// Notes the count at a time, which is measured from any moment.
    pub(super) fn note(&mut self, at: Duration, count: u64) {
        match self.last {
            // leafd has restarted, and counts from 0 again.
            Some((_, before)) if count < before => self.history.clear(),
            Some((then, _)) if at.saturating_sub(then) < LEAST => return,
            Some((then, before)) => {
                let micros = at.saturating_sub(then).as_micros().max(1);
                let thousandths = u128::from(count - before) * 1_000_000_000 / micros;
                if self.history.len() == KEPT {
                    self.history.pop_front();
                }
                self.history.push_back(u64::try_from(thousandths).unwrap_or(u64::MAX));
            }
            None => {}
        }
        self.last = Some((at, count));
    }

    /// The rate between the last two readings; none before the second.
    pub(super) fn now(&self) -> Option<PerSecond> {
        self.history.back().map(|rate| PerSecond(*rate))
    }

    /// Recent rates in thousandths per second, the oldest first.
    pub(super) fn history(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.history.iter().copied()
    }
}

/// The rate that leafd itself has used to say how long a tag's IDs last.
pub(super) fn by_leafd(tag: &TagStatus) -> Option<PerSecond> {
    match tag.seconds_left {
        None => Some(PerSecond(0)),
        Some(0) => None,
        Some(seconds) => Some(PerSecond(tag.remaining.saturating_mul(1000) / seconds)),
    }
}

/// The next limit of integers that the tag reaches and when, if it goes on at this rate. What is
/// further than a thousand years away is left out.
pub(super) fn limit(tag: &TagStatus, rate: Option<PerSecond>) -> String {
    let next = LIMITS.into_iter().find(|(_, limit)| *limit > tag.max_id);
    let forecast = next.zip(rate).and_then(|((name, limit), PerSecond(rate))| {
        let seconds = u128::from(limit - tag.max_id) * 1000 / u128::from(rate.max(1));
        let seconds = u64::try_from(seconds).ok().filter(|_| rate > 0)?;
        match seconds {
            ..DAY_S => Some(format!("{name} in {}", rough(seconds * 1000))),
            DAY_S..YEAR_S => Some(format!("{name} in {} d", seconds / DAY_S)),
            _ if seconds / YEAR_S < 1000 => Some(format!("{name} in {} y", seconds / YEAR_S)),
            _ => None,
        }
    });
    forecast.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::tests::tag;

    #[test]
    fn a_rate_is_that_between_two_readings_and_begins_anew_with_leafd() {
        let mut rate = CountRate::default();
        let at = Duration::from_millis;
        rate.note(at(0), 100);
        assert_eq!(rate.now(), None);
        rate.note(at(500), 600);
        assert_eq!(rate.now(), Some(PerSecond(1_000_000)));
        rate.note(at(501), 700);
        assert_eq!(rate.now(), Some(PerSecond(1_000_000)), "too close");
        rate.note(at(1500), 700);
        assert_eq!(rate.now(), Some(PerSecond(100_000)));
        rate.note(at(2500), 10);
        assert_eq!((rate.now(), rate.history().count()), (None, 0), "a restart");
        for second in 0..100 {
            rate.note(Duration::from_secs(3 + second), 10 + second);
        }
        assert_eq!(rate.history().count(), KEPT);
    }

    #[test]
    fn rates_are_short() {
        for (rate, text) in [
            (0, "0"),
            (1, "<0.1"),
            (149, "0.1"),
            (9_949, "9.9"),
            (9_950, "10"),
            (1_234_499, "1,234"),
        ] {
            assert_eq!(PerSecond(rate).to_string(), text);
        }
        assert!(PerSecond(u64::MAX).to_string().starts_with("18,446,"));
    }

    #[test]
    fn the_forecast_is_the_next_limit_and_leaves_out_what_is_too_far_or_stands_still() {
        let at = |max_id, rate| {
            let tag = TagStatus { max_id, ..tag("orders") };
            limit(&tag, Some(PerSecond(rate)))
        };
        let int32 = i32::MAX as u64;
        assert_eq!(at(int32 - 120, 1000), "int32 in 2 min 0 s");
        assert_eq!(at(int32 - 86_400 * 3, 1000), "int32 in 3 d");
        assert_eq!(at(int32, 1_000_000_000_000), "2^53 in 104 d");
        assert_eq!(at(1 << 53, 1_000_000_000_000), "int64 in 292 y");
        assert_eq!(at(int32, 1000), "-");
        assert_eq!(at(1, 0), "-");
        assert_eq!(at(u64::MAX, 1000), "-");
        assert_eq!(limit(&tag("orders"), None), "-");
    }

    #[test]
    fn before_the_second_reading_a_rate_is_that_of_leafd() {
        let with = |seconds_left| by_leafd(&TagStatus { seconds_left, ..tag("orders") });
        assert_eq!(with(Some(2)), Some(PerSecond(1_479_000)));
        assert_eq!((with(None), with(Some(0))), (Some(PerSecond(0)), None));
    }
}
