//! The variables that set keys: `LEAFD_` and the section and the key in capitals. They are read like a
//! file of their own, which outranks the file.

use std::ffi::OsString;

use super::examine::{SECRETS, keys_of, sections};
use super::mistake::{Mistake, quoted};
use super::nearest::nearest;
use super::written::{Place, Written, WrittenKey, WrittenValue};

const PREFIX: &str = "LEAFD_";

/// Variables with the prefix that are not keys. Their values may be any path, even one that is not
/// UTF-8.
const OTHERS: [&str; 2] = ["LEAFD_SOCKET", "LEAFD_CONFIG"];

/// What the environment sets.
pub(super) struct Variables {
    pub(super) tree: Written,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<String>,
}

/// A key, and the variable that sets it.
struct KeyVariable {
    name: String,
    section: &'static str,
    key: &'static str,
}

/// Reads the variables that begin with the prefix.
pub(super) fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Variables {
    let known = known();
    // leafd has no variable with a name that is not UTF-8.
    let named =
        variables.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours =
        named.filter(|(name, _)| name.starts_with(PREFIX) && !OTHERS.contains(&name.as_str()));
    let mut ours: Vec<(String, OsString)> = ours.collect();
    ours.sort();
    let mut read = Variables { tree: Written::empty(), mistakes: Vec::new(), warnings: Vec::new() };
    for (name, value) in &ours {
        let place = Place::Variable(name.clone());
        let mistake = |key: String, text: String| Mistake { place: Some(place.clone()), key, text };
        let Some(set) = known.iter().find(|known| known.name == *name) else {
            match is_for_kubernetes(name) {
                false => read.mistakes.push(mistake(String::new(), unknown(name, &known))),
                true if !has_service(name, &ours) => read.warnings.push(ignored(name, &known)),
                true => {}
            }
            continue;
        };
        let key = format!("{}.{}", set.section, set.key);
        let Some(text) = value.to_str() else {
            let shown = match SECRETS.contains(&key.as_str()) {
                true => "its value".to_owned(),
                false => quoted(&value.to_string_lossy()),
            };
            read.mistakes.push(mistake(key, format!("{shown} is not UTF-8")));
            continue;
        };
        let value = Written { value: WrittenValue::Raw(text.to_owned()), place: place.clone() };
        read.tree.set(set.section, WrittenKey { name: set.key.to_owned(), place, value });
    }
    read
}

fn known() -> Vec<KeyVariable> {
    let keys = sections().iter().flat_map(|section| {
        keys_of(section).iter().map(move |key| KeyVariable {
            name: format!("{PREFIX}{section}_{key}").to_uppercase().replace('-', "_"),
            section,
            key,
        })
    });
    keys.collect()
}

/// The known variable that was probably meant.
fn meant(name: &str, known: &[KeyVariable]) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    let names = known.iter().map(|known| known.name.as_str()).chain(OTHERS);
    let names = names.filter_map(|name| name.strip_prefix(PREFIX));
    if let Some(near) = nearest(rest, names) {
        return Some(format!("{PREFIX}{near}"));
    }
    // The section may be missing.
    let ends = known.iter().filter(|known| known.name.ends_with(&format!("_{rest}")));
    let ends: Vec<_> = ends.map(|known| known.name.as_str()).collect();
    (!ends.is_empty()).then(|| ends.join(" or "))
}

fn unknown(name: &str, known: &[KeyVariable]) -> String {
    match meant(name, known) {
        Some(meant) => format!("there is no such key; did you mean {meant}?"),
        None => "there is no such key; `leafd default-config` prints them all".to_owned(),
    }
}

/// Marks in the names of the variables that Kubernetes makes.
const MARKS: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];

/// Whether Kubernetes may have set the variable: it does so in every container if there is a
/// Service whose name begins with `leafd`.
fn is_for_kubernetes(name: &str) -> bool {
    MARKS.iter().any(|mark| name.contains(mark))
}

/// Whether Kubernetes has certainly set the variable: it sets the host of each Service too.
fn has_service(name: &str, all: &[(String, OsString)]) -> bool {
    let hosts = all.iter().filter_map(|(name, _)| name.strip_suffix("_SERVICE_HOST"));
    hosts.into_iter().any(|service| {
        let rest = name.strip_prefix(service);
        rest.is_some_and(|rest| MARKS.iter().any(|mark| rest.starts_with(mark)))
    })
}

fn ignored(name: &str, known: &[KeyVariable]) -> String {
    let meant =
        meant(name, known).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!(
        "{name} sets no key, and leafd ignores it because Kubernetes makes variables of such names{meant}"
    )
}
