//! The issuer's work in the background: it serves requests that wait, and has the ceiling raised on
//! disk ahead of use.

use std::time::Duration;

use super::super::life::Phase;
use super::super::sequencer::Stop;
use super::{AWAKE, Issuer};
use crate::safety::MOST_CEILING_AHEAD_MS;
use crate::state::worker_file::WorkerRecord;

impl Issuer {
    /// Serves who waits, wakes when the clock allows more, and raises the ceiling.
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
            // Whoever can be served below the present ceiling is served meanwhile.
            let outcome = loop {
                let wake = self.serve(ahead_ms);
                tokio::select! {
                    outcome = &mut writing => break outcome,
                    () = self.0.signal.notified() => {}
                    () = tokio::time::sleep(wake) => {}
                }
            };
            // A disk that takes long gets a longer lead: four times what it just took.
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

    fn raised(&self, life: u64, ceiling_ms: u64, outcome: Result<(), String>) -> Result<(), ()> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        match outcome {
            Ok(()) => {
                if inner.disk_error.take().is_some() {
                    tracing::info!("the worker file can be written again");
                }
                if let Phase::On { sequencer, .. } = &mut inner.phase
                    && inner.life == life
                {
                    sequencer.raised(ceiling_ms);
                }
                Ok(())
            }
            Err(why) => {
                if inner.disk_error.is_none() {
                    tracing::error!(
                        "the worker file cannot be written; snowflake IDs end at its ceiling: {why}"
                    );
                }
                inner.disk_error = Some(why);
                inner.kept_limit_ms = 0;
                Err(())
            }
        }
    }

    /// Hands a higher ceiling to the disk when it is time. Returns for which life, the ceiling, and
    /// the writing of it.
    pub(super) fn raise(
        &self,
        ahead_ms: u64,
    ) -> Option<(u64, u64, impl Future<Output = Result<(), String>> + Send + use<>)> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let Phase::On { sequencer, .. } = &inner.phase else { return None };
        let last_use_ms = sequencer.last_use_ms();
        let is_awaited = inner.is_asked_past(Stop::Ceiling);
        // Once: what follows this request is the use of others.
        inner.turned_away.take_if(|stop| *stop == Stop::Ceiling);
        let use_ms = match is_awaited {
            // After a rest, or after the clock was set: now somebody uses it.
            true => clock_ms,
            false => inner.use_ms(&self.0.environment, last_use_ms, clock_ms),
        };
        let Phase::On { sequencer, .. } = &inner.phase else { return None };
        let higher = sequencer.wanted_ceiling(clock_ms, use_ms, ahead_ms);
        let now = self.0.environment.now();
        let higher = higher.filter(|_| !inner.is_idle(now));
        let as_before = || inner.is_limit_old(clock_ms).then(|| inner.ceiling_ms());
        let ceiling_ms = higher.or_else(as_before)?.max(inner.promised_ms);
        inner.promised_ms = ceiling_ms;
        inner.kept_limit_ms = inner.limit_ms();
        let record = WorkerRecord { ceiling_ms, ..inner.file.clone() };
        // Under the lock, so that no older record follows a newer one to the disk.
        Some((inner.life, ceiling_ms, self.0.writer.worker(record)))
    }

    /// Serves the queue as far as it goes. Returns when to come again.
    fn serve(&self, ahead_ms: u64) -> Duration {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let clock_ms = self.0.environment.unix_ms();
        let Phase::On { sequencer, .. } = &mut inner.phase else {
            return AWAKE;
        };
        let mut wake = Duration::from_millis(ahead_ms / 4);
        let now = self.0.environment.now();
        loop {
            let Some(mut waiter) = inner.waiters.next() else { break };
            // Whoever has given up leaves a gap.
            let stop = if waiter.sender.is_closed() {
                Stop::Done
            } else {
                let before = waiter.runs.total();
                let left = waiter.left;
                let stop = sequencer.take(clock_ms, left, &mut waiter.runs);
                let issued = waiter.runs.total() - before;
                inner.issued += issued;
                if issued > 0 {
                    inner.last_request = now;
                }
                waiter.left -= u32::try_from(issued).unwrap_or(left);
                stop
            };
            drop(waiter);
            inner.last_stop = stop;
            match stop {
                Stop::Until(at_ms) => {
                    let behind = at_ms.saturating_sub(clock_ms).max(1);
                    wake = wake.min(Duration::from_millis(behind));
                    break;
                }
                Stop::Ceiling => break,
                Stop::Fenced if inner.registration.error.is_empty() => {
                    self.0.report_is_due.notify_one();
                    break;
                }
                Stop::Done
                | Stop::ClockBackwards { .. }
                | Stop::BeforeEpoch { .. }
                | Stop::TimeExhausted
                | Stop::Fenced => {
                    let Some(waiter) = inner.waiters.pop() else { break };
                    let outcome = match stop {
                        Stop::Done => Ok(waiter.runs),
                        _ => Err(self.refusal(stop, clock_ms, None)),
                    };
                    let _ = waiter.sender.send(outcome);
                }
            }
        }
        if inner.is_idle(now) { AWAKE } else { wake }
    }
}
