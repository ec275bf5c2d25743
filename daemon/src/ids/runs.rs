//! The runs of IDs in an answer. The first needs no allocation.

use leaf_client::wire::{Reply, Run};

/// Runs in the order of issue. Adjacent runs are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    first: Option<Run>,
    more: Vec<Run>,
}

impl Runs {
    /// A single run.
    #[must_use]
    #[inline]
    pub fn one(first: u64, count: u32) -> Self {
        Self { first: Some(Run { first, count }), more: Vec::new() }
    }

    /// Appends `count` IDs from `first` on; 0 appends nothing.
    #[inline]
    pub fn push(&mut self, first: u64, count: u32) {
        if count == 0 {
            return;
        }
        let Some(last) = self.more.last_mut().or(self.first.as_mut()) else {
            self.first = Some(Run { first, count });
            return;
        };
        if last.first.checked_add(u64::from(last.count)) == Some(first)
            && let Some(sum) = last.count.checked_add(count)
        {
            last.count = sum;
        } else {
            self.more.push(Run { first, count });
        }
    }

    /// All runs in order.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.first.iter().chain(&self.more).copied()
    }

    /// Number of IDs in all runs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The reply with these IDs; `None` if there are none.
    #[must_use]
    #[inline]
    pub fn into_reply(self) -> Option<Reply> {
        let more = self.more;
        self.first.map(|first| Reply::Ids { first, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_runs_are_merged_and_others_stay_apart() {
        let mut runs = Runs::default();
        assert!(runs.clone().into_reply().is_none());
        for (first, count) in [(5, 2), (7, 3), (20, 0), (20, 1), (21, 1), (1, 1)] {
            runs.push(first, count);
        }
        let all: Vec<_> = runs.iter().map(|run| (run.first, run.count)).collect();
        assert_eq!(all, [(5, 5), (20, 2), (1, 1)]);
        assert_eq!(runs.total(), 8);
    }
}
