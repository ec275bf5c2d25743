//! What an issuer and the owner of its worker ID say to each other: the worker ID and its limit,
//! what the registry says, and how far use has come. Plain values.

use leaf_client::wire::WireError;
use tokio::time::Instant;

use super::sequencer::{Sequencer, SequencerRules};
use crate::state::worker_file::SharedClaim;

/// A worker ID that the issuer may use.
#[derive(Debug, Clone)]
pub(crate) struct Begin {
    /// The worker ID, and how to use it.
    pub(crate) rules: SequencerRules,
    /// For times from here on (ms since 1970)…
    pub(crate) start_ms: u64,
    /// …and below this (ms since 1970); `u64::MAX` if nobody else can ever get the worker ID.
    pub(crate) limit_ms: u64,
    /// The identity that claimed it; empty if there is none.
    pub(crate) identity: String,
    /// What the worker file remembers of the claim.
    pub(crate) shared: Option<SharedClaim>,
}

/// What the status says about the registry of worker IDs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registration {
    /// When the registry last accepted a report.
    pub(crate) reported: Option<Instant>,
    /// What went wrong with the last call; empty if nothing did.
    pub(crate) error: String,
    /// The mean of the other instances' clocks minus this one's, at the last check.
    pub(crate) offset_ms: Option<i64>,
    /// How many other instances answered.
    pub(crate) peers: u32,
}

/// Whether an issuer issues.
pub(super) enum IssuerPhase {
    On {
        sequencer: Box<Sequencer>,
        worker: u64,
    },
    /// Not yet, but soon: requests wait.
    Soon(WireError),
    Off(WireError),
}

/// How far use has come, in ms since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// The host's clock.
    pub(crate) clock_ms: u64,
    /// Nothing has been issued at or past this with the worker ID in use; 0 if none is.
    pub(crate) ceiling_ms: u64,
    /// The last use, plus the time since then by a clock that nobody sets; 0 if no worker ID is in
    /// use.
    pub(crate) use_ms: u64,
    /// The time that a waiting request needs a report for; 0 if none does.
    pub(crate) awaited_ms: u64,
}
