//! What the connections of the Unix socket share.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::linger::Lingering;
use super::wake_timer::WakeTimers;
use crate::access::turns::Turns;
use crate::service::Service;

/// What every connection works with.
pub(super) struct UnixServer {
    pub(super) service: Arc<Service>,
    pub(super) timers: WakeTimers,
    /// Which user's connections go on next.
    pub(super) turns: Turns,
    pub(super) lingering: Lingering,
}

impl UnixServer {
    /// Refused connections linger on the runtime that this is called in, which needs timers.
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            timers: WakeTimers::default(),
            turns: Turns::default(),
            lingering: Lingering::new(Handle::current()),
        }
    }
}
