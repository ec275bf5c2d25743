//! What a session needs to open: the members, the fleet, the credentials and the timeouts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_rustls::TlsConnector;

use crate::config::etcd::EtcdEndpoint;
use crate::config::{Config, place};
use crate::secret::Secret;
use crate::tls::TlsFiles;

#[derive(Debug, Clone)]
pub(crate) struct EtcdAccess {
    pub(super) endpoints: Vec<EtcdEndpoint>,
    /// `HOST:PORT` of each.
    pub(super) servers: Vec<String>,
    /// The fleet.
    pub(super) name: String,
    pub(super) login: Option<Login>,
    pub(super) files: TlsFiles,
    /// An instance is gone if etcd has not heard from it for this long.
    pub(crate) session_timeout: Duration,
    /// A call fails after this.
    pub(crate) timeout: Duration,
    /// What the fleet has to agree on, as configuration writes it.
    pub(crate) layout: String,
}

#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
}

impl EtcdAccess {
    /// As configured; `credentials` is the folder in which the service manager puts secrets.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with one of its files.
    pub(crate) fn new(config: &Config, credentials: Option<&Path>) -> Result<Self, String> {
        let endpoints = config.etcd_endpoints().map_err(|problem| problem.to_string())?;
        let password = config.etcd_password(credentials).map_err(|error| error.to_string())?;
        let etcd = &config.etcd;
        let login = match (etcd.user.clone(), password) {
            (None, _) => None,
            (Some(user), Some(password)) => Some(Login { user, password }),
            (Some(user), None) => {
                return Err(format!(
                    "etcd.user: {user:?} has no password; set etcd.password or etcd.password-file, or pass \
                     the credential etcd-password"
                ));
            }
        };
        let file = |path: &Option<PathBuf>| path.as_deref().map(|path| place(path, credentials));
        let own = file(&etcd.cert_file).zip(file(&etcd.key_file));
        let this = Self {
            servers: endpoints.iter().map(EtcdEndpoint::authority).collect(),
            endpoints,
            name: etcd.name.clone(),
            login,
            files: TlsFiles { section: "etcd", ca: file(&etcd.ca_file), own },
            session_timeout: etcd.session_timeout,
            timeout: etcd.timeout,
            layout: config.snowflake.layout.to_string(),
        };
        // They may change later, but a mistake should be found now.
        this.tls()?;
        Ok(this)
    }

    /// How connections are encrypted; none if no endpoint wants that.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub(super) fn tls(&self) -> Result<Option<TlsConnector>, String> {
        let is_wanted = self.endpoints.iter().any(|endpoint| endpoint.is_tls);
        is_wanted.then(|| self.files.connector()).transpose()
    }

    /// What the worker file calls this fleet.
    pub(super) fn registry_name(&self) -> String {
        format!("etcd {}", self.name)
    }

    /// Where the fleet is, for messages.
    pub(super) fn place(&self) -> String {
        format!("etcd at {}", self.servers.join(","))
    }

    /// The key of a path in the tree.
    pub(super) fn key(&self, path: &str) -> Vec<u8> {
        format!("/leafd/{}/{path}", self.name).into_bytes()
    }
}
