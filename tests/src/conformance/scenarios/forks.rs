//! Children of a fork that use what they inherited.

use serde_json::json;

use super::{Need, Scenario, needing};
use crate::conformance::answer::Answer;
use crate::conformance::fake::{Asked, FakeDaemon};
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    needing(
        &[Need::Forks],
        "child_connects",
        "A child never uses its parent's connection, and leaves it working",
        child_connects,
    ),
    needing(
        &[Need::Forks, Need::Pools],
        "child_pool",
        "A child's pool is empty, and the parent's goes on with what it holds",
        child_pool,
    ),
];

fn child_connects(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let parents = stage.gets(&mut fake, &client, 1);
    for round in 0..3u64 {
        let line = stage.send("fork_next", json!({"client": client, "tag": "orders"}));
        let own = 100 + round;
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            assert_ne!(asked.peer, parents, "the child asks on its parent's connection");
            fake.give(&asked, own);
        });
        match answer {
            // An asynchronous client may refuse to work in a child.
            failed @ Answer::Failed(_) => drop(failed.fails_with(&["forked"])),
            given => assert_eq!(given.id(), own),
        }
        let peer = stage.gets(&mut fake, &client, 2 + round);
        assert_eq!(peer, parents, "the child has ended its parent's connection");
    }
}

fn child_pool(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let pool = stage.pool(json!({}));
    let mut leased = 1000;
    let mut give = |fake: &mut FakeDaemon, asked: Asked| {
        fake.give(&asked, leased);
        leased += u64::from(asked.count());
    };
    let line = stage.send("pool_next", json!({"pool": pool}));
    assert_eq!(stage.serve(&mut fake, line, &mut give).id(), 1000);
    let connects = fake.connects();
    let mut children = Vec::new();
    for round in 0..3u64 {
        let line = stage.send("pool_fork_next", json!({"pool": pool, "tag": "orders"}));
        let answer = stage.serve(&mut fake, line, &mut give);
        children.push(answer.id());
        let line = stage.send("pool_next", json!({"pool": pool}));
        assert_eq!(stage.serve(&mut fake, line, &mut give).id(), 1001 + round);
    }
    assert!(children.iter().all(|id| *id >= 1100), "a child took its parent's IDs: {children:?}");
    assert!(fake.connects() > connects, "no child has a connection of its own");
    children.dedup();
    assert_eq!(children.len(), 3);
}
