//! The shell around the sequencer. It reads the clock, serves requests or lets them wait in order,
//! and has the ceiling raised on disk ahead of use. The lock is short and never held over an await
//! or a wait.
//!
//! `issuer/request.rs` has the requests, `worker_id.rs` what the owner of the worker ID says,
//! `driver.rs` the background task, `status.rs` the status.

mod driver;
mod request;
mod status;
mod worker_id;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, WireError};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::request::SnowflakeOutcome;
use super::last_use::LastUse;
use super::life::{IssuerPhase, Registration};
use super::queue::WaitQueue;
use super::sequencer::StopReason;
use crate::environment::Environment;
use crate::state::worker_file::WorkerRecord;
use crate::state::writer::Writer;
use crate::supervise;

/// How long after the last request the ceiling is still kept ahead of the clock. A later request
/// waits for the disk once.
const AWAKE: Duration = Duration::from_secs(60);

/// What the issuer needs to know besides the sequencer's rules.
#[derive(Debug, Clone)]
pub(crate) struct IssuerSettings {
    /// The registry's name, for the status.
    pub(crate) registry: &'static str,
    /// How far ahead of use to raise the ceiling, in ms.
    pub(crate) ceiling_ahead_ms: u64,
    /// The layout, also while the issuer has no worker ID.
    pub(crate) layout: Layout,
}

/// Snowflake IDs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Issuer(Arc<IssuerShared>);

struct IssuerShared {
    settings: IssuerSettings,
    /// Its wall clock is read only under the lock.
    environment: Environment,
    writer: Writer,
    state: Mutex<IssuerState>,
    /// Wakes the driver.
    signal: Notify,
    /// A request waits for a report to the registry.
    report_is_due: Notify,
    stop: CancellationToken,
}

struct IssuerState {
    phase: IssuerPhase,
    /// Counts the worker IDs that the issuer began with. The outcome of a write for one says
    /// nothing about the next.
    life: u64,
    /// The highest ceiling that was handed to the disk, written or not (ms since 1970).
    promised_ms: u64,
    /// The limit that was last handed to the disk (ms since 1970).
    kept_limit_ms: u64,
    /// What the worker file says, apart from the ceiling.
    file: WorkerRecord,
    registration: Registration,
    waiters: WaitQueue,
    issued: u64,
    last_request: Instant,
    /// The time of a request, and what the boot clock read then, if that is known.
    last_boot: Option<(Instant, u64)>,
    /// Why the first request in the queue waits.
    last_stop: StopReason,
    /// Why a request that may not wait was refused: the next one should be served.
    turned_away: Option<StopReason>,
    /// Why the ceiling could not be raised.
    disk_error: Option<String>,
}

impl Issuer {
    /// An issuer without a worker ID, for the reason `why`. `file` is what the worker file says.
    /// `fatal` is cancelled if the background task panics.
    pub(crate) fn start(
        settings: IssuerSettings,
        why: WireError,
        file: WorkerRecord,
        environment: Environment,
        writer: Writer,
        fatal: &CancellationToken,
    ) -> Self {
        let state = IssuerState {
            phase: IssuerPhase::Off(why),
            life: 0,
            promised_ms: file.ceiling_ms,
            kept_limit_ms: file.shared.as_ref().map_or(0, |shared| shared.limit_ms),
            file,
            registration: Registration::default(),
            waiters: WaitQueue::default(),
            issued: 0,
            last_request: environment.now(),
            last_boot: None,
            last_stop: StopReason::Done,
            turned_away: None,
            disk_error: None,
        };
        let this = Self(Arc::new(IssuerShared {
            settings,
            environment,
            writer,
            state: Mutex::new(state),
            signal: Notify::new(),
            report_is_due: Notify::new(),
            stop: CancellationToken::new(),
        }));
        supervise::spawn("snowflake", fatal, this.clone().drive());
        this
    }

    /// Closes the issuer: it issues nothing more, refuses waiting requests, and writes exactly how
    /// far it got.
    ///
    /// # Errors
    /// If the disk refuses the write. Then the next start waits for the ceiling.
    pub(crate) async fn close(&self) -> Result<(), String> {
        self.0.stop.cancel();
        let writing = {
            let mut guard = self.lock();
            let state = &mut *guard;
            let stopping = || WireError::new(ErrorCode::ShuttingDown, "leafd is stopping");
            while let Some(waiter) = state.waiters.pop() {
                let _ = waiter.sender.send(Err(stopping()));
            }
            match std::mem::replace(&mut state.phase, IssuerPhase::Off(stopping())) {
                IssuerPhase::On { sequencer, .. } => {
                    state.file.ceiling_ms = sequencer.exact_ceiling_ms();
                    state.promised_ms = state.file.ceiling_ms;
                    self.0.writer.worker(state.file.clone())
                }
                IssuerPhase::Soon(_) | IssuerPhase::Off(_) => return Ok(()),
            }
        };
        writing.await
    }

    fn lock(&self) -> MutexGuard<'_, IssuerState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IssuerState {
    /// Whether a request waits, or was turned away, for this reason.
    fn is_asked_past(&self, stop: StopReason) -> bool {
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

    /// Whether the last request was long ago and none waits.
    fn is_idle(&self, now: Instant) -> bool {
        self.waiters.is_empty() && now.saturating_duration_since(self.last_request) > AWAKE
    }

    /// The limit of the claim, below which times may be used (ms since 1970).
    fn limit_ms(&self) -> u64 {
        self.file.shared.as_ref().map_or(0, |shared| shared.limit_ms)
    }

    /// Whether the limit in the worker file would let a successor issue for much shorter than the
    /// registry does.
    fn is_limit_old(&self, clock_ms: u64) -> bool {
        let limit_ms = self.limit_ms();
        limit_ms.saturating_sub(self.kept_limit_ms) > limit_ms.saturating_sub(clock_ms) / 16
    }

    fn ceiling_ms(&self) -> u64 {
        match &self.phase {
            IssuerPhase::On { sequencer, .. } => sequencer.ceiling_ms(),
            IssuerPhase::Soon(_) | IssuerPhase::Off(_) => self.file.ceiling_ms,
        }
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
