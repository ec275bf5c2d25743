//! A wrong clock repeats no ID: not when an instance loses its state, when its worker ID is taken over,
//! or when it is cut off. What counts is the latest time that it may have used.

use std::thread::Builder;
use std::time::{SystemTime, UNIX_EPOCH};

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leafd_tests::clock_host::{ClockHost, How};
use leafd_tests::registry::RegistryKind;
use leafd_tests::snowflakes::{Batch, Snowflakes};
use leafd_tests::{TestRegistry, on_every_registry};

const HOUR: i64 = 3_600_000;

/// Two worker IDs.
const TWO: &str = "41/1/21@1288834974657/1ms";

/// Length of the stretch of time that comes twice, in ms: far more than a busy machine delays an answer.
const STRETCH: i64 = 60_000;

/// Steps the clock to `offset_ms`, gets IDs, steps it on by [`STRETCH`], and gets IDs there. Returns the
/// first answer and the last one.
fn works_through(host: &ClockHost, offset_ms: i64) -> (Batch, Batch) {
    host.clock.set_offset_ms(offset_ms);
    let first = host.all.gets(&host.home, 20);
    host.works();
    host.clock.set_offset_ms(offset_ms + STRETCH);
    (first, host.works())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

on_every_registry! {
    losing_the_state_while_the_clock_is_an_hour_ahead_repeats_nothing_in_that_hour,
    a_takeover_waits_until_the_times_that_a_fast_clock_may_have_used_are_over,
    the_fence_does_not_depend_on_the_wall_clock,
    a_clock_that_jumped_past_the_limit_and_back_costs_no_time,
    a_clock_that_was_ahead_while_nobody_asked_costs_no_time_and_leaves_nothing_in_the_tree,
    with_a_clock_before_the_epoch_segments_are_served_and_snowflakes_start_once_it_is_right,
}

fn losing_the_state_while_the_clock_is_an_hour_ahead_repeats_nothing_in_that_hour(
    kind: &'static dyn RegistryKind,
) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    let cases = [true, false].map(|up| [How::Killed, How::Stopped].map(|how| (how, up)));
    let hosts = cases.concat().into_iter().map(|(how, reachable)| {
        let (registry, all) = (registry.clone(), all.clone());
        let host = move || {
            let identity = format!("{how:?}-{reachable}");
            let mut host = ClockHost::start(&registry, &identity, &all, &[]);
            let right = host.works();
            if !reachable {
                host.network.cut();
            }
            let hour_ahead = now_ms() + 3_600_000;
            let (first, last) = works_through(&host, HOUR);
            assert!(first.first_ms >= hour_ahead && first.worker == right.worker, "{first:?}");
            host.ends(how);
            host.loses_its_state();
            host.clock.set_offset_ms(0);
            host.network.pass();
            host.starts();
            let anew = host.works();
            assert!(anew.last_ms < first.first_ms, "{anew:?} is not before {first:?}");
            assert_ne!(anew.worker, right.worker, "{}", host.home.log());
            // The same hour comes again.
            let offset = i64::try_from(first.first_ms - now_ms()).unwrap();
            let (again, _) = works_through(&host, offset - 50);
            assert!(again.first_ms < last.last_ms, "{again:?} is past {last:?}");
            (right.worker, anew.worker)
        };
        Builder::new().name(format!("{how:?}, {reachable}")).spawn(host).unwrap()
    });
    let hosts: Vec<_> = hosts.collect();
    let workers: Vec<_> = hosts.into_iter().map(|host| host.join().unwrap()).collect();
    println!("{}: worker IDs {workers:?}, {} snowflake IDs", kind.name(), all.count());
    assert!(all.count() > 5000);
}

fn a_takeover_waits_until_the_times_that_a_fast_clock_may_have_used_are_over(
    kind: &'static dyn RegistryKind,
) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::of(TWO.parse().unwrap()));
    let settings =
        [("WORKER_RECLAIM_AFTER", "20s"), ("WORKER_FENCE_AFTER", "10s"), ("SNOWFLAKE_LAYOUT", TWO)];
    let host = |name| ClockHost::start(&registry, name, &all, &settings);
    let (mut ahead, mut right) = (host("ahead"), host("right"));
    let workers = [&ahead, &right].map(|host| host.works().worker);
    ahead.clock.set_offset_ms(HOUR);
    all.caller(&ahead.home).reports();
    ahead.works();
    for host in [&mut ahead, &mut right] {
        host.ends(How::Killed);
        host.loses_its_state();
    }
    ahead.clock.set_offset_ms(0);
    right.starts();
    assert_eq!(right.works().worker, workers[1], "that of the host with the right clock is free");
    ahead.starts();
    let taken =
        "all 2 worker IDs of the layout are taken, 1 of them live; the next can be reclaimed in";
    let error = all.is_refused(&ahead.home, ErrorCode::WorkerUnavailable, taken);
    let (_, seconds) = error.message.split_once(" reclaimed in ").unwrap();
    let seconds: u64 = seconds.split_once(" s.").unwrap().0.parse().unwrap();
    println!("{}: {seconds} s of the hour are left; {} snowflake IDs", kind.name(), all.count());
    assert!((1800..=3700).contains(&seconds), "the hour that the fast clock used is not over");
    // The record of the takeover is one that Java Leaf can read.
    assert_eq!(registry.workers().len(), 2);
    assert!(all.count() > 1000);
}

fn the_fence_does_not_depend_on_the_wall_clock(kind: &'static dyn RegistryKind) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    // The clock jumps past the reported limit, though no time has passed: requests wait for a report.
    let mut host = ClockHost::start(&registry, "jumps", &all, &[]);
    let settings = [("WORKER_RECLAIM_AFTER", "20s"), ("WORKER_FENCE_AFTER", "10s")];
    let late = ClockHost::start(&registry, "late", &all, &settings);
    let before = host.works();
    late.works();
    for jump in 1..=5 {
        host.clock.set_offset_ms(jump * 13 * HOUR);
        // On a busy machine, a report may take longer than a request waits for it.
        let after = all.gets(&host.home, 1);
        assert_eq!(after.worker, before.worker);
        let hours = u64::try_from(jump * 13 * HOUR).unwrap();
        assert!(after.first_ms >= before.last_ms + hours, "{after:?} after {before:?}");
    }
    let ended = host.ends(How::Stopped).unwrap();
    assert_eq!(ended.count("has not taken a report"), 0, "{ended}");
    // Cut off, and its clock is far behind the limit. Until it is cut off, it keeps its fence away.
    late.clock.set_offset_ms(-HOUR);
    all.is_refused(&late.home, ErrorCode::ClockBackwards, "behind");
    late.network.cut();
    all.is_refused(&late.home, ErrorCode::WorkerUnavailable, "has not taken a report for 10 s");
    late.clock.set_offset_ms(0);
    all.is_refused(&late.home, ErrorCode::WorkerUnavailable, "has not taken a report for 10 s");
    late.network.pass();
    late.works();
    println!("{}: {} snowflake IDs", kind.name(), all.count());
    assert!(all.count() > 1000);
}

fn a_clock_that_jumped_past_the_limit_and_back_costs_no_time(kind: &'static dyn RegistryKind) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    let host = ClockHost::start(&registry, "jumps", &all, &[]);
    let before = host.works();
    host.network.cut();
    host.clock.set_offset_ms(13 * HOUR);
    all.is_refused(&host.home, ErrorCode::WorkerUnavailable, "the clock has jumped ahead");
    let state = all.caller(&host.home).status().state;
    assert!(matches!(state, SnowflakeState::Refused { .. }), "{state:?}");
    host.clock.set_offset_ms(0);
    // Nothing was issued meanwhile.
    let after = host.works();
    assert_eq!(after.worker, before.worker);
    all.caller(&host.home).wait_status("serving", |status| status.state == SnowflakeState::Serving);
}

fn a_clock_that_was_ahead_while_nobody_asked_costs_no_time_and_leaves_nothing_in_the_tree(
    kind: &'static dyn RegistryKind,
) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    let mut host = ClockHost::start(&registry, "blip", &all, &[]);
    let before = host.works();
    for how in [How::Running, How::Killed, How::Stopped] {
        host.clock.set_offset_ms(HOUR);
        if how != How::Running {
            // It starts while its clock is ahead.
            host.ends(how);
            host.starts();
        }
        all.caller(&host.home).reports();
        all.caller(&host.home).reports();
        let limit = i64::try_from(now_ms()).unwrap() + 60_000;
        for row in registry.workers() {
            assert!(row.endpoint.timestamp < limit, "{how:?}: {row:?}");
        }
        host.ends(How::Killed);
        host.clock.set_offset_ms(0);
        host.starts();
        // The first try succeeds: leafd waits for what a crash costs, but would refuse an hour.
        let after = loop {
            match all.ask(&host.home, 1) {
                Ok(after) => break after,
                // After a crash on a slow disk, IDs begin up to 10 s ahead: longer than a call waits.
                Err(error) if error.code() == ErrorCode::ClockBackwards => {
                    assert!(error.detail < 15_000, "{error}");
                }
                Err(error) => assert_eq!(error.code(), ErrorCode::WorkerUnavailable, "{error}"),
            }
        };
        assert_eq!(after.worker, before.worker, "{}", host.home.log());
        assert!(after.first_ms < now_ms() + 60_000, "{after:?}");
    }
}

fn with_a_clock_before_the_epoch_segments_are_served_and_snowflakes_start_once_it_is_right(
    kind: &'static dyn RegistryKind,
) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    let mut host = ClockHost::start(&registry, "early", &all, &[]);
    let before = host.works();
    for is_lost in [false, true] {
        host.ends(How::Killed);
        if is_lost {
            host.loses_its_state();
        }
        host.clock.set_offset_ms(60_000 - i64::try_from(now_ms()).unwrap());
        host.starts();
        all.is_refused(&host.home, ErrorCode::ClockBackwards, "before the epoch");
        let state = all.caller(&host.home).status().state;
        assert!(matches!(state, SnowflakeState::Refused { .. }), "{state:?}");
        host.clock.set_offset_ms(0);
        let after = host.works();
        assert_eq!(after.worker == before.worker, !is_lost, "{}", host.home.log());
    }
}
