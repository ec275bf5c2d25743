//! `leafctl next`: IDs of a tag. leafd may make a tag on first use, so a typo makes one too; on a
//! terminal leafctl says that it did, and which tag may have been meant.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, MAX_TAGS_PER_PAGE};
use leafd::cli::leafctl::DaemonArgs;

use crate::ask::quoted;
use crate::exit::Failure;
use crate::ids::{self, AtTheTerminal};
use crate::output::{Output, harmless};
use crate::similar::most_similar;
use crate::{ask, connect};

/// How long the question whether the tag exists may hold up the IDs. If the store is slow, memory
/// can still serve the tag.
const ASIDE: Duration = Duration::from_millis(500);

/// Pages of tags to search for a similar name, from the first tag on, and again from the first one
/// with the same first letter on.
const PAGES: usize = 10;

/// What leafctl knows of the tag before it asks for IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagBefore {
    /// It exists; or nobody at a terminal wants to know.
    Known,
    Missing,
    /// This user may not ask.
    Secret,
}

/// Prints `count` IDs of `tag`.
///
/// # Errors
/// The daemon's refusals, and `Output`.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    tag: &str,
    count: u64,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut client = connect::patient(daemon)?;
    let before = if io::stderr().is_terminal() { look(daemon, tag) } else { TagBefore::Known };
    let mut first = None;
    let done = ids::print(count, daemon.timeout(), out, &mut AtTheTerminal, |n| {
        let ids = client.next_many(tag, n)?;
        first.get_or_insert(ids.first());
        Ok(ids)
    });
    let note = match (before, first) {
        (TagBefore::Missing, Some(_)) => Some(made(tag, similar(daemon, tag).as_deref(), daemon)),
        // Every tag begins with 1, unless somebody made it with another first ID.
        (TagBefore::Secret, Some(1)) => Some(format!(
            "1 is the first ID of {}: if you mean an older tag, check the name",
            harmless(tag)
        )),
        _ => None,
    };
    if let Some(note) = note {
        out.finish()?;
        // A failing stderr is no failure of the command.
        let _ = writeln!(io::stderr(), "leafctl: {note}");
    }
    done
}

/// A client of its own for questions that must not hold up the IDs.
fn aside(daemon: &DaemonArgs) -> Option<Client> {
    connect::at_once(daemon, daemon.timeout().min(ASIDE)).ok()
}

fn look(daemon: &DaemonArgs, tag: &str) -> TagBefore {
    let asked = aside(daemon).map(|mut client| client.tag_show(tag));
    match asked {
        Some(Err(error)) => match error.code() {
            Some(ErrorCode::UnknownTag) => TagBefore::Missing,
            Some(ErrorCode::Forbidden) => TagBefore::Secret,
            _ => TagBefore::Known,
        },
        Some(Ok(_)) | None => TagBefore::Known,
    }
}

/// The tag that is most like this one, among those that a bounded search finds.
fn similar(daemon: &DaemonArgs, tag: &str) -> Option<String> {
    let mut client = aside(daemon)?;
    let mut names = Vec::new();
    let initial: String = tag.chars().take(1).collect();
    for start in ["", initial.as_str()] {
        let mut after = start.to_owned();
        for _ in 0..PAGES {
            // What is missing from an incomplete list is only a hint that nobody gets.
            let page = client.tag_list(&after, MAX_TAGS_PER_PAGE).unwrap_or_default();
            let Some(last) = page.last() else { break };
            after.clone_from(&last.tag);
            names.extend(page.into_iter().map(|tag| tag.tag));
        }
    }
    most_similar(tag, names.iter().map(String::as_str)).map(str::to_owned)
}

fn made(tag: &str, similar: Option<&str>, daemon: &DaemonArgs) -> String {
    let delete = format!("{} tag delete -- {}", ask::leafctl(daemon.given_socket()), quoted(tag));
    let name = harmless(tag);
    match similar {
        Some(similar) => format!(
            "made tag {name}: did you mean {}? `{}` removes {name}",
            harmless(similar),
            harmless(&delete),
        ),
        None => format!("made tag {name}; `{}` removes it", harmless(&delete)),
    }
}
