//! What goes into the claim and what comes out of it, step by step, and what is remembered between
//! two lives.

use super::name::NodeName;
use super::view::{Op, View, Wanted};
use crate::worker::peers::Verdict;

/// What the shell reads for each step.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since the boot, by a clock that nobody sets and that counts suspension (ms).
    pub boot_ms: u64,
    /// The host's clock (ms since 1970).
    pub clock_ms: u64,
    /// Nothing has been issued at or past this with the present worker ID (ms since 1970).
    pub ceiling_ms: u64,
    /// How far time has come since IDs were last used, by a clock that nobody sets (ms since 1970);
    /// 0 when no IDs are issued.
    pub use_ms: u64,
    /// A request waits for a report that allows this time (ms since 1970); 0 when none does.
    pub awaited_ms: u64,
}

/// What is known of this instance's worker ID without the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The worker ID.
    pub worker: u64,
    /// Nothing was issued at or past this (ms since 1970).
    pub ceiling_ms: u64,
    /// Nothing may be issued at or past this without another report (ms since 1970); 0 when the
    /// worker ID is no longer this instance's.
    pub limit_ms: u64,
    /// The last report, since the boot (ms).
    pub reported_boot_ms: u64,
}

/// What the shell does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read the tree. Outcome: `Looked`.
    Look(Wanted),
    /// Make a node with a sequence below `forever`. Outcome: `Created`.
    Create {
        /// Before the sequence.
        prefix: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// Write, all or nothing. Outcome: `Committed` or `Conflict`.
    Commit(Vec<Op>),
    /// Ask the other live instances for their time. Outcome: `Asked`.
    AskPeers,
    /// Nothing until then (ms since the boot).
    Pause(u64),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tree.
    Looked(Box<View>),
    /// The name that was given.
    Created(NodeName),
    /// It is written.
    Committed,
    /// It is not written: the tree is not as it was when it was read.
    Conflict,
    /// What the others' clocks say.
    Asked(Verdict),
    /// Nothing was done: there was no session any more, and now there is another one.
    NewSession,
    /// ZooKeeper does not answer, or refuses; whether a write was executed is not known.
    Failed(String),
}

/// What others have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// IDs may be issued.
    Serve {
        /// With this worker ID.
        worker: u64,
        /// With times from this on (ms since 1970).
        start_ms: u64,
        /// With times below this (ms since 1970).
        limit_ms: u64,
    },
    /// A report was made: IDs may be issued with times below this (ms since 1970).
    Reported {
        /// See above.
        limit_ms: u64,
    },
    /// No IDs.
    Stop {
        /// Why, and what to do.
        why: String,
        /// Whether it will pass within seconds, so that a request may wait for it.
        soon: bool,
    },
    /// The worker ID is no longer this instance's: to be remembered before anything else is done.
    Lost,
    /// Something that is not a leafd writes this instance's node: no IDs, and to be remembered
    /// before anything else is done, so that no later start issues on the file's word alone.
    Contested {
        /// Why there are no IDs, and what to do.
        why: String,
    },
    /// The registry's last call went wrong.
    Trouble(String),
    /// It went well again.
    Fine,
}
