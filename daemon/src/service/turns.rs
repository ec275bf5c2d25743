//! Whose turn it is to administrate.

use tokio::sync::Semaphore;

/// Whose turn it is, once per connection and once for all of them. A call that has the turn of its
/// connection queues for the turn of all, so that a connection has one place in that queue.
pub(super) struct AdministrationTurns {
    /// What memory answers does not wait for what the store answers.
    pub(super) memory: Semaphore,
    pub(super) store: Semaphore,
}

impl Default for AdministrationTurns {
    fn default() -> Self {
        Self { memory: Semaphore::new(1), store: Semaphore::new(1) }
    }
}
