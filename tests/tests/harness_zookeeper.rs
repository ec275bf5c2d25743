//! The harness itself: real ZooKeeper servers, with real faults. What the tests of leafd's
//! worker IDs rest on.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leafd_tests::zookeeper::Tree;
use leafd_tests::{Ensemble, Proxy, processes_in};
use nix::unistd::Pid;
use zookeeper_client::{Acls, Error};

/// How long something that must not happen is waited for.
const A_WHILE: Duration = Duration::from_millis(300);

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// As short as a session may be.
const A_SECOND: Duration = Duration::from_secs(1);

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// It has ended, and has only to be buried.
fn has_ended(pid: Pid) -> bool {
    // pid (name) state …
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

fn text(tree: &Tree, path: &str) -> Option<String> {
    tree.get(path).map(|node| String::from_utf8(node.data).unwrap())
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
        // By whichever server one looks.
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
fn trees_on_the_shared_server_know_nothing_of_each_other() {
    let ensemble = Ensemble::shared();
    let [one, other] = [ensemble.fresh_chroot(), ensemble.fresh_chroot()];
    Tree::at(&one).create("/snowflake", b"one");
    assert_eq!(Tree::at(&other).children("/"), [""; 0]);
    assert_eq!(text(&Tree::at(&one), "/snowflake").as_deref(), Some("one"));
}

#[test]
fn nodes_that_a_user_keeps_for_himself_are_closed_to_others() {
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
    // Sessions outlive their servers as well.
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
    // Nothing is served yet, and nobody waits for it.
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
    assert!(watcher.get("/live").is_some(), "nobody knows of it yet");
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
        // The session of before is of no use, and this notices it.
        assert_eq!(tree.children("/a"), ["old"]);
        assert_eq!(tree.get("/a/old").unwrap().version, 0);
        ensemble.wipe();
        assert_eq!(ensemble.tree().children("/"), ["zookeeper"]);
        // More than once.
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
        assert_eq!(hasty.get("/hasty"), None);
        assert_ne!(Some(hasty.session()), session);
    }
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
        wait_until("a server runs", || pids.iter().all(|pid| has_ended(*pid)));
        wait_until("a folder is there", || !folders.iter().any(|folder| folder.exists()));
    }
}
