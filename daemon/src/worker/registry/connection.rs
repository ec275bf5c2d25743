//! The present session of a registry. Whoever claims a worker ID opens it; the administration uses it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{RegistryError, RegistrySession, WorkerRegistry};

#[derive(Clone)]
pub(crate) struct RegistryConnection {
    registry: Arc<dyn WorkerRegistry>,
    session: Arc<Mutex<SharedSession>>,
    /// Held while a session is opened, so that several claims open one.
    opening: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct SharedSession {
    session: Option<Arc<dyn RegistrySession>>,
    /// Counts the attempts to open one that have ended.
    attempts: u64,
    /// Why the last attempt failed.
    failure: Option<RegistryError>,
}

/// A connection as one claim uses it. Several claims share a session; each has to hear of every new
/// session, since its live marker ended with the one before.
pub(crate) struct ClaimConnection {
    connection: RegistryConnection,
    known: Option<Arc<dyn RegistrySession>>,
}

impl RegistryConnection {
    /// One without a session.
    pub(crate) fn new(registry: Arc<dyn WorkerRegistry>) -> Self {
        Self { registry, session: Arc::default(), opening: Arc::default() }
    }

    pub(crate) fn registry(&self) -> &dyn WorkerRegistry {
        &*self.registry
    }

    /// The present session, if a server answers it.
    pub(crate) fn session(&self) -> Option<Arc<dyn RegistrySession>> {
        self.lock().session.clone().filter(|session| session.is_connected())
    }

    /// For one more claim.
    pub(crate) const fn for_claim(self) -> ClaimConnection {
        ClaimConnection { connection: self, known: None }
    }

    /// The present session, or another one if no server answers it.
    ///
    /// # Errors
    /// When the registry does not answer. Callers that come while another one tries share its outcome.
    pub(crate) async fn open(&self) -> Result<Arc<dyn RegistrySession>, RegistryError> {
        let attempts = self.lock().attempts;
        let _opening = self.opening.lock().await;
        if let Some(session) = self.session() {
            return Ok(session);
        }
        {
            let shared = self.lock();
            if let Some(failure) = shared.failure.clone().filter(|_| shared.attempts != attempts) {
                return Err(failure);
            }
        }
        self.lock().session = None;
        let opened = self.registry.connect().await;
        let mut shared = self.lock();
        shared.attempts += 1;
        shared.session = opened.as_ref().ok().cloned();
        shared.failure = opened.as_ref().err().cloned();
        opened
    }

    fn lock(&self) -> MutexGuard<'_, SharedSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimConnection {
    /// The present session, if the claim knows it and a server answers it.
    pub(crate) fn session(&self) -> Option<Arc<dyn RegistrySession>> {
        let known = self.known.as_ref()?;
        self.connection.session().filter(|session| Arc::ptr_eq(session, known))
    }

    /// Goes on with another session than the one that the claim knew.
    ///
    /// # Errors
    /// When the registry does not answer.
    pub(crate) async fn renew(&mut self) -> Result<(), RegistryError> {
        self.known = None;
        self.known = Some(self.connection.open().await?);
        Ok(())
    }
}

impl std::fmt::Debug for RegistryConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryConnection")
            .field("registry", &self.registry.name())
            .finish_non_exhaustive()
    }
}
