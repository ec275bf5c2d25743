//! A call ends at its deadline, whatever the daemon does, and what comes later is dropped.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use leaf_client::wire::VERSION;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use serde_json::json;

use super::{Need, Scenario, needing, scenario};
use crate::conformance::answer::Answer;
use crate::conformance::driver::PATIENCE;
use crate::conformance::fake::FakeDaemon;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario("silence", "A call without an answer ends at its deadline as `deadline`", silence),
    scenario("trickle", "A byte now and then does not extend the deadline", trickle),
    scenario("no_hello", "A daemon that never answers the hello does not hold a call", no_hello),
    scenario(
        "hello_trickle",
        "Nor does one whose hello comes byte by byte without end",
        hello_trickle,
    ),
    scenario("full_backlog", "Nor does a socket whose backlog is full", full_backlog),
    scenario(
        "late_answer",
        "A late answer is dropped, and never taken for another call's",
        late_answer,
    ),
    scenario("late_error", "A late error is dropped in the same way", late_error),
    needing(
        &[Need::Concurrent],
        "late_among_others",
        "A late answer disturbs no other call of its connection",
        late_among_others,
    ),
    needing(
        &[Need::Concurrent],
        "impatient",
        "Callers with short timeouts do not have the call of a patient one begin anew",
        impatient,
    ),
    scenario(
        "tiny_timeout",
        "A timeout of 1 ms ends the call, and the next one works",
        tiny_timeout,
    ),
    needing(
        &[Need::Cancels],
        "cancelled",
        "A cancelled call ends at once, and its late answer is dropped",
        cancelled,
    ),
];

const TIMEOUT_MS: u32 = 500;

/// Demands that a call ends at its deadline and not before.
#[track_caller]
fn ended_at_deadline(began: Instant, answer: Answer, kinds: &[&str]) {
    let failure = answer.fails_with(kinds);
    assert!(failure.temporary, "a deadline is temporary: {}", failure.all);
    let least = Duration::from_millis(u64::from(TIMEOUT_MS) * 9 / 10);
    assert!(began.elapsed() > least, "it ends after {:?}: {}", began.elapsed(), failure.all);
}

fn silence(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for op in ["next", "snowflake", "time", "status"] {
        let began = Instant::now();
        let mut fields = json!({"client": client, "timeout_ms": TIMEOUT_MS});
        if op == "next" {
            fields["tag"] = json!("orders");
        }
        let line = stage.send(op, fields);
        let answer = stage.serve(&mut fake, line, |_, _| {});
        ended_at_deadline(began, answer, &["deadline"]);
    }
    let line = stage.next(&client);
    let answer = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, 2));
    assert_eq!(answer.id(), 2);
}

fn trickle(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let began = Instant::now();
    let line = stage.next_within(&client, TIMEOUT_MS);
    let asked = fake.request();
    let answer = ids_without_end(asked.id);
    let mut bytes = answer.iter();
    let answer = loop {
        if let Some(answer) = stage.take(line) {
            break answer;
        }
        assert!(began.elapsed() < PATIENCE, "the bytes extend the deadline");
        if let Some(byte) = bytes.next() {
            fake.send(asked.peer, &[*byte]);
        }
        std::thread::sleep(Duration::from_millis(40));
    };
    ended_at_deadline(began, answer, &["deadline"]);
    fake.close(asked.peer);
    stage.gets(&mut fake, &client, 2);
}

/// A frame that lasts longer than any deadline, one byte at a time.
fn ids_without_end(id: u64) -> Vec<u8> {
    let runs: Vec<(u64, u32)> = (0..2000).map(|number| (2 * number, 1)).collect();
    frames::ids(id, &runs)
}

fn no_hello(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let began = Instant::now();
    let line = stage.next_within(&client, TIMEOUT_MS);
    let peer = fake.accept();
    fake.hello_from(peer);
    let answer = stage.wait(line);
    ended_at_deadline(began, answer, &["unavailable", "deadline"]);
    fake.close(peer);
    let line = stage.next(&client);
    let answer = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, 4));
    assert_eq!(answer.id(), 4);
}

fn hello_trickle(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let began = Instant::now();
    let line = stage.next_within(&client, TIMEOUT_MS);
    let peer = fake.accept();
    let id = fake.hello_from(peer);
    let hello = frames::hello(id, VERSION, 10, 10);
    let mut bytes = hello[..hello.len() - 1].iter();
    let answer = loop {
        if let Some(answer) = stage.take(line) {
            break answer;
        }
        assert!(began.elapsed() < PATIENCE, "the bytes extend the deadline");
        if let Some(byte) = bytes.next() {
            fake.send(peer, &[*byte]);
        }
        std::thread::sleep(Duration::from_millis(60));
    };
    ended_at_deadline(began, answer, &["unavailable", "deadline"]);
}

fn full_backlog(stage: &mut Stage<'_>) {
    let path = stage.socket();
    let address = UnixAddr::new(&path).expect("a short path");
    let flags = SockFlag::SOCK_CLOEXEC;
    let full = socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
    bind(full.as_raw_fd(), &address).expect("its path");
    listen(&full, Backlog::new(1).expect("a length")).expect("a listener");
    let flags = flags | SockFlag::SOCK_NONBLOCK;
    let fillers: Vec<_> = (0..16)
        .map(|_| {
            let filler = socket(AddressFamily::Unix, SockType::Stream, flags, None);
            let filler = filler.expect("a socket");
            let connected = connect(filler.as_raw_fd(), &address).is_ok();
            (filler, connected)
        })
        .collect();
    assert!(fillers.iter().any(|(_, connected)| !connected), "the backlog does not fill up");
    let client = stage.open();
    let began = Instant::now();
    let line = stage.next_within(&client, TIMEOUT_MS);
    let answer = stage.wait(line);
    ended_at_deadline(began, answer, &["unavailable", "deadline"]);
    // A call that waits for room gets it.
    let line = stage.next(&client);
    std::thread::sleep(Duration::from_millis(200));
    drop((fillers, full));
    let mut fake = FakeDaemon::listen(&path);
    let asked = fake.request();
    fake.give(&asked, 6);
    assert_eq!(stage.wait(line).id(), 6);
}

fn late_answer(stage: &mut Stage<'_>) {
    late(stage, |id| frames::ids(id, &[(666, 1)]));
}

fn late_error(stage: &mut Stage<'_>) {
    late(stage, |id| frames::error(id, 202));
}

/// Answers a call after its deadline, before and together with the answer to the next one.
fn late(stage: &mut Stage<'_>, late: fn(u64) -> Vec<u8>) {
    for before_next in [true, false] {
        let mut fake = stage.fake();
        let client = stage.open();
        stage.gets(&mut fake, &client, 1);
        for round in 0..3 {
            let line = stage.next_within(&client, 150);
            let missed = fake.request();
            stage.wait(line).fails_with(&["deadline"]);
            let mut left = Some(late(missed.id));
            if before_next && let Some(bytes) = left.take() {
                fake.send(missed.peer, &bytes);
            }
            let line = stage.next(&client);
            let asked = fake.request();
            if let Some(bytes) = left {
                fake.send(missed.peer, &bytes);
            }
            fake.give(&asked, 100 + round);
            assert_eq!(stage.wait(line).id(), 100 + round);
        }
    }
}

fn late_among_others(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let patient = stage.next(&client);
    let asked = fake.request();
    let hasty = stage.next_within(&client, 200);
    let missed = fake.request();
    assert_eq!(asked.peer, missed.peer, "they share a connection");
    let other = stage.next(&client);
    let others = fake.request();
    // The daemon lives: it answers somebody.
    fake.give(&others, 7);
    assert_eq!(stage.wait(other).id(), 7);
    stage.wait(hasty).fails_with(&["deadline"]);
    fake.give(&missed, 666);
    fake.give(&asked, 8);
    assert_eq!(stage.wait(patient).id(), 8);
    stage.gets(&mut fake, &client, 9);
    assert_eq!(fake.connects(), 1, "the late answer cost the connection");
}

fn impatient(stage: &mut Stage<'_>) {
    // Less than the shortest silence after which a client takes a daemon for stuck.
    const SILENCE: Duration = Duration::from_millis(200);
    let mut fake = stage.fake();
    for _ in 0..100 {
        let client = stage.open();
        stage.gets(&mut fake, &client, 1);
        let (connects, began) = (fake.connects(), Instant::now());
        let patient = stage.next(&client);
        let asked = fake.request();
        for _ in 0..4 {
            let hasty = stage.next_within(&client, 10);
            stage.wait(hasty).fails_with(&["deadline", "unavailable"]);
        }
        if began.elapsed() < SILENCE {
            fake.give(&asked, 2);
            assert_eq!(stage.wait(patient).id(), 2);
            assert_eq!(fake.connects(), connects, "the patient call began anew");
            return;
        }
        // A machine that was too slow to tell the difference.
        stage.ask("close", json!({"client": client})).ok();
        stage.wait(patient);
    }
    panic!("four calls of 10 ms took more than {SILENCE:?} each time");
}

fn tiny_timeout(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for _ in 0..5 {
        let line = stage.next_within(&client, 1);
        let answer = stage.serve(&mut fake, line, |_, asked| assert_eq!(asked.timeout_ms(), 1));
        answer.fails_with(&["deadline", "unavailable"]);
    }
    let line = stage.next(&client);
    let answer = stage.serve(&mut fake, line, |fake, asked| {
        // What is left of the calls above may come first.
        if asked.timeout_ms() > 1 {
            fake.give(&asked, 2);
        }
    });
    assert_eq!(answer.id(), 2);
}

fn cancelled(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let doomed = stage.next(&client);
    let asked = fake.request();
    stage.ask("cancel", json!({"target": doomed.id()})).ok();
    stage.wait(doomed).fails_with(&["cancelled"]);
    let other = stage.next(&client);
    let others = fake.request();
    fake.give(&asked, 666);
    fake.give(&others, 2);
    assert_eq!(stage.wait(other).id(), 2);
    // Before it connects, too.
    fake.die(true);
    let doomed = stage.next(&client);
    std::thread::sleep(Duration::from_millis(50));
    stage.ask("cancel", json!({"target": doomed.id()})).ok();
    stage.wait(doomed).fails_with(&["cancelled"]);
    fake.listen_again();
    let line = stage.next(&client);
    let answer = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, 3));
    assert_eq!(answer.id(), 3);
}
