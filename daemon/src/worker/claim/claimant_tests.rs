//! The claim in one situation after the other, in simulated fleets.

use std::collections::HashSet;

use super::super::quiet::quiet_ms;
use super::super::record::FreeRecord;
use super::super::simulation::{
    BEGIN, Fate, Folder, HOUR, SECOND, SimulatedWorld, java_record, rules, settled,
};
use super::super::write::RegistryRecord;
use super::*;
use crate::worker::peers::Verdict;
use crate::worker::registry::Found;

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[test]
fn instances_that_start_at_once_get_the_first_worker_ids_and_keep_them() {
    let mut world = SimulatedWorld::new(1, &EIGHT, 1023);
    (0..8).for_each(|at| world.start(at));
    world.run(rules().settle_ms - SECOND);
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
        let mut world = SimulatedWorld::new(seed, &["a", "a"], 1023);
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
fn an_instance_that_is_cut_off_goes_on_until_the_fence_and_returns_with_its_worker_id() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    world.run(settled());
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
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0));
}

#[test]
fn whoever_finds_its_node_changed_does_not_go_on_if_zookeeper_leaves_before_it_is_read() {
    // In another registry there is no Java Leaf that could have changed it.
    for (ages, goes_on) in [(Ages::Told, false), (Ages::Observed, true)] {
        let mut world = SimulatedWorld::new(1, &["a"], 1023);
        world.rules.ages = ages;
        world.start(0);
        world.run(settled());
        let mut now = world.now_of(0);
        let claimant = &mut world.hosts[0].life.as_mut().unwrap().registrar.claimant;
        assert!(claimant.is_serving());
        while !matches!(claimant.action(now), ClaimAction::Commit(_)) {
            now.boot_ms += SECOND;
        }
        // A Java Leaf has just started here.
        claimant.done(now, ClaimOutcome::Conflict);
        for _ in 0..3 {
            claimant.done(now, ClaimOutcome::Failed("away".into()));
            assert_eq!(claimant.is_serving(), goes_on, "{ages:?}");
        }
        // The node is as it was, so it was nobody.
        world.run(10 * SECOND);
        assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    }
}

#[test]
fn the_fence_counts_what_passed_before_a_restart_and_holds_for_the_file() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    world.run(settled());
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
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.hosts[0].cut_off = Some(0);
    world.start(0);
    world.run(60 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("ZooKeeper"), "{}", world.why(0));
    world.heal();
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0));
}

#[test]
fn worker_ids_of_instances_that_are_gone_for_a_day_are_reclaimed_and_not_before() {
    let mut world = SimulatedWorld::new(1, &["a", "b", "c"], 1);
    (0..2).for_each(|at| world.start(at));
    world.run(settled());
    let freed = world.worker_of(0);
    world.kill(0);
    world.start(2);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(2), None);
    assert!(world.why(2).contains("all 2 worker IDs"), "{}", world.why(2));
    let (a, c) = (0, 2);
    world.pass(24 * HOUR - 60 * SECOND);
    world.step(1, Fate::Answered);
    world.run(settled());
    assert_eq!(world.worker_of(c), None);
    world.run(120 * SECOND);
    assert_eq!(world.worker_of(c), freed);
    // The former owner returns, and finds no worker ID left.
    world.start(a);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(a), None);
    world.stop(c, true);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(a), freed, "{}", world.why(a));
}

#[test]
fn where_the_registrys_clock_may_jump_a_worker_id_is_reclaimed_after_a_day_that_was_seen() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 0);
    world.rules = world.rules.observing_ages();
    world.start(0);
    world.run(settled());
    let freed = world.worker_of(0);
    world.kill(0);
    world.start(1);
    world.run(90 * SECOND);
    // Another server says that it is two days later.
    world.registry_offset = 48 * i64::try_from(HOUR).unwrap();
    world.ensemble().epoch += 1;
    world.run(90 * SECOND);
    assert_eq!(world.worker_of(1), None);
    world.pass(24 * HOUR - 300 * SECOND);
    world.run(60 * SECOND);
    // Somebody else is heard of: what was seen before does not count any more.
    world.ensemble().epoch += 1;
    world.run(90 * SECOND);
    assert_eq!(world.worker_of(1), None);
    world.pass(24 * HOUR);
    world.run(120 * SECOND);
    assert_eq!(world.worker_of(1), freed, "{}", world.why(1));
}

#[test]
fn where_java_leaf_is_present_nothing_is_reclaimed() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 0);
    world.rules.reclaim_after_ms = None;
    world.start(0);
    world.run(settled());
    world.kill(0);
    world.start(1);
    world.pass(100 * HOUR);
    world.run(settled());
    assert_eq!(world.worker_of(1), None);
    assert!(world.why(1).contains("worker.java-leaf"), "{}", world.why(1));
}

#[test]
fn a_worker_id_that_was_given_back_is_anybodys() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 0);
    world.start(0);
    world.run(settled());
    world.stop(0, true);
    world.start(1);
    world.run(rules().settle_ms - SECOND);
    assert_eq!(world.worker_of(1), None, "in a tree that went back it might be in use");
    world.run(4 * SECOND);
    assert_eq!(world.worker_of(1), Some(0));
}

#[test]
fn a_node_whose_creation_got_no_answer_is_claimed_and_not_taken_for_a_java_leafs() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 1023);
    world.start(0);
    while !matches!(world.action(0), ClaimAction::Create { .. }) {
        world.step(0, Fate::Answered);
    }
    world.step(0, Fate::Unheard);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    // Neither is one that was stopped in between.
    world.start(1);
    while !matches!(world.action(1), ClaimAction::Create { .. }) {
        world.step(1, Fate::Answered);
    }
    world.step(1, Fate::Unheard);
    world.kill(1);
    world.start(1);
    world.run(settled());
    assert_eq!(world.worker_of(1), Some(1), "{}", world.why(1));
}

#[test]
fn instances_that_come_and_go_use_up_no_worker_ids() {
    let mut world = SimulatedWorld::new(1, &EIGHT, 7);
    for _ in 0..20 {
        world.start(0);
        world.run(settled());
        assert!(world.worker_of(0).is_some(), "{}", world.why(0));
        world.stop(0, true);
    }
    (0..8).for_each(|at| world.start(at));
    world.run(60 * SECOND);
    let workers: HashSet<_> = (0..8).filter_map(|at| world.worker_of(at)).collect();
    assert_eq!(workers, (0..8).collect(), "{}", world.why(7));
}

#[test]
fn a_tree_that_is_wiped_gets_its_worker_ids_back_and_newcomers_get_others() {
    for seed in 0..50 {
        let mut world = SimulatedWorld::new(seed, &EIGHT, 1023);
        (0..4).for_each(|at| world.start(at));
        world.run(settled());
        let before: Vec<_> = (0..4).map(|at| world.worker_of(at).unwrap()).collect();
        let sessions: Vec<_> = (0..4).map(|at| world.session_of(at).unwrap()).collect();
        world.ensemble().tree.wipe();
        for session in sessions {
            world.end(session);
        }
        (4..8).for_each(|at| world.start(at));
        world.run(30 * SECOND);
        let after: Vec<_> = (0..8).map(|at| world.worker_of(at)).collect();
        assert_eq!(after[..4], before.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(after.iter().flatten().collect::<HashSet<_>>().len(), 8, "{after:?}");
    }
}

#[test]
fn in_a_tree_that_is_put_back_no_instance_that_issues_lowers_its_limit() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    let holder = |world: &SimulatedWorld| world.look("a").entries[0].holder.clone().unwrap();
    let limit = |world: &SimulatedWorld| holder(world).value.unwrap().limit;
    world.start(0);
    world.run(settled());
    let copy = world.ensemble().tree.clone();
    world.run(settled());
    let before = limit(&world);
    world.put_tree_back(Some(copy));
    let put_back = holder(&world).version;
    assert!(limit(&world) < before);
    while holder(&world).version == put_back {
        world.pass(100);
        world.step(0, Fate::Answered);
    }
    assert!(limit(&world) >= before);
}

#[test]
fn a_new_node_is_made_also_where_one_that_was_put_back_has_the_next_name() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 1023);
    world.start(0);
    world.run(settled());
    world.start(1);
    world.run(settled());
    world.lose_disk(0);
    world.ensemble().tree.wipe();
    world.run(settled());
    assert_eq!(world.worker_of(1), Some(1));
    world.lose_disk(1);
    world.pass(11 * SECOND);
    world.start(1);
    world.run(20 * SECOND);
    assert!(world.worker_of(1).is_some_and(|worker| worker != 1), "{}", world.why(1));
}

#[test]
fn an_instance_that_takes_over_a_worker_id_and_yields_to_a_twin_passes_the_limit_on() {
    let mut yielded = 0;
    for seed in 0..20 {
        let mut world = SimulatedWorld::new(seed, &["a", "b", "c", "c"], 1);
        (0..2).for_each(|at| world.start(at));
        world.run(settled());
        (0..2).for_each(|at| world.kill(at));
        world.pass(30 * HOUR);
        (2..4).for_each(|at| world.start(at));
        for at in [2, 3, 2] {
            while !matches!(world.action(at), ClaimAction::Commit(_)) {
                world.step(at, Fate::Answered);
            }
            if at == 3 {
                world.step(at, Fate::Answered);
            }
        }
        world.run(SECOND);
        let view = world.look("c");
        yielded += view.frees.len();
        let left = |(_, free): &(_, Found<FreeRecord>)| {
            free.value.as_ref().unwrap().not_before >= BEGIN + 12 * HOUR
        };
        assert!(view.frees.iter().all(left), "{:?}", view.frees);
    }
    assert!(yielded > 3, "{yielded}");
}

#[test]
fn an_instance_that_takes_over_a_worker_id_and_stops_before_using_it_passes_the_limit_on() {
    for give_back in [false, true] {
        let mut world = SimulatedWorld::new(1, &["a", "b", "c"], 0);
        world.hosts[0].offset = 7_200_000;
        world.start(0);
        world.run(settled());
        let limit = world.look("a").entries[0].holder().unwrap().limit;
        world.kill(0);
        world.pass(30 * HOUR);
        // Both clocks are behind that limit.
        world.hosts[1].offset = -100_000_000;
        world.hosts[2].offset = -100_000_000;
        world.start(1);
        world.run(2 * SECOND);
        assert!(world.why(1).contains("is new"), "{}", world.why(1));
        world.stop(1, give_back);
        world.start(2);
        world.run(settled());
        assert!(world.next_of(2).unwrap() >= limit);
    }
}

#[test]
fn an_instance_that_took_a_worker_id_for_vacant_leaves_it_if_it_was_given_back() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 1023);
    world.start(0);
    world.run(SECOND);
    let free = FreeRecord { version: 1, not_before: 0 };
    let name = NodeName::new("a", 0);
    assert!(world.execute(&[RegistryWrite::Create(RegistryRecord::Free(name, free))]));
    world.run(2 * settled());
    assert!(world.look("a").free.is_empty(), "taken from there");
    assert!(world.worker_of(0).is_some() && world.is_live(0));
}

#[test]
fn of_a_state_directory_that_was_copied_while_nobody_used_it_one_goes_on() {
    for seed in 0..50 {
        let mut world = SimulatedWorld::new(seed, &["a", "a"], 1023);
        world.start(0);
        world.run(settled());
        let ms = world.random.u64(0..5 * SECOND);
        world.run(ms);
        if seed % 2 == 0 {
            world.kill(0)
        } else {
            world.stop(0, false)
        }
        world.copy_disk(0, 1);
        let first = world.random.usize(0..2);
        world.start(first);
        let ms = world.random.u64(0..5 * SECOND);
        world.run(ms);
        world.start(1 - first);
        world.run(40 * SECOND);
        let serving: Vec<_> = (0..2).filter_map(|at| world.worker_of(at)).collect();
        assert_eq!(serving, [0], "seed {seed}");
    }
}

#[test]
fn a_new_worker_id_settles_in_one_session() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    world.run(4 * SECOND);
    let copy = world.ensemble().tree.clone();
    world.run(4 * SECOND);
    world.put_tree_back(Some(copy));
    world.run(8 * SECOND);
    assert_eq!(world.worker_of(0), None);
    world.run(5 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
}

#[test]
fn a_worker_id_returns_also_where_a_newcomer_has_just_made_its_node() {
    let mut world = SimulatedWorld::new(1, &["a", "b"], 1023);
    world.start(0);
    world.run(settled());
    world.ensemble().tree.wipe();
    world.start(1);
    while world.ensemble().tree.names(Folder::Owned).is_empty() {
        world.step(1, Fate::Answered);
    }
    while !world.is_live(0) {
        world.pass(100);
        world.step(0, Fate::Answered);
    }
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
    assert!(world.worker_of(1).is_some_and(|worker| worker != 0), "{}", world.why(1));
}

#[test]
fn a_java_leaf_of_this_address_is_joined_when_it_is_quiet_and_not_while_it_writes() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:8080"], 1023);
    const ADDRESS: &str = "10.0.0.1:8080";
    for address in ["10.0.0.2:8080", ADDRESS, "10.0.0.3:8080"] {
        let leaf = java_record(address, BEGIN);
        world.ensemble().tree.create_sequential(address, leaf, BEGIN);
    }
    let report = |now| RegistryRecord::Leaf(NodeName::new(ADDRESS, 1), java_record(ADDRESS, now));
    world.start(0);
    for _ in 0..10 {
        let now = BEGIN + world.now;
        assert!(world.ensemble().tree.overwrite(report(now), now));
        world.run(3 * SECOND);
        assert_eq!(world.worker_of(0), None);
    }
    assert!(world.why(0).contains("Java Leaf"), "{}", world.why(0));
    let (now, quiet) = (world.now, quiet_ms(rules().session_ms));
    world.run(quiet - 4 * SECOND);
    assert_eq!(world.worker_of(0), None, "{} ms", world.now - now);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(1), "{}", world.why(0));
    // It comes back on the node that leafd has: only one of the two may issue.
    let now = BEGIN + world.now;
    assert!(world.ensemble().tree.overwrite(report(now), now));
    world.run(4 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("Java Leaf"), "{}", world.why(0));
    world.run(quiet + 4 * SECOND);
    assert_eq!(world.worker_of(0), Some(1));
}

/// A Java Leaf at the address has written the node of number 0, `ago` ms ago.
fn javas_node(world: &mut SimulatedWorld, ago: u64) {
    world.pass(ago);
    let (address, at) = ("10.0.0.1:1", world.zk_now() - ago);
    let leaf = java_record(address, at);
    let tree = &mut world.ensemble().tree;
    if !tree.overwrite(RegistryRecord::Leaf(NodeName::new(address, 0), leaf.clone()), at) {
        tree.create_sequential(address, leaf, at).unwrap();
    }
}

#[test]
fn an_old_write_says_nothing_about_a_java_leaf_that_may_have_been_cut_off_since() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    javas_node(&mut world, HOUR);
    world.start(0);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("s more"), "{}", world.why(0));
    // The time does not count in which nobody could have written.
    world.go_down();
    world.run(60 * SECOND);
    world.come_back();
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None);
    // Nor what was seen in another session.
    world.expire(0);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None);
    world.run(12 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    assert!(world.next_of(0).unwrap() >= BEGIN + HOUR, "{}", world.next_of(0).unwrap() - BEGIN);
}

#[test]
fn whoever_has_seen_a_java_leaf_on_its_node_issues_nothing_without_zookeeper_in_no_later_life() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    world.start(0);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0));
    javas_node(&mut world, 0);
    world.run(4 * SECOND);
    assert_eq!(world.worker_of(0), None);
    world.go_down();
    for _ in 0..3 {
        world.kill(0);
        world.start(0);
        world.run(30 * SECOND);
        assert_eq!(world.worker_of(0), None);
        assert!(world.why(0).contains("not a leafd"), "{}", world.why(0));
    }
    world.come_back();
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None, "not before it was quiet");
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    // It is its own again, also without ZooKeeper.
    world.go_down();
    world.kill(0);
    world.start(0);
    world.run(4 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
}

#[test]
fn an_empty_directory_makes_no_second_node_beside_a_java_leaf_where_a_leafd_once_was() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    world.start(0);
    world.run(settled());
    world.lose_disk(0);
    world.pass(13 * HOUR);
    world.start(0);
    for _ in 0..20 {
        javas_node(&mut world, 0);
        world.run(3 * SECOND);
        assert_eq!(world.worker_of(0), None);
        assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 1);
    }
    assert!(world.why(0).contains("being written"), "{}", world.why(0));
    world.run(40 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 1);
}

#[test]
fn whoever_settles_gives_way_to_a_java_leaf_that_had_just_started() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    world.start(0);
    world.run(settled());
    world.lose_disk(0);
    world.pass(11 * SECOND);
    world.start(0);
    world.run(SECOND);
    assert!(world.why(0).contains("is new"), "{}", world.why(0));
    // Java Leaf writes a second after its start first.
    for _ in 0..10 {
        javas_node(&mut world, 0);
        world.run(3 * SECOND);
        assert_eq!(world.worker_of(0), None, "{}", world.why(0));
    }
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 1);
}

#[test]
fn what_a_lost_directory_may_still_issue_is_left_alone_when_its_java_leaf_is_gone() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:1"], 1023);
    world.start(0);
    world.run(settled());
    world.lose_disk(0);
    world.pass(11 * SECOND);
    javas_node(&mut world, 0);
    world.start(0);
    world.run(20 * SECOND);
    assert_eq!((world.worker_of(0), world.ensemble().tree.names(Folder::Owned).len()), (None, 1));
    world.run(40 * SECOND);
    assert_eq!(world.worker_of(0), Some(1), "the limit of the lost one has not passed");
}

#[test]
fn an_own_write_that_comes_late_while_the_tree_is_read_is_not_taken_for_a_java_leafs() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    world.run(settled());
    let mut view = world.look("a");
    view.entries[0].leaf.version -= 1;
    let now = world.now_of(0);
    let claimant = &mut world.hosts[0].life.as_mut().unwrap().registrar.claimant;
    claimant.stage = ClaimStage::Looking { survey: false };
    claimant.done(now, ClaimOutcome::Looked(Box::new(view)));
    assert_eq!(claimant.effects(), []);
    world.run(SECOND);
    assert_eq!((world.worker_of(0), world.is_live(0)), (Some(0), true));
}

#[test]
fn a_clock_that_differs_from_the_others_is_refused_until_it_is_right() {
    let mut world = SimulatedWorld::new(1, &["a"], 1023);
    world.start(0);
    world.run(settled());
    world.kill(0);
    world.start(0);
    world.verdict = Verdict::Differs { mean_ms: 7000 };
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("7000 ms"), "{}", world.why(0));
    // Nor does the worker file help when the others cannot be asked any more.
    while !matches!(world.action(0), ClaimAction::AskPeers) {
        world.pass(100);
        world.step(0, Fate::Answered);
    }
    world.hosts[0].cut_off = Some(world.now);
    world.run(20 * SECOND);
    assert_eq!(world.worker_of(0), None);
    world.heal();
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
}

#[test]
fn what_a_java_leaf_used_is_not_used_again_when_zookeeper_goes_away_after_the_claim() {
    let mut world = SimulatedWorld::new(1, &["10.0.0.1:8080"], 1023);
    world.start(0);
    world.run(settled());
    world.kill(0);
    let now = world.zk_now();
    let address = "10.0.0.1:8080";
    let report = RegistryRecord::Leaf(NodeName::new(address, 0), java_record(address, now + HOUR));
    assert!(world.ensemble().tree.overwrite(report, now));
    world.start(0);
    world.go(0, |action| matches!(action, ClaimAction::AskPeers));
    world.hosts[0].cut_off = Some(world.now);
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(0), None, "nothing before the first report");
    world.heal();
    world.run(10 * SECOND);
    assert_eq!(world.worker_of(0), Some(0));
    assert!(world.next_of(0).unwrap() >= now + HOUR);
}
