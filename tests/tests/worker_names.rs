//! The names of instances in a registry: any identity works, and another identity is another instance.

use std::collections::BTreeSet;

use leafd_tests::database::Kind;
use leafd_tests::registry::RegistryKind;
use leafd_tests::{Database, Host, TestRegistry, UniqueIds, on_every_registry};

on_every_registry! {
    another_identity_gets_another_worker_id,
    any_identity_works_and_its_record_is_one_that_java_leaf_can_read,
}

fn another_identity_gets_another_worker_id(kind: &'static dyn RegistryKind) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
    let database = Database::shared(Kind::Postgres).fresh();
    let mut embedded = Host::new(&access, "one", &seen);
    let mut shared = Host::new(&access, "two", &seen)
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
    assert_eq!(registry.owned().len(), 5);
    shared.gives_enough("other identities");
}

fn any_identity_works_and_its_record_is_one_that_java_leaf_can_read(
    kind: &'static dyn RegistryKind,
) {
    let (registry, seen) = (TestRegistry::shared(kind), UniqueIds::default());
    let access = registry.access();
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
    let mut hosts = names.map(|(identity, _)| Host::new(&access, identity, &seen));
    hosts.iter_mut().for_each(Host::start);
    let workers = hosts.each_ref().map(Host::serves);
    let nodes = names.iter().zip(workers).map(|((_, name), id)| format!("{name}-{id:010}"));
    let nodes: BTreeSet<_> = nodes.collect();
    assert!(nodes.iter().all(|name| name.split('-').count() == 2));
    assert_eq!(BTreeSet::from_iter(registry.owned()), nodes);
    let records = registry.workers().into_iter().map(|row| row.name);
    assert_eq!(BTreeSet::from_iter(records), nodes);

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
