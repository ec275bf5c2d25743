//! The clocks of instances with worker IDs from a registry are stepped: while they run and while they
//! are down, with and without the registry, with and without their state. No ID comes twice, and no worker
//! ID's time goes back.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread::Builder;
use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leaf_client::{Error, blocking};
use leafd_tests::clock_host::{ClockHost, How, START_WAIT};
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::registry::RegistryKind;
use leafd_tests::snowflakes::{Snowflakes, serves_segments};
use leafd_tests::{TestRegistry, on_every_registry};

const HOUR: i64 = 3_600_000;
const STEPS: [i64; 8] = [3, -3, 6, -6, 4000, -4000, HOUR, -HOUR];

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the daemon ends, whether it can reach the registry meanwhile, and whether its state directory is
/// lost.
type Case = (How, bool, bool);

const CASES: [Case; 10] = [
    (How::Running, true, false),
    (How::Running, false, false),
    (How::Killed, true, false),
    (How::Killed, true, true),
    (How::Killed, false, false),
    (How::Killed, false, true),
    (How::Stopped, true, false),
    (How::Stopped, true, true),
    (How::Stopped, false, false),
    (How::Stopped, false, true),
];

/// The same step again and again, in some of the cases.
struct Lane {
    host: ClockHost,
    step: i64,
    /// By how much (ms) the host's normal clock is ahead of the machine's: the sum of the steps forward.
    offset: i64,
    workers: BTreeSet<u64>,
}

impl Lane {
    fn goes_through(&mut self, case: Case) {
        let (how, reachable, is_lost) = case;
        let began = Instant::now();
        self.host.works();
        let asked = Instant::now();
        let before = self.host.all.gets(&self.host.home, 1);
        self.workers.insert(before.worker);
        if !reachable {
            self.host.network.cut();
        }
        self.host.ends(how);
        if is_lost {
            self.host.loses_its_state();
        }
        self.host.clock.set_offset_ms(self.offset + self.step);
        self.host.starts();
        match (is_lost, self.step) {
            (true, _) => self.begins_anew(reachable),
            (false, -3) if how == How::Running => self.is_waited_for(),
            (false, -6) if how == How::Running => self.is_refused_at_last(),
            (false, ..-6) => self.is_refused(how, asked),
            _ => {}
        }
        let after = self.host.works();
        if is_lost {
            let is_new = self.workers.insert(after.worker);
            assert!(is_new, "worker ID {} was used before\n{}", after.worker, self.host.home.log());
            let is_held_up = self.step == -HOUR && after.first_ms >= before.first_ms;
            assert!(!is_held_up, "{after:?} after {before:?}");
        } else {
            assert_eq!(after.worker, before.worker, "{}", self.host.home.log());
        }
        if self.step > 0 {
            // IDs follow the step, and the clock keeps it.
            let step = u64::try_from(self.step).unwrap();
            assert!(after.first_ms >= before.first_ms + step, "{after:?} after {before:?}");
            self.offset += self.step;
        }
        self.host.clock.set_offset_ms(self.offset);
        self.host.network.pass();
        self.host.all.caller(&self.host.home).reports();
        self.host.works();
        println!("{:>8} ms, {case:?}: {:.1?}", self.step, began.elapsed());
    }

    /// Without its state it gets a new worker ID, and none until it reaches the registry.
    fn begins_anew(&self, reachable: bool) {
        if !reachable {
            let ClockHost { home, all, network, .. } = &self.host;
            all.is_refused(home, ErrorCode::WorkerUnavailable, "has to give one");
            network.pass();
        }
    }

    fn is_waited_for(&self) {
        for _ in 0..20 {
            self.host.clock.set_offset_ms(self.offset);
            self.host.all.gets(&self.host.home, 1);
            self.host.clock.set_offset_ms(self.offset + self.step);
            let served = self.host.all.ask(&self.host.home, 1);
            assert!(served.is_ok(), "{served:?}");
        }
    }

    /// One millisecond later the step is small enough to be waited for, so this may take many tries.
    fn is_refused_at_last(&self) {
        let ClockHost { home, all, clock, .. } = &self.host;
        let mut client = blocking::Client::new(home.options());
        let began = Instant::now();
        let mut tries = 0;
        let error = loop {
            tries += 1;
            clock.set_offset_ms(self.offset);
            client.snowflake_many(1).iter().for_each(|ids| all.add_all(ids));
            clock.set_offset_ms(self.offset + self.step);
            match client.snowflake_many(1) {
                Ok(ids) => all.add_all(&ids),
                Err(Error::Refused(error)) => break error,
                Err(error) => panic!("{error}\n{}", home.log()),
            }
            assert!(began.elapsed() < PATIENCE, "a step of 6 ms back is never refused");
        };
        assert_eq!((error.code(), error.detail), (ErrorCode::ClockBackwards, 6), "{error}");
        println!("6 ms are refused: try {tries}");
    }

    /// Asks while the clock is behind.
    fn is_refused(&self, how: How, asked: Instant) {
        let ClockHost { home, all, clock, .. } = &self.host;
        let step = self.step.unsigned_abs();
        // A margin for rounding: several clocks are read, in whole ms.
        let passed = || u64::try_from(asked.elapsed().as_millis()).unwrap() + 5;
        let behind = || step.saturating_sub(passed());
        match all.ask(home, 1) {
            Ok(batch) => assert!(behind() <= START_WAIT, "{batch:?}\n{}", home.log()),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::ClockBackwards, "{error}\n{}", home.log());
                // A killed daemon leaves its ceiling ahead of its IDs, by more on a slow disk.
                let ahead = match how {
                    How::Running => 0,
                    How::Stopped => 20,
                    How::Killed => 10_000,
                };
                let expected = behind()..=step + ahead;
                assert!(expected.contains(&error.detail), "{error:?}, not {expected:?}");
            }
        }
        serves_segments(home);
        if self.step == -HOUR {
            let state = all.caller(home).status().state;
            assert!(matches!(state, SnowflakeState::ClockBehind { .. }), "{state:?}");
            if how != How::Running {
                home.log().wait_for("the clock is behind the times already used");
            }
            // A step of 4 s is waited for below, but not one of an hour.
            clock.set_offset_ms(self.offset);
        }
    }
}

on_every_registry! {
    no_id_comes_twice_whichever_way_clocks_step_with_or_without_zookeeper_and_state,
}

fn no_id_comes_twice_whichever_way_clocks_step_with_or_without_zookeeper_and_state(
    kind: &'static dyn RegistryKind,
) {
    let (registry, all) = (TestRegistry::shared(kind), Snowflakes::default());
    let lanes = STEPS.iter().flat_map(|&step| {
        let mut cases = CASES;
        fastrand::shuffle(&mut cases);
        // Two hosts share the cases of a step, since each loss of the state costs a new worker ID,
        // which takes a while.
        let (first, second) = cases.split_at(CASES.len() / 2);
        [(step, "a", first.to_vec()), (step, "b", second.to_vec())]
    });
    let lanes = lanes.map(|(step, half, cases)| {
        let (registry, all) = (registry.clone(), all.clone());
        let lane = move || {
            let host = ClockHost::start(&registry, &format!("host{step}{half}"), &all, &[]);
            let mut lane = Lane { host, step, offset: 0, workers: BTreeSet::new() };
            cases.into_iter().for_each(|case| lane.goes_through(case));
            lane.workers
        };
        Builder::new().name(format!("{step} ms {half}")).spawn(lane).unwrap()
    });
    let lanes: Vec<_> = lanes.collect();
    let workers: Vec<u64> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
    let different: BTreeSet<u64> = workers.iter().copied().collect();
    assert_eq!(different.len(), workers.len(), "two hosts had one worker ID: {workers:?}");
    println!(
        "{}: {} steps, {} worker IDs, {} snowflake IDs",
        kind.name(),
        STEPS.len() * CASES.len(),
        workers.len(),
        all.count()
    );
    assert!(all.count() > 50_000 && workers.len() == STEPS.len() * 6);
}

#[test]
fn the_fake_clock_steps_only_the_time_of_day() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let script = "import time; print(*(time.clock_gettime(clock) for clock in \
                  (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)))";
    let read = |folder: &Path| -> Vec<f64> {
        let mut python = Command::new("python3");
        let leafd = Home::new(folder).with_clock(&clock).command("leafd");
        let variables = leafd.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = python.args(["-c", script]).envs(variables).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let before = read(folder.path());
    clock.set_offset_ms(HOUR);
    let after = read(folder.path());
    let stepped: Vec<bool> = before.iter().zip(&after).map(|(a, b)| b - a > 3600.0).collect();
    assert_eq!(stepped, [true, false, false], "{before:?} {after:?}");
}
