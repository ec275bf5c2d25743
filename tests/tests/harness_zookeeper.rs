//! Tests of the harness itself: its ZooKeeper servers, their faults, and its stand-in for Java Leaf.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd_tests::processes::{has_ended, processes_in};
use leafd_tests::stores::wait_until;
use leafd_tests::zookeeper::java_leaf::{Refusal, forever, records};
use leafd_tests::zookeeper::{JavaLeaf, Tree};
use leafd_tests::{Ensemble, PATIENCE, Proxy};
use nix::unistd::Pid;
use zookeeper_client::{Acls, Error};

/// How long a test waits to see that something does not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// The shortest session timeout that the servers allow.
const A_SECOND: Duration = Duration::from_secs(1);

/// The name of the Leaf fleet.
const NAME: &str = "leaf";

fn text(tree: &Tree, path: &str) -> Option<String> {
    tree.get(path).map(|node| String::from_utf8(node.data).unwrap())
}

/// The time that a Java Leaf server recorded last.
fn timestamp(servers: &str, worker: i32) -> i64 {
    let records = records(&Tree::at(servers), NAME).unwrap();
    records.iter().find(|record| record.worker == worker).unwrap().endpoint.timestamp
}

#[test]
fn a_single_server_and_three_serve_one_tree() {
    for ensemble in [Ensemble::single(), Ensemble::of(3)] {
        let tree = ensemble.tree();
        tree.create("/a/b/c", b"one");
        assert_eq!(tree.children("/"), ["a", "zookeeper"]);
        assert_eq!(tree.children("/nothing"), [""; 0]);
        let node = tree.get("/a/b/c").unwrap();
        assert_eq!((node.data.as_slice(), node.version, node.ephemeral_owner), (&b"one"[..], 0, 0));
        assert_eq!(tree.set("/a/b/c", b"two"), 1);
        // Every server shows the same tree.
        for server in 0..ensemble.size() {
            let there = Tree::at(&format!("127.0.0.1:{}/a/b", ensemble.port(server)));
            assert_eq!(text(&there, "/c").as_deref(), Some("two"));
            assert!(there.get("/c").unwrap().mtime >= node.mtime);
        }
        assert_eq!(tree.create_sequential("/a/b/n-", b""), "/a/b/n-0000000001");
        assert_eq!(tree.create_sequential("/a/b/n-", b""), "/a/b/n-0000000002");
        tree.delete_recursive("/a");
        assert_eq!(tree.get("/a"), None);
        tree.delete_recursive("/a");
        assert!(ensemble.leader() < ensemble.size());
    }
}

#[test]
fn trees_on_the_shared_server_share_nothing() {
    let ensemble = Ensemble::shared();
    let [one, other] = [ensemble.fresh_chroot(), ensemble.fresh_chroot()];
    Tree::at(&one).create("/snowflake", b"one");
    assert_eq!(Tree::at(&other).children("/"), [""; 0]);
    assert_eq!(text(&Tree::at(&one), "/snowflake").as_deref(), Some("one"));
}

#[test]
fn nodes_with_an_acl_for_their_creator_are_closed_to_others() {
    let servers = Ensemble::shared().fresh_chroot();
    let owner = Tree::at(&servers).with_auth("leaf:secret");
    owner.create("/kept", b"mine");
    owner.set_acl("/kept", &Acls::creator_all());
    let acl = owner.get_acl("/kept");
    assert!(acl.iter().all(|acl| acl.scheme() == "digest" && acl.id().starts_with("leaf:")));
    assert_eq!(acl.len(), 1);
    for other in [Tree::at(&servers), Tree::at(&servers).with_auth("leaf:guess")] {
        let read = other.call(async |client| client.get_data("/kept").await);
        assert_eq!(read, Err(Error::NoAuth));
        let write = other.call(async |client| client.set_data("/kept", b"", None).await);
        assert_eq!(write, Err(Error::NoAuth));
    }
    assert_eq!(text(&Tree::at(&servers).with_auth("leaf:secret"), "/kept").unwrap(), "mine");
}

#[test]
fn what_is_written_survives_the_kill_of_the_leader_and_of_all_servers() {
    let ensemble = Ensemble::of(3);
    let servers = ensemble.connect_string();
    let tree = Tree::at(&servers).with_session_timeout(PATIENCE);
    let session = tree.session();
    tree.create_ephemeral("/mine", b"");
    let mut expected = Vec::new();
    let mut write = |name: &str| {
        tree.create(&format!("/kept/{name}"), b"");
        expected.push(name.to_owned());
        assert_eq!(tree.children("/kept"), expected);
    };
    write("0 at first");
    let leader = ensemble.leader();
    ensemble.kill(leader);
    write("1 with two servers");
    assert_ne!(ensemble.leader(), leader);
    ensemble.start_again(leader);
    write("2 with three servers");
    ensemble.freeze(0);
    ensemble.kill_all();
    for server in 0..3 {
        assert_eq!(processes_in(&ensemble.folder(server).join("data")), []);
    }
    assert!(!ensemble.serves_within(A_WHILE));
    ensemble.start_all();
    write("3 after all were killed");
    assert_eq!(ensemble.connect_string(), servers);
    // Sessions survive the kill too.
    assert_eq!(tree.session(), session);
    assert_eq!(tree.get("/mine").unwrap().ephemeral_owner, session);
}

#[test]
fn an_ensemble_serves_as_long_as_most_of_it_runs() {
    let ensemble = Ensemble::of(3);
    let tree = ensemble.tree();
    tree.create("/a", b"");
    ensemble.kill(0);
    assert!(ensemble.serves_within(PATIENCE));
    ensemble.freeze(1);
    let write = async |client: &zookeeper_client::Client| client.set_data("/a", b"", None).await;
    assert_eq!(tree.call_within(A_WHILE, write).map(|_| ()), Err(Error::Timeout));
    ensemble.thaw(1);
    ensemble.wait_serving();
    tree.set("/a", b"thawed");
    ensemble.kill(2);
    // One of three servers is no majority, so `start_again` does not wait for it.
    ensemble.kill(1);
    ensemble.start_again(1);
    assert!(!ensemble.serves_within(A_WHILE));
    ensemble.start_again(0);
    assert_eq!(text(&tree, "/a").as_deref(), Some("thawed"));
}

#[test]
fn a_frozen_server_hangs_and_goes_on_when_it_is_thawed() {
    let ensemble = Ensemble::single();
    let tree = ensemble.tree();
    tree.create("/a", b"");
    ensemble.freeze(0);
    let read = tree.call_within(A_WHILE, async |client| client.get_data("/a").await);
    assert_eq!(read, Err(Error::Timeout));
    assert!(!ensemble.serves_within(A_WHILE));
    ensemble.thaw(0);
    assert_eq!(text(&tree, "/a").as_deref(), Some(""));
}

#[test]
fn an_ephemeral_node_ends_with_its_session() {
    let servers = Ensemble::shared().fresh_chroot();
    let watcher = Tree::at(&servers);
    let owner = Tree::at(&servers);
    owner.create_ephemeral("/live", b"");
    assert_eq!(watcher.wait_for("/live").ephemeral_owner, owner.session());
    drop(owner);
    assert_eq!(watcher.get("/live"), None, "the session said goodbye");

    let owner = Tree::at(&servers);
    owner.create_ephemeral("/live", b"");
    owner.crash();
    assert!(watcher.get("/live").is_some(), "the session has not expired yet");
    watcher.wait_gone("/live");
}

#[test]
fn wiping_leaves_nothing_and_a_backup_brings_back_what_was_there() {
    for ensemble in [Ensemble::single(), Ensemble::of(3)] {
        let tree = ensemble.tree().with_session_timeout(A_SECOND);
        tree.create("/a/old", b"1");
        let backup = ensemble.backup();
        tree.create("/a/new", b"1");
        assert_eq!(tree.set("/a/old", b"2"), 1);
        ensemble.restore(&backup);
        // The session from before the restore is refused, and the client opens a new one.
        assert_eq!(tree.children("/a"), ["old"]);
        assert_eq!(tree.get("/a/old").unwrap().version, 0);
        ensemble.wipe();
        assert_eq!(ensemble.tree().children("/"), ["zookeeper"]);
        // A backup can be restored again.
        ensemble.restore(&backup);
        assert_eq!(ensemble.tree().children("/a"), ["old"]);
    }
}

#[test]
fn a_partition_hangs_or_cuts_a_client_and_ends_its_session_when_it_lasts() {
    for ensemble in [Ensemble::shared(), &Ensemble::of(3)] {
        let path = ensemble.fresh_path();
        let (proxies, servers) = ensemble.through_proxies();
        assert_eq!(proxies.len(), ensemble.size());
        let servers = servers + &path;
        let watcher = Tree::at(&(ensemble.connect_string() + &path));

        let patient = Tree::at(&servers).with_session_timeout(PATIENCE);
        patient.create_ephemeral("/patient", b"");
        proxies.iter().for_each(Proxy::cut);
        let read = patient.call_within(A_WHILE, async |client| client.get_data("/patient").await);
        assert_eq!(read.map(|_| ()), Err(Error::Timeout));
        proxies.iter().for_each(Proxy::pass);
        let owner = patient.get("/patient").map(|node| node.ephemeral_owner);
        assert_eq!(owner, Some(patient.session()));

        let hasty = Tree::at(&servers).with_session_timeout(A_SECOND);
        hasty.create_ephemeral("/hasty", b"");
        let session = watcher.get("/hasty").map(|node| node.ephemeral_owner);
        proxies.iter().for_each(Proxy::hold);
        let read = hasty.call_within(A_WHILE, async |client| client.get_data("/hasty").await);
        assert_eq!(read.map(|_| ()), Err(Error::Timeout));
        watcher.wait_gone("/hasty");
        proxies.iter().for_each(Proxy::pass);
        // A busy machine may be too slow for a session of a second, more than once.
        wait_until("/hasty is gone for its own client", || {
            let read = hasty.call(async |client| client.get_data("/hasty").await);
            read.map(|_| ()) == Err(Error::NoNode)
        });
        assert_ne!(Some(hasty.session()), session);
    }
}

#[test]
fn java_leaf_numbers_two_new_servers_0_and_1_and_finds_them_again() {
    let servers = Ensemble::shared().fresh_chroot();
    let first = JavaLeaf::at(&servers, NAME, "10.0.0.1", 8080);
    let second = JavaLeaf::at(&servers, NAME, "10.0.0.2", 8080);
    let running = [first.start().unwrap(), second.start().unwrap()];
    assert_eq!(running.each_ref().map(|leaf| leaf.worker()), [0, 1]);
    assert_eq!(running[1].node(), "/snowflake/leaf/forever/10.0.0.2:8080-0000000001");
    drop(running);
    assert_eq!(second.start().unwrap().worker(), 1);
    assert_eq!(first.start().unwrap().worker(), 0);
    let tree = Tree::at(&servers);
    let found = records(&tree, NAME).unwrap();
    let names: Vec<&str> = found.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.1:8080-0000000000", "10.0.0.2:8080-0000000001"]);
    assert_eq!(found[0].owner, "10.0.0.1:8080");
    let written = text(&tree, "/snowflake/leaf/forever/10.0.0.1:8080-0000000000").unwrap();
    let expected =
        format!(r#"{{"ip":"10.0.0.1","port":"8080","timestamp":{}}}"#, found[0].endpoint.timestamp);
    assert_eq!(written, expected);
}

#[test]
fn java_leaf_reports_its_clock_and_skips_while_it_is_behind() {
    let servers = Ensemble::shared().fresh_chroot();
    let leaf = JavaLeaf::at(&servers, NAME, "10.0.0.1", 8080);
    let running = leaf.with_interval(Duration::from_millis(30)).start().unwrap();
    let began = timestamp(&servers, 0);
    wait_until("a report", || timestamp(&servers, 0) > began);
    // A report overwrites whatever else was written to the node.
    let tree = Tree::at(&servers);
    tree.set(running.node(), b"anything");
    wait_until("a report", || text(&tree, running.node()).unwrap() != "anything");
    running.set_clock(-60_000);
    // One report may be in flight.
    wait_until("reports stop", || {
        let reports = running.reports();
        std::thread::sleep(A_WHILE);
        running.reports() == reports
    });
    let last = timestamp(&servers, 0);
    running.set_clock(60_000);
    wait_until("a report", || timestamp(&servers, 0) >= last + 60_000);
}

#[test]
fn java_leaf_refuses_a_clock_behind_its_record() {
    let servers = Ensemble::shared().fresh_chroot();
    let leaf = JavaLeaf::at(&servers, NAME, "10.0.0.1", 8080);
    drop(leaf.clone().with_clock(60_000).start().unwrap());
    match leaf.start() {
        Err(Refusal::Clock { recorded, now }) => assert!(recorded > now),
        other => panic!("{other:?}"),
    }
    // Other servers are not affected.
    assert_eq!(JavaLeaf::at(&servers, NAME, "10.0.0.2", 8080).start().unwrap().worker(), 1);
    assert_eq!(leaf.with_clock(120_000).start().unwrap().worker(), 0);
}

#[test]
fn java_leaf_refuses_a_fourth_field_in_its_node_and_a_name_without_a_number_in_any() {
    let servers = Ensemble::shared().fresh_chroot();
    let tree = Tree::at(&servers);
    let leaf = JavaLeaf::at(&servers, NAME, "10.0.0.1", 8080);
    let node = leaf.start().unwrap().node().to_owned();
    let fourth = br#"{"ip":"10.0.0.1","port":"8080","timestamp":1,"ceiling":2}"#;
    tree.set(&node, fourth);
    assert!(matches!(leaf.start(), Err(Refusal::Data(_))));
    assert!(matches!(records(&tree, NAME), Err(Refusal::Data(_))));
    tree.set(&node, br#"{"ip":"10.0.0.1","port":"8080","timestamp":1}"#);
    assert_eq!(leaf.start().unwrap().worker(), 0);
    tree.create(&format!("{}/pod-a-0000000009", forever(NAME)), b"");
    assert!(matches!(leaf.start(), Err(Refusal::Name(_))));
    assert!(matches!(records(&tree, NAME), Err(Refusal::Name(_))));
}

#[test]
fn nothing_is_left_of_servers_whose_test_panics_while_they_are_frozen() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let ensemble = Ensemble::of(3);
        ensemble.freeze_all();
        ensemble.folders().into_iter().for_each(|folder| sender.send(folder).unwrap());
        (0..3).for_each(|server| {
            sender.send(format!("/proc/{}", ensemble.pid(server)).into()).unwrap();
        });
        panic!("as a test does");
    });
    test.join().expect_err("it panics");
    let paths: Vec<PathBuf> = receiver.iter().collect();
    assert_eq!(paths.len(), 6);
    let left: Vec<PathBuf> = paths.into_iter().filter(|path| path.exists()).collect();
    assert_eq!(left, [] as [PathBuf; 0]);
}

#[test]
fn nothing_is_left_of_servers_when_their_process_ends_or_is_killed() {
    for (arguments, killed) in [(&[][..], false), (&["--frozen"], true)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zookeeper"));
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let lines = lines.map(|line| line.expect("a line"));
        // A single server, and three.
        let folders: Vec<PathBuf> =
            lines.filter_map(|line| Some(line.split_once(" in ")?.1.into())).take(4).collect();
        assert_eq!(folders.len(), 4);
        let pids: Vec<Pid> =
            folders.iter().flat_map(|folder| processes_in(&folder.join("data"))).collect();
        assert_eq!(pids.len(), 4);
        if killed {
            child.kill().expect("it runs");
        } else {
            drop(child.stdin.take());
        }
        assert_eq!(child.wait().expect("its end").success(), !killed);
        wait_until("the servers end", || pids.iter().all(|pid| has_ended(*pid)));
        wait_until("the folders are removed", || !folders.iter().any(|folder| folder.exists()));
    }
}
