//! The course of `leafctl run`: what to ask leafd, when to start the command, whom to signal, when to
//! give the worker ID back. Pure: time and events come in as arguments, actions come out as values.

use std::collections::VecDeque;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WorkerLoan};
use nix::sys::signal::Signal;

use super::action::{Action, Ended, Outcome, after_signal};
use super::alive::Alive;
use super::hold::HoldPlan;
use super::moment::Moment;
use super::pause;
use super::returning::{ReturnStep, Returning};
use super::waiting::{Step, Terms, Waiting};

/// Longest pause after a failure while the command runs.
const RETRY_MS: u64 = 1000;
/// Longest time between two looks at the clocks.
pub(super) const TICK_MS: u64 = 200;

/// Longest time between two looks of a leafctl that was not frozen.
const STOOD_STILL_MS: u64 = 5000;

/// By then the command has joined its cgroup (ms), as a rule.
const JOINED_MS: u64 = 200;

#[derive(Debug)]
enum Phase {
    /// The command is not started.
    Before(Waiting),
    /// Processes may use the worker ID.
    Alive(Alive),
    /// The command will not be started. The answer to a request may still bring a loan.
    Leaving {
        is_lent: bool,
        outcome: Outcome,
    },
    /// No process uses the worker ID any more.
    Returning(Returning),
    Done,
}

/// The course of `leafctl run`.
#[derive(Debug)]
pub(super) struct Borrowing {
    terms: Terms,
    /// Why leafd's last answer was none.
    trouble: Option<String>,
    has_asked: bool,
    in_flight: bool,
    next_call_ms: u64,
    ticked_ms: u64,
    /// When leafctl noticed that it had stood still, if leafd has answered nothing that was asked since: leafd may
    /// have seen its cgroup empty meanwhile, and have lent the worker ID to another.
    stood_still_ms: Option<u64>,
    phase: Phase,
    actions: VecDeque<Action>,
}

impl Borrowing {
    pub(super) fn new(terms: Terms, now: Moment) -> Self {
        Self {
            terms,
            trouble: None,
            has_asked: false,
            in_flight: false,
            next_call_ms: now.boot_ms,
            ticked_ms: now.boot_ms,
            stood_still_ms: None,
            phase: Phase::Before(Waiting::new(now)),
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How long nothing has to be done if nothing happens.
    pub(super) fn sleep_ms(&self, now: Moment) -> u64 {
        let due = match &self.phase {
            Phase::Before(waiting) => waiting.plan().map_or(u64::MAX, |plan| plan.wake_in_ms(now)),
            Phase::Alive(alive) => alive.wake_in_ms(now),
            Phase::Returning(returning) => returning.wake_in_ms(now),
            Phase::Leaving { .. } | Phase::Done => u64::MAX,
        };
        let asks = matches!(self.phase, Phase::Before(_) | Phase::Alive(_));
        let next_call = self.next_call_ms.saturating_sub(now.boot_ms);
        let call = if asks && !self.in_flight { next_call } else { u64::MAX };
        call.min(due).clamp(1, TICK_MS)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Moment) {
        let stood_still = now.boot_ms.saturating_sub(self.ticked_ms) > STOOD_STILL_MS;
        if stood_still {
            self.stood_still_ms = Some(now.boot_ms);
        }
        self.ticked_ms = now.boot_ms;
        match &mut self.phase {
            Phase::Before(waiting) => {
                let can_give_up = self.has_asked && !self.in_flight;
                match waiting.tick(now, &self.terms, can_give_up, self.trouble.as_deref()) {
                    Step::GoOn => {}
                    Step::Say(text) => self.actions.push_back(Action::Say(text)),
                    Step::Start(plan) => self.start(now, plan),
                    Step::GiveUp(text) => {
                        let is_lent = waiting.plan().is_some();
                        self.leave(now, is_lent, Outcome::Unavailable(text));
                    }
                }
            }
            Phase::Alive(_) => self.enforce(now),
            Phase::Leaving { is_lent, outcome } => {
                let (is_lent, outcome) = (*is_lent, outcome.clone());
                self.leave(now, is_lent, outcome);
            }
            Phase::Returning(returning) => {
                let step = returning.tick(now, self.in_flight);
                self.give_back(step);
            }
            Phase::Done => {}
        }
        // First leafctl has to hear whether its processes have ended meanwhile.
        if !stood_still {
            self.ask(now);
        }
    }

    /// leafd has answered a request that was sent at `sent_boot_ms`.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        sent_boot_ms: u64,
        answer: Result<WorkerLoan, Error>,
    ) {
        self.in_flight = false;
        // An answer that comes after the deadline is too late, whatever it says.
        self.enforce(now);
        match answer {
            Ok(loan) => self.lent(loan, sent_boot_ms),
            Err(error) => self.refused(now, error),
        }
        self.tick(now);
    }

    fn lent(&mut self, loan: WorkerLoan, sent_boot_ms: u64) {
        let renewal_ms = match &mut self.phase {
            Phase::Before(waiting) => {
                let plan = HoldPlan::new(loan, sent_boot_ms, self.terms.grace_ms);
                let renewal_ms = plan.renewal_ms();
                waiting.lent(plan);
                renewal_ms
            }
            Phase::Alive(alive) => {
                alive.renew(loan, sent_boot_ms, &mut self.actions);
                alive.renewal_ms()
            }
            Phase::Leaving { is_lent, .. } => {
                *is_lent = true;
                return;
            }
            Phase::Returning(_) | Phase::Done => return,
        };
        self.next_call_ms = sent_boot_ms.saturating_add(renewal_ms);
        self.trouble = None;
        self.stood_still_ms = self.stood_still_ms.filter(|noticed| sent_boot_ms < *noticed);
    }

    fn refused(&mut self, now: Moment, error: Error) {
        let is_lost = error.code() == Some(ErrorCode::WrongOwner);
        self.trouble = Some(error.to_string());
        let pause_ms = match &mut self.phase {
            Phase::Before(waiting) => {
                let is_lent = waiting.plan().is_some();
                let pause_ms = pause::after(&error);
                if is_lent && is_lost {
                    let outcome = Outcome::Lost(format!("the worker ID is lost: {error}"));
                    self.phase = Phase::Leaving { is_lent: false, outcome };
                } else if !error.is_temporary() {
                    self.phase = Phase::Leaving { is_lent, outcome: Outcome::Refused(error) };
                }
                pause_ms
            }
            Phase::Alive(alive) => {
                if is_lost {
                    alive.lose(error.to_string(), &mut self.actions);
                }
                RETRY_MS.min(alive.renewal_ms())
            }
            Phase::Leaving { .. } | Phase::Returning(_) | Phase::Done => return,
        };
        self.next_call_ms = now.boot_ms.saturating_add(pause_ms);
    }

    /// leafctl was asked to pass on this signal.
    pub(super) fn signalled(&mut self, now: Moment, signal: Signal) {
        match &self.phase {
            Phase::Before(waiting) if ends(signal) => {
                let is_lent = waiting.plan().is_some();
                self.leave(now, is_lent, Outcome::Status(after_signal(signal)));
            }
            Phase::Alive(alive) if alive.is_running() => {
                self.actions.push_back(Action::Signal(signal));
            }
            // Giving the worker ID back takes a few seconds at most, and signals often come twice:
            // to leafctl alone and to its group.
            _ => {}
        }
    }

    /// The command could not be started.
    pub(super) fn not_started(&mut self, now: Moment, reason: String) {
        self.leave(now, true, Outcome::Unstarted(reason));
    }

    /// The command has ended. Processes that it started may be left.
    pub(super) fn command_ended(&mut self, now: Moment, ended: Ended) {
        if let Phase::Alive(alive) = &mut self.phase {
            alive.command_ended(now, ended, &mut self.actions);
        }
    }

    /// The command has ended, and no process that it started is left.
    pub(super) fn all_ended(&mut self, now: Moment) {
        if let Phase::Alive(alive) = &self.phase {
            let (ceiling_unix_ms, outcome) = alive.finish(now);
            self.begin_return(now, ceiling_unix_ms, outcome);
        }
    }

    /// leafd has answered the return.
    pub(super) fn returned(&mut self, now: Moment, answer: Result<WorkerLoan, Error>) {
        self.in_flight = false;
        if let Phase::Returning(returning) = &mut self.phase {
            let step = returning.answered(now, answer);
            self.give_back(step);
        }
    }

    fn start(&mut self, now: Moment, plan: HoldPlan) {
        let (worker, bits) = (plan.worker(), plan.bits());
        self.phase = Phase::Alive(Alive::new(plan, self.terms.grace_ms, now));
        self.actions.push_back(Action::Start { worker, bits });
        // leafd takes note of a cgroup only when it has a process.
        self.next_call_ms = self.next_call_ms.min(now.boot_ms.saturating_add(JOINED_MS));
    }

    /// Enforces the deadline of what runs.
    fn enforce(&mut self, now: Moment) {
        if let Phase::Alive(alive) = &mut self.phase {
            alive.tick(now, self.trouble.as_deref(), &mut self.actions);
        }
    }

    fn ask(&mut self, now: Moment) {
        if self.in_flight || now.boot_ms < self.next_call_ms {
            return;
        }
        let known = match &self.phase {
            Phase::Before(waiting) => waiting.plan().map(|plan| plan.known(now)),
            Phase::Alive(alive) => Some(alive.known(now)),
            Phase::Leaving { .. } | Phase::Returning(_) | Phase::Done => return,
        };
        (self.in_flight, self.has_asked) = (true, true);
        self.actions.push_back(Action::Ask(known));
    }

    /// Returns what was lent once no request is in flight. No process has used it.
    fn leave(&mut self, now: Moment, is_lent: bool, outcome: Outcome) {
        if self.in_flight {
            self.phase = Phase::Leaving { is_lent, outcome };
        } else if is_lent {
            self.begin_return(now, now.unix_ms, outcome);
        } else {
            self.finish(outcome);
        }
    }

    fn begin_return(&mut self, now: Moment, ceiling_unix_ms: u64, outcome: Outcome) {
        let mut returning = Returning::new(now, ceiling_unix_ms, outcome);
        let step = returning.tick(now, self.in_flight);
        self.phase = Phase::Returning(returning);
        self.give_back(step);
    }

    fn give_back(&mut self, step: ReturnStep) {
        match step {
            ReturnStep::GoOn => {}
            ReturnStep::Return { ceiling_unix_ms } => {
                self.in_flight = true;
                let announces = self.stood_still_ms.is_none();
                self.actions.push_back(Action::Return { ceiling_unix_ms, announces });
            }
            ReturnStep::Finish(outcome, trouble) => {
                self.actions.extend(trouble.map(Action::Say));
                self.finish(outcome);
            }
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.phase = Phase::Done;
        self.actions.push_back(Action::Finish(outcome));
    }
}

/// Whether leafctl ends for this signal if no command runs.
fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM)
}
