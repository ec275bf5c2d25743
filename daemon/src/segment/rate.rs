//! How fast a tag issues IDs, and so how long memory lasts, for the status. A plain rule: time
//! comes in as an argument.
//!
//! The fast path does not report to it, so its samples may be close together or far apart. It keeps
//! three: the last, which tells an idle tag from a busy one, and two before it, far enough apart
//! that one of them is at least [`SPAN`] old and not much older.

use std::time::Duration;

/// The rate covers at least this time, once so much is known: long enough to average over a burst,
/// short enough to show a change of load soon.
const SPAN: Duration = Duration::from_secs(10);

/// The shortest time that a rate is computed over: a tag's first IDs, or a clock that stands still,
/// must not make it absurdly high.
const LEAST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    issued: u64,
}

/// The rate of one tag.
#[derive(Debug, Default)]
pub(crate) struct IssueRate {
    /// The oldest first; `None` before the first sample.
    samples: Option<[Sample; 3]>,
}

impl IssueRate {
    /// By `now` (monotonic), `issued` IDs had been issued in all. More frequent calls make the rate
    /// more precise; the first should come before the first ID.
    pub(crate) fn note(&mut self, now: Duration, issued: u64) {
        let sample = Sample { at: now, issued };
        let [oldest, middle, last] = self.samples.unwrap_or([sample; 3]);
        let apart = last.at.saturating_sub(middle.at) >= SPAN;
        self.samples = Some(if apart { [middle, last, sample] } else { [oldest, middle, sample] });
    }

    /// How many IDs were asked for recently, given `asked_for` in all at `now`, and over what time:
    /// never less than [`LEAST`].
    fn recent(&self, now: Duration, asked_for: u64) -> (u64, Duration) {
        let Some(samples) = self.samples else { return (0, LEAST) };
        let age = |sample: &Sample| now.saturating_sub(sample.at);
        let [oldest, ..] = samples;
        let from = samples.into_iter().rev().find(|sample| age(sample) >= SPAN).unwrap_or(oldest);
        (asked_for.saturating_sub(from.issued), age(&from).max(LEAST))
    }

    /// How many whole seconds `remaining` IDs last at that rate; `None` if nothing was asked for.
    pub(crate) fn seconds_for(&self, remaining: u64, now: Duration, asked_for: u64) -> Option<u64> {
        let (ids, time) = self.recent(now, asked_for);
        let ids_in_time = u128::from(remaining).saturating_mul(time.as_millis());
        let seconds = ids_in_time.checked_div(u128::from(ids).saturating_mul(1000))?;
        Some(u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// How many IDs are asked for in 1000 seconds, at the present rate.
    pub(crate) fn per_1000_s(&self, now: Duration, asked_for: u64) -> u64 {
        let (ids, time) = self.recent(now, asked_for);
        let rate = u128::from(ids).saturating_mul(1_000_000).checked_div(time.as_millis());
        u64::try_from(rate.unwrap_or_default()).unwrap_or(u64::MAX)
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

    /// A rate with samples: times after [`T0`], and how many IDs had been issued by then.
    fn sampled(notes: &[(Duration, u64)]) -> IssueRate {
        let mut rate = IssueRate::default();
        notes.iter().for_each(|(after, issued)| rate.note(T0 + *after, *issued));
        rate
    }

    fn per_second(rate: &IssueRate, after: Duration, issued: u64) -> f64 {
        let (ids, time) = rate.recent(T0 + after, issued);
        ids as f64 / time.as_secs_f64()
    }

    /// 1000 a second for 30 seconds, sampled 10 times a second.
    fn busy() -> IssueRate {
        let notes = (0..=300).map(|tenth| (S / 10 * tenth, u64::from(tenth) * 100));
        sampled(&notes.collect::<Vec<_>>())
    }

    #[test]
    fn the_seconds_left_follow_the_load_of_the_last_seconds() {
        let rate = busy();
        assert_eq!(per_second(&rate, 30 * S, 30_000), 1000.0);
        let lasts = |remaining| rate.seconds_for(remaining, T0 + 30 * S, 30_000);
        assert_eq!([999, 1000, 59_999].map(lasts), [Some(0), Some(1), Some(59)]);
        assert_eq!(lasts(0), Some(0));
    }

    #[test]
    fn a_burst_is_soon_forgotten_and_an_idle_tag_lasts_for_ever() {
        let rate = busy();
        // No more samples: it has not seen the last 40 IDs.
        assert!(per_second(&rate, 90 * S, 30_040) < 1.0);
        assert_eq!(per_second(&rate, 40 * S, 30_000), 0.0);
        assert_eq!(rate.seconds_for(2000, T0 + 40 * S, 30_000), None);
    }

    #[test]
    fn a_sample_after_a_burst_lets_its_last_ids_pass_too() {
        let mut rate = busy();
        // The first look sees 40 IDs that no sample had seen; they could be a slow load.
        assert_eq!(rate.seconds_for(2000, T0 + 40 * S, 30_040), Some(500));
        rate.note(T0 + 40 * S, 30_040);
        assert_eq!(rate.seconds_for(2000, T0 + 50 * S, 30_040), None);
    }

    #[test]
    fn the_first_second_counts_as_a_whole_second_of_load() {
        let rate = sampled(&[(Duration::ZERO, 0)]);
        for after in [Duration::ZERO, S / 1000, S / 2, S] {
            assert_eq!(per_second(&rate, after, 100), 100.0, "after {after:?}");
        }
        assert_eq!(per_second(&rate, 2 * S, 100), 50.0);
        assert_eq!(IssueRate::default().seconds_for(2000, T0, 0), None);
    }

    #[test]
    fn one_request_after_an_idle_day_is_almost_no_load() {
        let mut rate = busy();
        rate.note(T0 + DAY, 30_000);
        rate.note(T0 + DAY, 30_001);
        assert!(per_second(&rate, DAY + S, 30_001) < 0.01);
        assert_eq!(rate.seconds_for(2000, T0 + DAY + 10 * S, 30_001), None);
    }

    #[test]
    fn a_load_that_begins_after_an_idle_day_is_measured_right_after_ten_seconds() {
        let mut rate = busy();
        for second in 0..=10 {
            rate.note(T0 + DAY + S * second, 30_000 + 500 * u64::from(second));
        }
        assert_eq!(per_second(&rate, DAY + 10 * S, 35_000), 500.0);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_makes_no_rate_infinite() {
        let rate = sampled(&[(S, 0), (S, 10), (Duration::ZERO, 20)]);
        assert_eq!(per_second(&rate, Duration::ZERO, 30), 30.0);
        assert_eq!(rate.seconds_for(60, T0, 30), Some(2));
    }

    #[test]
    fn no_number_is_too_large() {
        let mut rate = IssueRate::default();
        rate.note(Duration::ZERO, 0);
        assert_eq!(rate.seconds_for(u64::MAX, Duration::ZERO, u64::MAX), Some(1));
        assert_eq!(rate.seconds_for(u64::MAX, Duration::MAX, 1), Some(u64::MAX));
        let century = 36_525 * DAY;
        assert_eq!(rate.seconds_for(u64::MAX, century, u64::MAX), Some(century.as_secs()));
    }

    proptest! {
        #[test]
        fn a_steady_load_is_measured_right_however_often_it_is_sampled(
            per_s in 1..5_000_000u64,
            gaps in proptest::collection::vec(0..90_000u64, 1..100),
            then in 1000..90_000u64,
        ) {
            let issued = |ms: u64| per_s * ms / 1000;
            let (mut rate, mut ms) = (IssueRate::default(), 0);
            for gap in gaps {
                rate.note(T0 + Duration::from_millis(ms), issued(ms));
                ms += gap;
            }
            ms += then;
            let (ids, time) = rate.recent(T0 + Duration::from_millis(ms), issued(ms));
            let right = u128::from(per_s) * time.as_millis() / 1000;
            prop_assert!(u128::from(ids).abs_diff(right) <= 1, "{} in {:?}", ids, time);
        }

        #[test]
        fn nothing_older_than_two_spans_and_the_longest_silence_counts(
            gaps in proptest::collection::vec(0..30_000u64, 1..200),
        ) {
            let (mut rate, mut now) = (IssueRate::default(), T0);
            let silence = Duration::from_millis(*gaps.iter().max().unwrap());
            for gap in gaps {
                rate.note(now, 0);
                now += Duration::from_millis(gap);
                let (_, time) = rate.recent(now, 0);
                prop_assert!(time <= (2 * SPAN + silence).max(LEAST), "{:?}", time);
                prop_assert!(time >= SPAN.min(now - T0));
            }
        }

        #[test]
        fn no_history_makes_it_panic_or_count_more_than_was_asked_for(
            notes in proptest::collection::vec(any::<(u32, u64)>(), 0..20),
            remaining: u64, now: u32, asked_for: u64,
        ) {
            let mut rate = IssueRate::default();
            for (ms, issued) in notes {
                rate.note(Duration::from_millis(ms.into()), issued);
            }
            let now = Duration::from_millis(now.into());
            let (ids, time) = rate.recent(now, asked_for);
            prop_assert!(ids <= asked_for && time >= LEAST);
            prop_assert_eq!(rate.seconds_for(remaining, now, asked_for).is_none(), ids == 0);
        }
    }

    #[test]
    fn a_rate_is_of_what_was_asked_for_recently() {
        let mut rate = IssueRate::default();
        assert_eq!(rate.per_1000_s(Duration::ZERO, 0), 0);
        rate.note(Duration::ZERO, 0);
        assert_eq!(rate.per_1000_s(Duration::from_secs(4), 10), 2500);
        // A tag's first IDs do not make it absurdly high.
        assert_eq!(rate.per_1000_s(Duration::from_millis(1), 10), 10_000);
        assert_eq!(rate.per_1000_s(LEAST, u64::MAX), u64::MAX);
    }
}
