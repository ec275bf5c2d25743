//! `leafctl explain`: prints the runbook's entries about an error, a log line or a reason. The
//! runbook is part of leafctl, so that it is at hand where leafd runs and fits its version.

mod page;
mod plain;
mod search;

use std::io::Write;

use leafd::cli::leafctl::ExplainArgs;
use serde::Serialize;

use self::page::{Entry, Runbook};
use self::search::Found;
use crate::exit::Failure;
use crate::output::Output;

/// A symbolic link to the page in `docs/operations`; `cargo package` puts the file in its place.
const RUNBOOK: &str = include_str!("runbook.md");

/// Entries printed in full. If more fit, the others are listed.
const SHOWN: usize = 3;

/// Prints the entries that fit the words on the command line, or lists all of them.
///
/// # Errors
/// `Usage` if none fits, with those that are nearest; `Output`.
pub(crate) fn run<W: Write>(args: &ExplainArgs, out: &mut Output<W>) -> Result<(), Failure> {
    let runbook = Runbook::read(RUNBOOK);
    let words = args.words.join(" ");
    let words = words.trim();
    let (entries, more) = match words {
        "" => (runbook.entries.iter().collect(), Vec::new()),
        _ => match search::find(&runbook, words) {
            Found::Entries(mut entries) => {
                let more = entries.split_off(entries.len().min(SHOWN));
                (entries, more)
            }
            Found::Section(entries) => (entries, Vec::new()),
            Found::Nothing(nearest) => return Err(unknown(words, &nearest)),
        },
    };
    if args.json {
        let views: Vec<_> = entries.iter().chain(&more).map(|entry| EntryView::of(entry)).collect();
        return out.json(&views);
    }
    if words.is_empty() {
        return list(&entries, out);
    }
    for (nth, entry) in entries.iter().enumerate() {
        if nth > 0 {
            out.line("")?;
        }
        print(entry, out)?;
    }
    if !more.is_empty() {
        out.line("\nThese fit as well:")?;
        more.iter().try_for_each(|entry| out.line(format_args!("  {}", plain::heading(entry))))?;
    }
    Ok(())
}

fn print<W: Write>(entry: &Entry<'_>, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(plain::heading(entry))?;
    for line in plain::body(entry) {
        out.line(line)?;
    }
    Ok(())
}

fn list<W: Write>(entries: &[&Entry<'_>], out: &mut Output<W>) -> Result<(), Failure> {
    let mut section = "";
    for entry in entries {
        if entry.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            out.line(format_args!("{gap}{}", entry.section))?;
            section = entry.section;
        }
        for line in plain::wrapped(&plain::heading(entry), "  ", "    ") {
            out.line(line)?;
        }
    }
    Ok(())
}

fn unknown(words: &str, nearest: &[String]) -> Failure {
    let mut text = format!("the runbook has no entry for {words:?}");
    if !nearest.is_empty() {
        text.push_str("; the nearest:");
        nearest.iter().for_each(|heading| text.push_str(&format!("\n  {heading}")));
    }
    text.push_str(
        "\n`leafctl explain` lists all entries; it takes an error's number or name, a log line, or a \
         part of one.",
    );
    Failure::Usage(text)
}

/// The JSON of an entry.
#[derive(Debug, Serialize)]
struct EntryView<'a> {
    section: &'a str,
    heading: String,
    /// Of an error; otherwise `null`.
    code: Option<u16>,
    /// Of an error; otherwise `null`.
    name: Option<&'static str>,
    /// Without Markdown and without line breaks inside a paragraph.
    text: String,
    /// Where to read on.
    see: Vec<SeeView>,
}

#[derive(Debug, Serialize)]
struct SeeView {
    about: String,
    at: String,
}

impl<'a> EntryView<'a> {
    fn of(entry: &Entry<'a>) -> Self {
        let see = plain::links(entry).into_iter().map(|(about, at)| SeeView { about, at });
        Self {
            section: entry.section,
            heading: plain::heading(entry),
            code: entry.code.map(leaf_client::wire::ErrorCode::number),
            name: entry.code.map(leaf_client::wire::ErrorCode::name),
            text: plain::paragraphs(entry).join("\n"),
            see: see.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::printed;

    fn explained(words: &[&str]) -> Result<String, Failure> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut outcome = Ok(());
        let text = printed(|out| {
            outcome = run(&ExplainArgs { words, json: false }, out);
            Ok(())
        });
        outcome.map(|()| text)
    }

    #[test]
    fn an_entry_is_text_for_a_terminal() {
        let text = explained(&["302"]).unwrap();
        assert!(text.starts_with("302 StoreUnavailable\n    The tag's ranges"), "{text}");
        assert!(!text.contains("](") && !text.contains("###"), "{text}");
        assert!(text.contains("leafctl explain 'Words of a database, behind 302'"), "{text}");
        for (words, _) in [(&["302"], 0), (&["205"], 0)] {
            let text = explained(words).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn without_words_every_entry_is_listed_under_its_section() {
        let text = explained(&[]).unwrap();
        assert!(text.starts_with("Exit codes\n  1\n  64/USAGE\n"), "{text}");
        assert!(text.contains("\n\nLog lines: WARN\n"), "{text}");
        assert!(text.lines().count() > 130 && !text.contains('#'), "{text}");
    }

    #[test]
    fn an_unknown_word_is_quoted_with_its_nearest_neighbours() {
        let failure = explained(&["StoreUnavailible"]).unwrap_err();
        assert_eq!(failure.code(), 64);
        let text = failure.to_string();
        assert!(text.contains("\"StoreUnavailible\"; the nearest:\n  302 Store"), "{text}");
        assert!(explained(&["qqqq"]).unwrap_err().to_string().contains("no entry for \"qqqq\"\n"));
    }
}
