//! The conformance suite finds what it should: clients that break the protocol, and drivers that break the
//! contract.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use leaf_client::wire::{Call, VERSION};
use leafd_tests::conformance::driver::Driver;
use leafd_tests::conformance::fake::{Asks, FakeDaemon};
use leafd_tests::raw::{Raw, frame, hello, segment};
use serde_json::json;

/// What the fake daemon says about these requests, sent in one write.
fn verdict(requests: &[Vec<u8>]) -> Result<Vec<Asks>, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = FakeDaemon::listen(&folder.path().join("leafd.sock"));
    let mut client = Raw::connect(fake.path());
    client.send(&requests.concat());
    drop(client);
    let peer = fake.accept();
    let mut calls = Vec::new();
    let all = catch_unwind(AssertUnwindSafe(|| {
        while let Some(asked) = fake.request_from(peer) {
            calls.push(asked.call);
        }
    }));
    match all {
        Ok(()) => Ok(calls),
        Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    }
}

#[test]
fn the_fake_daemon_accepts_a_client_that_keeps_to_the_protocol() {
    let requests = [hello(), frame(2, Call::Time), frame(3, segment("a", 7))];
    let calls = verdict(&requests).unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[2], Asks::Segment { tag: "a".to_owned(), count: 7, timeout_ms: 0 });
}

#[test]
fn the_fake_daemon_refuses_a_client_that_breaks_the_protocol() {
    let other = |magic: &[u8; 4], version| frame(1, Call::Hello { magic: *magic, version });
    let wrong: [(&str, Vec<Vec<u8>>); 7] = [
        ("a hello comes once", vec![frame(1, Call::Time)]),
        ("a hello comes once", vec![hello(), frame(2, Call::Time), hello()]),
        ("a request has the ID 0", vec![hello(), frame(0, Call::Time)]),
        ("is used again", vec![hello(), frame(2, Call::Time), frame(2, Call::Status)]),
        ("the magic", vec![other(b"LEAP", VERSION)]),
        ("the version", vec![other(b"LEAF", VERSION + 1)]),
        ("too long", vec![hello(), 5000u32.to_be_bytes().to_vec()]),
    ];
    for (said, requests) in wrong {
        let error = verdict(&requests).unwrap_err();
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn a_request_id_may_be_used_again_after_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = FakeDaemon::listen(&folder.path().join("leafd.sock"));
    let mut client = Raw::connect(fake.path());
    client.send(&hello());
    client.send(&frame(2, segment("a", 1)));
    let asked = fake.request();
    fake.give(&asked, 1);
    client.send(&frame(2, segment("a", 1)));
    assert_eq!(fake.request().id, 2);
}

/// What the runner says about a driver whose answer to a line is the output of this script.
fn complaint(script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let mut driver = Driver::start(command);
    let line = driver.send("about", json!({}));
    let waited = catch_unwind(AssertUnwindSafe(|| {
        driver.wait(line).ok();
        driver.finish();
    }));
    waited.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_driver_that_breaks_the_contract_is_found() {
    for (script, said) in [
        ("read line; echo hello", "no answer"),
        ("read line; exit 3", "unanswered"),
        ("read line; echo '{\"id\": 1}'", "neither ok nor error"),
        ("read line; echo '{\"id\": 1, \"ok\": {}}'; read line; exit 3", "exit status: 3"),
        ("read line; echo '{\"id\": 1, \"error\": {\"kind\": \"x\"}}'", "the call failed"),
    ] {
        let complaint = complaint(script);
        assert!(complaint.contains(said), "{script}: {complaint}");
    }
}
