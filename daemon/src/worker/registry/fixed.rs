//! The registry that is the configuration: an operator has numbered the hosts.

use super::{BoxFuture, Claim, Registry, RegistryError, Report};

/// Always the same worker ID.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    worker: u64,
}

impl Fixed {
    /// The worker ID of the configuration, which has checked it against the layout.
    #[must_use]
    pub const fn new(worker: u64) -> Self {
        Self { worker }
    }
}

impl Registry for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn claim<'a>(
        &'a self,
        _identity: &'a str,
        _remembered: Option<u64>,
    ) -> BoxFuture<'a, Result<Claim, RegistryError>> {
        let claim = Claim { worker: self.worker, ceiling_ms: 0 };
        Box::pin(std::future::ready(Ok(claim)))
    }

    fn report(&self, _report: Report) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
