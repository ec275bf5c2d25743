//! Pools at limits that the daemon names.

use std::time::{Duration, Instant};

use serde_json::json;

use super::pools::Counter;
use super::{Need, Scenario, needing};
use crate::conformance::answer::Answer;
use crate::conformance::driver::PATIENCE;
use crate::conformance::fake::Asked;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

const NEEDS: &[Need] = &[Need::Pools];

pub(super) const ALL: &[Scenario] = &[
    needing(
        NEEDS,
        "pool_max_count",
        "A chunk above `max_count` is gathered from several requests, and stays in order",
        pool_max_count,
    ),
    needing(NEEDS, "pool_in_flight", "They honour `max_in_flight`, too", pool_in_flight),
    needing(
        NEEDS,
        "pool_bad_count",
        "After error 200 a pool leases as much as `detail` allows",
        pool_bad_count,
    ),
    needing(
        NEEDS,
        "pool_quota",
        "After error 312 it waits for `retry_after_ms` and leases a quarter of `detail`",
        pool_quota,
    ),
    needing(
        NEEDS,
        "pool_wrong_answer",
        "A wrong answer to a refill gives no ID, and later refills work",
        pool_wrong_answer,
    ),
    needing(NEEDS, "pool_backs_off", "While refills fail, they come with pauses", pool_backs_off),
];

fn pool_max_count(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(1000, 64);
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 6000, "max_chunk": 6000}));
    let line = stage.send("pool_next_many", json!({"pool": pool, "count": 9000}));
    let mut waiting: Vec<(Asked, u64)> = Vec::new();
    let began = Instant::now();
    let mut arrived = Instant::now();
    let answer = loop {
        if let Some(answer) = stage.take(line) {
            break answer;
        }
        assert!(began.elapsed() < PATIENCE, "no answer");
        while let Some(asked) = fake.poll() {
            assert!(asked.count() <= 1000, "{} IDs in one request", asked.count());
            // IDs in the order of the requests.
            waiting.push((asked.clone(), counter.next));
            counter.next += u64::from(asked.count());
            arrived = Instant::now();
        }
        // Answered in the opposite order, once no more come.
        if arrived.elapsed() > Duration::from_millis(30) {
            for (asked, first) in waiting.drain(..).rev() {
                fake.give(&asked, first);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut last = 0;
    for (first, count) in answer.runs() {
        assert!(first > last, "{first} after {last}");
        last = first + count - 1;
    }
}

fn pool_in_flight(stage: &mut Stage<'_>) {
    let mut fake = stage.fake().with_limits(10, 3);
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 100, "max_chunk": 100}));
    let line = stage.send("pool_next_many", json!({"pool": pool, "count": 250}));
    let mut waiting: Vec<Asked> = Vec::new();
    let mut arrived = Instant::now();
    let answer = loop {
        if let Some(answer) = stage.take(line) {
            break answer;
        }
        while let Some(asked) = fake.poll() {
            assert!(asked.count() <= 10, "{} IDs in one request", asked.count());
            waiting.push(asked);
            arrived = Instant::now();
        }
        if arrived.elapsed() > Duration::from_millis(5) {
            for asked in waiting.drain(..) {
                counter.give(&mut fake, &asked);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(answer.runs(), [(1, 250)]);
    assert!(fake.most_in_flight() <= 3, "{} in flight", fake.most_in_flight());
}

fn pool_bad_count(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let mut refused = 0;
    for expected in 1..=90 {
        let line = stage.send("pool_next", json!({"pool": pool}));
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            if asked.count() > 30 {
                refused += 1;
                fake.send(asked.peer, &frames::error_with(asked.id, 200, 0, 30));
            } else {
                counter.give(fake, &asked);
            }
        });
        assert_eq!(answer.id(), expected);
    }
    assert_eq!(refused, 1, "it asks for too much again");
    assert!(counter.counts.contains(&30), "{:?}", counter.counts);
}

fn pool_quota(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let line = stage.send("pool_next", json!({"pool": pool}));
    let mut refused = None;
    let answer = stage.serve(&mut fake, line, |fake, asked| match refused {
        None => {
            fake.send(asked.peer, &frames::error_with(asked.id, 312, 400, 80));
            refused = Some(Instant::now());
        }
        Some(at) => {
            assert!(at.elapsed() > Duration::from_millis(390), "after {:?}", at.elapsed());
            counter.give(fake, &asked);
        }
    });
    assert_eq!(answer.id(), 1);
    assert_eq!(counter.counts[0], 20, "a quarter of 80");
}

fn pool_wrong_answer(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let began = Instant::now();
    // The error may be given or be retried; the wrong IDs may not.
    let mut wrong = 0;
    let id = loop {
        assert!(began.elapsed() < PATIENCE, "the pool does not recover");
        let line = stage.send("pool_next", json!({"pool": pool}));
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            wrong += 1;
            match wrong {
                1 => fake.send(asked.peer, &frames::ids(asked.id, &[(9_000, 99)])),
                2 => fake.send(asked.peer, &frames::ids(u64::MAX, &[(9_000, asked.count())])),
                3 => fake.send(asked.peer, &frames::ids(asked.id, &[(9_000, 50), (9_010, 50)])),
                _ => counter.give(fake, &asked),
            }
        });
        match answer {
            failed @ Answer::Failed(_) => failed.breaks_the_protocol(),
            given => break given.id(),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(id, 1);
}

fn pool_backs_off(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let pool = stage.pool(json!({}));
    let mut attempts = 0;
    let line = stage.send("pool_next", json!({"pool": pool, "timeout_ms": 1500}));
    let answer = stage.serve(&mut fake, line, |fake, asked| {
        attempts += 1;
        fake.send(asked.peer, &frames::error(asked.id, 302));
    });
    answer.refused(302);
    assert!((3..=30).contains(&attempts), "{attempts} attempts in 1.5 s");
}
