//! Decides which borrower has which worker ID of a pool, as a plain state machine. The borrowers' requests,
//! the claims' reports and the time go in; answers, and claims to begin and to end, come out.
//!
//! A worker ID passes to another borrower only when every process of the last one is known to have
//! ended: the borrower said so, or its cgroup was seen to be empty. The next one then begins at or above
//! every time that the host's clock has shown meanwhile. If neither is known, the claim ends without
//! being given back, and the registry lends the number again after `reclaim-after`.

use std::collections::{BTreeMap, BTreeSet};

use super::cgroup::Cgroup;
use super::messages::{
    BookRules, BorrowAnswer, BorrowRequest, ClaimReport, LendMoment, LoanFigures, LoanTerms,
    ResumedLoan,
};

/// How long a worker ID that was returned waits for the next borrower of this host (ms).
const KEEP_MS: u64 = 60_000;

/// What a library's clock may be ahead of the host's, where no borrower says how far it came (ms).
const AHEAD_MS: u64 = 1000;

/// The furthest beyond the host's clock that a borrower can say it came (ms).
const MOST_AHEAD_MS: u64 = 10_000;

/// How long a borrower waits for a worker ID that this host has, rather than claim another one (ms).
const WORTH_WAITING_MS: u64 = 10_000;

/// How long a worker ID of which a borrower has told a leafd that has restarted goes to no other one: a later
/// borrower of the same claim tells of itself every 3 s (ms).
const RESERVED_MS: u64 = 10_000;

/// How long the borrower of a lost connection has to connect again, if it has no cgroup to look at (ms).
const RECONNECT_MS: u64 = 60_000;

#[derive(Debug)]
enum ClaimState {
    Waiting(String),
    Ready { start_ms: u64, limit_ms: u64, reported_boot_ms: u64 },
}

#[derive(Debug, Clone)]
struct Borrowing {
    borrower: String,
    connection: u64,
    cgroup: Option<Cgroup>,
    /// What the borrower was told, so that it may be in use.
    lent: Option<u64>,
}

#[derive(Debug)]
enum Tenant {
    /// Since then (ms since the boot).
    Nobody {
        since_ms: u64,
    },
    Connected(Borrowing),
    /// The connection ended, at that time, without a word that the processes have.
    Adrift {
        borrowing: Borrowing,
        since_ms: u64,
    },
    /// The claim is being ended.
    Leaving {
        give_back: bool,
    },
}

#[derive(Debug)]
struct Claim {
    /// Whose it is: the name of the claim is of use to nobody else.
    account: u64,
    state: ClaimState,
    /// The last worker ID that this claim had.
    worker: Option<u64>,
    /// A worker ID that this claim had and that is another's now.
    lost: Option<u64>,
    /// The registry has confirmed the claim, so its worker ID may be lent to others.
    is_confirmed: bool,
    /// The registry does not answer.
    is_cut_off: bool,
    /// Nothing was issued with `worker` at or past this (ms since 1970), as long as nobody uses it.
    ceiling_ms: u64,
    /// From when on the present borrower may use it, as its first answer said.
    from_ms: u64,
    /// Until then it goes to nobody else, here or elsewhere (ms since the boot).
    reserved_until_ms: u64,
    tenant: Tenant,
}

/// The claims of a pool, by name.
#[derive(Debug)]
pub(super) struct LoanBook {
    rules: BookRules,
    claims: BTreeMap<String, Claim>,
    /// Claims that ended while their worker IDs may have been in use: whose, and until when they count (ms
    /// since the boot).
    abandoned: Vec<(u64, u64)>,
}

impl Claim {
    fn new(account: u64, tenant: Tenant) -> Self {
        Self {
            account,
            state: ClaimState::Waiting("a worker ID is being claimed".to_owned()),
            worker: None,
            lost: None,
            is_confirmed: false,
            is_cut_off: false,
            ceiling_ms: 0,
            from_ms: 0,
            reserved_until_ms: 0,
            tenant,
        }
    }

    const fn borrowing(&self) -> Option<&Borrowing> {
        match &self.tenant {
            Tenant::Connected(borrowing) | Tenant::Adrift { borrowing, .. } => Some(borrowing),
            Tenant::Nobody { .. } | Tenant::Leaving { .. } => None,
        }
    }

    /// Whether a process may be using the worker ID.
    fn is_used(&self) -> bool {
        self.borrowing().is_some_and(|borrowing| borrowing.lent.is_some())
    }

    const fn is_idle(&self) -> bool {
        matches!(self.tenant, Tenant::Nobody { .. })
    }

    /// Takes note of the clock, which a process may have used up to here.
    fn see(&mut self, now: LendMoment) {
        if self.is_used() {
            self.ceiling_ms = self.ceiling_ms.max(now.clock_ms.saturating_add(1));
        }
    }

    fn terms(&self, name: &str, now: LendMoment, fence_after_ms: u64) -> Result<LoanTerms, String> {
        let (start_ms, limit_ms, reported_boot_ms) = match &self.state {
            ClaimState::Waiting(why) => return Err(why.clone()),
            ClaimState::Ready { start_ms, limit_ms, reported_boot_ms } => {
                (*start_ms, *limit_ms, *reported_boot_ms)
            }
        };
        let left_ms = reported_boot_ms.saturating_add(fence_after_ms).saturating_sub(now.boot_ms);
        let worker = self.worker.filter(|_| left_ms > 0 && now.clock_ms < limit_ms);
        let worker = worker.ok_or("the registry has not confirmed the worker ID for too long")?;
        if !self.is_used() && !self.is_confirmed {
            return Err("the registry has not confirmed the worker ID yet".to_owned());
        }
        // A borrower that waits for its time asks again meanwhile, and may have missed the first answer.
        let start_ms = start_ms.max(if self.is_used() { self.from_ms } else { self.ceiling_ms });
        let is_new = !self.is_used();
        Ok(LoanTerms { worker, claim: name.to_owned(), start_ms, limit_ms, left_ms, is_new })
    }
}

impl LoanBook {
    pub(super) const fn new(rules: BookRules) -> Self {
        Self { rules, claims: BTreeMap::new(), abandoned: Vec::new() }
    }

    /// Answers a borrower. If it needs a claim that is not there yet, `begin` gets its name, or `None` for
    /// a new one, and returns the name under which it has begun.
    pub(super) fn borrow<E>(
        &mut self,
        now: LendMoment,
        request: BorrowRequest,
        begin: impl FnOnce(Option<&ResumedLoan>) -> Result<String, E>,
    ) -> Result<BorrowAnswer, E> {
        let BorrowRequest { connection, account, borrower, cgroup, held } = request;
        let lent = held.as_ref().map(|held| held.worker);
        let own = self.claim_of(account, &borrower);
        let found = own.or_else(|| held.as_ref().map(|it| it.claim.clone()));
        let name = match found.filter(|name| self.claims.contains_key(name)) {
            Some(name) => name,
            None => match (held, self.idle(now, account)) {
                (None, Some(idle)) => idle,
                (held, _) => {
                    if let Some(refused) = self.refusal(account, held.is_some()) {
                        return Ok(refused);
                    }
                    let name = begin(held.as_ref())?;
                    let mut claim = Claim::new(account, Tenant::Nobody { since_ms: now.boot_ms });
                    if held.is_some() {
                        claim.reserved_until_ms = now.boot_ms.saturating_add(RESERVED_MS);
                    }
                    self.claims.insert(name.clone(), claim);
                    name
                }
            },
        };
        let claim = self.claims.get_mut(&name).filter(|claim| claim.account == account);
        let Some(claim) = claim else {
            return Ok(BorrowAnswer::Lost(lent.unwrap_or_default()));
        };
        claim.see(now);
        let known = match &claim.tenant {
            // Once it has ended, the borrower may go on with it, if it is still in the registry.
            Tenant::Leaving { .. } => {
                let why = "leafd has stopped reporting the worker ID; it looks for it again";
                return Ok(BorrowAnswer::NotYet(why.to_owned()));
            }
            _ => claim.borrowing().cloned(),
        };
        let lent = match &known {
            Some(other) if other.borrower != borrower => {
                // Another borrower of this user has the claim now.
                return Ok(BorrowAnswer::Lost(lent.unwrap_or_default()));
            }
            Some(same) => same.lent.or(lent),
            None => lent,
        };
        let is_lost = |lent: &u64| {
            claim.lost == Some(*lent) || claim.worker.is_some_and(|worker| worker != *lent)
        };
        if let Some(lost) = lent.filter(is_lost) {
            claim.tenant = Tenant::Nobody { since_ms: now.boot_ms };
            return Ok(BorrowAnswer::Lost(lost));
        }
        let is_new = lent.is_none();
        let borrowing = Borrowing { borrower, connection, cgroup, lent };
        claim.tenant = Tenant::Connected(borrowing);
        let terms = claim.terms(&name, now, self.rules.fence_after_ms);
        Ok(match terms {
            Err(why) => BorrowAnswer::NotYet(why),
            Ok(terms) => {
                if let Tenant::Connected(borrowing) = &mut claim.tenant {
                    borrowing.lent = Some(terms.worker);
                }
                if is_new {
                    claim.from_ms = terms.start_ms;
                }
                claim.see(now);
                BorrowAnswer::Lent(LoanTerms { is_new, ..terms })
            }
        })
    }

    /// Every process of the borrower has ended, and used no time at or past `ceiling_ms`. Returns its
    /// loan, if it had one.
    pub(super) fn give_back(
        &mut self,
        now: LendMoment,
        (account, borrower): (u64, &str),
        ceiling_ms: u64,
    ) -> Option<LoanTerms> {
        let name = self.claim_of(account, borrower)?;
        let claim = self.claims.get_mut(&name)?;
        claim.see(now);
        let lent = claim.borrowing().and_then(|borrowing| borrowing.lent);
        let (start_ms, limit_ms) = match &claim.state {
            ClaimState::Waiting(_) => (0, now.clock_ms),
            ClaimState::Ready { start_ms, limit_ms, .. } => (*start_ms, *limit_ms),
        };
        if lent.is_some() {
            // Nobody can make the next one wait for long, however often. The registry's start shows how far the
            // clock was if it was set back since.
            let most_ms = now.clock_ms.max(start_ms).saturating_add(MOST_AHEAD_MS);
            claim.ceiling_ms = claim.ceiling_ms.max(ceiling_ms.min(most_ms));
        }
        claim.tenant = Tenant::Nobody { since_ms: now.boot_ms };
        let worker = lent.unwrap_or_default();
        Some(LoanTerms { worker, claim: name, start_ms, limit_ms, left_ms: 0, is_new: false })
    }

    /// A connection has ended. Returns the worker IDs that it held and did not return.
    pub(super) fn disconnected(&mut self, now: LendMoment, connection: u64) -> Vec<u64> {
        let mut adrift = Vec::new();
        for claim in self.claims.values_mut() {
            let Tenant::Connected(borrowing) = &claim.tenant else { continue };
            if borrowing.connection != connection {
                continue;
            }
            let borrowing = borrowing.clone();
            let since_ms = now.boot_ms;
            claim.tenant = match borrowing.lent {
                Some(worker) => {
                    adrift.push(worker);
                    Tenant::Adrift { borrowing, since_ms }
                }
                None => Tenant::Nobody { since_ms },
            };
        }
        adrift
    }

    /// Takes what a claim reports.
    pub(super) fn reported(&mut self, name: &str, report: ClaimReport) {
        let Some(claim) = self.claims.get_mut(name) else { return };
        match report {
            ClaimReport::Begins { worker, start_ms, limit_ms, reported_boot_ms } => {
                match claim.worker.replace(worker) {
                    Some(same) if same == worker => {}
                    Some(_) => {
                        (claim.ceiling_ms, claim.from_ms, claim.is_confirmed) = (0, 0, false)
                    }
                    // A borrower may have returned it before its claim was known again.
                    None => claim.is_confirmed = false,
                }
                if claim.lost == Some(worker) && !claim.is_used() {
                    claim.lost = None;
                }
                claim.state = ClaimState::Ready { start_ms, limit_ms, reported_boot_ms };
            }
            ClaimReport::Reported { limit_ms, reported_boot_ms } => {
                if let ClaimState::Ready { limit_ms: limit, reported_boot_ms: boot, .. } =
                    &mut claim.state
                {
                    (*limit, *boot) = (limit_ms, reported_boot_ms);
                    claim.is_confirmed = true;
                }
            }
            ClaimReport::Lost => claim.lost = claim.worker.take().or(claim.lost),
            ClaimReport::Stops(why) => claim.state = ClaimState::Waiting(why),
            ClaimReport::Reached(is_reached) => claim.is_cut_off = !is_reached,
        }
    }

    /// How far the use of a claim's worker ID has come: whether it is in use, and its ceiling.
    pub(super) fn use_of(&mut self, name: &str, now: LendMoment) -> (bool, u64) {
        let Some(claim) = self.claims.get_mut(name) else { return (false, 0) };
        claim.see(now);
        (claim.is_used(), claim.ceiling_ms)
    }

    /// The cgroups of borrowers whose connections have ended, each once.
    pub(super) fn adrift(&self) -> BTreeSet<Cgroup> {
        let cgroup = |claim: &Claim| match &claim.tenant {
            Tenant::Adrift { borrowing, .. } => borrowing.cgroup.clone(),
            _ => None,
        };
        self.claims.values().filter_map(cgroup).collect()
    }

    /// Whether a claim that ends is given back.
    pub(super) fn gives_back(&self, name: &str) -> bool {
        let tenant = self.claims.get(name).map(|claim| &claim.tenant);
        matches!(tenant, Some(Tenant::Leaving { give_back: true }))
    }

    /// Looks after loans without a borrower, once a second. `is_empty` says whether a cgroup has no
    /// process. Returns the claims to end.
    pub(super) fn tick(
        &mut self,
        now: LendMoment,
        is_empty: impl Fn(&Cgroup) -> bool,
    ) -> Vec<String> {
        let mut ending = Vec::new();
        for (name, claim) in &mut self.claims {
            claim.see(now);
            let age = |since_ms: u64| now.boot_ms.saturating_sub(since_ms);
            let give_back = match &claim.tenant {
                Tenant::Adrift { borrowing, since_ms } => match &borrowing.cgroup {
                    Some(cgroup) => {
                        if is_empty(cgroup) {
                            let used_ms = now.clock_ms.saturating_add(AHEAD_MS);
                            claim.ceiling_ms = claim.ceiling_ms.max(used_ms);
                            claim.tenant = Tenant::Nobody { since_ms: now.boot_ms };
                        }
                        continue;
                    }
                    None if age(*since_ms) < RECONNECT_MS => continue,
                    None => false,
                },
                Tenant::Nobody { since_ms } if age(*since_ms) >= KEEP_MS => true,
                _ => continue,
            };
            // In an outage the next borrower may still get it.
            if claim.is_cut_off && matches!(claim.state, ClaimState::Ready { .. }) {
                continue;
            }
            if !give_back {
                let until_ms = now.boot_ms.saturating_add(self.rules.reclaim_after_ms);
                self.abandoned.push((claim.account, until_ms));
            }
            claim.tenant = Tenant::Leaving { give_back };
            ending.push(name.clone());
        }
        self.abandoned.retain(|(_, until_ms)| now.boot_ms < *until_ms);
        ending
    }

    /// leafd stops: what nobody uses is given back, and borrowers keep what they have.
    pub(super) fn stop(&mut self, now: LendMoment) {
        for claim in self.claims.values_mut() {
            if !matches!(claim.tenant, Tenant::Leaving { .. }) {
                let is_free = claim.reserved_until_ms <= now.boot_ms;
                claim.tenant = Tenant::Leaving { give_back: is_free && !claim.is_used() };
            }
        }
    }

    /// A claim has ended.
    pub(super) fn ended(&mut self, name: &str) {
        self.claims.remove(name);
    }

    /// Whether this leafd has a claim of that name.
    pub(super) fn has(&self, worker: u64, name: &str) -> bool {
        self.claims.get(name).is_some_and(|claim| claim.worker == Some(worker))
    }

    pub(super) fn figures(&self, now: LendMoment) -> LoanFigures {
        let still_counts = |(_, until_ms): &&(u64, u64)| now.boot_ms < *until_ms;
        let abandoned = self.abandoned.iter().filter(still_counts).count() as u64;
        let mut figures = LoanFigures { abandoned, ..LoanFigures::default() };
        for claim in self.claims.values() {
            let count = match &claim.tenant {
                Tenant::Connected(borrowing) if borrowing.lent.is_some() => &mut figures.lent,
                Tenant::Adrift { .. } => &mut figures.adrift,
                _ => &mut figures.idle,
            };
            *count = count.saturating_add(1);
        }
        figures
    }

    fn claim_of(&self, account: u64, borrower: &str) -> Option<String> {
        let is_of = |claim: &Claim| {
            let is_its = |borrowing: &Borrowing| borrowing.borrower == borrower;
            claim.account == account && claim.borrowing().is_some_and(is_its)
        };
        self.claims.iter().find(|(_, claim)| is_of(claim)).map(|(name, _)| name.clone())
    }

    /// A claim of the user that nobody uses and that the registry has confirmed or will, unless another
    /// one would be there sooner.
    fn idle(&self, now: LendMoment, account: u64) -> Option<String> {
        let soon_ms = now.clock_ms.saturating_add(WORTH_WAITING_MS);
        let begins = |claim: &Claim| match &claim.state {
            ClaimState::Ready { start_ms, .. } => (*start_ms).max(claim.ceiling_ms),
            ClaimState::Waiting(_) => soon_ms,
        };
        let is_for = |claim: &Claim| {
            let is_new = claim.worker.is_none();
            let is_free = claim.is_idle() && claim.reserved_until_ms <= now.boot_ms;
            claim.account == account && is_free && (claim.is_confirmed || is_new)
        };
        let idle = self.claims.iter().filter(|(_, claim)| is_for(claim));
        let (name, claim) = idle.min_by_key(|(_, claim)| begins(claim))?;
        let is_refused = self.refusal(account, false).is_some();
        (is_refused || begins(claim) <= soon_ms).then(|| name.clone())
    }

    /// Why a user may not have one more claim. Every claim counts, in use or not, and each that ended
    /// while its worker ID may have been in use, since the registry has one number less for it. A loan
    /// that goes on after a restart has room of its own.
    fn refusal(&self, account: u64, is_resumed: bool) -> Option<BorrowAnswer> {
        let BookRules { max_loans, max_per_user, .. } = self.rules;
        let times = if is_resumed { 2 } else { 1 };
        let claims = self.claims.values().map(|claim| claim.account);
        let accounts: Vec<_> = claims.chain(self.abandoned.iter().map(|(of, _)| *of)).collect();
        let own = accounts.iter().filter(|of| **of == account).count();
        if own >= times * max_per_user {
            return Some(BorrowAnswer::TooMany("lend.max-per-user", max_per_user));
        }
        // What a user has beyond its share, by loans that it says it had, takes room from nobody else.
        let mut shares = BTreeMap::<u64, usize>::new();
        for of in accounts {
            let share = shares.entry(of).or_default();
            *share = share.saturating_add(1).min(max_per_user);
        }
        let all: usize = shares.values().sum();
        (all >= times * max_loans).then_some(BorrowAnswer::TooMany("lend.max-loans", max_loans))
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
