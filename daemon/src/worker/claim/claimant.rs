//! Which worker ID this instance has, as a plain state machine: what was read of the registry goes
//! in, what to read, to write and to tell comes out. No clock, no registry, no waiting.
//!
//! Every claim has the same order. The instance writes it, reads the registry again, and goes on only
//! if it finds nobody else under its identity or with its worker ID. The registry has one order of all
//! writes, so of two that claim at once the later one sees the earlier one, and yields. Then the
//! instance compares its clock with the others', makes a first report, and issues IDs. decisions/012
//! has the reasons.

mod java;
mod looking;
mod reporting;

use super::instance::{Ages, ClaimRules, Instance};
use super::name::NodeName;
use super::plan::Claim;
use super::quiet::QuietWatch;
use super::record::ClaimPhase;
use super::step::{ClaimAction, ClaimEffect, ClaimOutcome, Moment, RememberedClaim};
use super::view::Wanted;
use super::write::RegistryWrite;
use crate::safety::MOST_PAUSE_MS;
use crate::snowflake::last_use::LastUse;
use crate::state::worker_file::Standing;

/// What follows a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AfterCommit {
    Register(RegisteredClaim),
    Settled,
    Report { limit_ms: u64 },
    Abandoned { pause_ms: u64 },
}

/// A claim that is in the registry, with a live marker of this session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegisteredClaim {
    name: NodeName,
    leaf_version: i32,
    holder_version: i32,
    /// Not used before this (ms since the boot).
    settle_until: Option<u64>,
    start_ms: u64,
    /// As the registry has it.
    limit_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ClaimStage {
    Looking { survey: bool },
    Creating,
    Committing { ops: Vec<RegistryWrite>, then: AfterCommit },
    Asking,
    Pausing { until: u64 },
    Holding { until: u64 },
}

/// Every worker ID has an owner, and none can be taken over.
#[derive(Debug)]
struct Exhausted {
    /// It stays so as long as these instances live…
    live: Vec<NodeName>,
    /// …until then (ms since the boot).
    until: u64,
    why: String,
}

#[derive(Debug)]
pub(crate) struct Claimant {
    me: Instance,
    rules: ClaimRules,
    stage: ClaimStage,
    memory: Option<RememberedClaim>,
    /// What the worker file says of this identity's nodes, also where it knows of no worker ID.
    standing: Standing,
    /// IDs of `memory.worker` are being issued.
    serving: bool,
    /// A reading forbids issuing until another one allows it.
    barred: bool,
    /// A report met a conflict, and the registry has not been read since: somebody else may have
    /// written this instance's node.
    in_doubt: bool,
    /// The other instances' clocks forbade issuing when they were last asked.
    clock_differs: bool,
    registered: Option<RegisteredClaim>,
    /// What the registry's clock said (ms since 1970), and when (ms since the boot).
    registry_clock: Option<LastUse>,
    /// A node that this life made and has not claimed yet.
    created: Option<NodeName>,
    /// What the last survey found, if it found no worker ID.
    exhausted: Option<Exhausted>,
    /// Since when another instance lives under this identity (ms since the boot).
    twin_since: Option<u64>,
    /// A worker ID that this life claimed was another's too.
    met_rival: bool,
    failures: u32,
    /// Watches the nodes of this identity, which a Java Leaf may write.
    watch: QuietWatch,
    /// When the present reading began (ms since the boot).
    look_began: u64,
    effects: Vec<ClaimEffect>,
    random: fastrand::Rng,
}

impl Claimant {
    /// A claimant that has read nothing yet. `memory` and `standing` are what the worker file says.
    pub(crate) fn new(
        me: Instance,
        rules: ClaimRules,
        memory: Option<RememberedClaim>,
        standing: Standing,
        seed: u64,
    ) -> Self {
        Self {
            me,
            rules,
            stage: ClaimStage::Looking { survey: false },
            memory,
            standing,
            serving: false,
            barred: false,
            in_doubt: false,
            clock_differs: false,
            registered: None,
            registry_clock: None,
            created: None,
            exhausted: None,
            twin_since: None,
            met_rival: false,
            failures: 0,
            watch: QuietWatch::default(),
            look_began: 0,
            effects: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// What follows for the rest of leafd since the last call, in order.
    pub(crate) fn effects(&mut self) -> Vec<ClaimEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether a claim of this life is in the registry, as far as is known.
    pub(crate) const fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Whether IDs are being issued, as far as the claim is concerned.
    pub(crate) const fn is_serving(&self) -> bool {
        self.serving
    }

    /// What to do now.
    pub(crate) fn action(&mut self, now: Moment) -> ClaimAction {
        self.fence(now);
        match &self.stage {
            ClaimStage::Pausing { until } if now.boot_ms >= *until => {
                self.stage = ClaimStage::Looking { survey: false };
            }
            ClaimStage::Holding { until }
                if now.boot_ms >= *until || self.is_report_awaited(now) =>
            {
                self.report(now);
            }
            _ => {}
        }
        match &self.stage {
            ClaimStage::Looking { survey } => {
                self.look_began = now.boot_ms;
                ClaimAction::Look(self.wanted(*survey))
            }
            ClaimStage::Creating => ClaimAction::Create(self.me.leaf_record(0)),
            ClaimStage::Committing { ops, .. } => ClaimAction::Commit(ops.clone()),
            ClaimStage::Asking => ClaimAction::AskPeers,
            ClaimStage::Pausing { until } | ClaimStage::Holding { until } => {
                ClaimAction::Pause((*until).min(self.fenced_at().unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes the outcome of the last action.
    pub(crate) fn done(&mut self, now: Moment, outcome: ClaimOutcome) {
        if let ClaimOutcome::Failed(why) = outcome {
            return self.failed(now, why);
        }
        // A server that lets everybody in and takes no writes is no help.
        let is_help = outcome != ClaimOutcome::NewSession;
        if is_help && std::mem::take(&mut self.failures) > 0 {
            self.effects.push(ClaimEffect::Fine);
        }
        let stage = std::mem::replace(&mut self.stage, ClaimStage::Looking { survey: false });
        match (stage, outcome) {
            (ClaimStage::Looking { survey }, ClaimOutcome::Looked(view)) => {
                self.looked(now, &view, survey)
            }
            (ClaimStage::Creating, ClaimOutcome::Created(name)) => self.created = Some(name),
            (ClaimStage::Committing { then, .. }, ClaimOutcome::Committed) => {
                self.committed(now, then)
            }
            (stage, ClaimOutcome::Conflict) => {
                let is_report = matches!(
                    stage,
                    ClaimStage::Committing { then: AfterCommit::Report { .. }, .. }
                );
                self.in_doubt |= is_report;
                // Somebody else was quicker. The jitter keeps the losers from colliding again.
                let until = now.boot_ms + self.random.u64(5..100);
                self.stage = ClaimStage::Pausing { until };
            }
            (ClaimStage::Asking, ClaimOutcome::Asked(verdict)) => self.asked(now, verdict),
            // A live marker ends with its session, and the registry may have lost data since.
            (_, ClaimOutcome::NewSession) => self.registered = None,
            // The outcome of another action says nothing: look again.
            _ => {}
        }
    }

    fn wanted(&self, survey: bool) -> Wanted {
        let sequence = self.registered.as_ref().map(|registered| registered.name.sequence());
        let remembered = self.claimed().map(|memory| memory.worker);
        Wanted {
            identity: self.me.identity().to_owned(),
            sequence: sequence.or(remembered),
            survey,
        }
    }

    /// What is remembered of a worker ID that is this instance's.
    fn claimed(&self) -> Option<&RememberedClaim> {
        self.memory.as_ref().filter(|memory| memory.limit_ms > 0)
    }

    /// The worker ID is somebody else's now. Its ceiling stays in memory, should it come back.
    fn lose(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.limit_ms = 0;
        }
        self.effects.push(ClaimEffect::Lost);
    }

    /// When issuing has to end without another report (ms since the boot).
    fn fenced_at(&self) -> Option<u64> {
        let memory = self.memory.as_ref().filter(|_| self.serving)?;
        Some(memory.reported_boot_ms.saturating_add(self.rules.fence_after_ms))
    }

    fn fence(&mut self, now: Moment) {
        if self.fenced_at().is_some_and(|at| now.boot_ms >= at) {
            self.serving = false;
            self.stop(self.rules.fenced(), false);
        }
    }

    fn stop(&mut self, why: String, soon: bool) {
        self.serving = false;
        self.effects.push(ClaimEffect::Stop { why, soon });
    }

    /// No IDs before another reading allows them.
    fn bar(&mut self, now: Moment, why: String, soon: bool, pause_ms: u64) {
        self.barred = true;
        self.stop(why, soon);
        self.pause(now, pause_ms);
    }

    fn pause(&mut self, now: Moment, pause_ms: u64) {
        // Keeps instances out of step.
        let jitter = self.random.u64(0..=pause_ms / 4);
        self.stage = ClaimStage::Pausing { until: now.boot_ms + pause_ms + jitter };
    }

    /// The registry does not answer. An instance that issues goes on; one that the worker file allows
    /// to issue begins.
    fn failed(&mut self, now: Moment, why: String) {
        self.failures = self.failures.saturating_add(1);
        // Nobody can write in an outage, so quiet says nothing.
        self.watch.forget();
        // Short, so that an instance whose node was lost with the data puts it back before a newcomer
        // uses its worker ID.
        let pause_ms = (100u64 << self.failures.min(4)).min(MOST_PAUSE_MS * 4 / 5);
        // Java Leaf knows no registry whose clock may jump.
        let is_java_possible = self.rules.ages == Ages::Told;
        if self.in_doubt && is_java_possible && !self.barred {
            self.bar(now, java::in_doubt(self.rules.words.name), false, pause_ms);
        }
        if !self.serving && !self.barred && !self.clock_differs {
            match self.claimed().cloned() {
                Some(memory) if !self.is_over(&memory, now) => {
                    self.serving = true;
                    self.effects.push(ClaimEffect::Serve {
                        worker: memory.worker,
                        start_ms: memory.ceiling_ms,
                        limit_ms: memory.limit_ms,
                    });
                }
                Some(_) => self.stop(format!("{}: {why}", self.rules.fenced()), false),
                None => {
                    let known = java::without_registry(self.standing, &self.rules.words);
                    self.stop(format!("{known}: {why}"), false);
                }
            }
        }
        self.effects.push(ClaimEffect::Trouble(why));
        self.pause(now, pause_ms);
    }

    /// Whether the time without a report is over.
    fn is_over(&self, memory: &RememberedClaim, now: Moment) -> bool {
        now.clock_ms.max(memory.ceiling_ms) >= memory.limit_ms
            || now.boot_ms >= memory.reported_boot_ms.saturating_add(self.rules.fence_after_ms)
    }

    /// What this instance itself may have issued with `worker` lies before this (ms since 1970).
    fn used_until(&self, worker: u64) -> u64 {
        let memory = self.memory.as_ref().filter(|memory| memory.worker == worker);
        memory.map_or(0, |memory| memory.ceiling_ms)
    }

    fn claim(&mut self, now: Moment, claim: Claim) {
        let claim_worker = claim.name.sequence();
        let registered = RegisteredClaim {
            name: claim.name,
            leaf_version: claim.leaf_version,
            holder_version: claim.holder_version,
            settle_until: (claim.phase == ClaimPhase::Settling)
                .then(|| now.boot_ms + self.rules.settle_ms),
            start_ms: claim.start_ms.max(self.used_until(claim_worker)),
            limit_ms: claim.limit_ms,
        };
        self.stage =
            ClaimStage::Committing { ops: claim.ops, then: AfterCommit::Register(registered) };
    }

    fn committed(&mut self, now: Moment, then: AfterCommit) {
        match then {
            AfterCommit::Register(registered) => {
                if !self.serving {
                    let worker = registered.name.sequence();
                    let why = match registered.settle_until {
                        Some(_) => format!("worker ID {worker} is new; used in a few seconds"),
                        None => format!("worker ID {worker} is claimed; checking the clock"),
                    };
                    self.stop(why, true);
                }
                self.created = None;
                if let Some(memory) = &mut self.memory
                    && memory.worker == registered.name.sequence()
                {
                    // Holds even if the registry does not answer from here on.
                    memory.ceiling_ms = memory.ceiling_ms.max(registered.start_ms);
                }
                self.registered = Some(registered);
            }
            AfterCommit::Settled => {
                if let Some(registered) = &mut self.registered {
                    registered.settle_until = None;
                    registered.holder_version += 1;
                }
            }
            AfterCommit::Report { limit_ms } => self.reported(now, limit_ms),
            AfterCommit::Abandoned { pause_ms } => self.pause(now, pause_ms),
        }
    }
}

#[cfg(test)]
#[path = "claimant_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rules_tests.rs"]
mod rules_tests;
