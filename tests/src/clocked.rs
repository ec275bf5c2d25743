//! A host whose clock and whose way to ZooKeeper a test has in hand, with a daemon that may end and
//! lose its state.

use tempfile::TempDir;

use crate::daemon::{Daemon, Ended, Home};
use crate::faketime::FakeTime;
use crate::proxy::Proxy;
use crate::snowflakes::{Batch, Snowflakes};
use crate::workers::instance;
use crate::zookeeper::Ensemble;

/// How far behind the clock may be at a start and be waited for, in ms.
pub const START_WAIT: u64 = 500;

/// How a daemon ends, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Not at all.
    Running,
    /// As at a crash.
    Killed,
    /// In good order.
    Stopped,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    /// Of its daemon.
    pub home: Home,
    /// Its clock.
    pub clock: FakeTime,
    /// Its way to ZooKeeper.
    pub network: Proxy,
    /// All that is issued in the test.
    pub all: Snowflakes,
    daemon: Option<Daemon>,
    _folders: [TempDir; 2],
}

impl Host {
    /// Starts a daemon that nobody asks for its time, with a tree below `path`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(
        ensemble: &Ensemble,
        path: &str,
        identity: &str,
        all: &Snowflakes,
        settings: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // In memory: a step has to take far less than the 5 ms that are waited for.
        let shared = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let clock = FakeTime::new(shared.path());
        let network = Proxy::to(ensemble.port(0));
        let servers = format!("127.0.0.1:{}{path}", network.port());
        let home = instance(folder.path(), &servers, identity)
            .with_clock(&clock)
            .with_peer("")
            .with("SNOWFLAKE_CEILING_AHEAD", "200ms")
            .with("SNOWFLAKE_START_WAIT", &format!("{START_WAIT}ms"));
        let home = settings.iter().fold(home, |home, (key, value)| home.with(key, value));
        let daemon = Some(home.start());
        Self { home, clock, network, all: all.clone(), daemon, _folders: [folder, shared] }
    }

    /// Its daemon ends, if it does.
    ///
    /// # Panics
    /// When it ends in another way.
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

    /// Its daemon starts, if it does not run.
    ///
    /// # Panics
    /// When it does not start.
    pub fn starts(&mut self) {
        if self.daemon.is_none() {
            self.daemon = Some(self.home.start());
        }
    }

    /// The state directory is gone.
    ///
    /// # Panics
    /// When it was not there.
    pub fn loses_its_state(&self) {
        std::fs::remove_dir_all(self.home.state()).expect("a state directory");
    }

    /// It issues IDs; the last that came.
    ///
    /// # Panics
    /// When none come.
    pub fn works(&self) -> Batch {
        self.all.works(&self.home)
    }
}
