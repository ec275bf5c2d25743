//! What happens to the hosts of a simulation, and to the tree.

use std::collections::HashMap;

use super::super::model::{Folder, Tree};
use super::super::plan;
use super::super::registrar::RegistrarTask;
use super::super::step::ClaimAction;
use super::{Call, HOUR, LAYOUT, REGISTRY, SimulatedWorld};
use crate::state::worker_file::{Standing, WorkerRecord};
use crate::worker::peers::Verdict;
use crate::worker::registry::zookeeper::hand_back::{self, Giver, HandOver};

impl SimulatedWorld {
    /// What it is doing at the moment is done later, or never.
    pub(crate) fn kill(&mut self, at: usize) {
        let now = self.now_of(at);
        let is_sent = self.hosts[at].cut_off.is_none() && self.random.bool();
        let host = &mut self.hosts[at];
        let Some(life) = &host.life else { return };
        let (session, is_reading) = (life.session, life.reading.is_some());
        if let Some(session) = session.filter(|_| is_sent && !is_reading) {
            let action = host.next_action(now);
            self.send_late(at, session, action);
        }
        let end = self.now + self.rules.session_ms;
        self.ending.extend(session.map(|session| (end, session)));
        self.hosts[at].life = None;
    }

    pub(super) fn send_late(&mut self, at: usize, session: u64, action: ClaimAction) {
        let call = match action {
            ClaimAction::Commit(writes) => Call::Commit(writes),
            ClaimAction::Create(leaf) => Call::Create(self.hosts[at].identity.clone(), leaf),
            _ => return,
        };
        let at = self.now + self.random.u64(0..2000);
        self.late.push((at, session, call));
    }

    /// In good order, as far as the registry is in reach.
    pub(crate) fn stop(&mut self, at: usize, give_back: bool) {
        let host = &mut self.hosts[at];
        let Some(life) = &mut host.life else { return };
        // The issuer is closed first.
        if let Some(issuing) = life.issuing.take() {
            life.file.ceiling_ms = issuing.next;
            host.disk = life.file.clone();
        }
        let ceiling_ms = if life.has_begun { life.file.ceiling_ms } else { 0 };
        let mut now = self.now_of(at);
        now.ceiling_ms = ceiling_ms;
        let host = &mut self.hosts[at];
        let Some(mut life) = host.life.take() else { return };
        let ensemble = self.ensemble.clone();
        let session = life.session.filter(|id| !ensemble.lock().unwrap().ended.contains(id));
        let reached = session.filter(|_| host.cut_off.is_none() && !self.is_down);
        let zk_now = self.zk_now();
        let host = &mut self.hosts[at];
        life.registrar.stop(give_back);
        loop {
            match life.registrar.next(now) {
                RegistrarTask::Remember(shared) => {
                    host.disk = life.record(shared);
                    life.registrar.remembered(Ok(()));
                }
                RegistrarTask::Leave(writes) => {
                    if let Some(session) = reached {
                        ensemble.lock().unwrap().tree.execute(&writes, session, zk_now);
                    }
                }
                // The issuer listens no more.
                RegistrarTask::Tell(_) => {}
                RegistrarTask::End => break,
                other => panic!("{other:?} at the end"),
            }
        }
        match (reached, session) {
            (Some(session), _) => self.end(session),
            (None, Some(session)) => self.ending.push((self.now + self.rules.session_ms, session)),
            (None, None) => {}
        }
    }

    pub(crate) fn end(&mut self, session: u64) {
        let mut ensemble = self.ensemble();
        ensemble.ended.insert(session);
        ensemble.tree.end_session(session);
    }

    /// The ensemble ends the session of a host that it hears of.
    pub(crate) fn expire(&mut self, at: usize) {
        let notices = self.random.bool();
        let Some(life) = &mut self.hosts[at].life else { return };
        let session = if notices { life.session.take() } else { life.session };
        if notices {
            life.reading = None;
        }
        if let Some(session) = session {
            self.end(session);
        }
    }

    pub(crate) fn freeze(&mut self, at: usize, ms: u64) {
        self.hosts[at].frozen_until = self.now + ms;
        let session = self.hosts[at].life.as_ref().and_then(|life| life.session);
        if let Some(session) = session.filter(|_| ms > self.rules.session_ms) {
            self.ending.push((self.now + self.rules.session_ms, session));
        }
    }

    /// The ensemble's data is put back to what it was, or deleted. Whoever has a worker ID is
    /// connected, and connects again.
    pub(crate) fn put_tree_back(&mut self, tree: Option<Tree>) {
        match tree {
            Some(tree) => self.ensemble().tree = tree,
            None => self.ensemble().tree.wipe(),
        }
        self.late.clear();
        self.is_put_back = true;
        for at in 0..self.hosts.len() {
            if self.hosts[at]
                .life
                .as_ref()
                .is_none_or(|life| !life.registrar.claimant.is_registered())
            {
                self.kill(at);
                if let Some(shared) = &mut self.hosts[at].disk.shared {
                    shared.limit_ms = 0;
                }
            }
            if let Some(life) = &mut self.hosts[at].life {
                (life.session, life.reading) = (None, None);
            }
        }
        let end = self.now + self.rules.session_ms;
        let sessions = self.ensemble().tree.sessions();
        self.ending.extend(sessions.into_iter().map(|session| (end, session)));
    }

    /// Another server answers from now on, with a clock of its own.
    pub(crate) fn fail_over(&mut self) {
        self.registry_offset = self.random.i64(-30..=30) * i64::try_from(HOUR).unwrap();
        self.ensemble().epoch += 1;
        self.pass(0);
    }

    /// The owner of each worker ID in the tree.
    pub(crate) fn owners(&self) -> HashMap<u64, String> {
        let names = self.ensemble().tree.names(Folder::Owned);
        names.iter().map(|name| (name.sequence(), name.identity().to_owned())).collect()
    }

    /// The ensemble is gone. Its sessions outlast that, as those of one that is started again do.
    pub(crate) fn go_down(&mut self) {
        self.is_down = true;
        self.ensemble().outages += 1;
        self.late.clear();
    }

    /// It is there again; of several servers, another may lead.
    pub(crate) fn come_back(&mut self) {
        self.is_down = false;
        let is_another = self.random.bool();
        self.ensemble().epoch += i64::from(is_another);
    }

    /// An operator asks for the release of whatever this identity has, as often as it takes.
    pub(crate) fn ask_for_release(&mut self, at: usize) {
        if self.is_down {
            return;
        }
        let (vantage, now, zk_now) = (self.vantage(), self.now, self.zk_now());
        let view = self.look(&self.hosts[at].identity);
        for entry in &view.entries {
            let quiet = self.watch.see(vantage, (now, now), &entry.name, entry.stamp());
            if plan::is_written_by_others(entry) && quiet.is_enough() {
                self.execute(&plan::release(entry, zk_now));
            }
        }
    }

    /// `leafd hand-back` on a host whose leafd is stopped. Says whether Java Leaf may start.
    pub(crate) fn hand_back(&mut self, at: usize) -> bool {
        if self.is_down || self.hosts[at].life.is_some() {
            return false;
        }
        let view = self.look(&self.hosts[at].identity);
        let host = &mut self.hosts[at];
        let (identity, ceiling_ms) = (&host.identity, host.disk.ceiling_ms);
        let giver = Giver { identity, nonces: host.nonces(), ceiling_ms };
        let Ok(hand_over) = hand_back::hand_over(&giver, &view) else { return false };
        let shared = host.disk.shared.get_or_insert_default();
        REGISTRY.clone_into(&mut shared.registry);
        (shared.limit_ms, shared.standing) = (0, Standing::HandedBack);
        host.disk.identity.clone_from(&host.identity);
        LAYOUT.clone_into(&mut host.disk.layout);
        match hand_over {
            HandOver::After { ops, until_ms, .. } => {
                (ops.is_empty() || self.execute(&ops)) && until_ms < self.clock(at)
            }
            HandOver::NoNode { until_ms } | HandOver::IsJavas { until_ms, .. } => {
                until_ms < self.clock(at)
            }
        }
    }

    pub(crate) fn reboot(&mut self, at: usize) {
        self.kill(at);
        self.hosts[at].booted_at = self.now;
    }

    pub(crate) fn lose_disk(&mut self, at: usize) {
        self.kill(at);
        self.hosts[at].disk = WorkerRecord::fresh();
    }

    /// The disk of one host, as it is, in another one.
    pub(crate) fn copy_disk(&mut self, from: usize, to: usize) {
        self.hosts[to].disk = self.hosts[from].disk.clone();
    }

    /// An operator frees the worker IDs of a host that is gone with its disk.
    pub(crate) fn release(&mut self, at: usize) {
        self.lose_disk(at);
        let zk_now = self.zk_now();
        for entry in self.look(&self.hosts[at].identity).entries {
            // Not while its session lasts.
            self.execute(&plan::release(&entry, zk_now));
        }
    }

    /// Nothing is wrong any more, and all run.
    pub(crate) fn heal(&mut self) {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            (host.cut_off, host.offset, host.frozen_until) = (None, 0, 0);
            if host.life.is_none() {
                self.start(at);
            }
        }
        self.verdict = Verdict::NobodyAnswered;
    }
}
