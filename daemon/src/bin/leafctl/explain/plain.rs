//! The runbook's Markdown as text for a terminal.

use super::page::Entry;

/// The width of the text: that of the narrowest terminal in use, and easy to read on a wide one.
const WIDTH: usize = 80;

/// Where the runbook is, which its links start from.
const FOLDER: &str = "docs/operations/";

/// The entry's heading.
pub(super) fn heading(entry: &Entry<'_>) -> String {
    entry.heading.replace("**", "")
}

/// The entry's paragraphs, the items of its lists, and where to read on, in lines.
pub(super) fn body(entry: &Entry<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in paragraphs(entry) {
        let hanging = if paragraph.starts_with("- ") { "      " } else { "    " };
        lines.extend(wrapped(&paragraph, "    ", hanging));
    }
    for (about, at) in links(entry) {
        lines.extend(wrapped(&format!("See {about}: {at}"), "    ", "      "));
    }
    lines
}

/// The entry's paragraphs and items, each without line breaks.
pub(super) fn paragraphs(entry: &Entry<'_>) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in without_links(&entry.body).lines().map(str::trim) {
        if line.is_empty() {
            is_open = false;
            continue;
        }
        match paragraphs.last_mut().filter(|_| is_open && !line.starts_with("- ")) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => paragraphs.push(line.to_owned()),
        }
        is_open = true;
    }
    paragraphs.into_iter().map(|paragraph| paragraph.replace("**", "")).collect()
}

/// What the entry links to: the words of each link, and where it leads.
pub(super) fn links(entry: &Entry<'_>) -> Vec<(String, String)> {
    let body = entry.body.replace('\n', " ");
    let mut links = Vec::new();
    let mut rest = body.as_str();
    while let Some((words, target, after)) = next_link(rest) {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        links.push((words, place(target)));
        rest = after;
    }
    links
}

/// The text with the words of its links in place of the links.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((words, _, after)) = next_link(rest) {
        let before = rest.split_once(&format!("[{words}](")).map_or("", |(before, _)| before);
        out.push_str(before);
        out.push_str(words);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The words and the target of the first link, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once("](")?;
    let (_, words) = before.rsplit_once('[')?;
    let (target, rest) = after.split_once(')')?;
    Some((words, target, rest))
}

/// Where a link leads: a document, or an entry or a section of the runbook.
fn place(target: &str) -> String {
    if let Some(anchor) = target.strip_prefix('#') {
        return format!("leafctl explain {}", words_of(anchor));
    }
    let parent = target.strip_prefix("../").map(|rest| format!("docs/{rest}"));
    parent.unwrap_or_else(|| format!("{FOLDER}{target}"))
}

/// What to type to see the part of the runbook that has this anchor.
fn words_of(anchor: &str) -> String {
    let runbook = super::page::Runbook::read(super::RUNBOOK);
    let slug_is = |text: &str| slug(text) == anchor;
    if let Some(entry) = runbook.entries.iter().find(|entry| slug_is(entry.heading)) {
        return match entry.code {
            Some(code) => code.number().to_string(),
            None => crate::ask::quoted(entry.heading),
        };
    }
    let section = runbook.entries.iter().map(|entry| entry.section).find(|title| slug_is(title));
    crate::ask::quoted(section.unwrap_or(anchor))
}

/// The anchor of a heading, as GitHub makes it.
pub(super) fn slug(heading: &str) -> String {
    let is_kept = |char: &char| char.is_alphanumeric() || [' ', '-', '_'].contains(char);
    let kept = heading.trim().chars().flat_map(char::to_lowercase).filter(is_kept);
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

/// `text` in lines of at most [`WIDTH`] characters.
pub(super) fn wrapped(text: &str, first: &str, hanging: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if length > WIDTH && !is_empty {
            lines.push(std::mem::replace(&mut line, hanging.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::super::page::Runbook;
    use super::*;

    #[test]
    fn markdown_becomes_wrapped_text_and_links_become_references() {
        let page = "## S\n### x\nLook at [the\npage](outages.md#here), **now**, and [that](#302-\
                    storeunavailable).\n- one\n  item\n\nEnd; [all](../uniqueness.md).\n";
        let runbook = Runbook::read(page);
        let entry = &runbook.entries[0];
        assert_eq!(
            paragraphs(entry),
            ["Look at the page, now, and that.", "- one item", "End; all."]
        );
        let links = links(entry);
        let places: Vec<_> = links.iter().map(|(_, at)| at.as_str()).collect();
        assert_eq!(
            places,
            ["docs/operations/outages.md#here", "leafctl explain 302", "docs/uniqueness.md"]
        );
        assert_eq!(links[0].0, "the page");
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        let lines = wrapped(&"word ".repeat(40), "  ", "    ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("  word") && lines[1].starts_with("    word"));
    }
}
