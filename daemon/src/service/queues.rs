//! The queues that administrative calls wait in, apart from what runs them so that [`super::Service`]
//! can hold one set.

use tokio::sync::Semaphore;

/// Lets one administrative call at a time through. Each session has a set, and all sessions share
/// one. A call first needs the permit of its own session, so that a connection never has more than
/// one place in the shared queue.
pub(super) struct AdministrationQueues {
    /// Calls that memory answers. They do not wait for the store.
    pub(super) memory: Semaphore,
    /// Calls that need the store or the registry.
    pub(super) store: Semaphore,
}

impl Default for AdministrationQueues {
    fn default() -> Self {
        Self { memory: Semaphore::new(1), store: Semaphore::new(1) }
    }
}
