//! The identity of an instance in ZooKeeper: of several with one name only one issues, only its state
//! directory proves that an instance is the same as before, and no ID comes twice, whatever is lost or
//! copied.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_tests::database::Kind;
use leafd_tests::zookeeper::Tree;
use leafd_tests::zookeeper::java_leaf::records;
use leafd_tests::{Database, Ensemble, Host, Proxy, UniqueIds};

/// The refusal of an instance whose identity is in use by another, and not by its own earlier session.
const TWIN: &str = "another instance lives as \"twin\" (at 127.0.0.1, node twin-";

fn worker_ids(tree: &Tree) -> Vec<String> {
    tree.children("/snowflake/leaf/forever")
}

fn live(tree: &Tree) -> Vec<String> {
    tree.children("/snowflake/leaf/temporary")
}

fn copy_state(from: &Host, to: &Host) {
    let (from, to) = (from.home().state(), to.home().state());
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

#[test]
fn of_two_instances_with_one_identity_the_second_issues_only_after_the_first_has_ended() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let [mut first, mut second] = [(); 2].map(|()| Host::new(&servers, "twin", &seen));
    first.start();
    assert_eq!(first.serves(), 0);
    second.start();
    let error = second.refuses(TWIN);
    assert!(error.message.contains("worker.identity"), "{error}");
    second.home().log().wait_for(TWIN);
    second.serves_segments();
    assert_eq!(first.serves(), 0);
    assert_eq!((worker_ids(&tree).len(), live(&tree).len()), (1, 1));

    // The second does not have the first one's state, so it cannot know what that one issued.
    first.stop();
    assert_eq!(second.serves(), 1);
    first.start();
    first.refuses(TWIN);
    assert_eq!(second.serves(), 1);
    second.kill();
    assert_eq!(first.serves(), 0);
    second.start();
    second.refuses(TWIN);
    first.kill();
    assert_eq!(second.serves(), 1);

    assert_eq!(worker_ids(&tree), ["twin-0000000000", "twin-0000000001"]);
    assert_eq!((first.used(), second.used()), (vec![0], vec![1]));
    second.gives_enough("two of one identity");
}

#[test]
fn of_instances_that_start_together_with_one_identity_exactly_one_issues() {
    // Each group has its own tree, so their worker IDs may be equal.
    let mut groups = [(); 3].map(|()| {
        let (servers, seen) = (Ensemble::shared().fresh_chroot(), UniqueIds::default());
        (Tree::at(&servers), [(); 3].map(|()| Host::new(&servers, "twin", &seen)))
    });
    groups.iter_mut().flat_map(|(_, hosts)| hosts).for_each(Host::start);
    for (tree, hosts) in &groups {
        let issues = |host: &&Host| host.calls() > 0;
        hosts[0].wait_until("one of them issues", || hosts.iter().any(|host| issues(&host)));
        for host in hosts.iter().filter(|host| !issues(host)) {
            host.refuses(TWIN);
        }
        let issuing: Vec<_> = hosts.iter().filter(issues).collect();
        assert_eq!(issuing.len(), 1, "{} and {}", issuing[0], issuing[1]);
        issuing[0].serves();
        // The others remove the worker IDs that they did not use.
        assert_eq!((worker_ids(tree).len(), live(tree).len()), (1, 1));
        issuing[0].gives_enough("three of one identity at one instant");
    }
}

/// `fail` cuts the first one off from ZooKeeper.
fn starts_while_the_first_is_cut_off(fail: fn(&Proxy)) {
    let (ensemble, seen) = (Ensemble::shared(), UniqueIds::default());
    let path = ensemble.fresh_path();
    let (proxies, through_proxies) = ensemble.through_proxies();
    let servers = ensemble.connect_string() + &path;
    let mut first = Host::new(&(through_proxies + &path), "twin", &seen);
    let mut second = Host::new(&servers, "twin", &seen);
    first.start();
    assert_eq!(first.serves(), 0);
    proxies.iter().for_each(fail);
    second.start();
    assert_eq!(second.serves(), 1);
    // It cannot notice the second, and the worker ID is still its own.
    assert_eq!(first.serves(), 0);
    proxies.iter().for_each(Proxy::pass);
    first.refuses(TWIN);
    let calls = first.calls();
    assert_eq!(second.serves(), 1);
    assert_eq!(live(&Tree::at(&servers)), ["twin-0000000001"]);
    assert_eq!(first.calls(), calls);
    second.stop();
    assert_eq!(first.serves(), 0);
    assert_eq!((first.used(), second.used()), (vec![0], vec![1]));
    first.gives_enough("one of two of one identity cut off");
}

#[test]
fn an_instance_that_starts_while_its_twin_is_cut_off_issues_and_the_twin_stops_when_it_is_back() {
    std::thread::scope(|scope| {
        for fail in [Proxy::hold, Proxy::cut] {
            scope.spawn(move || starts_while_the_first_is_cut_off(fail));
        }
    });
}

/// With an embedded store, leafd would refuse to start on a copy. This store need not exist, because
/// nothing is leased.
fn sharing_a_store(host: Host) -> Host {
    host.with("STORE_KIND", "mysql").with("STORE_URL", "mysql://leaf@127.0.0.1:1/leaf")
}

#[test]
fn a_copy_of_a_state_directory_in_use_does_not_get_its_worker_id() {
    let servers = Ensemble::shared().fresh_chroot();
    let seen = UniqueIds::default();
    let [mut first, mut second] =
        [(); 2].map(|()| sharing_a_store(Host::new(&servers, "twin", &seen)));
    first.start();
    assert_eq!(first.serves(), 0);
    copy_state(&first, &second);
    second.start();
    second.refuses(TWIN);
    assert_eq!(first.serves(), 0);
    first.kill();
    assert_eq!(second.serves(), 1);
    second.gives_enough("a copy of a state directory in use");
}

#[test]
fn of_a_state_directory_and_its_copy_only_one_issues_with_and_without_zookeeper() {
    let (ensemble, seen) = (Ensemble::shared(), UniqueIds::default());
    let (proxies, servers) = ensemble.through_proxies();
    let servers = servers + &ensemble.fresh_path();
    let [mut first, mut second] =
        [(); 2].map(|()| sharing_a_store(Host::new(&servers, "twin", &seen)));
    first.start();
    assert_eq!(first.serves(), 0);
    first.stop();
    copy_state(&first, &second);
    proxies.iter().for_each(Proxy::cut);
    for host in [&mut first, &mut second] {
        host.start();
    }
    assert_eq!(first.serves(), 0);
    second.refuses("no worker ID yet, ZooKeeper has to give one");
    let copy = "worker.properties is another directory's, of which this one is a copy";
    second.home().log().wait_for(copy);
    // If both came back at once, either might register first.
    second.stop();
    proxies.iter().for_each(Proxy::pass);
    first.wait_until("it reports", || first.status().last_report_ms_ago.is_some());
    second.start();
    second.refuses(TWIN);
    assert_eq!(first.serves(), 0);
    first.stop();
    // Not necessarily 1: it may have yielded one when both came back to ZooKeeper.
    assert_ne!(second.serves(), 0);
    second.stop();
    for host in [&mut first, &mut second] {
        host.start();
    }
    let calls = [&first, &second].map(Host::calls);
    let issues = |number: usize| [&first, &second][number].calls() > calls[number];
    first.wait_until("one of them issues", || issues(0) || issues(1));
    let (issuing, other) = if issues(0) { (&first, &second) } else { (&second, &first) };
    other.refuses(TWIN);
    issuing.serves();
    assert!(!issues(0) || !issues(1), "{first}{second}");
    assert_eq!((first.used().len(), second.used().len()), (1, 1));
    issuing.gives_enough("a copy of a state directory");
}

#[test]
fn a_restarted_instance_takes_its_worker_id_from_its_earlier_session_at_once() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let session_timeout = Duration::from_secs(60);
    let mut host = Host::new(&servers, "host", &seen).with("ZOOKEEPER_SESSION_TIMEOUT", "60s");
    // Another instance comes first, so that the worker ID is not 0.
    let mut other = Host::new(&servers, "other", &seen);
    other.start();
    other.serves();
    host.start();
    assert_eq!(host.serves(), 1);
    let session = || tree.get("/snowflake/leaf/temporary/host-0000000001").unwrap().ephemeral_owner;
    for round in 0..6 {
        let before = session();
        let began = Instant::now();
        if round % 3 == 2 {
            host.stop();
            assert_eq!(tree.get("/snowflake/leaf/temporary/host-0000000001"), None);
        } else {
            host.kill();
            assert_eq!(session(), before, "the killed daemon's session has ended early");
        }
        host.start();
        assert_eq!(host.serves(), 1);
        let took = began.elapsed();
        println!("served {took:.1?} after the end");
        assert!(took < session_timeout / 2, "it waited for its own session: {took:?}");
        assert_ne!(session(), before);
    }
    assert_eq!(worker_ids(&tree), ["host-0000000001", "other-0000000000"]);
    host.gives_enough("restarts");
    let ended = host.stop();
    assert_eq!(ended.count("waiting for its end"), 0, "{ended}");
}

#[test]
fn an_instance_that_lost_its_state_gets_a_worker_id_that_nobody_had() {
    type Lose = fn(&Path);
    const FILE: &str = "worker.properties";
    let servers = Ensemble::shared().fresh_chroot();
    let seen = UniqueIds::default();
    let losses: [(&str, Lose); 4] = [
        ("all gone", |state| std::fs::remove_dir_all(state).unwrap()),
        ("file gone", |state| std::fs::remove_file(state.join(FILE)).unwrap()),
        ("file cut", |state| {
            let file = std::fs::File::options().write(true).open(state.join(FILE)).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }),
        ("file changed", |state| {
            let text = std::fs::read_to_string(state.join(FILE)).unwrap();
            let changed = text.replacen("ceilingMs=1", "ceilingMs=0", 1);
            assert_ne!(changed, text);
            std::fs::write(state.join(FILE), changed).unwrap();
        }),
    ];
    let mut cases = Vec::new();
    for (loss, lose) in losses {
        for end in ["killed", "stopped"] {
            cases.push((Host::new(&servers, &format!("{loss}, {end}"), &seen), lose, end));
        }
    }
    cases.iter_mut().for_each(|(host, ..)| host.start());
    let before: Vec<_> = cases.iter().map(|(host, ..)| host.serves()).collect();
    for (host, lose, end) in &mut cases {
        match *end {
            "killed" => host.kill(),
            _ => host.stop(),
        };
        lose(&host.home().state());
        host.start();
    }
    let after: Vec<_> = cases.iter().map(|(host, ..)| host.serves()).collect();
    println!("worker IDs {before:?} before, {after:?} after");
    let all: BTreeSet<_> = before.iter().chain(&after).collect();
    assert_eq!(all.len(), 2 * cases.len());
    cases[0].0.gives_enough("lost state");
}

#[test]
fn another_identity_gets_another_worker_id() {
    let servers = Ensemble::shared().fresh_chroot();
    let seen = UniqueIds::default();
    let database = Database::shared(Kind::Postgres).fresh();
    let mut embedded = Host::new(&servers, "one", &seen);
    let mut shared = Host::new(&servers, "two", &seen)
        .with("STORE_KIND", "postgres")
        .with("STORE_URL", &database.url());
    embedded.start();
    shared.start();
    let before = [&embedded, &shared].map(Host::serves);
    embedded.stop();
    shared.kill();
    embedded.set("WORKER_IDENTITY", "another one");
    shared.set("WORKER_IDENTITY", "another two");

    // Only the state directory knows which ranges of an embedded store were used.
    embedded.start();
    let ended = embedded.ends();
    assert_eq!(ended.code(), Some(78), "{ended}");
    let log = ended.log();
    assert!(log.contains(r#"identity "one" (configured is "another one")"#), "{log}");
    assert!(log.contains("leafd adopt"), "{log}");
    let adopted = embedded.home().command("leafd").arg("adopt").output().unwrap();
    assert!(adopted.status.success(), "{adopted:?}");

    embedded.start();
    shared.start();
    let after = [&embedded, &shared].map(Host::serves);
    let all: BTreeSet<_> = before.iter().chain(&after).collect();
    assert_eq!(all.len(), 4, "{before:?}, {after:?}");
    // The old name alone does not bring the worker ID back.
    shared.stop();
    shared.set("WORKER_IDENTITY", "two");
    shared.start();
    assert!(!all.contains(&shared.serves()));
    assert_eq!(worker_ids(&Tree::at(&servers)).len(), 5);
    shared.gives_enough("other identities");
}

#[test]
fn a_second_instance_on_the_same_peer_port_does_not_start() {
    let servers = Ensemble::shared().fresh_chroot();
    let seen = UniqueIds::default();
    let listener = TcpListener::bind("127.0.0.97:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut hosts = [(); 2].map(|()| {
        let host = Host::new(&servers, "", &seen).with("PEER_LISTEN", &address);
        host.with("PEER_ADVERTISE", "127.0.0.97")
    });
    let [first, second] = &mut hosts;
    first.start();
    assert_eq!(first.serves(), 0);
    second.start();
    let ended = second.ends();
    assert_eq!(ended.code(), Some(71), "{ended}");
    let reason = format!("leafd: cannot listen on {address} (peer.listen): Address already in use");
    assert_eq!(ended.count(&reason), 1, "{ended}");
    assert_eq!(first.serves(), 0);
    let tree = Tree::at(&servers);
    assert_eq!(worker_ids(&tree), [format!("{address}-0000000000")]);
    let found = records(&tree, "leaf").unwrap();
    let endpoint = &found[0].endpoint;
    assert_eq!(format!("{}:{}", endpoint.ip, endpoint.port), address);
    // By its identity it is the same instance, but without its state.
    first.stop();
    second.start();
    assert_eq!(second.serves(), 1);
    second.gives_enough("one peer port");
}

#[test]
fn a_layout_other_than_the_fleets_is_refused_and_segments_are_served() {
    let servers = Ensemble::shared().fresh_chroot();
    let seen = UniqueIds::default();
    let mut first = Host::new(&servers, "first", &seen);
    // IDs of two layouts can be equal.
    let mut second = Host::new(&servers, "second", &UniqueIds::default())
        .with_layout("41/9/13@1288834974657/1ms");
    first.start();
    assert_eq!(first.serves(), 0);
    second.start();
    let error = second.refuses(
        "the instances in this tree issue IDs with the layout 41/10/12@1288834974657/1ms, and \
         41/9/13@1288834974657/1ms is configured",
    );
    assert!(error.message.contains("snowflake.layout"), "{error}");
    assert!(error.message.contains("zookeeper.name"), "{error}");
    second.serves_segments();
    assert_eq!(worker_ids(&Tree::at(&servers)), ["first-0000000000"]);
    assert_eq!(first.serves(), 0);
    // The remedy that the error names.
    second.stop();
    second.set("ZOOKEEPER_NAME", "other");
    second.start();
    assert_eq!(second.serves(), 0);
    first.gives_enough("two layouts");
}

#[test]
fn any_identity_works_and_java_leaf_can_read_its_node() {
    let servers = Ensemble::shared().fresh_chroot();
    let (tree, seen) = (Tree::at(&servers), UniqueIds::default());
    let names = [
        ("pod-a/b", "pod%2Da%2Fb"),
        ("100%", "100%25"),
        ("büro-7", "b%C3%BCro%2D7"),
        (" eins  zwei ", " eins  zwei "),
        ("-", "%2D"),
        ("%2D", "%252D"),
        ("a-0000000007", "a%2D0000000007"),
        ("名前", "%E5%90%8D%E5%89%8D"),
        ("[::1]:8735", "[::1]:8735"),
    ];
    let mut hosts = names.map(|(identity, _)| Host::new(&servers, identity, &seen));
    hosts.iter_mut().for_each(Host::start);
    let workers = hosts.each_ref().map(Host::serves);
    let nodes = names.iter().zip(workers).map(|((_, name), id)| format!("{name}-{id:010}"));
    let nodes: BTreeSet<_> = nodes.collect();
    assert!(nodes.iter().all(|name| name.split('-').count() == 2));
    assert_eq!(BTreeSet::from_iter(worker_ids(&tree)), nodes);
    let found = records(&tree, "leaf").unwrap();
    assert_eq!(BTreeSet::from_iter(found.into_iter().map(|record| record.name)), nodes);

    for (host, (identity, _)) in hosts.iter().zip(names) {
        assert_eq!(host.status().identity, identity);
    }
    let (code, list, errors) = hosts[0].leafctl(&["worker", "list", "--json"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let list: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
    let owners: BTreeSet<_> = list.iter().map(|worker| worker["owner"].as_str().unwrap()).collect();
    assert_eq!(owners, names.map(|(identity, _)| identity).into());

    for (number, host) in hosts.iter_mut().enumerate() {
        if number % 2 == 0 {
            host.kill()
        } else {
            host.stop()
        };
        host.start();
    }
    assert_eq!(hosts.each_ref().map(Host::serves), workers);
    hosts[0].gives_enough("odd identities");
}
