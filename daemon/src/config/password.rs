//! Where the store's password and ZooKeeper's come from: one place, named in the configuration or by
//! systemd.

use std::path::{Path, PathBuf};

use super::{Config, Registry};
use crate::secret::Secret;

/// The credential's name: `LoadCredential=store-password:…` in the unit.
const CREDENTIAL: &str = "store-password";

/// The same for ZooKeeper.
const ZOOKEEPER_CREDENTIAL: &str = "zookeeper-auth";

/// A password that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the password from {path} ({key}): {source}")]
pub struct NoPassword {
    key: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

impl Config {
    /// The store's password where the URL has none: `store.password`, or `store.password-file`, or
    /// else systemd's credential `store-password` in `credentials` (`$CREDENTIALS_DIRECTORY`).
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub fn store_password(&self, credentials: Option<&Path>) -> Result<Option<Secret>, NoPassword> {
        if let Some(password) = &self.store.password {
            return Ok(Some(password.clone()));
        }
        if let Some(path) = &self.store.password_file {
            return read("store.password-file", path.clone()).map(Some);
        }
        let address = self.store_address().ok().flatten();
        if address.is_none_or(|address| address.has_password()) {
            return Ok(None);
        }
        credential(credentials, CREDENTIAL)
    }

    /// `USER:PASSWORD` for ZooKeeper: `zookeeper.auth`, or `zookeeper.auth-file`, or else systemd's
    /// credential `zookeeper-auth` in `credentials` (`$CREDENTIALS_DIRECTORY`).
    ///
    /// # Errors
    /// When a file that should hold it cannot be read.
    pub fn zookeeper_auth(&self, credentials: Option<&Path>) -> Result<Option<Secret>, NoPassword> {
        if self.worker.registry != Registry::ZooKeeper {
            return Ok(None);
        }
        if let Some(auth) = &self.zookeeper.auth {
            return Ok(Some(auth.clone()));
        }
        if let Some(path) = &self.zookeeper.auth_file {
            return read("zookeeper.auth-file", path.clone()).map(Some);
        }
        credential(credentials, ZOOKEEPER_CREDENTIAL)
    }
}

fn credential(directory: Option<&Path>, name: &str) -> Result<Option<Secret>, NoPassword> {
    match directory.map(|directory| directory.join(name)) {
        Some(path) if path.exists() => read("a systemd credential", path).map(Some),
        _ => Ok(None),
    }
}

fn read(key: &'static str, path: PathBuf) -> Result<Secret, NoPassword> {
    match std::fs::read_to_string(&path) {
        // Editors and `echo` end a file with a line break.
        Ok(text) => Ok(Secret::new(text.trim_end_matches(['\n', '\r']))),
        Err(source) => Err(NoPassword { key, path, source }),
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
        let toml = "[store]\npassword = \"of a key\"";
        assert_eq!(password(toml, here).unwrap().unwrap(), "of a key");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_its_key() {
        let error = password("[store]\npassword-file = \"/nonexistent/p\"", None).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/nonexistent/p") && error.contains("store.password-file"));
    }
}
