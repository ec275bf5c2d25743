//! What goes into the claim and what comes out of it, step by step, and what outlasts a life.

use super::name::NodeName;
use super::record::LeafRecord;
use super::view::{RegistryView, Wanted};
use super::write::RegistryWrite;
use crate::worker::peers::Verdict;

/// What the clocks and the issuer say at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Since the boot, by a clock that nobody sets and that counts suspension (ms).
    pub(crate) boot_ms: u64,
    /// The host's clock (ms since 1970).
    pub(crate) clock_ms: u64,
    /// Nothing has been issued at or past this with the present worker ID, or with the last one once
    /// leafd stops (ms since 1970).
    pub(crate) ceiling_ms: u64,
    /// How far time has come since IDs were last used, by a clock that nobody sets (ms since 1970);
    /// 0 when no IDs are issued.
    pub(crate) use_ms: u64,
    /// A request waits for a report that allows this time (ms since 1970); 0 when none does.
    pub(crate) awaited_ms: u64,
}

/// What is known of this instance's worker ID without the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RememberedClaim {
    pub(crate) worker: u64,
    /// Nothing was issued at or past this (ms since 1970).
    pub(crate) ceiling_ms: u64,
    /// Nothing may be issued at or past this without another report (ms since 1970); 0 when the
    /// worker ID is no longer this instance's.
    pub(crate) limit_ms: u64,
    /// The last report, since the boot (ms).
    pub(crate) reported_boot_ms: u64,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimAction {
    /// Read the registry. Outcome: `Looked`.
    Look(Wanted),
    /// Make a worker ID that nobody ever had, for this address. Outcome: `Created`.
    Create(LeafRecord),
    /// Write, all or nothing. Outcome: `Committed` or `Conflict`.
    Commit(Vec<RegistryWrite>),
    /// Ask the other live instances for their time. Outcome: `Asked`.
    AskPeers,
    /// Nothing until then (ms since the boot).
    Pause(u64),
}

impl ClaimAction {
    /// Whether it may change the registry.
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::Create(_))
    }
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    Looked(Box<RegistryView>),
    /// With this name.
    Created(NodeName),
    Committed,
    /// Nothing was written: the registry is not as it was when it was read.
    Conflict,
    /// What the others' clocks say.
    Asked(Verdict),
    /// Nothing was done: the session had ended, and now there is another one.
    NewSession,
    /// The registry does not answer, or refuses. A write may have been executed.
    Failed(String),
}

/// What follows for the rest of leafd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimEffect {
    /// IDs of this worker may be issued, with times from `start_ms` on and below `limit_ms` (ms since
    /// 1970).
    Serve { worker: u64, start_ms: u64, limit_ms: u64 },
    /// A report was made: IDs may be issued with times below `limit_ms` (ms since 1970).
    Reported { limit_ms: u64 },
    /// No IDs. `why` says what to do as well; `soon` says that it will pass within seconds, so a
    /// request may wait for it.
    Stop { why: String, soon: bool },
    /// The worker ID is no longer this instance's. This must be on disk before anything else is done.
    Lost,
    /// Something that is not a leafd writes this instance's node: no IDs. This must be on disk before
    /// anything else is done, so that no later start issues on the file's word alone.
    Contested { why: String },
    /// The last call to the registry failed.
    Trouble(String),
    /// It succeeded again.
    Fine,
}
