//! The commands of `leafd`: what each does, from the configuration to the exit code.

mod access;
mod adopt;
mod audit;
mod build;
mod descriptors;
mod failure;
mod hand_back;
mod hint;
mod owner;
mod paths;
mod ready;
mod reload;
mod run;
mod schema;
mod serve;
mod signals;
mod snowflake;
mod stop;
mod store;

use std::io::{ErrorKind, Write};
use std::path::Path;

pub use adopt::adopt;
pub use audit::audit;
pub use failure::{EX_USAGE, Failure};
pub use hand_back::hand_back;
pub use schema::{SchemaDialect, schema};
pub use serve::serve;

use nix::sys::stat::{Mode, umask};

use crate::config::{self, Loaded};
use crate::environment::Environment;
use crate::stdout::stdout;

/// Lets leafd's user read and write what leafd makes, whatever umask it inherits: under 777 the
/// state directory had mode 000, and the next start could not open it.
pub fn spare_owner_in_umask() {
    let others = Mode::S_IRWXG | Mode::S_IRWXO;
    let inherited = umask(others);
    umask(inherited & others);
}

/// Where a configuration is looked for when none is named.
const SYSTEM_CONFIG: &str = "/etc/leafd/leafd.toml";

/// Variables that may hold any path.
const PATHS: [&str; 2] = ["LEAFD_SOCKET", "LEAFD_CONFIG"];

/// The file to read: the one that is named, else `system` unless there certainly is none. What
/// cannot be looked at is no reason to go on without its rules and with the worker ID of others.
fn found_at<'a>(path: Option<&'a Path>, system: &'a Path) -> Option<&'a Path> {
    let absent = || {
        let looked = std::fs::symlink_metadata(system);
        looked.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    path.or_else(|| (!absent()).then_some(system))
}

/// The same, at the place of this system.
fn found(path: Option<&Path>) -> Option<&Path> {
    found_at(path, Path::new(SYSTEM_CONFIG))
}

/// The checked configuration, and where it comes from.
fn load(path: Option<&Path>) -> Result<(Loaded, String), Failure> {
    let path = found(path);
    let loaded = config::load(path, variables()?)?;
    let from = path.map_or_else(|| "defaults".to_owned(), |path| path.display().to_string());
    Ok((loaded, from))
}

/// The environment, as far as it is text.
fn variables() -> Result<Vec<(String, String)>, Failure> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        // A name that is not UTF-8 cannot be one of ours.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            // Going on without it would be another configuration than the one meant. These two
            // are paths, and not keys.
            Err(value) if name.starts_with("LEAFD_") && !PATHS.contains(&name.as_str()) => {
                let secret = ["PASSWORD", "URL", "AUTH"].iter().any(|mark| name.contains(mark));
                let value = if secret { "***".to_owned() } else { format!("{value:?}") };
                return Err(Failure::config(format!("{name}={value} is not UTF-8")));
            }
            Err(_) => {}
        }
    }
    Ok(variables)
}

/// `leafd check`. Secrets are read at the start and not by a reload, before which systemd does not
/// hand out credentials.
///
/// # Errors
/// When leafd would not start with the configuration.
pub fn check(path: Option<&Path>, secrets: bool) -> Result<(), Failure> {
    let (Loaded { config, .. }, from) = load(path)?;
    access::access(&config)?;
    paths::check_certificates(&config.store_location()?)?;
    if secrets {
        paths::store_password(&config)?;
        paths::zookeeper_auth(&config)?;
    }
    let now_ms = Environment::system().unix_ms();
    for warning in config.no_snowflakes_at(now_ms).into_iter().chain(config.warnings(now_ms)) {
        print(&format!("warning: {warning}\n"))?;
    }
    print(&format!("the configuration is right ({from})\n"))
}

/// `leafd default-config`.
///
/// # Errors
/// When standard output cannot be written.
pub fn default_config() -> Result<(), Failure> {
    print(config::DEFAULT)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `leafd default-config | head`: the reader has seen enough, which is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::output(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_configuration_that_cannot_be_looked_at_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let (file, lost, strange) =
            (dir.path().join("file"), dir.path().join("lost"), dir.path().join("file/leafd.toml"));
        assert_eq!(found_at(None, &file), None);
        assert_eq!(found_at(Some(&lost), &file), Some(lost.as_path()));
        std::fs::write(&file, "").unwrap();
        symlink("nowhere", &lost).unwrap();
        for system in [&file, &lost, &strange] {
            assert_eq!(found_at(None, system), Some(system.as_path()));
        }
    }
}
