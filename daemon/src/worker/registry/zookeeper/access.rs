//! The ensemble, the tree, and leafd's rights there: what a session is opened with.

use std::path::Path;
use std::time::Duration;

use zookeeper_client::Acl;

use crate::config::{Config, Ensemble, acl};
use crate::secret::Secret;

#[derive(Debug, Clone)]
pub(crate) struct ZooKeeperAccess {
    pub(crate) ensemble: Ensemble,
    /// Java Leaf's `leaf.name`.
    pub(crate) name: String,
    /// `USER:PASSWORD`.
    pub(crate) auth: Option<Secret>,
    /// For the nodes that leafd makes.
    pub(crate) acls: Vec<Acl>,
    /// A session ends if the ensemble does not hear of it for this long.
    pub(crate) session_timeout: Duration,
    /// A call fails after this.
    pub(crate) timeout: Duration,
    /// What the fleet has to agree on, as configuration writes it.
    pub(crate) layout: String,
}

impl ZooKeeperAccess {
    /// As configured; `credentials` is the folder in which the service manager puts secrets.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the file of the password.
    pub(crate) fn new(
        config: &Config,
        ensemble: Ensemble,
        credentials: Option<&Path>,
    ) -> Result<Self, String> {
        Ok(Self {
            ensemble,
            name: config.zookeeper.name.clone(),
            auth: config.zookeeper_auth(credentials).map_err(|error| error.to_string())?,
            acls: acl::parse(&config.zookeeper.acl)?,
            session_timeout: config.zookeeper.session_timeout,
            timeout: config.zookeeper.timeout,
            layout: config.snowflake.layout.to_string(),
        })
    }

    /// The tree: `/snowflake/<name>` below the chroot.
    pub(crate) fn root(&self) -> String {
        format!("{}/snowflake/{}", self.ensemble.chroot, self.name)
    }

    /// What the worker file calls this tree.
    pub(crate) fn registry_name(&self) -> String {
        format!("zookeeper {}", self.root())
    }
}
