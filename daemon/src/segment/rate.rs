//! How fast a tag's IDs go, so that people can be told how long memory lasts. A plain rule: time
//! comes in as an argument.
//!
//! The fast path tells it nothing, so the moments that it hears of may be close together or far
//! apart. It remembers three: the last, which tells a tag at rest from a busy one, and two before
//! it, far enough apart for one of them to be neither too young nor older than need be.

use std::time::Duration;

/// The rate is that of at least this time, unless less is known: long enough for a burst between
/// two looks not to be taken for the load, short enough for people to see the load change.
const SPAN: Duration = Duration::from_secs(10);

/// What was issued in less than this is taken for all of it: a tag that has just begun has no rate
/// yet, and a clock that stands still makes none.
const LEAST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Duration,
    issued: u64,
}

/// The memory of the rule for one tag.
#[derive(Debug, Default)]
pub struct Rate {
    /// The oldest first; none before the first note.
    marks: Option<[Mark; 3]>,
}

impl Rate {
    /// At `now` (monotonic) so many IDs had been `issued` in all. The more often it is said, the
    /// sharper the rate, and the first time should be before the first ID.
    pub fn note(&mut self, now: Duration, issued: u64) {
        let mark = Mark { at: now, issued };
        let [oldest, middle, last] = self.marks.unwrap_or([mark; 3]);
        let apart = last.at.saturating_sub(middle.at) >= SPAN;
        self.marks = Some(if apart { [middle, last, mark] } else { [oldest, middle, mark] });
    }

    /// IDs of late, with `asked_for` in all at `now`, and the time in which they were asked for:
    /// never less than a second.
    #[must_use]
    pub fn of_late(&self, now: Duration, asked_for: u64) -> (u64, Duration) {
        let Some(marks) = self.marks else { return (0, LEAST) };
        let age = |mark: &Mark| now.saturating_sub(mark.at);
        let [oldest, ..] = marks;
        let from = marks.into_iter().rev().find(|mark| age(mark) >= SPAN).unwrap_or(oldest);
        (asked_for.saturating_sub(from.issued), age(&from).max(LEAST))
    }

    /// For how many whole seconds `remaining` IDs last at that rate; none when nothing was asked
    /// for.
    #[must_use]
    pub fn seconds_for(&self, remaining: u64, now: Duration, asked_for: u64) -> Option<u64> {
        let (ids, time) = self.of_late(now, asked_for);
        let ids_in_time = u128::from(remaining).saturating_mul(time.as_millis());
        let seconds = ids_in_time.checked_div(u128::from(ids).saturating_mul(1000))?;
        Some(u64::try_from(seconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);
    /// The daemon had been up for a while.
    const T0: Duration = Duration::from_secs(5000);

    /// A rate that was told, at each of these times after [`T0`], that so many had been issued.
    fn told(notes: &[(Duration, u64)]) -> Rate {
        let mut rate = Rate::default();
        notes.iter().for_each(|(after, issued)| rate.note(T0 + *after, *issued));
        rate
    }

    fn per_second(rate: &Rate, after: Duration, issued: u64) -> f64 {
        let (ids, time) = rate.of_late(T0 + after, issued);
        ids as f64 / time.as_secs_f64()
    }

    /// 1000 a second for 30 seconds, told 10 times a second.
    fn busy() -> Rate {
        let notes = (0..=300).map(|tenth| (S / 10 * tenth, u64::from(tenth) * 100));
        told(&notes.collect::<Vec<_>>())
    }

    #[test]
    fn memory_lasts_as_long_as_the_load_of_the_last_seconds_takes_to_use_it_up() {
        let rate = busy();
        assert_eq!(per_second(&rate, 30 * S, 30_000), 1000.0);
        let lasts = |remaining| rate.seconds_for(remaining, T0 + 30 * S, 30_000);
        assert_eq!([999, 1000, 59_999].map(lasts), [Some(0), Some(1), Some(59)]);
        assert_eq!(lasts(0), Some(0));
    }

    #[test]
    fn a_burst_is_forgotten_soon_after_it_and_a_tag_at_rest_lasts_for_ever() {
        let rate = busy();
        // Not told of any more: 40 were issued behind its back.
        assert!(per_second(&rate, 90 * S, 30_040) < 1.0);
        assert_eq!(per_second(&rate, 40 * S, 30_000), 0.0);
        assert_eq!(rate.seconds_for(2000, T0 + 40 * S, 30_000), None);
    }

    #[test]
    fn what_was_issued_in_the_first_second_is_taken_for_a_second_of_load() {
        let rate = told(&[(Duration::ZERO, 0)]);
        for after in [Duration::ZERO, S / 1000, S / 2, S] {
            assert_eq!(per_second(&rate, after, 100), 100.0, "after {after:?}");
        }
        assert_eq!(per_second(&rate, 2 * S, 100), 50.0);
        assert_eq!(Rate::default().seconds_for(2000, T0, 0), None);
    }

    #[test]
    fn one_request_after_a_day_at_rest_is_next_to_nothing() {
        let mut rate = busy();
        rate.note(T0 + DAY, 30_000);
        rate.note(T0 + DAY, 30_001);
        assert!(per_second(&rate, DAY + S, 30_001) < 0.01);
        assert_eq!(rate.seconds_for(2000, T0 + DAY + 10 * S, 30_001), None);
    }

    #[test]
    fn a_load_that_begins_after_a_day_at_rest_reads_right_after_ten_seconds() {
        let mut rate = busy();
        for second in 0..=10 {
            rate.note(T0 + DAY + S * second, 30_000 + 500 * u64::from(second));
        }
        assert_eq!(per_second(&rate, DAY + 10 * S, 35_000), 500.0);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_makes_no_rate_infinite() {
        let rate = told(&[(S, 0), (S, 10), (Duration::ZERO, 20)]);
        assert_eq!(per_second(&rate, Duration::ZERO, 30), 30.0);
        assert_eq!(rate.seconds_for(60, T0, 30), Some(2));
    }

    #[test]
    fn no_figure_is_too_large() {
        let mut rate = Rate::default();
        rate.note(Duration::ZERO, 0);
        assert_eq!(rate.seconds_for(u64::MAX, Duration::ZERO, u64::MAX), Some(1));
        assert_eq!(rate.seconds_for(u64::MAX, Duration::MAX, 1), Some(u64::MAX));
        let century = 36_525 * DAY;
        assert_eq!(rate.seconds_for(u64::MAX, century, u64::MAX), Some(century.as_secs()));
    }

    proptest! {
        #[test]
        fn a_steady_load_reads_right_whether_it_is_looked_at_often_or_seldom(
            per_s in 1..5_000_000u64,
            gaps in proptest::collection::vec(0..90_000u64, 1..100),
            then in 1000..90_000u64,
        ) {
            let issued = |ms: u64| per_s * ms / 1000;
            let (mut rate, mut ms) = (Rate::default(), 0);
            for gap in gaps {
                rate.note(T0 + Duration::from_millis(ms), issued(ms));
                ms += gap;
            }
            ms += then;
            let (ids, time) = rate.of_late(T0 + Duration::from_millis(ms), issued(ms));
            let right = u128::from(per_s) * time.as_millis() / 1000;
            prop_assert!(u128::from(ids).abs_diff(right) <= 1, "{} in {:?}", ids, time);
        }

        #[test]
        fn what_is_older_than_two_spans_and_the_longest_silence_does_not_count(
            gaps in proptest::collection::vec(0..30_000u64, 1..200),
        ) {
            let (mut rate, mut now) = (Rate::default(), T0);
            let silence = Duration::from_millis(*gaps.iter().max().unwrap());
            for gap in gaps {
                rate.note(now, 0);
                now += Duration::from_millis(gap);
                let (_, time) = rate.of_late(now, 0);
                prop_assert!(time <= (2 * SPAN + silence).max(LEAST), "{:?}", time);
                prop_assert!(time >= SPAN.min(now - T0));
            }
        }

        #[test]
        fn no_history_makes_it_panic_or_count_more_than_was_asked_for(
            notes in proptest::collection::vec(any::<(u32, u64)>(), 0..20),
            remaining: u64, now: u32, asked_for: u64,
        ) {
            let mut rate = Rate::default();
            for (ms, issued) in notes {
                rate.note(Duration::from_millis(ms.into()), issued);
            }
            let now = Duration::from_millis(now.into());
            let (ids, time) = rate.of_late(now, asked_for);
            prop_assert!(ids <= asked_for && time >= LEAST);
            prop_assert_eq!(rate.seconds_for(remaining, now, asked_for).is_none(), ids == 0);
        }
    }
}
