//! The clock check at a start: leafd asks its peers for their time, and does not issue while its clock
//! differs from their mean. Peers that do not answer do not delay it.

use std::time::Instant;

use leaf_client::wire::{ErrorCode, SnowflakeState};
use leafd_tests::daemon::{Ended, Home};
use leafd_tests::faketime::FakeTime;
use leafd_tests::registry::{RegistryAccess, RegistryKind};
use leafd_tests::snowflakes::{Snowflakes, serves_segments};
use leafd_tests::{Daemon, TestRegistry, on_every_registry};
use tempfile::TempDir;

on_every_registry! {
    a_clock_that_differs_from_the_mean_of_the_others_is_refused_until_it_is_set_right,
    unreachable_peers_cause_a_warning_and_no_refusal,
    a_hanging_peer_delays_a_start_by_no_more_than_its_turn,
}

/// An instance with its own clock and its own address, as on a host of its own.
struct Instance {
    home: Home,
    clock: FakeTime,
    daemon: Option<Daemon>,
    all: Snowflakes,
    _folder: TempDir,
}

impl Instance {
    fn new(access: &RegistryAccess, all: &Snowflakes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = FakeTime::new(folder.path());
        let [b, c, d] = [fastrand::u8(1..250), fastrand::u8(..), fastrand::u8(1..250)];
        let ip = format!("127.{b}.{c}.{d}");
        let home = access
            .apply_impatiently(Home::new(folder.path()))
            .with_clock(&clock)
            .with_peer(&format!("{ip}:8735"))
            .with("PEER_ADVERTISE", &ip)
            .with("SNOWFLAKE_CEILING_AHEAD", "200ms");
        Self { home, clock, daemon: None, all: all.clone(), _folder: folder }
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        self.home = self.home.with(key, value);
        self
    }

    /// Starts it with a clock that is this many ms ahead.
    fn starts(&mut self, ahead_ms: i64) {
        self.clock.set_offset_ms(ahead_ms);
        self.daemon = Some(self.home.start());
    }

    fn stops(&mut self) -> Ended {
        self.daemon.take().unwrap().stop()
    }

    /// Waits until it issues IDs. Returns its worker ID.
    fn works(&self) -> u64 {
        self.all.works(&self.home).worker
    }

    /// Waits until it refuses because the others' clocks differ by this many ms on average, give or take
    /// a second for the network.
    fn is_refused(&self, others_ms: i64) {
        self.all.caller(&self.home).wait_status("the difference", |status| {
            let differs = matches!(&status.state, SnowflakeState::Refused { reason }
                if reason.contains("differs by") && reason.contains("worker.max-clock-offset"));
            differs && is_about(status.clock_offset_ms, others_ms)
        });
        let refused = ErrorCode::WorkerUnavailable;
        let error = self.all.is_refused(&self.home, refused, "the clock differs by");
        assert!(is_about(difference(&error.message), others_ms), "{error}, not {others_ms}");
        assert!(error.retry_after_ms > 0);
        self.home.log().wait_while(|line| is_about(difference(line), others_ms), || {});
    }
}

/// The difference (ms) in an error or a line of the log.
fn difference(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once("the clock differs by ")?;
    rest.split_once(" ms")?.0.parse().ok()
}

fn is_about(ms: Option<i64>, expected_ms: i64) -> bool {
    ms.is_some_and(|ms| ms.abs_diff(expected_ms) < 1000)
}

fn a_clock_that_differs_from_the_mean_of_the_others_is_refused_until_it_is_set_right(
    kind: &'static dyn RegistryKind,
) {
    let (access, all) = (TestRegistry::shared(kind).access(), Snowflakes::default());
    let new = || Instance::new(&access, &all);
    let mut others = [new(), new(), new()];
    others.iter_mut().for_each(|other| other.starts(0));
    let workers: Vec<u64> = others.iter().map(Instance::works).collect();
    let mut fourth = new();
    fourth.starts(7000);
    fourth.is_refused(-7000);
    assert_eq!(all.caller(&fourth.home).status().peers, 3);
    fourth.clock.set_offset_ms(-7000);
    fourth.is_refused(7000);
    // leafd keeps asking and gets another difference each time, but logs only the two large changes.
    for drift in 1..=3 {
        fourth.clock.set_offset_ms(-7000 - 100 * drift);
        let expected = 7000 + 100 * drift;
        all.caller(&fourth.home).wait_status("more asking", |status| {
            status.clock_offset_ms.is_some_and(|ms| ms.abs_diff(expected) < 50)
        });
    }
    fourth.clock.set_offset_ms(0);
    let worker = fourth.works();
    assert!(!workers.contains(&worker));
    let ended = fourth.stops();
    let told = ended.count("no snowflake IDs: the clock differs");
    assert!((2..5).contains(&told), "{told} times\n{ended}");
    // One wrong peer does not matter: the mean counts.
    others[0].clock.set_offset_ms(9000);
    fourth.starts(0);
    assert_eq!(fourth.works(), worker);
    assert!(
        is_about(all.caller(&fourth.home).status().clock_offset_ms, 3000),
        "{:?}",
        all.caller(&fourth.home).status()
    );
    fourth.stops();
    fourth.starts(-3000);
    fourth.is_refused(6000);
    others[0].clock.set_offset_ms(0);
    // A mean of 3 s is accepted. leafd first waits until its clock is past the last ID.
    assert_eq!(fourth.works(), worker);
    assert!(
        is_about(all.caller(&fourth.home).status().clock_offset_ms, 3000),
        "{:?}",
        all.caller(&fourth.home).status()
    );
    fourth.stops();
    fourth.starts(3000);
    assert_eq!(fourth.works(), worker);
    assert!(
        is_about(all.caller(&fourth.home).status().clock_offset_ms, -3000),
        "{:?}",
        all.caller(&fourth.home).status()
    );
    for other in &others[1..] {
        other.works();
    }
    println!("worker IDs {workers:?} and {worker}, {} snowflake IDs", all.count());
    assert!(all.count() > 5000);
}

fn unreachable_peers_cause_a_warning_and_no_refusal(kind: &'static dyn RegistryKind) {
    let (access, all) = (TestRegistry::shared(kind).access(), Snowflakes::default());
    // Nothing listens on that port.
    let mut elsewhere = Instance::new(&access, &all).with("PEER_ADVERTISE", "127.0.0.1:1");
    elsewhere.starts(0);
    let first = elsewhere.works();
    let mut second = Instance::new(&access, &all);
    second.starts(7000);
    assert_ne!(second.works(), first);
    second.home.log().wait_for("no other instance has told its time");
    let status = all.caller(&second.home).status();
    assert_eq!((status.clock_offset_ms, status.peers), (None, 0));
    assert_eq!(elsewhere.stops().count("no other instance"), 0, "it was the first");
    assert!(all.count() > 1000);
}

fn a_hanging_peer_delays_a_start_by_no_more_than_its_turn(kind: &'static dyn RegistryKind) {
    let (access, all) = (TestRegistry::shared(kind).access(), Snowflakes::default());
    // The one that hangs stays registered.
    let new = || Instance::new(&access, &all).with(&access.key("SESSION_TIMEOUT"), "60s");
    let mut others = [new(), new()];
    others.iter_mut().for_each(|other| other.starts(0));
    for other in &others {
        other.works();
    }
    let mut third = new();
    let hanging = others[0].daemon.as_ref().unwrap();
    hanging.freeze();
    third.starts(0);
    let began = Instant::now();
    third.works();
    println!("served {:.1?} after the start, beside one that hangs", began.elapsed());
    // Again, with a worker ID that is no longer new.
    let ended = third.stops();
    assert_eq!(ended.count("instances=2 answered=1"), 1, "{ended}");
    let began = Instant::now();
    third.starts(0);
    third.works();
    println!("and {:.1?} when its worker ID is not new", began.elapsed());
    let ended = third.stops();
    assert_eq!(ended.count("instances=2 answered=1"), 2, "{ended}");
    hanging.thaw();
    for other in &others {
        other.works();
    }
    others.iter().for_each(|other| serves_segments(&other.home));
    assert!(all.count() > 5000);
}
