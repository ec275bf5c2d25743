//! One test for each rule of the claim that another one stands behind: where a fleet would not
//! notice that it is broken, because the next rule saves it.

use super::super::name::NodeName;
use super::super::plan;
use super::super::record::{FleetRecord, HolderRecord};
use super::super::simulation::{
    BEGIN, Fate, HOUR, SECOND, SimulatedWorld, java_record, rules, settled,
};
use super::super::write::{Key, RegistryRecord};
use super::*;
use crate::worker::peers::Verdict;

/// A host that serves, among `others` that do not run.
fn serving(others: &[&str], max_worker: u64) -> SimulatedWorld {
    let mut world = SimulatedWorld::new(1, &[&["a"], others].concat(), max_worker);
    world.start(0);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0));
    world
}

fn claimant(world: &mut SimulatedWorld, at: usize) -> &mut Claimant {
    &mut world.hosts[at].life.as_mut().unwrap().registrar.claimant
}

fn holder(world: &SimulatedWorld, identity: &str, worker: u64) -> Option<HolderRecord> {
    world.ensemble().tree.holder(&NodeName::new(identity, worker))?.value.ok()
}

/// A node of long ago, whose owner was called `nonce`.
fn old_node(world: &mut SimulatedWorld, identity: &str, worker: u64, phase: ClaimPhase) {
    let name = NodeName::new(identity, worker);
    let nonce = "nobody's".to_owned();
    let holder = HolderRecord { version: 1, nonce, phase, ceiling: 1, limit: 2, leaf_version: 0 };
    let leaf = java_record("10.0.0.1:1", 1);
    let ops = [
        RegistryWrite::Create(RegistryRecord::Leaf(name.clone(), leaf)),
        RegistryWrite::Create(RegistryRecord::Holder(name, holder)),
    ];
    assert!(world.execute(&ops));
}

fn memory() -> RememberedClaim {
    let (worker, ceiling_ms, limit_ms, reported_boot_ms) = (0, BEGIN, 0, 0);
    RememberedClaim { worker, ceiling_ms, limit_ms, reported_boot_ms }
}

fn is_settlement(action: &ClaimAction) -> bool {
    matches!(action, ClaimAction::Commit(ops) if matches!(&ops[..], [RegistryWrite::Check(Key::Fleet, _), ..]))
}

#[test]
fn a_worker_id_is_not_taken_over_before_its_limit() {
    let mut world = serving(&["b"], 0);
    // Whose clock is far ahead has a limit that is later than a day after its end.
    world.hosts[0].offset = 20 * HOUR as i64;
    world.run(4 * SECOND);
    world.kill(0);
    world.pass(25 * HOUR);
    world.start(1);
    world.run(10 * SECOND);
    assert!(holder(&world, "a", 0).is_some(), "{}", world.why(1));
    world.pass(8 * HOUR);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(1), Some(0));
}

#[test]
fn whoever_lives_keeps_its_worker_id_however_long_it_has_not_reported() {
    let mut world = serving(&["b"], 0);
    world.expire(0);
    world.verdict = Verdict::Differs { mean_ms: 7000 };
    world.kill(0);
    world.start(0);
    for _ in 0..30 {
        world.pass(HOUR);
        world.run(SECOND);
    }
    assert_eq!(world.worker_of(0), None);
    world.start(1);
    world.run(20 * SECOND);
    assert!(world.why(1).contains("all 1 worker IDs"), "{}", world.why(1));
}

#[test]
fn an_own_node_whose_state_is_lost_is_not_taken_before_a_day_has_passed() {
    let mut world = serving(&[], 1023);
    world.lose_disk(0);
    world.pass(20 * HOUR);
    world.start(0);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(1));
    world.lose_disk(0);
    world.pass(25 * HOUR);
    world.start(0);
    world.run(settled());
    assert!(world.worker_of(0).is_some_and(|worker| worker < 2));
}

#[test]
fn of_two_nodes_with_one_worker_id_none_is_taken_over() {
    let mut world = SimulatedWorld::new(1, &["a"], 0);
    for other in ["x", "y"] {
        old_node(&mut world, other, 0, ClaimPhase::Held);
    }
    world.pass(48 * HOUR);
    world.start(0);
    world.run(20 * SECOND);
    assert!(world.why(0).contains("all 1 worker IDs"), "{}", world.why(0));
    assert!(holder(&world, "x", 0).is_some() && holder(&world, "y", 0).is_some());
}

#[test]
fn of_two_that_settle_with_one_worker_id_the_earlier_stays() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    for other in ["x", "y"] {
        old_node(&mut world, other, 0, ClaimPhase::Settling);
    }
    let mut view = world.look("x");
    view.entries.extend(world.look("y").entries);
    let rivals = [0, 1].map(|at| plan::rival(&view, &view.entries[at]).map(NodeName::identity));
    assert_eq!(rivals, [None, Some("x")]);
}

/// The worker IDs for which `identity` has made nodes since the last call.
fn claimed(world: &SimulatedWorld, identity: &str, known: &mut Vec<u64>) -> Option<u64> {
    let mut nodes = world.look(identity).nodes.into_iter();
    let node =
        nodes.find(|node| node.identity() == identity && known.last() != Some(&node.sequence()))?;
    known.push(node.sequence());
    Some(node.sequence())
}

#[test]
fn a_newcomer_passes_over_the_next_numbers_that_were_put_back() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    for worker in 0..256 {
        old_node(&mut world, "x", worker, ClaimPhase::Held);
    }
    world.start(0);
    world.run(settled());
    assert!(world.worker_of(0).is_some_and(|worker| worker >= 256), "{}", world.why(0));
}

#[test]
fn whoever_has_put_back_the_next_number_cannot_foresee_the_newcomers_following_one() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    let mut numbers = Vec::new();
    for _ in 0..300 {
        world.pass(100);
        world.step(0, Fate::Answered);
        if let Some(number) = claimed(&world, "a", &mut numbers) {
            // The number that would come next, too.
            for worker in [0, 1].map(|more| number + more) {
                if numbers.len() == 1 {
                    old_node(&mut world, "x", worker, ClaimPhase::Held);
                }
            }
        }
    }
    assert_eq!((numbers[0], numbers.len()), (0, 2), "{numbers:?}");
    assert!(numbers[1] > 1 && world.worker_of(0) == Some(numbers[1]), "{}", world.why(0));
}

#[test]
fn beside_java_leaf_a_newcomer_makes_nodes_until_a_number_is_nobody_elses() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.rules.reclaim_after_ms = None;
    for worker in 0..3 {
        old_node(&mut world, "x", worker, ClaimPhase::Held);
    }
    world.start(0);
    world.run(settled() + 10 * SECOND);
    assert_eq!(world.worker_of(0), Some(3), "{}", world.why(0));
}

#[test]
fn where_java_leaf_is_present_a_worker_id_without_a_node_is_not_taken() {
    let mut world = SimulatedWorld::new(1, &["a"], 1);
    world.rules.reclaim_after_ms = None;
    for _ in 0..2 {
        old_node(&mut world, "x", 0, ClaimPhase::Held);
        let name = NodeName::new("x", 0);
        let ops = [Key::holder(&name), Key::leaf(&name)].map(|key| RegistryWrite::Delete(key, 0));
        assert!(world.execute(&ops));
    }
    world.start(0);
    world.run(20 * SECOND);
    assert!(world.why(0).contains("worker.java-leaf"), "{}", world.why(0));
}

#[test]
fn a_worker_id_that_was_given_back_is_not_taken_before_its_time() {
    let mut world = serving(&["b"], 0);
    world.hosts[0].offset = HOUR as i64;
    world.run(4 * SECOND);
    world.stop(0, true);
    world.start(1);
    world.run(30 * SECOND);
    assert!(world.look("b").nodes.is_empty(), "{}", world.why(1));
    world.pass(HOUR);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(1), Some(0));
}

#[test]
fn what_an_operator_released_is_not_used_before_clocks_that_differ_a_little() {
    let mut world = serving(&["b"], 0);
    world.kill(0);
    world.pass(11 * SECOND);
    let released = world.zk_now();
    world.release(0);
    world.start(1);
    world.run(30 * SECOND);
    assert_eq!(world.worker_of(1), Some(0));
    let first = world.issued.iter().filter(|(_, at)| **at == 1).map(|((_, time), _)| *time).min();
    assert!(first.unwrap() >= released + 11 * SECOND);
}

#[test]
fn an_own_claim_goes_on_above_the_ceiling_of_the_file_and_above_what_was_used_of_it() {
    let mut world = serving(&[], 1023);
    let ahead = BEGIN + HOUR;
    let view = world.look("a");
    let memory =
        RememberedClaim { worker: 0, ceiling_ms: ahead, limit_ms: ahead + HOUR, ..memory() };
    let me = claimant(&mut world, 0).me.clone();
    let claim = plan::take_again(&me, &view, &view.entries[0], Some(&memory), false);
    assert_eq!((claim.start_ms, claim.limit_ms >= ahead + HOUR), (ahead, true));
    // Also when the worker ID went another way: released, and had again.
    claimant(&mut world, 0).memory = Some(memory);
    let now = world.now_of(0);
    let claimant = claimant(&mut world, 0);
    claimant.claim(now, Claim { start_ms: 0, ..claim });
    let ClaimStage::Committing { then: AfterCommit::Register(registered), .. } = &claimant.stage
    else {
        panic!("{:?}", claimant.stage);
    };
    assert_eq!(registered.start_ms, ahead);
}

#[test]
fn what_begins_at_the_limit_of_another_still_does_after_a_crash() {
    let mut world = serving(&["b"], 0);
    world.hosts[0].offset = 2 * HOUR as i64;
    world.run(4 * SECOND);
    let limit = holder(&world, "a", 0).unwrap().limit;
    world.kill(0);
    world.pass(25 * HOUR);
    // By its own clock that limit is a day away.
    world.hosts[1].offset = -30 * HOUR as i64;
    for _ in 0..2 {
        world.start(1);
        world.run(20 * SECOND);
        assert!(world.next_of(1).unwrap() >= limit);
        world.kill(1);
    }
}

#[test]
fn a_limit_is_never_taken_back() {
    let mut world = serving(&[], 1023);
    world.hosts[0].offset = 2 * HOUR as i64;
    // Ahead for a moment in which one ID is issued.
    world.issue(0);
    world.go(0, |action| matches!(action, ClaimAction::Commit(_)));
    world.step(0, Fate::Answered);
    let before = holder(&world, "a", 0).unwrap().limit;
    assert!(before >= BEGIN + 14 * HOUR);
    world.hosts[0].offset = 0;
    for _ in 0..3 {
        world.run(3 * SECOND);
        assert!(holder(&world, "a", 0).unwrap().limit >= before);
    }
    world.stop(0, false);
    assert!(holder(&world, "a", 0).unwrap().limit >= before);
}

/// The time and the limit that the tree has for the first host.
fn reported(world: &SimulatedWorld) -> (u64, u64) {
    let entry = world.look("a").entries.remove(0);
    (entry.leaf.value.as_ref().unwrap().timestamp, entry.holder().unwrap().limit)
}

/// So many reports are made, and nobody asks for IDs.
fn unused(world: &mut SimulatedWorld, reports: usize) {
    for _ in 0..reports {
        world.go(0, |action| matches!(action, ClaimAction::Commit(_)));
        world.step(0, Fate::Answered);
    }
}

#[test]
fn a_clock_ahead_that_nobody_uses_is_in_no_report_and_costs_no_time() {
    for is_used_before in [true, false] {
        let mut world = SimulatedWorld::new(1, &["a"], 1023);
        if is_used_before {
            world.start(0);
            world.run(settled());
        }
        world.hosts[0].offset = 2 * HOUR as i64;
        if !is_used_before {
            // Wrong from the start on.
            world.start(0);
        }
        unused(&mut world, 5);
        assert_eq!(world.worker_of(0), Some(0));
        let (time, limit) = reported(&world);
        assert!(time <= world.zk_now() + 3 * SECOND, "{time}");
        assert!(limit <= world.zk_now() + 3 * SECOND + rules().fence_after_ms, "{limit}");
        world.kill(0);
        world.hosts[0].offset = 0;
        world.start(0);
        world.run(settled());
        assert!(world.next_of(0).unwrap() <= world.zk_now() + SECOND);
    }
}

#[test]
fn reports_go_on_with_the_clock_while_nobody_uses_it() {
    let mut world = serving(&[], 1023);
    unused(&mut world, 20);
    let (time, limit) = reported(&world);
    assert!(time + 4 * SECOND >= world.zk_now() && limit == time + rules().fence_after_ms);
}

#[test]
fn a_request_past_the_limit_has_a_report_made_at_once_and_only_its_limit_is_raised() {
    let mut world = serving(&[], 1023);
    world.go(0, |action| matches!(action, ClaimAction::Pause(_)));
    let before = reported(&world);
    world.hosts[0].offset = 13 * HOUR as i64;
    assert!(matches!(world.action(0), ClaimAction::Pause(_)), "nobody has asked");
    world.issue(0);
    assert!(matches!(world.action(0), ClaimAction::Commit(_)));
    world.step(0, Fate::Answered);
    let (time, limit) = reported(&world);
    assert!(limit >= world.clock(0) + rules().fence_after_ms && limit > before.1);
    // Nothing was issued at that time yet.
    assert!(time <= world.zk_now() + 4 * SECOND);
    assert!(matches!(world.action(0), ClaimAction::Pause(_)), "one is enough");
    let issued = world.issued.len();
    world.issue(0);
    assert_eq!(world.issued.len(), issued + 1);
}

#[test]
fn a_java_leafs_worker_id_begins_after_what_it_may_have_used_since_its_report() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    let timestamp = BEGIN + HOUR;
    let leaf = java_record("10.0.0.1:1", timestamp);
    world.ensemble().tree.create_sequential("10.0.0.1:1", leaf, BEGIN).unwrap();
    world.pass(20 * SECOND);
    world.start(0);
    world.run(40 * SECOND);
    // Its clock was an hour ahead, and it may have lived until now.
    assert!(world.next_of(0).unwrap() >= timestamp + 45 * SECOND);
}

#[test]
fn of_twins_that_register_at_once_the_one_that_registered_first_stays() {
    let mut world = SimulatedWorld::new(1, &["a", "a"], 1023);
    (0..2).for_each(|at| world.start(at));
    let claims = |action: &ClaimAction| matches!(action, ClaimAction::Commit(_));
    (0..2).for_each(|at| world.go(at, claims));
    world.step(0, Fate::Answered);
    // It has looked again, and seen nobody, before the other one registers.
    world.go(0, |action| matches!(action, ClaimAction::Pause(_)));
    world.step(1, Fate::Answered);
    world.run(20 * SECOND);
    assert_eq!([0, 1].map(|at| world.worker_of(at).is_some()), [true, false]);
}

#[test]
fn an_instance_that_waits_for_a_twin_does_not_serve_from_its_file_when_zookeeper_goes_away() {
    let mut world = SimulatedWorld::new(1, &["a", "a"], 1023);
    world.start(0);
    world.run(settled());
    world.kill(0);
    world.copy_disk(0, 1);
    world.start(0);
    world.run(2 * SECOND);
    world.start(1);
    world.run(2 * SECOND);
    world.hosts[1].cut_off = Some(world.now);
    world.run(20 * SECOND);
    assert_eq!([0, 1].map(|at| world.worker_of(at)), [Some(0), None]);
}

#[test]
fn a_worker_id_that_was_lost_is_not_used_again_when_zookeeper_goes_away() {
    let mut world = serving(&[], 1023);
    world.hosts[0].cut_off = Some(world.now);
    world.run(15 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
    let (entry, zk_now) = (world.look("a").entries.remove(0), world.zk_now());
    assert!(world.execute(&plan::release(&entry, zk_now)));
    world.heal();
    while world.worker_of(0).is_some() {
        world.pass(50);
        world.step(0, Fate::Answered);
        assert!(holder(&world, "a", 0).is_none(), "what an operator freed is not put back");
    }
    world.hosts[0].cut_off = Some(world.now);
    for is_killed in [false, true] {
        if is_killed {
            world.kill(0);
            world.start(0);
        }
        world.run(5 * SECOND);
        assert_eq!(world.worker_of(0), None);
    }
    world.heal();
    world.run(20 * SECOND);
    assert!(world.worker_of(0).is_some(), "{}", world.why(0));
}

#[test]
fn a_worker_id_is_put_back_with_its_ceiling_and_its_limit() {
    let mut world = serving(&[], 1023);
    let before = holder(&world, "a", 0).unwrap();
    world.ensemble().tree.wipe();
    while holder(&world, "a", 0).is_none() {
        world.pass(50);
        world.step(0, Fate::Answered);
    }
    let after = holder(&world, "a", 0).unwrap();
    assert!(after.limit >= before.limit && after.ceiling >= before.ceiling, "{after:?}");
}

#[test]
fn after_its_limit_or_its_fence_a_worker_id_is_not_put_back() {
    // (how far the clock is ahead, hours without ZooKeeper, whether the host boots in between)
    for (offset, hours, boots) in [(0, 13, false), (2, 13, false), (-2, 13, true)] {
        let mut world = SimulatedWorld::new(1, &["b", "a"], 1023);
        for at in 0..2 {
            world.start(at);
            world.run(settled());
        }
        assert_eq!(world.worker_of(1), Some(1));
        world.lose_disk(0);
        world.hosts[1].offset = offset * HOUR as i64;
        world.run(4 * SECOND);
        world.hosts[1].cut_off = Some(world.now);
        world.pass(hours * HOUR);
        if boots {
            world.reboot(1);
            world.start(1);
        }
        world.run(SECOND);
        world.ensemble().tree.wipe();
        world.hosts[1].cut_off = None;
        world.run(10 * SECOND);
        assert!(holder(&world, "a", 1).is_none(), "{hours} h, clock {offset} h ahead");
    }
}

#[test]
fn an_owner_that_returns_too_late_leaves_its_worker_id_to_the_present_owner() {
    let mut world = serving(&["b"], 1023);
    world.kill(0);
    world.ensemble().tree.wipe();
    world.start(1);
    world.run(settled());
    assert_eq!(world.worker_of(1), Some(0));
    let node = world.look("b").entries.remove(0).leaf.created;
    world.start(0);
    world.run(20 * SECOND);
    assert_eq!((world.worker_of(0), world.worker_of(1)), (Some(1), Some(0)));
    let entry = world.look("b").entries.remove(0);
    assert_eq!(entry.leaf.created, node, "undisturbed");
    assert!(holder(&world, "a", 0).is_none());
}

#[test]
fn a_worker_id_does_not_settle_if_a_lost_one_has_come_back_since_the_reading() {
    let mut world = serving(&["b"], 1023);
    world.ensemble().tree.wipe();
    world.start(1);
    world.go(1, is_settlement);
    world.go(0, |action| matches!(action, ClaimAction::Commit(ops) if ops.len() > 3));
    world.step(0, Fate::Answered);
    assert!(holder(&world, "a", 0).is_some());
    world.step(1, Fate::Answered);
    assert_eq!(holder(&world, "b", 0).unwrap().phase, ClaimPhase::Settling);
}

#[test]
fn an_instance_makes_its_live_marker_again_if_somebody_deletes_it() {
    let mut world = serving(&[], 1023);
    let key = Key::Live(NodeName::new("a", 0));
    assert!(world.execute(&[RegistryWrite::Delete(key, 0)]));
    world.run(4 * SECOND);
    assert!(world.is_live(0) && world.worker_of(0) == Some(0));
}

#[test]
fn after_a_conflict_there_is_a_pause() {
    let mut world = serving(&[], 1023);
    let now = world.now_of(0);
    let claimant = claimant(&mut world, 0);
    for stage in [ClaimStage::Looking { survey: false }, ClaimStage::Creating, ClaimStage::Asking] {
        claimant.stage = stage;
        claimant.done(now, ClaimOutcome::Conflict);
        assert!(matches!(claimant.action(now), ClaimAction::Pause(_)));
    }
}

#[test]
fn without_zookeeper_a_file_serves_below_its_limit_and_before_its_fence() {
    let mut world = serving(&[], 1023);
    let (me, rules) = (claimant(&mut world, 0).me.clone(), world.rules);
    let memory =
        RememberedClaim { worker: 7, limit_ms: BEGIN + HOUR, reported_boot_ms: HOUR, ..memory() };
    let good = Moment { boot_ms: HOUR, clock_ms: BEGIN, ceiling_ms: 0, use_ms: 0, awaited_ms: 0 };
    let serves = |memory: &RememberedClaim, now: Moment| {
        let memory = Some(memory.clone());
        let mut claimant = Claimant::new(me.clone(), rules, memory, Standing::Own, 1);
        claimant.done(now, ClaimOutcome::Failed("away".into()));
        let effects = claimant.effects();
        effects.iter().any(|effect| matches!(effect, ClaimEffect::Serve { .. }))
    };
    assert!(serves(&memory, good));
    assert!(!serves(&RememberedClaim { limit_ms: 0, ..memory.clone() }, good), "lost");
    assert!(!serves(&RememberedClaim { limit_ms: BEGIN, ..memory.clone() }, good), "clock");
    let used = RememberedClaim { ceiling_ms: memory.limit_ms, ..memory.clone() };
    assert!(!serves(&used, good), "ceiling");
    assert!(!serves(&memory, Moment { boot_ms: 13 * HOUR, ..good }), "fence");
}

#[test]
fn another_layout_is_refused_and_whoever_issues_already_goes_on() {
    let mut world = serving(&["b"], 1023);
    let other = FleetRecord { version: 1, layout: "another".into() };
    assert!(world.ensemble().tree.overwrite(RegistryRecord::Fleet(other), world.zk_now()));
    world.expire(0);
    world.start(1);
    world.run(20 * SECOND);
    assert!(world.why(1).contains("another"), "{}", world.why(1));
    assert_eq!((world.worker_of(0), world.is_live(0)), (Some(0), true));
}
