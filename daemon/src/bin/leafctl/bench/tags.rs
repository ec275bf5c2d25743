//! The tags that a run makes, and their deletion at its end: a benchmark leaves none behind. It
//! deletes only tags that did not exist before it.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, MAX_TAGS_PER_PAGE};
use leafd::cli::leafctl::DaemonArgs;

use super::plan::Target;
use crate::connect;
use crate::output::{grouped, harmless};

/// The tags of a run's names that existed before it.
#[derive(Debug)]
pub(super) enum TagsBefore {
    /// The run makes no tag, or is to keep those that it makes.
    NoneToDelete,
    Known(BTreeSet<String>),
    /// leafd does not say, so the run must not delete anything.
    Unknown(Error),
}

/// What became of the tags that a run made.
#[derive(Debug)]
pub(super) enum TagsAfter {
    NoneLeft,
    /// These remain, `count` in all.
    Left {
        first: String,
        count: usize,
        why: String,
    },
    /// The tags may be the run's or may not.
    Unclear(String),
}

impl TagsBefore {
    /// Looks which tags of the run exist.
    pub(super) fn look(client: &mut Client, target: &Target, keep: bool) -> Self {
        if keep || matches!(target, Target::Snowflake) {
            return Self::NoneToDelete;
        }
        existing(client, target).map_or_else(Self::Unknown, Self::Known)
    }

    /// Deletes what the run made. Setting `stop` once more ends that early.
    pub(super) fn delete_others(
        &self,
        daemon: &DaemonArgs,
        target: &Target,
        stop: &AtomicBool,
    ) -> TagsAfter {
        let before = match self {
            Self::NoneToDelete => return TagsAfter::NoneLeft,
            Self::Unknown(error) => return TagsAfter::Unclear(error.to_string()),
            Self::Known(before) => before,
        };
        // The daemon may be restarting.
        let client = connect::patient(daemon).map_err(|failure| first_line(&failure.to_string()));
        let made = client.and_then(|mut client| {
            let tags = existing(&mut client, target).map_err(|error| error.to_string())?;
            Ok((client, tags.difference(before).cloned().collect::<Vec<_>>()))
        });
        match made {
            Ok((mut client, made)) => delete(&mut client, &made, stop),
            Err(why) => TagsAfter::Unclear(why),
        }
    }
}

/// A failure without its advice, which is not about the tags.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn delete(client: &mut Client, made: &[String], stop: &AtomicBool) -> TagsAfter {
    for (nth, tag) in made.iter().enumerate() {
        let why = if stop.load(Ordering::Relaxed) {
            "interrupted".to_owned()
        } else {
            match client.tag_delete(tag) {
                Ok(_) => continue,
                // Somebody else was faster.
                Err(error) if error.code() == Some(ErrorCode::UnknownTag) => continue,
                Err(error) => error.to_string(),
            }
        };
        return TagsAfter::Left { first: tag.clone(), count: made.len() - nth, why };
    }
    TagsAfter::NoneLeft
}

/// The tags of the run that exist now.
fn existing(client: &mut Client, target: &Target) -> Result<BTreeSet<String>, Error> {
    match target {
        Target::Snowflake => Ok(BTreeSet::new()),
        Target::Tag(tag) => match client.tag_show(tag) {
            Ok(_) => Ok(BTreeSet::from([tag.clone()])),
            Err(error) if error.code() == Some(ErrorCode::UnknownTag) => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        },
        Target::Tags(prefix, _) => {
            let prefix = format!("{prefix}-");
            let mut found = BTreeSet::new();
            let mut after = prefix.clone();
            loop {
                let page = client.tag_list(&after, MAX_TAGS_PER_PAGE)?;
                let Some(last) = page.last() else { return Ok(found) };
                after.clone_from(&last.tag);
                for tag in page {
                    if !tag.tag.starts_with(&prefix) {
                        return Ok(found);
                    }
                    if target.has(&tag.tag) {
                        found.insert(tag.tag);
                    }
                }
            }
        }
    }
}

impl TagsAfter {
    /// Tells the operator which tags remain.
    pub(super) fn report(&self, target: &Target) {
        if let Some(text) = self.text(target) {
            // A failing stderr is no failure of the benchmark.
            let _ = writeln!(io::stderr(), "leafctl: {}", harmless(&text));
        }
    }

    fn text(&self, target: &Target) -> Option<String> {
        match self {
            Self::NoneLeft => None,
            Self::Left { first, count: 1, why } => {
                Some(format!("the tag {first}, which this run made, remains: {why}"))
            }
            Self::Left { first, count, why } => Some(format!(
                "{} tags that this run made remain, the first of them {first}: {why}",
                grouped(*count as u64)
            )),
            Self::Unclear(why) => {
                Some(format!("if this run made {}, it remains: {why}", Described(target)))
            }
        }
    }
}

/// The tags of a run in words.
struct Described<'a>(&'a Target);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Target::Tag(tag) => write!(f, "the tag {tag}"),
            Target::Tags(prefix, _) => write!(f, "a tag {prefix}-…"),
            Target::Snowflake => f.write_str("a tag"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_learns_which_tags_remain_and_why() {
        let tag = Target::Tag("bench".to_owned());
        assert_eq!(TagsAfter::NoneLeft.text(&tag), None);
        let left = |count| TagsAfter::Left {
            first: "b-7".to_owned(),
            count,
            why: "207 NotConfigured: no table".to_owned(),
        };
        let text = left(1).text(&tag).unwrap();
        assert_eq!(text, "the tag b-7, which this run made, remains: 207 NotConfigured: no table");
        let text = left(1200).text(&tag).unwrap();
        assert!(text.starts_with("1,200 tags that this run made remain"), "{text}");
        assert_eq!(
            first_line("leafd is not reachable\nIs leafd running?"),
            "leafd is not reachable"
        );
        let unclear = TagsAfter::Unclear("206 Forbidden: no".to_owned());
        assert_eq!(
            unclear.text(&tag).unwrap(),
            "if this run made the tag bench, it remains: 206 Forbidden: no"
        );
    }
}
