use super::*;
use crate::state::worker_file::Standing;
use crate::worker::claim::simulation::{
    BEGIN, Folder, HOUR, SECOND, SimulatedWorld, java_record, settled,
};

const ADDRESS: &str = "10.0.0.1:1";

/// A world in which a leafd has served at the address and has ended.
fn ended(ends: impl FnOnce(&mut SimulatedWorld)) -> SimulatedWorld {
    let mut world = SimulatedWorld::new(1, &[ADDRESS, ADDRESS], 1023);
    world.start(0);
    world.run(settled());
    assert_eq!(world.worker_of(0), Some(0));
    ends(&mut world);
    world
}

fn giver(world: &SimulatedWorld) -> (Vec<String>, u64) {
    let host = &world.hosts[0];
    (host.nonces().to_vec(), host.disk.ceiling_ms)
}

fn hand_over_of(world: &SimulatedWorld) -> Result<HandOver, String> {
    let (nonces, ceiling_ms) = giver(world);
    hand_over(&Giver { identity: ADDRESS, nonces: &nonces, ceiling_ms }, &world.look(ADDRESS))
}

/// A Java Leaf at the address writes its node.
fn javas_report(world: &SimulatedWorld, timestamp: u64) {
    let report = RegistryRecord::Leaf(NodeName::new(ADDRESS, 0), java_record(ADDRESS, timestamp));
    assert!(world.ensemble().tree.overwrite(report, world.zk_now()));
}

fn timestamp(world: &SimulatedWorld) -> u64 {
    world.look(ADDRESS).entries[0].leaf.value.as_ref().unwrap().timestamp
}

#[test]
fn what_is_handed_back_records_the_ceiling_of_the_disk_and_never_less_than_before() {
    let mut world = ended(|world| world.kill(0));
    let before = timestamp(&world);
    // Beyond what the tree has heard of.
    world.hosts[0].disk.ceiling_ms = before + HOUR;
    let Ok(HandOver::After { ops, until_ms, .. }) = hand_over_of(&world) else { panic!() };
    assert_eq!(until_ms, before + HOUR);
    assert!(world.execute(&ops));
    assert_eq!(timestamp(&world), until_ms);
    // Again, with a disk that knows less.
    world.hosts[0].disk.ceiling_ms = BEGIN;
    let Ok(HandOver::After { ops, until_ms: again, .. }) = hand_over_of(&world) else { panic!() };
    assert!(world.execute(&ops));
    assert_eq!((again, timestamp(&world)), (until_ms, until_ms));
}

#[test]
fn a_live_leafd_with_another_state_directory_keeps_its_node() {
    let mut world = ended(|_| ());
    world.copy_disk(1, 0);
    assert!(hand_over_of(&world).unwrap_err().contains("stop it first"));
    world.kill(0);
    assert!(hand_over_of(&world).is_err(), "its session has not ended");
}

#[test]
fn of_several_nodes_none_is_handed_back_and_all_are_named() {
    let mut world = ended(|world| world.lose_disk(0));
    world.run(12 * SECOND);
    world.start(0);
    world.run(settled());
    world.stop(0, false);
    let why = hand_over_of(&world).unwrap_err();
    for part in ["2 nodes", "release 0 --owner 10.0.0.1:1", "release 1 --owner"] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_node_of_a_lost_state_directory_is_handed_back_when_its_leafd_can_issue_no_more() {
    let mut world = ended(|world| world.lose_disk(0));
    world.pass(11 * SECOND);
    assert!(hand_over_of(&world).unwrap_err().contains("worker release 0"));
    world.pass(13 * HOUR);
    let Ok(HandOver::After { ops, until_ms, .. }) = hand_over_of(&world) else { panic!() };
    assert!(ops.is_empty() && until_ms < world.zk_now());
}

#[test]
fn without_a_node_and_where_java_leaf_writes_there_is_nothing_to_write() {
    let world = ended(|world| world.stop(0, false));
    let name = NodeName::new(ADDRESS, 0);
    javas_report(&world, 7);
    let (_, until_ms) = giver(&world);
    assert_eq!(hand_over_of(&world), Ok(HandOver::IsJavas { name, until_ms }));
    world.ensemble().tree.wipe();
    assert_eq!(hand_over_of(&world), Ok(HandOver::NoNode { until_ms }));
}

#[test]
fn java_leaf_waits_for_what_was_issued_also_where_the_tree_does_not_record_it() {
    // Somebody lowered the record by hand, or the tree has lost its data and gives number 0 again.
    for is_wiped in [false, true] {
        let mut world = ended(|world| world.stop(0, false));
        world.hosts[0].disk.ceiling_ms = world.zk_now() + HOUR;
        javas_report(&world, 7);
        if is_wiped {
            world.ensemble().tree.wipe();
        }
        assert!(!world.hand_back(0), "Java Leaf would repeat an hour");
        world.pass(HOUR + SECOND);
        assert!(world.hand_back(0));
    }
}

#[test]
fn a_hand_back_holds_where_the_worker_file_knows_of_no_worker_id() {
    let mut world = SimulatedWorld::new(1, &[ADDRESS], 1023);
    assert!(world.hand_back(0));
    assert!(world.hosts[0].disk.worker.is_none());
    for is_down in [false, true] {
        world.is_down = is_down;
        world.start(0);
        world.run(60 * SECOND);
        assert!(world.why(0).contains("--undo"), "{}", world.why(0));
        world.kill(0);
    }
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 0);
}

#[test]
fn a_node_that_leafd_made_and_never_used_is_handed_back_and_is_not_taken_for_java_leafs() {
    let mut world = SimulatedWorld::new(1, &[ADDRESS], 1023);
    // As when leafd was killed right after it made the node.
    let leaf = java_record(ADDRESS, 0);
    world.ensemble().tree.create_sequential(ADDRESS, leaf, world.zk_now()).unwrap();
    assert!(matches!(hand_over_of(&world), Ok(HandOver::After { .. })));
    assert!(world.hand_back(0));
    world.start(0);
    world.run(60 * SECOND);
    assert_eq!(world.worker_of(0), None);
    assert!(world.why(0).contains("--undo"), "{}", world.why(0));
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 1);
    // Java Leaf used the node, and has stopped.
    let last = world.zk_now();
    javas_report(&world, last);
    world.run(60 * SECOND);
    assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
    assert!(world.next_of(0).unwrap() > last);
}

#[test]
fn what_was_handed_back_is_used_by_no_later_start_until_java_leaf_has_had_it_or_it_is_undone() {
    let mut world = ended(|world| world.stop(0, false));
    world.pass(SECOND);
    assert!(world.hand_back(0));
    // With and without the ensemble.
    for is_down in [false, true] {
        world.is_down = is_down;
        world.start(0);
        world.run(60 * SECOND);
        assert_eq!(world.worker_of(0), None);
        assert!(world.why(0).contains("handed back"), "{}", world.why(0));
        world.kill(0);
    }
    world.is_down = false;
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 1, "nor is another one taken");
    let mut undone = world;
    undone.hosts[0].disk.shared.as_mut().unwrap().standing = Standing::Own;
    undone.start(0);
    undone.run(20 * SECOND);
    assert_eq!(undone.worker_of(0), Some(0), "{}", undone.why(0));
}

#[test]
fn after_a_hand_back_no_node_is_made_where_java_leaf_would_find_it() {
    let mut world = ended(|world| world.stop(0, false));
    world.ensemble().tree.wipe();
    world.pass(SECOND);
    assert!(world.hand_back(0));
    world.start(0);
    world.run(30 * SECOND);
    assert_eq!(world.ensemble().tree.names(Folder::Owned).len(), 0);
    assert!(world.why(0).contains("--undo"), "{}", world.why(0));
}

#[test]
fn a_leafd_joins_again_what_java_leaf_has_had_and_left() {
    for keeps_disk in [true, false] {
        let mut world = ended(|world| world.stop(0, false));
        world.pass(SECOND);
        assert!(world.hand_back(0));
        let last = world.zk_now() + 10 * SECOND;
        javas_report(&world, last);
        if !keeps_disk {
            world.lose_disk(0);
        }
        world.start(0);
        world.run(20 * SECOND);
        assert_eq!(world.worker_of(0), None, "not before it was quiet");
        world.run(30 * SECOND);
        assert_eq!(world.worker_of(0), Some(0), "{}", world.why(0));
        assert!(world.next_of(0).unwrap() > last);
    }
}
