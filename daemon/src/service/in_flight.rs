//! How many requests may wait at once, and what each of them holds until its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_client::wire::{ErrorCode, Reply, WireError};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::access::ledger::User;
use crate::access::principal::Principal;

/// Requests in flight, of all connections together. Each takes about a kilobyte of memory. One user
/// may have at most half of them.
const MAX_IN_FLIGHT: usize = 100_000;

/// A request in flight; yields its answer.
pub(crate) type PendingReply = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Counts the requests in flight, of all connections together.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    count: Arc<AtomicUsize>,
}

/// Why one more request may not wait, with the limit that it hits.
#[derive(Clone, Copy)]
pub(super) enum TooManyInFlight {
    OfConnection { limit: usize },
    OfUser { own: usize, limit: usize },
}

impl InFlight {
    /// Whether one more request of `user` may wait, on a connection that has `in_flight` of at most
    /// `max_in_flight`.
    #[inline]
    pub(super) fn check(
        &self,
        user: &User,
        in_flight: usize,
        max_in_flight: usize,
    ) -> Result<(), TooManyInFlight> {
        if in_flight >= max_in_flight {
            return Err(TooManyInFlight::OfConnection { limit: max_in_flight });
        }
        // A user may have half of what other users leave, so there is always room for another one.
        let own = user.waiting.load(Ordering::Relaxed);
        let others = self.count.load(Ordering::Relaxed).saturating_sub(own);
        let limit = MAX_IN_FLIGHT.saturating_sub(others).div_ceil(2);
        if own >= limit {
            return Err(TooManyInFlight::OfUser { own, limit });
        }
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a request of `user` until the guard is dropped.
    pub(super) fn add(&self, user: &Arc<User>) -> InFlightGuard {
        self.count.fetch_add(1, Ordering::Relaxed);
        user.waiting.fetch_add(1, Ordering::Relaxed);
        InFlightGuard { count: Arc::clone(&self.count), user: Arc::clone(user) }
    }
}

impl TooManyInFlight {
    /// The answer to `caller`.
    #[cold]
    pub(super) fn error(self, caller: &Principal) -> WireError {
        let (limit, text) = match self {
            Self::OfConnection { limit } => {
                let text = format!(
                    "this connection already has {limit} requests in flight (socket.max-in-flight)"
                );
                (limit, text)
            }
            Self::OfUser { own, limit } => {
                let text = format!(
                    "{caller} already has {own} requests in flight; the limit is {limit} now, half \
                     of what other users leave of {MAX_IN_FLIGHT}"
                );
                (limit, text)
            }
        };
        WireError::new(ErrorCode::TooManyInFlight, text)
            .with_detail(limit as u64)
            .with_retry_after_ms(10)
    }
}

/// Counts a request in flight, until it is answered or dropped.
pub(super) struct InFlightGuard {
    count: Arc<AtomicUsize>,
    user: Arc<User>,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.user.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts `work` on the runtime `background`, which has timers, and waits for its outcome.
pub(super) fn in_background<T: Send + 'static>(
    background: &Handle,
    work: impl Future<Output = Result<T, WireError>> + Send + 'static,
) -> impl Future<Output = Result<T, WireError>> + Send + 'static {
    // A connection that ends drops this future, and the work stops with it.
    let work = AbortOnDropHandle::new(background.spawn(work));
    async move {
        let outcome = work.await;
        // Only a panic gets here, and it has been reported where it happened.
        outcome.unwrap_or_else(|_| {
            Err(WireError::new(ErrorCode::ShuttingDown, "leafd dropped the request"))
        })
    }
}
