//! Answers to calls, right and wrong, and how their bytes arrive.

use std::time::{Duration, Instant};

use leaf_client::wire::{MAX_RESPONSE_LEN, Reply};
use serde_json::json;

use super::{Scenario, scenario};
use crate::conformance::answer::Answer;
use crate::conformance::driver::PATIENCE;
use crate::conformance::fake::{Asked, FakeDaemon};
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario("byte_by_byte", "Answers that arrive byte by byte are used", byte_by_byte),
    scenario("largest", "An answer of 256 KiB is used", largest),
    scenario("highest", "IDs up to 2^63 − 1 arrive without losing a bit", highest),
    scenario("runs", "All runs of an answer are used, in their order", runs),
    scenario("time_and_status", "Time and status are given in full", time_and_status),
    scenario(
        "errors_to_callers",
        "An error of the daemon goes to the caller, and is not retried",
        errors_to_callers,
    ),
    scenario(
        "wrong_ids",
        "Too few or too many IDs, one twice, one above 2^63 − 1, an empty run: none is used",
        wrong_ids,
    ),
    scenario(
        "wrong_reply",
        "A reply of the wrong kind, or of an unknown one, is refused",
        wrong_reply,
    ),
    scenario("damaged", "A damaged answer is refused, and ends the connection", damaged),
    scenario("oversized", "A header above 256 KiB is refused before the body arrives", oversized),
    scenario("foreign", "An answer with an ID that was never sent ends the connection", foreign),
    scenario(
        "answered_twice",
        "A second answer to a request is never taken for another call's",
        answered_twice,
    ),
    scenario(
        "request_ids",
        "Request IDs are never 0, and none is used again while it is unanswered",
        request_ids,
    ),
];

/// What is wrong, how many IDs are asked for, and the runs of the answer.
type WrongIds = (&'static str, u32, &'static [(u64, u32)]);

/// What is done to the body of a good answer.
type Damage = (&'static str, fn(Vec<u8>) -> Vec<u8>);

fn byte_by_byte(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for first in [100, 200, 300] {
        let line = stage.next_many(&client, 3);
        let asked = fake.request();
        let runs = [(first, 1), (first + 10, 2)];
        fake.send_byte_by_byte(asked.peer, &frames::ids(asked.id, &runs));
        assert_eq!(stage.wait(line).runs(), [(first, 1), (first + 10, 2)]);
    }
    assert_eq!(fake.connects(), 1);
}

fn largest(stage: &mut Stage<'_>) {
    // ID, number of the reply, first run, length of the list; then 12 bytes for each run.
    let more = (MAX_RESPONSE_LEN - 8 - 4 - 12 - 8) / 12;
    let count = u32::try_from(more).expect("it fits") + 1;
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next_many(&client, count);
    let asked = fake.request();
    let runs: Vec<(u64, u32)> = (0..u64::from(count)).map(|number| (2 * number, 1)).collect();
    fake.send(asked.peer, &frames::ids(asked.id, &runs));
    let expected: Vec<(u64, u64)> = runs.iter().map(|(first, _)| (*first, 1)).collect();
    assert!(stage.wait(line).runs() == expected, "other runs");
}

fn highest(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let most = i64::MAX as u64;
    for id in [0, (1 << 53) + 1, (1 << 62) + 1, most - 1, most] {
        stage.gets(&mut fake, &client, id);
    }
    let line = stage.next_many(&client, 3);
    let asked = fake.request();
    fake.give(&asked, most - 2);
    assert_eq!(stage.wait(line).runs(), [(most - 2, 3)]);
    let line = stage.send("snowflakes", json!({"client": client, "count": 2}));
    let asked = fake.request();
    fake.send(asked.peer, &frames::ids(asked.id, &[(most, 1), ((1 << 53) + 1, 1)]));
    assert_eq!(stage.wait(line).runs(), [(most, 1), ((1 << 53) + 1, 1)]);
}

fn runs(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.next_many(&client, 10);
    let asked = fake.request();
    // The store may have gone to a lower range in between.
    let runs = [(1000, 2), (2000, 3), (50, 4), (3000, 1)];
    fake.send(asked.peer, &frames::ids(asked.id, &runs));
    assert_eq!(stage.wait(line).runs(), [(1000, 2), (2000, 3), (50, 4), (3000, 1)]);
}

fn time_and_status(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let line = stage.send("time", json!({"client": client}));
    let asked = fake.request();
    fake.send(asked.peer, &frames::reply(asked.id, Reply::Time { unix_ms: 1_700_000_000_123 }));
    assert_eq!(stage.wait(line).ok()["unix_ms"], "1700000000123");
    let text = std::fs::read(crate::binaries::workspace().join("protocol/vectors.json"));
    let all: serde_json::Value = serde_json::from_slice(&text.expect("the vectors")).expect("JSON");
    let all = all["vectors"].as_array().expect("a list").iter();
    for vector in all.filter(|it| it["message"] == "Status" && it["direction"] == "response") {
        let line = stage.send("status", json!({"client": client}));
        let asked = fake.request();
        let hex: String = vector["hex"]
            .as_array()
            .expect("hex")
            .iter()
            .filter_map(|line| line.as_str())
            .collect();
        let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let bytes = digits.chunks(2).map(|two| std::str::from_utf8(two).expect("digits"));
        let mut body: Vec<u8> =
            bytes.map(|two| u8::from_str_radix(two, 16).expect("hex")).skip(4).collect();
        body[..8].copy_from_slice(&asked.id.to_le_bytes());
        fake.send(asked.peer, &frames::frame(&body));
        let said = stage.wait(line).ok();
        assert_eq!(said, vector["fields"], "{}", vector["name"]);
    }
}

fn errors_to_callers(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for number in [104, 202, 206, 301, 302, 304, 306, 310, 312, 999] {
        let line = stage.next(&client);
        let asked = fake.request();
        fake.send(asked.peer, &frames::error_with(asked.id, number, 20, 7));
        stage.wait(line).refused(u64::from(number));
    }
    fake.serve_for(Duration::from_millis(150), |_, asked| {
        panic!("it retries by itself: {asked:?}")
    });
    stage.gets(&mut fake, &client, 8);
}

/// Answers a call wrongly, demands the error `protocol`, and that the next call uses a new connection.
fn answer_wrongly(
    stage: &mut Stage<'_>,
    what: &str,
    count: u32,
    answer: impl FnOnce(&mut FakeDaemon, &Asked),
) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next_many(&client, count);
    let asked = fake.request();
    answer(&mut fake, &asked);
    let failed = stage.wait(line).failure();
    assert_eq!(failed.kind, "protocol", "{what}: {}", failed.all);
    assert!(!failed.temporary, "{what} is not temporary: {}", failed.all);
    let connects = fake.connects();
    assert!(connects <= asked.peer + 2, "{what}: {connects} connections");
    stage.gets(&mut fake, &client, 5);
    stage.ask("close", json!({"client": client})).ok();
}

fn wrong_ids(stage: &mut Stage<'_>) {
    const MOST: u64 = i64::MAX as u64;
    let wrong: [WrongIds; 10] = [
        ("one ID too few", 3, &[(10, 2)]),
        ("one ID too many", 3, &[(10, 4)]),
        ("two runs that hold too many", 3, &[(10, 2), (20, 2)]),
        ("the same run twice", 4, &[(10, 2), (10, 2)]),
        ("runs that overlap", 4, &[(10, 3), (12, 1)]),
        ("runs that overlap, the higher first", 4, &[(12, 1), (10, 3)]),
        ("an ID above 2^63 - 1", 2, &[(MOST, 2)]),
        ("the ID 2^64 - 1", 1, &[(u64::MAX, 1)]),
        ("an empty run", 3, &[(10, 3), (20, 0)]),
        ("no ID", 1, &[(10, 0)]),
    ];
    for (what, count, runs) in wrong {
        answer_wrongly(stage, what, count, |fake, asked| {
            fake.send(asked.peer, &frames::ids(asked.id, runs));
        });
    }
    // 2^32 runs' worth of IDs must not wrap around.
    answer_wrongly(stage, "counts whose sum wraps around", 2, |fake, asked| {
        let runs = [(1, u32::MAX), (1 << 40, 3)];
        fake.send(asked.peer, &frames::ids(asked.id, &runs));
    });
}

fn wrong_reply(stage: &mut Stage<'_>) {
    answer_wrongly(stage, "the time", 2, |fake, asked| {
        fake.send(asked.peer, &frames::reply(asked.id, Reply::Time { unix_ms: 1 }));
    });
    answer_wrongly(stage, "a second hello", 2, |fake, asked| {
        fake.send(asked.peer, &frames::hello(asked.id, 1, 10, 10));
    });
    answer_wrongly(stage, "an unknown reply", 2, |fake, asked| {
        let body = [asked.id.to_le_bytes().as_slice(), &8u32.to_le_bytes()].concat();
        fake.send(asked.peer, &frames::frame(&body));
    });
    answer_wrongly(stage, "an unsolicited time", 2, |fake, asked| {
        fake.send(asked.peer, &frames::reply(0, Reply::Time { unix_ms: 1 }));
    });
}

fn damaged(stage: &mut Stage<'_>) {
    let damages: [Damage; 6] = [
        ("a byte too many", |body| [body.as_slice(), &[0]].concat()),
        ("a byte too few", |body| body[..body.len() - 1].to_vec()),
        ("an empty body", |_| Vec::new()),
        ("a body of seven bytes", |body| body[..7].to_vec()),
        ("a body that is only an ID", |body| body[..8].to_vec()),
        ("an absurd list", |body| [&body[..24], &[0xff; 8]].concat()),
    ];
    for (what, damage) in damages {
        answer_wrongly(stage, what, 2, |fake, asked| {
            let good = frames::ids(asked.id, &[(10, 2)]);
            fake.send(asked.peer, &frames::frame(&damage(good[4..].to_vec())));
        });
    }
}

fn oversized(stage: &mut Stage<'_>) {
    for len in [MAX_RESPONSE_LEN + 1, 1 << 24, (1 << 31) - 1, 1 << 31, u32::MAX as usize] {
        let header = u32::try_from(len).expect("it fits").to_be_bytes();
        answer_wrongly(stage, &format!("{len} bytes"), 2, |fake, asked| {
            fake.send(asked.peer, &header);
        });
    }
}

fn foreign(stage: &mut Stage<'_>) {
    for id in [u64::MAX, 1 << 40, 3_000_000_019] {
        let mut fake = stage.fake();
        let client = stage.open();
        let line = stage.next(&client);
        let asked = fake.request();
        assert_ne!(asked.id, id, "an unlucky choice of this test");
        fake.send(asked.peer, &frames::ids(id, &[(666, 1)]));
        stage.wait(line).breaks_the_protocol();
        fake.wait_closed(asked.peer);
        let peer = stage.gets(&mut fake, &client, 2);
        assert_ne!(peer, asked.peer);
    }
}

fn answered_twice(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for round in 0..5u64 {
        let line = stage.next(&client);
        let asked = fake.request();
        let twice = [frames::ids(asked.id, &[(10, 1)]), frames::ids(asked.id, &[(666, 1)])];
        fake.send(asked.peer, &twice.concat());
        // The damage may be seen with the first answer already.
        match stage.wait(line) {
            failed @ Answer::Failed(_) => failed.breaks_the_protocol(),
            given => assert_eq!(given.id(), 10),
        }
        let (line, own) = (stage.next(&client), 20 + round);
        let answer = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, own));
        match answer {
            failed @ Answer::Failed(_) => failed.breaks_the_protocol(),
            given => assert_eq!(given.id(), own, "it took another call's answer"),
        }
        let line = stage.next(&client);
        let answer = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, own + 10));
        assert_eq!(answer.id(), own + 10);
    }
}

fn request_ids(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    // The fake daemon checks each request.
    let began = Instant::now();
    for id in 1..=200 {
        stage.gets(&mut fake, &client, id);
        assert!(began.elapsed() < PATIENCE, "200 calls take too long");
    }
}
