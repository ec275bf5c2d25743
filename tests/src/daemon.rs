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

use crate::PATIENCE;
use crate::binaries::{program, without_settings};
use crate::cleanup;
use crate::database::Database;
use crate::faketime::FakeTime;
use crate::log::Log;
use crate::processes;
use crate::redis::Redis;
use crate::store_server::StoreServer;

/// The folder and the settings of a daemon. They outlive it, so that another daemon can be started
/// on the same state.
#[derive(Debug, Clone)]
pub struct Home {
    folder: PathBuf,
    variables: Vec<(String, String)>,
    wrapper: Vec<String>,
    inherited: Vec<(String, Arc<OwnedFd>)>,
}

/// Moves standard input and output to the descriptors on which a service manager passes sockets, and
/// becomes leafd. `exec` keeps the process ID, so `LISTEN_PID` names leafd.
const INHERIT: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; \
                       LISTEN_PID=$$ exec \"$0\" \"$@\"";

impl Home {
    /// Settings for a daemon that keeps everything in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            variables: Vec::new(),
            wrapper: Vec::new(),
            inherited: Vec::new(),
        }
    }

    /// Sets a key of the configuration by its variable without the prefix, as in
    /// `("SNOWFLAKE_CEILING_AHEAD", "200ms")`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.variables.push((format!("LEAFD_{key}"), value.to_owned()));
        self
    }

    /// Gives the embedded store, and requests that wait for it, time for a busy disk.
    #[must_use]
    pub fn with_time_for_the_disk(self) -> Self {
        self.with("STORE_TIMEOUT", "1m").with("SEGMENT_WAIT", "1m")
    }

    /// Sets a variable without leafd's prefix, such as those of a service manager.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Passes a socket to leafd under a name, as a service manager does. Two sockets at most.
    #[must_use]
    pub fn inheriting(mut self, name: &str, socket: impl Into<OwnedFd>) -> Self {
        self.inherited.push((name.to_owned(), Arc::new(socket.into())));
        assert!(self.inherited.len() <= 2, "only standard input and output can carry a socket");
        self.through(&["sh", "-c", INHERIT])
    }

    /// Makes leafd lease ranges from a server instead of the embedded store.
    #[must_use]
    pub fn with_store(self, server: &StoreServer) -> Self {
        self.with_store_at(server, server.port())
    }

    /// As [`Self::with_store`], through another port of this host, as a proxy has it.
    #[must_use]
    pub fn with_store_at(self, server: &StoreServer, port: u16) -> Self {
        self.with_all(&server.settings_at(port))
    }

    /// Makes leafd lease ranges from Redis.
    #[must_use]
    pub fn with_redis(self, redis: &Redis) -> Self {
        self.with_all(&redis.settings_at(redis.port()))
    }

    fn with_all(self, settings: &[(&str, String)]) -> Self {
        settings.iter().fold(self, |home, (key, value)| home.with(key, value))
    }

    /// Makes leafd lease ranges from a shared database instead of the embedded store.
    #[must_use]
    pub fn with_database(self, database: &Database) -> Self {
        self.with_database_at(database, &database.url())
    }

    /// As [`Self::with_database`], with another URL: through a proxy, or as another user.
    #[must_use]
    pub fn with_database_at(self, database: &Database, url: &str) -> Self {
        self.with_all(&database.settings(url))
    }

    /// Makes leafd take its worker ID from ZooKeeper. `servers` is a connect string.
    #[must_use]
    pub fn with_zookeeper(self, servers: &str) -> Self {
        self.with("WORKER_REGISTRY", "zookeeper").with("ZOOKEEPER_SERVERS", servers)
    }

    /// Makes leafd answer other daemons on an address, as in `127.0.0.1:0`.
    #[must_use]
    pub fn with_peer(self, address: &str) -> Self {
        self.with("PEER_LISTEN", address)
    }

    /// Gives the daemon a clock that the test controls.
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

    /// The path of the daemon's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("leafd.sock")
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The database of the embedded store.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.state().join("leafd.db")
    }

    /// Makes the embedded store fail: a directory takes the place of its database, which must not
    /// exist yet.
    pub fn break_store(&self) {
        std::fs::create_dir_all(self.database()).expect("a directory for the database");
    }

    /// Undoes [`Self::break_store`].
    pub fn repair_store(&self) {
        std::fs::remove_dir(self.database()).expect("the directory in the database's place");
    }

    /// The log of all daemons that were started here. [`Ended`] holds the text of a complete log.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        Log::file(self.folder.join("log"))
    }

    /// Options for clients of this daemon.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::at(self.socket())
    }

    /// Executes a statement in the embedded store, as an operator might while the daemon runs.
    pub fn sql(&self, statement: &str) {
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], 20); \
                      c.execute(sys.argv[2]); c.commit()";
        let mut python = Command::new("python3");
        let status = python.args(["-c", script]).arg(self.database()).arg(statement).status();
        assert!(status.is_ok_and(|status| status.success()), "{statement}");
    }

    /// Runs a program of this workspace to its end. Returns the exit code, standard output and
    /// standard error.
    pub fn run(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(program).args(arguments).output().expect("it starts");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// A command that runs a program of this workspace with these settings.
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
        without_settings(&mut command);
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

    /// Starts a daemon without waiting until it is ready.
    #[must_use]
    pub fn spawn(&self) -> Daemon {
        std::fs::create_dir_all(&self.folder).expect("the folder");
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("the log");
        cleanup::kill_later(&self.folder);
        let mut command = self.command("leafd");
        command.current_dir(&self.folder);
        if !self.wrapper.is_empty() {
            // Dropping it kills the whole group: killing strace alone would leave leafd behind.
            command.process_group(0);
        }
        if self.inherited.len() < 2 {
            command.stdout(Stdio::null());
        }
        let child = command.stderr(log).spawn();
        Daemon { home: self.clone(), child: Some(child.expect("leafd starts")) }
    }

    /// Starts a daemon and waits until it answers.
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
    /// Its folder and settings.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// A new blocking client of this daemon.
    #[must_use]
    pub fn client(&self) -> blocking::Client {
        blocking::Client::new(self.home.options())
    }

    /// The process ID of the running daemon, or of its wrapper.
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
            assert!(ended.is_none(), "leafd ended while it started: {ended:?}\n{log}");
            assert!(began.elapsed() < PATIENCE, "leafd does not get ready\n{log}");
        }
    }

    /// Kills the daemon (SIGKILL), which simulates a crash.
    pub fn kill(mut self) -> Ended {
        self.send(Signal::SIGKILL);
        let ended = self.wait();
        assert_eq!(ended.signal(), Some(9), "{ended}");
        ended
    }

    /// Stops the daemon (SIGTERM), and waits until it has ended with 0.
    pub fn stop(mut self) -> Ended {
        self.send(Signal::SIGTERM);
        let ended = self.wait();
        assert_eq!(ended.code(), Some(0), "{ended}");
        ended
    }

    /// Sends a signal.
    pub fn send(&self, signal: Signal) {
        // The daemon may have ended by itself; a later `wait` will show that.
        let _ = kill(Pid::from_raw(self.pid().cast_signed()), signal);
    }

    /// Freezes the daemon (SIGSTOP) until `thaw`. Returns once every thread has stopped: on a busy
    /// machine a thread may run on for a while after the signal.
    pub fn freeze(&self) {
        self.send(Signal::SIGSTOP);
        let began = Instant::now();
        while !self.is_frozen() {
            assert!(began.elapsed() < PATIENCE, "it does not stop\n{}", self.home.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_frozen(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads");
        tasks.flatten().all(|task| processes::is_stopped(&task.path()))
    }

    /// Resumes the daemon after `freeze`.
    pub fn thaw(&self) {
        self.send(Signal::SIGCONT);
    }

    /// Whether it has ended, for whatever reason.
    pub fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().expect("wait").is_some())
    }

    /// Waits until the daemon has ended.
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

/// The exit status and the complete log of a daemon that has ended.
#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    log: String,
}

impl Ended {
    /// The exit code, unless a signal ended the daemon.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended the daemon, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The log of this daemon and of those before it in the same folder.
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
