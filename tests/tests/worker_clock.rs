//! Instances with worker IDs from ZooKeeper have their clocks stepped: while they run and while
//! they are down, with ZooKeeper and without, with their state and without. No ID comes twice, and
//! no worker ID's time goes back.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread::Builder;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leaf_client::{Error, blocking};
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::snowflakes::{
    Batch, Snowflakes, serves_segments, status, wait_report, wait_status,
};
use leafd_tests::watch::wait_logged;
use leafd_tests::zookeeper::Tree;
use leafd_tests::zookeeper::java_leaf::records;
use leafd_tests::{Daemon, Ensemble, Proxy};
use tempfile::TempDir;

const HOUR: i64 = 3_600_000;
const STEPS: [i64; 8] = [3, -3, 6, -6, 4000, -4000, HOUR, -HOUR];

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far behind the clock may be at a start and be waited for.
const START_WAIT: u64 = 500;

/// What leafd does while its clock is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Running,
    Killed,
    Stopped,
}

/// How, whether ZooKeeper can be reached meanwhile, and whether the state directory is lost.
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

/// A daemon with a clock and a network of its own.
struct Host {
    home: Home,
    clock: FakeTime,
    network: Proxy,
    daemon: Option<Daemon>,
    all: Snowflakes,
    _folders: [TempDir; 2],
}

impl Host {
    /// Starts one that nobody asks for its time.
    fn start(ensemble: &Ensemble, tree: &str, identity: &str, all: &Snowflakes) -> Self {
        Self::start_with(ensemble, tree, identity, all, &[])
    }

    fn start_with(
        ensemble: &Ensemble,
        tree: &str,
        identity: &str,
        all: &Snowflakes,
        settings: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // In memory: a step has to take far less than the 5 ms that are waited for.
        let shared = tempfile::tempdir_in("/dev/shm").unwrap();
        let clock = FakeTime::new(shared.path());
        let network = Proxy::to(ensemble.port(0));
        let home = Home::new(folder.path())
            .with_clock(&clock)
            .with_zookeeper(&format!("127.0.0.1:{}{tree}", network.port()))
            .with_peer("")
            .with("WORKER_IDENTITY", identity)
            .with("ZOOKEEPER_SESSION_TIMEOUT", "2s")
            .with("ZOOKEEPER_TIMEOUT", "500ms")
            .with("SNOWFLAKE_CEILING_AHEAD", "200ms")
            .with("SNOWFLAKE_START_WAIT", &format!("{START_WAIT}ms"));
        let home = settings.iter().fold(home, |home, (key, value)| home.with(key, value));
        let daemon = Some(home.start());
        Self { home, clock, network, daemon, all: all.clone(), _folders: [folder, shared] }
    }

    fn ends(&mut self, how: How) {
        match (how, self.daemon.take()) {
            (How::Killed, Some(daemon)) => daemon.kill(),
            (How::Stopped, Some(daemon)) => daemon.stop(),
            (_, daemon) => self.daemon = daemon,
        }
    }

    fn starts(&mut self) {
        if self.daemon.is_none() {
            self.daemon = Some(self.home.start());
        }
    }

    fn loses_its_state(&self) {
        std::fs::remove_dir_all(self.home.state()).unwrap();
    }

    /// Some requests; the last answer, and the time before it was asked for.
    fn works(&self) -> (Batch, Instant) {
        for _ in 0..20 {
            self.all.gets(&self.home, fastrand::u32(1..50));
        }
        let asked = Instant::now();
        (self.all.gets(&self.home, 1), asked)
    }
}

/// The same step again and again, in each of the cases.
struct Lane {
    host: Host,
    step: i64,
    /// The clock is so far ahead of the right time when nothing is wrong with it.
    offset: i64,
    workers: BTreeSet<u64>,
}

impl Lane {
    fn goes_through(&mut self, case: Case) {
        let (how, reachable, is_lost) = case;
        let began = Instant::now();
        let (before, asked) = self.host.works();
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
        let (after, _) = self.host.works();
        if is_lost {
            let is_new = self.workers.insert(after.worker);
            assert!(is_new, "worker ID {} was used before\n{}", after.worker, self.host.home.log());
            let is_held_up = self.step == -HOUR && after.first_ms >= before.first_ms;
            assert!(!is_held_up, "{after:?} after {before:?}");
        } else {
            assert_eq!(after.worker, before.worker, "{}", self.host.home.log());
        }
        if self.step > 0 {
            // The clock shows it, and stays there.
            let step = u64::try_from(self.step).unwrap();
            assert!(after.first_ms >= before.first_ms + step, "{after:?} after {before:?}");
            self.offset += self.step;
        }
        self.host.clock.set_offset_ms(self.offset);
        self.host.network.pass();
        wait_report(&self.host.home);
        self.host.works();
        println!("{:>8} ms, {case:?}: {:.1?}", self.step, began.elapsed());
    }

    /// No state: whatever worker ID it had, it gets another one, and none without ZooKeeper.
    fn begins_anew(&self, reachable: bool) {
        if !reachable {
            let Host { home, all, network, .. } = &self.host;
            all.is_refused(home, ErrorCode::WorkerUnavailable, "ZooKeeper has to give one");
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

    /// A millisecond later the clock has caught up enough, so this may take many tries.
    fn is_refused_at_last(&self) {
        let Host { home, all, clock, .. } = &self.host;
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
            assert!(began.elapsed() < PATIENCE, "6 ms are never refused");
        };
        assert_eq!((error.code(), error.detail), (ErrorCode::ClockBackwards, 6), "{error}");
        println!("6 ms are refused: try {tries}");
    }

    /// As long as the clock has not caught up.
    fn is_refused(&self, how: How, asked: Instant) {
        let Host { home, all, clock, .. } = &self.host;
        let step = self.step.unsigned_abs();
        // Whole ms, of several clocks.
        let passed = || u64::try_from(asked.elapsed().as_millis()).unwrap() + 5;
        let behind = || step.saturating_sub(passed());
        match all.ask(home, 1) {
            Ok(batch) => assert!(behind() <= START_WAIT, "{batch:?}\n{}", home.log()),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::ClockBackwards, "{error}\n{}", home.log());
                // A life that was killed has a ceiling ahead, further on a slow disk.
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
            let state = status(home).state;
            assert!(matches!(state, SnowflakeState::ClockBehind { .. }), "{state:?}");
            if how != How::Running {
                wait_logged(home, "the clock is behind the times already used");
            }
            // Nobody waits for an hour; for 4 s, yes.
            clock.set_offset_ms(self.offset);
        }
    }
}

#[test]
fn no_id_comes_twice_whichever_way_clocks_step_with_or_without_zookeeper_and_state() {
    let ensemble = Ensemble::shared();
    let (tree, all) = (ensemble.fresh_path(), Snowflakes::default());
    let lanes = STEPS.map(|step| {
        let (tree, all) = (tree.clone(), all.clone());
        let lane = move || {
            let host = Host::start(ensemble, &tree, &format!("host{step}"), &all);
            let mut lane = Lane { host, step, offset: 0, workers: BTreeSet::new() };
            let mut cases = CASES;
            fastrand::shuffle(&mut cases);
            cases.into_iter().for_each(|case| lane.goes_through(case));
            lane.workers
        };
        Builder::new().name(format!("{step} ms")).spawn(lane).unwrap()
    });
    let workers: Vec<u64> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
    let different: BTreeSet<u64> = workers.iter().copied().collect();
    assert_eq!(different.len(), workers.len(), "two hosts had one worker ID: {workers:?}");
    println!(
        "{} steps, {} worker IDs, {} snowflake IDs",
        STEPS.len() * CASES.len(),
        workers.len(),
        all.count()
    );
    assert!(all.count() > 50_000 && workers.len() == STEPS.len() * 5);
}

/// Asks until the times in the answers have come to `until_ms`; the first answer, the last one, and
/// how many there were.
fn works_until(host: &Host, until_ms: u64) -> (Batch, Batch, usize) {
    let first = host.all.gets(&host.home, 20);
    let (mut last, mut count) = (first, 1);
    while last.last_ms < until_ms {
        last = host.all.gets(&host.home, 20);
        count += 1;
    }
    (first, last, count)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
fn state_that_is_lost_while_the_clock_was_an_hour_ahead_repeats_nothing_in_that_hour() {
    let ensemble = Ensemble::shared();
    let (tree, all) = (ensemble.fresh_path(), Snowflakes::default());
    let cases = [true, false].map(|up| [How::Killed, How::Stopped].map(|how| (how, up)));
    let hosts = cases.concat().into_iter().map(|(how, reachable)| {
        let (tree, all) = (tree.clone(), all.clone());
        let host = move || {
            let identity = format!("{how:?}-{reachable}");
            let mut host = Host::start(ensemble, &tree, &identity, &all);
            let (right, _) = host.works();
            if !reachable {
                host.network.cut();
            }
            host.clock.set_offset_ms(HOUR);
            let hour_ahead = now_ms() + 3_600_000;
            let (first, last, count) = works_until(&host, hour_ahead + 500);
            assert!(first.first_ms >= hour_ahead && first.worker == right.worker, "{first:?}");
            host.ends(how);
            host.loses_its_state();
            host.clock.set_offset_ms(0);
            host.network.pass();
            host.starts();
            let (anew, _) = host.works();
            assert!(anew.last_ms < first.first_ms, "{anew:?} is not before {first:?}");
            assert_ne!(anew.worker, right.worker, "{}", host.home.log());
            // The same hour once more.
            let offset = i64::try_from(first.first_ms - now_ms()).unwrap();
            host.clock.set_offset_ms(offset - 50);
            let (again, _, again_count) = works_until(&host, last.last_ms);
            assert!(again.first_ms < last.last_ms, "{again:?} is past {last:?}");
            assert!(count.min(again_count) > 10, "{count} and {again_count} answers");
            println!("{identity}: {count} and {again_count} answers of the same half second");
            (right.worker, anew.worker)
        };
        Builder::new().name(format!("{how:?}, {reachable}")).spawn(host).unwrap()
    });
    let hosts: Vec<_> = hosts.collect();
    let workers: Vec<_> = hosts.into_iter().map(|host| host.join().unwrap()).collect();
    println!("worker IDs {workers:?}, {} snowflake IDs", all.count());
    assert!(all.count() > 5000);
}

#[test]
fn a_worker_id_is_not_taken_over_before_the_times_that_a_clock_ahead_may_have_used() {
    let ensemble = Ensemble::shared();
    let (path, all) = (ensemble.fresh_path(), Snowflakes::default());
    let settings = [("WORKER_RECLAIM_AFTER", "20s"), ("WORKER_FENCE_AFTER", "10s")];
    let host = |name| Host::start_with(ensemble, &path, name, &all, &settings);
    let (mut ahead, mut right) = (host("ahead"), host("right"));
    let workers = [&ahead, &right].map(|host| host.works().0.worker);
    ahead.clock.set_offset_ms(HOUR);
    wait_report(&ahead.home);
    ahead.works();
    for host in [&mut ahead, &mut right] {
        host.ends(How::Killed);
        host.loses_its_state();
    }
    ahead.clock.set_offset_ms(0);
    // By ZooKeeper's clock.
    let tree = ensemble.tree();
    tree.create(&format!("{path}/end"), b"");
    let end = tree.get(&format!("{path}/end")).unwrap().mtime;
    loop {
        tree.set(&format!("{path}/end"), b"");
        let now = tree.get(&format!("{path}/end")).unwrap().mtime;
        if now - end > 20_000 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    ahead.starts();
    right.starts();
    let again = [&ahead, &right].map(|host| host.works().0.worker);
    println!("worker IDs {workers:?}, then {again:?}; {} snowflake IDs", all.count());
    assert_eq!(again[1], workers[1], "the right one's has not been taken over");
    assert!(!workers.contains(&again[0]), "the hour ahead is not over");
    // What was taken over is written as a Java Leaf reads it.
    let below = Tree::at(&format!("127.0.0.1:{}{path}", ensemble.port(0)));
    assert_eq!(records(&below, "leaf").unwrap().len(), 3);
    assert!(all.count() > 1000);
}

#[test]
fn the_fence_counts_time_that_nobody_sets() {
    let ensemble = Ensemble::shared();
    let (path, all) = (ensemble.fresh_path(), Snowflakes::default());
    // Past what was reported, though no time has passed: the next report is enough.
    let host = Host::start(ensemble, &path, "jumps", &all);
    let settings = [("WORKER_RECLAIM_AFTER", "20s"), ("WORKER_FENCE_AFTER", "10s")];
    let late = Host::start_with(ensemble, &path, "late", &all, &settings);
    let before = host.works().0;
    late.works();
    host.clock.set_offset_ms(13 * HOUR);
    all.is_refused(&host.home, ErrorCode::WorkerUnavailable, "the clock has jumped ahead");
    let after = host.works().0;
    assert_eq!(after.worker, before.worker);
    assert!(!host.home.log().contains("has not taken a report"), "{}", host.home.log());
    // Cut off, with a clock that stands long before the limit.
    late.network.cut();
    late.clock.set_offset_ms(-HOUR);
    all.is_refused(&late.home, ErrorCode::ClockBackwards, "behind");
    all.is_refused(&late.home, ErrorCode::WorkerUnavailable, "has not taken a report for 10 s");
    late.clock.set_offset_ms(0);
    all.is_refused(&late.home, ErrorCode::WorkerUnavailable, "has not taken a report for 10 s");
    late.network.pass();
    late.works();
    println!("{} snowflake IDs", all.count());
    assert!(all.count() > 1000);
}

#[test]
fn a_clock_that_jumped_past_the_limit_and_is_right_again_costs_no_time() {
    let ensemble = Ensemble::shared();
    let all = Snowflakes::default();
    let host = Host::start(ensemble, &ensemble.fresh_path(), "jumps", &all);
    let before = host.works().0;
    host.network.cut();
    host.clock.set_offset_ms(13 * HOUR);
    all.is_refused(&host.home, ErrorCode::WorkerUnavailable, "the clock has jumped ahead");
    let state = status(&host.home).state;
    assert!(matches!(state, SnowflakeState::Refused { .. }), "{state:?}");
    host.clock.set_offset_ms(0);
    // Nothing was issued meanwhile.
    let after = host.works().0;
    assert_eq!(after.worker, before.worker);
    wait_status(&host.home, "serving", |status| status.state == SnowflakeState::Serving);
}

#[test]
fn the_clock_of_these_tests_steps_the_time_of_day_and_no_other() {
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
