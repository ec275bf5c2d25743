//! How many requests may wait at once, and what each of them holds until it is answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_client::wire::{ErrorCode, Reply, WireError};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::access::ledger::User;

/// Requests that may wait, of all connections together: each holds a kilobyte or so. One user has
/// at most half of them.
const MOST_WAITING: usize = 100_000;

/// A request that waits, and then its answer.
pub(crate) type Later = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// The places of waiting requests, of all connections together.
#[derive(Debug, Default)]
pub(super) struct Room {
    taken: Arc<AtomicUsize>,
}

/// Why no further request may wait, with the limit in force.
#[derive(Clone, Copy)]
pub(super) enum Full {
    Connection { limit: usize },
    User { own: usize, limit: usize },
}

impl Room {
    /// Whether one more request of `user` may wait, on a connection that has `in_flight` of at most
    /// `max_in_flight` waiting.
    #[inline]
    pub(super) fn check(
        &self,
        user: &User,
        in_flight: usize,
        max_in_flight: usize,
    ) -> Result<(), Full> {
        if in_flight >= max_in_flight {
            return Err(Full::Connection { limit: max_in_flight });
        }
        // A user may have half of the places that others do not use, so there is always room for
        // another user.
        let own = user.waiting.load(Ordering::Relaxed);
        let others = self.taken.load(Ordering::Relaxed).saturating_sub(own);
        let limit = MOST_WAITING.saturating_sub(others).div_ceil(2);
        if own >= limit {
            return Err(Full::User { own, limit });
        }
        Ok(())
    }

    /// Takes a place for a request of `user`.
    pub(super) fn take(&self, user: &Arc<User>) -> Taken {
        self.taken.fetch_add(1, Ordering::Relaxed);
        user.waiting.fetch_add(1, Ordering::Relaxed);
        Taken { all: Arc::clone(&self.taken), user: Arc::clone(user) }
    }
}

impl Full {
    /// What the user `uid` is told.
    #[cold]
    pub(super) fn error(self, uid: u32) -> WireError {
        let (limit, text) = match self {
            Self::Connection { limit } => {
                let text = format!(
                    "{limit} requests of this connection wait already (socket.max-in-flight)"
                );
                (limit, text)
            }
            Self::User { own, limit } => {
                let text = format!(
                    "{own} requests of uid {uid} wait already; a user may have {limit} now, half \
                     of what other users leave of {MOST_WAITING}"
                );
                (limit, text)
            }
        };
        WireError::new(ErrorCode::TooManyInFlight, text)
            .with_detail(limit as u64)
            .with_retry_after_ms(10)
    }
}

/// A place of a request that waits, until it is answered or dropped.
pub(super) struct Taken {
    all: Arc<AtomicUsize>,
    user: Arc<User>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        self.user.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts `work` on the runtime `background`, which has timers, and waits for its outcome.
pub(super) fn in_background<T: Send + 'static>(
    background: &Handle,
    work: impl Future<Output = Result<T, WireError>> + Send + 'static,
) -> impl Future<Output = Result<T, WireError>> + Send + 'static {
    // When the connection ends, nobody waits any more.
    let work = AbortOnDropHandle::new(background.spawn(work));
    async move {
        // It fails only by a defect, and the panic has said which.
        let outcome = work.await;
        outcome.unwrap_or_else(|_| {
            Err(WireError::new(ErrorCode::ShuttingDown, "the request was given up"))
        })
    }
}
