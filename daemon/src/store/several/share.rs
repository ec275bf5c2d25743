//! How several databases divide the IDs of a tag: in blocks, of which each database owns every n-th.
//! Whatever a row says, a lease lies inside one block of its database's own share. So two databases
//! cannot give the same ID, without knowing of each other.

use std::fmt;
use std::str::FromStr as _;

use crate::ids::Range;
use crate::state::database::DatabaseIdentity;
use crate::store::{Lease, LeaseAsk, Leased, Row, StoreError};

/// How many shares a division may have.
pub(crate) const SHARES: std::ops::RangeInclusive<u64> = 2..=1024;

/// How many IDs a block may have.
pub(crate) const BLOCK: std::ops::RangeInclusive<u64> = 1000..=1_000_000_000_000;

/// How the IDs of every tag are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) shares: u64,
    /// IDs in a block.
    pub(crate) block: u64,
}

impl Division {
    /// A division, if its numbers are within their bounds.
    pub(crate) fn new(shares: u64, block: u64) -> Option<Self> {
        let fits = SHARES.contains(&shares) && BLOCK.contains(&block);
        fits.then_some(Self { shares, block })
    }

    /// After how many IDs the blocks of the shares repeat. The bounds keep it below 2^63.
    pub(crate) const fn round(self) -> u64 {
        self.shares.saturating_mul(self.block)
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shares of blocks of {} IDs", self.shares, self.block)
    }
}

/// The share of one database: the blocks whose number leaves this remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) division: Division,
    /// Below [`Division::shares`].
    number: u64,
}

impl Share {
    /// A share, if the division has it.
    pub(crate) fn new(division: Division, number: u64) -> Option<Self> {
        (number < division.shares).then_some(Self { division, number })
    }

    pub(crate) const fn number(self) -> u64 {
        self.number
    }

    /// The lowest position at or above `position` in this share, and the end of its block.
    pub(crate) fn from(self, position: u64) -> Option<(u64, u64)> {
        let Division { shares, block } = self.division;
        let here = position / block;
        let ahead = (self.number + shares - here % shares) % shares;
        let first = here.checked_add(ahead)?.checked_mul(block)?;
        Some((first.max(position), first.checked_add(block)?))
    }

    /// Whether the ID below `end` is in this share.
    pub(crate) fn owns_below(self, end: u64) -> bool {
        let block = end.checked_sub(1).map(|id| id / self.division.block);
        block.is_some_and(|block| block % self.division.shares == self.number)
    }

    /// Which range a row gives: as much of what is asked for as the rest of its block has, but not less
    /// than a step, which may take the next block.
    ///
    /// # Errors
    /// `BadRow` when the row's values make no range of positive IDs.
    pub(crate) fn plan(self, row: &Row, ask: LeaseAsk) -> Result<Leased, StoreError> {
        // The common rules judge the values, and say whether the row was behind.
        let whole = row.plan(LeaseAsk { at_least: 0, ..ask })?;
        let step = whole.lease.row_step;
        let least = step.min(self.division.block);
        let range = || {
            // 0 is no ID.
            let (mut start, mut end) = self.from(whole.lease.range.start().max(1))?;
            if end - start < least {
                (start, end) = self.from(end)?;
            }
            Range::new(start, end.min(start.saturating_add(step.max(ask.at_least))))
        };
        let range = range().ok_or_else(|| {
            StoreError::BadRow(format!(
                "share {} has no block above {} and below the highest ID, 2^63 - 1",
                self.number + 1,
                whole.lease.range.start()
            ))
        })?;
        Ok(Leased { lease: Lease { range, row_step: step }, moved_from: whole.moved_from })
    }

    /// Whether a tag that was to begin at `wanted`, and has to begin at `first`, has a block.
    ///
    /// # Errors
    /// `BadRow` when it has none.
    pub(crate) fn plan_creation(self, wanted: u64, first: u64) -> Result<(), StoreError> {
        let block = self.from(first).and_then(|(start, end)| Range::new(start, end));
        if block.is_some() {
            return Ok(());
        }
        let why = if first > wanted { "; a tag of this name was deleted there" } else { "" };
        Err(StoreError::BadRow(format!(
            "share {} has no block above {first} and below the highest ID, 2^63 - 1{why}",
            self.number + 1
        )))
    }
}

/// A database's share is shown and named from 1 on.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share {} of {}", self.number + 1, self.division.shares)
    }
}

/// Shares from `first` up to `end`, of which a database uses the first and may give away the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShareRange {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl ShareRange {
    /// What a database gives to another one: the last quarter of its range, at least one share, and never
    /// its own. A quarter, so that neither many additions nor the loss of a database use up all shares.
    pub(crate) const fn split(self) -> Option<(Self, Self)> {
        let count = self.end.saturating_sub(self.first);
        if count < 2 {
            return None;
        }
        let quarter = count / 4;
        let middle = self.end - if quarter == 0 { 1 } else { quarter };
        let kept = Self { first: self.first, end: middle };
        Some((kept, Self { first: middle, end: self.end }))
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }
}

/// What a database says of its place in a division: the row of `leafd_division`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Which division this is; `store.division` names it.
    pub(crate) name: DatabaseIdentity,
    /// Which database this is, among those of the division.
    pub(crate) member: DatabaseIdentity,
    /// `None` while the database is being added.
    pub(crate) range: Option<ShareRange>,
    pub(crate) division: Division,
    /// Nobody leases from it any more.
    pub(crate) is_closed: bool,
}

impl Membership {
    /// The share from which the database gives IDs.
    pub(crate) fn share(&self) -> Option<Share> {
        Share::new(self.division, self.range?.first)
    }

    /// Reads the row: the division's name, the share (-1: none yet), the block, and the rest.
    ///
    /// # Errors
    /// When the row makes no sense.
    pub(crate) fn of_row(row: &Row) -> Result<Self, String> {
        let parse = || {
            let name = DatabaseIdentity::from_str(row.tag.trim()).ok()?;
            let mut rest = row.description.split_whitespace();
            let shares = rest.next()?.parse().ok()?;
            let closed: u8 = rest.next()?.parse().ok()?;
            let member = DatabaseIdentity::from_str(rest.next()?).ok()?;
            let end = rest.next()?;
            let division = Division::new(shares, u64::try_from(row.step.get()?).ok()?)?;
            let range = match row.max_id.get()? {
                -1 => None,
                first => {
                    let range =
                        ShareRange { first: u64::try_from(first).ok()?, end: end.parse().ok()? };
                    Some(range).filter(|range| range.first < range.end && range.end <= shares)?;
                    Some(range)
                }
            };
            Some(Self { name, member, range, division, is_closed: closed != 0 })
        };
        parse().ok_or_else(|| {
            "the row of leafd_division makes no sense; only `leafd division` may write it"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Number;
    use proptest::prelude::*;

    fn row(max_id: i64, step: i64) -> Row {
        Row {
            tag: "a".into(),
            max_id: max_id.into(),
            step: step.into(),
            description: String::new(),
        }
    }

    fn share(number: u64, shares: u64, block: u64) -> Share {
        Share::new(Division::new(shares, block).unwrap(), number).unwrap()
    }

    fn leased(share: Share, max_id: i64, step: i64, at_least: u64, floor: u64) -> (u64, u64) {
        let range =
            share.plan(&row(max_id, step), LeaseAsk { at_least, floor }).unwrap().lease.range;
        (range.start(), range.end())
    }

    #[test]
    fn blocks_go_round_the_shares() {
        let first = share(0, 3, 1000);
        let second = share(1, 3, 1000);
        assert_eq!(leased(first, 1, 100, 0, 0), (1, 101));
        assert_eq!(leased(second, 1, 100, 0, 0), (1000, 1100));
        assert_eq!(leased(first, 1, 100, 0, 1100), (3000, 3100));
        assert_eq!(leased(second, 1100, 100, 0, 3100), (4000, 4100));
        for (end, owner) in [(0, None), (1, Some(first)), (1000, Some(first)), (1001, Some(second))]
        {
            for share in [first, second] {
                assert_eq!(share.owns_below(end), owner == Some(share), "{end}");
            }
        }
    }

    #[test]
    fn a_lease_ends_with_its_block_and_begins_the_next_if_less_than_a_step_is_left() {
        let share = share(0, 2, 1000);
        assert_eq!(leased(share, 800, 100, 500, 0), (800, 1000));
        assert_eq!(leased(share, 901, 100, 500, 0), (2000, 2500));
        assert_eq!(leased(share, 1, 5000, 9000, 0), (2000, 3000));
    }

    #[test]
    fn a_row_at_the_end_of_all_ids_is_refused() {
        // The last block, which is not whole, is the other share's.
        let share = share(0, 2, 1000);
        for max_id in [i64::MAX - 1, i64::MAX - 500] {
            let error = share.plan(&row(max_id, 1), LeaseAsk { at_least: 0, floor: 0 });
            assert!(matches!(error, Err(StoreError::BadRow(_))), "{error:?}");
            let first = max_id.unsigned_abs();
            let Err(StoreError::BadRow(why)) = share.plan_creation(1, first) else { panic!() };
            assert!(why.contains("deleted"), "{why}");
            let Err(StoreError::BadRow(why)) = share.plan_creation(first, first) else { panic!() };
            assert!(!why.contains("deleted"), "{why}");
        }
    }

    #[test]
    fn a_division_row_is_read_whole_or_refused() {
        let name = "0123456789abcdef0123456789abcdef";
        let row = |name: &str, share: &str, block: &str, rest: &str| Row {
            tag: name.into(),
            max_id: Number::new(Some(share.into())),
            step: Number::new(Some(block.into())),
            description: rest.into(),
        };
        let rest = |shares: &str, closed: u8, end: &str| format!("{shares} {closed} {name} {end}");
        let read = Membership::of_row(&row(name, "1", "1000", &rest("8", 0, "3"))).unwrap();
        assert_eq!(read.share().map(Share::number), Some(1));
        assert_eq!(read.range, Some(ShareRange { first: 1, end: 3 }));
        assert!(!read.is_closed);
        let joining = Membership::of_row(&row(name, "-1", "1000", &rest("8", 1, "-1"))).unwrap();
        assert_eq!((joining.range, joining.is_closed), (None, true));
        for (name, share, block, shares, end) in [
            ("x", "1", "1000", "8", "2"),
            (name, "8", "1000", "8", "9"),
            (name, "-2", "1000", "8", "1"),
            (name, "1", "10", "8", "2"),
            (name, "1", "1000", "1", "2"),
            (name, "1", "", "8", "2"),
            (name, "1", "1000", "8", "1"),
            (name, "1", "1000", "8", "9"),
            (name, "1", "1000", "8", ""),
        ] {
            let row = row(name, share, block, &rest(shares, 0, end));
            assert!(Membership::of_row(&row).is_err(), "{row:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_give_no_id_twice_whatever_their_rows_and_the_floors_say(
            shares in 2..9_u64, block in 1000..5000_u64,
            calls in proptest::collection::vec(
                (0..9_u64, 1..6000_i64, 0..9000_u64, 0..200_000_u64, any::<bool>()), 1..60),
        ) {
            let division = Division::new(shares, block).unwrap();
            let mut rows = vec![1_i64; usize::try_from(shares).unwrap()];
            let mut given: Vec<Range> = Vec::new();
            for (number, step, at_least, floor, edited) in calls {
                let number = number % shares;
                let share = Share::new(division, number).unwrap();
                let here = &mut rows[usize::try_from(number).unwrap()];
                if edited {
                    // An operator moves the row forward, to wherever.
                    *here += i64::try_from(floor).unwrap();
                }
                let ask = LeaseAsk { at_least, floor };
                let lease = share.plan(&row(*here, step), ask).unwrap().lease;
                let range = lease.range;
                prop_assert!(range.start() >= floor.max(1) && range.start() >= here.unsigned_abs());
                prop_assert!(range.count() >= step.unsigned_abs().min(block));
                prop_assert!(range.count() <= step.unsigned_abs().max(at_least));
                for id in [range.start(), range.end() - 1] {
                    prop_assert_eq!(id / block % shares, number);
                }
                prop_assert_eq!(range.start() / block, (range.end() - 1) / block);
                let meets =
                    |other: &Range| range.start() < other.end() && other.start() < range.end();
                prop_assert!(!given.iter().any(meets));
                given.push(range);
                *here = i64::try_from(range.end()).unwrap();
            }
        }

        #[test]
        fn ranges_of_shares_never_meet_whoever_gives_to_whom_and_nobody_gives_its_own(
            shares in 2..200_u64, givers in proptest::collection::vec(any::<usize>(), 0..300),
        ) {
            let mut ranges = vec![ShareRange { first: 0, end: shares }];
            for giver in givers {
                let giver = giver % ranges.len();
                let before = ranges[giver];
                let Some((kept, given)) = before.split() else {
                    prop_assert_eq!(before.end - before.first, 1);
                    continue;
                };
                prop_assert_eq!((kept.first, kept.end, given.end), (before.first, given.first, before.end));
                prop_assert!(kept.first < kept.end && given.first < given.end);
                ranges[giver] = kept;
                ranges.push(given);
            }
            for (index, range) in ranges.iter().enumerate() {
                prop_assert!(!ranges[..index].iter().any(|other| other.meets(*range)));
            }
        }
    }
}
