//! A fleet in a simulation: hosts with disks, clocks and sessions around a tree in memory, in place
//! of registrar, issuer and worker file; and one rule, that no worker ID is used twice with one
//! time.

mod hosts;
mod java;
mod mishaps;

use std::collections::{HashMap, HashSet};

use fastrand::Rng;

use self::hosts::{Disk, Host, Life};
pub(crate) use self::java::JavaLeaf;
use super::claimant::Claimant;
use super::model::{Reading, Tree};
use super::name::NodeName;
use super::plan::{Me, Rules};
use super::quiet::{Vantage, Watch};
use super::record::Holder;
use super::step::{Action, Memory, Now, Outcome};
use super::view::{Op, View, Wanted};
use crate::safety::REPORT_MS;
use crate::worker::peers::Verdict;

pub(crate) const SECOND: u64 = 1000;
pub(crate) const HOUR: u64 = 3600 * SECOND;
pub(crate) const BEGIN: u64 = 1_700_000_000_000;

pub(crate) const RULES: Rules = Rules {
    reclaim_after_ms: Some(24 * HOUR),
    fence_after_ms: 12 * HOUR,
    session_ms: 10 * SECOND,
    report_ms: REPORT_MS,
    settle_ms: 5 * SECOND,
};

/// A write on its way.
enum Call {
    Commit(Vec<Op>),
    Create(String, Vec<u8>),
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It is executed, and nobody hears of it.
    Unheard,
    /// It never arrives.
    Lost,
    /// It is executed later, when the caller has given it up, and its session.
    Late,
}

pub(crate) struct World {
    pub(crate) tree: Tree,
    pub(crate) hosts: Vec<Host>,
    pub(crate) now: u64,
    pub(crate) random: Rng,
    pub(crate) rules: Rules,
    max_worker: u64,
    numbers: u64,
    pub(crate) issued: HashMap<(u64, u64), usize>,
    /// Sessions that nobody keeps, and when they end.
    ending: Vec<(u64, u64)>,
    ended: HashSet<u64>,
    late: Vec<(u64, u64, Call)>,
    /// The ensemble's.
    epoch: i64,
    /// Nobody reaches the ensemble.
    pub(crate) is_down: bool,
    /// So many outages so far.
    outages: u64,
    /// Of whoever administers.
    watch: Watch,
    /// The tree knows less than it did.
    is_put_back: bool,
    /// What the other instances say of the clock.
    pub(crate) verdict: Verdict,
}

impl World {
    pub(crate) fn new(seed: u64, identities: &[&str], max_worker: u64) -> Self {
        let host = |identity: &&str| Host {
            identity: (*identity).to_owned(),
            disk: Disk::default(),
            life: None,
            offset: 0,
            cut_off: None,
            frozen_until: 0,
            booted_at: 0,
        };
        Self {
            tree: Tree::new("layout"),
            hosts: identities.iter().map(host).collect(),
            now: 0,
            random: Rng::with_seed(seed),
            rules: RULES,
            max_worker,
            numbers: 0,
            issued: HashMap::new(),
            ending: Vec::new(),
            ended: HashSet::new(),
            late: Vec::new(),
            epoch: 1,
            is_down: false,
            outages: 0,
            watch: Watch::default(),
            is_put_back: false,
            verdict: Verdict::NobodyAnswered,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn zk_now(&self) -> u64 {
        BEGIN + self.now
    }

    fn vantage(&self, session: i64) -> Vantage {
        let (disturbances, session_ms) = (self.outages, self.rules.session_ms);
        Vantage { session, disturbances, epoch: self.epoch, session_ms }
    }

    pub(crate) fn clock(&self, at: usize) -> u64 {
        self.zk_now().saturating_add_signed(self.hosts[at].offset)
    }

    pub(crate) fn start(&mut self, at: usize) {
        let nonce = format!("n{}", self.number());
        let seed = self.random.u64(..);
        let boot_ms = self.now - self.hosts[at].booted_at;
        let host = &mut self.hosts[at];
        let memory = host.disk.worker.map(|worker| Memory {
            worker,
            ceiling_ms: host.disk.ceiling_ms,
            limit_ms: host.disk.limit_ms,
            reported_boot_ms: match host.disk.reported {
                Some((boot, ms)) if boot == host.booted_at => ms.min(boot_ms),
                _ => boot_ms,
            },
        });
        let earlier = host.disk.nonces.clone();
        let me = Me {
            identity: host.identity.clone(),
            leaf_ip: "10.0.0.1".into(),
            leaf_port: "1".into(),
            peer_ip: "10.0.0.1".into(),
            peer_port: 1,
            nonce: nonce.clone(),
            earlier,
            layout: "layout".into(),
            max_worker: self.max_worker,
        };
        host.life = Some(Life {
            claimant: Claimant::new(me, self.rules, memory, host.disk.standing, seed),
            nonce,
            issuing: None,
            file: host.disk.clone(),
            has_begun: false,
            session: None,
            reading: None,
            why: String::new(),
        });
    }

    pub(crate) fn now_of(&self, at: usize) -> Now {
        let host = &self.hosts[at];
        let issuing = host.life.as_ref().and_then(|life| life.issuing.as_ref());
        let (boot_ms, clock_ms) = (self.now - host.booted_at, self.clock(at));
        let is_awaited = issuing.is_some_and(|issuing| issuing.is_awaited);
        Now {
            boot_ms,
            clock_ms,
            ceiling_ms: issuing.map_or(0, |issuing| issuing.ceiling_ms),
            use_ms: issuing.map_or(0, |issuing| issuing.last_use.now_ms(clock_ms, boot_ms)),
            awaited_ms: if is_awaited { clock_ms } else { 0 },
        }
    }

    pub(crate) fn is_frozen(&self, at: usize) -> bool {
        self.hosts[at].frozen_until > self.now
    }

    /// What one of this identity reads.
    pub(crate) fn look(&self, identity: &str) -> View {
        let identity = identity.to_owned();
        let wanted = Wanted { identity, sequence: None, survey: false };
        let mut reading = Reading::begin(&self.tree, wanted, Vantage::default(), self.zk_now());
        while !reading.go_on(&self.tree) {}
        reading.view()
    }

    /// What a host is about to do.
    pub(crate) fn action(&mut self, at: usize) -> Action {
        let now = self.now_of(at);
        self.hosts[at].life.as_mut().unwrap().claimant.action(now)
    }

    /// One host alone acts, until it is about to do this.
    pub(crate) fn go(&mut self, at: usize, is_it: impl Fn(&Action) -> bool) {
        let begin = self.now;
        while !is_it(&self.action(at)) {
            assert!(self.now < begin + 60 * SECOND, "{:?}", self.action(at));
            self.step(at, Fate::Answered);
            self.pass(50);
        }
    }

    /// One action of one host, or the next piece of one.
    pub(crate) fn step(&mut self, at: usize, fate: Fate) {
        let now = self.now_of(at);
        if self.is_frozen(at) || self.hosts[at].life.is_none() {
            return;
        }
        let action = {
            let life = self.hosts[at].life.as_mut().unwrap();
            life.reading.is_none().then(|| life.claimant.action(now))
        };
        self.hosts[at].take_effects(self.now);
        if matches!(action, Some(Action::Pause(_))) {
            return;
        }
        if matches!(action, Some(Action::Commit(_) | Action::Create { .. })) {
            self.hosts[at].leave_name();
        }
        let outcome = self.outcome(at, action, fate);
        let life = self.hosts[at].life.as_mut().unwrap();
        if let Some(outcome) = outcome {
            life.reading = None;
            life.claimant.done(now, outcome);
        }
        self.hosts[at].take_effects(self.now);
    }

    /// Does it; `None` when it goes on.
    fn outcome(&mut self, at: usize, action: Option<Action>, fate: Fate) -> Option<Outcome> {
        let failed = |why: &str| Some(Outcome::Failed(why.to_owned()));
        let zk_now = self.zk_now();
        let fresh = self.number();
        if self.is_down || self.hosts[at].cut_off.is_some() || fate == Fate::Lost {
            return failed("cut off");
        }
        let vantage = self.vantage(0);
        let life = self.hosts[at].life.as_mut().unwrap();
        if life.session.is_some_and(|session| self.ended.contains(&session)) {
            life.session = None;
            return failed("the session has ended");
        }
        let Some(session) = life.session else {
            life.session = Some(fresh);
            return Some(Outcome::NewSession);
        };
        if let (Fate::Late, Some(action @ (Action::Commit(_) | Action::Create { .. }))) =
            (fate, &action)
        {
            life.session = None;
            self.send_late(session, action.clone());
            let at = self.now + self.random.u64(0..=self.rules.session_ms);
            self.ending.push((at, session));
            return failed("no answer");
        }
        let outcome = match action {
            None => {
                let reading = life.reading.as_mut()?;
                if !reading.go_on(&self.tree) {
                    return None;
                }
                Outcome::Looked(Box::new(life.reading.take()?.view()))
            }
            Some(Action::Look(wanted)) => {
                let vantage = Vantage { session: i64::try_from(session).unwrap(), ..vantage };
                let mut reading = Reading::begin(&self.tree, wanted, vantage, zk_now);
                if self.random.bool() {
                    life.reading = Some(reading);
                    return None;
                }
                while !reading.go_on(&self.tree) {}
                Outcome::Looked(Box::new(reading.view()))
            }
            Some(Action::Create { prefix, data }) => {
                let created = self.tree.create_sequential(&prefix, &data, zk_now);
                created.map_or(Outcome::Conflict, Outcome::Created)
            }
            Some(Action::Commit(ops)) => match self.tree.execute(&ops, session, zk_now) {
                true => Outcome::Committed,
                false => Outcome::Conflict,
            },
            Some(Action::AskPeers) => Outcome::Asked(self.verdict),
            Some(Action::Pause(_)) => return None,
        };
        if fate == Fate::Unheard { failed("no answer") } else { Some(outcome) }
    }

    /// One ID of one host, if it may.
    pub(crate) fn issue(&mut self, at: usize) {
        let (clock, ahead) = (self.clock(at), self.random.u64(1..3000));
        if self.is_frozen(at) {
            return;
        }
        let now = self.now;
        if let Some((worker, time)) = self.hosts[at].issue(clock, now, ahead) {
            self.record(worker, time, at);
            let holder = self.holder_of(at, worker).filter(|_| !self.is_put_back);
            assert!(holder.is_none_or(|holder| time < holder.limit), "past what was reported");
        }
    }

    /// What the tree says of a worker ID of a host, if it is of this state directory.
    fn holder_of(&self, at: usize, worker: u64) -> Option<Holder> {
        let host = &self.hosts[at];
        let holder = self.tree.holder(&NodeName::new(&host.identity, worker))?.value.ok()?;
        host.disk.nonces.contains(&holder.nonce).then_some(holder)
    }

    pub(crate) fn record(&mut self, worker: u64, time: u64, at: usize) {
        if let Some(before) = self.issued.insert((worker, time), at) {
            panic!(
                "worker {worker}, {} ms after the beginning, issued by host {before} and by {at}",
                i128::from(time) - i128::from(BEGIN),
            );
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms;
        let (now, zk_now) = (self.now, self.zk_now());
        for host in &self.hosts {
            let session = host.life.as_ref().and_then(|life| life.session);
            let Some((session, since)) = session.zip(host.cut_off) else { continue };
            if now > since + self.rules.session_ms {
                self.ending.push((now, session));
            }
        }
        let (due, late) = std::mem::take(&mut self.late).into_iter().partition(|it| it.0 <= now);
        self.late = late;
        let due: Vec<_> = due;
        for (_, session, call) in due {
            match call {
                _ if self.ended.contains(&session) => {}
                Call::Commit(ops) => {
                    self.tree.execute(&ops, session, zk_now);
                }
                Call::Create(prefix, data) => {
                    self.tree.create_sequential(&prefix, &data, zk_now);
                }
            }
        }
        for (at, session) in std::mem::take(&mut self.ending) {
            if at <= now {
                self.end(session);
            } else {
                self.ending.push((at, session));
            }
        }
    }

    /// Every host acts and issues for so long.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.pass(100);
            for at in 0..self.hosts.len() {
                for _ in 0..3 {
                    self.step(at, Fate::Answered);
                }
                self.issue(at);
            }
        }
    }

    pub(crate) fn worker_of(&self, at: usize) -> Option<u64> {
        Some(self.hosts[at].life.as_ref()?.issuing.as_ref()?.worker)
    }

    /// It issues nothing before this.
    pub(crate) fn next_of(&self, at: usize) -> Option<u64> {
        Some(self.hosts[at].life.as_ref()?.issuing.as_ref()?.next)
    }

    pub(crate) fn why(&self, at: usize) -> &str {
        self.hosts[at].life.as_ref().map_or("not running", |life| &life.why)
    }

    /// Whether the tree says that it lives, with the worker ID that it uses.
    pub(crate) fn is_live(&self, at: usize) -> bool {
        let host = &self.hosts[at];
        let worker = self.worker_of(at);
        let live = self.tree.names("temporary");
        live.iter().any(|it| Some(it.sequence()) == worker && it.identity() == host.identity)
    }

    pub(crate) fn session_of(&self, at: usize) -> Option<u64> {
        self.hosts[at].life.as_ref()?.session
    }
}
