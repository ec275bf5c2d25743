//! What is watched while somebody misbehaves: the well-behaved clients beside them, and the
//! memory of the daemon.

use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Home};
use crate::load::{Load, SNOWFLAKE};
use crate::seen::Seen;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients that behave well and ask for IDs all the time.
#[derive(Debug)]
pub struct Bystanders {
    home: Home,
    seen: Seen,
    load: Load,
}

impl Bystanders {
    /// Starts them; returns when each has been served.
    ///
    /// # Panics
    /// When they are not.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        let seen = Seen::default();
        let load = Load::start(&home.options(), &seen, &["bystander", SNOWFLAKE], 100);
        let this = Self { home: home.clone(), seen, load };
        this.are_served();
        this
    }

    /// Waits until each has been served once more than now.
    ///
    /// # Panics
    /// When they are not.
    pub fn are_served(&self) {
        let counts = || ["bystander", SNOWFLAKE].map(|space| self.seen.count(space));
        let (before, began) = (counts(), Instant::now());
        while counts().iter().zip(before).any(|(now, before)| *now <= before) {
            assert!(began.elapsed() < PATIENCE, "not served\n{}", self.home.log());
            assert!(!self.load.is_broken(), "{}", self.home.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends them: no call failed, no ID came twice, and they are served to the last.
    ///
    /// # Panics
    /// When they noticed anything.
    pub fn noticed_nothing(self) {
        self.are_served();
        let failures = self.load.finish();
        assert_eq!(failures, 0, "calls of well-behaved clients failed\n{}", self.home.log());
    }
}

/// The most memory that a daemon has had resident since its start, in MiB.
///
/// # Panics
/// When it has ended.
#[must_use]
pub fn peak_mib(daemon: &Daemon) -> u64 {
    memory_kib(daemon, "VmHWM:") / 1024
}

/// The memory that a daemon has resident now, in KiB.
///
/// # Panics
/// When it has ended.
#[must_use]
pub fn resident_kib(daemon: &Daemon) -> u64 {
    memory_kib(daemon, "VmRSS:")
}

#[expect(clippy::panic, reason = "a test cannot go on")]
fn memory_kib(daemon: &Daemon, field: &str) -> u64 {
    let path = format!("/proc/{}/status", daemon.pid());
    let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{field} in {status}"))
}

/// How often the daemon's main thread has gone to sleep since the start: once per wake-up.
///
/// # Panics
/// When the kernel does not say.
#[must_use]
pub fn main_thread_sleeps(daemon: &Daemon) -> u64 {
    let pid = daemon.pid();
    let path = format!("/proc/{pid}/task/{pid}/status");
    let status = std::fs::read_to_string(path).expect("the status of the main thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("its context switches")
}
