//! Ranges of IDs and queues of them. Plain arithmetic.

use smallvec::SmallVec;

/// The highest end of a range: IDs are positive as signed 64-bit numbers.
pub const MAX_END: u64 = i64::MAX as u64;

/// The largest step that a configuration can allow. A tag that starts this far below [`MAX_END`] has
/// room for a range.
pub const MAX_STEP: u64 = 1_000_000_000;

/// A half-open range `[start, end)` of IDs that is not empty and ends at or below [`MAX_END`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    start: u64,
    end: u64,
}

impl Range {
    /// A range; `None` when it is empty or ends above [`MAX_END`].
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end && end <= MAX_END { Some(Self { start, end }) } else { None }
    }

    /// The lowest ID.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the highest ID.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Number of IDs; never 0.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.end - self.start
    }
}

/// Ranges in the order of issue, with their total at hand. Ranges that touch become one. There are
/// rarely more than two: they lie within, so that the fast path has nothing to look up elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeQueue {
    ranges: SmallVec<[Range; 2]>,
    total: u64,
}

impl RangeQueue {
    /// Number of IDs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The next ID.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.start)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().copied()
    }

    /// Appends a range.
    pub fn push_back(&mut self, range: Range) {
        self.total += range.count();
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    /// Puts ranges back before the others, keeping their order.
    pub fn put_back(&mut self, ranges: Self) {
        let behind = std::mem::replace(self, ranges);
        for range in behind.ranges {
            self.push_back(range);
        }
    }

    /// Takes the next `count` IDs when they lie in one range; the fast path.
    #[inline]
    pub fn take_run(&mut self, count: u64) -> Option<u64> {
        let front = self.ranges.first_mut()?;
        // The last ID of a range goes the slow way, which removes the range.
        if front.count() <= count {
            return None;
        }
        let first = front.start;
        front.start += count;
        self.total -= count;
        Some(first)
    }

    /// Takes up to `count` IDs off the front.
    pub fn take_up_to(&mut self, mut count: u64) -> Self {
        let mut taken = Self::default();
        while count > 0 {
            let Some(front) = self.ranges.first_mut() else { break };
            let part = front.count().min(count);
            let range = Range { start: front.start, end: front.start + part };
            if part == front.count() {
                self.ranges.remove(0);
            } else {
                front.start += part;
            }
            self.total -= part;
            count -= part;
            taken.push_back(range);
        }
        taken
    }
}

impl FromIterator<Range> for RangeQueue {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut queue = Self::default();
        for range in ranges {
            queue.push_back(range);
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(ranges: &[(u64, u64)]) -> RangeQueue {
        ranges.iter().map(|&(start, end)| Range::new(start, end).unwrap()).collect()
    }

    #[test]
    fn a_range_is_not_empty_and_not_above_the_highest_id() {
        assert!(Range::new(5, 5).is_none());
        assert!(Range::new(6, 5).is_none());
        assert!(Range::new(1, MAX_END).is_some());
        assert!(Range::new(1, MAX_END + 1).is_none());
    }

    #[test]
    fn taking_and_putting_back_keeps_order_and_total() {
        let mut all = queue(&[(1, 4), (4, 6), (10, 12)]);
        assert_eq!(all, queue(&[(1, 6), (10, 12)]));
        let taken = all.take_up_to(6);
        assert_eq!(taken, queue(&[(1, 6), (10, 11)]));
        assert_eq!((all.total(), all.position()), (1, Some(11)));
        all.put_back(taken);
        assert_eq!(all, queue(&[(1, 6), (10, 12)]));
        assert_eq!(all.take_up_to(100).total(), 7);
        assert_eq!((all.total(), all.position()), (0, None));
    }

    #[test]
    fn the_fast_path_leaves_the_end_of_a_range_to_the_slow_one() {
        let mut all = queue(&[(1, 4)]);
        assert_eq!(all.take_run(2), Some(1));
        assert_eq!(all.take_run(1), None);
        assert_eq!(all.total(), 1);
    }
}
