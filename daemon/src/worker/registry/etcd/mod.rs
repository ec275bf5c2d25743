//! Worker IDs from etcd, by its JSON gateway. A transaction takes the place of ZooKeeper's multi, the store's
//! revision that of its transaction numbers, and a lease that of its sessions: see
//! [decision 041](../../../../../docs/decisions/041-worker-ids-in-etcd.md).

mod access;
mod client;
mod commit;
mod keys;
mod records;
mod remedies;
mod session;
mod transport;
mod wire;
mod witness;
mod words;

use std::sync::Arc;

use super::{Answer, RegistrySession, WorkerRegistry};
use crate::environment::Environment;
use crate::worker::claim::instance::RegistryWords;

pub(crate) use access::EtcdAccess;
pub(crate) use session::EtcdSession;
pub(crate) use words::WORDS;

/// A fleet in etcd.
pub(crate) struct EtcdRegistry {
    access: Arc<EtcdAccess>,
    environment: Environment,
}

impl EtcdRegistry {
    pub(crate) fn new(access: EtcdAccess, environment: Environment) -> Self {
        Self { access: Arc::new(access), environment }
    }
}

impl WorkerRegistry for EtcdRegistry {
    fn name(&self) -> String {
        self.access.registry_name()
    }

    fn servers(&self) -> &[String] {
        &self.access.servers
    }

    fn words(&self) -> RegistryWords {
        WORDS
    }

    fn connect(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            let session = EtcdSession::open(&self.access, &self.environment).await?;
            session.prepare().await?;
            session.log_opening();
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }

    fn join(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            let session = EtcdSession::open(&self.access, &self.environment).await?;
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }
}
