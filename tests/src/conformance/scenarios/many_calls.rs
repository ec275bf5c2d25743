//! Many calls that share a connection.

use std::time::Duration;

use serde_json::json;

use super::{Need, Scenario, needing};
use crate::conformance::driver::Line;
use crate::conformance::fake::{Asked, FakeDaemon};
use crate::conformance::frames;
use crate::conformance::stage::Stage;

const NEEDS: &[Need] = &[Need::Concurrent];

pub(super) const ALL: &[Scenario] = &[
    needing(
        NEEDS,
        "out_of_order",
        "Answers out of order reach their own callers, on one connection",
        out_of_order,
    ),
    needing(NEEDS, "coalesced", "Many answers in one write reach their callers", coalesced),
    needing(
        NEEDS,
        "max_in_flight",
        "Calls above `max_in_flight` wait in the client",
        max_in_flight,
    ),
    needing(
        NEEDS,
        "abandoned_count",
        "A call that ran into its deadline still counts as in flight",
        abandoned_count,
    ),
    needing(
        NEEDS,
        "protocol_fails_all",
        "A broken protocol fails all calls in flight, and the next call works",
        protocol_fails_all,
    ),
    needing(
        NEEDS,
        "lost_among_many",
        "If a connection ends, answered calls succeed and all others are repeated",
        lost_among_many,
    ),
    needing(
        NEEDS,
        "goodbye_among_many",
        "After a goodbye, answers that still arrive are used and the other calls are repeated",
        goodbye_among_many,
    ),
    needing(NEEDS, "refused_one", "An error to one call does not touch the others", refused_one),
    needing(
        NEEDS,
        "thousand",
        "A thousand calls at a time all succeed, a hundred in flight",
        thousand,
    ),
];

/// Makes calls for one ID each, of the tags `t0`, `t1`, …, and waits until all are in flight.
fn in_flight(
    stage: &mut Stage<'_>,
    fake: &mut FakeDaemon,
    client: &str,
    calls: usize,
) -> (Vec<Line>, Vec<Asked>) {
    let lines = calls_of(stage, client, calls);
    let mut all: Vec<Asked> = (0..calls).map(|_| fake.request()).collect();
    all.sort_by_key(number_of);
    assert!(all.iter().all(|asked| asked.peer == all[0].peer), "they do not share a connection");
    (lines, all)
}

fn calls_of(stage: &mut Stage<'_>, client: &str, calls: usize) -> Vec<Line> {
    let tags = (0..calls).map(|number| format!("t{number}"));
    tags.map(|tag| stage.send("next", json!({"client": client, "tag": tag}))).collect()
}

/// The number in the tag, which is also the ID that the call gets.
fn number_of(asked: &Asked) -> u64 {
    asked.tag()[1..].parse().expect("the number of a tag")
}

fn answer(asked: &Asked) -> Vec<u8> {
    frames::ids(asked.id, &[(number_of(asked), 1)])
}

fn all_get_their_own(stage: &mut Stage<'_>, lines: Vec<Line>) {
    for (number, line) in (0..).zip(lines) {
        assert_eq!(stage.wait(line).id(), number, "it got another call's answer");
    }
}

fn out_of_order(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, mut asked) = in_flight(stage, &mut fake, &client, 24);
    fastrand::shuffle(&mut asked);
    for one in &asked {
        fake.send(one.peer, &answer(one));
    }
    all_get_their_own(stage, lines);
    assert_eq!(fake.connects(), 1);
}

fn coalesced(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, mut asked) = in_flight(stage, &mut fake, &client, 100);
    asked.reverse();
    let bytes: Vec<u8> = asked.iter().flat_map(answer).collect();
    // The last frame is cut in the middle.
    let (most, rest) = bytes.split_at(bytes.len() - 10);
    fake.send(asked[0].peer, most);
    std::thread::sleep(Duration::from_millis(30));
    fake.send(asked[0].peer, rest);
    all_get_their_own(stage, lines);
}

fn max_in_flight(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(1000, 4);
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let lines = calls_of(stage, &client, 30);
    let mut open: Vec<Asked> = (0..4).map(|_| fake.request()).collect();
    fake.serve_for(Duration::from_millis(150), |_, asked| panic!("a fifth: {asked:?}"));
    for _ in 0..26 {
        let done = open.swap_remove(fastrand::usize(..open.len()));
        fake.send(done.peer, &answer(&done));
        open.push(fake.request());
    }
    for done in open {
        fake.send(done.peer, &answer(&done));
    }
    all_get_their_own(stage, lines);
    assert_eq!(fake.connects(), 1, "it opens further connections");
    assert_eq!(fake.most_in_flight(), 4);
}

fn abandoned_count(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(1000, 2);
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let hasty = stage.next_within(&client, 200);
    let missed = fake.request();
    let line = stage.next(&client);
    let asked = fake.request();
    // Something is heard, so the connection is not taken for dead.
    fake.give(&asked, 2);
    assert_eq!(stage.wait(line).id(), 2);
    stage.wait(hasty).fails_with(&["deadline"]);
    let lines = [stage.next(&client), stage.next(&client), stage.next(&client)];
    let mut first = Some(fake.request());
    fake.serve_for(Duration::from_millis(100), |_, asked| {
        assert_ne!(asked.peer, missed.peer, "a third in flight: {asked:?}");
    });
    if let Some(asked) = first.take() {
        fake.give(&asked, 3);
    }
    fake.give(&missed, 666);
    for line in lines {
        let given = stage.serve(&mut fake, line, |fake, asked| fake.give(&asked, 4)).id();
        assert!([3, 4].contains(&given), "{given}");
    }
    assert!(fake.most_in_flight() <= 2, "{} in flight", fake.most_in_flight());
}

fn protocol_fails_all(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, asked) = in_flight(stage, &mut fake, &client, 8);
    fake.send(asked[0].peer, &frames::ids(u64::MAX, &[(1, 1)]));
    for line in lines {
        stage.wait(line).breaks_the_protocol();
    }
    fake.wait_closed(asked[0].peer);
    stage.gets(&mut fake, &client, 2);
}

fn lost_among_many(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, asked) = in_flight(stage, &mut fake, &client, 20);
    // Answers that arrived before the end are used, and those calls are not repeated.
    for one in asked.iter().step_by(2) {
        fake.send(one.peer, &answer(one));
    }
    fake.close(asked[0].peer);
    for _ in 0..10 {
        let again = fake.request();
        assert_eq!(number_of(&again) % 2, 1, "a call with an answer is repeated");
        fake.send(again.peer, &answer(&again));
    }
    all_get_their_own(stage, lines);
    assert_eq!(fake.connects(), 2);
}

fn goodbye_among_many(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, asked) = in_flight(stage, &mut fake, &client, 20);
    let peer = asked[0].peer;
    let mut bytes = frames::goodbye();
    for one in &asked {
        match number_of(one) % 4 {
            0 => bytes.extend(answer(one)),
            1 => bytes.extend(frames::error(one.id, 309)),
            _ => {}
        }
    }
    fake.send(peer, &bytes);
    fake.close(peer);
    for _ in 0..15 {
        let again = fake.request();
        assert_ne!(again.peer, peer);
        assert_ne!(number_of(&again) % 4, 0, "a call with an answer is repeated");
        fake.send(again.peer, &answer(&again));
    }
    all_get_their_own(stage, lines);
}

fn refused_one(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let (lines, asked) = in_flight(stage, &mut fake, &client, 9);
    for one in &asked {
        let bytes = match number_of(one) % 3 {
            0 => frames::error(one.id, 202),
            1 => frames::error(one.id, 302),
            _ => answer(one),
        };
        fake.send(one.peer, &bytes);
    }
    for (number, line) in (0..).zip(lines) {
        match number % 3 {
            0 => drop(stage.wait(line).refused(202)),
            1 => drop(stage.wait(line).refused(302)),
            _ => assert_eq!(stage.wait(line).id(), number),
        }
    }
    assert_eq!(fake.connects(), 1);
}

fn thousand(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(1000, 100);
    let client = stage.open();
    let lines = calls_of(stage, &client, 1000);
    let (mut answered, mut waiting) = (0, Vec::new());
    while answered < lines.len() {
        waiting.push(fake.request());
        // Answers of some at a time, in another order.
        if waiting.len() == 50 {
            fastrand::shuffle(&mut waiting);
            for one in waiting.drain(..) {
                fake.send(one.peer, &answer(&one));
                answered += 1;
            }
        }
    }
    all_get_their_own(stage, lines);
    assert!(fake.most_in_flight() <= 100, "{} in flight", fake.most_in_flight());
    assert_eq!(fake.connects(), 1);
}
