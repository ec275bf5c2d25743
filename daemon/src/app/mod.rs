//! The commands of `leafd`, each from the configuration to the exit code.

mod access;
mod adopt;
mod audit;
mod build;
mod descriptors;
mod failure;
mod hand_back;
mod hint;
mod http;
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

/// Lets leafd's user read and write what leafd creates, whatever umask it inherits. With 777, the
/// state directory would have mode 000, and the next start could not open it.
pub fn spare_owner_in_umask() {
    let others = Mode::S_IRWXG | Mode::S_IRWXO;
    let inherited = umask(others);
    umask(inherited & others);
}

/// The configuration file to use if the command line names none.
const SYSTEM_CONFIG: &str = "/etc/leafd/leafd.toml";

/// Variables that may contain any path, even one that is not UTF-8.
const PATHS: [&str; 2] = ["LEAFD_SOCKET", "LEAFD_CONFIG"];

/// The file to read: `path`, or else `system` unless it certainly does not exist. If leafd may not
/// look at that file, it must not start without the file's rules and worker ID.
fn found_at<'a>(path: Option<&'a Path>, system: &'a Path) -> Option<&'a Path> {
    let absent = || {
        let looked = std::fs::symlink_metadata(system);
        looked.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    path.or_else(|| (!absent()).then_some(system))
}

/// As [`found_at`], with this system's file.
fn found(path: Option<&Path>) -> Option<&Path> {
    found_at(path, Path::new(SYSTEM_CONFIG))
}

/// Loads the checked configuration. Also returns where it comes from.
fn load(path: Option<&Path>) -> Result<(Loaded, String), Failure> {
    let path = found(path);
    let loaded = config::load(path, variables()?)?;
    let from = path.map_or_else(|| "defaults".to_owned(), |path| path.display().to_string());
    Ok((loaded, from))
}

/// The environment variables whose names are UTF-8.
fn variables() -> Result<Vec<(String, String)>, Failure> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        // leafd has no variable with a name that is not UTF-8.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            // Without it, leafd would run with another configuration than the operator meant. The
            // variables in PATHS are not keys.
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

/// `leafd check`. It reads passwords only with `secrets`: a reload does not read them either, and
/// systemd passes no credentials to the check before a reload.
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
        paths::http_tokens(&config)?;
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

/// A runtime on the current thread.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::system("cannot start", &error))
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
    fn an_inaccessible_configuration_does_not_count_as_missing() {
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
