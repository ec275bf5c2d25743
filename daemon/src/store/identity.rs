//! What follows from the identity in a database and the one that this host has recorded. A path, a URL
//! or a kind can lead somewhere else tomorrow, so leafd compares identities. No IO; [`super::guard`]
//! acts on the result.

use crate::state::database::DatabaseIdentity;

/// What this process knows of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenDatabase {
    /// Nothing yet: there was no connection.
    Nothing,
    /// A shared database without the table of the identity.
    Nameless,
    /// Its identity.
    Named(DatabaseIdentity),
}

/// What follows from a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityFinding {
    /// This is the database that this host works with.
    Same,
    /// Nothing was recorded: record this identity, then use the database.
    Record(DatabaseIdentity),
    /// The first check of this process finds another database than the one that the remembered
    /// ranges come from. leafd can use it after it has dropped those.
    Other,
    /// The database was replaced while this process worked with it.
    Swapped,
}

/// Judges a database with the identity `found`. The disk says `recorded`; `seen` is what this process
/// knows.
pub(super) fn judge(
    recorded: Option<DatabaseIdentity>,
    seen: SeenDatabase,
    found: Option<DatabaseIdentity>,
) -> IdentityFinding {
    match (seen, found) {
        (SeenDatabase::Named(seen), Some(found)) if seen == found => IdentityFinding::Same,
        (SeenDatabase::Named(_), _) => IdentityFinding::Swapped,
        (SeenDatabase::Nameless, None) => IdentityFinding::Same,
        // Somebody has made the table of the identity meanwhile.
        (SeenDatabase::Nameless, Some(found)) => IdentityFinding::Record(found),
        (SeenDatabase::Nothing, found) if found == recorded => IdentityFinding::Same,
        (SeenDatabase::Nothing, Some(found)) if recorded.is_none() => {
            IdentityFinding::Record(found)
        }
        (SeenDatabase::Nothing, _) => IdentityFinding::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_first_check_of_a_process_may_accept_another_database() {
        let [a, b] = [1, 2].map(DatabaseIdentity::of_number);
        for (recorded, seen, found, finding) in [
            (None, SeenDatabase::Nothing, None, IdentityFinding::Same),
            (None, SeenDatabase::Nothing, Some(a), IdentityFinding::Record(a)),
            (Some(a), SeenDatabase::Nothing, Some(a), IdentityFinding::Same),
            (Some(a), SeenDatabase::Nothing, Some(b), IdentityFinding::Other),
            (Some(a), SeenDatabase::Nothing, None, IdentityFinding::Other),
            (None, SeenDatabase::Nameless, Some(a), IdentityFinding::Record(a)),
            (Some(a), SeenDatabase::Named(a), Some(a), IdentityFinding::Same),
            (Some(a), SeenDatabase::Named(a), Some(b), IdentityFinding::Swapped),
            (Some(a), SeenDatabase::Named(a), None, IdentityFinding::Swapped),
        ] {
            assert_eq!(judge(recorded, seen, found), finding, "{recorded:?} {seen:?} {found:?}");
        }
    }

    proptest! {
        #[test]
        fn a_database_is_used_only_if_it_is_the_recorded_one_or_none_was_recorded(
            recorded in proptest::option::of(0..3_u128), found in proptest::option::of(0..3_u128),
        ) {
            let [recorded, found] = [recorded, found].map(|number| number.map(DatabaseIdentity::of_number));
            let finding = judge(recorded, SeenDatabase::Nothing, found);
            let usable = !matches!(finding, IdentityFinding::Other | IdentityFinding::Swapped);
            prop_assert_eq!(usable, recorded.is_none() || recorded == found);
        }
    }
}
