//! The borrowers of a pool as the user of one of its claims.

use std::future::{Future, pending, ready};
use std::sync::Arc;

use super::messages::ClaimReport;
use super::state::PoolState;
use crate::snowflake::life::Progress;
use crate::state::worker_file::SharedClaim;
use crate::worker::claim::registrar::IssuerOrder;
use crate::worker::peers::Verdict;
use crate::worker::shell::ClaimUser;

pub(super) struct LendingUser {
    pub(super) state: Arc<PoolState>,
    /// The name of the claim.
    pub(super) claim: String,
}

impl ClaimUser for LendingUser {
    fn progress(&self) -> Progress {
        let now = self.state.now();
        let (is_used, ceiling_ms) = self.state.book().use_of(&self.claim, now);
        let use_ms = if is_used { now.clock_ms } else { 0 };
        Progress { clock_ms: now.clock_ms, ceiling_ms, use_ms, awaited_ms: 0 }
    }

    fn last_ceiling_ms(&self) -> u64 {
        self.progress().ceiling_ms
    }

    /// The borrower remembers the claim, and the name of the claim was known before it was in the
    /// registry.
    fn remember(&self, shared: SharedClaim) -> impl Future<Output = Result<(), String>> + Send {
        let mut book = self.state.book();
        // Without a limit, the worker ID is no longer this claim's, or is being given back.
        if shared.limit_ms == 0 && !book.gives_back(&self.claim) {
            book.reported(&self.claim, ClaimReport::Lost);
        }
        ready(Ok(()))
    }

    fn report_is_due(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

    fn compare_clocks(&self, _: Vec<String>) -> impl Future<Output = Verdict> + Send {
        ready(Verdict::NobodyAnswered)
    }

    /// leafd's own claim compares the clock of this host.
    fn compares_clocks(&self) -> bool {
        false
    }

    fn gives_back(&self) -> bool {
        self.state.book().gives_back(&self.claim)
    }

    fn follow(&mut self, order: IssuerOrder) {
        self.state.log(&order);
        let reported_at = |shared: &SharedClaim| shared.reported.as_ref().map_or(0, |(_, ms)| *ms);
        let report = match order {
            // A report follows if the registry has confirmed it.
            IssuerOrder::Begin { worker, start_ms, limit_ms, shared, .. } => {
                let reported_boot_ms = reported_at(&shared);
                ClaimReport::Begins { worker, start_ms, limit_ms, reported_boot_ms }
            }
            IssuerOrder::Reported { limit_ms, shared } => {
                ClaimReport::Reported { limit_ms, reported_boot_ms: reported_at(&shared) }
            }
            IssuerOrder::Suspend { why, .. } => ClaimReport::Stops(why),
            IssuerOrder::Hold { why } => ClaimReport::Stops(why.to_owned()),
            IssuerOrder::Trouble(_) => ClaimReport::Reached(false),
            IssuerOrder::Fine => ClaimReport::Reached(true),
            IssuerOrder::NotGivenBack(_) => return,
        };
        self.state.book().reported(&self.claim, report);
    }
}
