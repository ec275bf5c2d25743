//! What borrowers, claims and the book tell each other. Plain values.

use super::cgroup::Cgroup;

/// What the clocks say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LendMoment {
    /// Since the boot, by a clock that nobody sets and that counts suspension (ms).
    pub(super) boot_ms: u64,
    /// The host's clock (ms since 1970).
    pub(super) clock_ms: u64,
}

/// How many worker IDs may be lent, and for how long without a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct BookRules {
    pub(super) fence_after_ms: u64,
    /// A worker ID that nobody returned is another's only after this.
    pub(super) reclaim_after_ms: u64,
    pub(super) max_loans: usize,
    pub(super) max_per_user: usize,
}

/// What a borrower asks for.
#[derive(Debug, Clone)]
pub(crate) struct BorrowRequest {
    /// Where it asks.
    pub(crate) connection: u64,
    /// A number that no other user has.
    pub(crate) account: u64,
    pub(crate) borrower: String,
    /// Of every process that may use the worker ID, if leafd can look at it.
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) held: Option<ResumedLoan>,
}

/// A loan that the borrower knows and this leafd may not, since it has restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResumedLoan {
    pub(crate) worker: u64,
    /// The name of the claim.
    pub(crate) claim: String,
    pub(crate) limit_ms: u64,
    /// Until the fence.
    pub(crate) left_ms: u64,
}

/// A loan as the borrower hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoanTerms {
    pub(crate) worker: u64,
    pub(crate) claim: String,
    /// From when on it may be used, and before when (ms since 1970).
    pub(crate) start_ms: u64,
    pub(crate) limit_ms: u64,
    /// Until the fence.
    pub(crate) left_ms: u64,
    /// The borrower hears of it for the first time.
    pub(crate) is_new: bool,
}

/// The answer to a borrower.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BorrowAnswer {
    Lent(LoanTerms),
    /// None yet, or none without another report.
    NotYet(String),
    /// The worker ID that it had is another's.
    Lost(u64),
    /// It is one of too many; the limit.
    TooMany(&'static str, usize),
}

/// What a claim reports.
#[derive(Debug)]
pub(super) enum ClaimReport {
    /// `worker` may be used from `start_ms` on and below `limit_ms`.
    Begins {
        worker: u64,
        start_ms: u64,
        limit_ms: u64,
        reported_boot_ms: u64,
    },
    Reported {
        limit_ms: u64,
        reported_boot_ms: u64,
    },
    /// It may not be used at present.
    Stops(String),
    /// It is another's now.
    Lost,
    /// Whether the registry answered the last call.
    Reached(bool),
}

/// How many claims of a pool are in which state, for the metrics.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoanFigures {
    /// A borrower that is connected has them.
    pub(crate) lent: u64,
    /// Their borrowers' connections ended without a word.
    pub(crate) adrift: u64,
    /// No borrower has them: they wait for a worker ID or for a borrower, or are being ended.
    pub(crate) idle: u64,
    /// They ended while their worker IDs may have been in use, and still count.
    pub(crate) abandoned: u64,
}

impl LoanFigures {
    /// Each with the value of its label.
    pub(crate) const fn by_state(&self) -> [(&'static str, u64); 4] {
        let Self { lent, adrift, idle, abandoned } = *self;
        [("lent", lent), ("adrift", adrift), ("idle", idle), ("abandoned", abandoned)]
    }
}
