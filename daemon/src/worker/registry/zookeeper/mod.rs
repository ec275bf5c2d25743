//! Worker IDs from ZooKeeper, in Java Leaf's tree.

mod access;
pub(crate) mod hand_back;
mod session;
mod words;

use std::sync::Arc;

use super::{Answer, RegistrySession, WorkerRegistry};
use crate::environment::Environment;
use crate::worker::claim::instance::RegistryWords;

pub(crate) use access::ZooKeeperAccess;
pub(crate) use session::ZooKeeperSession;
pub(crate) use words::WORDS;

/// A tree in an ensemble.
pub(crate) struct ZooKeeperRegistry {
    access: ZooKeeperAccess,
    environment: Environment,
}

impl ZooKeeperRegistry {
    pub(crate) const fn new(access: ZooKeeperAccess, environment: Environment) -> Self {
        Self { access, environment }
    }
}

impl WorkerRegistry for ZooKeeperRegistry {
    fn name(&self) -> String {
        self.access.registry_name()
    }

    fn servers(&self) -> &[String] {
        &self.access.ensemble.servers
    }

    fn words(&self) -> RegistryWords {
        WORDS
    }

    fn connect(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            let session = ZooKeeperSession::open(&self.access, &self.environment).await?;
            session.log_opening();
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }

    fn join(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            let session = ZooKeeperSession::join(&self.access, &self.environment).await?;
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }
}
