//! Pools: order, refills, outages and age.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Need, Scenario, needing};
use crate::conformance::answer::Answer;
use crate::conformance::driver::{Line, PATIENCE};
use crate::conformance::fake::{Asked, Asks, FakeDaemon};
use crate::conformance::frames;
use crate::conformance::stage::Stage;

const NEEDS: &[Need] = &[Need::Pools];

pub(super) const ALL: &[Scenario] = &[
    needing(NEEDS, "pool_order", "A pool gives every ID once, in rising order", pool_order),
    needing(
        NEEDS,
        "pool_refill",
        "It leases `min_chunk` first, and again in the background at half a chunk",
        pool_refill,
    ),
    needing(
        NEEDS,
        "pool_growth",
        "Chunks grow with the rate, at most eightfold, and a lease is never more than two of `max_chunk`",
        pool_growth,
    ),
    needing(NEEDS, "pool_two_chunks", "It never holds more than two chunks", pool_two_chunks),
    needing(
        NEEDS,
        "pool_outage",
        "In an outage it gives what it holds; then calls end at their deadline",
        pool_outage,
    ),
    needing(
        NEEDS,
        "pool_recovers",
        "Calls that wait get IDs once the daemon is back",
        pool_recovers,
    ),
    needing(
        NEEDS,
        "pool_forbidden",
        "An error that does not pass is given at once, and only to calls that find nothing",
        pool_forbidden,
    ),
    needing(
        NEEDS,
        "pool_snowflakes",
        "Snowflakes older than `max_age`, 1 s by default, are dropped",
        pool_snowflakes,
    ),
    needing(NEEDS, "pool_tags_keep", "IDs of a tag do not age", pool_tags_keep),
    needing(NEEDS, "pool_try_next", "`try_next` never waits, and starts a refill", pool_try_next),
    needing(NEEDS, "pool_stats", "What was leased is issued, held or lost", pool_stats),
    needing(
        &[Need::Pools, Need::Concurrent],
        "pool_many_callers",
        "Many callers at a time get different IDs, and one lease serves them",
        pool_many_callers,
    ),
    needing(
        NEEDS,
        "pool_arguments",
        "An invalid tag or count is refused, and a closed pool answers `closed`",
        pool_arguments,
    ),
];

/// A daemon's counter: each request gets the next IDs. Remembers what was asked for.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// The next ID.
    pub(super) next: u64,
    /// The counts of the requests.
    pub(super) counts: Vec<u32>,
}

impl Counter {
    pub(super) fn new() -> Self {
        Self { next: 1, counts: Vec::new() }
    }

    /// Answers a request.
    pub(super) fn give(&mut self, fake: &mut FakeDaemon, asked: &Asked) {
        fake.give(asked, self.next);
        self.next += u64::from(asked.count());
        self.counts.push(asked.count());
    }

    /// All IDs that were leased.
    pub(super) fn leased(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Serves requests until the line is answered.
    #[track_caller]
    pub(super) fn serve(
        &mut self,
        stage: &mut Stage<'_>,
        fake: &mut FakeDaemon,
        line: Line,
    ) -> Answer {
        stage.serve(fake, line, |fake, asked| self.give(fake, &asked))
    }

    /// Takes one ID from the pool.
    #[track_caller]
    pub(super) fn take(&mut self, stage: &mut Stage<'_>, fake: &mut FakeDaemon, pool: &str) -> u64 {
        let line = stage.send("pool_next", json!({"pool": pool}));
        self.serve(stage, fake, line).id()
    }
}

/// A number of the pool's statistics.
#[track_caller]
pub(super) fn stat(stage: &mut Stage<'_>, pool: &str, name: &str) -> u64 {
    let stats = stage.ask("pool_stats", json!({"pool": pool})).ok();
    let number = stats[name].as_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{name} in {stats}"))
}

fn pool_order(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let mut last = 0;
    for _ in 0..700 {
        let id = counter.take(stage, &mut fake, &pool);
        assert!(id > last && id < counter.next, "{id} after {last}");
        last = id;
    }
    for count in [1, 50, 300, 1000] {
        let line = stage.send("pool_next_many", json!({"pool": pool, "count": count}));
        let runs = counter.serve(stage, &mut fake, line).runs();
        assert_eq!(runs.iter().map(|(_, count)| count).sum::<u64>(), count);
        for (first, count) in runs {
            assert!(first > last, "{first} after {last}");
            last = first + count - 1;
            assert!(last < counter.next);
        }
    }
    assert!(fake.connects() == 1, "a pool has one connection, not {}", fake.connects());
}

fn pool_refill(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 100, "max_chunk": 100}));
    fake.serve_for(Duration::from_millis(100), |_, asked| {
        panic!("before the first use: {asked:?}")
    });
    for id in 1..=40 {
        assert_eq!(counter.take(stage, &mut fake, &pool), id);
    }
    fake.serve_for(Duration::from_millis(150), |fake, asked| counter.give(fake, &asked));
    assert_eq!(counter.counts, [100], "above half of a chunk it leases nothing");
    for id in 41..=60 {
        assert_eq!(counter.take(stage, &mut fake, &pool), id);
    }
    // No call is waiting now.
    while counter.leased() < 200 {
        let asked = fake.request();
        counter.give(&mut fake, &asked);
    }
    fake.serve_for(Duration::from_millis(150), |fake, asked| counter.give(fake, &asked));
    assert_eq!(counter.leased(), 200);
    // The default of the first lease.
    let defaults = stage.pool(json!({}));
    let mut counter = Counter { next: 10_000, counts: Vec::new() };
    assert_eq!(counter.take(stage, &mut fake, &defaults), 10_000);
    assert_eq!(counter.counts, [100]);
}

fn pool_growth(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"max_chunk": 20_000}));
    for count in [1, 400, 1000, 4000, 10_000, 20_000, 30_000, 30_000] {
        let line = stage.send("pool_next_many", json!({"pool": pool, "count": count}));
        counter.serve(stage, &mut fake, line).ok();
    }
    let most = *counter.counts.iter().max().expect("a lease");
    assert!(most > 800, "they do not grow: {:?}", counter.counts);
    // A pool in a hurry may lease two of the largest chunks at once.
    assert!(most <= 40_000, "beyond the limit: {:?}", counter.counts);
    let mut highest = 100;
    for count in &counter.counts {
        assert!(*count <= highest * 8, "more than eightfold: {:?}", counter.counts);
        highest = highest.max(*count);
    }
    stage.note(format!("leases of {:?} IDs", counter.counts));
}

fn pool_two_chunks(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 100, "max_chunk": 100}));
    let mut taken = 0;
    for count in [1, 60, 60, 99, 150, 250, 1, 1, 80] {
        let line = stage.send("pool_next_many", json!({"pool": pool, "count": count}));
        let answer = stage.serve(&mut fake, line, |fake, asked| counter.give(fake, &asked));
        assert_eq!(answer.runs().iter().map(|(_, count)| count).sum::<u64>(), count);
        taken += count;
        fake.serve_for(Duration::from_millis(30), |fake, asked| counter.give(fake, &asked));
        let held = counter.leased() - taken;
        assert!(held <= 200, "it holds {held} IDs in chunks of 100");
    }
}

fn pool_outage(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 100, "max_chunk": 100}));
    assert_eq!(counter.take(stage, &mut fake, &pool), 1);
    fake.die(false);
    for id in 2..=100 {
        assert_eq!(counter.take(stage, &mut fake, &pool), id, "it holds more");
    }
    let began = Instant::now();
    let line = stage.send("pool_next", json!({"pool": pool, "timeout_ms": 600}));
    let failure = stage.wait(line).fails_with(&["unavailable"]);
    assert!(failure.temporary, "{}", failure.all);
    assert!(began.elapsed() > Duration::from_millis(540), "after {:?}", began.elapsed());
    assert!(stat(stage, &pool, "failures") > 0);
    fake.listen_again();
    assert_eq!(counter.take(stage, &mut fake, &pool), 101);
}

fn pool_recovers(stage: &mut Stage<'_>) {
    let pool = stage.pool(json!({}));
    let line = stage.send("pool_next", json!({"pool": pool}));
    std::thread::sleep(Duration::from_millis(400));
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    assert_eq!(counter.serve(stage, &mut fake, line).id(), 1);
    // An error that passes is retried.
    let pool = stage.pool(json!({}));
    let line = stage.send("pool_next", json!({"pool": pool}));
    let mut refused = 0;
    let answer = stage.serve(&mut fake, line, |fake, asked| {
        refused += 1;
        match refused {
            1 => fake.send(asked.peer, &frames::error(asked.id, 302)),
            2 => fake.close(asked.peer),
            3 => fake.send(asked.peer, &frames::error(asked.id, 309)),
            _ => counter.give(fake, &asked),
        }
    });
    assert_eq!(answer.id(), 101);
}

fn pool_forbidden(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({"min_chunk": 100, "max_chunk": 100}));
    assert_eq!(counter.take(stage, &mut fake, &pool), 1);
    let refuse = |fake: &mut FakeDaemon, asked: Asked| {
        fake.send(asked.peer, &frames::error(asked.id, 206));
    };
    for id in 2..=100 {
        let line = stage.send("pool_next", json!({"pool": pool}));
        assert_eq!(stage.serve(&mut fake, line, refuse).id(), id);
    }
    let began = Instant::now();
    let line = stage.send("pool_next", json!({"pool": pool}));
    let failure = stage.serve(&mut fake, line, refuse).refused(206);
    assert!(!failure.temporary, "{}", failure.all);
    assert!(began.elapsed() < Duration::from_secs(90), "only at the deadline");
    // Rules may change: a later call asks again.
    let before = counter.next;
    std::thread::sleep(Duration::from_millis(600));
    let line = stage.send("pool_next", json!({"pool": pool}));
    let answer = counter.serve(stage, &mut fake, line);
    // It may have found the old error first.
    match answer {
        failed @ Answer::Failed(_) => {
            failed.refused(206);
            fake.serve_for(Duration::from_secs(1), |fake, asked| counter.give(fake, &asked));
            assert_eq!(counter.take(stage, &mut fake, &pool), before);
        }
        given => assert_eq!(given.id(), before),
    }
}

fn pool_snowflakes(stage: &mut Stage<'_>) {
    for (max_age, pause) in [(json!(300), 700), (json!(null), 1600)] {
        let mut fake = stage.fake();
        let mut counter = Counter::new();
        let pool = stage.pool(json!({"tag": null, "max_age_ms": max_age}));
        let line = stage.send("pool_next", json!({"pool": pool}));
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            assert!(matches!(asked.call, Asks::Snowflake { .. }), "{asked:?}");
            counter.give(fake, &asked);
        });
        answer.id();
        // Answers to refills that the first use caused.
        fake.serve_for(Duration::from_millis(pause), |fake, asked| counter.give(fake, &asked));
        let id = counter.take(stage, &mut fake, &pool);
        assert!(id > 100, "{id} is of the first chunk, which is too old");
        let line = stage.send("pool_next_many", json!({"pool": pool, "count": 150}));
        let runs = counter.serve(stage, &mut fake, line).runs();
        assert!(runs.iter().all(|(first, _)| *first > 100), "old IDs in {runs:?}");
        assert!(stat(stage, &pool, "lost") >= 99, "what it dropped is lost");
        stage.ask("pool_close", json!({"pool": pool})).ok();
    }
}

fn pool_tags_keep(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    assert_eq!(counter.take(stage, &mut fake, &pool), 1);
    fake.serve_for(Duration::from_millis(1500), |fake, asked| counter.give(fake, &asked));
    assert_eq!(counter.take(stage, &mut fake, &pool), 2);
}

fn pool_try_next(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let fields = json!({"pool": pool});
    // Nobody answers yet.
    assert_eq!(stage.ask("pool_try_next", fields.clone()).runs(), []);
    let began = Instant::now();
    loop {
        let line = stage.send("pool_try_next", fields.clone());
        let runs = counter.serve(stage, &mut fake, line).runs();
        if !runs.is_empty() {
            assert_eq!(runs, [(1, 1)]);
            return;
        }
        assert!(began.elapsed() < PATIENCE, "no ID comes");
        fake.serve_for(Duration::from_millis(5), |fake, asked| counter.give(fake, &asked));
    }
}

fn pool_stats(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let mut issued = 0;
    for count in [1, 30, 200] {
        let line = stage.send("pool_next_many", json!({"pool": pool, "count": count}));
        counter.serve(stage, &mut fake, line).ok();
        issued += count;
        fake.serve_for(Duration::from_millis(100), |fake, asked| counter.give(fake, &asked));
        let [said, leased, held, lost] =
            ["issued", "leased", "held", "lost"].map(|name| stat(stage, &pool, name));
        assert_eq!((said, leased), (issued, counter.leased()), "issued and leased");
        assert_eq!(leased, said + held + lost);
    }
    assert!(stat(stage, &pool, "refills") >= 2);
    assert!(stat(stage, &pool, "waits") >= 1, "the first call has waited");
    assert!(stat(stage, &pool, "chunk") >= 100);
    assert_eq!(stat(stage, &pool, "failures"), 0);
}

fn pool_many_callers(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let pool = stage.pool(json!({}));
    let lines: Vec<_> = (0..90).map(|_| stage.send("pool_next", json!({"pool": pool}))).collect();
    let mut all: Vec<u64> =
        lines.into_iter().map(|line| counter.serve(stage, &mut fake, line).id()).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=90).collect::<Vec<u64>>());
    assert_eq!(counter.counts.first(), Some(&100));
}

fn pool_arguments(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let mut counter = Counter::new();
    let long = "x".repeat(129);
    for tag in ["", &long, "a\nb"] {
        let fields =
            json!({"pool": format!("bad-{}", tag.len()), "socket": fake.path(), "tag": tag});
        match stage.ask("pool_open", fields.clone()) {
            failed @ Answer::Failed(_) => drop(failed.fails_with(&["invalid"])),
            Answer::Ok(_) => {
                let fields = json!({"pool": fields["pool"]});
                stage.ask("pool_next", fields).fails_with(&["invalid"]);
            }
        }
    }
    let pool = stage.pool(json!({}));
    stage.ask("pool_next_many", json!({"pool": pool, "count": 0})).fails_with(&["invalid"]);
    assert_eq!(counter.take(stage, &mut fake, &pool), 1);
    stage.ask("pool_close", json!({"pool": pool})).ok();
    stage.ask("pool_next", json!({"pool": pool})).fails_with(&["closed"]);
    // The connection goes with it.
    fake.wait_closed(0);
}
