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
    let key = rest.to_lowercase().replace('_', "-");
    let ends = known.iter().filter(|known| known.key == key);
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn read_one(name: &str, value: &str) -> Variables {
        read([(name.into(), value.into())])
    }

    #[test]
    fn a_variable_sets_its_key_and_those_of_other_programs_are_ignored() {
        let tree = read_one("LEAFD_WORKER_ID", "7").tree;
        let value = tree.get("worker").and_then(|section| section.get("id")).unwrap();
        assert!(value.value.is_same(&WrittenValue::Raw("7".into())));
        for name in ["LEAFD_SOCKET", "PATH", "LEAF_X", "leafd_worker_id"] {
            let read = read_one(name, "/x");
            assert!(read.mistakes.is_empty() && read.warnings.is_empty(), "{name}");
            assert!(read.tree.keys().is_empty(), "{name}");
        }
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("LEAFD_WORKER_IDD", "did you mean LEAFD_WORKER_ID?"),
            ("LEAFD_SOCKET_PAHT", "did you mean LEAFD_SOCKET_PATH?"),
            ("LEAFD_CONFG", "did you mean LEAFD_CONFIG?"),
            (
                "LEAFD_TIMEOUT",
                "did you mean LEAFD_STORE_TIMEOUT or LEAFD_ZOOKEEPER_TIMEOUT or LEAFD_DATABASE_TIMEOUT or LEAFD_ETCD_TIMEOUT or LEAFD_WORKER_NODE_TIMEOUT?",
            ),
            ("LEAFD_COLOUR_OF_LOGS", "`leafd default-config` prints them all"),
        ] {
            let mistakes = read_one(name, "hunter2").mistakes;
            assert!(mistakes.len() == 1 && mistakes[0].text.contains(meant), "{mistakes:?}");
            assert!(!mistakes[0].text.contains("hunter2"));
        }
    }

    #[test]
    fn variables_of_kubernetes_are_ignored_and_only_others_of_such_names_give_a_warning() {
        let service = [
            ("LEAFD_METRICS_SERVICE_HOST", "10.0.0.1"),
            ("LEAFD_METRICS_SERVICE_PORT_HTTP", "80"),
            ("LEAFD_METRICS_PORT", "tcp://10.0.0.1:80"),
            ("LEAFD_METRICS_PORT_80_TCP_ADDR", "10.0.0.1"),
        ];
        let made = read(service.map(|(name, value)| (name.into(), value.into())));
        assert!(made.mistakes.is_empty() && made.warnings.is_empty(), "{:?}", made.warnings);
        let read = read_one("LEAFD_PEER_LISTEN_PORT", "8735");
        assert!(read.mistakes.is_empty());
        assert!(read.warnings[0].contains("LEAFD_PEER_LISTEN_PORT sets no key"));
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_refused_and_a_secret_one_not_shown() {
        let value = OsString::from_vec(b"hunter2\xff".to_vec());
        for (name, shown) in [("LEAFD_STORE_PASSWORD", false), ("LEAFD_STATE_DIR", true)] {
            let mistakes = read([(name.into(), value.clone())]).mistakes;
            assert_eq!(mistakes[0].text.contains("hunter2"), shown, "{mistakes:?}");
            assert!(mistakes[0].text.contains("is not UTF-8"));
        }
    }
}
