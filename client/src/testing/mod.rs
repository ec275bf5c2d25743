//! A leafd inside the process, for tests. It serves segment IDs, snowflake IDs, time, status, tags
//! and worker IDs from memory over a real socket, and fails on command. It uses threads and the
//! standard library only. It stores nothing, so its IDs are unique within one [`FakeDaemon`] only.

mod connection;
mod fault;
mod listener;
mod model;
mod shared;

pub use fault::Fault;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::wire::{WireError, WorkerStatus};
use shared::SharedState;

/// A daemon for tests. It listens on its own socket in a temporary directory until it is dropped.
///
/// ```
/// # #[cfg(feature = "blocking")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaf_client::testing::{Fault, FakeDaemon};
/// use leaf_client::{Options, blocking::Client};
///
/// let daemon = FakeDaemon::start()?;
/// let mut client = Client::new(Options::at(daemon.path()));
/// assert_eq!(client.next("order")?, 1);
///
/// // The client repeats a call that got no answer, so the application notices nothing:
/// daemon.fault_after(0, Fault::Close);
/// assert_eq!(client.next("order")?, 2);
/// assert_eq!(daemon.connections(), 2);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "blocking"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct FakeDaemon {
    directory: PathBuf,
    path: PathBuf,
    shared: Arc<SharedState>,
    listener: Option<JoinHandle<()>>,
}

impl FakeDaemon {
    /// Starts a daemon. It creates tags on first use; their IDs are dense and start at 1.
    ///
    /// # Errors
    /// If the temporary directory or the socket cannot be created.
    pub fn start() -> io::Result<Self> {
        let mut daemon = Self::stopped()?;
        daemon.restart()?;
        Ok(daemon)
    }

    /// Makes a daemon that does not listen yet: its directory exists, its socket does not.
    ///
    /// # Errors
    /// If the temporary directory cannot be created.
    pub fn stopped() -> io::Result<Self> {
        let name = format!("leafd-fake-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let path = directory.join("leafd.sock");
        Ok(Self { directory, path, shared: Arc::default(), listener: None })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes every connection and the socket without a message, as a crash would. Tags and
    /// counters stay.
    pub fn stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.shared.stop_listening(&self.path);
            // It fails if the thread panicked. The thread has ended either way.
            let _ = listener.join();
        }
        self.shared.close_all();
        let _ = std::fs::remove_file(&self.path);
    }

    /// Stops if necessary, then listens again.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.listener = Some(listener::listen(&self.path, &self.shared)?);
        Ok(())
    }

    /// Sends `Goodbye` on every connection and closes it. The daemon goes on listening, as if a
    /// successor had taken over at once.
    pub fn say_goodbye(&self) {
        self.shared.goodbye_all();
    }

    /// Injects `fault` once, into the request after the next `requests` ones. `Hello` does not
    /// count.
    pub fn fault_after(&self, requests: u64, fault: Fault) {
        self.shared.switches(|switches| switches.faults.push((requests, fault)));
    }

    /// Injects `fault` into every request from now on, unless a fault of [`Self::fault_after`] is
    /// due. `None` ends it.
    pub fn fault_always(&self, fault: Option<Fault>) {
        self.shared.switches(|switches| switches.always = fault);
    }

    /// Injects `fault` into every `Hello` from now on. `None` ends it.
    pub fn fault_on_hello(&self, fault: Option<Fault>) {
        self.shared.switches(|switches| switches.on_hello = fault);
    }

    /// Answers every request with `error` from now on. `None` ends it. Short for
    /// [`Self::fault_always`] with [`Fault::Refuse`].
    pub fn refuse(&self, error: Option<WireError>) {
        self.fault_always(error.map(Fault::Refuse));
    }

    /// Holds back the answers of each connection until there are `requests` of them, then sends
    /// them in reverse order. 0 or 1 ends it; answers still held back are sent with the next one.
    pub fn answer_in_reverse(&self, requests: usize) {
        self.shared.switches(|switches| switches.reverse = requests);
    }

    /// Sets the limits on IDs per request and on requests in flight per connection. `Hello` tells
    /// them to new connections. Requests beyond the second limit get `TooManyInFlight`.
    pub fn set_limits(&self, max_count: u32, max_in_flight: u32) {
        self.shared.switches(|switches| {
            switches.max_count = max_count;
            switches.max_in_flight = max_in_flight;
        });
    }

    /// Adds a worker ID to the registry, or replaces its status. The registry starts with the
    /// daemon's own worker ID, 1.
    pub fn put_worker(&self, status: WorkerStatus) {
        self.shared.put_worker(status);
    }

    /// The number of connections accepted since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.counts().connections
    }

    /// The number of requests received since the start, without `Hello`.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.counts().requests
    }

    /// The highest number of requests that were in flight on one connection.
    #[must_use]
    pub fn peak_in_flight(&self) -> usize {
        self.shared.counts().peak_in_flight
    }

    /// The number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.counts().open
    }

    /// The `timeout_ms` of the last request that has this field.
    #[must_use]
    pub fn last_timeout_ms(&self) -> Option<u32> {
        self.shared.counts().last_timeout_ms
    }

    /// Waits until `done` returns `true`, checking every millisecond. Returns `false` if that takes
    /// more than about ten seconds.
    pub fn wait_until(&self, mut done: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..10_000 {
            if done(self) {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        done(self)
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
