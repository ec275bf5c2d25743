//! `leafd audit` finds IDs that two hosts leased by comparing their lease logs.

use std::path::Path;

use leafd_tests::daemon::Home;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{StoreServer, on_every_store_server};

on_every_store_server! {
    an_audit_finds_ranges_that_two_hosts_leased_and_clears_an_honest_fleet,
}

fn audit(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let words = [&["audit"], arguments, &paths].concat();
    let (code, out, errors) = Home::new(folder.path()).run("leafd", &words);
    (code, out + &errors)
}

fn an_audit_finds_ranges_that_two_hosts_leased_and_clears_an_honest_fleet(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 100);
    let homes = ["alice", "bob", "carol"].map(|name| {
        Home::new(&folder.path().join(name)).with_store(&server).with("STATE_MACHINE_ID", name)
    });
    let lease = |home: &Home| {
        let daemon = home.start();
        daemon.client().next_many("orders", 150).unwrap();
        daemon.kill();
    };
    let [alice, bob, carol] = &homes;
    lease(alice);
    lease(bob);
    lease(alice);
    let states = homes.each_ref().map(Home::state);
    let honest = [states[0].as_path(), &states[1]];
    let (code, text) = audit(&[], &honest);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("of 1 tags by 2 hosts") && text.contains("leased twice"), "{text}");
    // Simulates a failover that lost writes. The next lease is by a host that has never seen the tag.
    server.forget("orders", 1);
    lease(carol);
    let log = states[2].join("leases.log");
    let all = [honest[0], honest[1], log.as_path()];
    let (code, text) = audit(&[], &all);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("OVERLAP: 1 to 150 of tag \"orders\""), "{text}");
    assert!(text.contains("by alice") && text.contains("by carol"), "{text}");
    let (code, text) = audit(&["--json"], &all);
    assert_eq!(code, Some(1), "{text}");
    let (json, _) = text.split_once("leafd:").unwrap();
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(report["hosts"], 3);
    assert_eq!(report["overlaps"][0]["start"], 1, "{report}");
    // A log and its backup do not count as two hosts.
    let copy = folder.path().join("copy");
    std::fs::copy(states[1].join("leases.log"), &copy).unwrap();
    let (code, text) = audit(&[], &[&copy, &states[1]]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn an_audit_of_a_missing_lease_log_fails_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = audit(&[], &[&folder.path().join("lost.log")]);
    assert_eq!(code, Some(74), "{text}");
    assert!(text.contains("lost.log"), "{text}");
    let (code, text) = audit(&[], &[folder.path()]);
    assert_eq!(code, Some(74), "{text}");
    let (code, _) = audit(&[], &[]);
    assert_eq!(code, Some(64));
}
