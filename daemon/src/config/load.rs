//! Loads a checked configuration from a file and the environment.

use std::path::{Path, PathBuf};

use super::environment::{BadVariable, overlay};
use super::{Config, DEFAULT, Problem};
use crate::input;

/// A configuration that leafd does not accept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is not TOML, or has an unknown key or a value of a wrong type.
    #[error("the configuration {from} is wrong:\n{what}")]
    Syntax {
        /// The file, or the environment.
        from: String,
        /// The error, with line and column if they are known.
        what: String,
    },
    #[error(transparent)]
    Variable(#[from] BadVariable),
    /// Values are out of range or contradict each other.
    #[error(
        "the configuration has {} problem(s):\n{}",
        .0.len(),
        .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
    )]
    Problems(Vec<Problem>),
}

/// A configuration, and its keys as they were written.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Every key with its value, defaults included.
    written: toml::Table,
}

impl Loaded {
    /// The keys whose values are written differently here and in `other`, as `section.key`.
    #[must_use]
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let keys = self.written.iter().flat_map(|(section, keys)| {
            keys.as_table().into_iter().flatten().map(move |(key, value)| (section, key, value))
        });
        keys.filter(|(section, key, value)| {
            let theirs = other.written.get(*section).and_then(|keys| keys.get(*key));
            theirs != Some(value)
        })
        .map(|(section, key, _)| format!("{section}.{key}"))
        .collect()
    }
}

/// Reads `path`, or the defaults without one, overrides its keys by `variables`, and checks the
/// result.
///
/// # Errors
/// When the file, a variable or a value is wrong; the error names each.
pub(crate) fn load(
    path: Option<&Path>,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Loaded, ConfigError> {
    let from = path.map_or_else(|| "environment".to_owned(), |path| path.display().to_string());
    let text = match path {
        Some(path) => input::read_text(path, input::CONFIGURATION)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?,
        None => String::new(),
    };
    let syntax = |error| ConfigError::Syntax { from: from.clone(), what: explain(&error, &text) };
    // Parse the text itself first, because only then does an error have a line.
    let _: Config = toml::from_str(&text).map_err(syntax)?;
    let mut table: toml::Table = text.parse().map_err(syntax)?;
    let defaults: toml::Table = DEFAULT.parse().map_err(syntax)?;
    overlay(&mut table, &defaults, variables)?;
    // The file alone is right, so the mistake is in the environment.
    let of_environment = |error: toml::de::Error| ConfigError::Syntax {
        from: "environment".to_owned(),
        // Without a source text, the error quotes no line, and so no secret.
        what: error.to_string(),
    };
    let config: Config = table.clone().try_into().map_err(of_environment)?;
    let problems = config.check();
    if !problems.is_empty() {
        return Err(ConfigError::Problems(problems));
    }
    let mut written = defaults;
    for (section, keys) in table {
        if let (Some(all), toml::Value::Table(keys)) =
            (written.get_mut(&section).and_then(toml::Value::as_table_mut), keys)
        {
            all.extend(keys);
        }
    }
    Ok(Loaded { config, written })
}

/// Says what is wrong and where, with the key if it is one of leafd's. It never quotes the line,
/// which may contain a password under any name.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    let from = before.rfind('\n').map_or(0, |at| at + 1);
    let key = text.get(from..).and_then(|rest| rest.split(['=', '\n']).next()).map(str::trim);
    let key = key.filter(|key| is_known(key)).map_or(String::new(), |key| format!(", {key}"));
    format!("line {line}, column {column}{key}: {}", error.message())
}

/// Whether a section or key has this name.
fn is_known(name: &str) -> bool {
    let table: toml::Table = DEFAULT.parse().unwrap_or_default();
    let mut sections = table.iter();
    sections.any(|(section, keys)| {
        section == name || keys.as_table().is_some_and(|keys| keys.contains_key(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str, variable: Option<(&str, &str)>) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.toml");
        std::fs::write(&path, text).unwrap();
        let variable = variable.map(|(name, value)| (name.into(), value.into()));
        load(Some(&path), variable).map(|loaded| loaded.config)
    }

    #[test]
    fn differences_lists_the_keys_that_differ() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.toml");
        let from = |text: &str| {
            std::fs::write(&path, text).unwrap();
            load(Some(&path), []).unwrap()
        };
        let one = from("[worker]\nid = 7\n[segment]\nwait = \"5s\"\n");
        let other = from("[worker]\nid = 8\n[[access.rules]]\nusers = [1]\n");
        assert_eq!(one.differences(&other), ["access.rules", "worker.id"]);
        assert_eq!(other.differences(&one), ["access.rules", "worker.id"]);
        assert!(one.differences(&one).is_empty());
        assert_eq!(load(None, []).unwrap().differences(&one), ["worker.id"]);
    }

    #[test]
    fn the_printed_default_configuration_is_the_default() {
        assert_eq!(loaded(DEFAULT, None).unwrap(), Config::default());
        assert_eq!(load(None, []).unwrap().config, Config::default());
    }

    /// The keys that serde would accept instead of an unknown one.
    fn keys_beside(unknown: &str) -> Vec<String> {
        let error = toml::from_str::<Config>(unknown).unwrap_err();
        let (_, expected) = error.message().split_once("expected ").unwrap();
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_key_is_in_the_printed_default_configuration() {
        let mut keys = 0;
        for section in keys_beside("unknown-key = 1") {
            let from = DEFAULT.find(&format!("\n[{section}]\n"));
            let from = from.unwrap_or_else(|| panic!("default.toml has no section [{section}]"));
            let text = DEFAULT.get(from + 1..).unwrap();
            let text = text.split("\n[").next().unwrap();
            for key in keys_beside(&format!("[{section}]\nunknown-key = 1")) {
                let is_there = text.lines().any(|line| {
                    let line = line.trim_start_matches(['#', ' ']);
                    line.strip_prefix(&*key).is_some_and(|rest| rest.starts_with(" = "))
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
        assert!(error.contains("default-stepp") && error.contains("line 2"), "{error}");
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
            assert!(!error.contains("hunter2") && error.contains("line "), "{error}");
        }
        let error = loaded("[store]\npassword = 12345\n", None).unwrap_err().to_string();
        assert!(!error.contains("12345"), "{error}");
    }

    #[test]
    fn an_error_names_a_missing_file() {
        let error = load(Some(Path::new("/nonexistent/leafd.toml")), []).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/leafd.toml"));
    }
}
