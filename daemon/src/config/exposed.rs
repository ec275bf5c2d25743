//! Whether other users of this host can read the secrets, or change them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Config, Loaded, RegistryKind, StoreKind};
use crate::store::StoreAddress;

impl Loaded {
    /// A warning for each file with a secret that is open to others. `file` is the configuration,
    /// `credentials` the directory of systemd's credentials, `own_uid` leafd's user.
    #[must_use]
    pub(crate) fn exposed_secrets(
        &self,
        file: Option<&Path>,
        credentials: Option<&Path>,
        own_uid: u32,
    ) -> Vec<String> {
        let shown = |key: &&&str| self.config.is_secret(key);
        let in_file = self
            .secrets_in_file
            .iter()
            .filter(shown)
            .filter_map(|key| Some((*key, file?.to_owned())));
        let apart = self
            .config
            .secret_files()
            .map(|(key, path)| (key, credentials.unwrap_or(Path::new("")).join(path)));
        let files = in_file.chain(apart);
        files.filter_map(|(key, path)| exposure(key, &path, own_uid)).collect()
    }
}

impl Config {
    /// Whether the value of this key is worth hiding.
    fn is_secret(&self, key: &str) -> bool {
        let location = || self.store_location().ok();
        let has_password =
            || location().is_some_and(|at| at.addresses().iter().any(StoreAddress::has_password));
        match key {
            "store.url" | "store.urls" => has_password(),
            "worker-node.url" => self.worker_node_address().is_ok_and(|it| it.has_password()),
            "database.url" => self.registry_database().is_ok_and(|it| it.has_password()),
            _ => true,
        }
    }

    /// The files with secrets that are used.
    fn secret_files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let is_redis = self.store.kind == StoreKind::Redis;
        let is_used = self.store.kind != StoreKind::Sqlite && !is_redis;
        let store = self.store.password_file.as_ref().filter(|_| is_used);
        let redis = self.redis.password_file.as_ref().filter(|_| is_redis);
        let sentinel = self.redis.sentinel_password_file.as_ref().filter(|_| is_redis);
        let redis_key = self.redis.key_file.as_ref().filter(|_| is_redis);
        let is_used = self.worker.registry == RegistryKind::ZooKeeper;
        let zookeeper = self.zookeeper.auth_file.as_ref().filter(|_| is_used);
        let is_used = self.worker.registry == RegistryKind::Database;
        let database = self.database.password_file.as_ref().filter(|_| is_used);
        let is_used = self.worker.registry == RegistryKind::Etcd;
        let etcd = self.etcd.password_file.as_ref().filter(|_| is_used);
        let is_used = self.worker.registry == RegistryKind::WorkerNode;
        let worker_node = self.worker_node.password_file.as_ref().filter(|_| is_used);
        let is_used = self.worker.registry == RegistryKind::Etcd;
        let etcd_key = self.etcd.key_file.as_ref().filter(|_| is_used);
        [
            store.map(|path| ("store.password-file", path)),
            redis.map(|path| ("redis.password-file", path)),
            sentinel.map(|path| ("redis.sentinel-password-file", path)),
            redis_key.map(|path| ("redis.key-file", path)),
            zookeeper.map(|path| ("zookeeper.auth-file", path)),
            database.map(|path| ("database.password-file", path)),
            etcd.map(|path| ("etcd.password-file", path)),
            worker_node.map(|path| ("worker-node.password-file", path)),
            etcd_key.map(|path| ("etcd.key-file", path)),
        ]
        .into_iter()
        .flatten()
    }
}

/// Bits of a mode: others may read; the group or others may write; others may pass a directory.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o022;
const OTHERS_PASS: u32 = 0o001;

fn exposure(key: &str, path: &Path, own_uid: u32) -> Option<String> {
    // If leafd cannot look at it, reading it says why.
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let shown = path.display();
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if owner != 0 && owner != own_uid {
        return Some(format!(
            "{key}: {shown} belongs to user {owner}, who can read and change the secret; give it to \
             root or to leafd's user: chown"
        ));
    }
    if !is_reachable(path) {
        return None;
    }
    if mode & OTHERS_READ != 0 {
        return Some(format!(
            "{key}: every user of this host can read {shown} (mode {mode:04o}); \
             chmod o-rwx {shown}"
        ));
    }
    (mode & OTHERS_WRITE != 0)
        .then(|| format!("{key}: others can change {shown} (mode {mode:04o}); chmod go-w {shown}"))
}

/// Whether other users can get through the directories to `path`.
fn is_reachable(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let open = |directory: &Path| {
        std::fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & OTHERS_PASS != 0)
    };
    path.ancestors().skip(1).all(open)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_that_others_can_read_or_change_gives_a_warning_with_its_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::fs::metadata(dir.path()).unwrap().uid();
        let path = dir.path().join("secret");
        std::fs::write(&path, "hunter2").unwrap();
        set(dir.path(), 0o755);
        let said = |mode, own| {
            set(&path, mode);
            exposure("store.password-file", &path, own).unwrap_or_default()
        };
        assert!(said(0o644, own).contains("every user of this host can read"));
        assert!(said(0o644, own).contains("(mode 0644); chmod o-rwx "));
        assert!(said(0o660, own).contains("others can change"));
        assert_eq!([said(0o600, own), said(0o640, own)], ["", ""]);
        if own != 0 {
            assert!(said(0o600, own + 1).contains(&format!("belongs to user {own}")));
        }
        // Nobody else reaches it.
        set(dir.path(), 0o700);
        assert_eq!(said(0o644, own), "");
    }
}
