//! `leafctl doctor`: collects the facts that `doctor/` judges. Every look has a time limit, because what
//! is broken may hang. Nothing is changed anywhere.

mod clock;
mod process;
mod remote;
mod state_dir;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, Gid, Group, Uid, User, access};

use super::descriptors::other_descriptors;
use super::{Failure, found, load, paths};
use crate::doctor::facts::{
    ConfigurationFacts, DaemonFacts, Facts, HostFacts, Seen, SocketFacts, StateFacts,
};
use crate::environment::Environment;
use crate::patience::value_within;

/// The configuration of this host's leafd, read for doctor.
#[derive(Debug)]
pub struct Examination {
    configuration: ConfigurationFacts,
    /// Bounds each look.
    limit: Duration,
}

impl Examination {
    /// Reads the configuration at `path`, or where leafd finds it. A wrong one is a finding, not an
    /// error. Each look takes `limit` at most.
    #[must_use]
    pub fn begin(path: Option<&Path>, limit: Duration) -> Self {
        Self { configuration: configuration(path), limit }
    }

    /// The socket of a leafd with this configuration; none if that is not set.
    #[must_use]
    pub fn configured_socket(&self) -> Option<PathBuf> {
        match &self.configuration {
            ConfigurationFacts::Right { config, .. } => config.socket.path.clone(),
            ConfigurationFacts::Wrong(_) | ConfigurationFacts::Unreadable(_) => None,
        }
    }

    /// For users: where the configuration comes from.
    #[must_use]
    pub fn source(&self) -> &str {
        match &self.configuration {
            ConfigurationFacts::Right { from, .. } => from,
            ConfigurationFacts::Wrong(_) => "wrong",
            ConfigurationFacts::Unreadable(_) => "not readable",
        }
    }

    /// Collects everything else. `daemon` is what leafd says at `socket`, which the caller has asked.
    #[must_use]
    pub fn facts(self, socket: &Path, daemon: DaemonFacts) -> Facts {
        let Self { configuration, limit } = self;
        let environment = Environment::system();
        let mut facts = Facts {
            now_ms: environment.unix_ms(),
            version: env!("CARGO_PKG_VERSION"),
            configuration,
            daemon,
            socket: bounded(limit, nowhere(socket), {
                let socket = socket.to_owned();
                move || socket_facts(&socket)
            }),
            host: HostFacts {
                clock: clock::look(),
                all_files: process::all_files(),
                process: None,
            },
            other_descriptors: 0,
            state: Seen::Nothing,
            store: Seen::Nothing,
            databases: Vec::new(),
            registry: Seen::Nothing,
        };
        facts.host.process = facts.status().and_then(|status| process::look(status.pid));
        facts.state = state(&facts, limit);
        if let Some(config) = facts.config() {
            let config = config.clone();
            facts.other_descriptors = other_descriptors(&config);
            let remote = remote::look(&config, &environment, limit);
            (facts.store, facts.registry, facts.databases) = remote;
        }
        facts
    }
}

/// The state directory, which the running daemon knows best.
fn state(facts: &Facts, limit: Duration) -> Seen<StateFacts> {
    let running = facts.status().map(|status| PathBuf::from(&status.state_dir));
    let Some(path) = running.or_else(|| facts.config().map(paths::state_dir)) else {
        return Seen::Nothing;
    };
    let hangs = Seen::Not(format!("{}: no answer within {limit:?}", path.display()));
    bounded(limit, hangs, move || state_dir::look(&path))
}

/// What `look` brings, or `else_` if it hangs.
fn bounded<T: Send + 'static>(
    limit: Duration,
    else_: T,
    look: impl FnOnce() -> T + Send + 'static,
) -> T {
    value_within(limit, look).unwrap_or(else_)
}

fn configuration(path: Option<&Path>) -> ConfigurationFacts {
    let file = found(path).map(Path::to_owned);
    if let Some(file) = &file
        && let Err(error @ (Errno::EACCES | Errno::EPERM)) = access(file, AccessFlags::R_OK)
    {
        return ConfigurationFacts::Unreadable(format!("{}: {}.", file.display(), error.desc()));
    }
    let checked = || -> Result<_, Failure> {
        let (loaded, from) = load(path)?;
        // The user database may fail in other ways than by not knowing a name.
        super::access::access(&loaded.config)?;
        Ok((loaded, from))
    };
    match checked() {
        Ok((loaded, from)) => {
            let now_ms = Environment::system().unix_ms();
            // A check of its own looks at the layout.
            let mut warnings = super::warnings(&loaded, file.as_deref(), now_ms);
            warnings.retain(|warning| !warning.starts_with("snowflake.layout"));
            let modified_ms = file.and_then(|file| modified_ms(&file));
            let config = Box::new(loaded.config);
            ConfigurationFacts::Right { config, from, modified_ms, warnings }
        }
        Err(failure) => ConfigurationFacts::Wrong(failure.message().to_owned()),
    }
}

fn modified_ms(file: &Path) -> Option<u64> {
    let modified = std::fs::metadata(file).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn nowhere(path: &Path) -> SocketFacts {
    SocketFacts {
        path: path.to_owned(),
        clients_look_at: leaf_client::default_socket_path(),
        mode: None,
        group: String::new(),
        owner: String::new(),
    }
}

fn socket_facts(path: &Path) -> SocketFacts {
    let facts = nowhere(path);
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            let user = User::from_uid(Uid::from_raw(found.uid())).ok().flatten();
            let group = Group::from_gid(Gid::from_raw(found.gid())).ok().flatten();
            SocketFacts {
                mode: Some(found.mode()),
                owner: user.map_or_else(|| found.uid().to_string(), |user| user.name),
                group: group.map_or_else(|| found.gid().to_string(), |group| group.name),
                ..facts
            }
        }
        _ => facts,
    }
}

/// Why a look failed, if it was not because nothing is there.
fn unseen<T>(path: &Path, error: &std::io::Error) -> Seen<T> {
    match error.kind() {
        ErrorKind::NotFound => Seen::Nothing,
        _ => Seen::Not(format!("{}: {error}.", path.display())),
    }
}
