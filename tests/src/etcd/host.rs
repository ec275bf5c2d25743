//! An instance whose clients never stop asking.

use std::collections::BTreeSet;

use leaf_client::Layout;
use tempfile::TempDir;

use crate::daemon::{Daemon, Ended, Home};
use crate::unique_ids::UniqueIds;
use crate::workers::{BatchLoad, SnowflakeCaller};

/// An instance under load.
#[derive(Debug)]
pub struct LoadedHost {
    /// A client that asks for what a test wants.
    pub caller: SnowflakeCaller,
    /// The folder and the settings of the daemon.
    pub home: Home,
    /// The daemon that runs at present.
    pub daemon: Daemon,
    /// A client that goes on asking.
    pub batches: BatchLoad,
    _folder: TempDir,
}

impl LoadedHost {
    /// Starts one, and does not wait for it.
    #[must_use]
    pub fn start(home: impl FnOnce(&TempDir) -> Home, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = home(&folder);
        let caller = SnowflakeCaller::of(&home, seen);
        let batches = BatchLoad::of(&home, Layout::LEAF, seen);
        Self { caller, daemon: home.spawn(), home, batches, _folder: folder }
    }

    /// Waits until its clients are served, and returns its worker ID.
    pub fn worker(&self) -> u64 {
        self.batches.are_served(&self.home);
        self.caller.gets(1)
    }

    /// Waits until its claim is in etcd, as etcd is from now on, and asserts that its worker ID is the same.
    pub fn keeps(&self, worker: u64) {
        self.caller.reports();
        assert_eq!(self.worker(), worker, "{}", self.home.log());
    }

    /// Stops it, and returns the worker IDs that it used.
    pub fn stop(self) -> BTreeSet<u64> {
        self.stop_with_log().0
    }

    /// As [`Self::stop`], with the log.
    pub fn stop_with_log(self) -> (BTreeSet<u64>, Ended) {
        self.batches.are_served(&self.home);
        let figures = self.batches.finish();
        (figures.workers, self.daemon.stop())
    }
}
