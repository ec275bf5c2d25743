//! Requests for IDs: those that are served at once, and those that wait for the clock, the disk or
//! the registry.

use leaf_client::wire::{ErrorCode, WireError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::life::IssuerPhase;
use super::super::refusal::refusal;
use super::super::sequencer::StopReason;
use super::{AWAKE, Issuer, IssuerState};
use crate::ids::Runs;

/// Most runs in one answer, so that it fits into a frame. Only layouts with few sequence bits, or with
/// the worker below the sequence, come near it.
const MOST_RUNS: u64 = 10_000;

/// The answer to a request.
pub(crate) enum SnowflakeOutcome {
    Now(Runs),
    /// [`PendingSnowflake::outcome`] returns the answer.
    Later(PendingSnowflake),
    Refused(WireError),
}

/// A request that waits.
pub(crate) struct PendingSnowflake {
    issuer: Issuer,
    receiver: oneshot::Receiver<Result<Runs, WireError>>,
    deadline: Instant,
}

/// The deadline of a request, or the error for one that may not wait.
type Patience<'a> = Result<Instant, &'a dyn Fn() -> WireError>;

impl Issuer {
    /// `count` IDs now, or by `deadline`.
    pub(crate) fn request(&self, count: u32, now: Instant, deadline: Instant) -> SnowflakeOutcome {
        self.ask(count, now, Ok(deadline))
    }

    /// `count` IDs, unless the request would have to wait; then the error of `full`.
    pub(crate) fn request_at_once(
        &self,
        count: u32,
        now: Instant,
        full: &dyn Fn() -> WireError,
    ) -> SnowflakeOutcome {
        self.ask(count, now, Err(full))
    }

    fn ask(&self, count: u32, now: Instant, patience: Patience<'_>) -> SnowflakeOutcome {
        let limit = MOST_RUNS.saturating_mul(self.0.settings.layout.longest_run());
        if u64::from(count) > limit {
            let text =
                format!("{count} IDs at once are too many for this layout; the limit is {limit}");
            let error = WireError::new(ErrorCode::BadCount, text).with_detail(limit);
            return SnowflakeOutcome::Refused(error);
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let sequencer = match &mut state.phase {
            IssuerPhase::On { sequencer, .. } => sequencer,
            IssuerPhase::Off(error) => return SnowflakeOutcome::Refused(error.clone()),
            IssuerPhase::Soon(_) => {
                return self.queue(state, count, Runs::default(), now, patience);
            }
        };
        let mut runs = Runs::default();
        let mut left = count;
        if state.waiters.is_empty() {
            // A request that may not wait must leave IDs that it cannot use to others.
            let before = patience.is_err().then(|| sequencer.clone());
            // Read the clock under the lock, here and below. An earlier reading can be older than
            // the time that another thread has issued with meanwhile, and would look like a clock
            // set back.
            let clock_ms = self.0.environment.unix_ms();
            let stop = sequencer.take(clock_ms, count, &mut runs);
            if stop == StopReason::Done {
                state.issued += runs.total();
                state.last_stop = stop;
                let asleep = now.duration_since(state.last_request) > AWAKE;
                state.last_request = now;
                if asleep {
                    self.0.signal.notify_one();
                }
                return SnowflakeOutcome::Now(runs);
            }
            let may_pass = match stop {
                StopReason::Until(_) | StopReason::Ceiling => true,
                StopReason::Fenced => state.registration.error.is_empty(),
                _ => false,
            };
            if let (Some(before), Err(full)) = (before, patience)
                && may_pass
            {
                *sequencer = before;
                state.turned_away = Some(stop);
                state.last_request = now;
                self.0.signal.notify_one();
                if stop == StopReason::Fenced {
                    self.0.report_is_due.notify_one();
                }
                return SnowflakeOutcome::Refused(full());
            }
            let issued = runs.total();
            state.issued += issued;
            left -= u32::try_from(issued).unwrap_or(left);
            state.last_stop = stop;
            if !may_pass {
                return SnowflakeOutcome::Refused(self.refusal(stop, clock_ms, None));
            }
            if stop == StopReason::Fenced {
                self.0.report_is_due.notify_one();
            }
        }
        self.queue(state, left, runs, now, patience)
    }

    fn queue(
        &self,
        state: &mut IssuerState,
        left: u32,
        runs: Runs,
        now: Instant,
        patience: Patience<'_>,
    ) -> SnowflakeOutcome {
        let deadline = match patience {
            Ok(deadline) => deadline,
            Err(full) => return SnowflakeOutcome::Refused(full()),
        };
        state.last_request = now;
        let (sender, receiver) = oneshot::channel();
        state.waiters.push(left, runs, sender);
        self.0.signal.notify_one();
        SnowflakeOutcome::Later(PendingSnowflake { issuer: self.clone(), receiver, deadline })
    }

    pub(super) fn refusal(
        &self,
        stop: StopReason,
        clock_ms: u64,
        disk_error: Option<&str>,
    ) -> WireError {
        refusal(stop, &self.0.settings.layout, clock_ms, disk_error)
    }
}

impl PendingSnowflake {
    /// The answer, at the deadline at the latest.
    ///
    /// # Errors
    /// Why there are no IDs.
    pub(crate) async fn outcome(self) -> Result<Runs, WireError> {
        if let Ok(Ok(outcome)) = tokio::time::timeout_at(self.deadline, self.receiver).await {
            return outcome;
        }
        let state = self.issuer.lock();
        let clock_ms = self.issuer.0.environment.unix_ms();
        let refused = match &state.phase {
            IssuerPhase::On { sequencer, .. } => sequencer.refusal(clock_ms),
            IssuerPhase::Soon(error) | IssuerPhase::Off(error) => return Err(error.clone()),
        };
        let stop = match refused {
            // The clock did not catch up in time.
            Some(StopReason::Until(at_ms)) => {
                StopReason::ClockBackwards { behind_ms: at_ms.saturating_sub(clock_ms) }
            }
            refused => refused.unwrap_or(state.last_stop),
        };
        Err(self.issuer.refusal(stop, clock_ms, state.disk_error.as_deref()))
    }
}
