//! What happens to the hosts of a simulation, and to the tree.

use crate::worker::registry::zookeeper::hand_back::{self, Giver, HandOver};
use super::super::model::Tree;
use super::super::plan;
use super::super::step::Action;
use super::{Call, Disk, World};
use crate::state::worker_file::Standing;
use crate::worker::peers::Verdict;

impl World {
    /// What it is doing at the moment is done later, or never.
    pub(crate) fn kill(&mut self, at: usize) {
        let now = self.now_of(at);
        let is_sent = self.hosts[at].cut_off.is_none() && self.random.bool();
        let Some(life) = &mut self.hosts[at].life else { return };
        let session = life.session;
        if let Some(session) = session.filter(|_| is_sent && life.reading.is_none()) {
            let action = life.claimant.action(now);
            if matches!(action, Action::Commit(_) | Action::Create { .. }) {
                self.hosts[at].leave_name();
            }
            self.send_late(session, action);
        }
        let end = self.now + self.rules.session_ms;
        self.ending.extend(session.map(|session| (end, session)));
        self.hosts[at].life = None;
    }

    pub(crate) fn send_late(&mut self, session: u64, action: Action) {
        let call = match action {
            Action::Commit(ops) => Call::Commit(ops),
            Action::Create { prefix, data } => Call::Create(prefix, data),
            _ => return,
        };
        let at = self.now + self.random.u64(0..2000);
        self.late.push((at, session, call));
    }

    /// In good order, as far as the tree is in reach.
    pub(crate) fn stop(&mut self, at: usize, give_back: bool) {
        let mut now = self.now_of(at);
        let zk_now = self.zk_now();
        let host = &mut self.hosts[at];
        let Some(mut life) = host.life.take() else { return };
        if let Some(issuing) = life.issuing.take() {
            life.file.ceiling_ms = issuing.next;
            host.disk = life.file.clone();
        }
        if give_back {
            life.file.limit_ms = 0;
            host.disk = life.file.clone();
        }
        now.ceiling_ms = if life.has_begun { life.file.ceiling_ms } else { 0 };
        let Some(session) = life.session.filter(|session| !self.ended.contains(session)) else {
            return;
        };
        if host.cut_off.is_some() {
            return self.ending.push((self.now + self.rules.session_ms, session));
        }
        if let Some(ops) = life.claimant.closing(now, give_back) {
            self.tree.execute(&ops, session, zk_now);
        }
        self.end(session);
    }

    pub(crate) fn end(&mut self, session: u64) {
        self.ended.insert(session);
        self.tree.end_session(session);
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
            Some(tree) => self.tree = tree,
            None => self.tree.wipe(),
        }
        self.late.clear();
        self.is_put_back = true;
        for at in 0..self.hosts.len() {
            if self.hosts[at].life.as_ref().is_none_or(|life| !life.claimant.is_registered()) {
                self.kill(at);
                self.hosts[at].disk.limit_ms = 0;
            }
            if let Some(life) = &mut self.hosts[at].life {
                (life.session, life.reading) = (None, None);
            }
        }
        let end = self.now + self.rules.session_ms;
        self.ending.extend(self.tree.sessions().into_iter().map(|session| (end, session)));
    }

    /// The ensemble is gone. Its sessions outlast that, as those of one that is started again do.
    pub(crate) fn go_down(&mut self) {
        self.is_down = true;
        self.outages += 1;
        self.late.clear();
    }

    /// It is there again; of several servers, another may lead.
    pub(crate) fn come_back(&mut self) {
        self.is_down = false;
        self.epoch += i64::from(self.random.bool());
    }

    /// An operator asks for the release of whatever this identity has, as often as it takes.
    pub(crate) fn ask_for_release(&mut self, at: usize) {
        if self.is_down {
            return;
        }
        let (vantage, now, zk_now) = (self.vantage(0), self.now, self.zk_now());
        let view = self.look(&self.hosts[at].identity);
        for entry in &view.entries {
            let quiet = self.watch.see(vantage, (now, now), &entry.name, entry.sight());
            if plan::is_written_by_others(entry) && quiet.is_enough() {
                self.tree.execute(&plan::release(entry, zk_now), 0, zk_now);
            }
        }
    }

    /// `leafd hand-back` on a host whose leafd is stopped. Says whether Java Leaf may start.
    pub(crate) fn hand_back(&mut self, at: usize) -> bool {
        if self.is_down || self.hosts[at].life.is_some() {
            return false;
        }
        let (view, zk_now) = (self.look(&self.hosts[at].identity), self.zk_now());
        let host = &mut self.hosts[at];
        let giver = Giver {
            identity: &host.identity,
            nonces: &host.disk.nonces,
            ceiling_ms: host.disk.ceiling_ms,
        };
        let Ok(hand_over) = hand_back::hand_over(&giver, &view) else { return false };
        (host.disk.limit_ms, host.disk.standing) = (0, Standing::HandedBack);
        match hand_over {
            HandOver::After { ops, until_ms, .. } => {
                (ops.is_empty() || self.tree.execute(&ops, 0, zk_now)) && until_ms < self.clock(at)
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
        self.hosts[at].disk = Disk::default();
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
            self.tree.execute(&plan::release(&entry, zk_now), 0, zk_now);
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
