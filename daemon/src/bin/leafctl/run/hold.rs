//! How long a borrowed worker ID may be used, and when its processes have to end. Pure.

use leaf_client::wire::WorkerLoan;

use super::moment::Moment;

/// Time that processes have at most to end after SIGKILL, before the worker ID may be another's.
const KILL_MARGIN_MS: u64 = 1000;

/// Interval of the signs of life to leafd.
const RENEWAL_MS: u64 = 3000;

/// A loan, and the time by which it has to be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HoldPlan {
    loan: WorkerLoan,
    /// By the clock that counts suspension.
    deadline_boot_ms: u64,
    /// The longest time that an answer allowed.
    longest_ms: u64,
    /// The earliest time at which the worker ID may be used, as the first answer said.
    start_unix_ms: u64,
    grace_ms: u64,
}

/// What has to happen to the processes that use a worker ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// They may go on.
    Calm,
    /// They have to be asked to end.
    End,
    /// They have to be killed.
    Kill,
}

/// The loan as leafctl repeats it to leafd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownLoan {
    pub(super) worker: u64,
    pub(super) claim: String,
    pub(super) limit_unix_ms: u64,
    pub(super) left_ms: u64,
}

impl HoldPlan {
    /// `loan` is the answer to a request that was sent at `sent_boot_ms`.
    pub(super) fn new(loan: WorkerLoan, sent_boot_ms: u64, grace_ms: u64) -> Self {
        Self {
            deadline_boot_ms: sent_boot_ms.saturating_add(loan.left_ms),
            longest_ms: loan.left_ms,
            start_unix_ms: loan.start_unix_ms,
            grace_ms,
            loan,
        }
    }

    /// Takes note of an earlier answer about the same claim: no answer makes the start earlier.
    pub(super) fn follow(&mut self, earlier: &Self) {
        let same = |loan: &WorkerLoan| (loan.worker, loan.claim.clone());
        if same(&self.loan) == same(&earlier.loan) {
            self.start_unix_ms = self.start_unix_ms.max(earlier.start_unix_ms);
        }
    }

    /// Moves the deadline, as a later answer says.
    ///
    /// # Errors
    /// Says what leafd lent instead, if it is another worker ID or another claim of it.
    pub(super) fn renew(&mut self, loan: WorkerLoan, sent_boot_ms: u64) -> Result<(), String> {
        if loan.worker != self.loan.worker {
            return Err(format!("leafd now lends worker ID {} instead", loan.worker));
        }
        if loan.claim != self.loan.claim {
            return Err(
                "leafd has a new claim of it, so another process may have used it meanwhile"
                    .to_owned(),
            );
        }
        self.deadline_boot_ms = sent_boot_ms.saturating_add(loan.left_ms);
        self.longest_ms = self.longest_ms.max(loan.left_ms);
        self.loan = loan;
        Ok(())
    }

    /// The time until the worker ID may no longer be used.
    fn left_ms(&self, now: Moment) -> u64 {
        let by_clock = self.loan.limit_unix_ms.saturating_sub(now.unix_ms);
        self.deadline_boot_ms.saturating_sub(now.boot_ms).min(by_clock)
    }

    fn end_margin_ms(&self) -> u64 {
        self.grace_ms.saturating_add(KILL_MARGIN_MS).min(self.longest_ms / 4)
    }

    fn kill_margin_ms(&self) -> u64 {
        KILL_MARGIN_MS.min(self.longest_ms / 8)
    }

    /// What has to happen to the processes.
    pub(super) fn urgency(&self, now: Moment) -> Urgency {
        let left = self.left_ms(now);
        if left <= self.kill_margin_ms() || self.is_early(now) {
            Urgency::Kill
        } else if left <= self.end_margin_ms() {
            Urgency::End
        } else {
            Urgency::Calm
        }
    }

    /// Whether the clock is behind the start, so that IDs could come again.
    pub(super) fn is_early(&self, now: Moment) -> bool {
        now.unix_ms < self.start_unix_ms
    }

    /// Why the processes have to end.
    pub(super) fn reason(&self, now: Moment) -> &'static str {
        if self.is_early(now) {
            "the clock was set back to before the worker ID's start"
        } else if now.unix_ms >= self.loan.limit_unix_ms {
            "the clock has passed the worker ID's limit"
        } else {
            "leafd did not renew it in time"
        }
    }

    /// The time until the urgency changes by itself; `u64::MAX` if it does not.
    pub(super) fn wake_in_ms(&self, now: Moment) -> u64 {
        let left = self.left_ms(now);
        let early = self.start_unix_ms.saturating_sub(now.unix_ms);
        match (early, left.saturating_sub(self.end_margin_ms())) {
            (1.., _) => early,
            (0, calm @ 1..) => calm,
            (0, 0) => match left.saturating_sub(self.kill_margin_ms()) {
                0 => u64::MAX,
                asked_to_end => asked_to_end,
            },
        }
    }

    /// The interval of the signs of life: several in the time that one answer allows.
    pub(super) fn renewal_ms(&self) -> u64 {
        RENEWAL_MS.min(self.longest_ms / 4).max(100)
    }

    pub(super) fn worker(&self) -> u64 {
        self.loan.worker
    }

    pub(super) fn bits(&self) -> u32 {
        self.loan.bits
    }

    pub(super) fn start_unix_ms(&self) -> u64 {
        self.start_unix_ms
    }

    /// The loan, as the next request repeats it.
    pub(super) fn known(&self, now: Moment) -> KnownLoan {
        KnownLoan {
            worker: self.loan.worker,
            claim: self.loan.claim.clone(),
            limit_unix_ms: self.loan.limit_unix_ms,
            left_ms: self.deadline_boot_ms.saturating_sub(now.boot_ms),
        }
    }
}
