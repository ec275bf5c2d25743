//! What the owner of the worker ID says to the issuer: when it may issue with which worker ID and
//! up to which limit, and what the worker file has to remember.

use leaf_client::wire::{ErrorCode, WireError};

use super::super::life::{Begin, IssuerPhase, Progress, Registration};
use super::super::sequencer::{Sequencer, StopReason};
use super::Issuer;
use crate::state::worker_file::{SharedClaim, WorkerRecord};

impl Issuer {
    /// Begins to issue with a worker ID, above everything that was issued before with the same one.
    pub(crate) fn begin(&self, begin: Begin) {
        let Begin { rules, start_ms, limit_ms, identity, shared } = begin;
        let mut state = self.lock();
        if self.0.stop.is_cancelled() {
            return;
        }
        let used_ms = match state.file.worker {
            Some(worker) if worker == rules.worker => state.ceiling_ms().max(state.promised_ms),
            _ => 0,
        };
        let seed = self.0.environment.seed();
        let mut sequencer = Sequencer::new(rules, start_ms.max(used_ms), seed);
        sequencer.limited(limit_ms);
        state.life += 1;
        state.file = WorkerRecord {
            worker: Some(rules.worker),
            identity,
            layout: self.0.settings.layout.to_string(),
            ceiling_ms: sequencer.ceiling_ms(),
            shared,
        };
        state.promised_ms = sequencer.ceiling_ms();
        let clock_ms = self.0.environment.unix_ms();
        if let Some(StopReason::ClockBackwards { behind_ms }) = sequencer.refusal(clock_ms) {
            tracing::error!(
                error = %ErrorCode::ClockBackwards,
                behind_ms,
                "the clock is behind the times already used; snowflake IDs begin when it has \
                 caught up"
            );
        }
        state.phase = IssuerPhase::On { sequencer: Box::new(sequencer), worker: rules.worker };
        // This counts as a request: the driver stays awake for a while.
        state.last_request = self.0.environment.now();
        drop(state);
        self.0.signal.notify_one();
    }

    /// Stops issuing, for the reason `why`. With `soon`, requests wait until the issuer begins
    /// again or is suspended without `soon`.
    pub(crate) fn suspend(&self, why: WireError, soon: bool) {
        let mut state = self.lock();
        // The last record stays as `close` wrote it.
        if self.0.stop.is_cancelled() {
            return;
        }
        state.file.ceiling_ms = state.ceiling_ms().max(state.promised_ms);
        if soon {
            state.phase = IssuerPhase::Soon(why);
            return;
        }
        while let Some(waiter) = state.waiters.pop() {
            let _ = waiter.sender.send(Err(why.clone()));
        }
        state.phase = IssuerPhase::Off(why);
    }

    /// The registry accepted a report: times below `limit_ms` may be used.
    pub(crate) fn reported(&self, limit_ms: u64, shared: SharedClaim) {
        let mut state = self.lock();
        state.registration.reported = Some(self.0.environment.now());
        state.file.shared = Some(shared);
        if let IssuerPhase::On { sequencer, .. } = &mut state.phase {
            sequencer.limited(limit_ms);
        }
        if state.last_stop == StopReason::Fenced {
            // The driver tries again, and sets this again if the limit is still too low.
            state.last_stop = StopReason::Done;
        }
        state.turned_away = None;
        drop(state);
        self.0.signal.notify_one();
    }

    /// Changes what the status says about the registry.
    pub(crate) fn registration(&self, change: impl FnOnce(&mut Registration)) {
        change(&mut self.lock().registration);
        // A request that waits for a report may have to be refused, because none comes.
        self.0.signal.notify_one();
    }

    /// How far use has come, for a report to the registry.
    pub(crate) fn progress(&self) -> Progress {
        let mut guard = self.lock();
        let state = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let IssuerPhase::On { sequencer, .. } = &state.phase else {
            return Progress { clock_ms, ceiling_ms: 0, use_ms: 0, awaited_ms: 0 };
        };
        let last_use_ms = sequencer.last_use_ms();
        let is_awaited = state.is_asked_past(StopReason::Fenced);
        Progress {
            clock_ms,
            ceiling_ms: sequencer.ceiling_ms(),
            use_ms: state.use_ms(&self.0.environment, last_use_ms, clock_ms),
            awaited_ms: if is_awaited { clock_ms } else { 0 },
        }
    }

    /// Returns once a request waits for a report to the registry.
    pub(crate) async fn report_is_due(&self) {
        self.0.report_is_due.notified().await;
    }

    /// The ceiling of the last worker ID in use: nothing was issued at or past it (ms since 1970).
    /// 0 if none was in use since the start.
    pub(crate) fn last_ceiling_ms(&self) -> u64 {
        let state = self.lock();
        if state.life > 0 { state.ceiling_ms() } else { 0 }
    }

    /// Writes the claim into the worker file, whether the issuer issues or not.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub(crate) async fn remember(&self, shared: SharedClaim) -> Result<(), String> {
        let writing = {
            let mut state = self.lock();
            state.file.shared = Some(shared);
            // Not below a ceiling that is being written: the driver will rely on that one.
            let ceiling_ms = state.ceiling_ms().max(state.promised_ms);
            state.kept_limit_ms = state.limit_ms();
            self.0.writer.worker(WorkerRecord { ceiling_ms, ..state.file.clone() })
        };
        writing.await
    }
}
