//! Fleets in a simulation: hosts that are killed, cut off, frozen, lose their state, with clocks
//! that are set, calls that are lost on their way or on the way back; and one rule: no worker ID is
//! used twice with one time.

use std::collections::HashSet;

use super::super::simulation::{Fate, HOUR, SECOND, SimulatedJavaLeaf, SimulatedWorld};
use crate::worker::peers::Verdict;

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn somebody_acts(world: &mut SimulatedWorld) {
    let at = world.random.usize(..world.hosts.len());
    world.pass(20);
    world.step(at, Fate::Answered);
    for at in 0..world.hosts.len() {
        world.issue(at);
    }
}

/// Whatever happens to hosts, their networks and their clocks.
fn something_happens(world: &mut SimulatedWorld) {
    let at = world.random.usize(..world.hosts.len());
    match world.random.u32(0..100) {
        0..5 => world.kill(at),
        5..6 => world.reboot(at),
        6..8 => world.lose_disk(at),
        8..12 => {
            let give_back = world.random.bool();
            world.stop(at, give_back);
        }
        12..30 if world.hosts[at].life.is_none() => world.start(at),
        30..33 => {
            world.hosts[at].cut_off.get_or_insert(world.now);
        }
        33..38 => world.hosts[at].cut_off = None,
        38..40 => world.expire(at),
        40..45 => {
            let steps = [3, -3, 6, -6, 4000, -4000, 3_600_000, -3_600_000];
            let step = world.random.choice(steps).unwrap();
            // Nobody's clock is wrong by days.
            let offset = (world.hosts[at].offset + step).clamp(-7_200_000, 7_200_000);
            world.hosts[at].offset = offset;
        }
        45..46 => {
            let hours = world.random.u64(1..30);
            for _ in 0..hours {
                world.pass(HOUR);
                for at in 0..world.hosts.len() {
                    world.step(at, Fate::Answered);
                    world.issue(at);
                }
            }
        }
        46..47 => {
            let ms = [SECOND, 20 * SECOND, 13 * HOUR];
            let ms = world.random.choice(ms).unwrap();
            world.freeze(at, ms);
        }
        47..48 => {
            let verdicts = [Verdict::NobodyAnswered, Verdict::Differs { mean_ms: 7000 }];
            world.verdict = world.random.choice(verdicts).unwrap();
        }
        48..60 => {
            let ms = world.random.u64(1..4000);
            world.pass(ms);
        }
        60..66 => {
            let fate = world.random.choice([Fate::Unheard, Fate::Lost, Fate::Late]).unwrap();
            world.step(at, fate);
        }
        _ => somebody_acts(world),
    }
}

/// Enough to find each of the mistakes that were put into the rules on purpose.
const WORLDS: u64 = 120;

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
        let mut world = SimulatedWorld::new(seed, &identities, if seed % 3 == 0 { 4 } else { 50 });
        for _ in 0..3000 {
            something_happens(&mut world);
        }
        issued += world.issued.len();
    }
    println!("{WORLDS} worlds, {issued} IDs, no duplicate");
    assert!(issued > 250 * WORLDS as usize);
}

#[test]
fn where_the_registrys_clock_jumps_and_ages_are_observed_no_worker_id_is_used_twice_either() {
    let (mut issued, mut reclaimed) = (0, 0);
    for seed in 0..WORLDS {
        let mut world = SimulatedWorld::new(seed, &EIGHT, if seed % 3 == 0 { 50 } else { 4 });
        world.rules = world.rules.observing_ages();
        for _ in 0..3000 {
            if world.random.u32(0..500) == 0 {
                world.fail_over();
            }
            let owners = world.owners();
            something_happens(&mut world);
            let now = world.owners();
            reclaimed += owners
                .iter()
                .filter(|(id, owner)| now.get(id).is_some_and(|it| it != *owner))
                .count();
        }
        issued += world.issued.len();
    }
    println!("{WORLDS} worlds, {issued} IDs, {reclaimed} worker IDs reclaimed, no duplicate");
    assert!(issued > 250 * WORLDS as usize);
    assert!(reclaimed > WORLDS as usize / 4);
}

#[test]
fn while_all_are_connected_the_tree_can_be_deleted_or_put_back_without_a_repetition() {
    let mut issued = 0;
    for seed in 0..WORLDS {
        let mut world = SimulatedWorld::new(seed, &EIGHT, if seed % 3 == 0 { 4 } else { 50 });
        let mut copies = Vec::new();
        for _ in 0..400 {
            let at = world.random.usize(..EIGHT.len());
            match world.random.u32(0..60) {
                0 => world.kill(at),
                1 => world.stop(at, false),
                2..4 => world.stop(at, true),
                4 if world.random.bool() => world.lose_disk(at),
                4 => world.release(at),
                5 => world.expire(at),
                6..12 if world.hosts[at].life.is_none() => world.start(at),
                12 => copies.push(world.ensemble().tree.clone()),
                13 => {
                    let copy = world.random.usize(0..=copies.len());
                    let copy = copies.get(copy).cloned();
                    world.put_tree_back(copy);
                }
                14 => {
                    let ms = world.random.u64(1..30 * SECOND);
                    world.run(ms);
                }
                15 => {
                    // A host that sleeps is not connected.
                    world.run(10 * SECOND);
                    let hours = world.random.choice([1, 25]).unwrap();
                    world.pass(hours * HOUR);
                    world.run(10 * SECOND);
                }
                _ => world.run(100),
            }
        }
        issued += world.issued.len();
    }
    println!("{issued} IDs in trees that were put back, no duplicate");
    assert!(issued > 80 * WORLDS as usize);
}

#[test]
fn after_all_faults_every_instance_with_an_identity_of_its_own_serves_again() {
    for seed in 0..40 {
        let mut world = SimulatedWorld::new(seed, &EIGHT, 1_000_000);
        for _ in 0..1000 {
            something_happens(&mut world);
        }
        world.heal();
        world.run(40 * SECOND);
        let workers: HashSet<_> = (0..EIGHT.len()).map(|at| world.worker_of(at)).collect();
        for at in 0..EIGHT.len() {
            assert!(world.worker_of(at).is_some(), "seed {seed}, host {at}: {}", world.why(at));
            assert!(world.is_live(at), "seed {seed}, host {at}: not registered as live");
        }
        assert_eq!(workers.len(), EIGHT.len(), "seed {seed}");
    }
}

#[test]
fn where_worker_ids_are_few_every_instance_gets_one_within_two_days() {
    for seed in 0..40 {
        let mut world = SimulatedWorld::new(seed, &EIGHT, 7);
        for _ in 0..1000 {
            something_happens(&mut world);
        }
        world.heal();
        for _ in 0..48 {
            world.pass(HOUR);
            world.run(10 * SECOND);
        }
        world.run(120 * SECOND);
        for at in 0..EIGHT.len() {
            assert!(world.worker_of(at).is_some(), "seed {seed}, host {at}: {}", world.why(at));
        }
    }
}

/// Java Leafs and leafds at the same addresses, as an operator may run them: a Java Leaf starts only
/// where no leafd runs, after `leafd hand-back` or, as long as the ensemble is there, without.
struct Mixed {
    world: SimulatedWorld,
    javas: [Option<SimulatedJavaLeaf>; 4],
    /// The leafd of the address has been told, by hand-back or by the tree.
    is_told: [bool; 4],
}

const ADDRESSES: [&str; 4] = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"];

impl Mixed {
    fn new(seed: u64) -> Self {
        let mut world = SimulatedWorld::new(seed, &ADDRESSES, 1023);
        world.rules.reclaim_after_ms = None;
        Self { world, javas: [const { None }; 4], is_told: [true; 4] }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.world.run(100);
            self.javas.iter_mut().flatten().for_each(|java| java.act(&mut self.world));
        }
    }

    fn start_java(&mut self, at: usize) {
        if self.world.hosts[at].life.is_some() || self.javas[at].is_some() {
            return;
        }
        let hands_back = self.world.random.bool();
        if !hands_back || self.world.hand_back(at) {
            self.javas[at] = SimulatedJavaLeaf::start(&mut self.world, ADDRESSES[at]);
            self.is_told[at] = hands_back || self.javas[at].is_none();
            // Nobody starts both at one instant.
            if !self.is_told[at] {
                self.run(2 * SECOND);
            }
        }
    }

    /// Even where a Java Leaf runs: leafd has to find that out.
    fn start_leafd(&mut self, at: usize) {
        if self.world.hosts[at].life.is_some() || !self.is_told[at] && self.world.is_down {
            return;
        }
        self.world.start(at);
        if !std::mem::replace(&mut self.is_told[at], true) {
            self.run(2 * SECOND);
        }
    }

    /// Hosts and ensemble go down, and the leafds are back before the ensemble is.
    fn lose_power(&mut self) {
        self.world.go_down();
        for at in 0..ADDRESSES.len() {
            if self.world.hosts[at].life.is_some() {
                self.world.kill(at);
                self.start_leafd(at);
            }
        }
    }

    fn something_happens(&mut self) {
        let at = self.world.random.usize(..ADDRESSES.len());
        match self.world.random.u32(0..50) {
            0 => self.world.kill(at),
            1 => self.world.stop(at, false),
            2 => self.world.stop(at, true),
            3 => self.world.lose_disk(at),
            4 => self.world.expire(at),
            5 => self.javas[at] = None,
            6..12 => self.start_leafd(at),
            12..18 => self.start_java(at),
            18..20 => self.world.ask_for_release(at),
            20 => self.world.go_down(),
            21 => self.lose_power(),
            22..26 => self.world.come_back(),
            26 => self.run(40 * SECOND),
            // Its supervisor starts it again at once, whatever waits for its end.
            27..29 if self.javas[at].is_some() => {
                self.javas[at] = SimulatedJavaLeaf::start(&mut self.world, ADDRESSES[at]);
            }
            _ => {}
        }
        let ms = self.world.random.u64(0..4000);
        self.run(ms);
    }
}

#[test]
fn java_leafs_and_leafds_take_turns_at_their_addresses_in_outages_too_without_a_repetition() {
    let mut turns = [0, 0, 0];
    for seed in 0..WORLDS / 2 {
        let mut mixed = Mixed::new(seed);
        for _ in 0..200 {
            mixed.something_happens();
            let serving = |at: &usize| mixed.world.worker_of(*at).is_some();
            turns[0] += mixed.javas.iter().flatten().count();
            turns[1] += (0..4).filter(serving).count();
            turns[2] += (0..4).filter(|at| mixed.javas[*at].is_some() && !serving(at)).count();
        }
    }
    println!("{turns:?}");
    let least = 15 * (WORLDS / 2) as usize;
    assert!(turns.iter().all(|turns| *turns > least), "{turns:?}");
}
