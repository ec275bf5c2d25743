//! The rules of the table one by one, and a fleet over a table in memory.

use std::collections::{BTreeMap, HashMap};

use super::*;

const SETTLE_MS: u64 = 10_000;
const FENCE_MS: u64 = 12 * 3_600_000;
const BEGIN: u64 = 1_800_000_000_000;

fn rules(max_worker: u64) -> NodeRules {
    NodeRules { max_worker, settle_ms: SETTLE_MS, fence_after_ms: FENCE_MS }
}

/// Whose a row is, and whether it is in use.
type Row = (String, bool);

#[derive(Debug, Default, Clone)]
struct Table {
    rows: BTreeMap<u64, Row>,
    counter: u64,
}

impl Table {
    fn insert(&mut self, worker: Option<u64>, row: Row) -> NodeOutcome {
        let worker = worker.unwrap_or(self.counter + 1);
        if self.rows.contains_key(&worker) {
            return NodeOutcome::Taken;
        }
        self.counter = self.counter.max(worker);
        self.rows.insert(worker, row);
        NodeOutcome::Inserted(worker)
    }

    fn execute(&mut self, action: &NodeAction) -> NodeOutcome {
        match action {
            NodeAction::Survey => {
                let highest = self.rows.keys().next_back().copied().unwrap_or_default();
                NodeOutcome::Surveyed(NodeSurvey { highest, earlier: None })
            }
            NodeAction::Insert { nonce, worker } => self.insert(*worker, (nonce.clone(), false)),
            NodeAction::Find { nonce, above } => {
                let mut rows = self.rows.range(above + 1..);
                NodeOutcome::Found(rows.find(|(_, (of, _))| of == nonce).map(|(worker, _)| *worker))
            }
            NodeAction::Settle(row) => self.change(row.worker, |(of, _)| *of == row.nonce, row),
            NodeAction::Report(row) => {
                self.change(row.worker, |(of, is_used)| *of == row.nonce && *is_used, row)
            }
            NodeAction::TakeBack(row) => self.change(row.worker, |(_, is_used)| !is_used, row),
            NodeAction::Look(row) => NodeOutcome::Owned(match self.rows.get(&row.worker) {
                None => NodeOwner::Nobody,
                Some((of, true)) if *of == row.nonce => NodeOwner::Ours,
                Some((_, false)) => NodeOwner::Settling,
                Some((of, true)) => NodeOwner::Other(of.clone()),
            }),
            NodeAction::PutBack(row) => self.insert(Some(row.worker), (row.nonce.clone(), true)),
            NodeAction::Pause(_) => NodeOutcome::Paused,
        }
    }

    fn change(
        &mut self,
        worker: u64,
        is_expected: impl Fn(&Row) -> bool,
        to: &NodeRow,
    ) -> NodeOutcome {
        let found = self.rows.get_mut(&worker).filter(|row| is_expected(row));
        NodeOutcome::Changed(found.map(|row| *row = (to.nonce.clone(), true)).is_some())
    }
}

/// A host: its life, and what its disk knows.
#[derive(Default)]
struct Host {
    life: Option<Assignee>,
    issuing: Option<NodeRow>,
    file: Option<RememberedRow>,
    lost: u32,
    is_troubled: bool,
    why: String,
    warnings: Vec<String>,
}

struct World {
    table: Table,
    hosts: Vec<Host>,
    now: u64,
    lives: u64,
    max_worker: u64,
}

impl World {
    fn new(hosts: usize, max_worker: u64) -> Self {
        let hosts = (0..hosts).map(|_| Host::default()).collect();
        Self { table: Table::default(), hosts, now: 0, lives: 0, max_worker }
    }

    fn moment(&self) -> NodeMoment {
        NodeMoment { boot_ms: self.now, clock_ms: BEGIN + self.now }
    }

    fn start(&mut self, at: usize) {
        self.lives += 1;
        let now = self.moment();
        let (nonce, host) = (format!("life {}", self.lives), &mut self.hosts[at]);
        let (rules, file) = (rules(self.max_worker), host.file.clone());
        host.life = Some(Assignee::new(rules, nonce, file, now));
        self.follow(at);
    }

    fn kill(&mut self, at: usize) {
        self.remember(at);
        (self.hosts[at].life, self.hosts[at].issuing) = (None, None);
    }

    /// What was issued by now is on disk.
    fn remember(&mut self, at: usize) {
        let clock_ms = self.moment().clock_ms;
        let host = &mut self.hosts[at];
        if let (Some(file), Some(_)) = (&mut host.file, &host.issuing) {
            file.ceiling_ms = clock_ms + 1;
        }
    }

    fn follow(&mut self, at: usize) {
        let now = self.moment();
        while let Some(effect) = self.hosts[at].life.as_mut().and_then(Assignee::effect) {
            self.remember(at);
            let host = &mut self.hosts[at];
            match effect {
                NodeEffect::Begin { row, start_ms, limit_ms } => {
                    assert!(start_ms <= now.clock_ms, "above what was issued, and not later");
                    let limit_ms = limit_ms.unwrap_or(now.clock_ms + FENCE_MS);
                    let ceiling_ms = now.clock_ms;
                    host.file = Some(RememberedRow { row: row.clone(), ceiling_ms, limit_ms });
                    host.issuing = Some(row);
                }
                NodeEffect::Reported(row) => {
                    assert_eq!(host.issuing.as_ref(), Some(&row));
                    host.file.as_mut().unwrap().limit_ms = now.clock_ms + FENCE_MS;
                }
                NodeEffect::Lost { .. } => {
                    host.issuing = None;
                    host.lost += 1;
                }
                NodeEffect::Forget => {
                    assert_eq!(host.issuing, None);
                    if let Some(file) = &mut host.file {
                        file.limit_ms = 0;
                    }
                }
                NodeEffect::None { why, .. } => {
                    assert_eq!(host.issuing, None);
                    host.why = why;
                }
                NodeEffect::Warn(text) => host.warnings.push(text),
                NodeEffect::Trouble(_) => host.is_troubled = true,
                NodeEffect::Fine => host.is_troubled = false,
            }
        }
    }

    /// One call. `is_executed` and `is_answered` say what happens to it.
    fn step(&mut self, at: usize, is_executed: bool, is_answered: bool) {
        let now = self.moment();
        let Some(life) = &mut self.hosts[at].life else { return };
        let action = life.next(now);
        let outcome = if is_executed { Some(self.table.execute(&action)) } else { None };
        let outcome = match (action, outcome) {
            (NodeAction::Pause(_), _) => NodeOutcome::Paused,
            (_, Some(outcome)) if is_answered => outcome,
            _ => NodeOutcome::Failed("no answer".to_owned()),
        };
        life.done(now, now, outcome);
        self.follow(at);
    }

    /// All hosts ask for as long, and everything is answered.
    fn run(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.now < until {
            self.now += 100;
            (0..self.hosts.len()).for_each(|at| self.step(at, true, true));
            self.check();
        }
    }

    fn check(&self) {
        let mut users = HashMap::new();
        for (at, host) in self.hosts.iter().enumerate() {
            if let Some(row) = &host.issuing {
                let other = users.insert(row.worker, at);
                assert_eq!(other, None, "{at} has worker ID {} too, at {}", row.worker, self.now);
            }
        }
    }

    fn worker(&self, at: usize) -> Option<u64> {
        self.hosts[at].issuing.as_ref().map(|row| row.worker)
    }
}

#[test]
fn each_start_takes_a_row_and_goes_on_with_the_last_one_until_the_new_one_has_settled() {
    let mut world = World::new(1, 100);
    for start in 1..=5 {
        world.start(0);
        world.run(200);
        assert_eq!(world.worker(0), (start > 1).then_some(start - 1));
        world.run(FIRST_MS + SETTLE_MS + 200);
        assert_eq!((world.worker(0), world.table.rows.len() as u64), (Some(start), start));
        world.kill(0);
    }
}

#[test]
fn a_start_without_the_database_goes_on_with_the_last_row_until_its_limit_and_takes_one_later() {
    for (hours, serves) in [(11, true), (13, false)] {
        let mut world = World::new(1, 100);
        world.start(0);
        world.run(SETTLE_MS + 1000);
        world.kill(0);
        world.now += hours * 3_600_000;
        world.start(0);
        for _ in 0..5 {
            world.now += 2000;
            world.step(0, false, false);
        }
        assert_eq!(world.worker(0), serves.then_some(1));
        world.run(FIRST_MS + SETTLE_MS + 2000);
        assert_eq!(world.worker(0), Some(2));
    }
}

#[test]
fn an_owner_puts_its_row_back_before_anybody_uses_its_number_and_the_counter_moves_on() {
    let mut world = World::new(3, 100);
    (0..2).for_each(|at| world.start(at));
    world.run(SETTLE_MS + 1000);
    world.table = Table::default();
    world.start(2);
    world.run(2 * SETTLE_MS + 5000);
    let workers: Vec<_> = (0..3).filter_map(|at| world.worker(at)).collect();
    assert_eq!(workers.len(), 3);
    assert!(workers[2] > 2, "{workers:?}");
    assert_eq!(workers[..2], [1, 2]);
    let warned = world.hosts.iter().filter(|host| !host.warnings.is_empty()).count();
    assert!(warned >= 1 && world.hosts[0].lost == 0);
}

#[test]
fn a_number_that_somebody_else_uses_by_now_is_not_used_any_more() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.run(SETTLE_MS + 1000);
    world.table.rows.insert(1, ("a Java process".to_owned(), true));
    world.run(4000);
    assert_eq!((world.hosts[0].lost, world.worker(0)), (1, None));
    world.run(SETTLE_MS + 1000);
    assert_eq!(world.worker(0), Some(2));
}

#[test]
fn a_row_of_the_last_start_that_was_lost_meanwhile_is_not_used_again() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.run(SETTLE_MS + 1000);
    world.kill(0);
    world.table = Table::default();
    world.start(0);
    // The table says that the row is not as it was, and then nothing more: that is no outage.
    world.now += 100;
    world.step(0, true, true);
    for _ in 0..5 {
        world.now += 2000;
        world.step(0, false, false);
        assert_eq!(world.worker(0), None);
    }
    world.run(2000);
    assert!(
        world.hosts[0].why.contains("worker ID 1 of the last start belongs to nobody"),
        "{}",
        world.hosts[0].why
    );
    assert_eq!(world.hosts[0].file.as_ref().map(|file| file.limit_ms), Some(0));
    world.run(SETTLE_MS + 1000);
    assert_eq!(world.worker(0), Some(2), "above what this instance has had");
    assert!(world.hosts[0].warnings[0].contains("rows were lost"), "{:?}", world.hosts[0].warnings);
}

#[test]
fn when_the_bits_are_used_up_a_newcomer_hears_it_and_an_instance_with_a_row_goes_on_with_it() {
    let mut world = World::new(2, 2);
    for _ in 0..2 {
        world.start(0);
        world.run(FIRST_MS + SETTLE_MS + 1000);
        world.kill(0);
    }
    assert_eq!(world.table.rows.len(), 2);
    (0..2).for_each(|at| world.start(at));
    world.run(3 * FULL_MS);
    assert_eq!((world.worker(0), world.worker(1)), (Some(2), None));
    assert!(
        world.hosts[1].why.contains("the highest of the layout is 2"),
        "{}",
        world.hosts[1].why
    );
    assert!(world.hosts[0].warnings[0].ends_with("Going on with worker ID 2 of the last start"));
    assert_eq!(world.table.rows.len(), 2, "no row is made that nobody can use");
}

#[test]
fn a_failure_that_ends_with_the_loss_of_the_row_is_not_shown_for_ever() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.run(SETTLE_MS + 1000);
    world.now += 4000;
    world.step(0, false, false);
    assert!(world.hosts[0].is_troubled);
    world.table.rows.insert(1, ("a Java process".to_owned(), true));
    world.run(5000);
    assert_eq!((world.hosts[0].lost, world.hosts[0].is_troubled), (1, false));
}

#[test]
fn a_row_whose_answer_was_lost_is_found_and_not_made_again() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.step(0, true, true);
    world.step(0, true, false);
    world.run(SETTLE_MS + 3000);
    assert_eq!((world.worker(0), world.table.rows.len()), (Some(1), 1));
}

#[test]
fn a_start_that_crashes_at_once_again_and_again_uses_up_no_numbers() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.run(SETTLE_MS + 1000);
    for _ in 0..20 {
        world.kill(0);
        world.start(0);
        world.run(3000);
        assert_eq!(world.worker(0), Some(1));
    }
    assert_eq!(world.table.rows.len(), 1);
}

#[test]
fn a_number_that_was_lost_is_not_used_by_a_later_start_without_the_database() {
    let mut world = World::new(1, 100);
    world.start(0);
    world.run(SETTLE_MS + 1000);
    world.table.rows.insert(1, ("a Java process".to_owned(), true));
    world.run(4000);
    assert_eq!((world.hosts[0].lost, world.worker(0)), (1, None));
    world.kill(0);
    world.start(0);
    for _ in 0..5 {
        world.now += 2000;
        world.step(0, false, false);
    }
    assert_eq!(world.worker(0), None);
}

#[test]
fn rows_that_cannot_be_kept_are_tried_more_and_more_seldom() {
    let mut world = World::new(1, 1 << 20);
    world.start(0);
    for _ in 0..36_000 {
        world.now += 100;
        world.step(0, true, true);
        // A trigger, or a column that is too short, changes what was written.
        world.table.rows.values_mut().for_each(|row| row.0 = "changed".to_owned());
    }
    assert_eq!(world.worker(0), None);
    let rows = world.table.rows.len();
    assert!((20..80).contains(&rows), "{rows} rows in an hour");
    assert!(world.hosts[0].warnings[0].contains("changed before it was used"));
}

#[test]
fn a_number_at_the_end_is_not_passed_over_into_numbers_that_nobody_can_use() {
    let mut world = World::new(1, 3);
    world.table.counter = 2;
    world.start(0);
    world.run(SETTLE_MS + 1000);
    assert_eq!(world.worker(0), Some(3));
    world.kill(0);
    world.table = Table::default();
    world.start(0);
    world.run(5000);
    assert_eq!((world.worker(0), world.table.rows.len()), (None, 0));
    assert!(
        world.hosts[0].why.contains("the highest of the layout is 3"),
        "{}",
        world.hosts[0].why
    );
}

#[test]
fn a_counter_that_is_behind_the_rows_gives_no_number_that_was_used() {
    let mut world = World::new(1, 100);
    world.table.rows.insert(7, ("a Java process".to_owned(), true));
    world.start(0);
    world.run(SETTLE_MS + 1000);
    assert_eq!(world.worker(0), Some(8));
}

#[test]
fn whatever_happens_to_hosts_and_table_no_two_use_one_number_at_a_time() {
    let (mut restored, mut lost, mut begun) = (0, 0, 0);
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new(5, 1 << 20);
        let mut copies = vec![Table::default()];
        // After a loss, each owner has to reach the table before a new number is used, and whoever was
        // down when it happened has to reach it before it goes on: an assumption.
        let mut calm_until = 0;
        let mut has_to_ask = [false; 5];
        for _ in 0..1500 {
            world.now += random.u64(..400);
            let is_calm = world.now < calm_until;
            match random.u32(..300) {
                0..10 => {
                    let at = random.usize(..5);
                    if world.hosts[at].life.is_none() {
                        world.start(at);
                        begun += 1;
                    }
                }
                10..14 if !is_calm => world.kill(random.usize(..5)),
                14..16 => copies.push(world.table.clone()),
                16..18 if !is_calm => {
                    world.table = copies[random.usize(..copies.len())].clone();
                    calm_until = world.now + 2 * SETTLE_MS;
                    for (asks, host) in has_to_ask.iter_mut().zip(&world.hosts) {
                        *asks |= host.issuing.is_none();
                    }
                    restored += 1;
                }
                _ => {}
            }
            for (at, asks) in has_to_ask.iter_mut().enumerate() {
                let now = world.moment();
                let action = world.hosts[at].life.as_mut().map(|life| life.next(now));
                let is_report = matches!(action, Some(NodeAction::Report(_)));
                let is_sure = is_calm && world.hosts[at].issuing.is_some() || is_report && *asks;
                let (executed, answered) = (random.u32(..8) > 0, random.u32(..8) > 0);
                world.step(at, executed || is_sure, answered || is_sure);
                *asks &= !is_report;
                world.check();
            }
        }
        lost += world.hosts.iter().map(|host| host.lost).sum::<u32>();
        world.run(4 * SETTLE_MS);
        for at in 0..5 {
            let is_served = world.hosts[at].life.is_none() || world.worker(at).is_some();
            assert!(is_served, "seed {seed}: {}", world.hosts[at].why);
        }
    }
    assert!(restored > 150 && begun > 700, "{restored} {begun}");
    // Only to a row of somebody who is gone, from before a number was given again.
    assert!(lost * 30 < restored, "{lost} of {restored}");
}
