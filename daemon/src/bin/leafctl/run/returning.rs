//! Giving the worker ID back. Pure.

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WorkerLoan};

use super::action::Outcome;
use super::moment::Moment;
use super::pause::after;

/// How long leafctl tries: leafd may be restarting.
const RETURN_MS: u64 = 5000;

/// The return of a worker ID that no process uses any more.
#[derive(Debug)]
pub(super) struct Returning {
    ceiling_unix_ms: u64,
    outcome: Outcome,
    until_ms: u64,
    next_call_ms: u64,
    trouble: Option<String>,
}

/// What a return has come to.
#[derive(Debug)]
pub(super) enum ReturnStep {
    GoOn,
    /// Ask leafd to take it back.
    Return {
        ceiling_unix_ms: u64,
    },
    /// Exit, and first say why leafd did not take it, if it did not.
    Finish(Outcome, Option<String>),
}

impl Returning {
    pub(super) fn new(now: Moment, ceiling_unix_ms: u64, outcome: Outcome) -> Self {
        Self {
            ceiling_unix_ms,
            outcome,
            until_ms: now.boot_ms.saturating_add(RETURN_MS),
            next_call_ms: now.boot_ms,
            trouble: None,
        }
    }

    /// `in_flight` says whether an answer is still to come.
    pub(super) fn tick(&mut self, now: Moment, in_flight: bool) -> ReturnStep {
        if now.boot_ms >= self.until_ms {
            let trouble = self.trouble.take();
            let trouble = trouble.unwrap_or_else(|| "leafd did not answer in time".to_owned());
            return self.finish(Some(trouble));
        }
        if in_flight || now.boot_ms < self.next_call_ms {
            return ReturnStep::GoOn;
        }
        ReturnStep::Return { ceiling_unix_ms: self.ceiling_unix_ms }
    }

    /// leafd has answered the return.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        answer: Result<WorkerLoan, Error>,
    ) -> ReturnStep {
        let error = match answer {
            Ok(_) => return self.finish(None),
            Err(error) => error,
        };
        // The first try may have returned it, and its answer was lost; or it is another's.
        let is_gone =
            matches!(error.code(), Some(ErrorCode::UnknownWorker | ErrorCode::WrongOwner));
        if is_gone {
            return self.finish(None);
        }
        if !error.is_temporary() {
            return self.finish(Some(error.to_string()));
        }
        self.next_call_ms = now.boot_ms.saturating_add(after(&error));
        self.trouble = Some(error.to_string());
        self.tick(now, false)
    }

    /// The time until something is due. A call that is in flight wakes leafctl by its answer.
    pub(super) fn wake_in_ms(&self, now: Moment) -> u64 {
        match self.next_call_ms.saturating_sub(now.boot_ms) {
            0 => self.until_ms.saturating_sub(now.boot_ms),
            pause => pause,
        }
    }

    fn finish(&self, trouble: Option<String>) -> ReturnStep {
        let trouble = trouble.map(|trouble| {
            format!("could not give the worker ID back; leafd will free it: {trouble}")
        });
        ReturnStep::Finish(self.outcome.clone(), trouble)
    }
}
