//! Ranges of IDs and queues of them. Plain arithmetic.

use smallvec::SmallVec;

/// The highest end of a range: IDs are positive as signed 64-bit numbers.
pub const MAX_END: u64 = i64::MAX as u64;

/// The largest step that the configuration can allow. A tag that starts at least this far below
/// [`MAX_END`] has room for one more range.
pub const MAX_STEP: u64 = 1_000_000_000;

/// A half-open range `[start, end)` of IDs. It is not empty and ends at or below [`MAX_END`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    start: u64,
    end: u64,
}

impl Range {
    /// Returns `None` if the range would be empty or end above [`MAX_END`].
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

/// Ranges in the order of issue, with their total. Adjacent ranges are merged. There are rarely more
/// than two, which are stored inline, so that the fast path follows no pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeQueue {
    ranges: SmallVec<[Range; 2]>,
    total: u64,
}

impl RangeQueue {
    /// Number of IDs in all ranges.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The next ID to issue.
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

    /// Puts ranges back in front of the others, in their order.
    pub fn put_back(&mut self, ranges: Self) {
        let behind = std::mem::replace(self, ranges);
        for range in behind.ranges {
            self.push_back(range);
        }
    }

    /// Takes the next `count` IDs if they lie in one range. This is the fast path.
    #[inline]
    pub fn take_run(&mut self, count: u64) -> Option<u64> {
        let front = self.ranges.first_mut()?;
        // The slow path takes the last ID of a range, and removes the range.
        if front.count() <= count {
            return None;
        }
        let first = front.start;
        front.start += count;
        self.total -= count;
        Some(first)
    }

    /// Takes up to `count` IDs from the front.
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
    fn an_empty_range_or_one_above_the_highest_id_is_refused() {
        assert!(Range::new(5, 5).is_none());
        assert!(Range::new(6, 5).is_none());
        assert!(Range::new(1, MAX_END).is_some());
        assert!(Range::new(1, MAX_END + 1).is_none());
    }

    #[test]
    fn taking_and_putting_back_preserves_order_and_total() {
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
    fn the_fast_path_leaves_the_last_id_of_a_range_to_the_slow_path() {
        let mut all = queue(&[(1, 4)]);
        assert_eq!(all.take_run(2), Some(1));
        assert_eq!(all.take_run(1), None);
        assert_eq!(all.total(), 1);
    }
}
