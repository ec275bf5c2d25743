//! The time in which processes use the worker ID: when to ask them to end, when to kill them, and how
//! leafctl ends afterwards. Pure.

use std::collections::VecDeque;

use leaf_client::wire::WorkerLoan;
use nix::sys::signal::Signal;

use super::action::{Action, Ended, Outcome};
use super::hold::{HoldPlan, KnownLoan, Urgency};
use super::moment::Moment;

/// What clocks of other threads may be ahead of the last reading, and rounding.
const CEILING_MARGIN_MS: u64 = 1000;

/// The command and what it started.
#[derive(Debug)]
pub(super) struct Alive {
    plan: HoldPlan,
    grace_ms: u64,
    /// `None` while the command runs.
    ended: Option<Ended>,
    /// When to kill what has not ended.
    kill_at_ms: Option<u64>,
    is_killing: bool,
    /// Why the worker ID could not be held.
    verdict: Option<String>,
    /// The highest clock seen.
    highest_unix_ms: u64,
}

impl Alive {
    pub(super) fn new(plan: HoldPlan, grace_ms: u64, now: Moment) -> Self {
        Self {
            plan,
            grace_ms,
            ended: None,
            kill_at_ms: None,
            is_killing: false,
            verdict: None,
            highest_unix_ms: now.unix_ms,
        }
    }

    /// Enforces the deadlines. `trouble` is why leafd does not renew the loan.
    pub(super) fn tick(
        &mut self,
        now: Moment,
        trouble: Option<&str>,
        actions: &mut VecDeque<Action>,
    ) {
        self.highest_unix_ms = self.highest_unix_ms.max(now.unix_ms);
        let urgency = self.plan.urgency(now);
        if urgency > Urgency::Calm && self.verdict.is_none() {
            let reason = self.plan.reason(now);
            let trouble = trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
            self.condemn(format!("{reason}{trouble}"), actions);
            if urgency == Urgency::End {
                self.kill_by(now.boot_ms.saturating_add(self.grace_ms));
                actions.push_back(if self.is_running() {
                    Action::Signal(Signal::SIGTERM)
                } else {
                    Action::EndAll
                });
            }
        }
        let is_due = self.kill_at_ms.is_some_and(|at| now.boot_ms >= at);
        self.is_killing |= urgency == Urgency::Kill || is_due;
        if self.is_killing {
            // Again each time: a process may have forked meanwhile.
            actions.push_back(Action::KillAll);
        }
    }

    /// leafd has lent the worker ID for longer, or lends something else.
    pub(super) fn renew(
        &mut self,
        loan: WorkerLoan,
        sent_boot_ms: u64,
        actions: &mut VecDeque<Action>,
    ) {
        if let Err(reason) = self.plan.renew(loan, sent_boot_ms) {
            self.lose(reason, actions);
        }
    }

    /// The worker ID is another's.
    pub(super) fn lose(&mut self, reason: String, actions: &mut VecDeque<Action>) {
        self.is_killing = true;
        self.condemn(reason, actions);
    }

    fn condemn(&mut self, reason: String, actions: &mut VecDeque<Action>) {
        if self.verdict.is_some() {
            return;
        }
        let worker = self.plan.worker();
        actions.push_back(Action::Say(format!(
            "cannot hold worker ID {worker}, so the command has to end: {reason}"
        )));
        self.verdict = Some(reason);
    }

    fn kill_by(&mut self, at_ms: u64) {
        self.kill_at_ms = Some(self.kill_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }

    /// The command has ended. What it left behind is asked to end as well.
    pub(super) fn command_ended(
        &mut self,
        now: Moment,
        ended: Ended,
        actions: &mut VecDeque<Action>,
    ) {
        self.ended = Some(ended);
        self.kill_by(now.boot_ms.saturating_add(self.grace_ms));
        if !self.is_killing {
            actions.push_back(Action::EndAll);
        }
    }

    /// No process is left: the time that none has reached with the worker ID, and how leafctl ends.
    pub(super) fn finish(&self, now: Moment) -> (u64, Outcome) {
        let ceiling = self.highest_unix_ms.max(now.unix_ms).saturating_add(CEILING_MARGIN_MS);
        let outcome = match (&self.verdict, self.ended) {
            (Some(reason), _) => Outcome::Lost(format!(
                "the command was ended, because worker ID {} could not be held: {reason}",
                self.plan.worker()
            )),
            (None, Some(ended)) => Outcome::Status(ended.status()),
            (None, None) => Outcome::Unstarted("the command's exit status is unknown".to_owned()),
        };
        (ceiling, outcome)
    }

    /// Whether the command itself runs.
    pub(super) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// The time until something is due; `u64::MAX` if nothing is.
    pub(super) fn wake_in_ms(&self, now: Moment) -> u64 {
        if self.is_killing {
            return u64::MAX;
        }
        let plan = self.plan.wake_in_ms(now);
        self.kill_at_ms.map_or(plan, |at| at.saturating_sub(now.boot_ms).min(plan))
    }

    pub(super) fn renewal_ms(&self) -> u64 {
        self.plan.renewal_ms()
    }

    pub(super) fn known(&self, now: Moment) -> KnownLoan {
        self.plan.known(now)
    }
}
