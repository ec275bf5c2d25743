//! Fleets in a simulation: a tree in memory, hosts that are killed, cut off, copied by mistake,
//! lose their state, with clocks that are set, and one rule: no worker ID is used twice with one
//! time.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;

use super::super::model::Tree;
use super::*;

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const BEGIN: u64 = 1_700_000_000_000;

const RULES: Rules = Rules {
    reclaim_after_ms: Some(24 * HOUR),
    fence_after_ms: 12 * HOUR,
    session_ms: 10 * SECOND,
    report_ms: 3 * SECOND,
    settle_ms: 5 * SECOND,
    quiet_ms: 10 * SECOND,
};

/// What is on a host's disk.
#[derive(Debug, Clone, Default)]
struct Disk {
    memory: Option<Memory>,
    nonces: Vec<String>,
}

struct Running {
    claimant: Claimant,
    /// Worker ID, from, below, and the next time to use.
    serving: Option<(u64, u64, u64)>,
    last: HashMap<u64, u64>,
    session: u64,
    why: String,
}

struct Host {
    identity: String,
    disk: Disk,
    running: Option<Running>,
    offset: i64,
    /// Since when it does not reach the tree.
    cut_off: Option<u64>,
}

struct World {
    tree: Tree,
    hosts: Vec<Host>,
    now: u64,
    random: Rng,
    rules: Rules,
    max_worker: u64,
    numbers: u64,
    issued: HashSet<(u64, u64)>,
    /// Sessions whose instance is gone or cut off, and when they end.
    ending: Vec<(u64, u64)>,
}

impl World {
    fn new(seed: u64, identities: &[&str], max_worker: u64) -> Self {
        let host = |identity: &&str| Host {
            identity: (*identity).to_owned(),
            disk: Disk::default(),
            running: None,
            offset: 0,
            cut_off: None,
        };
        Self {
            tree: Tree::new("layout"),
            hosts: identities.iter().map(host).collect(),
            now: 0,
            random: Rng::with_seed(seed),
            rules: RULES,
            max_worker,
            numbers: 0,
            issued: HashSet::new(),
            ending: Vec::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn start(&mut self, at: usize) {
        let (nonce, session) = (format!("n{}", self.number()), self.number());
        let seed = self.random.u64(..);
        let host = &mut self.hosts[at];
        let earlier = host.disk.nonces.clone();
        host.disk.nonces.insert(0, nonce.clone());
        let me = Me {
            identity: host.identity.clone(),
            leaf_ip: "10.0.0.1".into(),
            leaf_port: "1".into(),
            peer_ip: "10.0.0.1".into(),
            peer_port: 1,
            nonce,
            earlier,
            layout: "layout".into(),
            max_worker: self.max_worker,
        };
        let claimant = Claimant::new(me, self.rules, host.disk.memory.clone(), seed);
        let (serving, last, why) = (None, HashMap::new(), String::new());
        host.running = Some(Running { claimant, serving, last, session, why });
    }

    fn kill(&mut self, at: usize) {
        if let Some(running) = self.hosts[at].running.take() {
            self.ending.push((self.now + self.rules.session_ms, running.session));
        }
    }

    /// In good order, with the tree in reach.
    fn stop(&mut self, at: usize, give_back: bool) {
        if self.hosts[at].cut_off.is_some() {
            return self.kill(at);
        }
        let now = self.now_of(at);
        let zk_now = BEGIN + self.now;
        let host = &mut self.hosts[at];
        let Some(running) = host.running.take() else { return };
        if give_back && let Some(memory) = &mut host.disk.memory {
            memory.limit_ms = 0;
        }
        if let Some(ops) = running.claimant.closing(now, give_back) {
            self.tree.execute(&ops, running.session, zk_now);
        }
        self.tree.end_session(running.session);
    }

    fn now_of(&self, at: usize) -> Now {
        let host = &self.hosts[at];
        let clock_ms = (BEGIN + self.now).saturating_add_signed(host.offset);
        let serving = host.running.as_ref().and_then(|running| running.serving);
        let ceiling_ms = match (serving, &host.disk.memory) {
            (Some((worker, ..)), Some(memory)) if memory.worker == worker => memory.ceiling_ms,
            _ => 0,
        };
        Now { boot_ms: self.now, clock_ms, ceiling_ms }
    }

    /// One action of one host. `lost` loses the answer, `cut` the call.
    fn step(&mut self, at: usize, lost: bool) {
        let now = self.now_of(at);
        let cut = self.hosts[at].cut_off.is_some();
        let zk_now = BEGIN + self.now;
        let fresh = self.number();
        let Some(running) = &mut self.hosts[at].running else { return };
        let action = running.claimant.action(now);
        // A session that has ended is replaced at the next call.
        if !cut && self.ending.iter().any(|(_, ending)| *ending == running.session) {
            running.session = fresh;
        }
        let failed = || Outcome::Failed("cut off".into());
        let outcome = match action {
            Action::Pause(_) => None,
            _ if cut => Some(failed()),
            Action::Look(wanted) => {
                Some(Outcome::Looked(Box::new(self.tree.look(&wanted, zk_now))))
            }
            Action::Create { prefix, data } => {
                Some(Outcome::Created(self.tree.create_sequential(&prefix, &data, zk_now)))
            }
            Action::Commit(ops) => Some(match self.tree.execute(&ops, running.session, zk_now) {
                true => Outcome::Committed,
                false => Outcome::Conflict,
            }),
            Action::AskPeers => Some(Outcome::Asked(Verdict::NobodyAnswered)),
        };
        let Some(outcome) = outcome else { return self.take(at) };
        let outcome = if lost { failed() } else { outcome };
        running.claimant.done(now, outcome);
        self.take(at);
    }

    fn take(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let Some(running) = &mut host.running else { return };
        for effect in running.claimant.effects() {
            match effect {
                Effect::Serve { worker, start_ms, limit_ms } => {
                    // What the issuer and the worker file do.
                    let start =
                        running.last.get(&worker).map_or(start_ms, |last| start_ms.max(last + 1));
                    running.serving = Some((worker, start, limit_ms));
                    let reported_boot_ms =
                        host.disk.memory.as_ref().map_or(self.now, |it| it.reported_boot_ms);
                    host.disk.memory =
                        Some(Memory { worker, ceiling_ms: start, limit_ms, reported_boot_ms });
                }
                Effect::Reported { limit_ms } => {
                    if let Some((.., limit)) = &mut running.serving {
                        *limit = limit_ms;
                    }
                    if let Some(memory) = &mut host.disk.memory {
                        (memory.limit_ms, memory.reported_boot_ms) = (limit_ms, self.now);
                    }
                }
                Effect::Stop { why, .. } => {
                    running.serving = None;
                    running.why = why;
                }
                Effect::Lost => {
                    if let Some(memory) = &mut host.disk.memory {
                        memory.limit_ms = 0;
                    }
                }
                Effect::Trouble(_) | Effect::Fine => {}
            }
        }
    }

    /// One ID of one host, if it may.
    fn issue(&mut self, at: usize) {
        let clock = self.now_of(at).clock_ms;
        let host = &mut self.hosts[at];
        let Some(running) = &mut host.running else { return };
        let Some((worker, start, limit)) = running.serving else { return };
        let next = running.last.get(&worker).map_or(start, |last| start.max(last + 1));
        // A sequencer leads its clock by a little at most, and refuses behind it.
        let time = clock.max(next);
        if time > clock + 10 || time >= limit {
            return;
        }
        assert!(
            self.issued.insert((worker, time)),
            "worker {worker}, {} ms after the beginning, issued again by {} ({at})",
            i128::from(time) - i128::from(BEGIN),
            host.identity
        );
        running.last.insert(worker, time);
        if let Some(memory) = &mut host.disk.memory {
            memory.ceiling_ms = memory.ceiling_ms.max(time + 1);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        for host in &self.hosts {
            let Some(running) = &host.running else { continue };
            let is_over = host.cut_off.is_some_and(|since| self.now > since + RULES.session_ms);
            if is_over {
                self.ending.push((self.now, running.session));
            }
        }
        let now = self.now;
        for (_, session) in self.ending.iter().filter(|(at, _)| *at <= now) {
            self.tree.end_session(*session);
        }
        // Kept for those who are still cut off and come back with it.
        self.ending.retain(|(at, session)| {
            *at > now
                || self.hosts.iter().any(|host| {
                    host.running.as_ref().is_some_and(|running| running.session == *session)
                })
        });
    }

    /// Every host that runs acts and issues for so long.
    fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.pass(100);
            for at in 0..self.hosts.len() {
                for _ in 0..3 {
                    self.step(at, false);
                }
                self.issue(at);
            }
        }
    }

    fn heal(&mut self) {
        for host in &mut self.hosts {
            host.cut_off = None;
        }
    }

    fn worker_of(&self, at: usize) -> Option<u64> {
        Some(self.hosts[at].running.as_ref()?.serving?.0)
    }

    fn why(&self, at: usize) -> &str {
        self.hosts[at].running.as_ref().map_or("not running", |running| &running.why)
    }

    fn something_happens(&mut self) {
        let at = self.random.usize(..self.hosts.len());
        match self.random.u32(0..100) {
            0..6 => self.kill(at),
            6..9 => {
                self.kill(at);
                self.hosts[at].disk = Disk::default();
            }
            9..12 => {
                let give_back = self.random.bool();
                self.stop(at, give_back);
            }
            12..30 if self.hosts[at].running.is_none() => self.start(at),
            30..34 => {
                self.hosts[at].cut_off.get_or_insert(self.now);
            }
            34..40 => self.hosts[at].cut_off = None,
            40..46 => {
                let steps = [3, -3, 6, -6, 4000, -4000, 3_600_000, -3_600_000];
                let step = self.random.choice(steps).unwrap();
                // Nobody's clock is wrong by days.
                self.hosts[at].offset = (self.hosts[at].offset + step).clamp(-7_200_000, 7_200_000);
            }
            46..47 => {
                let hours = self.random.u64(1..30);
                for _ in 0..hours {
                    self.pass(HOUR);
                    for at in 0..self.hosts.len() {
                        self.step(at, false);
                        self.issue(at);
                    }
                }
            }
            47..60 => {
                let ms = self.random.u64(1..4000);
                self.pass(ms);
            }
            60..64 => self.step(at, true),
            _ => {
                self.pass(20);
                self.step(at, false);
                for at in 0..self.hosts.len() {
                    self.issue(at);
                }
            }
        }
    }
}

/// Enough to find each of the mistakes that were put into the rules on purpose.
const WORLDS: u64 = 120;

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[test]
fn whatever_happens_to_a_fleet_no_worker_id_is_used_twice_with_one_time() {
    let mut issued = 0;
    for seed in 0..WORLDS {
        // In some worlds identities are used twice by mistake, and worker IDs are few.
        let mut identities = EIGHT;
        if seed % 2 == 0 {
            identities[1] = "a";
            identities[3] = "c";
        }
        let mut world = World::new(seed, &identities, if seed % 3 == 0 { 4 } else { 50 });
        for _ in 0..3000 {
            world.something_happens();
        }
        issued += world.issued.len();
    }
    println!("{WORLDS} worlds, {issued} IDs, no duplicate");
    assert!(issued > 30_000);
}

#[test]
fn after_all_faults_every_instance_with_an_identity_of_its_own_serves_again() {
    for seed in 0..40 {
        let mut world = World::new(seed, &EIGHT, 1_000_000);
        for _ in 0..1000 {
            world.something_happens();
        }
        world.heal();
        for at in 0..EIGHT.len() {
            world.hosts[at].offset = 0;
            if world.hosts[at].running.is_none() {
                world.start(at);
            }
        }
        world.run(40 * SECOND);
        let workers: HashSet<_> = (0..EIGHT.len()).map(|at| world.worker_of(at)).collect();
        for at in 0..EIGHT.len() {
            assert!(world.worker_of(at).is_some(), "seed {seed}, host {at}: {}", world.why(at));
        }
        assert_eq!(workers.len(), EIGHT.len(), "seed {seed}");
    }
}

#[test]
fn instances_that_start_at_once_get_the_first_worker_ids_and_keep_them() {
    let mut world = World::new(1, &EIGHT, 1023);
    (0..8).for_each(|at| world.start(at));
    world.run(4 * SECOND);
    assert!((0..8).all(|at| world.worker_of(at).is_none()), "new ones are not used at once");
    world.run(4 * SECOND);
    let workers: Vec<_> = (0..8).map(|at| world.worker_of(at).unwrap()).collect();
    assert_eq!(workers.iter().copied().collect::<HashSet<_>>(), (0..8).collect());
    for at in 0..8 {
        if at % 2 == 0 {
            world.kill(at)
        } else {
            world.stop(at, false)
        }
        world.start(at);
    }
    world.run(SECOND);
    let again: Vec<_> = (0..8).map(|at| world.worker_of(at).unwrap()).collect();
    assert_eq!(again, workers, "at once, although the killed ones' sessions have not ended");
}

#[test]
fn of_two_instances_with_one_identity_one_serves_and_the_other_says_so_until_it_is_gone() {
    for seed in 0..50 {
        let mut world = World::new(seed, &["a", "a"], 1023);
        (0..2).for_each(|at| world.start(at));
        world.run(30 * SECOND);
        let serving: Vec<_> = (0..2).filter(|at| world.worker_of(*at).is_some()).collect();
        assert_eq!(serving.len(), 1);
        let other = 1 - serving[0];
        assert!(world.why(other).contains("give each"), "{}", world.why(other));
        world.kill(serving[0]);
        world.run(30 * SECOND);
        assert!(world.worker_of(other).is_some(), "{}", world.why(other));
    }
}

#[test]
fn who_is_cut_off_goes_on_until_the_fence_and_returns_with_the_same_worker_id() {
    let mut world = World::new(1, &["a"], 1023);
    world.start(0);
    world.run(8 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
    world.hosts[0].cut_off = Some(world.now);
    world.pass(11 * HOUR);
    world.run(SECOND);
    assert_eq!(world.worker_of(0), Some(0));
    world.pass(HOUR);
    world.run(SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("worker.fence-after"), "{}", world.why(0));
    world.heal();
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
}

#[test]
fn the_fence_counts_what_passed_before_a_restart_and_holds_for_the_file() {
    let mut world = World::new(1, &["a"], 1023);
    world.start(0);
    world.run(8 * SECOND);
    world.hosts[0].cut_off = Some(world.now);
    world.pass(6 * HOUR);
    world.kill(0);
    world.start(0);
    world.run(SECOND);
    assert_eq!(world.worker_of(0), Some(0), "from the file");
    world.pass(6 * HOUR);
    world.run(5 * SECOND);
    assert_eq!(world.worker_of(0), None, "twelve hours in all");
    world.kill(0);
    // A clock that is set back does not help.
    world.hosts[0].offset = -10 * i64::try_from(HOUR).unwrap();
    world.start(0);
    world.run(5 * SECOND);
    assert_eq!(world.worker_of(0), None);
}

#[test]
fn without_zookeeper_and_without_a_file_there_is_no_worker_id() {
    let mut world = World::new(1, &["a"], 1023);
    world.hosts[0].cut_off = Some(0);
    world.start(0);
    world.run(60 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("ZooKeeper"), "{}", world.why(0));
    world.heal();
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
}

#[test]
fn worker_ids_of_instances_that_are_gone_for_a_day_are_reclaimed_and_not_before() {
    let mut world = World::new(1, &["a", "b", "c"], 1);
    (0..2).for_each(|at| world.start(at));
    world.run(8 * SECOND);
    world.kill(0);
    world.start(2);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(2), None);
    assert!(world.why(2).contains("all 2 worker IDs"), "{}", world.why(2));
    let (a, c) = (0, 2);
    world.pass(24 * HOUR - 60 * SECOND);
    world.step(1, false);
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(c), None);
    world.run(120 * SECOND);
    assert_eq!(world.worker_of(c), Some(0));
    // The former owner returns, and finds no worker ID left.
    world.start(a);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(a), None);
    world.stop(c, true);
    world.run(90 * SECOND);
    assert_eq!(world.worker_of(a), Some(0), "{}", world.why(a));
}

#[test]
fn where_java_leaf_is_present_nothing_is_reclaimed() {
    let mut world = World::new(1, &["a", "b"], 0);
    world.rules.reclaim_after_ms = None;
    world.start(0);
    world.run(8 * SECOND);
    world.kill(0);
    world.start(1);
    world.pass(100 * HOUR);
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(1), None);
    assert!(world.why(1).contains("worker.java-leaf"), "{}", world.why(1));
}

#[test]
fn a_worker_id_that_was_given_back_is_anybodys_at_once() {
    let mut world = World::new(1, &["a", "b"], 0);
    world.start(0);
    world.run(8 * SECOND);
    world.stop(0, true);
    world.start(1);
    world.run(SECOND);
    assert_eq!(world.worker_of(1), Some(0));
}

#[test]
fn a_tree_that_is_wiped_gets_its_worker_ids_back_and_newcomers_get_others() {
    for seed in 0..50 {
        let mut world = World::new(seed, &EIGHT, 1023);
        (0..4).for_each(|at| world.start(at));
        world.run(8 * SECOND);
        let before: Vec<_> = (0..4).map(|at| world.worker_of(at).unwrap()).collect();
        let sessions: Vec<_> =
            (0..4).map(|at| world.hosts[at].running.as_ref().unwrap().session).collect();
        world.tree.wipe();
        for session in sessions {
            world.ending.push((world.now, session));
        }
        (4..8).for_each(|at| world.start(at));
        world.run(30 * SECOND);
        let after: Vec<_> = (0..8).map(|at| world.worker_of(at)).collect();
        assert_eq!(after[..4], before.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(after.iter().flatten().collect::<HashSet<_>>().len(), 8, "{after:?}");
    }
}

#[test]
fn a_java_leaf_of_this_address_is_joined_when_it_is_quiet_and_not_while_it_writes() {
    let mut world = World::new(1, &["10.0.0.1:8080"], 1023);
    let leaf = |timestamp: u64| {
        format!(r#"{{"ip":"10.0.0.1","port":"8080","timestamp":{timestamp}}}"#).into_bytes()
    };
    for other in ["10.0.0.2:8080-", "10.0.0.1:8080-", "10.0.0.3:8080-"] {
        world.tree.create_sequential(other, &leaf(BEGIN), BEGIN);
    }
    let path = "forever/10.0.0.1:8080-0000000001";
    world.start(0);
    for _ in 0..10 {
        let now = BEGIN + world.now;
        assert!(world.tree.overwrite(path, &leaf(now), now));
        world.run(3 * SECOND);
        assert_eq!(world.worker_of(0), None);
    }
    assert!(world.why(0).contains("Java Leaf"), "{}", world.why(0));
    world.run(12 * SECOND);
    assert_eq!(world.worker_of(0), Some(1));
    // It comes back beside us: there must be one of the two.
    let now = BEGIN + world.now;
    assert!(world.tree.overwrite(path, &leaf(now), now));
    world.run(4 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("Java Leaf"), "{}", world.why(0));
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), Some(1));
}

#[test]
fn a_clock_that_differs_from_the_others_is_refused_until_it_is_right() {
    let mut world = World::new(1, &["a"], 1023);
    world.start(0);
    let now = world.now_of(0);
    let running = world.hosts[0].running.as_mut().unwrap();
    running.claimant.stage = Stage::Asking;
    running.claimant.done(now, Outcome::Asked(Verdict::Differs { mean_ms: 7000 }));
    let effects = running.claimant.effects();
    assert!(
        matches!(&effects[..], [Effect::Stop { why, .. }] if why.contains("7000 ms")),
        "{effects:?}"
    );
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
}
