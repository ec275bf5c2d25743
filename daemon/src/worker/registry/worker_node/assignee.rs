//! Which row of the table an instance has, as a plain state machine: what the database answered goes in, what
//! to ask it and to tell the issuer comes out.
//!
//! Each life of leafd takes a row of its own. Until that row has settled, the life goes on with the row of the
//! life before, if the state directory knows it: nothing below its ceiling is issued again. While a row is in
//! use, leafd looks every 3 s whether the table still has it. A table that went back to older data gives a
//! number again; its owner then puts its row back, which moves the counter of the table too, and whoever has
//! the number and does not use it yet finds that out before it does.

use std::collections::VecDeque;

use super::messages::{
    NodeAction, NodeEffect, NodeMoment, NodeOutcome, NodeOwner, NodeRow, NodeRules, RememberedRow,
};
use super::pace::{NodeSurvey, verdict};
use crate::safety::REPORT_MS;

/// After a call that failed (ms).
const RETRY_MS: u64 = 1000;

/// The longest pause before another row is tried, where none can be kept (ms).
const MOST_SETBACK_MS: u64 = 60_000;

/// How long a start that has the row of the last one waits before it takes its own (ms), so that a loop of
/// crashes uses up no numbers.
const FIRST_MS: u64 = 10_000;

/// How often to look whether worker IDs have been used up, or will be soon (ms).
const SURVEY_MS: u64 = 24 * 3_600_000;

/// How often to look for room when there is none (ms).
const FULL_MS: u64 = 60_000;

/// What this life does about a row of its own.
#[derive(Debug)]
enum Claiming {
    Surveying,
    Inserting {
        worker: Option<u64>,
    },
    /// The answer to an insert was lost.
    Finding,
    Settling {
        row: NodeRow,
        until_ms: u64,
    },
    /// The number is in use, or there is none until then (ms since the boot).
    Resting {
        until_ms: u64,
    },
}

/// What this instance does about the row in use.
#[derive(Debug)]
enum Keeping {
    Reporting { at_ms: u64 },
    Looking,
    PuttingBack,
    TakingBack,
}

/// The row in use, or the one that may be.
#[derive(Debug)]
struct Held {
    row: NodeRow,
    keeping: Keeping,
    /// Not before this, after a failure (ms since the boot).
    retry_ms: u64,
    is_troubled: bool,
    /// Whether the issuer was told; else from which time on (ms since 1970), and below which limit.
    waits: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Assignee {
    rules: NodeRules,
    nonce: String,
    claiming: Claiming,
    held: Option<Held>,
    /// The highest number that is known to be given.
    above: u64,
    /// The call whose answer is to come is about the row in use.
    keeps: bool,
    /// No call for a row of this life before this, after a failure (ms since the boot).
    retry_ms: u64,
    is_troubled: bool,
    /// The rest of leafd was told of a failure, and of nothing better since.
    told_trouble: bool,
    /// Rows of this life that could not be kept, one after the other.
    setbacks: u32,
    effects: VecDeque<NodeEffect>,
}

impl Assignee {
    /// One for a life with the name `nonce`.
    pub(crate) fn new(
        rules: NodeRules,
        nonce: String,
        file: Option<RememberedRow>,
        now: NodeMoment,
    ) -> Self {
        let above = file.as_ref().map_or(0, |file| file.row.worker);
        let is_usable =
            |file: &RememberedRow| file.row.worker <= rules.max_worker && file.limit_ms > 0;
        let held = file.filter(is_usable).map(|file| Held {
            row: file.row,
            keeping: Keeping::Reporting { at_ms: 0 },
            retry_ms: 0,
            is_troubled: false,
            waits: Some((file.ceiling_ms, file.limit_ms)),
        });
        let claiming = match &held {
            Some(_) => Claiming::Resting { until_ms: now.boot_ms.saturating_add(FIRST_MS) },
            None => Claiming::Surveying,
        };
        let mut effects = VecDeque::new();
        if held.is_none() {
            let why = "a worker ID is being taken from the table".to_owned();
            effects.push_back(NodeEffect::None { why, soon: true });
        }
        Self {
            rules,
            nonce,
            claiming,
            held,
            above,
            keeps: false,
            retry_ms: 0,
            is_troubled: false,
            told_trouble: false,
            setbacks: 0,
            effects,
        }
    }

    /// What follows for the rest of leafd since the last call, oldest first.
    pub(crate) fn effect(&mut self) -> Option<NodeEffect> {
        self.effects.pop_front()
    }

    /// What to ask next. Its outcome comes back through [`Self::done`].
    pub(crate) fn next(&mut self, now: NodeMoment) -> NodeAction {
        let keep_ms = self.held.as_ref().map_or(u64::MAX, |held| match held.keeping {
            Keeping::Reporting { at_ms } => at_ms.max(held.retry_ms),
            Keeping::Looking | Keeping::PuttingBack | Keeping::TakingBack => held.retry_ms,
        });
        self.keeps = now.boot_ms >= keep_ms;
        if let Some(held) = self.held.as_ref().filter(|_| self.keeps) {
            let row = held.row.clone();
            return match held.keeping {
                Keeping::Reporting { .. } => NodeAction::Report(row),
                Keeping::Looking => NodeAction::Look(row),
                Keeping::PuttingBack => NodeAction::PutBack(row),
                Keeping::TakingBack => NodeAction::TakeBack(row),
            };
        }
        let claim_ms = match self.claiming {
            Claiming::Settling { until_ms, .. } | Claiming::Resting { until_ms } => until_ms,
            Claiming::Surveying | Claiming::Inserting { .. } | Claiming::Finding => 0,
        };
        let claim_ms = claim_ms.max(self.retry_ms);
        if now.boot_ms < claim_ms {
            return NodeAction::Pause(claim_ms.min(keep_ms));
        }
        let nonce = self.nonce.clone();
        match &self.claiming {
            Claiming::Surveying | Claiming::Resting { .. } => NodeAction::Survey,
            Claiming::Inserting { worker } => NodeAction::Insert { nonce, worker: *worker },
            Claiming::Finding => NodeAction::Find { nonce, above: self.above },
            Claiming::Settling { row, .. } => NodeAction::Settle(row.clone()),
        }
    }

    /// Takes the outcome of the last action, which was sent at `sent`.
    pub(crate) fn done(&mut self, sent: NodeMoment, now: NodeMoment, outcome: NodeOutcome) {
        match outcome {
            NodeOutcome::Paused => {}
            NodeOutcome::Failed(why) => self.failed(now, why, true),
            NodeOutcome::NoTable(why) => self.failed(now, why, false),
            outcome => {
                if self.keeps {
                    self.kept(sent, now, outcome);
                } else {
                    self.claimed(sent, now, outcome);
                }
                // One kind of call may fail still while the other one succeeds.
                let is_troubled =
                    self.is_troubled || self.held.as_ref().is_some_and(|held| held.is_troubled);
                if self.told_trouble && !is_troubled {
                    self.told_trouble = false;
                    self.effects.push_back(NodeEffect::Fine);
                }
            }
        }
    }

    /// With `may_go_on`, the failure counts as an outage, in which a start goes on with the row in its file.
    fn failed(&mut self, now: NodeMoment, why: String, may_go_on: bool) {
        let retry_ms = now.boot_ms.saturating_add(RETRY_MS);
        self.effects.push_back(NodeEffect::Trouble(why));
        self.told_trouble = true;
        match self.held.as_mut().filter(|_| self.keeps) {
            Some(held) => (held.retry_ms, held.is_troubled) = (retry_ms, true),
            None => {
                (self.retry_ms, self.is_troubled) = (retry_ms, true);
                if let Claiming::Inserting { .. } = self.claiming {
                    self.claiming = Claiming::Finding;
                }
            }
        }
        let Some(held) = self.held.as_mut().filter(|_| may_go_on) else { return };
        let in_time = held.waits.take_if(|(_, limit_ms)| now.clock_ms < *limit_ms);
        let Some((start_ms, limit_ms)) = in_time else { return };
        let (row, limit_ms) = (held.row.clone(), Some(limit_ms));
        self.effects.push_back(NodeEffect::Begin { row, start_ms, limit_ms });
    }

    /// An answer about the row in use.
    fn kept(&mut self, sent: NodeMoment, now: NodeMoment, outcome: NodeOutcome) {
        let Some(held) = &mut self.held else { return };
        held.is_troubled = false;
        if held.waits.is_some() {
            // While this instance was down, another one may have had a number that the table lost.
            match outcome {
                NodeOutcome::Owned(NodeOwner::Nobody) => return self.lose_last("nobody"),
                NodeOutcome::Owned(NodeOwner::Settling) => return self.lose_last("another start"),
                NodeOutcome::Owned(NodeOwner::Other(owner)) => return self.lose_last(&owner),
                _ => {}
            }
        }
        held.keeping = match outcome {
            NodeOutcome::Changed(true)
            | NodeOutcome::Inserted(_)
            | NodeOutcome::Owned(NodeOwner::Ours) => {
                if let Some((start_ms, _)) = held.waits.take() {
                    let row = held.row.clone();
                    self.effects.push_back(NodeEffect::Begin { row, start_ms, limit_ms: None });
                }
                self.effects.push_back(NodeEffect::Reported(held.row.clone()));
                Keeping::Reporting { at_ms: sent.boot_ms.saturating_add(REPORT_MS) }
            }
            NodeOutcome::Owned(NodeOwner::Nobody) => {
                self.effects.push_back(NodeEffect::Warn(format!(
                    "the table has lost the row of worker ID {}; putting it back. Rows must not be \
                     deleted, or their numbers may be given again",
                    held.row.worker
                )));
                Keeping::PuttingBack
            }
            NodeOutcome::Owned(NodeOwner::Settling) => Keeping::TakingBack,
            NodeOutcome::Owned(NodeOwner::Other(owner)) => {
                let worker = held.row.worker;
                return self.lose(NodeEffect::Lost { worker, owner });
            }
            _ => {
                // The table has said no: nothing but the table can say yes.
                if let Some((_, limit_ms)) = &mut held.waits {
                    *limit_ms = 0;
                }
                if outcome == NodeOutcome::Taken {
                    held.retry_ms = now.boot_ms.saturating_add(RETRY_MS);
                }
                Keeping::Looking
            }
        };
    }

    /// The row of the last start, which is not in use yet, has another owner by now.
    fn lose_last(&mut self, owner: &str) {
        let Some(held) = &self.held else { return };
        let worker = held.row.worker;
        let why = format!(
            "worker ID {worker} of the last start belongs to {owner} now; taking another one"
        );
        self.lose(NodeEffect::None { why, soon: true });
    }

    fn lose(&mut self, effect: NodeEffect) {
        self.held = None;
        self.effects.extend([effect, NodeEffect::Forget]);
        if let Claiming::Resting { .. } = self.claiming {
            self.claiming = Claiming::Surveying;
        }
    }

    /// An answer about the row that this life takes.
    fn claimed(&mut self, sent: NodeMoment, now: NodeMoment, outcome: NodeOutcome) {
        let has_come_on = match &outcome {
            NodeOutcome::Inserted(_) | NodeOutcome::Found(Some(_)) | NodeOutcome::Changed(true) => {
                true
            }
            NodeOutcome::Surveyed(_) => matches!(self.claiming, Claiming::Resting { .. }),
            _ => false,
        };
        self.is_troubled &= !has_come_on;
        match outcome {
            NodeOutcome::Surveyed(survey) => self.surveyed(now, &survey),
            NodeOutcome::Inserted(worker) | NodeOutcome::Found(Some(worker)) => {
                self.inserted(now, worker);
            }
            NodeOutcome::Changed(true) => {
                let rest = Claiming::Resting { until_ms: now.boot_ms.saturating_add(SURVEY_MS) };
                let Claiming::Settling { row, .. } = std::mem::replace(&mut self.claiming, rest)
                else {
                    return;
                };
                let at_ms = sent.boot_ms.saturating_add(REPORT_MS);
                let keeping = Keeping::Reporting { at_ms };
                let (retry_ms, is_troubled) = (0, false);
                self.held =
                    Some(Held { row: row.clone(), keeping, retry_ms, is_troubled, waits: None });
                self.setbacks = 0;
                self.above = self.above.max(row.worker);
                let reported = NodeEffect::Reported(row.clone());
                let begin = NodeEffect::Begin { row, start_ms: 0, limit_ms: None };
                self.effects.extend([begin, reported]);
            }
            NodeOutcome::Changed(false) => {
                self.effects.push_back(NodeEffect::Warn(
                    "the row that this start took was changed before it was used: its number is an \
                     earlier owner's, or the table changes what is written; taking another one"
                        .to_owned(),
                ));
                self.set_back(now);
            }
            // Nobody knows the row, or somebody took the number first: another one.
            _ => self.set_back(now),
        }
    }

    /// Tries another row, later and later.
    fn set_back(&mut self, now: NodeMoment) {
        let pause_ms = (RETRY_MS << self.setbacks.min(6)).min(MOST_SETBACK_MS);
        self.setbacks = self.setbacks.saturating_add(1);
        self.retry_ms = now.boot_ms.saturating_add(pause_ms);
        self.claiming = Claiming::Surveying;
    }

    fn surveyed(&mut self, now: NodeMoment, survey: &NodeSurvey) {
        let max_worker = self.rules.max_worker;
        if let Some(text) = verdict(survey, max_worker) {
            self.effects.push_back(NodeEffect::Warn(text));
        }
        if self.held.as_ref().is_some_and(|held| held.row.nonce == self.nonce) {
            self.claiming = Claiming::Resting { until_ms: now.boot_ms.saturating_add(SURVEY_MS) };
            return;
        }
        let reached = survey.highest.max(self.above);
        if reached >= max_worker {
            return self.is_full(now, reached);
        }
        // A table that went back has forgotten a number that this instance had.
        let is_behind = survey.highest < self.above;
        let worker = is_behind.then(|| self.above.saturating_add(1));
        if let Some(next) = worker {
            self.effects.push_back(NodeEffect::Warn(format!(
                "the table has no row above {}, and this instance has had worker ID {}: rows were \
                 lost. Going on with {next}",
                survey.highest, self.above
            )));
        }
        self.above = self.above.max(survey.highest);
        self.claiming = Claiming::Inserting { worker };
    }

    fn inserted(&mut self, now: NodeMoment, worker: u64) {
        if worker > self.rules.max_worker {
            return self.is_full(now, worker);
        }
        if worker <= self.above {
            // The counter is behind the rows: older data, or rows that were made by hand.
            self.claiming = Claiming::Inserting { worker: Some(self.above.saturating_add(1)) };
            return;
        }
        let row = NodeRow { worker, nonce: self.nonce.clone() };
        let until_ms = now.boot_ms.saturating_add(self.rules.settle_ms);
        self.claiming = Claiming::Settling { row, until_ms };
    }

    fn is_full(&mut self, now: NodeMoment, reached: u64) {
        self.claiming = Claiming::Resting { until_ms: now.boot_ms.saturating_add(FULL_MS) };
        let why = format!(
            "the table has given worker ID {reached}, and the highest of the layout is {}: each \
             start has used up one, and none is used again. Choose a registry that reclaims worker \
             IDs (worker.registry), or a layout with more bits for them; IDs of two layouts can be \
             equal",
            self.rules.max_worker
        );
        match &self.held {
            Some(held) => {
                let worker = held.row.worker;
                let text = format!("{why}. Going on with worker ID {worker} of the last start");
                self.effects.push_back(NodeEffect::Warn(text));
            }
            None => self.effects.push_back(NodeEffect::None { why, soon: false }),
        }
    }
}

#[cfg(test)]
#[path = "assignee_tests.rs"]
mod tests;
