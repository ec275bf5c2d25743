//! A host whose daemon takes its worker ID from a registry. The daemon can be started, killed, frozen and
//! reconfigured, while a client keeps asking it for snowflake IDs.

mod client;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, SnowflakeState, SnowflakeStatus, WireError};
use leaf_client::{Layout, blocking};
use tempfile::TempDir;

use client::{Client, Tally};

pub use client::Issued;

use crate::daemon::{Daemon, Ended, Home};
use crate::faketime::FakeTime;
use crate::load::SNOWFLAKE;
use crate::raw::Raw;
use crate::registry::RegistryAccess;
use crate::unique_ids::UniqueIds;
use crate::workers::instance;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(90);

/// The client's timeout. The IDs of a later answer are lost.
const CALL: Duration = Duration::from_secs(1);

/// The deadline of a request that is expected to be refused.
const SHORT: Duration = Duration::from_millis(100);

/// The fewest IDs that a test has to receive.
const ENOUGH: u64 = 5000;

/// A host with its folder, its daemon if that runs, and its client, which fails the test at a duplicate.
#[derive(Debug)]
pub struct Host {
    name: String,
    home: Home,
    daemon: Option<Daemon>,
    client: Option<Client>,
    seen: UniqueIds,
    layout: Layout,
    _folder: TempDir,
}

impl Host {
    /// A host that registers as `identity`. Its timeouts are short, so that it notices within seconds
    /// that it cannot reach the registry, and its peer port is any free one.
    #[must_use]
    pub fn new(registry: impl Into<RegistryAccess>, identity: &str, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = instance(folder.path(), registry, identity);
        Self {
            name: identity.to_owned(),
            home,
            daemon: None,
            client: None,
            seen: seen.clone(),
            layout: Layout::LEAF,
            _folder: folder,
        }
    }

    /// Changes a key of the configuration for later starts, by its variable without the prefix.
    pub fn set(&mut self, key: &str, value: &str) {
        self.home = self.home.clone().with(key, value);
    }

    /// As [`Self::set`], for chaining.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.set(key, value);
        self
    }

    /// Sets another layout than Leaf's.
    #[must_use]
    pub fn with_layout(mut self, layout: &str) -> Self {
        self.layout = layout.parse().expect("a layout");
        self.with("SNOWFLAKE_LAYOUT", layout)
    }

    /// Gives the daemon a clock that the test controls, from the next start on.
    pub fn set_clock(&mut self, clock: &FakeTime) {
        self.home = self.home.clone().with_clock(clock);
    }

    /// The identity from [`Self::new`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder and settings of its daemon.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// Starts the daemon without waiting for it. The first call also starts the client.
    pub fn start(&mut self) {
        assert!(self.daemon.is_none(), "{self} runs");
        self.daemon = Some(self.home.spawn());
        if self.client.is_none() {
            self.client = Some(Client::start(&self.home.options(), self.layout, &self.seen));
        }
    }

    /// Stops the daemon (SIGTERM), and waits until it has ended with 0.
    pub fn stop(&mut self) -> Ended {
        self.wait_listening();
        self.daemon.take().expect("it runs").stop()
    }

    /// Kills the daemon (SIGKILL), frozen or not.
    pub fn kill(&mut self) -> Ended {
        self.daemon.take().expect("it runs").kill()
    }

    /// Freezes the daemon (SIGSTOP) until it is thawed or killed.
    pub fn freeze(&self) {
        self.running().freeze();
    }

    /// Resumes the daemon after `freeze`.
    pub fn thaw(&self) {
        self.running().thaw();
    }

    /// Waits until the daemon has ended by itself.
    pub fn ends(&mut self) -> Ended {
        let ended = self.daemon.take().expect("it runs").wait();
        assert_eq!(ended.signal(), None, "{ended}");
        ended
    }

    fn running(&self) -> &Daemon {
        self.daemon.as_ref().expect("it runs")
    }

    fn wait_listening(&self) {
        let options = self.home.options().timeout(PATIENCE);
        let connected = blocking::Client::connect(options);
        assert!(connected.is_ok(), "{connected:?}\n{self}");
    }

    /// Waits until the client has received IDs that it requested after this call, and returns the
    /// daemon's worker ID.
    pub fn serves(&self) -> u64 {
        // One call may have been in flight.
        let enough = self.tally().calls + 2;
        let mut worker = None;
        self.wait_until("it serves", || {
            worker = match self.try_status() {
                Some(status) if status.state == SnowflakeState::Serving => status.worker,
                _ => None,
            };
            worker.is_some() && self.tally().calls >= enough
        });
        worker.expect("a worker ID")
    }

    /// Waits until a request is refused with `WorkerUnavailable` and a message that contains `reason`.
    pub fn refuses(&self, reason: &str) -> WireError {
        self.wait_listening();
        let began = Instant::now();
        loop {
            let answer = self.ask();
            match answer {
                Err(error)
                    if error.code() == ErrorCode::WorkerUnavailable
                        && error.message.contains(reason) =>
                {
                    assert!(error.retry_after_ms > 0, "{error:?}");
                    return error;
                }
                answer => {
                    self.check_client();
                    let waited = began.elapsed();
                    assert!(waited < PATIENCE, "not refused by {reason:?}: {answer:?}\n{self}");
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks for one ID, once. Fails with the daemon's refusal.
    pub fn ask(&self) -> Result<u64, WireError> {
        let timeout_ms = u32::try_from(SHORT.as_millis()).expect("a short time");
        let mut connection = Raw::greeted(&self.home.socket());
        match connection.ask(2, Call::Snowflake { count: 1, timeout_ms }) {
            Reply::Ids { first, .. } => {
                self.seen.add_run(SNOWFLAKE, first.first, u64::from(first.count));
                Ok(first.first)
            }
            Reply::Error(error) => Err(error),
            other => panic!("{other:?}\n{self}"),
        }
    }

    /// Asserts that the daemon serves segment IDs.
    pub fn serves_segments(&self) {
        let mut client = blocking::Client::new(self.home.options().timeout(PATIENCE));
        let id = client.next("orders");
        assert!(id.is_ok(), "{id:?}\n{self}");
    }

    /// The snowflake part of the daemon's status.
    #[must_use]
    pub fn status(&self) -> SnowflakeStatus {
        self.wait_listening();
        self.try_status().unwrap_or_else(|| panic!("no status\n{self}"))
    }

    fn try_status(&self) -> Option<SnowflakeStatus> {
        let status = blocking::Client::new(self.home.options().timeout(CALL)).status();
        status.ok().map(|status| status.snowflake)
    }

    /// How many of the client's calls were served so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.tally().calls
    }

    /// What the client has received so far, by worker ID.
    #[must_use]
    pub fn issued(&self) -> BTreeMap<u64, Issued> {
        self.tally().issued.clone()
    }

    /// The worker IDs in the IDs that the client has received.
    #[must_use]
    pub fn used(&self) -> Vec<u64> {
        self.tally().issued.keys().copied().collect()
    }

    /// Waits until the whole test has received enough IDs, while this host's client goes on.
    pub fn gives_enough(&self, what: &str) {
        self.wait_until("enough IDs", || self.seen.count(SNOWFLAKE) >= ENOUGH);
        println!("{what}: {} IDs, none twice", self.seen.count(SNOWFLAKE));
    }

    /// Runs leafctl without a terminal. Returns the exit code, standard output and standard error.
    #[must_use]
    pub fn leafctl(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.home.run("leafctl", arguments)
    }

    /// As [`Self::leafctl`], again while the registry does not answer in time, as it may on a busy machine.
    #[must_use]
    pub fn leafctl_in_the_end(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut ended = self.leafctl(arguments);
        self.wait_until("the registry answers leafd", || {
            let is_late = ended.0 == Some(69) && ended.2.contains("RegistryUnavailable");
            if is_late {
                ended = self.leafctl(arguments);
            }
            !is_late
        });
        ended
    }

    /// Asserts that everything this host issued with a worker ID is older than what `after` issued.
    pub fn is_followed_by(&self, after: &Self, worker: u64) {
        let (last, first) = (self.issued()[&worker].last_ms, after.issued()[&worker].first_ms);
        println!("worker ID {worker}: {} ms between its owners", first - last);
        assert!(last < first, "{last} and {first}\n{self}{after}");
    }

    /// Waits until `holds` returns true. The message of a failure has the daemon's log.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            self.check_client();
            assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}\n{self}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn check_client(&self) {
        let broken = self.client.as_ref().is_some_and(Client::has_ended);
        assert!(!broken, "the client has ended\n{self}");
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.client.as_ref().expect("it was started").tally()
    }

    /// Stops the client, and prints what it received.
    fn end_client(&mut self) -> std::thread::Result<()> {
        let Some(client) = self.client.take() else { return Ok(()) };
        println!("{}: {}", self.name, client.tally());
        client.end()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:\n{}", self.name, self.home.log())
    }
}

/// A duplicate that the client received fails the test here at the latest.
impl Drop for Host {
    fn drop(&mut self) {
        if let Err(panic) = self.end_client()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
