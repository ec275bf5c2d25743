//! From connecting to the answer to the hello.

use std::time::{Duration, Instant};

use leaf_client::wire::{Reply, VERSION};

use serde_json::json;

use super::{Scenario, scenario};
use crate::conformance::driver::PATIENCE;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario(
        "first_call",
        "A client connects at its first call, says hello and then asks",
        first_call,
    ),
    scenario("version", "An answer with a version that was not offered is refused", version),
    scenario("odd_hello", "Anything but the answer to the hello is refused", odd_hello),
    scenario(
        "version_unsupported",
        "Error 101 to the hello is given to the caller at once",
        version_unsupported,
    ),
    scenario(
        "forbidden_at_once",
        "Error 206 before the hello is given to the caller at once, also if writing fails",
        forbidden_at_once,
    ),
    scenario(
        "full_for_a_while",
        "Error 300 before the hello is retried, and the call succeeds",
        full_for_a_while,
    ),
    scenario(
        "full_for_good",
        "Error 300 until the deadline is given to the caller then, after pauses that grow",
        full_for_good,
    ),
    scenario(
        "retry_after",
        "After error 300 no attempt comes before `retry_after_ms` has passed",
        retry_after,
    ),
    scenario("stopping", "A goodbye instead of the answer to the hello is retried", stopping),
    scenario("slow_hello", "A slow hello, byte by byte, is waited for", slow_hello),
];

fn first_call(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(fake.connects(), 0, "it connects before the first call");
    let peer = stage.gets(&mut fake, &client, 5);
    // A driver may use a connection for several calls, or one for each.
    assert_eq!(peer, 0);
    stage.gets(&mut fake, &client, 6);
}

fn version(stage: &mut Stage<'_>) {
    for version in [0, VERSION + 1, u16::MAX] {
        let mut fake = stage.fake();
        let client = stage.open();
        let line = stage.next(&client);
        let peer = fake.accept();
        let id = fake.hello_from(peer);
        fake.send(peer, &frames::hello(id, version, 100, 100));
        stage.wait(line).breaks_the_protocol();
        fake.wait_closed(peer);
        assert_eq!(fake.connects(), 1, "it tries again");
    }
}

fn odd_hello(stage: &mut Stage<'_>) {
    let odd: [fn(u64) -> Vec<u8>; 5] = [
        |id| frames::reply(id, Reply::Time { unix_ms: 1 }),
        |id| frames::ids(id, &[(1, 1)]),
        |id| frames::hello(id.wrapping_add(77), VERSION, 100, 100),
        |_| frames::frame(b"HTTP/1.1 400 Bad Request"),
        |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ];
    for answer in odd {
        let mut fake = stage.fake();
        let client = stage.open();
        let line = stage.next(&client);
        let peer = fake.accept();
        let id = fake.hello_from(peer);
        fake.send(peer, &answer(id));
        stage.wait(line).breaks_the_protocol();
        fake.wait_closed(peer);
        assert_eq!(fake.connects(), 1, "it tries again");
    }
}

fn version_unsupported(stage: &mut Stage<'_>) {
    for unsolicited in [false, true] {
        let mut fake = stage.fake();
        let client = stage.open();
        let line = stage.next(&client);
        let peer = fake.accept();
        let id = fake.hello_from(peer);
        let id = if unsolicited { 0 } else { id };
        fake.send(peer, &frames::error_with(id, 101, 0, 9));
        fake.close(peer);
        let failure = stage.wait(line).refused(101);
        assert!(!failure.temporary, "{}", failure.all);
        assert_eq!(failure.all["detail"], "9", "{}", failure.all);
        assert_eq!(fake.connects(), 1, "it tries again");
    }
}

fn forbidden_at_once(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    // Closed before the hello is read, and now and then before it is written.
    for round in 1..=40 {
        let client = stage.open();
        let line = stage.next(&client);
        let began = Instant::now();
        let peer = loop {
            // Without a pause, which would leave time for the hello.
            if let Some(peer) = fake.try_accept() {
                break peer;
            }
            assert!(began.elapsed() < PATIENCE, "it does not connect");
            std::hint::spin_loop();
        };
        fake.send(peer, &frames::error_with(0, 206, 0, 1000));
        fake.close(peer);
        let failure = stage.wait(line).refused(206);
        assert!(!failure.temporary, "{}", failure.all);
        assert_eq!(fake.connects(), round, "it tries again");
        stage.ask("close", json!({"client": client})).ok();
    }
}

fn full_for_a_while(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next(&client);
    for solicited in [false, true, false] {
        let peer = fake.accept();
        let id = if solicited { fake.hello_from(peer) } else { 0 };
        fake.send(peer, &frames::error(id, 300));
        fake.close(peer);
    }
    let asked = fake.request();
    fake.give(&asked, 77);
    assert_eq!(stage.wait(line).id(), 77);
}

fn full_for_good(stage: &mut Stage<'_>) {
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
            fake.send(peer, &frames::error(0, 300));
            fake.close(peer);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let failure = answer.refused(300);
    assert!(failure.temporary, "{}", failure.all);
    assert!(began.elapsed() > Duration::from_millis(1350), "before the deadline");
    // From 5 ms, doubling to 500 ms, each shortened by half at most: 14 at most.
    let connects = fake.connects();
    assert!((3..=30).contains(&connects), "{connects} attempts in 1.5 s");
}

fn retry_after(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next(&client);
    for _ in 0..2 {
        let peer = fake.accept();
        let refused = Instant::now();
        fake.send(peer, &frames::error_with(0, 300, 700, 0));
        fake.close(peer);
        while refused.elapsed() < Duration::from_millis(650) {
            assert_eq!(fake.connects(), peer + 1, "after {:?}", refused.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let asked = fake.request();
    fake.give(&asked, 5);
    assert_eq!(stage.wait(line).id(), 5);
}

fn stopping(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next(&client);
    let peer = fake.accept();
    fake.send(peer, &frames::goodbye());
    fake.close(peer);
    let peer = fake.accept();
    let id = fake.hello_from(peer);
    fake.send(peer, &frames::error(id, 309));
    fake.close(peer);
    let asked = fake.request();
    fake.give(&asked, 9);
    assert_eq!(stage.wait(line).id(), 9);
}

fn slow_hello(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next(&client);
    let peer = fake.accept();
    let id = fake.hello_from(peer);
    std::thread::sleep(Duration::from_millis(300));
    for byte in frames::hello(id, VERSION, 100, 100) {
        fake.send(peer, &[byte]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = fake.request_from(peer).expect("the connection goes on");
    fake.give(&asked, 3);
    assert_eq!(stage.wait(line).id(), 3);
    assert_eq!(fake.connects(), 1);
}
