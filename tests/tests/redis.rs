//! What only a store in Redis does: it reads counters as `INCR` leaves them, beside others who use them, and
//! survives a Redis that loses what it has confirmed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leaf_client::wire::ErrorCode;
use leafd::secret::Secret;
use leafd::store::{LeaseAsk, NewTag, Store, StoreError};
use leafd_tests::binaries::workspace;
use leafd_tests::caller::{Caller, store_error, wait_until};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::fleet::{Fleet, leases_in};
use leafd_tests::long::short_or_long;
use leafd_tests::redis::{NAME, RIGHTS, Sentinels, key};
use leafd_tests::stores::{self, ASK, LIMITS, open_redis, open_redis_with, run, span, tag};
use leafd_tests::{Background, Proxy, Redis, StoreServer, UniqueIds};
use tempfile::TempDir;

/// A deadline that memory always meets, and that a store which does not answer always misses.
const SOON: Duration = Duration::from_secs(5);

/// The deadline of requests that are expected to be refused.
const SHORT: Duration = Duration::from_millis(700);

/// leafd's line about a margin.
const SKIPS: &str = "Redis has restarted or failed over";

/// leafd's line about a counter below what was leased.
const BACKWARDS: &str = "went backwards";

/// Keeps all leases of a tag as large as its own step, up to 100 IDs.
const SMALL: [(&str, &str); 2] = [("SEGMENT_MAX_STEP", "100"), ("SEGMENT_DEFAULT_STEP", "10")];

/// The default of `redis.margin`.
const MARGIN: u64 = 1000;

fn host(redis: &Redis) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_redis(redis);
    (folder, home)
}

/// A host with a daemon that runs.
struct Running {
    daemon: Daemon,
    home: Home,
    _folder: TempDir,
}

impl Running {
    fn on(redis: &Redis, settings: &[(&str, &str)]) -> Self {
        let (folder, home) = host(redis);
        let home = settings.iter().fold(home, |home, (key, value)| home.with(key, value));
        Self { daemon: home.start(), home, _folder: folder }
    }

    fn caller(&self, tag: &str, seen: &UniqueIds) -> Caller {
        Caller::of(&self.daemon, tag, seen)
    }
}

fn down<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(StoreError::Down(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn bad_row<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(StoreError::BadRow(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn lease(store: &Arc<dyn Store>, name: &str) -> Result<(u64, u64), StoreError> {
    run(store.lease(&tag(name), ASK)).map(|leased| span(&leased))
}

// Counters, as others see them.

#[test]
fn a_lease_is_what_incrby_would_have_given_and_another_program_goes_on_behind_it() {
    let redis = Redis::shared().fresh();
    let store = open_redis(&redis, LIMITS);
    assert_eq!(lease(&store, "orders"), Err(StoreError::NoSuchTag));
    assert_eq!(redis.counter("orders"), None, "a lease never makes a counter");
    for expected in 1..=3 {
        assert_eq!(redis.run(&["INCR", &key("orders")]).text(), Some(format!("{expected}")));
    }
    run(store.set_step(&tag("orders"), 10)).unwrap();
    assert_eq!(lease(&store, "orders").unwrap(), (4, 14));
    assert_eq!(redis.run(&["INCR", &key("orders")]).text().as_deref(), Some("14"));
    assert_eq!(lease(&store, "orders").unwrap(), (15, 25));
    // How far, how many in this minute and the one before, since when, and where.
    let record = redis.own("leases", "orders").unwrap();
    let id = redis.info("master_replid");
    assert!(record.starts_with("24 20 0 ") && record.ends_with(&id), "{record}");
}

#[test]
fn ids_that_others_take_by_incr_at_the_same_time_are_never_leafds_as_well() {
    let redis = Redis::shared().fresh();
    redis.insert_tag("orders", 1, 10);
    let hosts = [(); 2].map(|()| Running::on(&redis, &SMALL));
    let seen = UniqueIds::default();
    let others: Vec<_> = (1..=2)
        .map(|size: u32| {
            let (redis, seen) = (redis.clone(), seen.clone());
            Background::start(move |stop| {
                let size = size * 3 - 2;
                let mut taken = 0;
                while !stop.is_set() {
                    let end = redis.run(&["INCRBY", &key("orders"), &size.to_string()]);
                    let end: u64 = end.text().unwrap().parse().unwrap();
                    seen.add_run("orders", end - u64::from(size) + 1, size.into());
                    taken += u64::from(size);
                }
                taken
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for host in &hosts {
            let caller = host.caller("orders", &seen);
            scope.spawn(move || (0..short_or_long(1000, 10_000)).for_each(|_| caller.gets(37)));
        }
    });
    let taken: u64 = others.into_iter().map(Background::finish).sum();
    let leases: u64 =
        hosts.iter().map(|host| host.daemon.client().status().unwrap().segments.leases).sum();
    println!(
        "{} IDs, {taken} of them by INCRBY of two other programs, {leases} leases of two hosts, \
         0 duplicates",
        seen.total()
    );
    assert!(taken > 0 && seen.highest("orders").unwrap() < redis.max_id("orders").cast_unsigned());
    for host in hosts {
        let ended = host.daemon.stop();
        assert_eq!(ended.count(BACKWARDS), 0, "{ended}");
    }
}

#[test]
fn a_counter_that_cannot_be_used_is_named_with_its_value_and_left_alone() {
    let redis = Redis::shared().fresh();
    let store = open_redis(&redis, LIMITS);
    redis.insert_tag("good", 1, 10);
    for value in [
        "many",
        "",
        " 5",
        "5 ",
        "+5",
        "-5",
        "-1",
        "05",
        "1.5",
        "1e3",
        "0x10",
        "5\n",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999",
        "-9223372036854775808",
    ] {
        redis.insert("bad", value, "10");
        let named = format!("{value:?}");
        let why = bad_row(lease(&store, "bad"));
        assert!(why.contains("id:bad") && why.contains(&named), "{value:?}: {why}");
        assert_eq!(redis.counter("bad").as_deref(), Some(value));
        assert_eq!(run(store.raise(&tag("bad"), 500)), Ok(None), "{value:?}");
        assert_eq!(redis.counter("bad").as_deref(), Some(value));
        assert_eq!(run(store.page("", 100)).unwrap().len(), 2, "{value:?}");
        bad_row(run(store.delete(&tag("bad"), 0)));
        assert_eq!(redis.counter("bad").as_deref(), Some(value));
        lease(&store, "good").unwrap();
    }
    redis.insert("bad", "500", "10");
    assert_eq!(lease(&store, "bad").unwrap(), (501, 511));
    for step in ["0", "-1", "many", "", "1.5", "10000000000000"] {
        redis.insert("bad", "500", step);
        let why = bad_row(lease(&store, "bad"));
        assert!(why.contains(&format!("{step:?}")), "{step:?}: {why}");
    }
}

#[test]
fn a_key_of_another_type_is_named_and_left_alone() {
    let redis = Redis::shared().fresh();
    let store = open_redis(&redis, LIMITS);
    redis.insert_tag("good", 1, 10);
    for (kind, make) in [
        ("list", &["RPUSH", "id:bad", "1"][..]),
        ("hash", &["HSET", "id:bad", "1", "2"]),
        ("set", &["SADD", "id:bad", "1"]),
        ("zset", &["ZADD", "id:bad", "1", "2"]),
        ("stream", &["XADD", "id:bad", "*", "1", "2"]),
    ] {
        redis.run(make);
        let why = bad_row(lease(&store, "bad"));
        assert!(why.contains("id:bad") && why.contains(kind), "{kind}: {why}");
        assert_eq!(redis.run(&["TYPE", "id:bad"]).text().as_deref(), Some(kind));
        assert_eq!(run(store.page("", 100)).unwrap().len(), 2, "{kind}");
        assert_eq!(
            run(store.create(&tag("bad"), NewTag::new(1, 10, ""))),
            Err(StoreError::Exists),
            "{kind}"
        );
        lease(&store, "good").unwrap();
        redis.run(&["DEL", "id:bad"]);
    }
}

#[test]
fn one_of_leafds_own_keys_with_another_type_or_value_gives_an_error_and_no_lease() {
    let redis = Redis::shared().fresh();
    redis.insert_tag("orders", 1, 10);
    let store = open_redis(&redis, LIMITS);
    lease(&store, "orders").unwrap();
    for own in ["leafd:leases", "leafd:steps", "leafd:identity"] {
        redis.run(&["RENAME", own, "aside"]);
        redis.run(&["RPUSH", own, "1"]);
        let counter = redis.counter("orders");
        let outcome = lease(&store, "orders");
        assert!(outcome.is_err(), "{own}: {outcome:?}");
        println!("{own}: {}", outcome.unwrap_err());
        assert_eq!(redis.counter("orders"), counter, "{own}");
        redis.run(&["RENAME", "aside", own]);
        stores::wait_until("it works again", || lease(&store, "orders").is_ok());
    }
    // leafd ignores a damaged record. The counter goes on, and the next lease writes a new record.
    redis.run(&["HSET", "leafd:leases", "id:orders", "nonsense"]);
    let counter: u64 = redis.counter("orders").unwrap().parse().unwrap();
    assert!(lease(&store, "orders").unwrap().0 > counter);
    assert_ne!(redis.own("leases", "orders").as_deref(), Some("nonsense"));
}

#[test]
fn numbers_near_2_to_the_53_and_to_the_63_are_exact() {
    let redis = Redis::shared().fresh();
    let store = open_redis(&redis, LIMITS);
    let edge = 1_u64 << 53;
    redis.insert("orders", &(edge - 15).to_string(), "7");
    for number in 0..6 {
        let start = edge - 15 + number * 7;
        assert_eq!(lease(&store, "orders").unwrap(), (start + 1, start + 8));
        assert_eq!(redis.counter("orders"), Some((start + 7).to_string()));
        let row = run(store.show(&tag("orders"))).unwrap();
        assert_eq!(row.max_id.get(), Some((start + 8).cast_signed()));
    }
    // A mark above it, a digit less, and a digit more.
    for floor in [edge + 101, edge + 1_000_001, 9_999_999_999_999_999, 10_000_000_000_000_019] {
        let ask = LeaseAsk { at_least: 0, floor };
        let leased = run(store.lease(&tag("orders"), ask)).unwrap();
        assert_eq!(span(&leased), (floor, floor + 7));
        assert!(leased.moved_from.is_some());
    }
    assert_eq!(run(store.raise(&tag("orders"), edge * 3 + 1)), Ok(Some(10_000_000_000_000_026)));
    assert_eq!(lease(&store, "orders").unwrap(), (edge * 3 + 1, edge * 3 + 8));
    // Up to 2^63 - 2, the last ID that fits into a range whose end is a number of SQL.
    let end = i64::MAX.unsigned_abs();
    redis.insert("last", &(end - 21).to_string(), "10");
    assert_eq!(lease(&store, "last").unwrap(), (end - 20, end - 10));
    assert_eq!(lease(&store, "last").unwrap(), (end - 10, end));
    let why = bad_row(lease(&store, "last"));
    assert!(why.contains(&(end - 1).to_string()) && why.contains("2^63"), "{why}");
    assert_eq!(redis.counter("last"), Some((end - 1).to_string()));
    // One that ends exactly at 2^63 - 1 gives its IDs, or says why not, and then no ID twice.
    redis.insert("brim", &(end - 10).to_string(), "10");
    let outcome = lease(&store, "brim");
    println!("up to 2^63 - 1: {outcome:?}");
    bad_row(lease(&store, "brim"));
    // More than is left is asked for.
    redis.insert("tail", &(end - 25).to_string(), "10");
    let ask = LeaseAsk { at_least: 1_000_000, floor: 0 };
    let leased = run(store.lease(&tag("tail"), ask)).unwrap();
    assert!(span(&leased).0 == end - 24 && span(&leased).1 <= end, "{leased:?}");
}

#[test]
fn a_key_with_a_time_to_live_is_not_leased_from_until_it_stays() {
    let redis = Redis::shared().fresh();
    redis.insert_tag("orders", 1, 100);
    let host = Running::on(&redis, &SMALL);
    let seen = UniqueIds::default();
    let orders = host.caller("orders", &seen);
    orders.fills_memory();
    redis.run(&["EXPIRE", &key("orders"), "100000"]);
    orders.drain(SOON);
    let error = orders.ask(1, SHORT).unwrap_err();
    assert!(error.message.contains("PERSIST id:orders"), "{error}");
    assert_eq!(store_error(&host.home), "", "the store works for other tags");
    let before = redis.max_id("orders");
    redis.run(&["PERSIST", &key("orders")]);
    orders.gets(1000);
    assert!(redis.max_id("orders") > before);
    // Once it is gone, it is as a tag that was deleted, and a new one begins above.
    redis.run(&["PEXPIRE", &key("orders"), "1"]);
    wait_until(&host.home, "orders ends", || match orders.ask(1, SHORT) {
        Ok(()) => false,
        Err(error) => error.code() == ErrorCode::UnknownTag,
    });
    redis.run(&["SET", &key("orders"), "0"]);
    wait_until(&host.home, "orders is back", || orders.ask(1, SHORT).is_ok());
    orders.gets(1000);
    host.home.log().wait_for(BACKWARDS);
    host.daemon.stop();
}

#[test]
fn a_deleted_key_ends_its_tag_and_a_host_that_never_saw_it_begins_above_as_well() {
    let redis = Redis::shared().fresh();
    redis.insert_tag("orders", 1, 100);
    let settings = [("SEGMENT_UNKNOWN_FOR", "0s"), ("SEGMENT_AUTO_CREATE", "true")];
    let (one, other) = (Running::on(&redis, &settings), Running::on(&redis, &settings));
    let seen = UniqueIds::default();
    let here = one.caller("orders", &seen);
    here.gets(1000);
    here.fills_memory();
    redis.run(&["DEL", &key("orders")]);
    // Both make it again on first use; the record of its leases is still there.
    let there = other.caller("orders", &seen);
    there.gets(1000);
    here.gets(5000);
    there.gets(5000);
    one.daemon.stop();
    other.daemon.stop();
}

// What Redis loses.

#[test]
fn a_server_killed_with_appendonly_loses_no_lease_and_each_counter_skips_its_margin_once() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 100);
    redis.insert_tag("users", 1, 10);
    let host = Running::on(&redis, &SMALL);
    let seen = UniqueIds::default();
    let (orders, users) = (host.caller("orders", &seen), host.caller("users", &seen));
    for caller in [&orders, &users] {
        caller.gets(500);
        caller.fills_memory();
    }
    for round in 1..=2 {
        let before = [redis.max_id("orders"), redis.max_id("users")];
        redis.kill();
        redis.start_again();
        assert_eq!(before, [redis.max_id("orders"), redis.max_id("users")], "nothing is lost");
        for (caller, name, before) in [(&orders, "orders", before[0]), (&users, "users", before[1])]
        {
            caller.gets(500);
            let margin = i64::try_from(MARGIN * 10).unwrap();
            assert!(redis.max_id(name) >= before + margin, "{name}: {}", redis.max_id(name));
            caller.fills_memory();
        }
        host.home.log().wait_times(SKIPS, round);
    }
    // No further skips without a further restart.
    let before = redis.max_id("orders");
    orders.gets(500);
    assert!(redis.max_id("orders") < before + 2000);
    let ended = host.daemon.stop();
    assert_eq!((ended.count(SKIPS), ended.count(BACKWARDS)), (2, 0), "{ended}");
}

#[test]
fn a_server_restored_from_an_old_snapshot_repeats_no_id_even_on_a_host_that_never_saw_the_tag() {
    let redis = Redis::start_set(&["appendonly no"]);
    redis.insert_tag("orders", 1, 100);
    let settings = [SMALL[0], SMALL[1], ("SEGMENT_REFRESH", "1h")];
    let seen = UniqueIds::default();
    let one = Running::on(&redis, &settings);
    let orders = one.caller("orders", &seen);
    orders.gets(1000);
    orders.fills_memory();
    redis.run(&["SAVE"]);
    let saved = redis.max_id("orders");
    // Fewer leases than the margin.
    for _ in 0..40 {
        orders.gets(100);
    }
    orders.fills_memory();
    let reached = redis.max_id("orders");
    // It would move the counter forward.
    one.daemon.freeze();
    redis.kill();
    redis.start_again();
    assert_eq!(redis.max_id("orders"), saved, "{reached}");
    let other = Running::on(&redis, &settings);
    let there = other.caller("orders", &seen);
    there.gets(1000);
    one.daemon.thaw();
    orders.gets(5000);
    there.gets(5000);
    println!(
        "{} leases were lost, and {} IDs have no duplicate",
        (reached - saved) / 100,
        seen.total()
    );
    assert!(reached - saved >= 4000, "{saved} to {reached}");
    other.home.log().wait_for(SKIPS);
    one.daemon.stop();
    other.daemon.stop();
}

#[test]
fn without_a_margin_the_same_restart_repeats_ids() {
    // This shows that the margin, and nothing else, keeps the test above from duplicates.
    let redis = Redis::start_set(&["appendonly no"]);
    redis.insert_tag("orders", 1, 100);
    let settings = [SMALL[0], SMALL[1], ("REDIS_MARGIN", "0"), ("SEGMENT_REFRESH", "1h")];
    let takes = |host: &Running, count: u32| -> Vec<u64> {
        let mut client = host.daemon.client();
        (0..count / 50).flat_map(|_| client.next_many("orders", 50).unwrap()).collect()
    };
    let one = Running::on(&redis, &settings);
    takes(&one, 500);
    one.caller("orders", &UniqueIds::default()).fills_memory();
    redis.run(&["SAVE"]);
    let first = takes(&one, 4000);
    // It would move the counter forward.
    one.daemon.freeze();
    redis.kill();
    redis.start_again();
    let other = Running::on(&redis, &settings);
    let second = takes(&other, 1000);
    let twice = second.iter().filter(|id| first.contains(id)).count();
    println!("{twice} of {} IDs came twice without a margin", second.len());
    assert!(twice > 0);
    let ended = other.daemon.stop();
    assert_eq!(ended.count(SKIPS), 0, "{ended}");
}

#[test]
fn a_server_killed_without_persistence_gives_no_lease_until_leafd_restarts_and_then_no_id_twice() {
    let redis = Redis::start_set(&["appendonly no"]);
    redis.insert_tag("orders", 1, 100);
    let host = Running::on(&redis, &[]);
    let seen = UniqueIds::default();
    let orders = host.caller("orders", &seen);
    orders.gets(1000);
    let left = orders.fills_memory();
    redis.kill();
    redis.start_again();
    // Not even after others have made the counter again.
    redis.insert_tag("orders", 1, 100);
    assert_eq!(orders.drain(SOON), left, "memory is served");
    wait_until(&host.home, "leafd says what it found", || {
        orders.is_refused(SHORT).message.contains("was replaced while leafd ran")
    });
    assert_eq!(redis.max_id("orders"), 1, "nothing was leased");
    host.daemon.stop();
    let daemon = host.home.start();
    host.home.log().wait_for("this is another database");
    let orders = Caller::of(&daemon, "orders", &seen);
    orders.gets(5000);
    daemon.stop();
}

#[test]
fn a_flushed_database_gives_no_lease_and_leases_go_on_once_its_keys_are_back() {
    for all in [false, true] {
        let redis = Redis::start();
        redis.insert_tag("orders", 1, 100);
        let hosts = [(); 2].map(|()| Running::on(&redis, &SMALL));
        let seen = UniqueIds::default();
        let callers = hosts.each_ref().map(|host| host.caller("orders", &seen));
        let left = callers.each_ref().map(|caller| {
            caller.gets(1000);
            caller.fills_memory()
        });
        let reached = redis.max_id("orders");
        let identity = redis.run(&["GET", "leafd:identity"]).text().unwrap();
        assert!(
            identity.len() == 32 && identity.chars().all(|c| c.is_ascii_hexdigit()),
            "{identity}"
        );
        redis.run(&[if all { "FLUSHALL" } else { "FLUSHDB" }]);
        for (caller, left) in callers.iter().zip(left) {
            assert_eq!(caller.drain(SOON), left, "memory is served");
            caller.is_refused(SHORT);
        }
        for host in &hosts {
            wait_until(&host.home, "the status says it", || {
                store_error(&host.home).contains("was replaced while leafd ran")
            });
        }
        assert_eq!(redis.run(&["KEYS", "id:*"]).texts(), [""; 0]);
        // An operator puts the counter back to what it was, or further up. Below that, each host stays above
        // what it has seen itself, and does not know what others were given.
        redis.run(&["SET", "leafd:identity", &identity]);
        redis.insert_tag("orders", reached, 100);
        for caller in &callers {
            wait_until(&hosts[0].home, "leases go on", || caller.ask(1, SHORT).is_ok());
        }
        println!("{} IDs before and after the flush", seen.total());
        hosts.into_iter().for_each(|host| drop(host.daemon.stop()));
    }
}

/// A fleet on Redis through a proxy, as hosts reach a primary by a virtual address.
fn fleet(redis: &Redis, size: u64, settings: &[(&str, &str)], seen: &UniqueIds) -> Fleet {
    // A daemon that stops during an outage waits for its clients until that is over.
    let settings = [&[("SHUTDOWN_GRACE", "1s")], settings].concat();
    Fleet::start(size, &StoreServer::from(redis.clone()), &settings, &["orders", "busy"], seen)
}

/// Stops the fleet, and asserts that nothing came twice. Returns how often a margin was skipped.
fn end(fleet: Fleet, seen: &UniqueIds, what: &str) -> usize {
    fleet.audit();
    let (kills, stops) = fleet.ends();
    let (failures, ended) = fleet.finish();
    let leased = UniqueIds::default();
    let leases: Vec<_> = ended.iter().flat_map(|ended| leases_in(ended.log())).collect();
    for lease in &leases {
        leased.add_run(&lease.tag, lease.first, lease.count);
    }
    let skips: usize = ended.iter().map(|ended| ended.count(SKIPS)).sum();
    let backwards: usize = ended.iter().map(|ended| ended.count(BACKWARDS)).sum();
    println!(
        "{what}: {} IDs, {} leases, {kills} daemons killed, {stops} stopped, {skips} lines about \
         margins, {backwards} about counters that went backwards, 0 duplicates; failed calls, which \
         were repeated: {:?} of hasty clients, {:?} of patient ones",
        seen.total(),
        leases.len(),
        failures.hasty,
        failures.patient,
    );
    assert!(failures.patient.is_empty(), "{:?}", failures.patient);
    skips
}

#[test]
fn a_failover_to_a_replica_that_lost_writes_gives_no_id_twice_thanks_to_the_margin() {
    let seen = UniqueIds::default();
    let mut primary = Redis::start();
    primary.insert_tag("orders", 1, 1000);
    primary.insert_tag("busy", 1, 1000);
    let front = Proxy::to(primary.port());
    let front_port = front.port();
    let servers = format!("127.0.0.1:{front_port}");
    let mut fleet = fleet(
        &primary,
        4,
        // Many leases.
        &[("REDIS_SERVERS", &servers), ("SEGMENT_MAX_STEP", "1000")],
        &seen,
    );
    let mut lost = Vec::new();
    for round in 0..short_or_long(3, 10) {
        let link = Proxy::to(primary.port());
        let replica = primary.start_replica(link.port());
        fleet.recover();
        let at = |redis: &Redis| ["orders", "busy"].map(|tag| redis.max_id(tag));
        stores::wait_until("the replica knows of a lease", || {
            ["orders", "busy"].iter().all(|tag| replica.own("leases", tag).is_some())
        });
        link.lose();
        let before = at(&primary);
        // Each lease has at most 1000 IDs, and the margin is a thousand leases or more.
        stores::wait_until("leases are lost", || {
            at(&primary).iter().zip(before).all(|(now, then)| now - then >= 10_000)
        });
        match round % 2 {
            0 => primary.kill(),
            // It goes on where nobody can reach it.
            _ => front.cut(),
        }
        front.cut();
        replica.promote();
        front.lead_to(replica.port());
        if round % 2 == 1 {
            lost.push(at(&primary)[0] - at(&replica)[0]);
        }
        front.pass();
        primary = replica;
        fleet.recover();
    }
    println!(
        "IDs of orders that a replica did not have, in rounds where that can be seen: {lost:?}"
    );
    let skips = end(fleet, &seen, "failovers to replicas that lost writes");
    assert!(skips > 0, "no margin was skipped");
}

#[test]
fn a_server_that_loses_seconds_of_leases_at_each_crash_gives_no_id_twice_under_load() {
    let seen = UniqueIds::default();
    // Without appendonly, a crash loses what came after the last snapshot.
    let redis = Redis::start_set(&["appendonly no"]);
    redis.insert_tag("orders", 1, 1000);
    redis.insert_tag("busy", 1, 1000);
    let mut fleet = fleet(&redis, 4, &[("SEGMENT_MAX_STEP", "1000")], &seen);
    let at = || ["orders", "busy"].map(|tag| redis.max_id(tag));
    let mut lost = Vec::new();
    for _ in 0..short_or_long(4, 12) {
        fleet.recover();
        redis.run(&["SAVE"]);
        let saved = at();
        stores::wait_until("leases that will be lost", || {
            at().iter().zip(saved).all(|(now, then)| now - then >= 10_000)
        });
        let reached = at();
        redis.kill();
        // Hosts that know what is lost may be gone as well.
        fleet.disturb();
        fleet.disturb();
        redis.start_again();
        lost.push((reached[0] - saved[0]) / 1000);
    }
    fleet.recover();
    println!("leases of orders that crashes lost: {lost:?}");
    let skips = end(fleet, &seen, "crashes that lost writes");
    assert!(skips > 0, "no margin was skipped");
}

/// leafd chooses what to skip by the server's clock: 64 places, half a second each.
fn place_of_a_skip() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() / 500 % 64
}

#[test]
fn two_failovers_in_a_row_to_replicas_that_know_nothing_of_each_other_begin_at_other_places() {
    let primary = Redis::start();
    primary.insert_tag("orders", 1, 100);
    let link = Proxy::to(primary.port());
    let replicas = [(); 2].map(|()| primary.start_replica(link.port()));
    let front = Proxy::to(primary.port());
    let servers = format!("127.0.0.1:{}", front.port());
    let settings = [SMALL[0], SMALL[1], ("REDIS_SERVERS", &servers), ("SEGMENT_REFRESH", "1h")];
    let hosts = [(); 3].map(|()| Running::on(&primary, &settings));
    let seen = UniqueIds::default();
    let callers = hosts.each_ref().map(|host| host.caller("orders", &seen));
    callers[0].gets(1000);
    replicas.iter().for_each(|replica| primary.wait_copied_to(replica));
    link.lose();
    callers[0].gets(1000);
    // Its next lease, for which nobody has to ask, would move the counter forward.
    hosts[0].daemon.freeze();
    let mut before = None;
    let mut from = primary;
    for (replica, (host, caller)) in replicas.into_iter().zip(hosts.iter().zip(&callers).skip(1)) {
        // Hosts that know more would move the counter forward.
        from.kill();
        front.cut();
        replica.promote();
        front.lead_to(replica.port());
        front.pass();
        std::thread::sleep(std::time::Duration::from_secs(3));
        stores::wait_until("another half second", || before != Some(place_of_a_skip()));
        before = Some(place_of_a_skip());
        caller.gets(5000);
        host.home.log().wait_for(SKIPS);
        host.daemon.freeze();
        from = replica;
    }
    hosts.iter().for_each(|host| host.daemon.thaw());
    callers.iter().for_each(|caller| caller.gets(5000));
    println!("{} IDs of three hosts over two failovers that lost everything", seen.total());
    hosts.into_iter().for_each(|host| drop(host.daemon.stop()));
}

#[test]
fn a_sentinel_failover_under_load_gives_no_id_twice_and_every_client_is_served() {
    let seen = UniqueIds::default();
    let servers = {
        let primary = Redis::start();
        let replicas = [(); 2].map(|()| primary.start_replica(primary.port()));
        [primary].into_iter().chain(replicas).collect::<Vec<_>>()
    };
    servers[0].insert_tag("orders", 1, 1000);
    servers[0].insert_tag("busy", 1, 1000);
    let sentinels = Sentinels::start(&servers[0], 2);
    let by_name = [("REDIS_SERVERS", sentinels.servers()), ("REDIS_SENTINEL", NAME.to_owned())];
    let mut settings: Vec<_> = by_name.iter().map(|(key, value)| (*key, value.as_str())).collect();
    // Many leases: until it is demoted, the old primary serves hosts that have not heard of the new one.
    settings.push(("SEGMENT_MAX_STEP", "1000"));
    let mut fleet = fleet(&servers[0], 4, &settings, &seen);
    let began = Instant::now();
    let mut faults = [0; 3];
    for round in 0..short_or_long(3, 9) {
        fleet.recover();
        let port = sentinels.primary().expect("a primary");
        let primary = servers.iter().find(|server| server.port() == port).expect("one of them");
        match round % 3 {
            0 => primary.kill(),
            1 => primary.freeze(),
            _ => sentinels.fail_over_from(port),
        }
        faults[round % 3] += 1;
        fleet.disturb();
        sentinels.wait_failover_from(port);
        fleet.recover();
        match round % 3 {
            0 => primary.start_again(),
            // It may believe for a while that it still is the primary.
            1 => primary.thaw(),
            _ => {}
        }
        fleet.disturb();
        primary.wait_following();
        for server in servers.iter().filter(|server| server.info("role") == "slave") {
            server.wait_following();
        }
    }
    fleet.recover();
    let took = began.elapsed();
    let [killed, frozen, asked] = faults;
    let what = format!(
        "Sentinel: {killed} primaries killed, {frozen} frozen, {asked} asked to step down, in {took:.0?}"
    );
    let skips = end(fleet, &seen, &what);
    assert!(skips > 0, "no margin was skipped");
}

#[test]
fn sentinels_that_are_down_or_know_nothing_are_named_and_a_majority_of_them_suffices() {
    let primary = Redis::start();
    primary.insert_tag("orders", 1, 10);
    let sentinels = Sentinels::start(&primary, 0);
    let open = |name: &str| {
        open_redis_with(&primary, LIMITS, |store| {
            let place = leafd::store::RedisPlace::parse(&sentinels.servers(), Some(name), 0);
            store.place = place.unwrap();
            store.place.user = Some("leaf".to_owned());
        })
    };
    let store = open(NAME);
    assert_eq!(lease(&store, "orders").unwrap(), (1, 11));
    let why = down(lease(&open("another"), "orders"));
    assert!(why.contains("another"), "{why}");
    sentinels.kill(0);
    assert_eq!(lease(&open(NAME), "orders").unwrap(), (11, 21));
    sentinels.kill(1);
    // The last one may be cut off from the others, so leafd does not believe it.
    stores::wait_until("an open connection is not trusted either", || {
        lease(&store, "orders").is_err()
    });
    let why = down(lease(&open(NAME), "orders"));
    for server in sentinels.servers().split(',') {
        assert!(why.contains(server), "{why}");
    }
}

#[test]
fn a_host_that_reaches_only_one_sentinel_leases_nothing_and_serves_from_memory() {
    let primary = Redis::start();
    primary.insert_tag("orders", 1, 1000);
    let sentinels = Sentinels::start(&primary, 0);
    let ports = sentinels.servers();
    let ports = ports.split(',').map(|server| server.rsplit_once(':').unwrap().1.parse().unwrap());
    let networks: Vec<Proxy> = ports.map(Proxy::to).collect();
    let servers: Vec<_> =
        networks.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let servers = servers.join(",");
    // Small ranges: a tenth of a range has to be used before the next one is leased.
    let settings = [
        ("REDIS_SERVERS", servers.as_str()),
        ("REDIS_SENTINEL", NAME),
        ("SEGMENT_MAX_STEP", "2000"),
    ];
    let host = Running::on(&primary, &settings);
    let orders = host.caller("orders", &UniqueIds::default());
    let faults: [fn(&Proxy); 2] = [Proxy::cut, Proxy::hold];
    for begin in faults {
        orders.gets(10);
        orders.fills_memory();
        begin(&networks[0]);
        orders.gets(2000);
        orders.fills_memory();
        begin(&networks[1]);
        // A lease right after the last answer of the Sentinels may still come.
        wait_until(&host.home, "leases stop", || orders.ask(1000, SHORT).is_err());
        orders.drain(SOON);
        let counter = primary.counter("orders");
        let error = orders.is_refused(Duration::from_secs(5));
        assert!(error.message.contains(NAME), "{error}");
        assert_eq!(primary.counter("orders"), counter, "the primary itself can be reached");
        networks.iter().for_each(Proxy::pass);
        orders.gets(2000);
        wait_until(&host.home, "the store works", || store_error(&host.home).is_empty());
    }
    host.daemon.stop();
}

#[test]
fn sentinels_with_a_password_get_their_own_and_not_the_servers() {
    let primary = Redis::start();
    primary.insert_tag("orders", 1, 10);
    let sentinels = Sentinels::start_set(&primary, 0, &["requirepass watch"]);
    let open = |password: Option<&str>| {
        open_redis_with(&primary, LIMITS, |store| {
            let place = leafd::store::RedisPlace::parse(&sentinels.servers(), Some(NAME), 0);
            store.place = place.unwrap();
            store.place.user = Some("leaf".to_owned());
            store.sentinel_password = password.map(Secret::new);
        })
    };
    assert_eq!(lease(&open(Some("watch")), "orders").unwrap(), (1, 11));
    for (password, told) in [(None, "NOAUTH"), (Some("guess"), "WRONGPASS")] {
        let why = down(lease(&open(password), "orders"));
        assert!(why.contains(told) && !why.contains("guess"), "{why}");
    }
}

#[test]
fn a_tag_made_after_a_failover_begins_above_what_may_have_been_lost_of_an_earlier_one() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 100);
    let store = open_redis(&redis, LIMITS);
    lease(&store, "orders").unwrap();
    let make = |name| run(store.create(&tag(name), NewTag::new(1, 10, ""))).unwrap().first;
    assert_eq!(make("users"), 1, "nothing was lost yet");
    run(store.delete(&tag("users"), 0)).unwrap();
    redis.restart();
    stores::wait_until("the store works", || run(store.probe()).is_ok());
    // One that this Redis knows was deleted, and one that it may have forgotten.
    for name in ["users", "invoices"] {
        let first = make(name);
        println!("{name} begins at {first}");
        assert!(first > MARGIN * 10, "{name} begins at {first}");
        assert_eq!(lease(&store, name).unwrap(), (first, first + 10));
    }
}

#[test]
fn scripts_that_the_server_forgot_are_sent_again() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 10);
    let store = open_redis(&redis, LIMITS);
    for round in 0..3 {
        assert_eq!(lease(&store, "orders").unwrap(), (round * 10 + 1, round * 10 + 11));
        redis.run(&["SCRIPT", "FLUSH"]);
    }
    run(store.delete(&tag("orders"), 0)).unwrap();
    redis.run(&["SCRIPT", "FLUSH"]);
    assert_eq!(run(store.create(&tag("orders"), NewTag::new(1, 10, ""))).unwrap().first, 31);
}

// Which servers leafd uses.

#[test]
fn a_cluster_a_replica_and_a_server_that_evicts_are_refused_with_the_remedy() {
    let primary = Redis::start();
    primary.insert_tag("orders", 1, 10);
    let replica = primary.start_replica(primary.port());
    let cluster = Redis::start_set(&["cluster-enabled yes", "databases 1"]);
    let evicting = Redis::start_set(&["maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    evicting.insert_tag("orders", 1, 10);
    for (redis, told) in
        [(&replica, "replica"), (&cluster, "luster"), (&evicting, "maxmemory-policy")]
    {
        let store = open_redis(redis, LIMITS);
        for why in [down(lease(&store, "orders")), down(run(store.probe()))] {
            assert!(why.contains(told), "{why}");
        }
    }
    assert_eq!(evicting.max_id("orders"), 1);
    let keys = evicting.run(&["KEYS", "leafd:*"]).texts();
    assert_eq!(keys, ["leafd:steps"], "leafd writes nothing there");
    // A daemon says it, and takes the server once it is set up right.
    let host = Running::on(&evicting, &[]);
    wait_until(&host.home, "the status says it", || {
        store_error(&host.home).contains("allkeys-lru")
    });
    evicting.run(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    host.caller("orders", &UniqueIds::default()).gets(1);
    assert_eq!(store_error(&host.home), "");
    host.daemon.stop();
}

#[test]
fn a_primary_that_becomes_a_replica_is_left_and_used_again_once_it_is_a_primary() {
    // A replica may take writes, which nobody else sees.
    for takes_writes in [false, true] {
        let (redis, other) = (Redis::start(), Redis::start());
        if takes_writes {
            redis.run(&["CONFIG", "SET", "replica-read-only", "no"]);
        }
        redis.insert_tag("orders", 1, 100);
        let host = Running::on(&redis, &[]);
        let orders = host.caller("orders", &UniqueIds::default());
        orders.gets(500);
        let left = orders.fills_memory();
        // The other one begins as a copy, as after a failover.
        other.follow(redis.port());
        redis.wait_copied_to(&other);
        other.promote();
        redis.follow(other.port());
        let counter = redis.counter("orders");
        assert_eq!(orders.drain(SOON), left);
        orders.is_refused(SHORT);
        wait_until(&host.home, "the status says it", || {
            store_error(&host.home).contains("replica")
        });
        assert_eq!(redis.counter("orders"), counter);
        redis.promote();
        wait_until(&host.home, "leases go on", || orders.ask(1, SHORT).is_ok());
        orders.gets(1000);
        wait_until(&host.home, "the store works", || store_error(&host.home).is_empty());
        host.daemon.stop();
    }
}

#[test]
fn with_memory_full_leases_fail_memory_is_served_and_leases_resume() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 1000);
    let host = Running::on(&redis, &[]);
    let orders = host.caller("orders", &UniqueIds::default());
    let left = orders.fills_memory();
    redis.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let counter = redis.counter("orders");
    assert_eq!(orders.drain(SOON), left);
    let error = orders.is_refused(SHORT);
    println!("memory is full: {}", error.message);
    wait_until(&host.home, "the status says it", || store_error(&host.home).contains("OOM"));
    assert_eq!(redis.counter("orders"), counter);
    let waiter = orders.waits();
    redis.run(&["CONFIG", "SET", "maxmemory", "0"]);
    waiter.is_served("memory is free again", Instant::now());
    let ended = host.daemon.stop();
    assert_eq!(ended.count(BACKWARDS) + ended.count(SKIPS), 0, "{ended}");
}

#[test]
fn a_server_that_cannot_write_to_its_disk_or_lacks_replicas_is_down_until_it_is_not() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 10);
    let store = open_redis(&redis, LIMITS);
    lease(&store, "orders").unwrap();
    redis.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let why = down(lease(&store, "orders"));
    assert!(why.contains("NOREPLICAS"), "{why}");
    down(run(store.probe()));
    redis.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(run(store.probe()), Ok(()));
    assert_eq!(lease(&store, "orders").unwrap(), (11, 21));
}

#[test]
fn a_script_that_blocks_redis_delays_leases_and_no_request_that_memory_can_serve() {
    let redis = Redis::start_set(&["busy-reply-threshold 100"]);
    redis.insert_tag("orders", 1, 1000);
    let host = Running::on(&redis, &[]);
    let orders = host.caller("orders", &UniqueIds::default());
    let left = orders.fills_memory();
    let blocking = redis.clone();
    let script = std::thread::spawn(move || blocking.try_run(&["EVAL", "while true do end", "0"]));
    stores::wait_until("the script blocks", || {
        redis.try_run(&["PING"]).is_err_and(|error| error.starts_with("BUSY"))
    });
    assert_eq!(orders.drain(SOON), left);
    orders.is_refused(SHORT);
    redis.run(&["SCRIPT", "KILL"]);
    script.join().unwrap().unwrap_err();
    orders.gets(1000);
    wait_until(&host.home, "the store works", || store_error(&host.home).is_empty());
    host.daemon.stop();
}

#[test]
fn a_wrong_password_is_reported_and_never_shown_and_a_corrected_one_works() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 10);
    for (user, password) in [(Some("leaf"), Some("hunter2")), (Some("nobody"), Some("hunter2"))] {
        let store = open_redis_with(&redis, LIMITS, |store| {
            store.place.user = user.map(str::to_owned);
            store.password = password.map(Secret::new);
        });
        for why in [down(lease(&store, "orders")), down(run(store.probe()))] {
            assert!(why.contains("WRONGPASS") && !why.contains("hunter"), "{why}");
        }
        assert!(!store.describe().contains("hunter"), "{}", store.describe());
    }
    let host = Running::on(&redis, &[("REDIS_PASSWORD", "hunter2")]);
    let orders = host.caller("orders", &UniqueIds::default());
    let error = orders.ask(1, SHORT).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
    assert!(error.message.contains("WRONGPASS") && !error.message.contains("hunter"), "{error}");
    redis.run(&["ACL", "SETUSER", "leaf", ">hunter2"]);
    orders.gets(10);
    let ended = host.daemon.stop();
    assert_eq!(ended.count("hunter2"), 0, "{ended}");
    // From a file.
    let (folder, home) = host_without_password(&redis);
    let file = folder.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let daemon = home.with("REDIS_PASSWORD_FILE", file.to_str().unwrap()).start();
    Caller::of(&daemon, "orders", &UniqueIds::default()).gets(10);
    daemon.stop();
}

fn host_without_password(redis: &Redis) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let settings = redis.settings_at(redis.port());
    let settings = settings.iter().filter(|(key, _)| *key != "REDIS_PASSWORD");
    let home = settings.fold(Home::new(folder.path()), |home, (key, value)| home.with(key, value));
    (folder, home)
}

#[test]
fn missing_rights_are_named_and_leases_resume_once_they_are_granted() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 1000);
    let host = Running::on(&redis, &[]);
    let orders = host.caller("orders", &UniqueIds::default());
    let left = orders.fills_memory();
    redis.run(&["ACL", "SETUSER", "leaf", "-incrby"]);
    assert_eq!(orders.drain(SOON), left);
    let error = orders.ask(1, SHORT).unwrap_err();
    println!("without INCRBY: {}", error.message);
    assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
    redis.run(&["ACL", "SETUSER", "leaf", "+incrby"]);
    orders.gets(1000);
    host.daemon.stop();
}

#[test]
fn what_a_crash_can_lose_is_logged_with_the_setting_that_would_keep_it() {
    const LOSES: &str = "a crash of Redis loses";
    for (settings, told) in [
        (&["appendonly no"][..], &["appendonly no", "Set appendonly yes"][..]),
        (&["appendonly no", "save 3600 1"], &["appendonly no", "3600", "Set appendonly yes"]),
        (&["appendfsync everysec"], &["everysec", "Set appendfsync always"]),
        (&["appendfsync no"], &["appendfsync no", "Set appendfsync always"]),
        (&["appendfsync always"], &[]),
    ] {
        let redis = Redis::start_set(settings);
        redis.insert_tag("orders", 1, 1000);
        let host = Running::on(&redis, &[]);
        host.caller("orders", &UniqueIds::default()).gets(10);
        if !told.is_empty() {
            let log = host.home.log().wait_for(LOSES);
            let line = log.lines().last().unwrap();
            let level = if told.contains(&"everysec") { "INFO" } else { "WARN" };
            for part in told.iter().chain(&[level, "redis.margin"]) {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
        let ended = host.daemon.stop();
        assert_eq!(ended.count(LOSES), usize::from(!told.is_empty()), "{settings:?}: {ended}");
    }
}

#[test]
fn the_manual_gives_the_rights_with_which_all_these_tests_run() {
    let page = workspace().join("docs/operations/redis.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words: Vec<_> = page.split_whitespace().collect();
    let rights: Vec<_> = RIGHTS.split_whitespace().collect();
    assert!(words.windows(rights.len()).any(|part| part == rights), "{RIGHTS}");
}

// Settings.

#[test]
fn counters_of_another_pattern_and_database_are_found_and_others_are_no_tags() {
    let redis = Redis::start();
    redis.run(&["SET", "seq:orders:n", "7"]);
    redis.run(&["SET", "id:orders", "5000"]);
    redis.run(&["SET", "session:1", "x"]);
    redis.run(&["ACL", "SETUSER", "leaf", "~seq:*", "~ours:*"]);
    let settings = [("REDIS_KEY", "seq:{tag}:n"), ("REDIS_OWN_KEYS", "ours")];
    let host = Running::on(&redis, &settings);
    let mut client = host.daemon.client();
    assert_eq!(client.next("orders").unwrap(), 8);
    let listed = client.tag_list("", 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|status| status.tag.as_str()).collect();
    assert_eq!(listed, ["orders"]);
    let mut keys = redis.run(&["KEYS", "ours:*"]).texts();
    keys.sort();
    assert!(keys.contains(&"ours:identity".to_owned()) && keys.contains(&"ours:leases".to_owned()));
    assert_eq!(redis.run(&["KEYS", "leafd:*"]).texts(), [""; 0]);
    assert_eq!(redis.run(&["GET", "id:orders"]).text().as_deref(), Some("5000"));
    host.daemon.stop();
    // The same pattern in another database is another store.
    let other = redis.fresh();
    other.insert_tag("orders", 1, 10);
    let host = Running::on(&other, &[]);
    assert_eq!(host.daemon.client().next("orders").unwrap(), 1);
    assert_eq!(redis.run(&["GET", "id:orders"]).text().as_deref(), Some("5000"));
    host.daemon.stop();
}

#[test]
fn leafctl_makes_lists_changes_and_deletes_tags_whose_counters_others_can_use() {
    let redis = Redis::shared().fresh();
    let host = Running::on(&redis, &[("SEGMENT_UNKNOWN_FOR", "0s")]);
    let leafctl = |arguments: &[&str]| -> String {
        let (code, out, errors) = host.home.run("leafctl", arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {out}{errors}");
        out
    };
    leafctl(&[
        "tag",
        "create",
        "orders",
        "--step",
        "50",
        "--first",
        "1000",
        "--description",
        "für uns",
    ]);
    assert_eq!(redis.counter("orders").as_deref(), Some("999"));
    assert_eq!(redis.own("steps", "orders").as_deref(), Some("50"));
    assert_eq!(redis.own("descriptions", "orders").as_deref(), Some("für uns"));
    assert_eq!(host.daemon.client().next("orders").unwrap(), 1000);
    redis.run(&["INCR", "id:by others"]);
    let listed = leafctl(&["tag", "list"]);
    assert!(listed.contains("orders") && listed.contains("by others"), "{listed}");
    leafctl(&["tag", "set-step", "by others", "77"]);
    assert_eq!(redis.own("steps", "by others").as_deref(), Some("77"));
    let shown = leafctl(&["tag", "show", "by others"]);
    assert!(shown.contains("77"), "{shown}");
    let seen = UniqueIds::default();
    let orders = host.caller("orders", &seen);
    orders.gets(500);
    let reached = redis.max_id("orders");
    leafctl(&["tag", "delete", "orders", "--yes"]);
    assert_eq!((redis.counter("orders"), redis.own("steps", "orders")), (None, None));
    let record = redis.own("leases", "orders").unwrap();
    let end: i64 = record.split(' ').next().unwrap().parse().unwrap();
    assert!(end + 1 >= reached, "{record}, {reached}");
    leafctl(&["tag", "create", "orders", "--step", "50"]);
    assert!(redis.max_id("orders") > end);
    orders.gets(500);
    host.daemon.stop();
}
