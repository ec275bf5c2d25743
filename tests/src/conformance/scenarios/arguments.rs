//! What callers pass in, and what of it is sent.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Scenario, scenario};
use crate::conformance::answer::Answer;
use crate::conformance::fake::Asks;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario("invalid", "An invalid tag or count is refused, and nothing is sent", invalid),
    scenario("no_path", "An empty socket path is invalid", no_path),
    scenario("tags", "A tag arrives as it is, with up to 128 characters of any kind", tags),
    scenario("above_max_count", "A count above `max_count` is error 200", above_max_count),
    scenario(
        "timeout_sent",
        "`timeout_ms` is the time left, less a tenth or 50 ms, and at least 1",
        timeout_sent,
    ),
    scenario("default_timeout", "The default timeout is 5 s", default_timeout),
    scenario("closed", "A closed client has closed its connection and answers `closed`", closed),
];

fn invalid(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let long = "x".repeat(129);
    let longer = "\u{10348}".repeat(129);
    for tag in ["", &long, &longer, "a\nb", "\0", "\u{1f}", "\u{7f}", "a\u{80}", "\u{9f}"] {
        let fields = json!({"client": client, "tag": tag});
        stage.ask("next", fields).fails_with(&["invalid"]);
        let fields = json!({"client": client, "tag": tag, "count": 2});
        stage.ask("next_many", fields).fails_with(&["invalid"]);
    }
    let fields = json!({"client": client, "tag": "orders", "count": 0});
    stage.ask("next_many", fields).fails_with(&["invalid"]);
    stage.ask("snowflakes", json!({"client": client, "count": 0})).fails_with(&["invalid"]);
    fake.serve_for(Duration::from_millis(100), |_, asked| panic!("it sends {asked:?}"));
    // And the client goes on.
    stage.gets(&mut fake, &client, 1);
}

fn no_path(stage: &mut Stage<'_>) {
    let opened = stage.ask("open", json!({"client": "nowhere", "socket": ""}));
    match opened {
        failed @ Answer::Failed(_) => failed.fails_with(&["invalid"]),
        Answer::Ok(_) => {
            stage.ask("next", json!({"client": "nowhere", "tag": "a"})).fails_with(&["invalid"])
        }
    };
}

fn tags(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (ascii, wide) = ("x".repeat(128), "\u{10348}".repeat(128));
    let mixed = "\u{e9}\u{10348}".repeat(64);
    // Neither trimmed, nor normalised, nor folded.
    let odd =
        [" ORDERS\u{a0}", "e\u{301}", "\u{e9}", "\u{a0}", "\u{200b}\u{feff}", "ＡA", "/%\"'\\"];
    for tag in odd.into_iter().chain([ascii.as_str(), wide.as_str(), mixed.as_str()]) {
        let line = stage.send("next", json!({"client": client, "tag": tag}));
        let asked = fake.request();
        assert_eq!(asked.tag(), tag);
        fake.give(&asked, 1);
        assert_eq!(stage.wait(line).id(), 1);
    }
}

fn above_max_count(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(10, 8);
    let client = stage.open();
    for (op, fields) in [
        ("next_many", json!({"client": client, "tag": "orders", "count": 11})),
        ("snowflakes", json!({"client": client, "count": 4_000_000_000u32})),
    ] {
        let line = stage.send(op, fields);
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            fake.send(asked.peer, &frames::error_with(asked.id, 200, 0, 10));
        });
        assert_eq!(answer.refused(200).all["detail"], "10");
    }
    let line = stage.next_many(&client, 10);
    let asked = fake.request();
    fake.give(&asked, 100);
    assert_eq!(stage.wait(line).runs(), [(100, 10)]);
}

fn timeout_sent(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    for (op, timeout) in [("next", 10_000u32), ("snowflake", 30_000), ("next", 200)] {
        let began = Instant::now();
        let mut fields = json!({"client": client, "timeout_ms": timeout});
        if op == "next" {
            fields["tag"] = json!("orders");
        }
        let line = stage.send(op, fields);
        let asked = fake.request();
        let margin = (timeout / 10).min(50);
        let most = timeout - margin;
        // What is left when it is sent cannot be less than what is left now.
        let spent = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX) + 2;
        let least = most.saturating_sub(spent).max(1);
        let sent = asked.timeout_ms();
        assert!((least..=most).contains(&sent), "{sent} of {timeout}: not {least} to {most}");
        fake.give(&asked, 2);
        // A slow machine may miss the shortest of them.
        if timeout > 1000 {
            assert_eq!(stage.wait(line).id(), 2);
        } else {
            let _ = stage.wait(line);
        }
    }
    // A repeated request has less time.
    let line = stage.next_within(&client, 20_000);
    let asked = fake.request();
    std::thread::sleep(Duration::from_millis(300));
    fake.close(asked.peer);
    let again = fake.request();
    assert!(again.timeout_ms() <= 20_000 - 300 - 50 + 5, "{} ms again", again.timeout_ms());
    fake.give(&again, 3);
    assert_eq!(stage.wait(line).id(), 3);
}

fn default_timeout(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open_with(json!({"timeout_ms": null}));
    let line = stage.next(&client);
    let asked = fake.request();
    let sent = asked.timeout_ms();
    assert!((1..=4950).contains(&sent), "{sent}");
    fake.give(&asked, 1);
    let _ = stage.wait(line);
    let line = stage.send("time", json!({"client": client}));
    let began = Instant::now();
    while fake.request().call != Asks::Time {}
    stage.wait(line).fails_with(&["deadline"]);
    assert!(began.elapsed() > Duration::from_millis(4500), "after {:?}", began.elapsed());
}

fn closed(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let peer = stage.gets(&mut fake, &client, 1);
    stage.ask("close", json!({"client": client})).ok();
    fake.wait_closed(peer);
    let connects = fake.connects();
    let line = stage.next(&client);
    stage.wait(line).fails_with(&["closed"]);
    assert_eq!(fake.connects(), connects);
}
