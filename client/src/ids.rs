//! The IDs of one answer, checked when they arrive: an [`Ids`] holds exactly as many IDs as
//! requested, each once and none above `i64::MAX`.

use std::iter::FusedIterator;

use crate::error::ProtocolError;
use crate::wire::Run;

/// The IDs of one call: one or more runs without gaps, in the order of issue. Never empty.
///
/// ```
/// # #[cfg(all(feature = "blocking", feature = "testing"))]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let daemon = leaf_client::testing::FakeDaemon::start()?;
/// # let options = leaf_client::Options::at(daemon.path());
/// # let mut client = leaf_client::blocking::Client::new(options);
/// let ids = client.next_many("order", 3)?;
/// assert_eq!((ids.len(), ids.first()), (3, 1));
/// assert_eq!(ids.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "blocking", feature = "testing")))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids(Runs);

// Almost every answer is a single run, which therefore needs no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Runs {
    One(Run),
    Many(Vec<Run>),
}

#[expect(
    clippy::len_without_is_empty,
    reason = "it is never empty: an answer without IDs is a protocol error"
)]
impl Ids {
    /// Checks the runs of an answer to a request for `asked` IDs.
    pub(crate) fn check(first: Run, more: Vec<Run>, asked: u32) -> Result<Self, ProtocolError> {
        let runs = if more.is_empty() {
            Runs::One(first)
        } else {
            let mut runs = more;
            runs.insert(0, first);
            Runs::Many(runs)
        };
        let ids = Self(runs);
        let mut total = 0u64;
        for run in ids.runs() {
            if run.count == 0 {
                return Err(ProtocolError::EmptyRun { first: run.first });
            }
            if last_of(run).is_none() {
                return Err(ProtocolError::RunTooHigh { first: run.first, count: run.count });
            }
            total = total.saturating_add(u64::from(run.count));
        }
        if total != u64::from(asked) {
            return Err(ProtocolError::WrongTotal { asked, got: total });
        }
        match duplicate(&ids.0) {
            Some(id) => Err(ProtocolError::DuplicateId { id }),
            None => Ok(ids),
        }
    }

    /// The runs, in the order of issue; at least one.
    #[must_use]
    pub const fn runs(&self) -> &[Run] {
        match &self.0 {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Many(runs) => runs.as_slice(),
        }
    }

    /// The number of IDs, which is the number requested and never 0.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.runs().iter().map(|run| u64::from(run.count)).sum()
    }

    /// The first ID in the order of issue.
    #[must_use]
    pub fn first(&self) -> u64 {
        // The default is never used: there is at least one run.
        self.runs().first().map_or(0, |run| run.first)
    }

    /// Iterates over the IDs in the order of issue.
    #[must_use]
    pub fn iter(&self) -> IdsIter {
        self.clone().into_iter()
    }
}

/// The highest ID of a run; `None` if it is above `i64::MAX`.
fn last_of(run: &Run) -> Option<u64> {
    let last = run.first.checked_add(u64::from(run.count))?.checked_sub(1)?;
    i64::try_from(last).is_ok().then_some(last)
}

fn duplicate(runs: &Runs) -> Option<u64> {
    let Runs::Many(runs) = runs else { return None };
    let mut runs = runs.clone();
    runs.sort_unstable_by_key(|run| run.first);
    let mut pairs = runs.iter().zip(runs.iter().skip(1));
    pairs.find(|(low, high)| last_of(low) >= Some(high.first)).map(|(_, high)| high.first)
}

impl IntoIterator for Ids {
    type Item = u64;
    type IntoIter = IdsIter;

    fn into_iter(self) -> IdsIter {
        let remaining = self.len();
        let (current, rest) = match self.0 {
            Runs::One(run) => (Some(run), Vec::new()),
            Runs::Many(runs) => (None, runs),
        };
        IdsIter { current: current.map_or(0..0, range), rest: rest.into_iter(), remaining }
    }
}

impl IntoIterator for &Ids {
    type Item = u64;
    type IntoIter = IdsIter;

    fn into_iter(self) -> IdsIter {
        self.iter()
    }
}

/// An iterator over the IDs of an [`Ids`], in the order of issue.
#[derive(Debug, Clone)]
pub struct IdsIter {
    current: std::ops::Range<u64>,
    rest: std::vec::IntoIter<Run>,
    remaining: u64,
}

// Checked runs end at `i64::MAX`, so the sum cannot pass `u64::MAX`.
const fn range(run: Run) -> std::ops::Range<u64> {
    run.first..run.first.saturating_add(run.count as u64)
}

impl Iterator for IdsIter {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let id = loop {
            match self.current.next() {
                Some(id) => break id,
                None => self.current = range(self.rest.next()?),
            }
        };
        self.remaining = self.remaining.saturating_sub(1);
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining).ok();
        (remaining.unwrap_or(usize::MAX), remaining)
    }
}

impl FusedIterator for IdsIter {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOP: u64 = i64::MAX as u64;

    fn run(first: u64, count: u32) -> Run {
        Run { first, count }
    }

    #[test]
    fn ids_keep_the_order_of_issue() {
        let ids = Ids::check(run(10, 2), vec![run(3, 1), run(20, 2)], 5).unwrap();
        assert_eq!((ids.len(), ids.first()), (5, 10));
        assert_eq!(ids.runs(), [run(10, 2), run(3, 1), run(20, 2)]);
        assert_eq!(ids.iter().size_hint(), (5, Some(5)));
        assert_eq!((&ids).into_iter().collect::<Vec<_>>(), [10, 11, 3, 20, 21]);
        assert_eq!(ids.into_iter().skip(4).collect::<Vec<_>>(), [21]);
    }

    #[test]
    fn the_highest_id_is_accepted_and_the_next_is_refused() {
        let ids = Ids::check(run(TOP - 1, 2), vec![], 2).unwrap();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), [TOP - 1, TOP]);
        for bad in [run(TOP, 2), run(TOP + 1, 1), run(u64::MAX, 1), run(u64::MAX, u32::MAX)] {
            let error = Ids::check(bad, vec![], bad.count).unwrap_err();
            assert!(matches!(error, ProtocolError::RunTooHigh { .. }), "{error}");
        }
    }

    #[test]
    fn an_empty_run_a_wrong_total_and_a_duplicate_are_refused() {
        let check = |first, more: &[Run], asked| Ids::check(first, more.to_vec(), asked);
        assert_eq!(check(run(7, 0), &[], 0), Err(ProtocolError::EmptyRun { first: 7 }));
        assert_eq!(check(run(7, 1), &[run(9, 0)], 1), Err(ProtocolError::EmptyRun { first: 9 }));
        let wrong = |asked, got| Err(ProtocolError::WrongTotal { asked, got });
        assert_eq!(check(run(7, 1), &[], 2), wrong(2, 1));
        assert_eq!(check(run(7, 3), &[], 2), wrong(2, 3));
        assert_eq!(
            check(run(0, u32::MAX), &[run(1 << 40, u32::MAX)], u32::MAX - 1),
            wrong(u32::MAX - 1, 2 * u64::from(u32::MAX))
        );
        let twice = |id| Err(ProtocolError::DuplicateId { id });
        assert_eq!(check(run(7, 3), &[run(9, 1)], 4), twice(9));
        assert_eq!(check(run(7, 1), &[run(20, 1), run(7, 1)], 3), twice(7));
        assert!(check(run(7, 3), &[run(10, 1), run(6, 1)], 5).is_ok());
    }

    proptest! {
        #[test]
        fn ids_that_pass_the_check_are_distinct_and_complete(
            firsts in proptest::collection::vec((0u64..60, 0u32..8), 1..8),
        ) {
            let runs: Vec<Run> = firsts.iter().map(|&(first, count)| run(first, count)).collect();
            let asked = runs.iter().map(|run| run.count).sum::<u32>();
            let mut all: Vec<u64> =
                runs.iter().flat_map(|r| r.first..r.first + u64::from(r.count)).collect();
            let in_order = all.clone();
            all.sort_unstable();
            all.dedup();
            let good = all.len() == in_order.len() && runs.iter().all(|run| run.count > 0);
            match Ids::check(runs[0], runs[1..].to_vec(), asked) {
                Ok(ids) => {
                    prop_assert!(good);
                    prop_assert_eq!(ids.into_iter().collect::<Vec<_>>(), in_order);
                }
                Err(_) => prop_assert!(!good),
            }
        }
    }
}
