//! How fast tags have grown over up to a week, from a few readings of each. Plain bookkeeping: the time
//! comes in as an argument.
//!
//! What grows is the high-water mark, which every host's leases move, and which a refresh reads: a
//! forecast has to know what the whole fleet uses. Days differ less from week to week than from each
//! other, so a rate covers a week as soon as so much is known.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::ids::BizTag;

/// Readings that are older do not count. In seconds.
const WEEK_S: u64 = 7 * 86_400;

/// The time between two readings that are kept. In seconds; a day and a bit less, so that a leafd that
/// is restarted every day at the same time keeps one of each day.
const APART_S: u64 = 23 * 3600;

/// A rate covers at least this time, since a mark moves by whole leases. In seconds.
const LEAST_S: u64 = 600;

/// The most tags: those with the highest marks, which are nearest to a limit.
pub(super) const MOST_TAGS: usize = 5000;

/// The most readings of a tag.
pub(crate) const MOST_READINGS: usize = (WEEK_S / APART_S + 1) as usize;

/// A tag's high-water mark at a moment, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarkReading {
    pub(crate) at_s: u64,
    pub(crate) mark: u64,
}

/// By how many IDs a tag has grown, and in how many seconds. Not 0 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) ids: u64,
    pub(crate) seconds: u64,
}

impl Growth {
    /// The rate.
    pub(crate) fn per_second(self) -> f64 {
        self.ids as f64 / self.seconds as f64
    }
}

/// The readings of all tags.
#[derive(Debug, Default)]
pub(crate) struct RateHistory {
    tags: HashMap<BizTag, VecDeque<MarkReading>>,
}

/// Collects the marks of all tags, and keeps the highest.
#[derive(Debug, Default)]
pub(super) struct HighestMarks(BinaryHeap<Reverse<(u64, BizTag)>>);

impl HighestMarks {
    pub(super) fn offer(&mut self, name: &BizTag, mark: u64) {
        if self.0.len() >= MOST_TAGS {
            if self.0.peek().is_some_and(|Reverse((lowest, _))| *lowest >= mark) {
                return;
            }
            self.0.pop();
        }
        self.0.push(Reverse((mark, name.clone())));
    }
}

impl RateHistory {
    /// What a file remembers. Readings of a tag come in their order.
    pub(crate) fn of(tags: Vec<(BizTag, Vec<MarkReading>)>) -> Self {
        let tags = tags.into_iter().take(MOST_TAGS);
        Self { tags: tags.map(|(name, readings)| (name, readings.into())).collect() }
    }

    /// Takes in the marks of all tags at `now_s`. Tags that are not among them are forgotten. Returns
    /// whether there is something new to keep: most marks are none, since readings are a day apart.
    pub(super) fn note(&mut self, now_s: u64, marks: HighestMarks) -> bool {
        let mut before = std::mem::take(&mut self.tags);
        let (marks, mut changed) = (marks.0.into_iter(), false);
        self.tags = marks
            .map(|Reverse((mark, name))| {
                let mut readings = before.remove(&name).unwrap_or_default();
                changed |= take_in(&mut readings, MarkReading { at_s: now_s, mark });
                (name, readings)
            })
            .collect();
        changed || !before.is_empty()
    }

    /// How much the tag has grown, if its mark is `mark` at `now_s`. `None` if too little is known.
    pub(super) fn growth(&self, name: &str, now_s: u64, mark: u64) -> Option<Growth> {
        let readings = self.tags.get(name)?;
        let from = readings.iter().find(|reading| is_recent(reading, now_s))?;
        let (ids, seconds) = (mark.checked_sub(from.mark)?, now_s.checked_sub(from.at_s)?);
        (seconds >= LEAST_S).then_some(Growth { ids, seconds })
    }

    /// The readings of all tags, the highest mark first.
    pub(crate) fn tags(&self) -> Vec<(&BizTag, &VecDeque<MarkReading>)> {
        let mut tags: Vec<_> = self.tags.iter().collect();
        tags.sort_by_key(|(name, readings)| {
            (Reverse(readings.back().map(|reading| reading.mark)), *name)
        });
        tags
    }
}

const fn is_recent(reading: &MarkReading, now_s: u64) -> bool {
    reading.at_s <= now_s && now_s - reading.at_s <= WEEK_S
}

/// Returns whether the readings have changed.
fn take_in(readings: &mut VecDeque<MarkReading>, now: MarkReading) -> bool {
    // A mark that fell belongs to another table, and a later time to a clock that was set back.
    let is_of_use =
        |reading: &MarkReading| is_recent(reading, now.at_s) && reading.mark <= now.mark;
    let before = readings.len();
    readings.retain(is_of_use);
    let mut changed = readings.len() != before;
    if readings.back().is_none_or(|last| now.at_s - last.at_s >= APART_S) {
        readings.push_back(now);
        changed = true;
    }
    while readings.len() > MOST_READINGS {
        readings.pop_front();
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY_S: u64 = 86_400;
    const T0: u64 = 1_800_000_000;

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn note(history: &mut RateHistory, at_s: u64, marks: &[(&str, u64)]) -> bool {
        let mut highest = HighestMarks::default();
        marks.iter().for_each(|(name, mark)| highest.offer(&tag(name), *mark));
        history.note(at_s, highest)
    }

    /// IDs per second.
    fn rate(history: &RateHistory, name: &str, now_s: u64, mark: u64) -> Option<f64> {
        history.growth(name, now_s, mark).map(Growth::per_second)
    }

    /// 10 IDs a second for `days`, noted every minute.
    fn steady(days: u64) -> RateHistory {
        let mut history = RateHistory::default();
        for minute in 0..=days * 1440 {
            note(&mut history, T0 + minute * 60, &[("orders", minute * 600)]);
        }
        history
    }

    #[test]
    fn a_steady_tag_has_its_rate_after_an_hour_a_day_and_a_month() {
        let mut history = RateHistory::default();
        note(&mut history, T0, &[("orders", 0)]);
        assert_eq!(rate(&history, "orders", T0 + 599, 5990), None, "too little is known");
        assert_eq!(rate(&history, "orders", T0 + 3600, 36_000), Some(10.0));
        for days in [1, 3, 30] {
            let (history, time_s) = (steady(days), days * DAY_S);
            assert_eq!(rate(&history, "orders", T0 + time_s, time_s * 10), Some(10.0));
            assert!(history.tags()[0].1.len() <= MOST_READINGS);
        }
        assert_eq!(rate(&history, "unknown", T0, 1), None);
    }

    #[test]
    fn a_rate_covers_the_last_week_and_no_more() {
        let mut history = steady(14);
        // Nobody has asked for a week.
        let end = T0 + 14 * DAY_S;
        for minute in 1..=7 * 1440 {
            note(&mut history, end + minute * 60, &[("orders", 14 * DAY_S * 10)]);
        }
        let rate = rate(&history, "orders", end + 7 * DAY_S, 14 * DAY_S * 10);
        assert!(rate.is_some_and(|rate| rate < 0.5), "{rate:?}");
    }

    #[test]
    fn a_pause_of_two_weeks_begins_the_history_anew() {
        let mut history = steady(1);
        note(&mut history, T0 + 15 * DAY_S, &[("orders", DAY_S * 10)]);
        assert_eq!(rate(&history, "orders", T0 + 15 * DAY_S + 60, DAY_S * 10 + 1), None);
    }

    #[test]
    fn a_mark_that_falls_and_a_clock_that_goes_back_give_no_rate() {
        let mut history = RateHistory::default();
        note(&mut history, T0, &[("orders", 600)]);
        assert_eq!(rate(&history, "orders", T0 + DAY_S, 599), None);
        note(&mut history, T0 - 5000, &[("orders", 10)]);
        assert_eq!(rate(&history, "orders", T0 - 5000, 10), None);
        assert_eq!(rate(&history, "orders", T0 - 4000, 10_010), Some(10.0));
    }

    #[test]
    fn there_is_something_new_to_keep_once_a_day_and_when_a_tag_comes_or_goes() {
        let mut history = RateHistory::default();
        let news = [
            (0, &[("a", 1)][..], true),
            (60, &[("a", 2)], false),
            (120, &[("a", 3), ("b", 1)], true),
            (180, &[("b", 1)], true),
            (240, &[("b", 2)], false),
            (APART_S + 120, &[("b", 2)], true),
            (APART_S + 180, &[("b", 1)], true),
        ];
        for (after, marks, is_new) in news {
            assert_eq!(note(&mut history, T0 + after, marks), is_new, "{after}");
        }
    }

    #[test]
    fn the_tags_with_the_highest_marks_are_kept() {
        let mut highest = HighestMarks::default();
        for number in 0..2 * MOST_TAGS as u64 {
            highest.offer(&tag(&number.to_string()), number);
        }
        let mut history = RateHistory::default();
        history.note(T0, highest);
        let tags = history.tags();
        assert_eq!(tags.len(), MOST_TAGS);
        assert_eq!(tags[0].1[0].mark, 2 * MOST_TAGS as u64 - 1);
        assert!(tags.iter().all(|(_, readings)| readings[0].mark >= MOST_TAGS as u64));
    }

    proptest! {
        #[test]
        fn no_history_gives_a_rate_that_no_two_readings_have(
            readings in proptest::collection::vec((0..30 * DAY_S, 0..1_000_000_u64), 0..50),
            now in 0..30 * DAY_S, mark in 0..1_000_000_u64,
        ) {
            let mut history = RateHistory::default();
            for (at_s, mark) in &readings {
                note(&mut history, *at_s, &[("t", *mark)]);
            }
            prop_assert!(history.tags().iter().all(|(_, list)| list.len() <= MOST_READINGS));
            if let Some(rate) = rate(&history, "t", now, mark) {
                let possible = readings.iter().any(|(at_s, from)| {
                    now.checked_sub(*at_s).is_some_and(|time| (LEAST_S..=WEEK_S).contains(&time))
                        && mark.checked_sub(*from).is_some_and(|ids| {
                            rate == ids as f64 / (now - at_s) as f64
                        })
                });
                prop_assert!(possible, "{rate}");
            }
        }
    }
}
