//! Worker IDs from a table in MySQL, MariaDB or PostgreSQL, or in an SQLite file that the daemons of one
//! host share. A transaction takes the place of ZooKeeper's multi, a counter in the fleet's row that of
//! its transaction numbers, and a beat in each live marker that of its sessions: see
//! [decision 040](../../../../../docs/decisions/040-worker-ids-in-a-database.md).

mod access;
mod calls;
mod commit;
mod link;
mod markers;
mod reading;
mod session;
mod statements;
mod words;

use std::sync::Arc;

use super::{Answer, RegistryError, RegistrySession, WorkerRegistry};
use crate::environment::Environment;
use crate::worker::claim::instance::RegistryWords;

pub(crate) use access::DatabaseAccess;
pub(crate) use session::DatabaseSession;
pub(crate) use words::WORDS;

/// A fleet in a table.
pub(crate) struct DatabaseRegistry {
    access: DatabaseAccess,
    environment: Environment,
}

impl DatabaseRegistry {
    pub(crate) const fn new(access: DatabaseAccess, environment: Environment) -> Self {
        Self { access, environment }
    }
}

impl WorkerRegistry for DatabaseRegistry {
    fn name(&self) -> String {
        self.access.registry_name()
    }

    fn servers(&self) -> &[String] {
        &self.access.servers
    }

    fn place(&self) -> String {
        self.access.place.to_string()
    }

    fn words(&self) -> RegistryWords {
        WORDS
    }

    fn connect(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            let session = DatabaseSession::open(&self.access, &self.environment, true).await?;
            session.prepare().await?;
            tracing::debug!(session = session.id(), "session in {}", self.access.place);
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }

    fn join(&self) -> Answer<'_, Arc<dyn RegistrySession>> {
        Box::pin(async {
            if self.access.is_file() && self.access.file_mark().is_none() {
                return Err(RegistryError::Conflict);
            }
            let session = DatabaseSession::open(&self.access, &self.environment, false).await?;
            let session: Arc<dyn RegistrySession> = Arc::new(session);
            Ok(session)
        })
    }
}
