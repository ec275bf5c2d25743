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
use leafd_tests::stores::wait_until;
use leafd_tests::zookeeper::Tree;
use leafd_tests::{Ensemble, Host, Proxy, UniqueIds};
use serde_json::Value;

/// Four worker IDs.
const FOUR: &str = "41/2/20@1288834974657/1ms";

/// Eight worker IDs.
const EIGHT: &str = "41/3/19@1288834974657/1ms";

/// Two worker IDs.
const TWO: &str = "41/1/21@1288834974657/1ms";

/// A worker ID may be taken over once its owner has not reported for this long.
const RECLAIM_AFTER_MS: i64 = 20_000;

/// The refusal of an instance that could not report for too long.
const FENCED: &str = "ZooKeeper has not taken a report for 10 s (worker.fence-after)";

fn host(servers: &str, identity: &str, layout: &str, seen: &UniqueIds) -> Host {
    Host::new(servers, identity, seen)
        .with_layout(layout)
        .with("WORKER_RECLAIM_AFTER", "20s")
        .with("WORKER_FENCE_AFTER", "10s")
}

/// Starts new hosts, so that the first gets worker ID 0.
fn start_in_order<'a>(tree: &Tree, hosts: impl IntoIterator<Item = &'a mut Host>) {
    let mut started = Vec::new();
    for (host, worker) in hosts.into_iter().zip(0..) {
        host.start();
        tree.wait_for(&forever(host.name(), worker));
        started.push((host, worker));
    }
    for (host, worker) in started {
        assert_eq!(host.serves(), worker);
    }
}

fn forever(identity: &str, worker: u64) -> String {
    format!("/snowflake/leaf/forever/{identity}-{worker:010}")
}

fn created_ms(tree: &Tree, path: &str) -> i64 {
    tree.call(async |client| client.get_data(path).await).unwrap().1.ctime
}

/// The recorded time (ms since 1970) up to which the owner of a worker ID may issue.
fn limit_ms(tree: &Tree, node: &str) -> u64 {
    let record = tree.get(&format!("{node}/leafd")).unwrap().data;
    let record: Value = serde_json::from_slice(&record).unwrap();
    record["limit"].as_u64().unwrap()
}

/// ZooKeeper's clock (ms since 1970), read from the time of a write.
fn zookeeper_ms(tree: &Tree) -> i64 {
    tree.set("/snowflake", b"");
    tree.get("/snowflake").unwrap().mtime
}

/// Asserts that everything `before` issued with a worker ID is older than what `after` issued.
fn follows(before: &Host, after: &Host, worker: u64) {
    let (last, first) = (before.issued()[&worker].last_ms, after.issued()[&worker].first_ms);
    println!("worker ID {worker}: {} ms between its owners", first - last);
    assert!(last < first, "{last} and {first}\n{before}{after}");
}

#[test]
fn when_all_are_taken_a_newcomer_waits_until_an_owner_is_long_gone_and_the_owner_gets_another() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let mut hosts = ["a", "b", "c", "d"].map(|name| host(&servers, name, FOUR, &seen));
    start_in_order(&tree, &mut hosts);
    let mut fifth = host(&servers, "fifth", FOUR, &seen);
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
    let node = forever("c", 2);
    let (reported_ms, limit) = (tree.get(&node).unwrap().mtime, limit_ms(&tree, &node));
    fifth.refuses("all 4 worker IDs of the layout are taken, 3 of them live; the next can be");
    assert_eq!(fifth.serves(), 2);
    let waited = created_ms(&tree, &forever("fifth", 2)) - reported_ms;
    println!("reclaimed {waited} ms after the last report, by ZooKeeper's clock");
    assert!(waited >= RECLAIM_AFTER_MS, "{waited}");
    assert_eq!(tree.get(&node), None);
    follows(gone, &fifth, 2);
    let first_ms = fifth.issued()[&2].first_ms;
    assert!(first_ms >= limit, "{first_ms} is before {limit}");

    gone.start();
    gone.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    first.stop();
    let (code, _, errors) = leafctl_in_the_end(&fifth, &["worker", "release", "0", "--owner", "a"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(gone.serves(), 0);
    follows(first, gone, 0);
    first.start();
    first.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    assert_eq!(gone.used(), [0, 2]);
    assert_eq!(tree.children("/snowflake/leaf/forever").len(), 4);
    fifth.gives_enough("the fifth of four");
}

#[test]
fn an_owner_that_returns_without_zookeeper_stops_at_its_limit_and_does_not_start_after_it() {
    let (ensemble, seen) = (Ensemble::shared(), UniqueIds::default());
    let path = ensemble.fresh_path();
    let (proxies, through_proxies) = ensemble.through_proxies();
    let servers = ensemble.connect_string() + &path;
    let tree = Tree::at(&servers);
    let mut owner = host(&(through_proxies + &path), "owner", TWO, &seen);
    let mut other = host(&servers, "other", TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut heir = host(&servers, "heir", TWO, &seen);
    start_in_order(&tree, [&mut owner, &mut other]);
    owner.kill();
    proxies.iter().for_each(Proxy::cut);
    let node = forever("owner", 0);
    let (reported_ms, limit) = (tree.get(&node).unwrap().mtime, limit_ms(&tree, &node));
    owner.start();
    assert_eq!(owner.serves(), 0);
    owner.home().log().wait_for("worker ID from the worker file");
    heir.start();
    heir.refuses("all 2 worker IDs of the layout are taken");
    owner.refuses(FENCED);
    let calls = owner.calls();
    assert_eq!(heir.serves(), 0);
    assert!(created_ms(&tree, &forever("heir", 0)) - reported_ms >= RECLAIM_AFTER_MS);
    follows(&owner, &heir, 0);
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

    proxies.iter().for_each(Proxy::pass);
    owner.refuses("all 2 worker IDs of the layout are taken, 2 of them live");
    other.stop();
    assert_eq!(owner.serves(), 1);
    follows(&other, &owner, 1);
    assert_eq!(heir.serves(), 0);
    heir.gives_enough("an owner that returned without ZooKeeper");
}

#[test]
fn a_thawed_owner_issues_nothing_with_a_worker_id_that_another_has_taken() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let mut owner = host(&servers, "owner", TWO, &seen);
    let mut other = host(&servers, "other", TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut heir = host(&servers, "heir", TWO, &seen);
    start_in_order(&tree, [&mut owner, &mut other]);
    let mut connections = [(); 32].map(|()| Raw::greeted(&owner.home().socket()));
    owner.freeze();
    let reported_ms = tree.get(&forever("owner", 0)).unwrap().mtime;
    // The questions are there before it notices that it was frozen.
    let question = frame(2, Call::Snowflake { count: 3000, timeout_ms: 0 });
    connections.iter_mut().for_each(|connection| connection.send(&question));
    heir.start();
    assert_eq!(heir.serves(), 0);
    assert!(created_ms(&tree, &forever("heir", 0)) - reported_ms >= RECLAIM_AFTER_MS);
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
    follows(&owner, &heir, 0);
    follows(&other, &owner, 1);
    heir.gives_enough("an owner that was frozen");
}

#[test]
fn nothing_is_reclaimed_while_java_leaf_is_present() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let beside = |name| host(&servers, name, TWO, &seen).with("WORKER_JAVA_LEAF", "true");
    let [mut gone, mut other, mut third] = ["gone", "other", "third"].map(beside);
    start_in_order(&tree, [&mut gone, &mut other]);
    gone.kill();
    let reported_ms = tree.get(&forever("gone", 0)).unwrap().mtime;
    third.start();
    let reason = "none is reclaimed while Java Leaf is present (worker.java-leaf)";
    third.refuses(reason);
    third.wait_until("time", || zookeeper_ms(&tree) - reported_ms > RECLAIM_AFTER_MS + 1000);
    third.stop();
    third.start();
    third.refuses(reason);
    // Only the setting makes the difference.
    let mut alone = host(&servers, "alone", TWO, &seen);
    alone.start();
    assert_eq!(alone.serves(), 0);
    follows(&gone, &alone, 0);
    gone.start();
    gone.refuses(reason);
    third.refuses(reason);
    alone.gives_enough("beside Java Leaf");
}

#[test]
fn a_worker_id_that_was_given_back_is_free_and_one_whose_owner_was_killed_is_not() {
    let (ensemble, seen) = (Ensemble::shared(), UniqueIds::default());
    let path = ensemble.fresh_path();
    let (proxies, through_proxies) = ensemble.through_proxies();
    let servers = ensemble.connect_string() + &path;
    let tree = Tree::at(&servers);
    let giving =
        |servers: &str, name| host(servers, name, TWO, &seen).with("WORKER_GIVE_BACK", "true");
    let mut first = giving(&(through_proxies + &path), "first");
    let [mut second, mut heir, mut late] =
        ["second", "heir", "late"].map(|it| giving(&servers, it));
    start_in_order(&tree, [&mut first, &mut second]);
    first.stop();
    assert_eq!(tree.children("/snowflake/leaf/forever"), ["second-0000000001"]);
    assert_eq!(tree.children("/snowflake/leaf/free"), ["first-0000000000"]);
    heir.start();
    assert_eq!(heir.serves(), 0);
    follows(&first, &heir, 0);
    assert_eq!(tree.children("/snowflake/leaf/free"), [""; 0]);
    // It does not take from its file what it gave back.
    proxies.iter().for_each(Proxy::cut);
    first.start();
    first.refuses("no worker ID yet, ZooKeeper has to give one");
    proxies.iter().for_each(Proxy::pass);
    first.refuses("all 2 worker IDs of the layout are taken, 2 of them live");
    first.stop();

    heir.kill();
    late.start();
    late.refuses("all 2 worker IDs of the layout are taken, 1 of them live");
    heir.start();
    assert_eq!(heir.serves(), 0);
    heir.stop();
    assert_eq!(late.serves(), 0);
    follows(&heir, &late, 0);
    late.gives_enough("given back");
}

#[test]
fn many_short_lives_that_give_back_need_few_worker_ids() {
    const THREADS: usize = 9;
    const LIVES: usize = 40;
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    // Each take-over uses up a sequence number. Begin where ZooKeeper has counted past eight.
    for _ in 0..8 {
        let node = tree.create_sequential("/snowflake/leaf/forever/past-", b"");
        tree.delete_recursive(&node);
    }
    let names = Mutex::new((0..LIVES).map(|life| format!("pod-{life}")));
    let next = || names.lock().unwrap().next();
    let untold = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(name) = next() {
                    let pod = host(&servers, &name, EIGHT, &seen);
                    let mut pod = pod.with("WORKER_GIVE_BACK", "true");
                    pod.start();
                    pod.serves();
                    // On a busy machine ZooKeeper may not answer before a stop gives up.
                    if pod.stop().count("ZooKeeper was not told of the end") > 0 {
                        untold.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let kept = tree.children("/snowflake/leaf/forever");
    assert!(kept.len() <= untold.load(Ordering::Relaxed), "{kept:?}");
    assert_eq!(tree.children("/snowflake/leaf/temporary"), [""; 0]);
    let mut free = tree.children("/snowflake/leaf/free");
    free.extend(kept);
    let numbers = free.iter().map(|name| name.rsplit_once('-').unwrap().1.parse().unwrap());
    assert_eq!(numbers.collect::<BTreeSet<u64>>(), (0..8).collect());
    assert_eq!(free.len(), 8);
    println!("{LIVES} lives: {} IDs, none twice", seen.count(SNOWFLAKE));
    assert!(seen.count(SNOWFLAKE) > 5000);
}

/// Runs leafctl, again while ZooKeeper does not answer in time, as it may on a busy machine. Exit code,
/// output and errors.
fn leafctl_in_the_end(host: &Host, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut ended = host.leafctl(arguments);
    wait_until("ZooKeeper answers leafd", || {
        let is_late = ended.0 == Some(69) && ended.2.contains("RegistryUnavailable");
        if is_late {
            ended = host.leafctl(arguments);
        }
        !is_late
    });
    ended
}

/// The rows of `leafctl worker list`: owner, worker ID, state, whether it is live, whether it is the
/// asked daemon's own.
fn listed(host: &Host) -> Vec<(String, u64, String, bool, bool)> {
    let (code, list, errors) = leafctl_in_the_end(host, &["worker", "list", "--json"]);
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

#[test]
fn an_operator_sees_the_fleet_and_can_release_only_what_nobody_uses() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let mut hosts = ["a", "b", "c", "d"].map(|name| host(&servers, name, FOUR, &seen));
    hosts[3].set("WORKER_GIVE_BACK", "true");
    start_in_order(&tree, &mut hosts);
    let [here, _, gone, giving] = &mut hosts;
    gone.kill();
    giving.stop();
    tree.wait_gone("/snowflake/leaf/temporary/c-0000000002");
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
    let (code, table, _) = leafctl_in_the_end(here, &["worker", "list"]);
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
        let (code, out, errors) = leafctl_in_the_end(here, &arguments);
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

    let mut heirs = ["e", "f"].map(|name| host(&servers, name, FOUR, &seen));
    let [heir, second] = &mut heirs;
    heir.start();
    assert_eq!(heir.serves(), 3);
    second.start();
    second.refuses("all 4 worker IDs of the layout are taken, 3 of them live");
    let release = ["worker", "release", "2", "--owner", "c", "--json"];
    for _ in 0..2 {
        let (code, out, errors) = leafctl_in_the_end(here, &release);
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
    let free = tree.get("/snowflake/leaf/free/c-0000000002").unwrap();
    let free: Value = serde_json::from_slice(&free.data).unwrap();
    assert_eq!(second.serves(), 2);
    follows(gone, second, 2);
    assert!(second.issued()[&2].first_ms >= free["notBefore"].as_u64().unwrap());
    refused(&["2", "--owner", "c"], "worker ID 2 belongs to \"f\", not to \"c\"");
    // Its owner comes back after all.
    gone.start();
    gone.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    assert_eq!(second.serves(), 2);
    second.gives_enough("released by an operator");
}
