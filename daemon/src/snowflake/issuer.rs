//! The shell around the sequencer: it reads the clock, lets who cannot be served yet wait in
//! order, and has the ceiling raised on disk ahead of use. The lock is short and never held over
//! an await or a wait.

mod driver;
mod status;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, WireError};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::last_use::LastUse;
use super::life::{Begin, Phase, Progress, Registration, refusal};
use super::queue::Queue;
use super::sequencer::{Sequencer, Stop};
use crate::environment::Environment;
use crate::ids::Runs;
use crate::state::worker_file::{SharedClaim, WorkerRecord};
use crate::state::writer::Writer;
use crate::supervise;

/// The ceiling is kept ahead of the clock for so long after the last request; after that, the next
/// one waits for the disk once.
const AWAKE: Duration = Duration::from_secs(60);

/// Most runs in one answer, so that it fits into a frame. Only layouts with few sequence bits
/// come near it.
const MOST_RUNS: u64 = 10_000;

/// What the issuer needs to know besides the sequencer's rules.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The registry's name, for status.
    pub registry: &'static str,
    /// How far ahead the ceiling is raised, in ms.
    pub ceiling_ahead_ms: u64,
    /// The layout, also when nothing is issued.
    pub layout: Layout,
}

/// Snowflake IDs. Cheap to clone.
#[derive(Clone)]
pub struct Issuer(Arc<Shared>);

struct Shared {
    settings: Settings,
    /// Read under the lock alone.
    environment: Environment,
    writer: Writer,
    inner: Mutex<Inner>,
    /// The driver has something to do.
    signal: Notify,
    /// A request waits for a report to the registry.
    report_is_due: Notify,
    stop: CancellationToken,
}

struct Inner {
    phase: Phase,
    /// Counts the worker IDs that were begun with: a write for one says nothing of the next.
    life: u64,
    /// The highest ceiling that was handed to the disk, there already or not (ms since 1970).
    promised_ms: u64,
    /// The limit that was handed to the disk last (ms since 1970).
    kept_limit_ms: u64,
    /// What the worker file says besides the ceiling.
    file: WorkerRecord,
    registration: Registration,
    waiters: Queue,
    issued: u64,
    last_request: Instant,
    /// When that was by the boot clock, as far as it was looked up.
    last_boot: Option<(Instant, u64)>,
    /// Why the head of the queue waits.
    last_stop: Stop,
    /// Why a request that may not wait was turned away: the next one should be served.
    turned_away: Option<Stop>,
    /// Why the ceiling could not be raised.
    disk_error: Option<String>,
}

/// The answer to a request.
pub enum Outcome {
    /// Here they are.
    Now(Runs),
    /// [`Waiting::outcome`] tells.
    Later(Waiting),
    /// No.
    Refused(WireError),
}

/// When to give up, or why a request may not wait at all.
type Patience<'a> = Result<Instant, &'a dyn Fn() -> WireError>;

/// A request that waits.
pub struct Waiting {
    issuer: Issuer,
    receiver: oneshot::Receiver<Result<Runs, WireError>>,
    deadline: Instant,
}

impl Issuer {
    /// An issuer without a worker ID, which `why` explains; `fatal` is cancelled when its work in
    /// the background breaks down. `file` is what the worker file says.
    #[must_use]
    pub fn start(
        settings: Settings,
        why: WireError,
        file: WorkerRecord,
        environment: Environment,
        writer: Writer,
        fatal: &CancellationToken,
    ) -> Self {
        let inner = Inner {
            phase: Phase::Off(why),
            life: 0,
            promised_ms: file.ceiling_ms,
            kept_limit_ms: file.shared.as_ref().map_or(0, |shared| shared.limit_ms),
            file,
            registration: Registration::default(),
            waiters: Queue::default(),
            issued: 0,
            last_request: environment.now(),
            last_boot: None,
            last_stop: Stop::Done,
            turned_away: None,
            disk_error: None,
        };
        let this = Self(Arc::new(Shared {
            settings,
            environment,
            writer,
            inner: Mutex::new(inner),
            signal: Notify::new(),
            report_is_due: Notify::new(),
            stop: CancellationToken::new(),
        }));
        supervise::spawn("snowflake", fatal, this.clone().drive());
        this
    }

    /// IDs may be made. What was issued before with the same worker ID is kept in mind.
    pub fn begin(&self, begin: Begin) {
        let Begin { rules, start_ms, limit_ms, identity, shared } = begin;
        let mut inner = self.lock();
        if self.0.stop.is_cancelled() {
            return;
        }
        let used_ms = match inner.file.worker {
            Some(worker) if worker == rules.worker => inner.ceiling_ms().max(inner.promised_ms),
            _ => 0,
        };
        let seed = self.0.environment.seed();
        let mut sequencer = Sequencer::new(rules, start_ms.max(used_ms), seed);
        sequencer.limited(limit_ms);
        inner.life += 1;
        inner.file = WorkerRecord {
            worker: Some(rules.worker),
            identity,
            layout: self.0.settings.layout.to_string(),
            ceiling_ms: sequencer.ceiling_ms(),
            shared,
        };
        inner.promised_ms = sequencer.ceiling_ms();
        let clock_ms = self.0.environment.unix_ms();
        if let Some(Stop::ClockBackwards { behind_ms }) = sequencer.refusal(clock_ms) {
            tracing::error!(
                behind_ms,
                "the clock is behind the times already used; snowflake IDs begin when it has \
                 caught up"
            );
        }
        inner.phase = Phase::On { sequencer: Box::new(sequencer), worker: rules.worker };
        // As if somebody had asked: the driver stays awake for a while.
        inner.last_request = self.0.environment.now();
        drop(inner);
        self.0.signal.notify_one();
    }

    /// No more IDs, for the reason given; with `soon`, requests wait for a change.
    pub fn suspend(&self, why: WireError, soon: bool) {
        let mut inner = self.lock();
        // What was told at the end stays so.
        if self.0.stop.is_cancelled() {
            return;
        }
        inner.file.ceiling_ms = inner.ceiling_ms().max(inner.promised_ms);
        if soon {
            inner.phase = Phase::Soon(why);
            return;
        }
        while let Some(waiter) = inner.waiters.pop() {
            let _ = waiter.sender.send(Err(why.clone()));
        }
        inner.phase = Phase::Off(why);
    }

    /// The registry has taken a report: times below `limit_ms` may be used.
    pub fn reported(&self, limit_ms: u64, shared: SharedClaim) {
        let mut inner = self.lock();
        inner.registration.reported = Some(self.0.environment.now());
        inner.file.shared = Some(shared);
        if let Phase::On { sequencer, .. } = &mut inner.phase {
            sequencer.limited(limit_ms);
        }
        if inner.last_stop == Stop::Fenced {
            // The driver tries again, and says so if that was not enough.
            inner.last_stop = Stop::Done;
        }
        inner.turned_away = None;
        drop(inner);
        self.0.signal.notify_one();
    }

    /// Changes what status says of the registry.
    pub fn registration(&self, change: impl FnOnce(&mut Registration)) {
        change(&mut self.lock().registration);
        // Whoever waits for a report may have to be told that none comes.
        self.0.signal.notify_one();
    }

    /// How far use has come, for a report to the registry.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let Phase::On { sequencer, .. } = &inner.phase else {
            return Progress { clock_ms, ceiling_ms: 0, use_ms: 0, awaited_ms: 0 };
        };
        let last_use_ms = sequencer.last_use_ms();
        let is_awaited = inner.is_asked_past(Stop::Fenced);
        Progress {
            clock_ms,
            ceiling_ms: sequencer.ceiling_ms(),
            use_ms: inner.use_ms(&self.0.environment, last_use_ms, clock_ms),
            awaited_ms: if is_awaited { clock_ms } else { 0 },
        }
    }

    /// Comes back when a request waits for a report to the registry.
    pub async fn report_is_due(&self) {
        self.0.report_is_due.notified().await;
    }

    /// Nothing has been issued at or past this with the last worker ID that was used (ms since
    /// 1970); 0 when none was since the start.
    #[must_use]
    pub fn last_ceiling_ms(&self) -> u64 {
        let inner = self.lock();
        if inner.life > 0 { inner.ceiling_ms() } else { 0 }
    }

    /// Writes into the worker file what is known of the claim, whether IDs are made or not.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub async fn remember(&self, shared: SharedClaim) -> Result<(), String> {
        let writing = {
            let mut inner = self.lock();
            inner.file.shared = Some(shared);
            // Not below what is being written: the driver will rely on that.
            let ceiling_ms = inner.ceiling_ms().max(inner.promised_ms);
            inner.kept_limit_ms = inner.limit_ms();
            self.0.writer.worker(WorkerRecord { ceiling_ms, ..inner.file.clone() })
        };
        writing.await
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `count` IDs now, or by `deadline`.
    #[must_use]
    pub fn request(&self, count: u32, now: Instant, deadline: Instant) -> Outcome {
        self.ask(count, now, Ok(deadline))
    }

    /// `count` IDs, if there is no need to wait for them; `full` says why the request may not.
    #[must_use]
    pub fn request_at_once(
        &self,
        count: u32,
        now: Instant,
        full: &dyn Fn() -> WireError,
    ) -> Outcome {
        self.ask(count, now, Err(full))
    }

    fn ask(&self, count: u32, now: Instant, patience: Patience<'_>) -> Outcome {
        let limit = MOST_RUNS.saturating_mul(self.0.settings.layout.max_sequence() + 1);
        if u64::from(count) > limit {
            let text = format!("{count} IDs at once are too many for this layout; {limit} are not");
            let error = WireError::new(ErrorCode::BadCount, text).with_detail(limit);
            return Outcome::Refused(error);
        }
        let mut guard = self.lock();
        let inner = &mut *guard;
        let sequencer = match &mut inner.phase {
            Phase::On { sequencer, .. } => sequencer,
            Phase::Off(error) => return Outcome::Refused(error.clone()),
            Phase::Soon(_) => return self.queue(inner, count, Runs::default(), now, patience),
        };
        let mut runs = Runs::default();
        let mut left = count;
        if inner.waiters.is_empty() {
            // What a request that may not wait cannot use is left for others.
            let before = patience.is_err().then(|| sequencer.clone());
            // Under the lock, here and below: a reading taken before it can be older than the time
            // that another thread has issued with meanwhile, and would look like a clock set back.
            let clock_ms = self.0.environment.unix_ms();
            let stop = sequencer.take(clock_ms, count, &mut runs);
            if stop == Stop::Done {
                inner.issued += runs.total();
                inner.last_stop = stop;
                let asleep = now.duration_since(inner.last_request) > AWAKE;
                inner.last_request = now;
                if asleep {
                    self.0.signal.notify_one();
                }
                return Outcome::Now(runs);
            }
            let is_waited_for = match stop {
                Stop::Until(_) | Stop::Ceiling => true,
                Stop::Fenced => inner.registration.error.is_empty(),
                _ => false,
            };
            if let (Some(before), Err(full)) = (before, patience)
                && is_waited_for
            {
                *sequencer = before;
                inner.turned_away = Some(stop);
                inner.last_request = now;
                self.0.signal.notify_one();
                if stop == Stop::Fenced {
                    self.0.report_is_due.notify_one();
                }
                return Outcome::Refused(full());
            }
            let issued = runs.total();
            inner.issued += issued;
            left -= u32::try_from(issued).unwrap_or(left);
            inner.last_stop = stop;
            if !is_waited_for {
                return Outcome::Refused(self.refusal(stop, clock_ms, None));
            }
            if stop == Stop::Fenced {
                self.0.report_is_due.notify_one();
            }
        }
        self.queue(inner, left, runs, now, patience)
    }

    fn queue(
        &self,
        inner: &mut Inner,
        left: u32,
        runs: Runs,
        now: Instant,
        patience: Patience<'_>,
    ) -> Outcome {
        let deadline = match patience {
            Ok(deadline) => deadline,
            Err(full) => return Outcome::Refused(full()),
        };
        inner.last_request = now;
        let (sender, receiver) = oneshot::channel();
        inner.waiters.push(left, runs, sender);
        self.0.signal.notify_one();
        Outcome::Later(Waiting { issuer: self.clone(), receiver, deadline })
    }

    /// Ends it: nothing is issued any more, who waits is refused, and the disk is told exactly up
    /// to where IDs were issued.
    ///
    /// # Errors
    /// When the disk does not take it; the next start then waits for the ceiling.
    pub async fn close(&self) -> Result<(), String> {
        self.0.stop.cancel();
        let writing = {
            let mut guard = self.lock();
            let inner = &mut *guard;
            let stopping = || WireError::new(ErrorCode::ShuttingDown, "leafd is stopping");
            while let Some(waiter) = inner.waiters.pop() {
                let _ = waiter.sender.send(Err(stopping()));
            }
            match std::mem::replace(&mut inner.phase, Phase::Off(stopping())) {
                Phase::On { sequencer, .. } => {
                    inner.file.ceiling_ms = sequencer.exact_ceiling_ms();
                    inner.promised_ms = inner.file.ceiling_ms;
                    self.0.writer.worker(inner.file.clone())
                }
                Phase::Soon(_) | Phase::Off(_) => return Ok(()),
            }
        };
        writing.await
    }

    fn refusal(&self, stop: Stop, clock_ms: u64, disk_error: Option<&str>) -> WireError {
        refusal(stop, &self.0.settings.layout, clock_ms, disk_error)
    }
}

impl Inner {
    /// Whether requests wait, or were turned away, for this reason.
    fn is_asked_past(&self, stop: Stop) -> bool {
        (self.last_stop == stop && !self.waiters.is_empty()) || self.turned_away == Some(stop)
    }

    /// How far time has come since the last use, which was at the clock reading `last_use_ms`.
    fn use_ms(&mut self, environment: &Environment, last_use_ms: u64, clock_ms: u64) -> u64 {
        let boot_ms = environment.boot_ms();
        let last_boot_ms = match self.last_boot {
            Some((request, ms)) if request == self.last_request => ms,
            _ => {
                let ago = u64::try_from(environment.since(self.last_request).as_millis());
                boot_ms.saturating_sub(ago.unwrap_or(u64::MAX))
            }
        };
        self.last_boot = Some((self.last_request, last_boot_ms));
        let last = LastUse { clock_ms: last_use_ms, boot_ms: last_boot_ms };
        last.now_ms(clock_ms, boot_ms)
    }

    /// Nobody has asked for long, and nobody waits.
    fn is_idle(&self, now: Instant) -> bool {
        self.waiters.is_empty() && now.saturating_duration_since(self.last_request) > AWAKE
    }

    fn limit_ms(&self) -> u64 {
        self.file.shared.as_ref().map_or(0, |shared| shared.limit_ms)
    }

    /// Whether the worker file would let a successor issue for much shorter than the registry does.
    fn is_limit_old(&self, clock_ms: u64) -> bool {
        let limit_ms = self.limit_ms();
        limit_ms.saturating_sub(self.kept_limit_ms) > limit_ms.saturating_sub(clock_ms) / 16
    }

    fn ceiling_ms(&self) -> u64 {
        match &self.phase {
            Phase::On { sequencer, .. } => sequencer.ceiling_ms(),
            Phase::Soon(_) | Phase::Off(_) => self.file.ceiling_ms,
        }
    }
}

impl Waiting {
    /// The answer, at the deadline at the latest.
    ///
    /// # Errors
    /// Why there are no IDs.
    pub async fn outcome(self) -> Result<Runs, WireError> {
        if let Ok(Ok(outcome)) = tokio::time::timeout_at(self.deadline, self.receiver).await {
            return outcome;
        }
        let inner = self.issuer.lock();
        let clock_ms = self.issuer.0.environment.unix_ms();
        let refused = match &inner.phase {
            Phase::On { sequencer, .. } => sequencer.refusal(clock_ms),
            Phase::Soon(error) | Phase::Off(error) => return Err(error.clone()),
        };
        let stop = match refused {
            // Waited for in vain.
            Some(Stop::Until(at_ms)) => {
                Stop::ClockBackwards { behind_ms: at_ms.saturating_sub(clock_ms) }
            }
            refused => refused.unwrap_or(inner.last_stop),
        };
        Err(self.issuer.refusal(stop, clock_ms, inner.disk_error.as_deref()))
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
