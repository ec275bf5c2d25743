//! Worker IDs that a caller borrows. Its connection holds them.

use leaf_client::wire::{
    Call, ErrorCode, HeldLoan, MAX_BORROWER_CHARS, MAX_CGROUP_CHARS, MAX_CLAIM_CHARS, Reply,
    WireError, WorkerLoan,
};

use super::{Responder, STATUS_COST, Session};
use crate::tally::CallKind;
use crate::worker::lending::{BorrowRequest, Cgroup, ResumedLoan};

impl Session {
    #[cold]
    pub(super) fn lend(
        &mut self,
        call: &Call<'_>,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        // It looks at a cgroup.
        self.user().share.spend(STATUS_COST);
        // Whoever may have snowflake IDs may make them.
        self.visitor.grant().snowflake().inspect_err(|refused| self.note(refused))?;
        let loan = match *call {
            Call::WorkerBorrow { pool, borrower, cgroup, cgroup_inode, held } => {
                self.borrow(pool, borrower, (cgroup, cgroup_inode), held)?
            }
            Call::WorkerReturn { pool, borrower, ceiling_unix_ms } => {
                let account = self.visitor.principal().account().number();
                self.service.lending.give_back(pool, (account, borrower), ceiling_unix_ms)?
            }
            _ => return Err(WireError::new(ErrorCode::UnknownCall, "this is no loan")),
        };
        self.service.counts.requests.answered(CallKind::of(call));
        responder.reply(Reply::Loan(loan));
        Ok(())
    }

    fn borrow(
        &mut self,
        pool: &str,
        borrower: &str,
        (cgroup, inode): (&str, u64),
        held: Option<HeldLoan<'_>>,
    ) -> Result<WorkerLoan, WireError> {
        check_borrower(borrower)?;
        let long = |what: &str, limit: usize| {
            let text = format!("{what} has more than {limit} characters");
            WireError::new(ErrorCode::BadCount, text).with_detail(limit as u64)
        };
        if cgroup.chars().count() > MAX_CGROUP_CHARS {
            return Err(long("the cgroup", MAX_CGROUP_CHARS));
        }
        let held = match held {
            Some(held) if held.claim.chars().count() > MAX_CLAIM_CHARS => {
                return Err(long("the claim", MAX_CLAIM_CHARS));
            }
            Some(held) => Some(ResumedLoan {
                worker: held.worker,
                claim: held.claim.to_owned(),
                limit_ms: held.limit_unix_ms,
                left_ms: held.left_ms,
            }),
            None => None,
        };
        let lending = &self.service.lending;
        let connection = *self.borrows_as.get_or_insert_with(|| lending.connect());
        let request = BorrowRequest {
            connection,
            account: self.visitor.principal().account().number(),
            borrower: borrower.to_owned(),
            cgroup: Cgroup::find(cgroup, inode),
            held,
        };
        lending.borrow(pool, request)
    }

    /// The connection ends, and holds nothing any more.
    pub(super) fn leave_loans(&self) {
        if let Some(connection) = self.borrows_as {
            self.service.lending.disconnected(connection);
        }
    }
}

fn check_borrower(borrower: &str) -> Result<(), WireError> {
    let is_plain = borrower.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && (1..=MAX_BORROWER_CHARS).contains(&borrower.len()) {
        return Ok(());
    }
    let text = format!(
        "the borrower {borrower:?} is not a name of 1 to {MAX_BORROWER_CHARS} printable ASCII \
         characters"
    );
    Err(WireError::new(ErrorCode::BadCount, text).with_detail(MAX_BORROWER_CHARS as u64))
}
