//! Daemons that are not there, come back, or end connections without a word.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Scenario, scenario};
use crate::conformance::driver::{Driver, PATIENCE};
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario(
        "absent",
        "Without a socket, or with nobody behind it, a call ends at its deadline as `unavailable`",
        absent,
    ),
    scenario("comes_up", "A daemon that comes up within the deadline serves the call", comes_up),
    scenario(
        "no_permission",
        "Without permission to connect (`EACCES`), a call fails at once",
        no_permission,
    ),
    scenario(
        "idle_close",
        "A connection that was closed between two calls fails no call",
        idle_close,
    ),
    scenario("lost_in_flight", "A call whose connection ends is repeated", lost_in_flight),
    scenario("cut_off", "So is one whose answer is cut off", cut_off),
    scenario("restart", "So is one during whose restart the socket is gone for a while", restart),
    scenario(
        "ends_every_time",
        "Connections that end every time end the call at its deadline, with pauses between them",
        ends_every_time,
    ),
    scenario(
        "ends_after_hello",
        "Connections that end after each hello are made with pauses, too",
        ends_after_hello,
    ),
    scenario(
        "immediate",
        "The first attempt after a working connection comes without a pause",
        immediate,
    ),
];

fn absent(stage: &mut Stage<'_>) {
    for file in [false, true] {
        if file {
            // Closed at once, it leaves its file behind.
            drop(UnixListener::bind(stage.socket()).expect("a socket"));
        }
        let client = stage.open();
        let began = Instant::now();
        let line = stage.next_within(&client, 700);
        let failure = stage.wait(line).fails_with(&["unavailable"]);
        assert!(failure.temporary, "{}", failure.all);
        assert!(began.elapsed() > Duration::from_millis(600), "after {:?}", began.elapsed());
    }
}

fn comes_up(stage: &mut Stage<'_>) {
    for file in [false, true] {
        let _ = std::fs::remove_file(stage.socket());
        if file {
            drop(UnixListener::bind(stage.socket()).expect("a socket"));
        }
        let client = stage.open();
        let line = stage.next(&client);
        std::thread::sleep(Duration::from_millis(300));
        let mut fake = stage.fake();
        let asked = fake.request();
        fake.give(&asked, 12);
        assert_eq!(stage.wait(line).id(), 12);
    }
}

fn no_permission(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    std::fs::set_permissions(fake.path(), PermissionsExt::from_mode(0o000)).expect("chmod");
    let mut command = stage.command();
    if nix::unistd::Uid::effective().is_root() {
        // Root without the capabilities that override permissions.
        let own = command;
        command = Command::new("setpriv");
        let none = "-dac_override,-dac_read_search";
        command.args(["--bounding-set", none, "--inh-caps", none]);
        command.arg(own.get_program()).args(own.get_args());
    }
    let mut driver = Driver::start(command);
    let fields = json!({"client": "out", "socket": fake.path(), "timeout_ms": 50_000});
    let line = driver.send("open", fields);
    driver.wait(line).ok();
    let began = Instant::now();
    let line = driver.send("next", json!({"client": "out", "tag": "orders"}));
    let failure = driver.wait(line).fails_with(&["unavailable"]);
    assert!(!failure.temporary, "this does not pass by itself: {}", failure.all);
    assert!(began.elapsed() < Duration::from_secs(40), "only at the deadline");
    assert_eq!(fake.connects(), 0);
    // Once somebody has changed that, the same client works.
    std::fs::set_permissions(fake.path(), PermissionsExt::from_mode(0o666)).expect("chmod");
    let line = driver.send("next", json!({"client": "out", "tag": "orders"}));
    let asked = fake.request();
    fake.give(&asked, 3);
    assert_eq!(driver.wait(line).id(), 3);
    driver.finish();
}

fn idle_close(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for id in 1..=5 {
        let peer = stage.gets(&mut fake, &client, id);
        fake.close(peer);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lost_in_flight(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for id in 1..=3 {
        let line = stage.next_many(&client, 2);
        let asked = fake.request();
        fake.close(asked.peer);
        let again = fake.request();
        assert_ne!(again.peer, asked.peer);
        assert_eq!((again.tag(), again.count()), ("orders", 2));
        fake.give(&again, 10 * id);
        assert_eq!(stage.wait(line).runs(), [(10 * id, 2)]);
    }
}

fn cut_off(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for part in [1, 3, 4, 5, 30] {
        let line = stage.next(&client);
        let asked = fake.request();
        let answer = frames::ids(asked.id, &[(666, 1)]);
        fake.send(asked.peer, &answer[..part]);
        fake.close(asked.peer);
        let again = fake.request();
        fake.give(&again, 5);
        assert_eq!(stage.wait(line).id(), 5);
    }
}

fn restart(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for leave_file in [true, false] {
        let line = stage.next(&client);
        let _ = fake.request();
        fake.die(leave_file);
        std::thread::sleep(Duration::from_millis(300));
        fake.listen_again();
        let asked = fake.request();
        fake.give(&asked, 2);
        assert_eq!(stage.wait(line).id(), 2);
        fake.die(leave_file);
        let line = stage.next(&client);
        std::thread::sleep(Duration::from_millis(100));
        fake.listen_again();
        let asked = fake.request();
        fake.give(&asked, 3);
        assert_eq!(stage.wait(line).id(), 3);
    }
}

fn ends_every_time(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let before = fake.connects();
    let began = Instant::now();
    let line = stage.next_within(&client, 1500);
    let answer = stage.serve(&mut fake, line, |fake, asked| fake.close(asked.peer));
    let failure = answer.fails_with(&["unavailable", "deadline"]);
    assert!(failure.temporary, "{}", failure.all);
    assert!(began.elapsed() > Duration::from_millis(1350), "after {:?}", began.elapsed());
    let connects = fake.connects() - before;
    assert!((3..=30).contains(&connects), "{connects} connections in 1.5 s");
}

fn ends_after_hello(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let began = Instant::now();
    let line = stage.next_within(&client, 1500);
    let answer = loop {
        if let Some(answer) = stage.take(line) {
            break answer;
        }
        assert!(began.elapsed() < PATIENCE, "the deadline does not end the call");
        if let Some(peer) = fake.try_accept() {
            let id = fake.hello_from(peer);
            fake.send(peer, &frames::hello(id, 1, 10, 10));
            fake.close(peer);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    answer.fails_with(&["unavailable", "deadline"]);
    assert!(began.elapsed() > Duration::from_millis(1350), "after {:?}", began.elapsed());
    let connects = fake.connects();
    assert!((3..=30).contains(&connects), "{connects} connections in 1.5 s");
}

fn immediate(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    // With these pauses, a client that paused at all would miss its deadline.
    let pauses = json!({"backoff_min_ms": 60_000, "backoff_max_ms": 60_000});
    let client = stage.open_with(pauses);
    for id in 1..=3 {
        let peer = stage.gets(&mut fake, &client, id);
        fake.close(peer);
    }
    let line = stage.next(&client);
    let asked = fake.request();
    fake.give(&asked, 4);
    assert_eq!(stage.wait(line).id(), 4);
    // While a call is in flight, too.
    let line = stage.next(&client);
    let asked = fake.request();
    fake.close(asked.peer);
    let asked = fake.request();
    fake.give(&asked, 5);
    assert_eq!(stage.wait(line).id(), 5);
}
