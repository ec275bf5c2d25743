//! Checks whether an ID came twice. It keeps every ID of a run, from all connections, as intervals:
//! consecutive IDs merge, so memory grows with the number of gaps, not of IDs, and is bounded. No
//! IO and no clock.

use std::collections::BTreeMap;
use std::fmt;

/// Most intervals kept, about 64 MB. If other clients take IDs of the same tag, there are many
/// gaps; then the verifier forgets the lower half, and IDs down there count as too old to check.
const MAX_INTERVALS: usize = 2_000_000;

/// Most offending ranges kept for the report.
const MAX_EXAMPLES: usize = 10;

/// The IDs seen so far.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    /// Disjoint intervals that do not touch: start to end (exclusive).
    seen: BTreeMap<u64, u64>,
    /// How far below the highest ID intervals are kept; `None`: no limit.
    window: Option<u64>,
    /// Intervals below this are forgotten: an ID down there may or may not be new.
    mark: u64,
    highest: u64,
    /// IDs checked.
    verified: u64,
    /// IDs that had come before.
    duplicates: u64,
    /// IDs below the mark.
    too_old: u64,
    examples: Vec<Offence>,
}

/// A range of IDs that failed the check, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offence {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{} to {}", self.first, self.last)
        }
    }
}

impl Verifier {
    /// A verifier for IDs in any order, such as segment IDs across a restart of the daemon.
    pub(crate) fn unordered() -> Self {
        Self::default()
    }

    /// A verifier for IDs that rise with time: an ID `window` below the highest cannot be right, so
    /// nothing older has to be kept.
    pub(crate) fn rising(window: u64) -> Self {
        Self { window: Some(window), ..Self::default() }
    }

    /// Checks and records the IDs `first`, `first + 1`, … `first + count - 1`.
    pub(crate) fn add(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        self.verified += count;
        let mut start = first;
        if start < self.mark {
            let known = end.min(self.mark);
            self.too_old += known - start;
            self.remember(start, known);
            start = known;
        }
        if start >= end {
            return;
        }
        self.highest = self.highest.max(end);
        self.merge(start, end);
        self.retire();
    }

    /// Counts `count` IDs from `first` on that the caller knows to have come before. They are recorded
    /// already, or will be.
    pub(crate) fn add_repeated(&mut self, first: u64, count: u64) {
        self.verified += count;
        self.duplicates += count;
        self.remember(first, first.saturating_add(count));
    }

    fn merge(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        // Visits every interval that overlaps or touches, from the right. In the common case, there
        // is one, which ends where the new IDs begin.
        while let Some((&s, e)) = self.seen.range_mut(..=high).next_back() {
            if *e < low {
                break;
            }
            let (from, to) = (s.max(start), (*e).min(end));
            let clash = from < to;
            if s <= low && high == end && !clash {
                *e = high.max(*e);
                return;
            }
            low = low.min(s);
            high = high.max(*e);
            self.seen.remove(&s);
            if clash {
                self.duplicates += to - from;
                self.remember(from, to);
            }
        }
        self.seen.insert(low, high);
    }

    fn remember(&mut self, start: u64, end: u64) {
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(Offence { first: start, last: end - 1 });
        }
    }

    fn retire(&mut self) {
        if let Some(window) = self.window {
            let mark = self.highest.saturating_sub(window);
            // Not at every call: forget only when it frees a fair share.
            if mark.saturating_sub(self.mark) > window / 16 {
                self.forget_below(mark);
            }
        }
        if self.seen.len() > MAX_INTERVALS
            && let Some(&middle) = self.seen.keys().nth(MAX_INTERVALS / 2)
        {
            self.forget_below(middle);
        }
    }

    fn forget_below(&mut self, mark: u64) {
        self.mark = mark;
        while let Some(entry) = self.seen.first_entry() {
            if *entry.key() >= mark {
                break;
            }
            let end = entry.remove();
            if end > mark {
                self.seen.insert(mark, end);
            }
        }
    }

    pub(crate) fn verified(&self) -> u64 {
        self.verified
    }

    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// IDs so far below the highest that the verifier has forgotten what it saw there.
    pub(crate) fn too_old(&self) -> u64 {
        self.too_old
    }

    /// The number of intervals.
    #[cfg(test)]
    pub(crate) fn intervals(&self) -> usize {
        self.seen.len()
    }

    /// The first ranges that failed the check.
    pub(crate) fn examples(&self) -> &[Offence] {
        &self.examples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dense_ids_from_several_connections_merge_into_one_interval() {
        let mut verifier = Verifier::unordered();
        for batch in 0..1000 {
            for connection in [2, 0, 3, 1] {
                verifier.add(1 + batch * 4 * 64 + connection * 64, 64);
            }
        }
        assert_eq!(verifier.verified(), 256_000);
        assert_eq!(verifier.duplicates(), 0);
        assert_eq!(verifier.seen, BTreeMap::from([(1, 256_001)]));
    }

    #[test]
    fn the_report_names_an_id_that_two_connections_got() {
        let mut verifier = Verifier::unordered();
        verifier.add(1, 100);
        verifier.add(201, 100);
        verifier.add(91, 120);
        assert_eq!(verifier.duplicates(), 20);
        assert_eq!(
            verifier.examples(),
            [Offence { first: 201, last: 210 }, Offence { first: 91, last: 100 }]
        );
        verifier.add(150, 1);
        assert_eq!(verifier.duplicates(), 21);
        assert_eq!(verifier.seen, BTreeMap::from([(1, 301)]));
        assert_eq!(verifier.too_old(), 0);
    }

    #[test]
    fn an_id_among_forgotten_intervals_is_too_old() {
        let mut verifier = Verifier::rising(1000);
        for i in 0..100_000 {
            verifier.add(i * 10, 5);
        }
        assert!(verifier.seen.len() < 120, "{}", verifier.seen.len());
        assert_eq!((verifier.duplicates(), verifier.too_old()), (0, 0));
        verifier.add(7, 1);
        assert_eq!((verifier.duplicates(), verifier.too_old()), (0, 1));
        verifier.add(999_990, 1);
        assert_eq!((verifier.duplicates(), verifier.too_old()), (1, 1));
    }

    #[test]
    fn a_range_across_the_mark_counts_on_both_sides() {
        let mut verifier = Verifier::rising(100);
        verifier.add(0, 1000);
        assert_eq!((verifier.mark, verifier.seen.clone()), (900, BTreeMap::from([(900, 1000)])));
        verifier.add(890, 20);
        assert_eq!((verifier.too_old(), verifier.duplicates()), (10, 10));
    }

    #[test]
    fn memory_is_bounded_when_every_second_id_goes_to_another_client() {
        let mut verifier = Verifier::unordered();
        let ids = MAX_INTERVALS as u64 + 10;
        for i in 0..ids {
            verifier.add(i * 2, 1);
        }
        assert!(verifier.seen.len() <= MAX_INTERVALS);
        assert_eq!((verifier.duplicates(), verifier.too_old()), (0, 0));
        verifier.add(ids * 2 - 2, 1);
        assert_eq!(verifier.duplicates(), 1);
    }

    #[test]
    fn the_highest_possible_id_does_not_overflow() {
        let mut verifier = Verifier::rising(10);
        verifier.add(i64::MAX as u64, u64::from(u32::MAX));
        verifier.add(u64::MAX - 1, 10);
        assert_eq!(verifier.duplicates(), 0);
    }

    proptest! {
        #[test]
        fn the_verifier_counts_as_many_duplicates_as_a_plain_set(
            runs in prop::collection::vec((0..200u64, 1..20u64), 0..60)
        ) {
            let mut verifier = Verifier::unordered();
            let (mut set, mut duplicates) = (std::collections::BTreeSet::new(), 0);
            for (first, count) in runs {
                verifier.add(first, count);
                duplicates += (first..first + count).filter(|id| !set.insert(*id)).count() as u64;
            }
            prop_assert_eq!(verifier.duplicates(), duplicates);
            let covered: u64 = verifier.seen.iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(covered, set.len() as u64);
            let mut ends = verifier.seen.iter();
            let mut last = ends.next().map(|(_, end)| *end);
            for (start, end) in ends {
                prop_assert!(last < Some(*start));
                last = Some(*end);
            }
        }
    }
}
