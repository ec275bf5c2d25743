//! The rules for all databases, as plain functions: which range a row gives, where a new tag begins,
//! and what remains of a deleted one. Each database applies them in one transaction.

use super::row::Row;
use super::{Lease, LeaseAsk, Leased, StoreError};
use crate::ids::Range;

impl Row {
    /// Where the next lease starts, if the row can give one.
    pub(crate) fn leasable(&self) -> Option<u64> {
        let ask = LeaseAsk { at_least: 0, floor: 0 };
        Some(self.plan(ask).ok()?.lease.range.start())
    }

    /// [`plan_lease`] for this row.
    ///
    /// # Errors
    /// `BadRow` when its values make no range of positive IDs.
    pub(super) fn plan(&self, ask: LeaseAsk) -> Result<Leased, StoreError> {
        plan_lease(self.max_id.required("max_id")?, self.step.required("step")?, ask)
    }
}

/// Which range a row gives. By Leaf's convention, `max_id` before the lease is the start, and `max_id`
/// after it is the end. A row below the highest end seen (after a restored backup, a failover that lost
/// writes, a manual edit) is first moved forward to that end, never backward.
///
/// # Errors
/// `BadRow` when the row's values make no range of positive IDs.
pub(crate) fn plan_lease(max_id: i64, step: i64, ask: LeaseAsk) -> Result<Leased, StoreError> {
    let bad = |what: String| Err(StoreError::BadRow(what));
    let Ok(max_id) = u64::try_from(max_id) else {
        return bad(format!("max_id is {max_id}; set it above the highest ID ever issued"));
    };
    let Some(row_step) = u64::try_from(step).ok().filter(|step| *step > 0) else {
        return bad(format!("step is {step}; set it to 1 or more"));
    };
    let start = max_id.max(ask.floor);
    let size = row_step.max(ask.at_least);
    // A row near its end still gives its own step if the larger request does not fit.
    let end = [size, row_step]
        .iter()
        .find_map(|size| start.checked_add(*size).and_then(|end| Range::new(start, end)));
    match end {
        Some(range) => Ok(Leased {
            lease: Lease { range, row_step },
            moved_from: (max_id < ask.floor).then_some(max_id),
        }),
        None => bad(format!("max_id {start} and step {row_step} pass the highest ID, 2^63 - 1")),
    }
}

/// Where a new tag begins: not below `first`, and not below the tombstone of an earlier tag of the same
/// name.
///
/// # Errors
/// `BadRow` when not even one step fits between there and the highest ID.
pub(crate) fn plan_creation(
    first: u64,
    tombstone: Option<u64>,
    step: u64,
) -> Result<u64, StoreError> {
    let start = first.max(1).max(tombstone.unwrap_or(0));
    if start.checked_add(step).and_then(|end| Range::new(start, end)).is_some() {
        return Ok(start);
    }
    let why = if start > first { "; a tag of this name was deleted there" } else { "" };
    Err(StoreError::BadRow(format!(
        "a tag that begins at {start} with step {step} passes the highest ID, 2^63 - 1{why}"
    )))
}

/// The tombstone of a row: the end of everything that any host leased from it. Hosts that hold ranges
/// go on issuing below it.
///
/// # Errors
/// `BadRow` when the row does not say what was leased.
pub(crate) fn plan_deletion(
    row: &Row,
    tombstone: Option<u64>,
    floor: u64,
) -> Result<u64, StoreError> {
    let max_id = row.max_id.get().and_then(|max_id| u64::try_from(max_id).ok());
    let max_id = max_id.ok_or_else(|| {
        let text = row.max_id.text();
        StoreError::BadRow(format!(
            "max_id is {text}, which does not say what was issued; set it above the highest ID \
             ever issued, then delete the tag"
        ))
    })?;
    Ok(max_id.max(floor).max(tombstone.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::row::Number;
    use proptest::prelude::*;

    const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

    fn span(leased: &Leased) -> (u64, u64) {
        (leased.lease.range.start(), leased.lease.range.end())
    }

    #[test]
    fn a_lease_follows_leafs_convention() {
        let leased = plan_lease(1, 2000, ASK).unwrap();
        assert_eq!((span(&leased), leased.lease.row_step), ((1, 2001), 2000));
        let leased = plan_lease(2001, 2000, LeaseAsk { at_least: 4000, floor: 2001 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((2001, 6001), None));
    }

    #[test]
    fn a_row_below_what_was_seen_is_moved_forward_and_never_backward() {
        let leased = plan_lease(1, 10, LeaseAsk { at_least: 0, floor: 5000 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((5000, 5010), Some(1)));
        let leased = plan_lease(9000, 10, LeaseAsk { at_least: 0, floor: 5000 }).unwrap();
        assert_eq!((span(&leased), leased.moved_from), ((9000, 9010), None));
    }

    #[test]
    fn absurd_rows_cause_errors_that_name_the_value() {
        for (max_id, step, named) in [
            (-1, 10, "-1"),
            (1, 0, "step is 0"),
            (1, i64::MIN, "-9223372036854775808"),
            (i64::MAX, 1, "9223372036854775807"),
            (2, i64::MAX - 1, "2^63"),
        ] {
            let Err(StoreError::BadRow(text)) = plan_lease(max_id, step, ASK) else { panic!() };
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn a_row_near_its_end_gives_its_last_step() {
        let ask = LeaseAsk { at_least: 1_000_000, floor: 0 };
        let leased = plan_lease(i64::MAX - 10, 10, ask).unwrap();
        assert_eq!(leased.lease.range.count(), 10);
    }

    #[test]
    fn a_value_that_is_not_a_number_is_an_error_where_a_number_is_needed() {
        for text in [None, Some("many"), Some("9223372036854775808"), Some("1.5"), Some("")] {
            let row = Row {
                tag: "a".into(),
                max_id: Number::new(text.map(str::to_owned)),
                step: 10.into(),
                description: String::new(),
            };
            let Err(StoreError::BadRow(error)) = row.plan(ASK) else { panic!("{text:?}") };
            assert!(error.contains(text.unwrap_or("NULL")), "{error}");
            assert_eq!(row.leasable(), None);
        }
    }

    #[test]
    fn a_new_tag_begins_above_its_tombstone_and_has_room_for_a_step() {
        assert_eq!(plan_creation(1, None, 1000), Ok(1));
        assert_eq!(plan_creation(0, None, 1000), Ok(1));
        assert_eq!(plan_creation(1, Some(1001), 1000), Ok(1001));
        assert_eq!(plan_creation(5000, Some(1001), 1000), Ok(5000));
        let end = i64::MAX as u64;
        assert_eq!(plan_creation(end - 1000, None, 1000), Ok(end - 1000));
        for (first, tombstone) in [(end - 999, None), (1, Some(end)), (u64::MAX, None)] {
            let Err(StoreError::BadRow(text)) = plan_creation(first, tombstone, 1000) else {
                panic!()
            };
            assert!(text.contains(&first.max(tombstone.unwrap_or(0)).to_string()), "{text}");
            assert_eq!(text.contains("deleted"), tombstone.is_some(), "{text}");
        }
    }

    #[test]
    fn a_tombstone_is_the_highest_of_row_host_and_earlier_tombstone() {
        let row = |max_id: i64| Row {
            tag: "a".into(),
            max_id: max_id.into(),
            step: 10.into(),
            description: String::new(),
        };
        assert_eq!(plan_deletion(&row(500), None, 0), Ok(500));
        assert_eq!(plan_deletion(&row(500), Some(400), 900), Ok(900));
        assert_eq!(plan_deletion(&row(500), Some(1000), 900), Ok(1000));
        let Err(StoreError::BadRow(text)) = plan_deletion(&row(-5), Some(7), 9) else { panic!() };
        assert!(text.contains("-5"), "{text}");
    }

    proptest! {
        #[test]
        fn a_lease_never_wraps_nor_starts_below_row_or_floor(
            max_id in any::<i64>(), step in any::<i64>(),
            at_least in any::<u64>(), floor in 0..=i64::MAX as u64,
        ) {
            if let Ok(leased) = plan_lease(max_id, step, LeaseAsk { at_least, floor }) {
                let (start, end) = span(&leased);
                prop_assert!(start < end && end <= i64::MAX as u64);
                prop_assert!(start >= floor && start >= max_id as u64);
            }
        }
    }
}
