//! Finds the runbook's entries about what somebody types or pastes: a number, a name, a heading, a
//! log line, or a part of one.

use leaf_client::wire::ErrorCode;

use super::page::{Entry, Runbook};
use super::plain::{heading, slug};

/// A text with fewer letters than this fits too many lines.
const FEWEST_LETTERS: usize = 7;

/// Entries named to somebody whose words fit none.
const NEAREST: usize = 3;

/// What fits some words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The best comes first.
    Entries(Vec<&'a Entry<'a>>),
    /// The title of a section: all of its entries.
    Section(Vec<&'a Entry<'a>>),
    /// The headings of the nearest entries, if any is near.
    Nothing(Vec<String>),
}

pub(super) fn find<'a>(runbook: &'a Runbook<'a>, words: &str) -> Found<'a> {
    let words = message_of(words);
    let entries = &runbook.entries;
    let exact: Vec<_> = entries.iter().filter(|entry| is_named(entry, &words)).collect();
    if !exact.is_empty() {
        return Found::Entries(exact);
    }
    let section: Vec<_> =
        entries.iter().filter(|entry| slug(entry.section) == slug(&words)).collect();
    if !section.is_empty() {
        return Found::Section(section);
    }
    // First the entries whose text is in the words, which are a line that somebody has pasted; then
    // those whose text the words are a part of.
    for fit in [in_line as fn(&Entry<'_>, &str) -> Option<usize>, around_part] {
        let mut fitting: Vec<_> =
            entries.iter().filter_map(|entry| Some((fit(entry, &words)?, entry))).collect();
        if !fitting.is_empty() {
            fitting.sort_by_key(|(letters, _)| std::cmp::Reverse(*letters));
            return Found::Entries(fitting.into_iter().map(|(_, entry)| entry).collect());
        }
    }
    Found::Nothing(nearest(runbook, &words))
}

/// The words on one line. Of a log line in JSON, its message and its error.
fn message_of(words: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(words).ok();
    let field = |name| json.as_ref().and_then(|line| line.get(name)?.as_str());
    let words = match (field("message"), field("error")) {
        (Some(message), Some(error)) => format!("{message} error={error}"),
        (Some(message), None) => message.to_owned(),
        (None, _) => words.to_owned(),
    };
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the words are the number, the name or the heading of the entry.
fn is_named(entry: &Entry<'_>, words: &str) -> bool {
    let heading = heading(entry);
    let parts = heading.split_once([' ', '/']).filter(|(number, _)| number.parse::<u16>().is_ok());
    let is = |text: &str| text.eq_ignore_ascii_case(words);
    is(&heading) || is(entry.heading) || parts.is_some_and(|(number, name)| is(number) || is(name))
}

/// How many letters of the entry's text are in `line`, if it is.
fn in_line(entry: &Entry<'_>, line: &str) -> Option<usize> {
    if let Some(code) = entry.code {
        // Below the line's own entry and its cause, which say more.
        return names_error(line, code).then_some(0);
    }
    let is_log_line = entry.section.starts_with("Log lines");
    let fits = |phrase: &&String| match is_log_line && **phrase == entry.heading {
        true => beginnings(line).any(|text| fits_at_the_beginning(text, phrase)),
        false => word_beginnings(line).any(|text| fits_at_the_beginning(text, phrase)),
    };
    let phrases = entry.phrases.iter().filter(|phrase| letters(phrase) >= FEWEST_LETTERS);
    phrases.filter(fits).map(letters).max()
}

/// Whether a message shows this error.
fn names_error(line: &str, code: ErrorCode) -> bool {
    let is_name = |word: &str| word == code.name();
    line.split(|char: char| !char.is_alphanumeric()).any(is_name)
}

/// `line` from every place on where a message may begin: after the time, the level, the target, or
/// whatever else a program puts in front.
fn beginnings(line: &str) -> impl Iterator<Item = &str> {
    let marks = [": ", "ERROR ", "WARN ", "INFO ", "; "];
    let after = marks.into_iter().flat_map(move |mark| line.match_indices(mark));
    let rests = after.filter_map(move |(at, mark)| line.get(at + mark.len()..));
    std::iter::once(line).chain(rests)
}

/// `line` from the beginning of every word on.
fn word_beginnings(line: &str) -> impl Iterator<Item = &str> {
    let is_beginning = |(at, char): &(usize, char)| {
        let before = line.get(..*at).and_then(|before| before.chars().next_back());
        char.is_alphanumeric() && before.is_none_or(|before| !before.is_alphanumeric())
            || !char.is_alphanumeric() && !char.is_whitespace()
    };
    line.char_indices().filter(is_beginning).filter_map(|(at, _)| line.get(at..))
}

/// Whether `text` begins as `phrase` does, in which `…` stands for anything.
fn fits_at_the_beginning(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (text.to_lowercase(), phrase.to_lowercase());
    // A reason that ends the line has no colon behind it.
    let phrase = phrase.trim_end_matches(['…', ' ', ':', ';', ',']);
    let mut rest = text.as_str();
    for (nth, part) in phrase.split('…').enumerate() {
        let part = part.trim();
        let after = match nth {
            0 => rest.strip_prefix(part),
            _ => rest.split_once(part).map(|(_, after)| after),
        };
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

/// How many letters the words have in common with the text of the entry of which they are a part.
fn around_part(entry: &Entry<'_>, words: &str) -> Option<usize> {
    if letters(words) < FEWEST_LETTERS.min(4) {
        return None;
    }
    let part = words.to_lowercase();
    let is_around = |text: &str| text.to_lowercase().contains(part.trim_end_matches([':', '.']));
    let texts = entry.phrases.iter().map(String::as_str);
    let is_in_text = texts.chain([entry.heading]).any(is_around);
    if is_in_text {
        return Some(letters(words));
    }
    // Parts of a line with values in it.
    let longest = entry.phrases.iter().flat_map(|phrase| phrase.split('…')).filter(|fixed| {
        letters(fixed) >= 2 * FEWEST_LETTERS && part.contains(fixed.trim().to_lowercase().as_str())
    });
    longest.map(letters).max()
}

fn letters(text: impl AsRef<str>) -> usize {
    text.as_ref().chars().filter(|char| char.is_alphabetic()).count()
}

/// The headings that are most like the words: by spelling if they are one word, else by the words
/// that they share.
fn nearest(runbook: &Runbook<'_>, words: &str) -> Vec<String> {
    let words = words.to_lowercase();
    let is_one = !words.contains(' ');
    let distance = |entry: &Entry<'_>| {
        let heading = heading(entry).to_lowercase();
        if is_one {
            let parts = heading.split([' ', '/']);
            let nearest = parts.map(|part| edits(part, &words)).min();
            return nearest.filter(|edits| *edits <= words.chars().count() / 3);
        }
        let long = |text: &str| -> Vec<String> {
            let parts = text.split(|char: char| !char.is_alphanumeric());
            parts.filter(|part| part.chars().count() >= 5).map(str::to_owned).collect()
        };
        let own = long(&heading);
        let shared = long(&words).iter().filter(|word| own.contains(word)).count();
        (shared > 0).then(|| usize::MAX - shared)
    };
    let mut near: Vec<_> =
        runbook.entries.iter().filter_map(|entry| Some((distance(entry)?, entry))).collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(NEAREST).map(|(_, entry)| heading(entry)).collect()
}

/// How many characters have to be added, removed or replaced to make one text of the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, char) in one.chars().enumerate() {
        let mut next = vec![above + 1];
        for ((diagonal, up), wanted) in row.iter().zip(row.iter().skip(1)).zip(&other) {
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(char != *wanted)).min(up + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &str) -> Vec<String> {
        let runbook = Runbook::read(super::super::RUNBOOK);
        match find(&runbook, words) {
            Found::Entries(entries) => entries.iter().map(|entry| heading(entry)).collect(),
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn a_number_a_name_and_both_together_find_one_entry() {
        for words in ["302", "StoreUnavailable", "storeunavailable", "302 StoreUnavailable"] {
            assert_eq!(found(words), ["302 StoreUnavailable"]);
        }
        for words in ["78", "CONFIG", "78/CONFIG", "config"] {
            assert_eq!(found(words), ["78/CONFIG"]);
        }
    }

    #[test]
    fn a_pasted_log_line_finds_its_own_entry_then_the_cause_then_the_error() {
        let line = "the store fails; IDs come from memory as long as it has them: error returned \
                    from database: Connection refused (os error 111) store=\"mysql leaf@db\" \
                    error=302 StoreUnavailable";
        let human = format!("2026-11-23T15:30:00.123456Z  WARN {line}");
        let journal = format!("Nov 23 15:30:00 alice leafd[17]: {line}");
        let json = r#"{"timestamp":"2026-11-23T15:30:00Z","level":"WARN","message":"the store fails; IDs come from memory as long as it has them: Connection refused","store":"mysql","error":"302 StoreUnavailable"}"#;
        for pasted in [line, &human, &journal, json] {
            let found = found(pasted);
            assert!(found[0].starts_with("the store fails;"), "{pasted}: {found:#?}");
            assert!(found[1].contains("`Connection refused`"), "{pasted}: {found:#?}");
            assert_eq!(found[2], "302 StoreUnavailable", "{pasted}: {found:#?}");
            assert_eq!(found.len(), 3, "{pasted}: {found:#?}");
        }
    }

    #[test]
    fn an_error_of_leafctl_finds_the_error() {
        let line = "leafctl: leafd refused: 206 Forbidden: uid 1001 may not administer";
        assert_eq!(found(line), ["206 Forbidden"]);
    }

    #[test]
    fn a_part_of_a_line_finds_the_line() {
        for (part, heading) in [
            ("cannot remove the socket", "cannot remove the socket: …"),
            ("The tag is gone", "the tag is gone from the store; leafd no longer serves it"),
            ("no longer serves it", "the tag is gone from the store; leafd no longer serves it"),
        ] {
            assert_eq!(found(part), [heading]);
        }
    }

    #[test]
    fn the_title_of_a_section_finds_all_of_it() {
        let runbook = Runbook::read(super::super::RUNBOOK);
        for title in ["Words of a database, behind 302", "words-of-a-database-behind-302"] {
            let Found::Section(entries) = find(&runbook, title) else { panic!("{title}") };
            assert!(entries.len() > 5, "{entries:?}");
        }
    }

    #[test]
    fn the_number_of_edits_is_the_least() {
        for (one, other, number) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0)]
        {
            assert_eq!((edits(one, other), edits(other, one)), (number, number));
        }
    }
}
