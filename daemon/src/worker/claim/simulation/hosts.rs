//! A host of a simulation: the production registrar, and a model of issuer and worker file.

use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;

use super::super::registrar::{IssuerOrder, Registrar, RegistrarTask};
use super::super::step::{ClaimAction, ClaimOutcome, Moment};
use super::super::view::RegistryView;
use super::LAYOUT;
use crate::snowflake::last_use::LastUse;
use crate::state::worker_file::{SharedClaim, WorkerRecord};
use crate::worker::registry::RegistryError;

/// What the sequencer knows.
#[derive(Debug)]
pub(crate) struct SimulatedIssuing {
    pub(crate) worker: u64,
    pub(crate) next: u64,
    pub(crate) ceiling_ms: u64,
    pub(crate) limit_ms: u64,
    pub(crate) last_use: LastUse,
    /// A request waits for a report.
    pub(crate) is_awaited: bool,
}

/// One life of one instance.
pub(crate) struct SimulatedLife {
    pub(crate) registrar: Registrar,
    pub(super) issuing: Option<SimulatedIssuing>,
    /// What the next write of the worker file says.
    pub(super) file: WorkerRecord,
    pub(super) has_begun: bool,
    pub(super) session: Option<u64>,
    pub(super) reading: Option<BoxFuture<'static, Result<RegistryView, RegistryError>>>,
    pub(crate) why: String,
}

pub(crate) struct SimulatedHost {
    pub(super) identity: String,
    /// The worker file.
    pub(crate) disk: WorkerRecord,
    pub(crate) life: Option<SimulatedLife>,
    /// How far its clock is ahead.
    pub(crate) offset: i64,
    /// Since when it does not reach the registry.
    pub(crate) cut_off: Option<u64>,
    /// It does nothing before this, and does not know.
    pub(super) frozen_until: u64,
    pub(super) booted_at: u64,
}

impl SimulatedLife {
    /// The next piece of the reading, or all of it; `None` when it goes on.
    pub(super) fn read(&mut self, all: bool) -> Option<ClaimOutcome> {
        let reading = self.reading.as_mut()?;
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match reading.as_mut().poll(&mut context) {
                Poll::Ready(view) => return Some(ClaimOutcome::Looked(Box::new(view.unwrap()))),
                Poll::Pending if all => {}
                Poll::Pending => return None,
            }
        }
    }

    fn suspend(&mut self) {
        if let Some(issuing) = self.issuing.take() {
            self.file.ceiling_ms = issuing.ceiling_ms;
        }
    }

    /// What the issuer does with an order.
    fn tell(&mut self, order: IssuerOrder, identity: &str, boot_ms: u64) {
        match order {
            IssuerOrder::Begin { worker, start_ms, limit_ms, shared, .. } => {
                let used = if self.file.worker == Some(worker) { self.file.ceiling_ms } else { 0 };
                let next = start_ms.max(used);
                assert!(self.issuing.is_none(), "begins while it issues");
                self.issuing = Some(SimulatedIssuing {
                    worker,
                    next,
                    ceiling_ms: next,
                    limit_ms,
                    last_use: LastUse { clock_ms: next, boot_ms },
                    is_awaited: false,
                });
                self.has_begun = true;
                self.file = WorkerRecord {
                    worker: Some(worker),
                    identity: identity.to_owned(),
                    layout: LAYOUT.to_owned(),
                    ceiling_ms: next,
                    shared: Some(shared),
                };
            }
            IssuerOrder::Reported { limit_ms, shared } => {
                if let Some(issuing) = &mut self.issuing {
                    issuing.limit_ms = limit_ms;
                }
                self.file.shared = Some(shared);
            }
            IssuerOrder::Suspend { why, .. } => {
                self.suspend();
                self.why = why;
            }
            IssuerOrder::Hold { .. } => self.suspend(),
            IssuerOrder::Trouble(_) | IssuerOrder::Fine | IssuerOrder::NotGivenBack(_) => {}
        }
    }

    /// What is written into the worker file.
    pub(super) fn record(&mut self, shared: SharedClaim) -> WorkerRecord {
        self.file.shared = Some(shared);
        let in_use = self.issuing.as_ref().map_or(0, |issuing| issuing.ceiling_ms);
        WorkerRecord { ceiling_ms: self.file.ceiling_ms.max(in_use), ..self.file.clone() }
    }
}

impl SimulatedHost {
    /// The name of the present boot.
    pub(super) fn boot(&self) -> String {
        format!("the boot of {}", self.booted_at)
    }

    /// The names of the lives that the disk knows.
    pub(crate) fn nonces(&self) -> &[String] {
        self.disk.shared.as_ref().map_or(&[], |shared| &shared.nonces)
    }

    /// What the registrar wants to do next, after everything that comes before it.
    pub(super) fn next_action(&mut self, now: Moment) -> ClaimAction {
        loop {
            let life = self.life.as_mut().unwrap();
            match life.registrar.next(now) {
                RegistrarTask::Tell(order) => life.tell(order, &self.identity, now.boot_ms),
                RegistrarTask::Remember(shared) => {
                    self.disk = life.record(shared);
                    life.registrar.remembered(Ok(()));
                }
                RegistrarTask::Act(action) => return action,
                other => panic!("{other:?} before the end"),
            }
        }
    }

    /// What follows from an outcome is done at once.
    pub(super) fn obey(&mut self, now: Moment) {
        while let Some(life) = &mut self.life
            && !life.registrar.queue.is_empty()
        {
            match life.registrar.next(now) {
                RegistrarTask::Tell(order) => life.tell(order, &self.identity, now.boot_ms),
                RegistrarTask::Remember(shared) => {
                    self.disk = life.record(shared);
                    life.registrar.remembered(Ok(()));
                }
                other => panic!("{other:?} in the queue"),
            }
        }
    }

    /// One ID, if it may, at what its clock says: worker ID and time.
    pub(crate) fn issue(&mut self, clock: u64, now: u64, ahead: u64) -> Option<(u64, u64)> {
        let boot_ms = now - self.booted_at;
        let life = self.life.as_mut()?;
        let issuing = life.issuing.as_mut()?;
        // A sequencer leads its clock by a little at most, and refuses behind it.
        let time = clock.max(issuing.next);
        issuing.is_awaited = time <= clock + 10 && time >= issuing.limit_ms;
        if time > clock + 10 || issuing.is_awaited {
            return None;
        }
        if time >= issuing.ceiling_ms {
            // On disk before it is used.
            issuing.ceiling_ms = (time + ahead).min(issuing.limit_ms);
            self.disk = life.file.clone();
            self.disk.ceiling_ms = issuing.ceiling_ms;
        }
        issuing.next = time + 1;
        issuing.last_use = LastUse { clock_ms: clock, boot_ms };
        Some((issuing.worker, time))
    }
}
