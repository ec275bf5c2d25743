//! The identity of an instance in a registry: of several with one name only one issues, only its state
//! directory proves that an instance is the same as before, and no ID comes twice, whatever is lost or
//! copied.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_tests::registry::RegistryKind;
use leafd_tests::{Host, Proxies, TestRegistry, UniqueIds, on_every_registry};

/// The refusal of an instance whose identity is in use by another, and not by its own earlier session.
const TWIN: &str = "another instance lives as \"twin\" (at 127.0.0.1, node twin-";

on_every_registry! {
    of_two_instances_with_one_identity_the_second_issues_only_after_the_first_has_ended,
    of_instances_that_start_together_with_one_identity_exactly_one_issues,
    an_instance_that_starts_while_its_twin_is_cut_off_issues_and_the_twin_stops_when_it_is_back,
    a_copy_of_a_state_directory_in_use_does_not_get_its_worker_id,
    of_a_state_directory_and_its_copy_only_one_issues_with_and_without_zookeeper,
    a_restarted_instance_takes_its_worker_id_from_its_earlier_session_at_once,
    an_instance_that_lost_its_state_gets_a_worker_id_that_nobody_had,
    a_second_instance_on_the_same_peer_port_does_not_start,
    a_layout_other_than_the_fleets_is_refused_and_segments_are_served,
}

fn copy_state(from: &Host, to: &Host) {
    let (from, to) = (from.home().state(), to.home().state());
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

fn of_two_instances_with_one_identity_the_second_issues_only_after_the_first_has_ended(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let [mut first, mut second] = [(); 2].map(|()| Host::new(&access, "twin", &seen));
    first.start();
    assert_eq!(first.serves(), 0);
    second.start();
    let error = second.refuses(TWIN);
    assert!(error.message.contains("worker.identity"), "{error}");
    second.home().log().wait_for(TWIN);
    second.serves_segments();
    assert_eq!(first.serves(), 0);
    assert_eq!((registry.owned().len(), registry.live().len()), (1, 1));

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

    assert_eq!(registry.owned(), ["twin-0000000000", "twin-0000000001"]);
    assert_eq!((first.used(), second.used()), (vec![0], vec![1]));
    second.gives_enough("two of one identity");
}

fn of_instances_that_start_together_with_one_identity_exactly_one_issues(
    kind: &'static dyn RegistryKind,
) {
    // Each group has its own tree, so their worker IDs may be equal.
    let mut groups = [(); 3].map(|()| {
        let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
        let hosts = [(); 3].map(|()| Host::new(registry.access(), "twin", &seen));
        (registry, hosts)
    });
    groups.iter_mut().flat_map(|(_, hosts)| hosts).for_each(Host::start);
    for (registry, hosts) in &groups {
        let issues = |host: &&Host| host.calls() > 0;
        hosts[0].wait_until("one of them issues", || hosts.iter().any(|host| issues(&host)));
        for host in hosts.iter().filter(|host| !issues(host)) {
            host.refuses(TWIN);
        }
        let issuing: Vec<_> = hosts.iter().filter(issues).collect();
        assert_eq!(issuing.len(), 1, "{} and {}", issuing[0], issuing[1]);
        issuing[0].serves();
        // The others remove the worker IDs that they did not use.
        assert_eq!((registry.owned().len(), registry.live().len()), (1, 1));
        issuing[0].gives_enough("three of one identity at one instant");
    }
}

/// `fail` cuts the first one off from the registry.
fn starts_while_the_first_is_cut_off(kind: &'static dyn RegistryKind, fail: fn(&Proxies)) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let (network, through_proxies) = registry.through_proxies();
    let mut first = Host::new(through_proxies, "twin", &seen);
    let mut second = Host::new(registry.access(), "twin", &seen);
    first.start();
    assert_eq!(first.serves(), 0);
    fail(&network);
    second.start();
    assert_eq!(second.serves(), 1);
    // It cannot notice the second, and the worker ID is still its own.
    assert_eq!(first.serves(), 0);
    network.pass();
    first.refuses(TWIN);
    let calls = first.calls();
    assert_eq!(second.serves(), 1);
    assert_eq!(registry.live(), ["twin-0000000001"]);
    assert_eq!(first.calls(), calls);
    second.stop();
    assert_eq!(first.serves(), 0);
    assert_eq!((first.used(), second.used()), (vec![0], vec![1]));
    first.gives_enough("one of two of one identity cut off");
}

fn an_instance_that_starts_while_its_twin_is_cut_off_issues_and_the_twin_stops_when_it_is_back(
    kind: &'static dyn RegistryKind,
) {
    std::thread::scope(|scope| {
        for fail in [Proxies::hold, Proxies::cut] {
            scope.spawn(move || starts_while_the_first_is_cut_off(kind, fail));
        }
    });
}

/// With an embedded store, leafd would refuse to start on a copy. This store need not exist, because
/// nothing is leased.
fn sharing_a_store(host: Host) -> Host {
    host.with("STORE_KIND", "mysql").with("STORE_URL", "mysql://leaf@127.0.0.1:1/leaf")
}

fn a_copy_of_a_state_directory_in_use_does_not_get_its_worker_id(kind: &'static dyn RegistryKind) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let [mut first, mut second] =
        [(); 2].map(|()| sharing_a_store(Host::new(&access, "twin", &seen)));
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

fn of_a_state_directory_and_its_copy_only_one_issues_with_and_without_zookeeper(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let (network, access) = registry.through_proxies();
    let [mut first, mut second] =
        [(); 2].map(|()| sharing_a_store(Host::new(&access, "twin", &seen)));
    first.start();
    assert_eq!(first.serves(), 0);
    first.stop();
    copy_state(&first, &second);
    network.cut();
    for host in [&mut first, &mut second] {
        host.start();
    }
    assert_eq!(first.serves(), 0);
    second.refuses(&format!("no worker ID yet, {} has to give one", kind.called()));
    let copy = "worker.properties is another directory's, of which this one is a copy";
    second.home().log().wait_for(copy);
    // If both came back at once, either might register first.
    second.stop();
    network.pass();
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

fn a_restarted_instance_takes_its_worker_id_from_its_earlier_session_at_once(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let session_timeout = Duration::from_secs(60);
    let mut host = Host::new(&access, "host", &seen).with(&access.key("SESSION_TIMEOUT"), "60s");
    // Another instance comes first, so that the worker ID is not 0.
    let mut other = Host::new(&access, "other", &seen);
    other.start();
    other.serves();
    host.start();
    assert_eq!(host.serves(), 1);
    let session = || registry.marker("host", 1).map(|marker| marker.session);
    for round in 0..6 {
        let before = session();
        let began = Instant::now();
        if round % 3 == 2 {
            host.stop();
            assert_eq!(registry.marker("host", 1), None);
        } else {
            host.kill();
            assert_eq!(session(), before, "the killed daemon's session has ended early");
        }
        host.start();
        assert_eq!(host.serves(), 1);
        let took = began.elapsed();
        println!("served {took:.1?} after the end");
        assert!(took < session_timeout / 2, "it waited for its own session: {took:?}");
        // On a busy machine it may have begun by its file.
        host.wait_until("a session of its own", || session().is_some_and(|it| Some(it) != before));
    }
    assert_eq!(registry.owned(), ["host-0000000001", "other-0000000000"]);
    host.gives_enough("restarts");
    let ended = host.stop();
    assert_eq!(ended.count("waiting for its end"), 0, "{ended}");
}

fn an_instance_that_lost_its_state_gets_a_worker_id_that_nobody_had(
    kind: &'static dyn RegistryKind,
) {
    type Lose = fn(&Path);
    const FILE: &str = "worker.properties";
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
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
            cases.push((Host::new(&access, &format!("{loss}, {end}"), &seen), lose, end));
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

fn a_second_instance_on_the_same_peer_port_does_not_start(kind: &'static dyn RegistryKind) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let listener = TcpListener::bind("127.0.0.97:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut hosts = [(); 2].map(|()| {
        let host = Host::new(&access, "", &seen).with("PEER_LISTEN", &address);
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
    assert_eq!(registry.owned(), [format!("{address}-0000000000")]);
    let endpoint = &registry.workers()[0].endpoint;
    assert_eq!(format!("{}:{}", endpoint.ip, endpoint.port), address);
    // By its identity it is the same instance, but without its state.
    first.stop();
    second.start();
    assert_eq!(second.serves(), 1);
    second.gives_enough("one peer port");
}

fn a_layout_other_than_the_fleets_is_refused_and_segments_are_served(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let mut first = Host::new(&access, "first", &seen);
    // IDs of two layouts can be equal.
    let mut second = Host::new(&access, "second", &UniqueIds::default())
        .with_layout("41/9/13@1288834974657/1ms");
    first.start();
    assert_eq!(first.serves(), 0);
    second.start();
    let error = second.refuses(
        "issue IDs with the layout 41/10/12@1288834974657/1ms, and 41/9/13@1288834974657/1ms is \
         configured",
    );
    assert!(error.message.contains("snowflake.layout"), "{error}");
    let key = access.key("NAME").to_lowercase().replace('_', ".");
    assert!(error.message.contains(&key), "{error}");
    second.serves_segments();
    assert_eq!(registry.owned(), ["first-0000000000"]);
    assert_eq!(first.serves(), 0);
    // The remedy that the error names.
    second.stop();
    second.set(&access.key("NAME"), "other");
    second.start();
    assert_eq!(second.serves(), 0);
    first.gives_enough("two layouts");
}
