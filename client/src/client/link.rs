//! The state of the connection, shared by the task that keeps it up and the callers that report it
//! when their deadline passes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::ConnectionFailure;

/// The state of the connection, as the task last set it.
#[derive(Debug, Default)]
pub(super) struct Link(Mutex<LinkState>);

#[derive(Debug, Default, Clone)]
pub(super) enum LinkState {
    /// No attempt to connect has ended yet.
    #[default]
    New,
    /// The daemon has answered `Hello`.
    Up,
    /// The last attempt failed, or the connection ended.
    Down(ConnectionFailure),
}

impl Link {
    pub(super) fn up(&self) {
        *self.lock() = LinkState::Up;
    }

    pub(super) fn down(&self, failure: ConnectionFailure) {
        *self.lock() = LinkState::Down(failure);
    }

    pub(super) fn state(&self) -> LinkState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
