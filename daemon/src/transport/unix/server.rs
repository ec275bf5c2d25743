//! What the connections of the Unix socket share.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::Handle;

use super::limits::UnixLimits;
use super::linger::Lingering;
use super::wake_timer::WakeTimers;
use crate::access::turns::Turns;
use crate::service::Service;

/// What every connection works with.
pub(super) struct UnixServer {
    pub(super) service: Arc<Service>,
    limits: RwLock<Arc<UnixLimits>>,
    pub(super) timers: WakeTimers,
    /// Which user's connections run next.
    pub(super) turns: Turns,
    pub(super) lingering: Lingering,
}

impl UnixServer {
    /// Refused connections linger on the runtime that this is called in, which needs timers.
    pub(super) fn new(service: Arc<Service>, limits: UnixLimits) -> Self {
        Self {
            service,
            limits: RwLock::new(Arc::new(limits)),
            timers: WakeTimers::default(),
            turns: Turns::default(),
            lingering: Lingering::new(Handle::current()),
        }
    }

    /// The limits in force. A connection keeps them until its session reports another policy.
    pub(super) fn limits(&self) -> Arc<UnixLimits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change_limits(&self, limits: UnixLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
    }
}
