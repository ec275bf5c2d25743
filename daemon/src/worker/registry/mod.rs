//! Where worker IDs come from: one small trait, one file per registry.

mod fixed;

use std::future::Future;
use std::pin::Pin;

pub use fixed::Fixed;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A worker ID, and what its registry has witnessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The worker ID.
    pub worker: u64,
    /// No earlier holder has issued an ID with a time at or past this (ms since 1970), for all
    /// that the registry knows; 0 when it knows nothing.
    pub ceiling_ms: u64,
}

/// Why there is no worker ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Not now; worth another try.
    #[error("{0}")]
    Unavailable(String),
    /// Somebody has to do something first.
    #[error("{0}")]
    Refused(String),
}

/// What a holder reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The host's time (ms since 1970).
    pub now_ms: u64,
    /// Nothing is issued at or past this (ms since 1970).
    pub ceiling_ms: u64,
}

/// A registry of worker IDs.
pub trait Registry: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Claims a worker ID for `identity`. `remembered` is the one that the worker file holds.
    fn claim<'a>(
        &'a self,
        identity: &'a str,
        remembered: Option<u64>,
    ) -> BoxFuture<'a, Result<Claim, RegistryError>>;

    /// Reports that the holder lives. A registry that keeps no reports does nothing.
    fn report(&self, report: Report) -> BoxFuture<'_, Result<(), RegistryError>>;
}
