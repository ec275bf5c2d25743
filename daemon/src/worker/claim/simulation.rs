//! A fleet in a simulation: hosts with disks, clocks and sessions around a registry in memory. Each
//! host runs the production [`Registrar`] and the production order of readings; in place of issuer and
//! worker file it has a few lines. One rule must hold: no worker ID is used twice with one time.

mod calls;
mod hosts;
mod java;
mod mishaps;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use fastrand::Rng;

use self::calls::Call;
pub(crate) use self::calls::Fate;
use self::hosts::{SimulatedHost, SimulatedLife};
pub(crate) use self::java::{SimulatedJavaLeaf, java_record};
use super::instance::{ClaimRules, InstanceAddress};
pub(crate) use super::model::{Folder, Tree};
use super::model::{ModelSession, SharedSimulatedEnsemble, SimulatedEnsemble};
use super::name::NodeName;
use super::quiet::{QuietWatch, Vantage};
use super::record::HolderRecord;
use super::registrar::{LifeStart, Registrar, RegistrarSettings};
use super::step::{ClaimAction, Moment};
use super::view::{RegistryView, Wanted};
use super::write::RegistryWrite;
use crate::config::Config;
use crate::state::worker_file::WorkerRecord;
use crate::worker::peers::Verdict;
use crate::worker::registry::RegistrySession;
use crate::worker::registry::reading::look;
use crate::worker::registry::zookeeper::WORDS;

pub(crate) const SECOND: u64 = 1000;
pub(crate) const HOUR: u64 = 3600 * SECOND;
pub(crate) const BEGIN: u64 = 1_700_000_000_000;

/// What the fleet agrees on.
pub(super) const LAYOUT: &str = "layout";

/// What worker files call the registry.
pub(super) const REGISTRY: &str = "simulation";

/// Those of the default configuration.
pub(crate) fn rules() -> ClaimRules {
    let Config { worker, zookeeper, .. } = Config::default();
    ClaimRules::new(&worker, zookeeper.session_timeout, zookeeper.timeout, WORDS)
}

/// After this, a worker ID that was new at the beginning is in use.
pub(crate) fn settled() -> u64 {
    rules().settle_ms + 3 * SECOND
}

pub(crate) struct SimulatedWorld {
    ensemble: SharedSimulatedEnsemble,
    pub(crate) hosts: Vec<SimulatedHost>,
    pub(crate) now: u64,
    pub(crate) random: Rng,
    pub(crate) rules: ClaimRules,
    max_worker: u64,
    numbers: u64,
    pub(crate) issued: HashMap<(u64, u64), usize>,
    /// Sessions that nobody keeps, and when they end.
    ending: Vec<(u64, u64)>,
    late: Vec<(u64, u64, Call)>,
    /// How far the ensemble's clock is ahead.
    pub(crate) registry_offset: i64,
    /// Nobody reaches the ensemble.
    pub(crate) is_down: bool,
    /// Of whoever administers.
    watch: QuietWatch,
    /// The tree knows less than it did.
    is_put_back: bool,
    /// What the other instances say of the clock.
    pub(crate) verdict: Verdict,
}

impl SimulatedWorld {
    pub(crate) fn new(seed: u64, identities: &[&str], max_worker: u64) -> Self {
        let host = |identity: &&str| SimulatedHost {
            identity: (*identity).to_owned(),
            disk: WorkerRecord::fresh(),
            life: None,
            offset: 0,
            cut_off: None,
            frozen_until: 0,
            booted_at: 0,
        };
        let rules = rules();
        let ensemble = SimulatedEnsemble {
            tree: Tree::new(LAYOUT),
            now_ms: BEGIN,
            epoch: 1,
            outages: 0,
            session_ms: rules.session_ms,
            ended: Default::default(),
        };
        Self {
            ensemble: Arc::new(Mutex::new(ensemble)),
            hosts: identities.iter().map(host).collect(),
            now: 0,
            random: Rng::with_seed(seed),
            rules,
            max_worker,
            numbers: 0,
            issued: HashMap::new(),
            ending: Vec::new(),
            late: Vec::new(),
            registry_offset: 0,
            is_down: false,
            watch: QuietWatch::default(),
            is_put_back: false,
            verdict: Verdict::NobodyAnswered,
        }
    }

    /// The servers, for a moment.
    pub(crate) fn ensemble(&self) -> MutexGuard<'_, SimulatedEnsemble> {
        self.ensemble.lock().unwrap()
    }

    /// Writes at this moment, as an operator or a Java Leaf does.
    pub(crate) fn execute(&self, writes: &[RegistryWrite]) -> bool {
        let now_ms = self.zk_now();
        self.ensemble().tree.execute(writes, 0, now_ms)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn zk_now(&self) -> u64 {
        (BEGIN + self.now).saturating_add_signed(self.registry_offset)
    }

    /// What an operator's leafd sees from.
    fn vantage(&self) -> Vantage {
        let session = ModelSession::new(self.ensemble.clone(), 0);
        let epoch = self.ensemble().epoch;
        session.vantage(epoch)
    }

    pub(crate) fn clock(&self, at: usize) -> u64 {
        (BEGIN + self.now).saturating_add_signed(self.hosts[at].offset)
    }

    pub(crate) fn start(&mut self, at: usize) {
        let nonce = format!("n{}", self.number());
        let seed = self.random.u64(..);
        let boot_ms = self.now - self.hosts[at].booted_at;
        let host = &mut self.hosts[at];
        let address = InstanceAddress {
            identity: host.identity.clone(),
            leaf_ip: "10.0.0.1".into(),
            leaf_port: "1".into(),
            ip: "10.0.0.1".into(),
            port: 1,
        };
        let settings = RegistrarSettings {
            registry: REGISTRY.to_owned(),
            rules: self.rules,
            layout: LAYOUT.to_owned(),
            max_worker: self.max_worker,
        };
        let start = LifeStart { nonce, boot: host.boot(), boot_ms, seed };
        host.life = Some(SimulatedLife {
            registrar: Registrar::new(settings, address, &host.disk, start),
            issuing: None,
            file: host.disk.clone(),
            has_begun: false,
            session: None,
            reading: None,
            why: String::new(),
        });
    }

    pub(crate) fn now_of(&self, at: usize) -> Moment {
        let host = &self.hosts[at];
        let issuing = host.life.as_ref().and_then(|life| life.issuing.as_ref());
        let (boot_ms, clock_ms) = (self.now - host.booted_at, self.clock(at));
        let is_awaited = issuing.is_some_and(|issuing| issuing.is_awaited);
        Moment {
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
    pub(crate) fn look(&self, identity: &str) -> RegistryView {
        let identity = identity.to_owned();
        let wanted = Wanted { identity, sequence: None, survey: false };
        let session = ModelSession::new(self.ensemble.clone(), 0);
        let mut random = Rng::with_seed(0);
        let mut reading = std::pin::pin!(look(&session, &wanted, &mut random));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(view) = reading.as_mut().poll(&mut context) {
                return view.unwrap();
            }
        }
    }

    /// What a host is about to do.
    pub(crate) fn action(&mut self, at: usize) -> ClaimAction {
        let now = self.now_of(at);
        self.hosts[at].life.as_mut().unwrap().registrar.claimant.action(now)
    }

    /// One host alone acts, until it is about to do this.
    pub(crate) fn go(&mut self, at: usize, is_it: impl Fn(&ClaimAction) -> bool) {
        let begin = self.now;
        while !is_it(&self.action(at)) {
            assert!(self.now < begin + 60 * SECOND, "{:?}", self.action(at));
            self.step(at, Fate::Answered);
            self.pass(50);
        }
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
    fn holder_of(&self, at: usize, worker: u64) -> Option<HolderRecord> {
        let host = &self.hosts[at];
        let name = NodeName::new(&host.identity, worker);
        let holder = self.ensemble().tree.holder(&name)?.value.ok()?;
        host.nonces().contains(&holder.nonce).then_some(holder)
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
        let ensemble = self.ensemble.clone();
        let mut ensemble = ensemble.lock().unwrap();
        ensemble.now_ms = zk_now;
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
                _ if ensemble.ended.contains(&session) => {}
                Call::Commit(writes) => {
                    ensemble.tree.execute(&writes, session, zk_now);
                }
                Call::Create(identity, leaf) => {
                    ensemble.tree.create_sequential(&identity, leaf, zk_now);
                }
            }
        }
        drop(ensemble);
        for (at, session) in std::mem::take(&mut self.ending) {
            if at <= now {
                self.end(session);
            } else {
                self.ending.push((at, session));
            }
        }
    }

    /// Every host acts and issues during the next `ms`.
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
        let live = self.ensemble().tree.names(Folder::Live);
        live.iter().any(|it| Some(it.sequence()) == worker && it.identity() == host.identity)
    }

    pub(crate) fn session_of(&self, at: usize) -> Option<u64> {
        self.hosts[at].life.as_ref()?.session
    }
}
