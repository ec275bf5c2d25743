//! What the claims of a pool and their users share: the book, and what was logged last.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaf_client::wire::ErrorCode;
use tokio::time::Instant;

use super::book::LoanBook;
use super::messages::{BookRules, LendMoment};
use crate::environment::Environment;
use crate::tally::Count;
use crate::worker::claim::registrar::IssuerOrder;

/// Minimum interval between two lines about calls that fail.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(60);

/// How many loans and returns are logged in that time.
const MOST_LOANS_TOLD: u32 = 100;

/// What the claims of a pool and their users share.
pub(super) struct PoolState {
    pub(super) name: String,
    registry: &'static str,
    environment: Environment,
    book: Mutex<LoanBook>,
    log: Mutex<PoolLog>,
    /// Loans that began since the start, and those whose worker ID became another's.
    pub(super) begun: Count,
    pub(super) lost: Count,
}

/// What was logged last.
#[derive(Default)]
struct PoolLog {
    reason: String,
    trouble: Option<Instant>,
    loss: Option<Instant>,
    /// Since when loans are counted, and how many were logged since.
    loans: Option<(Instant, u32)>,
}

impl PoolState {
    pub(super) fn new(
        name: String,
        registry: &'static str,
        rules: BookRules,
        environment: Environment,
    ) -> Self {
        let (book, log) = (Mutex::new(LoanBook::new(rules)), Mutex::default());
        let (begun, lost) = (Count::default(), Count::default());
        Self { name, registry, environment, book, log, begun, lost }
    }

    pub(super) fn now(&self) -> LendMoment {
        LendMoment { boot_ms: self.environment.boot_ms(), clock_ms: self.environment.unix_ms() }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, LoanBook> {
        lock(&self.book)
    }

    /// Whether the log may tell one more loss. Borrowers cause these lines, and cannot fill the log.
    pub(super) fn may_tell_loss(&self) -> bool {
        let mut log = lock(&self.log);
        let is_due = |last| self.environment.since(last) > TROUBLE_INTERVAL;
        let may = log.loss.is_none_or(is_due);
        if may {
            log.loss = Some(self.environment.now());
        }
        may
    }

    /// Whether the log may tell one more loan or return, as [`Self::may_tell_loss`].
    pub(super) fn may_tell_loan(&self) -> bool {
        let mut log = lock(&self.log);
        let (since, told) = match log.loans {
            Some((since, told)) if self.environment.since(since) <= TROUBLE_INTERVAL => {
                (since, told)
            }
            _ => (self.environment.now(), 0),
        };
        log.loans = Some((since, told.saturating_add(1)));
        told < MOST_LOANS_TOLD
    }

    /// Logs what happens to a claim. All claims of a pool have one registry, so each thing is said once.
    pub(super) fn log(&self, order: &IssuerOrder) {
        let (mut log, pool) = (lock(&self.log), &self.name);
        match order {
            IssuerOrder::Begin { .. } => log.reason.clear(),
            IssuerOrder::Suspend { why, soon: false } => {
                let gist = why.replace(|c: char| c.is_ascii_digit(), "");
                if log.reason != gist {
                    let error = ErrorCode::WorkerUnavailable;
                    tracing::warn!(%error, pool, "no worker ID to lend: {why}");
                    log.reason = gist;
                }
            }
            IssuerOrder::Trouble(why) => {
                let is_due = |last| self.environment.since(last) > TROUBLE_INTERVAL;
                if log.trouble.is_none_or(is_due) {
                    let error = ErrorCode::RegistryUnavailable;
                    tracing::warn!(%error, pool, "{why}; trying again");
                    log.trouble = Some(self.environment.now());
                }
            }
            IssuerOrder::Fine if log.trouble.take().is_some() => {
                tracing::info!(pool, "{} answers again", self.registry);
            }
            _ => {}
        }
    }
}

pub(super) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
