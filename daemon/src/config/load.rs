//! From a file and the environment to a checked configuration.

use std::path::{Path, PathBuf};

use super::environment::{BadVariable, overlay};
use super::{Config, DEFAULT, Problem};

/// A configuration that leafd does not start with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("the configuration {from} is wrong:\n{source}")]
    Syntax {
        /// The file, or the environment.
        from: String,
        /// With line and column, where they are known.
        source: toml::de::Error,
    },
    /// A variable of the environment cannot be meant.
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

/// Reads `path` (none: the defaults), lays `variables` over it, and checks it at `now_ms`.
///
/// # Errors
/// When the file, a variable or a value is not right; each is named.
pub fn load(
    path: Option<&Path>,
    variables: impl IntoIterator<Item = (String, String)>,
    now_ms: u64,
) -> Result<Config, ConfigError> {
    let from = path.map_or_else(|| "environment".to_owned(), |path| path.display().to_string());
    let syntax = |source| ConfigError::Syntax { from: from.clone(), source };
    let text = match path {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?,
        None => String::new(),
    };
    // First as text: an error then shows the line.
    let _: Config = toml::from_str(&text).map_err(syntax)?;
    let mut table: toml::Table = text.parse().map_err(syntax)?;
    let defaults: toml::Table = DEFAULT.parse().map_err(syntax)?;
    overlay(&mut table, &defaults, variables)?;
    // The file was right by itself.
    let of_environment = |source| ConfigError::Syntax { from: "environment".to_owned(), source };
    let config: Config = table.try_into().map_err(of_environment)?;
    let problems = config.check(now_ms);
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::Problems(problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn loaded(text: &str, variable: Option<(&str, &str)>) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leafd.toml");
        std::fs::write(&path, text).unwrap();
        load(Some(&path), variable.map(|(name, value)| (name.into(), value.into())), NOW)
    }

    #[test]
    fn the_printed_default_configuration_is_the_default() {
        assert_eq!(loaded(DEFAULT, None).unwrap(), Config::default());
        assert_eq!(load(None, [], NOW).unwrap(), Config::default());
    }

    #[test]
    fn every_key_of_the_default_can_be_set_in_the_environment() {
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
    fn an_unknown_key_and_a_wrong_value_are_named_with_their_line() {
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
    fn a_missing_file_is_named() {
        let error = load(Some(Path::new("/nonexistent/leafd.toml")), [], NOW).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/leafd.toml"));
    }
}
