//! Mistakes in a configuration, each with its place, its key and what to write instead. No message
//! shows a secret.

use std::path::{Path, PathBuf};

use super::written::Place;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Where it was written; `None` if a default is in conflict with nothing that was written.
    pub(crate) place: Option<Place>,
    /// `section.key`, the section, or nothing if the text names the variable or the syntax.
    pub(crate) key: String,
    /// What is wrong, and what to write instead.
    pub(crate) text: String,
}

impl Mistake {
    /// As a line for users. `path` is the file.
    fn line(&self, path: Option<&Path>) -> String {
        let path = path.unwrap_or(Path::new("the configuration")).display();
        let (key, text) = (&self.key, &self.text);
        match (&self.place, key.as_str()) {
            (Some(Place::Line { line, column }), "") => format!("{path}:{line}:{column}: {text}"),
            (Some(Place::Line { line, column }), key) => {
                format!("{path}:{line}:{column}: {key}: {text}")
            }
            (Some(Place::Variable(name)), "") => format!("{name}: {text}"),
            (Some(Place::Variable(name)), key) => format!("{name} ({key}): {text}"),
            (None, "") => text.clone(),
            (None, key) => format!("{key}: {text}"),
        }
    }
}

/// A configuration that leafd does not accept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}", told(path.as_deref(), mistakes))]
    Mistakes { path: Option<PathBuf>, mistakes: Vec<Mistake> },
}

/// Most lines about mistakes in one message: a file of another program has one in every line.
const MOST: usize = 50;

fn told(path: Option<&Path>, mistakes: &[Mistake]) -> String {
    let count = mistakes.len();
    let s = if count == 1 { "" } else { "s" };
    let mut text = format!("the configuration has {count} mistake{s}:");
    for mistake in mistakes.iter().take(MOST) {
        text.push_str("\n  ");
        text.push_str(&mistake.line(path));
    }
    if count > MOST {
        text.push_str(&format!("\n  and {} more", count - MOST));
    }
    text
}

/// A text from the configuration for a message: in quotes, cut, and without control characters.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let shown = hidden(text);
    match shown.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", shown.get(..end).unwrap_or_default()),
        None => format!("{shown:?}"),
    }
}

/// Hides what may be the password in `scheme://user:password@host`, wherever somebody wrote a URL.
pub(super) fn hidden(text: &str) -> String {
    match (text.split_once(':'), text.rsplit_once('@')) {
        (Some((before, rest)), Some((_, after))) if rest.contains('@') => {
            format!("{before}:***@{after}")
        }
        _ => text.to_owned(),
    }
}
