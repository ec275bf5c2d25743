use proptest::prelude::*;

use super::super::examine::{keys_of, sections};
use super::*;

fn loaded(text: &str, variable: Option<(&str, &str)>) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leafd.toml");
    std::fs::write(&path, text).unwrap();
    let variable = variable.map(|(name, value)| (name.into(), value.into()));
    load(Some(&path), variable, |_| Vec::new()).map(|loaded| loaded.config)
}

#[test]
fn differences_lists_the_keys_that_differ() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leafd.toml");
    let from = |text: &str| {
        std::fs::write(&path, text).unwrap();
        load(Some(&path), [], |_| Vec::new()).unwrap()
    };
    let one = from("[worker]\nid = 7\n[segment]\nwait = \"5s\"\n");
    let other = from("[worker]\nid = 8\n[[access.rules]]\nusers = [1]\n");
    assert_eq!(one.differences(&other), ["access.rules", "worker.id"]);
    assert_eq!(other.differences(&one), ["access.rules", "worker.id"]);
    assert!(one.differences(&one).is_empty());
    assert_eq!(load(None, [], |_| Vec::new()).unwrap().differences(&one), ["worker.id"]);
}

#[test]
fn the_printed_default_configuration_is_the_default() {
    assert_eq!(loaded(DEFAULT, None).unwrap(), Config::default());
    assert_eq!(load(None, [], |_| Vec::new()).unwrap().config, Config::default());
}

#[test]
fn every_key_is_in_the_printed_default_configuration() {
    let mut keys = 0;
    for section in sections() {
        let from = DEFAULT.find(&format!("\n[{section}]\n"));
        let from = from.unwrap_or_else(|| panic!("default.toml has no section [{section}]"));
        let text = DEFAULT.get(from + 1..).unwrap();
        let text = text.split("\n[").next().unwrap();
        for key in keys_of(section) {
            let is_there = text.lines().any(|line| {
                let line = line.trim_start_matches(['#', ' ']);
                line.strip_prefix(*key).is_some_and(|rest| rest.starts_with(" = "))
                    || line.starts_with(&format!("[[{section}.{key}]]"))
            });
            assert!(is_there, "default.toml does not have {section}.{key}");
            keys += 1;
        }
    }
    assert!(keys > 40, "{keys}");
}

#[test]
fn the_environment_can_set_every_key() {
    let defaults: toml::Table = DEFAULT.parse().unwrap();
    let mut keys = 0;
    for (section, table) in &defaults {
        for (key, value) in table.as_table().unwrap() {
            let name = format!("LEAFD_{section}_{key}").to_uppercase().replace('-', "_");
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(loaded("", Some((&name, &text))).unwrap(), Config::default(), "{name}");
            keys += 1;
        }
    }
    assert!(keys > 30);
}

#[test]
fn an_error_names_an_unknown_key_or_a_wrong_value_with_its_line() {
    let error = loaded("[segment]\ndefault-stepp = 5\n", None).unwrap_err().to_string();
    assert!(error.contains("default-stepp") && error.contains(".toml:2:1: "), "{error}");
    let error = loaded("[store]\ntimeout = \"5 parsecs\"\n", None).unwrap_err().to_string();
    assert!(error.contains("5 parsecs"), "{error}");
    let error = loaded("", Some(("LEAFD_STORE_TIMEOUT", "5 parsecs"))).unwrap_err();
    assert!(error.to_string().contains("5 parsecs"), "{error}");
    let error = loaded("[store]\nkind = \"oracle\"\n", None).unwrap_err().to_string();
    assert!(error.contains("oracle"), "{error}");
}

#[test]
fn an_error_does_not_show_a_value_that_may_be_a_secret() {
    for line in [
        "password = hunter2",
        "password = \"hunter2",
        "password = [\"hunter2\"]",
        "passwd = \"hunter2\"",
        "Password = \"hunter2\"",
        "password = \"\"\"\nhunter2",
        "uri = \"leaf:hunter2@db\"",
        "pasword = \"x\"\npassword = 'hunter2",
        "url = \"mysql://leaf:hunter2@db/leaf",
        "uri = \"mysql://leaf:hunter2@db/leaf\"",
    ] {
        let error = loaded(&format!("[store]\n{line}\n"), None).unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains(".toml:"), "{error}");
    }
    let error = loaded("[store]\npassword = 12345\n", None).unwrap_err().to_string();
    assert!(!error.contains("12345"), "{error}");
}

#[test]
fn an_error_names_a_missing_file() {
    let error = load(Some(Path::new("/nonexistent/leafd.toml")), [], |_| Vec::new()).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/leafd.toml"));
}
