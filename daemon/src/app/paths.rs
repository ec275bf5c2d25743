//! Default paths, for what the configuration leaves open.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use leaf_client::form::public::KeyRing;
use nix::unistd::Uid;

use crate::access::tokens::{BearerToken, Tokens};
use crate::config::{
    Config, NoPassword, Problem, RegistryDatabase, RegistryKind, StoreKind, StoreSecrets,
};
use crate::input;
use crate::secret::Secret;
use crate::store::StoreAddress;

/// The system's state directory.
const SYSTEM_STATE: &str = "/var/lib/leafd";

/// The state directory: the configured one, or systemd's, or the system's, or the user's own.
pub(super) fn state_dir(config: &Config) -> PathBuf {
    let uid = Uid::effective();
    let owner = || std::fs::metadata(SYSTEM_STATE).ok().map(|meta| Uid::from_raw(meta.uid()));
    config.state.dir.clone().unwrap_or_else(|| {
        default_state_dir(|name| std::env::var_os(name), uid, owner() == Some(uid))
    })
}

/// `system_is_ours`: whether the system's directory belongs to this user. Then this user is the
/// service's, even if an operator runs a command by hand.
fn default_state_dir(
    variable: impl Fn(&str) -> Option<OsString>,
    uid: Uid,
    system_is_ours: bool,
) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd separates several directories with colons; ours is the first.
    let systemd = variable("STATE_DIRECTORY").and_then(|value| value.into_string().ok());
    let systemd = systemd.and_then(|value| value.split(':').next().map(str::to_owned));
    if let Some(directory) = systemd.filter(|directory| !directory.is_empty()) {
        return directory.into();
    }
    if uid.is_root() || system_is_ours {
        return SYSTEM_STATE.into();
    }
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    state.map_or_else(|| format!("/var/tmp/leafd-{uid}").into(), |state| state.join("leafd"))
}

/// The database file of the embedded store.
pub(super) fn database(config: &Config) -> PathBuf {
    config.store.path.clone().unwrap_or_else(|| state_dir(config).join("leafd.db"))
}

/// The directory of systemd's credentials, if systemd passes any.
pub(super) fn credentials() -> Option<PathBuf> {
    std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from)
}

/// The store's passwords, from wherever they are configured.
pub(super) fn store_secrets(config: &Config) -> Result<StoreSecrets, NoPassword> {
    config.store_secrets(credentials().as_deref())
}

/// Problems with the database's certificates and keys, which have to be files: every connection reads
/// them, and a FIFO would block it. A file that is missing may come later.
pub(super) fn check_certificates(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut check = |key: &'static str, address: &StoreAddress| {
        for (parameter, path) in address.certificates() {
            if let Err(error) = input::is_file_or_absent(&path) {
                let text = format!("cannot read {parameter}, {}: {error}", path.display());
                problems.push(Problem::new(key, text));
            }
        }
    };
    if let Ok(location) = config.store_location() {
        let key = if config.store.kind == StoreKind::Several { "store.urls" } else { "store.url" };
        location.addresses().iter().for_each(|address| check(key, address));
    }
    let is_used = config.worker.registry == RegistryKind::Database && config.database.url.is_some();
    if let Some(RegistryDatabase::Server(address)) =
        config.registry_database().ok().filter(|_| is_used)
    {
        check("database.url", &address);
    }
    problems
}

/// The secrets that leafd cannot read.
pub(super) fn unreadable_secrets(config: &Config) -> Vec<Problem> {
    let outcomes = [
        store_secrets(config).err(),
        zookeeper_auth(config).err(),
        config.database_password(credentials().as_deref()).err(),
        config.etcd_password(credentials().as_deref()).err(),
        config.worker_node_password(credentials().as_deref()).err(),
        http_tokens(config).err(),
        public_keys(config).err(),
    ];
    outcomes.into_iter().flatten().map(NoPassword::problem).collect()
}

/// ZooKeeper's user and password, from wherever they are configured.
pub(super) fn zookeeper_auth(config: &Config) -> Result<Option<Secret>, NoPassword> {
    config.zookeeper_auth(credentials().as_deref())
}

/// The bearer tokens, each from its file.
pub(super) fn http_tokens(config: &Config) -> Result<Tokens, NoPassword> {
    let read = config.http_tokens(credentials().as_deref())?;
    let tokens = read.into_iter().map(|(secret, rule)| BearerToken { secret, rule: rule.into() });
    Ok(Tokens::new(tokens.collect()))
}

/// The keys of public IDs, if there are any.
pub(super) fn public_keys(config: &Config) -> Result<Option<KeyRing>, NoPassword> {
    config.public_keys(credentials().as_deref())
}

/// The path of the socket.
pub(super) fn socket(config: &Config) -> PathBuf {
    config.socket.path.clone().unwrap_or_else(leaf_client::default_socket_path_for_daemon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)], uid: u32) -> String {
        chosen_of(variables, uid, false)
    }

    fn chosen_of(variables: &[(&str, &str)], uid: u32, system_is_ours: bool) -> String {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        default_state_dir(variable, Uid::from_raw(uid), system_is_ours).display().to_string()
    }

    #[test]
    fn the_state_directory_is_systemds_or_roots_or_the_users() {
        assert_eq!(chosen(&[("STATE_DIRECTORY", "/var/lib/x:/var/lib/y")], 0), "/var/lib/x");
        assert_eq!(chosen(&[("STATE_DIRECTORY", ""), ("HOME", "/root")], 0), "/var/lib/leafd");
        assert_eq!(chosen(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")], 5), "/s/leafd");
        assert_eq!(chosen(&[("HOME", "/h")], 5), "/h/.local/state/leafd");
        assert_eq!(chosen(&[], 5), "/var/tmp/leafd-5");
        // An operator runs a command by hand as the service's user.
        assert_eq!(chosen_of(&[("HOME", "/h")], 5, true), "/var/lib/leafd");
        assert_eq!(chosen_of(&[("STATE_DIRECTORY", "/s")], 5, true), "/s");
    }
}
