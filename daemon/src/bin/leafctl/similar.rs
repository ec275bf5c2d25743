//! Finds the name that somebody may have meant: the one that needs the fewest changes.

/// More changes than this make another name, not a typo.
const MOST_CHANGES: usize = 3;

/// The name in `known` that is most like `name`; `None` if none is like it. A name has to agree in
/// two letters of three, but may differ in case as a whole.
pub(crate) fn most_similar<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let letters = wanted.chars().count();
    let changes = |other: &str| {
        let other = other.to_lowercase();
        let most = (letters.max(other.chars().count()) / 3).min(MOST_CHANGES);
        // A letter that is added, dropped, replaced, or swapped with its neighbour is a change.
        Some(strsim::osa_distance(&wanted, &other)).filter(|changes| *changes <= most)
    };
    let known = known.into_iter().filter(|other| *other != name);
    let scored = known.filter_map(|other| Some((changes(other)?, other)));
    scored.min().map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_with_the_fewest_changes_is_meant() {
        let known = ["invoices", "orders", "orders-eu", "users", "ab"];
        for (typed, meant) in [
            ("order", Some("orders")),
            ("ordres", Some("orders")),
            ("Orders", Some("orders")),
            ("orders_eu", Some("orders-eu")),
            ("user", Some("users")),
            ("invocies", Some("invoices")),
            ("payments", None),
            ("x", None),
            ("ac", None),
            ("AB", Some("ab")),
            ("", None),
        ] {
            assert_eq!(most_similar(typed, known), meant, "{typed:?}");
        }
        assert_eq!(most_similar("orders", ["orders"]), None);
    }
}
