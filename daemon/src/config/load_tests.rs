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
    let error = load(Some(Path::new("/nonexistent/leafd.toml")), [], |_| Vec::new()).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/leafd.toml"));
}

fn mistakes(text: &str) -> Vec<String> {
    match loaded(text, None) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let text = error.to_string();
            let (_, lines) = text.split_once("mistake").unwrap();
            lines
                .lines()
                .skip(1)
                .map(|line| line.split_once("leafd.toml:").unwrap().1.into())
                .collect()
        }
    }
}

#[test]
fn every_kind_of_mistake_is_told_at_once_in_the_order_of_the_file() {
    let found = mistakes(
        "[socket]\nidle-timeout = 10\nmax-cuont = 5\nmode = \"0999\"\n[segmnt]\nwait = \"5s\"\n\
         [worker]\nid = 1024\n[store]\nkind = \"postgers\"\nurl = \"mysql://leaf@db/leaf\"\n\
         [log]\nlevel = \"loud\"\n[access]\nrules = [\n  { users = [1], tagz = 2 },\n  { name = \"x\" },\n]\n",
    );
    let parts = [
        "2:16: socket.idle-timeout: 10 is not a duration: it has no unit; write \"10s\"",
        "3:1: socket: [socket] has no key max-cuont; did you mean max-count?",
        "4:8: socket.mode: \"0999\" is not a file mode in octal",
        "5:2: there is no section [segmnt]; did you mean segment?",
        "8:6: worker.id: 1024 is not between 0 and 1023",
        "10:8: store.kind: \"postgers\" is not one of",
        "13:9: log.level: \"loud\" is not a level",
        "16:18: access.rules, element 1: there is no tagz here; did you mean tags?",
    ];
    assert_eq!(found.len(), parts.len(), "{found:#?}");
    for (found, part) in found.iter().zip(parts) {
        assert!(found.starts_with(part), "{part}: {found}");
    }
}

#[test]
fn a_wrong_type_is_told_with_what_to_write_instead() {
    for (line, write) in [
        ("[socket]\nidle-timeout = 10", "write \"10s\""),
        ("[socket]\nidle-timeout = \"10\"", "write \"10s\""),
        ("[socket]\nidle-timeout = 10s", "lacks quotes; write \"10s\""),
        ("[socket]\nidle-timeout = \"10 s\"", "write \"10s\""),
        ("[socket]\nidle-timeout = \"1.5 min\"", "write \"1m30s\""),
        ("[snowflake]\nmax-lead = 10", "write \"10ms\""),
        ("[socket]\nmax-count = \"10\"", "numbers have no quotes; write 10"),
        ("[socket]\nmax-count = \"10,000\"", "write 10000"),
        ("[socket]\nmax-count = ten", "is not TOML"),
        ("[socket]\nmode = 660", "write \"0660\""),
        ("[socket]\nmode = 0o660", "write \"0660\""),
        ("[socket]\nmode = 0660", "lacks quotes; write \"0660\""),
        ("[socket]\ngroup = [\"leaf\"]", "write \"leaf\""),
        ("[socket]\npath = /run/x.sock", "lacks quotes; write \"/run/x.sock\""),
        ("[snowflake]\nenabled = \"true\"", "write true"),
        ("[snowflake]\nenabled = True", "write true"),
        ("[snowflake]\nenabled = yes", "write true"),
        ("[snowflake]\nenabled = 1", "1 is not true or false"),
        ("[segment]\nauto-create = \"no\"", "write false"),
        ("[worker]\nidentity = 7", "texts have quotes; write \"7\""),
        ("[zookeeper]\nservers = [\"a\", \"b\"]", "a list is not a text, which this key wants"),
        ("[access]\nrules = [{ users = \"root\" }]", "write [\"root\"]"),
        ("[socket]\nmax-count = 1\nmax-count = 2", "is not TOML: duplicate key"),
        ("[log]\nlevel = info", "lacks quotes; write \"info\""),
        ("[socket]\npath = “/run/x.sock”", "lacks quotes; write \"/run/x.sock\""),
        ("[log]\nlevel = \"inof\"", "did you mean info?"),
        ("[log]\nformat = \"jsno\"", "did you mean json?"),
        ("segment = 5", "write [segment], and its keys below it"),
        ("max-count = 5", "write max-count below [socket]"),
        ("[segment]\nmax-count = 5", "max-count is a key of [socket]"),
        ("[store]\npassword = 12345", "put it in quotes"),
        ("[store]\npassword = hunter2", "put the value in quotes"),
        ("[store]\npassword = \"hunter2", "is not TOML: invalid basic string, expected `\"`"),
        ("[socket]\npath = \"/run/x.sock", "is not TOML: invalid basic string, expected `\"`"),
    ] {
        let found = mistakes(line);
        assert!(found.len() == 1 && found[0].contains(write), "{line}: {found:#?}");
        assert!(!found[0].contains("hunter2") && !found[0].contains("12345"), "{found:#?}");
    }
}

#[test]
fn a_mistake_hides_those_that_may_follow_from_it_and_no_other() {
    for (text, count) in [
        // Whether the URL fits depends on the kind.
        ("[store]\nkind = 5\nurl = \"mysql://leaf@db/leaf\"", 1),
        ("[segment]\nmax-step = 0\ndefault-step = 5", 1),
        ("[worker]\nreclaim-after = \"1s\"\nfence-after = \"1h\"", 1),
        ("[worker]\nfence-after = 5s\nid = 5000\n[socket]\nmax-count = 0", 3),
        ("[access]\nrules = [{ users = 1 }, { groups = 2 }, { users = [1], connect = 5 }]", 3),
        ("[quota]\ntags = [{ tags = [\"x\"] }]", 1),
    ] {
        let found = mistakes(text);
        assert_eq!(found.len(), count, "{text}: {found:#?}");
    }
    let found = mistakes("[worker]\nreclaim-after = \"1h\"");
    assert!(found[0].starts_with("2:17: worker.fence-after: 12h is not between 10s and 30m, half"));
}

#[test]
fn the_secrets_are_exactly_the_keys_that_are_never_shown() {
    for section in sections() {
        for key in keys_of(section) {
            let text = format!("[{section}]\n{key} = \"x:hunter2\"");
            let Ok(config) = toml::from_str::<Config>(&text) else { continue };
            let shown = format!("{config:?}").contains("hunter2");
            let name = format!("{section}.{key}");
            assert_eq!(
                shown,
                !SECRETS.contains(&&*name),
                "{name}: use `values::secret` and SECRETS"
            );
        }
    }
}

/// A key, and any value for it.
fn any_line() -> impl Strategy<Value = (String, String)> {
    let keys: Vec<_> = sections()
        .iter()
        .flat_map(|section| keys_of(section).iter().map(move |key| (*section, *key)))
        .collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        any::<String>().prop_map(|text| toml::Value::String(text).to_string()),
        "[0-9]{1,4}(ms|s|m|h|d| s|sec)?".prop_map(|text| format!("{text:?}")),
        "[a-z0-9:/@#%.]{0,20}",
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("1.5".to_owned()),
        Just("nan".to_owned()),
        Just("2026-01-01".to_owned()),
        Just("[{ users = [-1], ids-per-second = \"x\" }, 5, [[]]]".to_owned()),
        Just("99999999999999999999".to_owned()),
    ];
    (prop::sample::select(keys), value)
        .prop_map(|((section, key), value)| (format!("{section}.{key}"), value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_as_a_configuration_is_read_or_refused(text in any::<String>()) {
        let _ = loaded(&text, None);
    }

    #[test]
    fn any_lines_like_toml_are_read_or_refused(
        lines in prop::collection::vec("[\\[\\]{}=\"'#.,a-z0-9 \\-]{0,12}", 0..6),
    ) {
        let _ = loaded(&lines.join("\n"), None);
    }

    #[test]
    fn a_wrong_value_of_any_key_is_told_with_the_key((name, value) in any_line()) {
        let (section, key) = name.split_once('.').unwrap();
        if let Err(error) = loaded(&format!("[{section}]\n{key} = {value}\n"), None) {
            let error = error.to_string();
            let key = error.contains(&name) || error.contains(":2:") || error.contains(":3:");
            prop_assert!(key, "{name} = {value}: {error}");
        }
    }

    #[test]
    fn any_value_of_a_variable_is_read_or_told_with_its_name(
        (name, _) in any_line(),
        value in any::<String>(),
    ) {
        let variable = format!("LEAFD_{name}").to_uppercase().replace(['.', '-'], "_");
        if let Err(error) = loaded("", Some((&variable, &value))) {
            let error = error.to_string();
            prop_assert!(error.contains(&variable) && error.contains(&name), "{error}");
        }
    }

    #[test]
    fn what_a_remedy_says_to_write_is_right((name, value) in any_line()) {
        let (section, key) = name.split_once('.').unwrap();
        if let Err(error) = loaded(&format!("[{section}]\n{key} = {value}\n"), None)
            && let error = error.to_string()
            && let Some((_, write)) = error.split_once("; write ")
            && !write.starts_with("it ")
            && !write.contains('…')
            && !error.contains(", element")
            && error.lines().count() == 2
        {
            let again = loaded(&format!("[{section}]\n{key} = {write}\n"), None);
            let again = again.err().map_or_else(String::new, |error| error.to_string());
            // It may still lack another key, be out of range or of another form ("write it like …"), but
            // it is of the right type.
            let more = again.split_once("; write ");
            let more = more.is_some_and(|(_, write)| !write.starts_with("it "));
            prop_assert!(!more && !again.contains("TOML"), "{error}: {again}");
        }
    }
}
