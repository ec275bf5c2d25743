//! A daemon that takes its worker ID from ZooKeeper, through all that happens to a host, with a
//! client that asks it for snowflake IDs whenever it is there.

mod client;

use std::collections::BTreeMap;
use std::fmt;
use std::process::Output;
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
use crate::seen::Seen;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long the client waits for an answer; one that comes later is lost.
const CALL: Duration = Duration::from_secs(1);

/// How long a question may wait that is expected to be refused.
const SHORT: Duration = Duration::from_millis(100);

/// What a test receives at the least.
const ENOUGH: u64 = 5000;

/// A host: its folder, its daemon if it runs, and its client, which ends the test at an ID that
/// came before.
#[derive(Debug)]
pub struct Host {
    name: String,
    home: Home,
    daemon: Option<Daemon>,
    client: Option<Client>,
    seen: Seen,
    layout: Layout,
    _folder: TempDir,
}

impl Host {
    /// A host that nobody else is, by this identity. It notices within seconds that it does not
    /// reach ZooKeeper, and answers for its time at any port.
    ///
    /// # Panics
    /// When there is no folder for it.
    #[must_use]
    pub fn new(servers: &str, identity: &str, seen: &Seen) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::new(folder.path())
            .with_zookeeper(servers)
            .with_peer("127.0.0.1:0")
            .with("WORKER_IDENTITY", identity)
            .with("ZOOKEEPER_SESSION_TIMEOUT", "2s")
            .with("ZOOKEEPER_TIMEOUT", "500ms");
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

    /// Changes a key of the configuration for starts to come, by its variable.
    pub fn set(&mut self, key: &str, value: &str) {
        self.home = self.home.clone().with(key, value);
    }

    /// The same, in one go.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.set(key, value);
        self
    }

    /// With another layout than Leaf's.
    ///
    /// # Panics
    /// When there is no such layout.
    #[must_use]
    pub fn with_layout(mut self, layout: &str) -> Self {
        self.layout = layout.parse().expect("a layout");
        self.with("SNOWFLAKE_LAYOUT", layout)
    }

    /// Lets the daemon see a clock of the test's own, from the next start on.
    pub fn set_clock(&mut self, clock: &FakeTime) {
        self.home = self.home.clone().with_clock(clock);
    }

    /// The identity that it was made with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it lives.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// Starts the daemon, and the client with the first one. Waits for neither.
    ///
    /// # Panics
    /// When it runs already.
    pub fn start(&mut self) {
        assert!(self.daemon.is_none(), "{self} runs");
        self.daemon = Some(self.home.spawn());
        if self.client.is_none() {
            self.client = Some(Client::start(&self.home.options(), self.layout, &self.seen));
        }
    }

    /// Asks the daemon to end, and waits.
    ///
    /// # Panics
    /// When it does not run, or does not end well.
    pub fn stop(&mut self) -> Ended {
        self.wait_listening();
        self.daemon.take().expect("it runs").stop()
    }

    /// `kill -9`, frozen or not.
    ///
    /// # Panics
    /// When it does not run, or has ended by itself.
    pub fn kill(&mut self) -> Ended {
        self.daemon.take().expect("it runs").kill()
    }

    /// Stops the daemon as it is, until it is thawed or killed.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self) {
        self.running().freeze();
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn thaw(&self) {
        self.running().thaw();
    }

    /// Waits for a daemon that ends by itself.
    ///
    /// # Panics
    /// When it does not, or is killed.
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

    /// Waits until IDs come that were asked for after this call, and returns the worker ID that the
    /// daemon then has.
    ///
    /// # Panics
    /// When none come.
    pub fn serves(&self) -> u64 {
        // One call may have been under way.
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

    /// Waits until an ID is refused for want of a worker ID, with this in the reason, and returns
    /// what the daemon says.
    ///
    /// # Panics
    /// When it is not, or refused for something else in the end.
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

    /// Asks for one ID, once.
    ///
    /// # Errors
    /// What the daemon says.
    ///
    /// # Panics
    /// When it says nothing, or gives an ID that came before.
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

    /// Gets an ID of a tag.
    ///
    /// # Panics
    /// When it does not.
    pub fn serves_segments(&self) {
        let mut client = blocking::Client::new(self.home.options().timeout(PATIENCE));
        let id = client.next("orders");
        assert!(id.is_ok(), "{id:?}\n{self}");
    }

    /// What the daemon says of its snowflake side.
    ///
    /// # Panics
    /// When it does not say.
    #[must_use]
    pub fn status(&self) -> SnowflakeStatus {
        self.wait_listening();
        self.try_status().unwrap_or_else(|| panic!("no status\n{self}"))
    }

    fn try_status(&self) -> Option<SnowflakeStatus> {
        let status = blocking::Client::new(self.home.options().timeout(CALL)).status();
        status.ok().map(|status| status.snowflake)
    }

    /// How many calls were served so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.tally().calls
    }

    /// What came so far, by worker ID.
    #[must_use]
    pub fn issued(&self) -> BTreeMap<u64, Issued> {
        self.tally().issued.clone()
    }

    /// The worker IDs that it issued with.
    #[must_use]
    pub fn used(&self) -> Vec<u64> {
        self.tally().issued.keys().copied().collect()
    }

    /// Waits until enough IDs have come in the whole test. This host is being served.
    ///
    /// # Panics
    /// When they do not come.
    pub fn gives_enough(&self, what: &str) {
        self.wait_until("enough IDs", || self.seen.count(SNOWFLAKE) >= ENOUGH);
        println!("{what}: {} IDs, none twice", self.seen.count(SNOWFLAKE));
    }

    /// leafctl's exit status, standard output and standard error. Nobody sits at a terminal.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn leafctl(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.home.command("leafctl").args(arguments).output();
        let Output { status, stdout, stderr } = output.expect("leafctl runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (status.code(), text(stdout), text(stderr))
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// When it does not come to it.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            self.check_client();
            assert!(began.elapsed() < PATIENCE, "in vain: {what}\n{self}");
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

    /// Ends the client, and prints what it received.
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

/// A duplicate that the client saw ends the test here at the latest.
impl Drop for Host {
    fn drop(&mut self) {
        if let Err(panic) = self.end_client()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
