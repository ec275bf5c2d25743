//! Steps of the clock while leafd runs and while it is down. No snowflake ID comes twice, refusals say
//! how far the clock is behind, segments are served meanwhile, and snowflakes resume once the clock
//! has caught up.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, SnowflakeState};
use leaf_client::{Error, blocking};
use leafd_tests::UniqueIds;
use leafd_tests::clock_host::How;
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::load::{Load, SNOWFLAKE};

const HOUR: i64 = 3_600_000;
const STEPS: [i64; 8] = [3, -3, 6, -6, 4000, -4000, HOUR, -HOUR];

/// Asks for snowflakes once. Returns the code and the detail of a refusal.
fn refusal(client: &mut blocking::Client, seen: &UniqueIds) -> Option<(ErrorCode, u64)> {
    match client.snowflake_many(10) {
        Ok(ids) => {
            seen.add(SNOWFLAKE, &ids);
            None
        }
        Err(Error::Refused(error)) => Some((error.code(), error.detail)),
        Err(error) => panic!("{error}"),
    }
}

/// Asks for snowflakes until they come.
fn wait_served(client: &mut blocking::Client, seen: &UniqueIds) {
    let began = Instant::now();
    while let Some(refused) = refusal(client, seen) {
        assert!(began.elapsed() < Duration::from_secs(60), "{refused:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_id_comes_twice_however_the_clock_is_stepped_while_leafd_runs_or_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = Home::new(folder.path())
        .with_clock(&clock)
        .with("SNOWFLAKE_CEILING_AHEAD", "200ms")
        .with("SNOWFLAKE_START_WAIT", "500ms");
    let seen = UniqueIds::default();
    let options = home.options().timeout(Duration::from_secs(20));
    let mut daemon = home.start();
    let load = Load::start(&options, &seen, &[SNOWFLAKE, SNOWFLAKE, "orders"], 5000);
    let (mut offset, mut highest, mut steps) = (0, 0, 0);
    for how in [How::Running, How::Killed, How::Stopped] {
        let mut order = STEPS;
        fastrand::shuffle(&mut order);
        for step in order {
            offset += step;
            highest = highest.max(offset);
            steps += 1;
            daemon = match how {
                How::Running => {
                    clock.set_offset_ms(offset);
                    daemon
                }
                How::Killed | How::Stopped => {
                    if how == How::Killed {
                        daemon.kill()
                    } else {
                        daemon.stop()
                    };
                    clock.set_offset_ms(offset);
                    home.start()
                }
            };
            std::thread::sleep(Duration::from_millis(fastrand::u64(50..400)));
            seen.add("orders", &daemon.client().next_many("orders", 1).unwrap());
            assert!(!load.is_broken(), "{how:?}, {step} ms\n{}", home.log());
        }
        // Moves the clock to the furthest that it has been ahead.
        offset = highest;
        clock.set_offset_ms(offset);
        wait_served(&mut daemon.client(), &seen);
        println!("{how:?}: {} snowflake IDs so far", seen.count(SNOWFLAKE));
    }
    let failures = load.finish();
    daemon.stop();
    println!(
        "{steps} steps, {} IDs received ({} snowflake), {failures} calls refused",
        seen.total(),
        seen.count(SNOWFLAKE)
    );
    assert!(seen.count(SNOWFLAKE) > 100_000);
}

#[test]
fn requests_wait_for_a_clock_set_back_by_3_ms_and_learn_the_distance_of_a_larger_step() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let daemon = Home::new(folder.path()).with_clock(&clock).start();
    let seen = UniqueIds::default();
    let mut client = daemon.client();
    wait_served(&mut client, &seen);
    clock.set_offset_ms(-3);
    assert_eq!(refusal(&mut client, &seen), None);
    for back in [4000, HOUR] {
        clock.set_offset_ms(-3);
        wait_served(&mut client, &seen);
        clock.set_offset_ms(-3 - back);
        let (code, behind) = refusal(&mut client, &seen).unwrap();
        assert_eq!(code, ErrorCode::ClockBackwards);
        // Some time has passed before the request arrived.
        let back = u64::try_from(back).unwrap();
        assert!(behind <= back && behind > back - 3000, "{behind} of {back}");
        let status = client.status().unwrap().snowflake;
        assert!(matches!(status.state, SnowflakeState::ClockBehind { .. }), "{:?}", status.state);
        assert_eq!(client.next_many("orders", 1).unwrap().len(), 1, "segments are served");
    }
    clock.set_offset_ms(0);
    wait_served(&mut client, &seen);
}

#[test]
fn a_start_with_the_clock_far_behind_refuses_snowflakes_until_the_clock_has_caught_up() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = Home::new(folder.path()).with_clock(&clock);
    let seen = UniqueIds::default();
    let daemon = home.start();
    wait_served(&mut daemon.client(), &seen);
    daemon.stop();
    clock.set_offset_ms(-HOUR);
    let daemon = home.start();
    let mut client = daemon.client();
    let (code, behind) = refusal(&mut client, &seen).unwrap();
    assert_eq!(code, ErrorCode::ClockBackwards);
    assert!(behind > 3_500_000, "{behind}");
    home.log().wait_for("the clock is behind");
    client.next("orders").unwrap();
    clock.set_offset_ms(0);
    wait_served(&mut client, &seen);
}

#[test]
fn a_clock_that_was_ahead_while_nobody_asked_costs_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = Home::new(folder.path()).with_clock(&clock);
    let seen = UniqueIds::default();
    let mut daemon = home.start();
    for ahead in [HOUR, 13 * HOUR] {
        wait_served(&mut daemon.client(), &seen);
        clock.set_offset_ms(ahead);
        // Long enough for several raises of the ceiling, if anybody asked for IDs.
        std::thread::sleep(Duration::from_millis(1500));
        clock.set_offset_ms(0);
        assert_eq!(refusal(&mut daemon.client(), &seen), None);
        clock.set_offset_ms(ahead);
        std::thread::sleep(Duration::from_millis(1500));
        daemon.kill();
        clock.set_offset_ms(0);
        daemon = home.start();
        assert_eq!(refusal(&mut daemon.client(), &seen), None, "{}", home.log());
        // The same for a daemon that starts with such a clock.
        daemon.kill();
        clock.set_offset_ms(ahead);
        daemon = home.start();
        std::thread::sleep(Duration::from_millis(1500));
        daemon.kill();
        clock.set_offset_ms(0);
        daemon = home.start();
        assert_eq!(refusal(&mut daemon.client(), &seen), None, "{}", home.log());
    }
}

#[test]
fn requests_are_served_across_permanent_steps_of_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = Home::new(folder.path()).with_clock(&clock);
    let daemon = home.start();
    let seen = UniqueIds::default();
    wait_served(&mut daemon.client(), &seen);
    let load = Load::start(&home.options(), &seen, &[SNOWFLAKE, SNOWFLAKE], 5000);
    for step in 1..=5 {
        clock.set_offset_ms(step * 24 * HOUR);
        let before = seen.count(SNOWFLAKE);
        let began = Instant::now();
        while seen.count(SNOWFLAKE) < before + 10_000 {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", home.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        let last = Layout::LEAF.decode(seen.highest(SNOWFLAKE).unwrap()).unwrap().unix_ms;
        let status = daemon.client().status().unwrap().snowflake;
        assert!(last + 60_000 > status.clock_unix_ms, "{last}, {status:?}");
    }
    assert_eq!(load.finish(), 0, "{}", home.log());
}

#[test]
fn with_a_clock_outside_the_layout_segments_are_served_and_snowflakes_once_the_clock_is_right() {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now_ms = i64::try_from(now_ms).unwrap();
    for (offset, code, said) in [
        (60_000 - now_ms, ErrorCode::ClockBackwards, "before the epoch of snowflake.layout"),
        (80 * 365 * 24 * HOUR, ErrorCode::TimeExhausted, "the time field of snowflake.layout"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = FakeTime::new(folder.path());
        let home = Home::new(folder.path()).with_clock(&clock);
        let seen = UniqueIds::default();
        clock.set_offset_ms(offset);
        // First on a host that has never run leafd, then on one that has issued IDs.
        for _ in 0..2 {
            let mut daemon = home.start();
            let mut client = daemon.client();
            client.next("orders").unwrap();
            let (found, _) = refusal(&mut client, &seen).unwrap();
            assert_eq!(found, code);
            let SnowflakeState::Refused { reason } = client.status().unwrap().snowflake.state
            else {
                panic!("{:?}", client.status())
            };
            assert!(reason.contains(said), "{reason}");
            home.log().wait_for("no snowflake IDs: snowflake.layout");
            let ready = home.command("leafctl").args(["health", "--ready"]).output().unwrap();
            assert_eq!(ready.status.code(), Some(69), "{ready:?}");
            assert!(home.command("leafctl").arg("health").output().unwrap().status.success());
            let adopted = home.command("leafd").arg("adopt").output().unwrap();
            assert_eq!(adopted.status.code(), Some(78), "{adopted:?}");
            daemon.kill();
            daemon = home.start();
            clock.set_offset_ms(0);
            wait_served(&mut daemon.client(), &seen);
            daemon.stop();
            clock.set_offset_ms(offset);
        }
    }
}

#[test]
fn snowflakes_are_served_at_once_after_a_clean_stop() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SNOWFLAKE_START_WAIT", "20ms");
    let seen = UniqueIds::default();
    for _ in 0..5 {
        let daemon = home.start();
        assert_eq!(refusal(&mut daemon.client(), &seen), None, "{}", home.log());
        daemon.stop();
    }
}
