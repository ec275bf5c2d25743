//! What tests watch while a client misbehaves: well-behaved clients of the same daemon, and the
//! daemon's memory and wake-ups.

use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Home};
use crate::load::{Load, SNOWFLAKE};
use crate::unique_ids::UniqueIds;

/// How long the clients may wait for an answer before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Well-behaved clients that keep asking for IDs.
#[derive(Debug)]
pub struct Bystanders {
    home: Home,
    seen: UniqueIds,
    load: Load,
}

impl Bystanders {
    /// Starts them, and returns once each has been served.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        let seen = UniqueIds::default();
        let load = Load::start(&home.options(), &seen, &["bystander", SNOWFLAKE], 100);
        let this = Self { home: home.clone(), seen, load };
        this.are_served();
        this
    }

    /// Waits until each has been served once more.
    pub fn are_served(&self) {
        let counts = || ["bystander", SNOWFLAKE].map(|space| self.seen.count(space));
        let (before, began) = (counts(), Instant::now());
        while counts().iter().zip(before).any(|(now, before)| *now <= before) {
            assert!(began.elapsed() < PATIENCE, "not served\n{}", self.home.log());
            assert!(!self.load.is_broken(), "{}", self.home.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asserts that they are still served and stops them. No call may have failed and no ID may have
    /// come twice.
    pub fn noticed_nothing(self) {
        self.are_served();
        let failures = self.load.finish_with_names();
        let log = self.home.log();
        assert!(failures.is_empty(), "calls of well-behaved clients failed: {failures:?}\n{log}");
    }
}

/// The peak of a daemon's resident memory since its start, in MiB.
#[must_use]
pub fn peak_mib(daemon: &Daemon) -> u64 {
    memory_kib(daemon, "VmHWM:") / 1024
}

/// A daemon's resident memory, in KiB.
#[must_use]
pub fn resident_kib(daemon: &Daemon) -> u64 {
    memory_kib(daemon, "VmRSS:")
}

/// What of a daemon's resident memory is its own and not the pages of its program, in KiB.
#[must_use]
pub fn anonymous_kib(daemon: &Daemon) -> u64 {
    memory_kib(daemon, "RssAnon:")
}

fn memory_kib(daemon: &Daemon, field: &str) -> u64 {
    let path = format!("/proc/{}/status", daemon.pid());
    let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{field} in {status}"))
}

/// How often the daemon's main thread has gone to sleep since its start, which it does once per
/// wake-up.
#[must_use]
pub fn main_thread_sleeps(daemon: &Daemon) -> u64 {
    let pid = daemon.pid();
    let path = format!("/proc/{pid}/task/{pid}/status");
    let status = std::fs::read_to_string(path).expect("the status of the main thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("its context switches")
}
