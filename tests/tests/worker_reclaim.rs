//! Worker IDs run out: when an instance may take over another's, what the former owner does, and what
//! an operator can do about it. Layouts with one to three worker bits stand in for the default, which
//! has ten.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_client::wire::{Call, ErrorCode, Reply};
use leafd_tests::faketime::FakeTime;
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::raw::{Raw, frame};
use leafd_tests::registry::{RegistryAccess, RegistryKind, ZooKeeper};
use leafd_tests::stores::wait_until;
use leafd_tests::{Host, TestRegistry, UniqueIds, on_every_registry};
use serde_json::Value;

/// Four worker IDs.
const FOUR: &str = "41/2/20@1288834974657/1ms";

/// Eight worker IDs.
const EIGHT: &str = "41/3/19@1288834974657/1ms";

/// Two worker IDs.
const TWO: &str = "41/1/21@1288834974657/1ms";

/// A worker ID may be taken over once its owner has not reported for this long.
const RECLAIM_AFTER_MS: u64 = 20_000;

/// In the refusal of an instance that could not report for too long.
const FENCED: &str = "has not taken a report for 10 s (worker.fence-after)";

on_every_registry! {
    when_all_are_taken_a_newcomer_waits_until_an_owner_is_long_gone_and_the_owner_gets_another,
    an_owner_that_returns_without_zookeeper_stops_at_its_limit_and_does_not_start_after_it,
    a_thawed_owner_issues_nothing_with_a_worker_id_that_another_has_taken,
    a_worker_id_that_was_given_back_is_free_and_one_whose_owner_was_killed_is_not,
    many_short_lives_that_give_back_need_few_worker_ids,
    an_operator_sees_the_fleet_and_can_release_only_what_nobody_uses,
}

fn host(access: &RegistryAccess, identity: &str, layout: &str, seen: &UniqueIds) -> Host {
    Host::new(access, identity, seen)
        .with_layout(layout)
        .with("WORKER_RECLAIM_AFTER", "20s")
        .with("WORKER_FENCE_AFTER", "10s")
}

fn when_all_are_taken_a_newcomer_waits_until_an_owner_is_long_gone_and_the_owner_gets_another(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let mut hosts = ["a", "b", "c", "d"].map(|name| host(&access, name, FOUR, &seen));
    registry.start_in_order(&mut hosts);
    let mut fifth = host(&access, "fifth", FOUR, &seen);
    fifth.start();
    let error = fifth.refuses(
        "all 4 worker IDs of the layout are taken, 4 of them live; none can be reclaimed as long \
         as their owners live",
    );
    assert!(error.message.contains("leafctl worker release"), "{error}");
    assert!(error.message.contains("worker.give-back"), "{error}");
    fifth.serves_segments();

    let [first, _, gone, _] = &mut hosts;
    gone.kill();
    let (reported_ms, limit) = (registry.reported_ms("c", 2), registry.limit_ms("c", 2));
    fifth.refuses("all 4 worker IDs of the layout are taken, 3 of them live; the next can be");
    assert_eq!(fifth.serves(), 2);
    let waited = registry.registered_ms("fifth", 2) - reported_ms;
    println!("{}: reclaimed {waited} ms after the last report", kind.name());
    assert!(waited >= RECLAIM_AFTER_MS, "{waited}");
    assert!(!registry.is_owned("c", 2));
    gone.is_followed_by(&fifth, 2);
    let first_ms = fifth.issued()[&2].first_ms;
    assert!(first_ms >= limit, "{first_ms} is before {limit}");

    gone.start();
    gone.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    first.stop();
    let (code, _, errors) = fifth.leafctl_in_the_end(&["worker", "release", "0", "--owner", "a"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(gone.serves(), 0);
    first.is_followed_by(gone, 0);
    first.start();
    first.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    assert_eq!(gone.used(), [0, 2]);
    assert_eq!(registry.owned().len(), 4);
    fifth.gives_enough("the fifth of four");
}

fn an_owner_that_returns_without_zookeeper_stops_at_its_limit_and_does_not_start_after_it(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let (access, (network, through_proxies)) = (registry.access(), registry.through_proxies());
    let mut owner = host(&through_proxies, "owner", TWO, &seen);
    let mut other = host(&access, "other", TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut heir = host(&access, "heir", TWO, &seen);
    registry.start_in_order([&mut owner, &mut other]);
    owner.kill();
    network.cut();
    let (reported_ms, limit) = (registry.reported_ms("owner", 0), registry.limit_ms("owner", 0));
    owner.start();
    assert_eq!(owner.serves(), 0);
    owner.home().log().wait_for("worker ID from the worker file");
    heir.start();
    heir.refuses("all 2 worker IDs of the layout are taken");
    owner.refuses(FENCED);
    let calls = owner.calls();
    assert_eq!(heir.serves(), 0);
    assert!(registry.registered_ms("heir", 0) - reported_ms >= RECLAIM_AFTER_MS);
    owner.is_followed_by(&heir, 0);
    let last_ms = owner.issued()[&0].last_ms;
    assert!(last_ms < limit && limit <= heir.issued()[&0].first_ms, "{last_ms}, {limit}");

    owner.kill();
    owner.start();
    owner.refuses(FENCED);
    // Nor after its clock is set back to a time at which it owned the worker ID.
    owner.kill();
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    clock.set_offset_ms(-25_000);
    owner.set_clock(&clock);
    owner.start();
    owner.refuses(FENCED);
    clock.set_offset_ms(0);
    owner.refuses(FENCED);
    assert_eq!(owner.calls(), calls);

    network.pass();
    owner.refuses("all 2 worker IDs of the layout are taken, 2 of them live");
    other.stop();
    assert_eq!(owner.serves(), 1);
    other.is_followed_by(&owner, 1);
    assert_eq!(heir.serves(), 0);
    heir.gives_enough("an owner that returned without ZooKeeper");
}

fn a_thawed_owner_issues_nothing_with_a_worker_id_that_another_has_taken(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let mut owner = host(&access, "owner", TWO, &seen);
    let mut other = host(&access, "other", TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut heir = host(&access, "heir", TWO, &seen);
    registry.start_in_order([&mut owner, &mut other]);
    let mut connections = [(); 32].map(|()| Raw::greeted(&owner.home().socket()));
    owner.freeze();
    let reported_ms = registry.reported_ms("owner", 0);
    // The questions are there before it notices that it was frozen.
    let question = frame(2, Call::Snowflake { count: 3000, timeout_ms: 0 });
    connections.iter_mut().for_each(|connection| connection.send(&question));
    heir.start();
    assert_eq!(heir.serves(), 0);
    assert!(registry.registered_ms("heir", 0) - reported_ms >= RECLAIM_AFTER_MS);
    owner.thaw();
    let mut refused = 0;
    for connection in &mut connections {
        match connection.receive().expect("an answer").reply {
            Reply::Ids { first, more } => {
                for run in std::iter::once(first).chain(more) {
                    seen.add_run(SNOWFLAKE, run.first, u64::from(run.count));
                }
            }
            Reply::Error(error) => {
                assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{error}");
                refused += 1;
            }
            answer => panic!("{answer:?}"),
        }
    }
    println!("{refused} of {} calls refused", connections.len());
    assert_eq!(refused, connections.len());
    owner.refuses("all 2 worker IDs of the layout are taken, 2 of them live");
    let lost = "worker ID 0 is another instance's now";
    owner.home().log().wait_for(lost);
    heir.serves();
    other.stop();
    assert_eq!(owner.serves(), 1);
    owner.is_followed_by(&heir, 0);
    other.is_followed_by(&owner, 1);
    heir.gives_enough("an owner that was frozen");
}

/// Java Leaf knows no registry but ZooKeeper, and leafd refuses `worker.java-leaf` with any other.
#[test]
fn nothing_is_reclaimed_while_java_leaf_is_present() {
    let (registry, seen) = (TestRegistry::shared(&ZooKeeper), UniqueIds::default());
    let access = registry.access();
    let beside = |name| host(&access, name, TWO, &seen).with("WORKER_JAVA_LEAF", "true");
    let [mut gone, mut other, mut third] = ["gone", "other", "third"].map(beside);
    registry.start_in_order([&mut gone, &mut other]);
    gone.kill();
    let reported_ms = registry.reported_ms("gone", 0);
    third.start();
    let reason = "none is reclaimed while Java Leaf is present (worker.java-leaf)";
    third.refuses(reason);
    third.wait_until("time", || registry.now_ms() - reported_ms > RECLAIM_AFTER_MS + 1000);
    third.stop();
    third.start();
    third.refuses(reason);
    // Only the setting makes the difference.
    let mut alone = host(&access, "alone", TWO, &seen);
    alone.start();
    assert_eq!(alone.serves(), 0);
    gone.is_followed_by(&alone, 0);
    gone.start();
    gone.refuses(reason);
    third.refuses(reason);
    alone.gives_enough("beside Java Leaf");
}

fn a_worker_id_that_was_given_back_is_free_and_one_whose_owner_was_killed_is_not(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let (access, (network, through_proxies)) = (registry.access(), registry.through_proxies());
    let giving = |access, name| host(access, name, TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut first = giving(&through_proxies, "first");
    let [mut second, mut heir, mut late] = ["second", "heir", "late"].map(|it| giving(&access, it));
    registry.start_in_order([&mut first, &mut second]);
    first.stop();
    assert_eq!(registry.owned(), ["second-0000000001"]);
    assert_eq!(registry.free(), ["first-0000000000"]);
    heir.start();
    assert_eq!(heir.serves(), 0);
    first.is_followed_by(&heir, 0);
    assert_eq!(registry.free(), [""; 0]);
    // It does not take from its file what it gave back.
    network.cut();
    first.start();
    first.refuses(&format!("no worker ID yet, {} has to give one", kind.called()));
    network.pass();
    first.refuses("all 2 worker IDs of the layout are taken, 2 of them live");
    first.stop();

    heir.kill();
    late.start();
    late.refuses("all 2 worker IDs of the layout are taken, 1 of them live");
    heir.start();
    assert_eq!(heir.serves(), 0);
    heir.stop();
    assert_eq!(late.serves(), 0);
    heir.is_followed_by(&late, 0);
    late.gives_enough("given back");
}

fn many_short_lives_that_give_back_need_few_worker_ids(kind: &'static dyn RegistryKind) {
    const THREADS: usize = 9;
    const LIVES: usize = 40;
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    // Each take-over uses up a sequence number in ZooKeeper. Begin where eight were given.
    registry.pass_over(8);
    let names = Mutex::new((0..LIVES).map(|life| format!("pod-{life}")));
    let next = || names.lock().unwrap().next();
    let untold = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(name) = next() {
                    let pod = host(&access, &name, EIGHT, &seen);
                    let mut pod = pod.with("WORKER_GIVE_BACK", "true");
                    pod.start();
                    pod.serves();
                    // On a busy machine the registry may not answer before a stop gives up.
                    if pod.stop().count("was not told of the end") > 0 {
                        untold.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let kept = registry.owned();
    assert!(kept.len() <= untold.load(Ordering::Relaxed), "{kept:?}");
    // Where leafd itself watches for signs of life, a marker stays until somebody looks.
    let live = registry.live();
    assert!(live.len() <= untold.load(Ordering::Relaxed), "{live:?}");
    let mut free = registry.free();
    free.extend(kept);
    let numbers = free.iter().map(|name| name.rsplit_once('-').unwrap().1.parse().unwrap());
    assert_eq!(numbers.collect::<BTreeSet<u64>>(), (0..8).collect());
    assert_eq!(free.len(), 8);
    println!("{}: {LIVES} lives: {} IDs, none twice", kind.name(), seen.count(SNOWFLAKE));
    assert!(seen.count(SNOWFLAKE) > 5000);
}

/// The rows of `leafctl worker list`: owner, worker ID, state, whether it is live, whether it is the
/// asked daemon's own.
fn listed(host: &Host) -> Vec<(String, u64, String, bool, bool)> {
    let (code, list, errors) = host.leafctl_in_the_end(&["worker", "list", "--json"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let text = |worker: &Value, key| worker[key].as_str().unwrap().to_owned();
    let of = |worker: &Value| {
        let (live, own) = (worker["live"].as_bool().unwrap(), worker["own"].as_bool().unwrap());
        let id = worker["worker"].as_u64().unwrap();
        (text(worker, "owner"), id, text(worker, "state"), live, own)
    };
    list.iter().map(of).collect()
}

fn an_operator_sees_the_fleet_and_can_release_only_what_nobody_uses(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let mut hosts = ["a", "b", "c", "d"].map(|name| host(&access, name, FOUR, &seen));
    hosts[3].set("WORKER_GIVE_BACK", "true");
    registry.start_in_order(&mut hosts);
    let [here, _, gone, giving] = &mut hosts;
    gone.kill();
    giving.stop();
    // Its session ends, or leafd sees that it gives no sign of life.
    let is_gone = |it: &(String, u64, String, bool, bool)| it.0 != "c" || !it.3;
    wait_until("c is gone", || listed(here).iter().all(is_gone));
    let found = listed(here);
    let expected = [
        ("a", 0, "held", true, true),
        ("b", 1, "held", true, false),
        ("c", 2, "held", false, false),
        ("d", 3, "released", false, false),
    ];
    let expected = expected
        .map(|(owner, id, state, live, own)| (owner.to_owned(), id, state.to_owned(), live, own));
    assert_eq!(found, expected);
    let (code, table, _) = here.leafctl_in_the_end(&["worker", "list"]);
    assert_eq!(code, Some(0));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 5, "{table}");
    assert!(lines[0].starts_with("WORKER  OWNER  ADDRESS"), "{table}");
    for (line, state) in lines[1..].iter().zip(["live, this leafd", "live", "not live", "released"])
    {
        assert!(line.contains(&format!("  {state}  ")), "{table}");
    }

    let refused = |arguments: &[&str], told: &str| {
        let arguments = [&["worker", "release"], arguments].concat();
        let (code, out, errors) = here.leafctl_in_the_end(&arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(told), "{arguments:?}: {errors}");
    };
    refused(&["1", "--owner", "b"], "worker ID 1 is in use: \"b\" is live; stop it first");
    refused(&["0", "--owner", "a"], "worker ID 0 is in use");
    refused(&["2", "--owner", "b"], "worker ID 2 belongs to \"c\", not to \"b\"");
    refused(&["3", "--owner", "c"], "worker ID 3 belongs to \"d\", not to \"c\"");
    refused(&["2", "--owner", ""], "worker ID 2 belongs to \"c\"");
    refused(&["4", "--owner", "c"], "there is no worker ID 4");
    refused(&["2"], " worker release 2 --owner c");
    refused(&["4"], "there is no worker ID 4");
    assert_eq!(listed(here), expected);

    let mut heirs = ["e", "f"].map(|name| host(&access, name, FOUR, &seen));
    let [heir, second] = &mut heirs;
    heir.start();
    assert_eq!(heir.serves(), 3);
    second.start();
    second.refuses("all 4 worker IDs of the layout are taken, 3 of them live");
    let release = ["worker", "release", "2", "--owner", "c", "--json"];
    for _ in 0..2 {
        let (code, out, errors) = here.leafctl_in_the_end(&release);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let released: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(released["state"], "released", "{out}");
    }
    // The audit has the refused attempts and the release.
    let audit = here.home().log().wait_for("audit: worker-release done");
    assert!(
        audit.contains("action=\"worker-release\" worker=2 old=\"of c\" new=\"free\""),
        "{audit}"
    );
    let in_use = "worker=1 new=\"free, if b has it\" outcome=\"210 WorkerInUse\"";
    assert!(audit.contains(in_use), "{audit}");
    let not_before = registry.not_before_ms("c", 2);
    assert_eq!(second.serves(), 2);
    gone.is_followed_by(second, 2);
    assert!(second.issued()[&2].first_ms >= not_before);
    refused(&["2", "--owner", "c"], "worker ID 2 belongs to \"f\", not to \"c\"");
    // Its owner comes back after all.
    gone.start();
    gone.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    assert_eq!(second.serves(), 2);
    second.gives_enough("released by an operator");
}
