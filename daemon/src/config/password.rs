//! Reads the passwords for the store and for the registry: from a key, a file, or a systemd
//! credential.

use std::path::{Path, PathBuf};

use super::problems::Problem;
use super::{Config, RegistryKind, StoreKind};
use crate::input;
use crate::secret::Secret;
use crate::store::{StoreAddress, StoreLocation};

/// Name of the credential in the unit: `LoadCredential=store-password:…`.
const CREDENTIAL: &str = "store-password";

/// As [`CREDENTIAL`], for ZooKeeper.
const ZOOKEEPER_CREDENTIAL: &str = "zookeeper-auth";

/// As [`CREDENTIAL`], for the registry in a database.
const DATABASE_CREDENTIAL: &str = "database-password";

/// As [`CREDENTIAL`], for etcd.
const ETCD_CREDENTIAL: &str = "etcd-password";

/// As [`CREDENTIAL`], for the database of Baidu's table.
const WORKER_NODE_CREDENTIAL: &str = "worker-node-password";

/// As [`CREDENTIAL`], for Redis.
const REDIS_CREDENTIAL: &str = "redis-password";

/// As [`CREDENTIAL`], for the Sentinels.
const SENTINEL_CREDENTIAL: &str = "redis-sentinel-password";

/// A password that leafd cannot read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPassword {
    #[error("cannot read the password from {path} ({key}): {source}")]
    File { key: &'static str, path: PathBuf, source: std::io::Error },
    /// The file holds no token, or shows it to everybody.
    #[error("{path} {what} ({key})", path = path.display())]
    Token { key: &'static str, path: PathBuf, what: String },
    /// The file of public IDs' keys cannot be used.
    #[error("{source} ({key})")]
    Keys { key: &'static str, source: Box<leaf_client::form::public::KeyFileError> },
    /// A relative path names a systemd credential.
    #[error(
        "cannot read the credential {name} ({key}) from {directory}: {source}; pass it in the unit \
         with LoadCredential={name}:/etc/leafd/{name}, or give the file's absolute path",
        name = name.display(),
        directory = directory.display()
    )]
    Credential {
        key: &'static str,
        name: PathBuf,
        /// The directory of systemd's credentials, or else the working directory.
        directory: PathBuf,
        source: std::io::Error,
    },
}

impl NoPassword {
    /// As a problem of the configuration.
    pub(crate) fn problem(self) -> Problem {
        let (Self::File { key, .. }
        | Self::Token { key, .. }
        | Self::Keys { key, .. }
        | Self::Credential { key, .. }) = self;
        Problem::new(key, self.to_string())
    }
}

/// The passwords of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreSecrets {
    /// Of the server; none if its address has one.
    pub(crate) password: Option<Secret>,
    /// Of the Sentinels that know the server.
    pub(crate) sentinel_password: Option<Secret>,
}

impl Config {
    /// The store's passwords; for Redis `redis.password`, or `redis.password-file`, or the systemd
    /// credential `redis-password`, and the same with `sentinel-` in front for its Sentinels.
    ///
    /// # Errors
    /// When a file that should hold one cannot be read.
    pub(crate) fn store_secrets(
        &self,
        credentials: Option<&Path>,
    ) -> Result<StoreSecrets, NoPassword> {
        if self.store.kind != StoreKind::Redis {
            let password = self.store_password(credentials)?;
            return Ok(StoreSecrets { password, sentinel_password: None });
        }
        let redis = &self.redis;
        let password = match (&redis.password, &redis.password_file) {
            (Some(password), _) => Some(password.clone()),
            (None, Some(path)) => Some(read("redis.password-file", path, credentials)?),
            (None, None) => credential(credentials, REDIS_CREDENTIAL)?,
        };
        let sentinel_password = match (&redis.sentinel_password, &redis.sentinel_password_file) {
            (Some(password), _) => Some(password.clone()),
            (None, Some(path)) => Some(read("redis.sentinel-password-file", path, credentials)?),
            (None, None) => credential(credentials, SENTINEL_CREDENTIAL)?,
        };
        Ok(StoreSecrets { password, sentinel_password })
    }

    /// The store's password, if it is not in the URL: `store.password`, or `store.password-file`,
    /// or the systemd credential `store-password` in `credentials` (`$CREDENTIALS_DIRECTORY`).
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub(crate) fn store_password(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<Secret>, NoPassword> {
        if let Some(password) = &self.store.password {
            return Ok(Some(password.clone()));
        }
        if let Some(path) = &self.store.password_file {
            return read("store.password-file", path, credentials).map(Some);
        }
        let location = self.store_location().ok();
        let addresses = location.as_ref().map_or(&[][..], StoreLocation::addresses);
        if addresses.iter().all(StoreAddress::has_password) {
            return Ok(None);
        }
        credential(credentials, CREDENTIAL)
    }

    /// `USER:PASSWORD` for ZooKeeper: `zookeeper.auth`, or `zookeeper.auth-file`, or the systemd
    /// credential `zookeeper-auth` in `credentials` (`$CREDENTIALS_DIRECTORY`).
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub(crate) fn zookeeper_auth(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<Secret>, NoPassword> {
        if self.worker.registry != RegistryKind::ZooKeeper {
            return Ok(None);
        }
        if let Some(auth) = &self.zookeeper.auth {
            return Ok(Some(auth.clone()));
        }
        if let Some(path) = &self.zookeeper.auth_file {
            return read("zookeeper.auth-file", path, credentials).map(Some);
        }
        credential(credentials, ZOOKEEPER_CREDENTIAL)
    }

    /// The password of the registry's database, if it is not in the URL: `database.password`, or
    /// `database.password-file`, or the systemd credential `database-password` in `credentials`; the
    /// store's for the store's own database.
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub(crate) fn database_password(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<Secret>, NoPassword> {
        if self.worker.registry != RegistryKind::Database || self.database.path.is_some() {
            return Ok(None);
        }
        if let Some(password) = &self.database.password {
            return Ok(Some(password.clone()));
        }
        if let Some(path) = &self.database.password_file {
            return read("database.password-file", path, credentials).map(Some);
        }
        match &self.database.url {
            None => self.store_password(credentials),
            Some(_) => credential(credentials, DATABASE_CREDENTIAL),
        }
    }

    /// The password of `etcd.user`: `etcd.password`, or `etcd.password-file`, or the systemd credential
    /// `etcd-password` in `credentials`.
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub(crate) fn etcd_password(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<Secret>, NoPassword> {
        if self.worker.registry != RegistryKind::Etcd || self.etcd.user.is_none() {
            return Ok(None);
        }
        if let Some(password) = &self.etcd.password {
            return Ok(Some(password.clone()));
        }
        if let Some(path) = &self.etcd.password_file {
            return read("etcd.password-file", path, credentials).map(Some);
        }
        credential(credentials, ETCD_CREDENTIAL)
    }

    /// The password of the database of Baidu's table, if it is not in the URL: `worker-node.password`, or
    /// `worker-node.password-file`, or the systemd credential `worker-node-password` in `credentials`; the
    /// store's for the store's own database.
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub(crate) fn worker_node_password(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<Secret>, NoPassword> {
        if self.worker.registry != RegistryKind::WorkerNode {
            return Ok(None);
        }
        if let Some(password) = &self.worker_node.password {
            return Ok(Some(password.clone()));
        }
        if let Some(path) = &self.worker_node.password_file {
            return read("worker-node.password-file", path, credentials).map(Some);
        }
        match &self.worker_node.url {
            None => self.store_password(credentials),
            Some(_) => credential(credentials, WORKER_NODE_CREDENTIAL),
        }
    }
}

fn credential(directory: Option<&Path>, name: &str) -> Result<Option<Secret>, NoPassword> {
    match directory.map(|directory| directory.join(name)) {
        Some(path) if path.exists() => read("a systemd credential", &path, directory).map(Some),
        _ => Ok(None),
    }
}

/// Where `path` leads. A relative one is below the directory of systemd's credentials, if there is
/// one.
pub(crate) fn place(path: &Path, credentials: Option<&Path>) -> PathBuf {
    // Joining an absolute path replaces the directory.
    credentials.unwrap_or(Path::new(".")).join(path)
}

/// Reads the file at [`place`].
pub(super) fn read(
    key: &'static str,
    path: &Path,
    credentials: Option<&Path>,
) -> Result<Secret, NoPassword> {
    let directory = credentials.unwrap_or(Path::new("."));
    match input::read_text(&place(path, credentials), input::SECRET) {
        // Editors and `echo` add a line break at the end.
        Ok(text) => Ok(Secret::new(text.trim_end_matches(['\n', '\r']))),
        Err(source) if path.is_absolute() => {
            Err(NoPassword::File { key, path: path.to_owned(), source })
        }
        Err(source) => Err(NoPassword::Credential {
            key,
            name: path.to_owned(),
            directory: directory.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(toml: &str, credentials: Option<&Path>) -> Result<Option<String>, NoPassword> {
        let config: Config = toml::from_str(toml).unwrap();
        let password = config.store_password(credentials)?;
        Ok(password.map(|password| password.expose().to_owned()))
    }

    #[test]
    fn a_password_comes_from_the_key_the_file_or_systemd_and_loses_its_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let here = Some(dir.path());
        let shared = "[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\"";
        assert_eq!(password(shared, here).unwrap(), None);
        std::fs::write(dir.path().join("store-password"), "of systemd\n").unwrap();
        assert_eq!(password(shared, here).unwrap().unwrap(), "of systemd");
        assert_eq!(password("", here).unwrap(), None, "the embedded store has none");
        let in_url = shared.replace("l@", "l:of_url@");
        assert_eq!(password(&in_url, here).unwrap(), None, "the URL's counts");
        let file = dir.path().join("file");
        std::fs::write(&file, "of a file\r\n").unwrap();
        let toml = format!("[store]\npassword-file = {file:?}");
        assert_eq!(password(&toml, here).unwrap().unwrap(), "of a file");
        let toml = "[store]\npassword-file = \"store-password\"";
        assert_eq!(password(toml, here).unwrap().unwrap(), "of systemd");
        let toml = "[store]\npassword = \"of a key\"";
        assert_eq!(password(toml, here).unwrap().unwrap(), "of a key");
    }

    #[test]
    fn an_error_names_a_file_that_cannot_be_read_and_its_key() {
        let error = password("[store]\npassword-file = \"/nonexistent/p\"", None).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/nonexistent/p") && error.contains("store.password-file"));
    }

    #[test]
    fn the_error_for_a_missing_credential_shows_the_line_that_the_unit_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let toml = "[store]\npassword-file = \"db-password\"";
        for (credentials, directory) in [(Some(dir.path()), dir.path()), (None, Path::new("."))] {
            let error = password(toml, credentials).unwrap_err().to_string();
            for part in [
                "store.password-file",
                &format!("from {}", directory.display()),
                "LoadCredential=db-password:/etc/leafd/db-password",
            ] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
        let toml =
            "[worker]\nregistry = \"zookeeper\"\n[zookeeper]\nauth-file = \"zookeeper-auth\"";
        let config: Config = toml::from_str(toml).unwrap();
        let error = config.zookeeper_auth(Some(dir.path())).unwrap_err().to_string();
        assert!(error.contains("LoadCredential=zookeeper-auth:"), "{error}");
        std::fs::write(dir.path().join("zookeeper-auth"), "leaf:secret\n").unwrap();
        let auth = config.zookeeper_auth(Some(dir.path())).unwrap().unwrap();
        assert_eq!(auth.expose(), "leaf:secret");
    }
}
