//! The present session of a registry. The registrar opens it; the administration uses it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{RegistryError, RegistrySession, WorkerRegistry};

#[derive(Clone)]
pub(crate) struct RegistryConnection {
    registry: Arc<dyn WorkerRegistry>,
    session: Arc<Mutex<Option<Arc<dyn RegistrySession>>>>,
}

impl RegistryConnection {
    /// One without a session.
    pub(crate) fn new(registry: Arc<dyn WorkerRegistry>) -> Self {
        Self { registry, session: Arc::default() }
    }

    pub(crate) fn registry(&self) -> &dyn WorkerRegistry {
        &*self.registry
    }

    /// The present session, if a server answers it.
    pub(crate) fn session(&self) -> Option<Arc<dyn RegistrySession>> {
        self.lock().clone().filter(|session| session.is_connected())
    }

    /// Opens another session in place of the present one.
    pub(crate) async fn renew(&self) -> Result<(), RegistryError> {
        *self.lock() = None;
        let session = self.registry.connect().await?;
        *self.lock() = Some(session);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn RegistrySession>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RegistryConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryConnection")
            .field("registry", &self.registry.name())
            .finish_non_exhaustive()
    }
}
