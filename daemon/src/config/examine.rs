//! Finds every mistake in what was written: it reads each value by itself, so that one that does not
//! fit hides no other.

use serde::Deserialize as _;

use super::Config;
use super::mistake::{Mistake, quoted};
use super::nearest::{did_you_mean, nearest};
use super::reader::{Misfit, MisfitKind, PathStep, Reader};
use super::remedy;
use super::written::{Place, Written, WrittenKey, WrittenValue};

/// The keys whose values are secrets; a test compares them with the sections.
pub(super) const SECRETS: [&str; 11] = [
    "store.url",
    "store.urls",
    "store.password",
    "redis.password",
    "redis.sentinel-password",
    "zookeeper.auth",
    "database.url",
    "database.password",
    "etcd.password",
    "worker-node.url",
    "worker-node.password",
];

/// A mistake, and the section and key to leave out so that the rest can be checked.
pub(super) struct Found {
    pub(super) mistake: Mistake,
    pub(super) section: String,
    pub(super) key: Option<String>,
}

/// Every value of `tree` that does not fit, and every key that leafd does not have.
pub(super) fn examine(tree: &Written) -> Vec<Found> {
    let mut found = Vec::new();
    visit(&mut Vec::new(), &tree.place, tree, &mut found);
    found.sort_by(|one, other| one.mistake.place.cmp(&other.mistake.place));
    found
}

/// `key` is the place of the key that leads to `value`.
fn visit(path: &mut Vec<PathStep>, key: &Place, value: &Written, found: &mut Vec<Found>) {
    let Err(misfit) = Config::deserialize(Reader { path, value }) else { return };
    if let MisfitKind::UnknownKey(name, known) = &misfit.why
        && path.last() == Some(&PathStep::Key(name.clone()))
    {
        let text = unknown_key(path, known, value);
        return found.push(finding(path, key, text, true));
    }
    let before = found.len();
    match &value.value {
        WrittenValue::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(PathStep::Item(index));
                visit(path, &item.place, item, found);
                path.pop();
            }
        }
        WrittenValue::Table(keys) => {
            for WrittenKey { name, place, value } in keys {
                path.push(PathStep::Key(name.clone()));
                visit(path, place, value, found);
                path.pop();
            }
        }
        _ => {}
    }
    if found.len() > before {
        return;
    }
    let place = match (&misfit.place, &misfit.why) {
        (Some(place), _) => place,
        // What a check of the value itself has found.
        (None, MisfitKind::Other(_)) => &value.place,
        // What is around the value does not fit, or lacks something, only because it is read alone.
        (None, _) => return,
    };
    found.push(finding(path, place, misfit_text(path, &misfit, value), false));
}

fn misfit_text(path: &[PathStep], misfit: &Misfit, value: &Written) -> String {
    if let ([PathStep::Key(section)], MisfitKind::NotA(_)) = (path, &misfit.why) {
        // Not with its value, which may be a secret.
        return format!("is a section; write [{section}], and its keys below it");
    }
    let fits = |other: &WrittenValue| is_right(path, other);
    let fits_in_type = |other: &WrittenValue| is_readable(path, other);
    let is_secret = SECRETS.contains(&name(path, false).as_str());
    let better = remedy::explain(misfit, value, is_secret, &fits);
    if better.contains("; write ") {
        better
    } else {
        remedy::explain(misfit, value, is_secret, &fits_in_type)
    }
}

/// The configuration that has only this value, if it fits.
fn read(path: &[PathStep], value: &WrittenValue) -> Option<Config> {
    let value = Written { value: value.clone(), ..Written::empty() };
    Config::deserialize(Reader { path, value: &value }).ok()
}

/// Whether the value is of the right type for this key.
pub(super) fn is_readable(path: &[PathStep], value: &WrittenValue) -> bool {
    read(path, value).is_some()
}

/// Whether leafd accepts the value for this key, when all others have their defaults.
pub(super) fn is_right(path: &[PathStep], value: &WrittenValue) -> bool {
    let name = name(path, false);
    read(path, value).is_some_and(|config| config.check().iter().all(|problem| problem.key != name))
}

fn finding(path: &[PathStep], place: &Place, text: String, is_unknown: bool) -> Found {
    let key = |at: usize| match path.get(at) {
        Some(PathStep::Key(name)) => Some(name.clone()),
        _ => None,
    };
    // An unknown name is in the text, where it is quoted.
    let known = if is_unknown { path.get(..path.len().saturating_sub(1)) } else { Some(path) };
    let mistake =
        Mistake { place: Some(place.clone()), key: name(known.unwrap_or_default(), true), text };
    Found { mistake, section: key(0).unwrap_or_default(), key: key(1) }
}

/// `section.key`, and if `with_items` what inside of it: `access.rules, element 2, users`.
fn name(path: &[PathStep], with_items: bool) -> String {
    let mut text = String::new();
    for (depth, step) in path.iter().enumerate() {
        match step {
            PathStep::Key(name) if depth == 0 => text.push_str(name),
            PathStep::Key(name) if depth == 1 => text.push_str(&format!(".{name}")),
            _ if !with_items => break,
            PathStep::Key(name) => text.push_str(&format!(", {name}")),
            PathStep::Item(index) => text.push_str(&format!(", element {}", index + 1)),
        }
    }
    text
}

/// What to do about a key, or a section, that there is not.
fn unknown_key(path: &[PathStep], known: &[&str], value: &Written) -> String {
    let Some(PathStep::Key(given)) = path.last() else { return String::new() };
    let shown = quoted(given);
    let shown = shown.trim_matches('"');
    match path {
        [_] if !matches!(value.value, WrittenValue::Table(_)) => {
            let section = sections_with(given).next();
            let hint = match section {
                Some((section, key)) => format!("; write {key} below [{section}]"),
                None => did_you_mean(given, sections().iter().copied()),
            };
            format!("{shown} stands outside of any section{hint}")
        }
        [_] => {
            format!("there is no section [{shown}]{}", did_you_mean(given, known.iter().copied()))
        }
        [PathStep::Key(section), _] => {
            let elsewhere = sections_with(given).find(|(_, key)| key == given);
            let hint = match (nearest(given, known.iter().copied()), elsewhere) {
                (Some(near), None) => format!("; did you mean {near}?"),
                (_, Some((other, key))) => format!("; {key} is a key of [{other}]"),
                (None, None) => format!("; its keys are {}", known.join(", ")),
            };
            format!("[{section}] has no key {shown}{hint}")
        }
        _ => format!(
            "there is no {shown} here; {}",
            match nearest(given, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", known.join(", ")),
            }
        ),
    }
}

/// The sections that have a key like this one, each with the key.
fn sections_with(name: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let near = move |section: &'static str| {
        Some((section, nearest(name, keys_of(section).iter().copied())?))
    };
    sections().iter().copied().filter_map(near)
}

/// Every section.
pub(super) fn sections() -> &'static [&'static str] {
    known_after(&[])
}

/// Every key of a section.
pub(super) fn keys_of(section: &str) -> &'static [&'static str] {
    known_after(&[PathStep::Key(section.to_owned())])
}

/// The names that may follow. serde knows them, and says so about a name that it does not know.
fn known_after(path: &[PathStep]) -> &'static [&'static str] {
    let path = [path, &[PathStep::Key(String::new())]].concat();
    match Config::deserialize(Reader { path: &path, value: &Written::empty() }) {
        Err(Misfit { why: MisfitKind::UnknownKey(_, known), .. }) => known,
        _ => &[],
    }
}
