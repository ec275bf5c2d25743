//! The time before the command starts: how long leafctl waits for a worker ID, and what it says
//! meanwhile. Pure.

use super::hold::{HoldPlan, Urgency};
use super::moment::Moment;

/// How long leafctl waits before it says why.
const SILENCE_MS: u64 = 2000;
/// How much longer it waits if it does not know: the first call may take as long as that.
const UNKNOWN_MS: u64 = 500;

/// What the command line says.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) pool: String,
    pub(super) wait_ms: u64,
    pub(super) grace_ms: u64,
}

/// A wait for a worker ID that may be used.
#[derive(Debug)]
pub(super) struct Waiting {
    began_ms: u64,
    has_said: bool,
    /// What leafd has lent, if its time has not come.
    plan: Option<HoldPlan>,
}

/// What a wait has come to.
#[derive(Debug)]
pub(super) enum Step {
    GoOn,
    /// The worker ID may be used.
    Start(HoldPlan),
    /// Print this line.
    Say(String),
    /// The time is over.
    GiveUp(String),
}

impl Waiting {
    pub(super) fn new(now: Moment) -> Self {
        Self { began_ms: now.boot_ms, has_said: false, plan: None }
    }

    /// leafd has lent a worker ID. No process has used an earlier one, so that one does not matter.
    pub(super) fn lent(&mut self, mut plan: HoldPlan) {
        if let Some(earlier) = &self.plan {
            plan.follow(earlier);
        }
        self.plan = Some(plan);
    }

    pub(super) fn plan(&self) -> Option<&HoldPlan> {
        self.plan.as_ref()
    }

    /// `can_give_up` says whether leafd was asked and every answer is there; `trouble` is why the last
    /// one was no loan.
    pub(super) fn tick(
        &mut self,
        now: Moment,
        terms: &Terms,
        can_give_up: bool,
        trouble: Option<&str>,
    ) -> Step {
        if let Some(ready) = self.plan.take_if(|plan| plan.urgency(now) == Urgency::Calm) {
            return Step::Start(ready);
        }
        let waited = now.boot_ms.saturating_sub(self.began_ms);
        let pool = &terms.pool;
        if can_give_up && waited >= terms.wait_ms {
            let reason = self.reason(now, trouble);
            return Step::GiveUp(format!(
                "got no worker ID of pool {pool} within {waited} ms: {reason}"
            ));
        }
        let is_known = self.plan.is_some() || trouble.is_some();
        let silence_ms = if is_known { SILENCE_MS } else { SILENCE_MS + UNKNOWN_MS };
        if waited >= silence_ms && !self.has_said {
            self.has_said = true;
            let reason = self.reason(now, trouble);
            return Step::Say(format!("waiting for a worker ID of pool {pool}: {reason}"));
        }
        Step::GoOn
    }

    fn reason(&self, now: Moment, trouble: Option<&str>) -> String {
        match &self.plan {
            Some(plan) if plan.is_early(now) => {
                let ms = plan.start_unix_ms().saturating_sub(now.unix_ms);
                format!("worker ID {} may be used in {ms} ms", plan.worker())
            }
            _ => trouble.unwrap_or("leafd has not answered yet").to_owned(),
        }
    }
}
