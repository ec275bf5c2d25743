//! A leafd inside the process, for tests: it serves segments, snowflake IDs, time, status, tags and
//! worker IDs from memory, over a real socket, and fails on command. Threads and the standard
//! library only. It keeps nothing when it ends, and its IDs are unique within one [`FakeDaemon`]
//! alone.

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

/// A daemon for tests. It listens on a socket of its own in a temporary directory until it is
/// dropped.
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
/// // A client repeats what got no answer, so that nothing is seen of this:
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
    /// Starts a daemon. Every tag exists: its IDs are dense and begin at 1.
    ///
    /// # Errors
    /// When the temporary directory or the socket cannot be made.
    pub fn start() -> io::Result<Self> {
        let mut daemon = Self::stopped()?;
        daemon.restart()?;
        Ok(daemon)
    }

    /// A daemon that does not listen yet: its directory exists, its socket does not.
    ///
    /// # Errors
    /// When the temporary directory cannot be made.
    pub fn stopped() -> io::Result<Self> {
        let name = format!("leafd-fake-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let path = directory.join("leafd.sock");
        Ok(Self { directory, path, shared: Arc::default(), listener: None })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes every connection without a word and the socket too, as a crash would. Tags and
    /// counters stay.
    pub fn stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.shared.stop_listening(&self.path);
            // The thread does nothing that could panic on purpose; if it did, it is gone too.
            let _ = listener.join();
        }
        self.shared.close_all();
        let _ = std::fs::remove_file(&self.path);
    }

    /// Listens again after [`Self::stop`]; stops first where need be.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.listener = Some(listener::listen(&self.path, &self.shared)?);
        Ok(())
    }

    /// Says `Goodbye` on every connection and closes it; goes on listening, as if a successor had
    /// taken over at once.
    pub fn say_goodbye(&self) {
        self.shared.goodbye_all();
    }

    /// Lets the request after the next `requests` ones meet `fault`, once. Hellos do not count.
    pub fn fault_after(&self, requests: u64, fault: Fault) {
        self.shared.switches(|switches| switches.faults.push((requests, fault)));
    }

    /// Lets every request meet `fault` that meets none of [`Self::fault_after`]; `None` ends it.
    pub fn fault_always(&self, fault: Option<Fault>) {
        self.shared.switches(|switches| switches.always = fault);
    }

    /// Lets every `Hello` meet `fault`; `None` ends it.
    pub fn fault_on_hello(&self, fault: Option<Fault>) {
        self.shared.switches(|switches| switches.on_hello = fault);
    }

    /// Refuses every request with `error`; `None` ends it. Short for [`Fault::Refuse`].
    pub fn refuse(&self, error: Option<WireError>) {
        self.fault_always(error.map(Fault::Refuse));
    }

    /// Holds answers back until `requests` of a connection are due, then gives them in reverse
    /// order. 0 or 1 ends it; what is held back then is answered with the next request.
    pub fn answer_in_reverse(&self, requests: usize) {
        self.shared.switches(|switches| switches.reverse = requests);
    }

    /// What `Hello` tells from now on: IDs per request and requests in flight per connection.
    /// Whoever has more in flight is refused with `TooManyInFlight`.
    pub fn set_limits(&self, max_count: u32, max_in_flight: u32) {
        self.shared.switches(|switches| {
            switches.max_count = max_count;
            switches.max_in_flight = max_in_flight;
        });
    }

    /// Puts a worker ID into the registry, where there is one of the daemon's own (1) from the start;
    /// or another status in place of the one it has.
    pub fn put_worker(&self, status: WorkerStatus) {
        self.shared.put_worker(status);
    }

    /// Connections accepted since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.counts().connections
    }

    /// Requests received since the start, hellos not counted.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.counts().requests
    }

    /// The most requests that a connection has had without an answer.
    #[must_use]
    pub fn peak_in_flight(&self) -> usize {
        self.shared.counts().peak_in_flight
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.counts().open
    }

    /// The `timeout_ms` of the last request that carried one.
    #[must_use]
    pub fn last_timeout_ms(&self) -> Option<u32> {
        self.shared.counts().last_timeout_ms
    }

    /// Waits until `done` says so of the daemon, looking every millisecond; gives up and says
    /// `false` after ten seconds.
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
