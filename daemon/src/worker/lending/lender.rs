//! Lends worker IDs of several pools, and looks after the loans once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError, WorkerLoan, WorkerStatus};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::messages::{
    BookRules, BorrowAnswer, BorrowRequest, LoanFigures, LoanTerms, ResumedLoan,
};
use super::pool::Pool;
use crate::config::PoolRules;
use crate::environment::Environment;
use crate::supervise;
use crate::worker::administration::SharedWorkers;
use crate::worker::registry::SharedRegistry;

/// How often loans without a borrower are looked after.
const TICK: Duration = Duration::from_secs(1);

/// When a borrower that has no worker ID yet asks again.
const ASK_AGAIN_MS: u32 = 250;

/// Whether this leafd lends worker IDs.
#[derive(Debug, Clone)]
pub(crate) enum Lending {
    /// Why not, and what to do.
    Off(String),
    On(Lender),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LenderSettings {
    pub(crate) fence_after_ms: u64,
    pub(crate) reclaim_after_ms: u64,
    pub(crate) max_loans: usize,
    pub(crate) max_per_user: usize,
}

/// A pool, and the fleet of the registry that is its own.
pub(crate) struct PoolSettings {
    pub(crate) rules: PoolRules,
    pub(crate) registry: SharedRegistry,
}

/// What the metrics tell of a pool.
pub(crate) struct PoolFigures<'a> {
    pub(crate) pool: &'a str,
    pub(crate) now: LoanFigures,
    /// Loans that began since the start of leafd, and those whose worker ID became another's.
    pub(crate) begun: u64,
    pub(crate) lost: u64,
}

#[derive(Clone)]
pub(crate) struct Lender(Arc<LenderShared>);

struct LenderShared {
    pools: BTreeMap<String, (Arc<Pool>, SharedWorkers)>,
    /// The runtime with timers.
    runtime: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
    fatal: CancellationToken,
    connections: AtomicU64,
}

impl std::fmt::Debug for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("pools", &self.0.pools.keys()).finish_non_exhaustive()
    }
}

impl Lending {
    fn lender(&self) -> Result<&Lender, WireError> {
        match self {
            Self::Off(why) => Err(WireError::new(ErrorCode::NotConfigured, why.clone())),
            Self::On(lender) => Ok(lender),
        }
    }

    /// A number for a connection that borrows.
    pub(crate) fn connect(&self) -> u64 {
        match self {
            Self::Off(_) => 0,
            Self::On(lender) => lender.0.connections.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Lends a worker ID of `pool`, or goes on lending it.
    ///
    /// # Errors
    /// When there is none yet, when the borrower has lost it, or when it may not have one.
    pub(crate) fn borrow(
        &self,
        pool: &str,
        request: BorrowRequest,
    ) -> Result<WorkerLoan, WireError> {
        self.lender()?.borrow(pool, request)
    }

    /// Takes a worker ID back that no process uses any more, nor has used at or past `ceiling_ms`.
    ///
    /// # Errors
    /// When the borrower has none.
    pub(crate) fn give_back(
        &self,
        pool: &str,
        (account, borrower): (u64, &str),
        ceiling_ms: u64,
    ) -> Result<WorkerLoan, WireError> {
        let (pool, _) = self.lender()?.pool(pool)?;
        let now = pool.state.now();
        let given_back = pool.state.book().give_back(now, (account, borrower), ceiling_ms);
        let terms = given_back.ok_or_else(|| {
            let text = format!("the borrower {borrower:?} has no worker ID of {}", pool.state.name);
            WireError::new(ErrorCode::UnknownWorker, text)
        })?;
        let (worker, name) = (terms.worker, &pool.state.name);
        if pool.state.may_tell_loan() {
            tracing::info!(pool = name, worker, "a worker ID was returned");
        }
        Ok(loan(terms, pool.bits))
    }

    /// A connection has ended.
    pub(crate) fn disconnected(&self, connection: u64) {
        let Self::On(lender) = self else { return };
        for (pool, _) in lender.0.pools.values() {
            let now = pool.state.now();
            let adrift = pool.state.book().disconnected(now, connection);
            for worker in adrift {
                if pool.state.may_tell_loan() {
                    let pool = &pool.state.name;
                    tracing::info!(pool, worker, "the borrower of a worker ID has disconnected");
                }
            }
        }
    }

    /// What each pool has lent; nothing if leafd lends nothing.
    pub(crate) fn figures(&self) -> impl Iterator<Item = PoolFigures<'_>> {
        let pools = match self {
            Self::Off(_) => None,
            Self::On(lender) => Some(lender.0.pools.iter()),
        };
        pools.into_iter().flatten().map(|(pool, (of, _))| {
            let state = &of.state;
            let (begun, lost) = (state.begun.get(), state.lost.get());
            PoolFigures { pool, now: state.book().figures(state.now()), begun, lost }
        })
    }

    /// See [`crate::worker::administration::Workers::list`].
    ///
    /// # Errors
    /// As there, and when there is no such pool.
    pub(crate) async fn list(
        &self,
        pool: &str,
        from: u64,
        limit: usize,
    ) -> Result<Vec<WorkerStatus>, WireError> {
        let (pool, workers) = self.lender()?.pool(pool)?;
        pool.connection.open().await?;
        workers.list(from, limit).await
    }

    /// See [`crate::worker::administration::Workers::release`].
    ///
    /// # Errors
    /// As there, and when there is no such pool.
    pub(crate) async fn release(
        &self,
        pool: &str,
        worker: u64,
        owner: &str,
    ) -> Result<WorkerStatus, WireError> {
        let (pool, workers) = self.lender()?.pool(pool)?;
        pool.connection.open().await?;
        workers.release(worker, owner).await
    }

    /// Ends every claim, and waits until the registry knows.
    pub(crate) async fn close(&self, limit: Duration) {
        let Self::On(lender) = self else { return };
        let shared = &lender.0;
        shared.stop.cancel();
        for (pool, _) in shared.pools.values() {
            pool.stop();
        }
        shared.tasks.close();
        // What the registry does not hear of is lent again after `reclaim-after`.
        let _ = tokio::time::timeout(limit, shared.tasks.wait()).await;
    }
}

impl Lender {
    /// Lends from now on. Call this in the runtime with timers.
    pub(crate) fn start(
        settings: LenderSettings,
        pools: Vec<PoolSettings>,
        host: &str,
        environment: &Environment,
        fatal: &CancellationToken,
    ) -> Self {
        let LenderSettings { fence_after_ms, reclaim_after_ms, max_loans, max_per_user } = settings;
        let rules = BookRules { fence_after_ms, reclaim_after_ms, max_loans, max_per_user };
        let pools = pools.into_iter().map(|PoolSettings { rules: pool, registry }| {
            let environment = environment.clone();
            let name = pool.name.clone();
            let pool = Pool::new(&pool, registry, rules, host.to_owned(), environment.clone());
            let pool = Arc::new(pool);
            let state = Arc::clone(&pool.state);
            let is_own = move |worker, name: &str| state.book().has(worker, name);
            let workers =
                SharedWorkers::new(pool.connection.clone(), Arc::new(is_own), environment);
            (name, (pool, workers))
        });
        let lender = Self(Arc::new(LenderShared {
            pools: pools.collect(),
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            fatal: fatal.clone(),
            connections: AtomicU64::new(1),
        }));
        let watch = lender.clone().watch();
        supervise::spawn("lender", fatal, lender.0.tasks.track_future(watch));
        lender
    }

    async fn watch(self) {
        while self.0.stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
            for (pool, _) in self.0.pools.values() {
                pool.look(pool.state.now());
            }
        }
    }

    fn pool(&self, name: &str) -> Result<&(Arc<Pool>, SharedWorkers), WireError> {
        self.0.pools.get(name).ok_or_else(|| {
            let known = self.0.pools.keys().cloned().collect::<Vec<_>>().join(", ");
            let text = format!("there is no pool {name:?}; lend.pools has: {known}");
            WireError::new(ErrorCode::NotConfigured, text)
        })
    }

    fn borrow(&self, name: &str, request: BorrowRequest) -> Result<WorkerLoan, WireError> {
        let (pool, _) = self.pool(name)?;
        if self.0.stop.is_cancelled() {
            return Err(WireError::new(ErrorCode::ShuttingDown, "leafd is stopping"));
        }
        let (now, account) = (pool.state.now(), request.account);
        if let Some(held) = request.held.as_ref().filter(|it| !pool.is_own(account, &it.claim)) {
            return Err(not_its(name, held.worker));
        }
        if request.held.is_none() {
            // A service that was killed starts again at once, and may have its number again.
            pool.look_again(now);
        }
        let begin = |resumed: Option<&ResumedLoan>| {
            let claim = pool.name_of(account, resumed)?;
            let run = pool.begin(claim.clone(), resumed.cloned());
            let _entered = self.0.runtime.enter();
            supervise::spawn("loan", &self.0.fatal, self.0.tasks.track_future(run));
            Ok::<_, std::io::Error>(claim)
        };
        let answer = pool.state.book().borrow(now, request, begin).map_err(|error| {
            let text = format!("no random bytes from /dev/urandom: {error}");
            WireError::new(ErrorCode::WorkerUnavailable, text)
        })?;
        match answer {
            BorrowAnswer::Lent(terms) => {
                if terms.is_new {
                    pool.state.begun.add(1);
                    if pool.state.may_tell_loan() {
                        let worker = terms.worker;
                        tracing::info!(pool = name, worker, user = account, "a worker ID was lent");
                    }
                }
                Ok(loan(terms, pool.bits))
            }
            BorrowAnswer::NotYet(why) => {
                Err(WireError::new(ErrorCode::WorkerUnavailable, why)
                    .with_retry_after_ms(ASK_AGAIN_MS))
            }
            BorrowAnswer::Lost(worker) => {
                pool.state.lost.add(1);
                if pool.state.may_tell_loss() {
                    tracing::error!(pool = name, worker, "a borrower has lost its worker ID");
                }
                Err(not_its(name, worker))
            }
            BorrowAnswer::TooMany(key, limit) => {
                let text = format!(
                    "{limit} worker IDs of pool {name} are lent already, or were not returned; raise {key}, \
                     or end borrowers by SIGTERM"
                );
                Err(WireError::new(ErrorCode::WorkerUnavailable, text)
                    .with_detail(limit as u64)
                    .with_retry_after_ms(1000))
            }
        }
    }
}

#[cold]
fn not_its(pool: &str, worker: u64) -> WireError {
    let text = format!(
        "worker ID {worker} of pool {pool} is no longer this borrower's: another one has it, or another \
         user or host borrowed it; start again to get another"
    );
    WireError::new(ErrorCode::WrongOwner, text)
}

fn loan(terms: LoanTerms, bits: u32) -> WorkerLoan {
    let LoanTerms { worker, claim, start_ms, limit_ms, left_ms, .. } = terms;
    let (start_unix_ms, limit_unix_ms) = (start_ms, limit_ms);
    WorkerLoan { worker, bits, claim, start_unix_ms, limit_unix_ms, left_ms }
}
