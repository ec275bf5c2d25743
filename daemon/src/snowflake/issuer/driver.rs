//! The issuer's background task: serves requests that wait, and has the ceiling raised on disk
//! ahead of use.

use std::time::Duration;

use leaf_client::wire::ErrorCode;

use super::super::life::IssuerPhase;
use super::super::sequencer::StopReason;
use super::{AWAKE, Issuer};
use crate::safety::MOST_CEILING_AHEAD_MS;
use crate::state::worker_file::WorkerRecord;

impl Issuer {
    /// Serves waiting requests, wakes when the clock allows more IDs, and raises the ceiling.
    pub(super) async fn drive(self) {
        let mut ahead_ms = self.0.settings.ceiling_ahead_ms;
        loop {
            let wake = self.serve(ahead_ms);
            let Some((life, ceiling_ms, writing)) = self.raise(ahead_ms) else {
                tokio::select! {
                    () = self.0.stop.cancelled() => return,
                    () = self.0.signal.notified() => {}
                    () = tokio::time::sleep(wake) => {}
                }
                continue;
            };
            let began = self.0.environment.now();
            tokio::pin!(writing);
            // Meanwhile, serve requests below the present ceiling.
            let outcome = loop {
                let wake = self.serve(ahead_ms);
                tokio::select! {
                    outcome = &mut writing => break outcome,
                    () = self.0.signal.notified() => {}
                    () = tokio::time::sleep(wake) => {}
                }
            };
            // A slow disk gets a longer lead: four times what the last write took.
            let took_ms =
                u64::try_from(self.0.environment.since(began).as_millis()).unwrap_or(u64::MAX);
            ahead_ms = self
                .0
                .settings
                .ceiling_ahead_ms
                .max(ahead_ms - ahead_ms / 8)
                .max(took_ms.saturating_mul(4))
                .min(MOST_CEILING_AHEAD_MS);
            if self.raised(life, ceiling_ms, outcome).is_err() {
                tokio::select! {
                    () = self.0.stop.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_millis(200)) => {}
                }
            }
        }
    }

    /// Reports the outcome of a write to the sequencer. `Err` means: back off.
    fn raised(&self, life: u64, ceiling_ms: u64, outcome: Result<(), String>) -> Result<(), ()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        match outcome {
            Ok(()) => {
                if state.disk_error.take().is_some() {
                    tracing::info!("the worker file can be written again");
                }
                if let IssuerPhase::On { sequencer, .. } = &mut state.phase
                    && state.life == life
                {
                    sequencer.raised(ceiling_ms);
                }
                Ok(())
            }
            Err(why) => {
                if state.disk_error.is_none() {
                    tracing::error!(
                        error = %ErrorCode::StateUnavailable,
                        "the worker file cannot be written; snowflake IDs end at its ceiling: {why}"
                    );
                }
                state.disk_error = Some(why);
                state.kept_limit_ms = 0;
                Err(())
            }
        }
    }

    /// Hands a higher ceiling to the disk if it is time. Returns the life that the ceiling is for,
    /// the ceiling, and the future of the write.
    pub(super) fn raise(
        &self,
        ahead_ms: u64,
    ) -> Option<(u64, u64, impl Future<Output = Result<(), String>> + Send + use<>)> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let IssuerPhase::On { sequencer, .. } = &state.phase else { return None };
        let last_use_ms = sequencer.last_use_ms();
        let is_awaited = state.is_asked_past(StopReason::Ceiling);
        // A refused request counts once. Later raises follow the use of others.
        state.turned_away.take_if(|stop| *stop == StopReason::Ceiling);
        let use_ms = match is_awaited {
            // A request waits at this clock reading, perhaps after a pause or after the clock was
            // set.
            true => clock_ms,
            false => state.use_ms(&self.0.environment, last_use_ms, clock_ms),
        };
        let IssuerPhase::On { sequencer, .. } = &state.phase else { return None };
        let higher = sequencer.wanted_ceiling(clock_ms, use_ms, ahead_ms);
        let now = self.0.environment.now();
        let higher = higher.filter(|_| !state.is_idle(now));
        let as_before = || state.is_limit_old(clock_ms).then(|| state.ceiling_ms());
        let ceiling_ms = higher.or_else(as_before)?.max(state.promised_ms);
        state.promised_ms = ceiling_ms;
        state.kept_limit_ms = state.limit_ms();
        let record = WorkerRecord { ceiling_ms, ..state.file.clone() };
        // Hand it over under the lock, so that no older record follows a newer one to the disk.
        Some((state.life, ceiling_ms, self.0.writer.worker(record)))
    }

    /// Serves the queue as far as possible. Returns how long to sleep at most.
    fn serve(&self, ahead_ms: u64) -> Duration {
        let mut guard = self.lock();
        let state = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let IssuerPhase::On { sequencer, .. } = &mut state.phase else {
            return AWAKE;
        };
        let mut wake = Duration::from_millis(ahead_ms / 4);
        let now = self.0.environment.now();
        loop {
            let Some(mut waiter) = state.waiters.next() else { break };
            // IDs for a caller that gave up are lost: a gap.
            let stop = if waiter.sender.is_closed() {
                StopReason::Done
            } else {
                let before = waiter.runs.total();
                let left = waiter.left;
                let stop = sequencer.take(clock_ms, left, &mut waiter.runs);
                let issued = waiter.runs.total() - before;
                state.issued += issued;
                if issued > 0 {
                    state.last_request = now;
                }
                waiter.left -= u32::try_from(issued).unwrap_or(left);
                stop
            };
            drop(waiter);
            state.last_stop = stop;
            match stop {
                StopReason::Until(at_ms) => {
                    let behind = at_ms.saturating_sub(clock_ms).max(1);
                    wake = wake.min(Duration::from_millis(behind));
                    break;
                }
                StopReason::Ceiling => break,
                StopReason::Fenced if state.registration.error.is_empty() => {
                    self.0.report_is_due.notify_one();
                    break;
                }
                StopReason::Done
                | StopReason::ClockBackwards { .. }
                | StopReason::BeforeEpoch { .. }
                | StopReason::TimeExhausted
                | StopReason::Fenced => {
                    let Some(waiter) = state.waiters.pop() else { break };
                    let outcome = match stop {
                        StopReason::Done => Ok(waiter.runs),
                        _ => Err(self.refusal(stop, clock_ms, None)),
                    };
                    let _ = waiter.sender.send(outcome);
                }
            }
        }
        if state.is_idle(now) { AWAKE } else { wake }
    }
}
