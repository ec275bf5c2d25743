//! "Did you mean": the known name that an unknown one most probably stands for.

/// The known name that is nearest to `name`, if one is near: at most a third of it is wrong.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name);
    // A name as long as a file is no name, and the distance costs the product of the lengths.
    if name.len() > 100 {
        return None;
    }
    let distances = known.into_iter().map(|known| (distance(&name, &plain(known)), known));
    let (distance, found) = distances.min_by_key(|(distance, _)| *distance)?;
    let most = (name.chars().count().max(found.chars().count()) / 3).max(1);
    (distance <= most).then_some(found)
}

/// ` did you mean …?` for the end of a sentence, or nothing.
pub(super) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// Spelling that makes no difference to a reader.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['_', ' ', '.'], "-")
}

/// The single letters to add, drop, replace or swap with a neighbour.
fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_leads_to_the_known_name_and_another_name_to_none() {
        let known = ["max-count", "max-connections", "mode", "path"];
        for (name, near) in [
            ("max-cuont", Some("max-count")),
            ("max_count", Some("max-count")),
            ("maxCount", Some("max-count")),
            ("Mode", Some("mode")),
            ("moed", Some("mode")),
            ("max-connection", Some("max-connections")),
            ("password", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
