//! A host whose clock and whose connection to the registry a test controls. Its daemon may end and lose
//! its state.

use tempfile::TempDir;

use crate::daemon::{Daemon, Ended, Home};
use crate::faketime::FakeTime;
use crate::proxy::Proxies;
use crate::registry::TestRegistry;
use crate::snowflakes::{Batch, Snowflakes};
use crate::workers::instance;

/// `snowflake.start-wait` in ms: how far behind the clock may be for a start to wait for it.
pub const START_WAIT: u64 = 500;

/// What happens to a daemon while its clock is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It keeps running.
    Running,
    /// It is killed before the step, as in a crash.
    Killed,
    /// It is stopped before the step.
    Stopped,
}

/// A host with one daemon.
#[derive(Debug)]
pub struct ClockHost {
    /// The settings of its daemon.
    pub home: Home,
    /// The clock that its daemon sees.
    pub clock: FakeTime,
    /// Its connection to the registry.
    pub network: Proxies,
    /// All IDs that were issued in the test, on any host.
    pub all: Snowflakes,
    daemon: Option<Daemon>,
    _folders: [TempDir; 2],
}

impl ClockHost {
    /// Starts a daemon without a peer port.
    #[must_use]
    pub fn start(
        registry: &TestRegistry,
        identity: &str,
        all: &Snowflakes,
        settings: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The clock's file is in memory: a step has to take far less than `snowflake.clock-tolerance`,
        // which is 5 ms.
        let shared = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let clock = FakeTime::new(shared.path());
        let (network, access) = registry.through_proxies();
        let home = instance(folder.path(), access, identity)
            .with_clock(&clock)
            .with_peer("")
            .with("SNOWFLAKE_CEILING_AHEAD", "200ms")
            .with("SNOWFLAKE_START_WAIT", &format!("{START_WAIT}ms"));
        let home = settings.iter().fold(home, |home, (key, value)| home.with(key, value));
        let daemon = Some(home.start());
        Self { home, clock, network, all: all.clone(), daemon, _folders: [folder, shared] }
    }

    /// Ends the daemon as `how` says, and returns what it left.
    pub fn ends(&mut self, how: How) -> Option<Ended> {
        match (how, self.daemon.take()) {
            (How::Killed, Some(daemon)) => Some(daemon.kill()),
            (How::Stopped, Some(daemon)) => Some(daemon.stop()),
            (_, daemon) => {
                self.daemon = daemon;
                None
            }
        }
    }

    /// Starts the daemon unless it runs.
    pub fn starts(&mut self) {
        if self.daemon.is_none() {
            self.daemon = Some(self.home.start());
        }
    }

    /// Removes the state directory.
    pub fn loses_its_state(&self) {
        std::fs::remove_dir_all(self.home.state()).expect("a state directory");
    }

    /// Gets some batches of IDs and returns the last one.
    pub fn works(&self) -> Batch {
        self.all.works(&self.home)
    }
}
