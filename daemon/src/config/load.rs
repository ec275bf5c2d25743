//! Loads a checked configuration from a file and the environment, and lists every mistake at once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use serde::Deserialize as _;

use super::examine::{SECRETS, examine};
use super::mistake::{ConfigError, Mistake};
use super::problems::Problem;
use super::reader::Reader;
use super::syntax::{self, ParsedFile};
use super::written::{Place, Written, WrittenKey, WrittenValue};
use super::{Config, DEFAULT, environment};
use crate::input;

/// A configuration, and its keys as they were written.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// What the operator should know of how it was written.
    pub(crate) warnings: Vec<String>,
    /// The secrets that are in the file itself.
    pub(crate) secrets_in_file: Vec<&'static str>,
    /// Every key with its value, defaults included.
    written: Written,
}

impl Loaded {
    /// The keys whose values are written differently here and in `other`, as `section.key`.
    #[must_use]
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let sections = self.written.keys().iter();
        let keys =
            sections.flat_map(|section| section.value.keys().iter().map(move |key| (section, key)));
        let differing = keys.filter(|(section, key)| {
            let theirs = other.written.get(&section.name).and_then(|keys| keys.get(&key.name));
            theirs.is_none_or(|theirs| !theirs.value.is_same(&key.value.value))
        });
        let mut names: Vec<_> =
            differing.map(|(section, key)| format!("{}.{}", section.name, key.name)).collect();
        names.sort();
        names
    }
}

fn value_of<'a>(tree: &'a Written, key: &str) -> Option<&'a Written> {
    let (section, key) = key.split_once('.')?;
    tree.get(section)?.get(key)
}

/// Reads `path`, or the defaults without one, overrides its keys by `variables`, and checks the
/// result. `look` finds problems for which leafd has to look at the system.
///
/// # Errors
/// When the file, a variable or a value is wrong; the error lists all mistakes.
pub(crate) fn load(
    path: Option<&Path>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    look: impl FnOnce(&Config) -> Vec<Problem>,
) -> Result<Loaded, ConfigError> {
    let text = match path {
        Some(path) => input::read_text(path, input::CONFIGURATION)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?,
        None => String::new(),
    };
    let ParsedFile { tree: file, mut mistakes, unread } = syntax::parse(&text);
    let variables = environment::read(variables);
    mistakes.extend(variables.mistakes);
    let unread: BTreeSet<(String, Option<String>)> =
        unread.into_iter().map(|(section, key)| (section, Some(key))).collect();
    let mut wrong = unread.clone();
    let mut right = Written::empty();
    for tree in [&file, &variables.tree] {
        for found in examine(tree) {
            let place = (found.section, found.key);
            // What is not TOML has been reported.
            if !unread.contains(&place) {
                mistakes.push(found.mistake);
            }
            wrong.insert(place);
        }
        merge(&mut right, tree);
    }
    remove(&mut right, &wrong);
    let whole = Reader { path: &[], value: &right };
    let config = Config::deserialize(whole).unwrap_or_else(|misfit| {
        // Each value fits by itself, so this cannot be.
        mistakes.push(Mistake { place: None, key: String::new(), text: misfit.to_string() });
        Config::default()
    });
    let mut problems = config.check();
    problems.extend(look(&config));
    mistakes.extend(told(&problems, &wrong, &right));
    // Without a place last.
    mistakes.sort_by_key(|mistake| (mistake.place.is_none(), mistake.place.clone()));
    mistakes.dedup();
    if !mistakes.is_empty() {
        return Err(ConfigError::Mistakes { path: path.map(Path::to_owned), mistakes });
    }
    let is_in_file = |key: &&str| {
        let value = value_of(&right, key);
        value.is_some_and(|value| matches!(value.place, Place::Line { .. }))
    };
    let secrets_in_file = SECRETS.into_iter().filter(is_in_file).collect();
    let mut written = syntax::parse(DEFAULT).tree;
    merge(&mut written, &right);
    Ok(Loaded { config, warnings: variables.warnings, secrets_in_file, written })
}

/// Overrides the keys of `tree` by those of `other`.
fn merge(tree: &mut Written, other: &Written) {
    for section in other.keys() {
        for key in section.value.keys() {
            tree.set(&section.name, key.clone());
        }
    }
}

/// Removes the keys, and the sections, that are wrong.
fn remove(tree: &mut Written, wrong: &BTreeSet<(String, Option<String>)>) {
    let WrittenValue::Table(sections) = &mut tree.value else { return };
    sections.retain(|section| !wrong.contains(&(section.name.clone(), None)));
    for WrittenKey { name: section, value, .. } in sections {
        let WrittenValue::Table(keys) = &mut value.value else { continue };
        keys.retain(|key| !wrong.contains(&(section.clone(), Some(key.name.clone()))));
    }
}

/// The mistakes that the problems are, with their places. A problem that depends on a key that is
/// wrong itself may be none.
fn told(
    problems: &[Problem],
    wrong: &BTreeSet<(String, Option<String>)>,
    tree: &Written,
) -> Vec<Mistake> {
    let is_unread = |key: &str| {
        let (section, key) = key.split_once('.').unwrap_or((key, ""));
        wrong.contains(&(section.to_owned(), None))
            || wrong.contains(&(section.to_owned(), Some(key.to_owned())))
    };
    let is_wrong = |key: &str| is_unread(key) || problems.iter().any(|problem| problem.key == key);
    let certain = problems.iter().filter(|problem| {
        !is_unread(problem.key) && !problem.others.iter().any(|other| is_wrong(other))
    });
    let mistake = |problem: &Problem| {
        let keys = std::iter::once(problem.key).chain(problem.others.iter().copied());
        let value = keys.into_iter().find_map(|key| value_of(tree, key));
        let item = value.and_then(|value| match (&value.value, problem.item) {
            (WrittenValue::List(items), Some(index)) => items.get(index),
            _ => None,
        });
        Mistake {
            place: item.or(value).map(|value| value.place.clone()),
            key: problem.key.to_owned(),
            text: problem.text.clone(),
        }
    };
    certain.map(mistake).collect()
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
