//! All IDs that clients received in a test, kept as ranges. Adding an ID twice fails the test.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use leaf_client::Ids;

/// The IDs of a test, per name space (a tag, or "snowflake"). Clones share them.
#[derive(Debug, Clone, Default)]
pub struct UniqueIds(Arc<Mutex<HashMap<String, Ranges>>>);

#[derive(Debug, Default)]
struct Ranges {
    ends_by_start: BTreeMap<u64, u64>,
    total: u64,
}

impl UniqueIds {
    /// Adds the IDs of one answer.
    pub fn add(&self, space: &str, ids: &Ids) {
        for run in ids.runs() {
            self.add_run(space, run.first, u64::from(run.count));
        }
    }

    /// Adds `count` IDs from `first` on.
    pub fn add_run(&self, space: &str, first: u64, count: u64) {
        let mut spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !spaces.contains_key(space) {
            spaces.insert(space.to_owned(), Ranges::default());
        }
        let Some(ranges) = spaces.get_mut(space) else { return };
        let end = first + count;
        let below = ranges.ends_by_start.range(..end).next_back().map(|(s, e)| (*s, *e));
        assert!(
            below.is_none_or(|(_, seen_end)| seen_end <= first),
            "DUPLICATE in {space}: {first}..{end} overlaps {below:?}, seen before"
        );
        ranges.total += count;
        match below {
            // Adjacent ranges are merged, so that millions of dense IDs take little memory.
            Some((start, seen_end)) if seen_end == first => {
                ranges.ends_by_start.insert(start, end);
            }
            _ => {
                ranges.ends_by_start.insert(first, end);
            }
        }
    }

    /// Number of IDs in a name space.
    #[must_use]
    pub fn count(&self, space: &str) -> u64 {
        let spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).map_or(0, |ranges| ranges.total)
    }

    /// Number of IDs in all name spaces.
    #[must_use]
    pub fn total(&self) -> u64 {
        let spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.values().map(|ranges| ranges.total).sum()
    }

    /// The highest ID of a name space.
    #[must_use]
    pub fn highest(&self, space: &str) -> Option<u64> {
        let spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = spaces.get(space)?;
        ranges.ends_by_start.values().next_back().map(|end| end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_ids_are_counted_per_name_space() {
        let seen = UniqueIds::default();
        for (first, count) in [(10, 5), (15, 5), (1, 9), (100, 1)] {
            seen.add_run("a", first, count);
        }
        seen.add_run("b", 10, 1);
        assert_eq!((seen.count("a"), seen.total(), seen.highest("a")), (20, 21, Some(100)));
    }

    #[test]
    fn adding_an_id_twice_panics() {
        for (first, count) in [(10, 1), (14, 1), (9, 2), (5, 100), (12, 1)] {
            let seen = UniqueIds::default();
            seen.add_run("a", 10, 5);
            let again = std::panic::catch_unwind(|| seen.add_run("a", first, count));
            assert!(again.is_err(), "{first} × {count}");
        }
    }
}
