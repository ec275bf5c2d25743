//! `leafctl doctor` looks at a store in Redis, and finds what will go wrong later. It changes nothing there.

use leafd_tests::Redis;
use leafd_tests::daemon::Home;
use leafd_tests::doctor::{Examined, examine};

fn of(redis: &Redis) -> Examined {
    let folder = tempfile::tempdir().unwrap();
    examine(&Home::new(folder.path()).with_redis(redis).with("WORKER_ID", "7"))
}

#[test]
fn a_redis_that_is_set_up_right_has_no_findings_and_nothing_changes_there() {
    let redis = Redis::start_set(&["appendfsync always"]);
    redis.insert_tag("orders", 1, 1000);
    let dump = || {
        let mut keys = redis.run(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    };
    let before = dump();
    let examined = of(&redis);
    assert!(examined.has("store-durability", "ok", ""), "{:#}", examined.report);
    assert_eq!(dump(), before);
    // Nor while a daemon runs.
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_redis(&redis).with("WORKER_ID", "7");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let examined = examine(&home);
    examined.is_healthy();
    daemon.stop();
}

#[test]
fn a_redis_that_forgets_is_bad() {
    for (settings, told) in
        [(&["appendonly no"][..], "appendonly yes"), (&["appendfsync no"], "appendfsync always")]
    {
        let redis = Redis::start_set(settings);
        of(&redis).finds("store-durability", "bad", told);
    }
}

#[test]
fn a_redis_that_leafd_does_not_use_is_named_with_the_remedy() {
    let primary = Redis::start();
    let replica = primary.start_replica(primary.port());
    let evicting = Redis::start_set(&["maxmemory 100mb", "maxmemory-policy allkeys-lfu"]);
    for (redis, told) in [(&replica, "replica"), (&evicting, "allkeys-lfu")] {
        of(redis).finds("store", "bad", told);
    }
    primary.stop();
    of(&primary).finds("store", "bad", "refused");
}
