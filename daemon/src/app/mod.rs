//! The commands of `leafd`, each from the configuration to the exit code.

mod accept_loss;
mod access;
mod adopt;
mod audit;
mod build;
mod descriptors;
mod division;
mod doctor;
mod failure;
#[cfg(feature = "zookeeper")]
mod hand_back;
mod hint;
mod http;
mod lend;
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

pub use accept_loss::{AcceptLossError, AcceptLossRequest, accept_loss};
pub use adopt::adopt;
pub use audit::audit;
pub use division::{DivisionRequest, division};
pub use doctor::Examination;
pub use failure::{EX_USAGE, Failure};
#[cfg(feature = "zookeeper")]
pub use hand_back::hand_back;
pub use schema::{SchemaDialect, schema};
pub use serve::serve;

use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;

use crate::config::{self, Config, Loaded, Problem};
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
    load_with(path, |config| config.missing_division().into_iter().collect())
}

/// As [`load`], with more problems that have to be found before the configuration is accepted.
fn load_with(
    path: Option<&Path>,
    more: impl FnOnce(&Config) -> Vec<Problem>,
) -> Result<(Loaded, String), Failure> {
    let path = found(path);
    let look = |config: &Config| {
        let mut problems = access::unknown_names(config);
        problems.extend(paths::check_certificates(config));
        problems.extend(more(config));
        problems
    };
    let loaded = config::load(path, std::env::vars_os(), look)?;
    let from = path.map_or_else(|| "defaults".to_owned(), |path| path.display().to_string());
    Ok((loaded, from))
}

/// What works but needs the operator's attention.
fn warnings(loaded: &Loaded, path: Option<&Path>, now_ms: u64) -> Vec<String> {
    let credentials = paths::credentials();
    let own_uid = Uid::effective().as_raw();
    let exposed = loaded.exposed_secrets(path, credentials.as_deref(), own_uid);
    [loaded.config.warnings(now_ms), exposed, loaded.warnings.clone()].concat()
}

/// `leafd check`. It reads passwords only with `secrets`: a reload does not read them either, and
/// systemd passes no credentials to the check before a reload.
///
/// # Errors
/// When leafd would not start with the configuration.
pub fn check(path: Option<&Path>, secrets: bool) -> Result<(), Failure> {
    let more = |config: &Config| {
        let mut problems = match secrets {
            true => paths::unreadable_secrets(config),
            false => Vec::new(),
        };
        problems.extend(config.missing_division());
        problems
    };
    let (loaded, from) = load_with(path, more)?;
    // The user database may fail in other ways than by not knowing a name.
    access::access(&loaded.config)?;
    let now_ms = Environment::system().unix_ms();
    let warnings = warnings(&loaded, found(path), now_ms);
    for warning in loaded.config.no_snowflakes_at(now_ms).into_iter().chain(warnings) {
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
