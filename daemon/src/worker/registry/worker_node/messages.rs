//! What the state machine of Baidu's table asks the database, hears from it, and tells the rest of leafd. Plain
//! values.

use super::pace::NodeSurvey;

#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeRules {
    /// The highest worker ID that fits into the layout.
    pub(crate) max_worker: u64,
    /// How long a new row is not used (ms): by then each owner that can has looked for its own.
    pub(crate) settle_ms: u64,
    /// For how long a start may go on with the row of the life before while the database does not answer (ms).
    pub(crate) fence_after_ms: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeMoment {
    /// In ms since the boot.
    pub(crate) boot_ms: u64,
    /// In ms since 1970.
    pub(crate) clock_ms: u64,
}

/// A row, and the name under which a life took it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) worker: u64,
    pub(crate) nonce: String,
}

/// What the state directory knows of the last life's row.
#[derive(Debug, Clone)]
pub(crate) struct RememberedRow {
    pub(crate) row: NodeRow,
    /// Nothing was issued with it at or past this (ms since 1970).
    pub(crate) ceiling_ms: u64,
    /// Without an answer of the database, a start goes on with it below this (ms since 1970).
    pub(crate) limit_ms: u64,
}

/// What to ask the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAction {
    /// How far the table is.
    Survey,
    /// Make a row that is not used yet: with the next number, or with this one.
    Insert { nonce: String, worker: Option<u64> },
    /// The row of this life above a number, if an answer was lost.
    Find { nonce: String, above: u64 },
    /// Mark a row as in use, if it still is this life's.
    Settle(NodeRow),
    /// Say that a row is in use, if it still is this instance's.
    Report(NodeRow),
    /// Who has the number.
    Look(NodeRow),
    /// Make a row again that the table has lost.
    PutBack(NodeRow),
    /// Take a row back from a life that does not use it yet.
    TakeBack(NodeRow),
    /// Wait until then (ms since the boot).
    Pause(u64),
}

/// Who has a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeOwner {
    Nobody,
    /// The row that was asked about.
    Ours,
    /// Another life of a leafd that does not use it yet.
    Settling,
    /// Somebody else, who may be using it.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeOutcome {
    /// No answer, or a refusal. A write may have been executed.
    Failed(String),
    /// There is no such table, so nobody can say whose a number is.
    NoTable(String),
    Surveyed(NodeSurvey),
    Inserted(u64),
    /// Somebody has the number.
    Taken,
    Found(Option<u64>),
    /// Whether the row was as expected, and has been changed.
    Changed(bool),
    Owned(NodeOwner),
    Paused,
}

/// What follows for the rest of leafd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeEffect {
    /// Issue with this row's number from a time on (ms since 1970). The table does not say that it is still
    /// this instance's if there is a limit, beyond which no start may rely on it (ms since 1970).
    Begin {
        row: NodeRow,
        start_ms: u64,
        limit_ms: Option<u64>,
    },
    /// The table has the row in use.
    Reported(NodeRow),
    /// The number in use is somebody else's: issue nothing.
    Lost {
        worker: u64,
        owner: String,
    },
    /// No later start may go on with the row that the state directory knows.
    Forget,
    /// There is no worker ID, for this reason; `soon`: there will be.
    None {
        why: String,
        soon: bool,
    },
    /// What an operator should read.
    Warn(String),
    Trouble(String),
    Fine,
}
