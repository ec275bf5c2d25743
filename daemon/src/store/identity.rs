//! What follows when leafd compares the identity that a database says with the one that this host has
//! recorded: a path, a URL or a kind can lead somewhere else tomorrow. No IO; [`super::guard`] carries
//! it out.

use crate::state::database::Identity;

/// What this process has seen of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// No connection was made yet.
    Nothing,
    /// It has no identity: a shared database without the table.
    Nameless,
    /// It said who it is.
    Named(Identity),
}

/// What follows from a look at a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is the one that this host works with.
    Same,
    /// Nothing was known so far: record it, then use it.
    Record(Identity),
    /// The first look of this process shows another database than the one that the remembered
    /// ranges come from. It can be used once those are given up.
    Other,
    /// The database was replaced while this process worked with it.
    Swapped,
}

/// Judges a database that calls itself `found`, where the disk says `recorded` and this process has
/// `seen` that much.
pub(super) fn judge(recorded: Option<Identity>, seen: Seen, found: Option<Identity>) -> Finding {
    match (seen, found) {
        (Seen::Named(seen), Some(found)) if seen == found => Finding::Same,
        (Seen::Named(_), _) => Finding::Swapped,
        (Seen::Nameless, None) => Finding::Same,
        // Somebody has made the table meanwhile.
        (Seen::Nameless, Some(found)) => Finding::Record(found),
        (Seen::Nothing, found) if found == recorded => Finding::Same,
        (Seen::Nothing, Some(found)) if recorded.is_none() => Finding::Record(found),
        (Seen::Nothing, _) => Finding::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_first_look_of_a_process_may_accept_another_database() {
        let [a, b] = [1, 2].map(Identity::of_number);
        for (recorded, seen, found, finding) in [
            (None, Seen::Nothing, None, Finding::Same),
            (None, Seen::Nothing, Some(a), Finding::Record(a)),
            (Some(a), Seen::Nothing, Some(a), Finding::Same),
            (Some(a), Seen::Nothing, Some(b), Finding::Other),
            (Some(a), Seen::Nothing, None, Finding::Other),
            (None, Seen::Nameless, Some(a), Finding::Record(a)),
            (Some(a), Seen::Named(a), Some(a), Finding::Same),
            (Some(a), Seen::Named(a), Some(b), Finding::Swapped),
            (Some(a), Seen::Named(a), None, Finding::Swapped),
        ] {
            assert_eq!(judge(recorded, seen, found), finding, "{recorded:?} {seen:?} {found:?}");
        }
    }

    proptest! {
        #[test]
        fn a_database_is_used_only_if_it_is_the_recorded_one_or_none_was_recorded(
            recorded in proptest::option::of(0..3_u128), found in proptest::option::of(0..3_u128),
        ) {
            let [recorded, found] = [recorded, found].map(|number| number.map(Identity::of_number));
            let finding = judge(recorded, Seen::Nothing, found);
            let usable = !matches!(finding, Finding::Other | Finding::Swapped);
            prop_assert_eq!(usable, recorded.is_none() || recorded == found);
        }
    }
}
