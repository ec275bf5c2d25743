//! A real leafd in a folder of its own.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leaf_client::{Options, blocking};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::binaries::program;
use crate::database::{Database, Kind};
use crate::faketime::FakeTime;
use crate::keeper;
use crate::log::Log;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a daemon is started with. The folder outlives the daemon: start another on it.
#[derive(Debug, Clone)]
pub struct Home {
    folder: PathBuf,
    variables: Vec<(String, String)>,
    wrapper: Vec<String>,
    inherited: Vec<(String, Arc<OwnedFd>)>,
}

/// Puts what came as standard input and output to where a service manager passes sockets, and
/// becomes leafd. The variable names the process, which stays the same.
const INHERIT: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; \
                       LISTEN_PID=$$ exec \"$0\" \"$@\"";

impl Home {
    /// A daemon that keeps everything in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            variables: Vec::new(),
            wrapper: Vec::new(),
            inherited: Vec::new(),
        }
    }

    /// Sets a key of the configuration, by its variable: `("SNOWFLAKE_CEILING_AHEAD", "200ms")`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.variables.push((format!("LEAFD_{key}"), value.to_owned()));
        self
    }

    /// Gives the embedded store, and whoever waits for a lease of it, as long as a disk may take that
    /// others keep busy.
    #[must_use]
    pub fn with_time_for_the_disk(self) -> Self {
        self.with("STORE_TIMEOUT", "1m").with("SEGMENT_WAIT", "1m")
    }

    /// Sets a variable that is not leafd's own, as a service manager does.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Passes a socket on under a name, as a service manager does; up to two.
    #[must_use]
    pub fn inheriting(mut self, name: &str, socket: impl Into<OwnedFd>) -> Self {
        self.inherited.push((name.to_owned(), Arc::new(socket.into())));
        assert!(self.inherited.len() <= 2, "one comes as input and one as output");
        self.through(&["sh", "-c", INHERIT])
    }

    /// Leases ranges from a shared database instead of the embedded one.
    #[must_use]
    pub fn with_database(self, database: &Database) -> Self {
        self.with_database_at(database.kind(), &database.url())
    }

    /// The same, by a URL: through a proxy, or as another user.
    #[must_use]
    pub fn with_database_at(self, kind: Kind, url: &str) -> Self {
        let kind = match kind {
            Kind::MariaDb => "mysql",
            Kind::Postgres => "postgres",
        };
        self.with("STORE_KIND", kind).with("STORE_URL", url)
    }

    /// Takes the worker ID from ZooKeeper, by a connect string.
    #[must_use]
    pub fn with_zookeeper(self, servers: &str) -> Self {
        self.with("WORKER_REGISTRY", "zookeeper").with("ZOOKEEPER_SERVERS", servers)
    }

    /// Answers the daemons of other hosts at an address, as in `127.0.0.1:0`.
    #[must_use]
    pub fn with_peer(self, address: &str) -> Self {
        self.with("PEER_LISTEN", address)
    }

    /// Lets the daemon see a clock of the test's own.
    #[must_use]
    pub fn with_clock(mut self, clock: &FakeTime) -> Self {
        self.variables.extend(clock.variables());
        self
    }

    /// Starts the daemon through another program, as in `strace …`.
    #[must_use]
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("leafd.sock")
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The log of all daemons that were started here. [`Ended`] has it as text.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        Log::file(self.folder.join("log"))
    }

    /// How clients of this daemon are made.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::at(self.socket())
    }

    /// Executes a statement in the embedded store, as an operator would beside the daemon.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) {
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], 20); \
                      c.execute(sys.argv[2]); c.commit()";
        let database = self.state().join("leafd.db");
        let mut python = Command::new("python3");
        let status = python.args(["-c", script]).arg(database).arg(statement).status();
        assert!(status.is_ok_and(|status| status.success()), "{statement}");
    }

    /// A command line of leafd here, for checks that end by themselves.
    #[must_use]
    pub fn command(&self, program_name: &str) -> Command {
        let program = program(program_name);
        let mut command = match self.wrapper.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEAFD_")) {
            command.env_remove(name);
        }
        command
            .env("LEAFD_SOCKET", self.socket())
            .env("LEAFD_STATE_DIR", self.state())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if !self.inherited.is_empty() {
            let names: Vec<_> = self.inherited.iter().map(|(name, _)| name.as_str()).collect();
            command.env("LISTEN_FDS", names.len().to_string());
            command.env("LISTEN_FDNAMES", names.join(":"));
        }
        let socket = |(_, socket): &(_, Arc<OwnedFd>)| socket.try_clone().expect("a descriptor");
        if let Some(first) = self.inherited.first() {
            command.stdin(socket(first));
        }
        if let Some(second) = self.inherited.get(1) {
            command.stdout(socket(second));
        }
        command
    }

    /// Starts a daemon and does not wait for it.
    ///
    /// # Panics
    /// When the program does not start.
    #[must_use]
    pub fn spawn(&self) -> Daemon {
        std::fs::create_dir_all(&self.folder).expect("the folder");
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("the log");
        keeper::watch(&self.folder);
        let mut command = self.command("leafd");
        command.current_dir(&self.folder);
        if !self.wrapper.is_empty() {
            // Dropping it kills the whole group: strace alone would leave its leafd behind.
            command.process_group(0);
        }
        if self.inherited.len() < 2 {
            command.stdout(Stdio::null());
        }
        let child = command.stderr(log).spawn();
        Daemon { home: self.clone(), child: Some(child.expect("leafd starts")) }
    }

    /// Starts a daemon and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn start(&self) -> Daemon {
        let mut daemon = self.spawn();
        daemon.wait_ready();
        daemon
    }
}

/// A running daemon. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    home: Home,
    child: Option<Child>,
}

impl Daemon {
    /// Where it lives.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// A blocking client of it.
    #[must_use]
    pub fn client(&self) -> blocking::Client {
        blocking::Client::new(self.home.options())
    }

    /// Its process ID.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    fn wait_ready(&mut self) {
        let began = Instant::now();
        loop {
            let options = self.home.options().timeout(Duration::from_secs(5));
            if blocking::Client::connect(options).is_ok() {
                return;
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            let log = self.home.log();
            assert!(ended.is_none(), "leafd ended at its start: {ended:?}\n{log}");
            assert!(began.elapsed() < PATIENCE, "leafd does not get ready\n{log}");
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself; whoever waits for it will see.
        let _ = kill(Pid::from_raw(self.pid().cast_signed()), signal);
    }

    /// `kill -9`, as at a crash.
    pub fn kill(mut self) -> Ended {
        self.signal(Signal::SIGKILL);
        let ended = self.wait();
        assert_eq!(ended.signal(), Some(9), "{ended}");
        ended
    }

    /// Asks it to stop, and waits.
    ///
    /// # Panics
    /// When it does not stop with 0.
    pub fn stop(mut self) -> Ended {
        self.signal(Signal::SIGTERM);
        let ended = self.wait();
        assert_eq!(ended.code(), Some(0), "{ended}");
        ended
    }

    /// Sends any signal.
    pub fn send(&self, signal: Signal) {
        self.signal(signal);
    }

    /// Stops it as it is (SIGSTOP), until `thaw`. Returns when every thread stands still: on a busy
    /// machine one of them may go on for a while after the signal was sent.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let began = Instant::now();
        while !self.is_frozen() {
            assert!(began.elapsed() < PATIENCE, "it does not stop\n{}", self.home.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_frozen(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads");
        tasks.flatten().all(|task| {
            // A thread may have ended meanwhile.
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
        })
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// It has ended, by itself or by somebody else's hand.
    ///
    /// # Panics
    /// When it cannot be told.
    pub fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().expect("wait").is_some())
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait(&mut self) -> Ended {
        let mut child = self.child.take().expect("it runs");
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("wait") {
                return Ended { status, log: self.home.log().to_string() };
            }
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                assert!(began.elapsed() < PATIENCE, "it does not end\n{}", self.home.log());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What a daemon that has ended left behind: the proof that it writes nothing more.
#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    log: String,
}

impl Ended {
    /// The number that it ended with, if no signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// All that it and those before it in its folder logged.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// How many lines of the log contain `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        self.log.lines().filter(|line| line.contains(text)).count()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}", self.status, self.log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            if !self.home.wrapper.is_empty() {
                let _ = kill(Pid::from_raw(-child.id().cast_signed()), Signal::SIGKILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
