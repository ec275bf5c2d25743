//! Reads the file as TOML, and says what is not TOML. The usual mistake is a value without quotes: the
//! rest of the file then says what it means, and is examined too.

use toml::de::{DeTable, DeValue, Error};

use super::examine::{SECRETS, is_readable, is_right, keys_of};
use super::mistake::Mistake;
use super::reader::PathStep;
use super::remedy;
use super::written::{Place, Positions, Written, tree};

/// What a file says.
pub(super) struct ParsedFile {
    /// Empty if nobody knows what the file says.
    pub(super) tree: Written,
    pub(super) mistakes: Vec<Mistake>,
    /// Section and key of values that are not TOML.
    pub(super) unread: Vec<(String, String)>,
}

/// A line `key = value`.
struct KeyLine<'a> {
    section: String,
    key: &'a str,
    value: &'a str,
}

/// Reads the text of a file.
pub(super) fn parse(text: &str) -> ParsedFile {
    let positions = Positions::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut parsed =
        ParsedFile { tree: Written::empty(), mistakes: Vec::new(), unread: Vec::new() };
    let mut is_clear = true;
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        let place = positions.place(offset);
        let Place::Line { line, .. } = place else { continue };
        let is_of_line = |known: &Mistake| matches!(known.place, Some(Place::Line { line: other, .. }) if other == line);
        // The first error in a line explains the others.
        if parsed.mistakes.iter().any(is_of_line) {
            continue;
        }
        let at = key_line(text, line);
        let mistake = mistake(error, place, at.as_ref());
        parsed.mistakes.push(mistake);
        match at {
            Some(at) if is_short(at.value) => {
                parsed.unread.push((at.section, at.key.to_owned()));
            }
            _ => is_clear = false,
        }
    }
    if is_clear {
        parsed.tree = tree(table, &positions);
    }
    parsed
}

/// Whether the value ends in its line, as far as one can see.
fn is_short(value: &str) -> bool {
    !["\"", "'", "[", "{"].iter().any(|mark| value.contains(mark))
}

fn mistake(error: &Error, place: Place, at: Option<&KeyLine<'_>>) -> Mistake {
    let key = at.map_or_else(String::new, |at| format!("{}.{}", at.section, at.key));
    // A value that is right by itself is wrong for another reason, such as a key that is there twice.
    let at = at.filter(|at| DeValue::parse(at.value).is_err());
    // A text that begins with its quote lacks no quotes; the parser says where it goes wrong.
    let at = at.filter(|at| !at.value.starts_with(['"', '\'']));
    let hint = at.and_then(|KeyLine { section, key: name, value }| {
        let path = [PathStep::Key(section.clone()), PathStep::Key((*name).to_owned())];
        let is_secret = SECRETS.contains(&key.as_str());
        remedy::unquoted(value, is_secret, &|other| is_right(&path, other))
            .or_else(|| remedy::unquoted(value, is_secret, &|other| is_readable(&path, other)))
    });
    // Without the line, which may contain a password under any name.
    let text = hint.unwrap_or_else(|| format!("this is not TOML: {}", error.message()));
    Mistake { place: Some(place), key, text }
}

/// The line with this number, if it sets a known key, and the value without a comment.
fn key_line(text: &str, line: usize) -> Option<KeyLine<'_>> {
    let lines = || text.lines().take(line);
    let (key, value) = lines().last()?.split_once('=')?;
    let headings = lines().filter_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let section = headings.last()?.trim().to_owned();
    let value = value.split(" #").next().unwrap_or_default().trim();
    let key = key.trim();
    keys_of(&section).contains(&key).then_some(KeyLine { section, key, value })
}
