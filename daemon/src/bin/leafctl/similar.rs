//! Finds the name that somebody may have meant: the one that needs the fewest changes.

/// More changes than this make another name, not a typo.
const MOST_CHANGES: usize = 3;

/// The name in `known` that is most like `name`; `None` if none is like it. A name has to agree in
/// two letters of three, but may differ in case as a whole.
pub(crate) fn most_similar<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = lower(name);
    let changes = |other: &str| {
        let other = lower(other);
        let most = (wanted.len().max(other.len()) / 3).min(MOST_CHANGES);
        Some(distance(&wanted, &other)).filter(|changes| *changes <= most)
    };
    let known = known.into_iter().filter(|other| *other != name);
    let scored = known.filter_map(|other| Some((changes(other)?, other)));
    scored.min().map(|(_, other)| other)
}

fn lower(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// How many characters to add, drop, replace, or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    // Rows of the table of all beginnings of `a` against all beginnings of `b`; the last two.
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a = None;
    for (i, &of_a) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        let mut previous_b = None;
        for (j, &of_b) in b.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX);
            let replaced = cell(&row, j).saturating_add(usize::from(of_a != of_b));
            let added = cell(&row, j + 1).min(cell(&next, j)).saturating_add(1);
            let mut best = replaced.min(added);
            if j > 0 && previous_a == Some(of_b) && previous_b == Some(of_a) {
                best = best.min(cell(&before, j - 1).saturating_add(1));
            }
            next.push(best);
            previous_b = Some(of_b);
        }
        before = std::mem::replace(&mut row, next);
        previous_a = Some(of_a);
    }
    row.last().copied().unwrap_or(0)
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

    #[test]
    fn the_distance_counts_changes_of_characters() {
        let changes = |a, b| distance(&lower(a), &lower(b));
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("abc", "xbc", 1),
            ("kitten", "sitting", 3),
            ("订单", "订", 1),
        ] {
            assert_eq!(changes(a, b), expected, "{a:?} {b:?}");
            assert_eq!(changes(b, a), expected, "{b:?} {a:?}");
        }
    }
}
