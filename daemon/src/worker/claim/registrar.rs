//! The order of what a claim does outside of the registry: what must be on disk before a write, what the
//! issuer hears and when, and what comes at the end. A plain state machine around the [`Claimant`]:
//! [`Registrar::next`] says what to do, the shell does it and brings the outcome. The simulation of a
//! fleet drives the same machine.

use std::collections::VecDeque;

use super::claimant::Claimant;
use super::instance::{ClaimRules, Instance, InstanceAddress};
use super::step::{ClaimAction, ClaimEffect, ClaimOutcome, Moment, RememberedClaim};
use super::write::RegistryWrite;
use crate::state::worker_file::{SharedClaim, Standing, WorkerRecord};

/// How many earlier lives are remembered by name.
pub(crate) const MOST_NONCES: usize = 8;

/// Requests wait during this write: a caller that hears why there are no IDs may rely on its being on
/// disk.
const RECORDING: &str = "that something else writes this instance's node is being recorded";

#[derive(Debug, Clone)]
pub(crate) struct RegistrarSettings {
    /// What the worker file calls the registry.
    pub(crate) registry: String,
    pub(crate) rules: ClaimRules,
    /// As configuration writes it.
    pub(crate) layout: String,
    /// The largest worker ID of the layout.
    pub(crate) max_worker: u64,
}

/// What a start of leafd takes from its host.
#[derive(Debug, Clone)]
pub(crate) struct LifeStart {
    /// A name that no other life has.
    pub(crate) nonce: String,
    /// The boot's name, empty if it has none, and the milliseconds since.
    pub(crate) boot: String,
    pub(crate) boot_ms: u64,
    /// For waits that keep instances out of step.
    pub(crate) seed: u64,
}

/// What to do next. [`Registrar::next`] is called again when it is done, after the outcome was
/// brought, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistrarTask {
    Tell(IssuerOrder),
    /// Write this into the worker file. The outcome goes to [`Registrar::remembered`].
    Remember(SharedClaim),
    /// Wait a second before another attempt to write.
    Rest,
    /// The outcome goes to [`Registrar::done`]; a pause has none.
    Act(ClaimAction),
    /// Write this for the last time, if the registry can be reached. Nothing depends on it.
    Leave(Vec<RegistryWrite>),
    End,
}

/// What the issuer and the log get to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IssuerOrder {
    /// Issue with this worker ID, from `start_ms` on and below `limit_ms` (ms since 1970).
    Begin {
        worker: u64,
        start_ms: u64,
        limit_ms: u64,
        shared: SharedClaim,
        /// The registry has confirmed it. If not, the worker file alone says so.
        is_registered: bool,
    },
    /// Times below `limit_ms` may be used (ms since 1970).
    Reported { limit_ms: u64, shared: SharedClaim },
    /// No IDs; `soon` lets requests wait.
    Suspend { why: String, soon: bool },
    /// No IDs for a moment. Requests wait, and the log need not know.
    Hold { why: &'static str },
    /// The registry's last call failed.
    Trouble(String),
    /// It succeeded again.
    Fine,
    /// The worker ID is kept, since the worker file could not be written.
    NotGivenBack(String),
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    NotYet,
    Asked,
    /// The worker ID is being taken out of the worker file.
    Forgetting,
    Closing,
    Over,
}

#[derive(Debug)]
pub(crate) struct Registrar {
    pub(super) claimant: Claimant,
    /// What the worker file says of the claim, or is to say.
    shared: SharedClaim,
    nonce: String,
    boot: String,
    /// Whether the worker ID is given back at the end.
    give_back: bool,
    /// What is to be done before the claimant is asked again.
    pub(super) queue: VecDeque<RegistrarTask>,
    /// What is being written into the worker file.
    remembering: Option<SharedClaim>,
    /// An action that waits for the queue.
    pending: Option<ClaimAction>,
    leaving: Leaving,
}

/// What the worker file says of a claim in this registry, if it is of this identity.
fn remembered_claim(
    file: &WorkerRecord,
    settings: &RegistrarSettings,
    identity: &str,
    start: &LifeStart,
) -> Option<RememberedClaim> {
    let shared = file.shared.as_ref()?;
    let is_ours = shared.registry == settings.registry
        && file.identity == identity
        && file.layout == settings.layout;
    let worker = file.worker.filter(|worker| is_ours && *worker <= settings.max_worker)?;
    let reported_boot_ms = match &shared.reported {
        Some((boot, ms)) if *boot == start.boot => (*ms).min(start.boot_ms),
        // Before a boot: the limit in time still holds.
        _ => start.boot_ms,
    };
    let (ceiling_ms, limit_ms) = (file.ceiling_ms, shared.limit_ms);
    Some(RememberedClaim { worker, ceiling_ms, limit_ms, reported_boot_ms })
}

impl Registrar {
    /// One for the instance at `address`. `file` is what the worker file says.
    pub(crate) fn new(
        settings: RegistrarSettings,
        address: InstanceAddress,
        file: &WorkerRecord,
        start: LifeStart,
    ) -> Self {
        let memory = remembered_claim(file, &settings, &address.identity, &start);
        let RegistrarSettings { registry, rules, layout, max_worker } = settings;
        let past = file.shared.clone().filter(|shared| shared.registry == registry);
        let past = past.unwrap_or_default();
        let limit_ms = memory.as_ref().map_or(0, |memory| memory.limit_ms);
        let SharedClaim { nonces, reported, standing, .. } = past;
        // A standing is about the nodes of the identity that it was written with.
        let of_identity = if file.identity == address.identity { standing } else { Standing::Own };
        let LifeStart { nonce, boot, seed, .. } = start;
        let earlier = nonces.clone();
        let me = Instance { address, nonce: nonce.clone(), earlier, layout, max_worker };
        Self {
            claimant: Claimant::new(me, rules, memory, of_identity, seed),
            shared: SharedClaim { registry, nonces, limit_ms, reported, standing },
            nonce,
            boot,
            give_back: false,
            queue: VecDeque::new(),
            remembering: None,
            pending: None,
            leaving: Leaving::NotYet,
        }
    }

    /// From now on only what ends the claim, which gives the worker ID back or keeps it. An action that
    /// has not begun is dropped.
    pub(crate) fn stop(&mut self, give_back: bool) {
        if self.leaving == Leaving::NotYet {
            self.leaving = Leaving::Asked;
            self.give_back = give_back;
            self.pending = None;
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.leaving != Leaving::NotYet
    }

    /// What to do now.
    pub(crate) fn next(&mut self, now: Moment) -> RegistrarTask {
        loop {
            if let Some(task) = self.queue.pop_front() {
                if let RegistrarTask::Remember(shared) = &task {
                    self.remembering = Some(shared.clone());
                }
                return task;
            }
            match (self.leaving, self.pending.take()) {
                (Leaving::NotYet, Some(action)) if action.is_write() && !self.has_left_name() => {
                    self.leave_name();
                    self.pending = Some(action);
                }
                (Leaving::NotYet, Some(action)) => return RegistrarTask::Act(action),
                (Leaving::NotYet, None) => {
                    self.pending = Some(self.claimant.action(now));
                    self.take_effects(now);
                }
                // First out of the file: afterwards it may be anybody's.
                (Leaving::Asked, _) if self.give_back => {
                    self.leaving = Leaving::Forgetting;
                    self.shared.limit_ms = 0;
                    self.remember();
                }
                (Leaving::Asked | Leaving::Closing, _) => {
                    self.leaving = Leaving::Over;
                    if let Some(writes) = self.claimant.closing(now, self.give_back) {
                        return RegistrarTask::Leave(writes);
                    }
                }
                (Leaving::Forgetting | Leaving::Over, _) => return RegistrarTask::End,
            }
        }
    }

    /// Takes the outcome of an action.
    pub(crate) fn done(&mut self, now: Moment, outcome: ClaimOutcome) {
        self.claimant.done(now, outcome);
        self.take_effects(now);
    }

    /// Takes the outcome of a [`RegistrarTask::Remember`]. A write that failed is tried again, for as long as
    /// leafd runs.
    pub(crate) fn remembered(&mut self, outcome: Result<(), String>) {
        let shared = self.remembering.take();
        match (self.leaving, outcome) {
            (Leaving::Forgetting, Ok(())) => self.leaving = Leaving::Closing,
            (_, Ok(())) => {}
            (Leaving::Forgetting, Err(why)) => {
                self.leaving = Leaving::Over;
                self.tell(IssuerOrder::NotGivenBack(why));
            }
            (Leaving::NotYet, Err(why)) => {
                if let Some(shared) = shared {
                    self.queue.push_front(RegistrarTask::Remember(shared));
                }
                self.queue.push_front(RegistrarTask::Rest);
                // An issuer that issues goes on up to its ceiling.
                if !self.claimant.is_serving() {
                    let why = format!("the worker file cannot be written: {why}");
                    self.queue
                        .push_front(RegistrarTask::Tell(IssuerOrder::Suspend { why, soon: false }));
                }
            }
            (_, Err(_)) => self.queue.clear(),
        }
    }

    fn tell(&mut self, order: IssuerOrder) {
        self.queue.push_back(RegistrarTask::Tell(order));
    }

    fn remember(&mut self) {
        self.queue.push_back(RegistrarTask::Remember(self.shared.clone()));
    }

    fn has_left_name(&self) -> bool {
        self.shared.nonces.first() == Some(&self.nonce)
    }

    /// The name of this life has to be on disk before it is in the registry. Not sooner: lives that
    /// never reach the registry would push those names out that are in it.
    fn leave_name(&mut self) {
        self.shared.nonces.insert(0, self.nonce.clone());
        self.shared.nonces.truncate(MOST_NONCES);
        self.remember();
    }

    fn take_effects(&mut self, now: Moment) {
        for effect in self.claimant.effects() {
            match effect {
                ClaimEffect::Serve { worker, start_ms, limit_ms } => {
                    self.shared.limit_ms = limit_ms;
                    self.shared.standing = Standing::Own;
                    let (shared, is_registered) =
                        (self.shared.clone(), self.claimant.is_registered());
                    self.tell(IssuerOrder::Begin {
                        worker,
                        start_ms,
                        limit_ms,
                        shared,
                        is_registered,
                    });
                }
                ClaimEffect::Reported { limit_ms } => {
                    self.shared.limit_ms = limit_ms;
                    self.shared.standing = Standing::Own;
                    self.shared.reported = Some((self.boot.clone(), now.boot_ms));
                    self.tell(IssuerOrder::Reported { limit_ms, shared: self.shared.clone() });
                }
                ClaimEffect::Stop { why, soon } => self.tell(IssuerOrder::Suspend { why, soon }),
                ClaimEffect::Lost => {
                    let why = "the worker ID is no longer this instance's".to_owned();
                    self.tell(IssuerOrder::Suspend { why, soon: true });
                    self.shared.limit_ms = 0;
                    self.remember();
                }
                ClaimEffect::Contested { why } => {
                    self.tell(IssuerOrder::Hold { why: RECORDING });
                    self.shared.limit_ms = 0;
                    self.shared.standing = Standing::Contested;
                    self.remember();
                    self.tell(IssuerOrder::Suspend { why, soon: false });
                }
                ClaimEffect::Trouble(why) => self.tell(IssuerOrder::Trouble(why)),
                ClaimEffect::Fine => self.tell(IssuerOrder::Fine),
            }
        }
    }
}

#[cfg(test)]
#[path = "registrar_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod fleet_tests;
