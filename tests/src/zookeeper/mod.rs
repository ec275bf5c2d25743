//! Real ZooKeeper servers, alone and as ensembles: private instances in folders of their own, with
//! the faults that servers and their operators have.

pub mod java_leaf;
mod server;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use java_leaf::JavaLeaf;
pub use tree::{Node, Tree};

use crate::Proxy;
use crate::instance::PATIENCE;
use crate::log::Log;
use server::Server;

/// How long a server may take to open a session, at least: one that is asked while it starts may
/// take the connection and never answer.
const PROBE: Duration = Duration::from_millis(250);

/// Servers that know one tree. They are numbered from 0, keep their ports, and end with this or
/// with the test process.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
}

/// What the servers knew at some time.
#[derive(Debug, Clone)]
pub struct Backup {
    name: String,
}

impl Ensemble {
    /// Starts one server for this test alone, with an empty tree.
    ///
    /// # Panics
    /// When it does not start, as when Debian's packages are not installed.
    #[must_use]
    pub fn single() -> Self {
        Self::of(1)
    }

    /// Starts several servers for this test alone, with an empty tree. Most of them have to run for
    /// any to serve.
    ///
    /// # Panics
    /// When they do not start.
    #[must_use]
    pub fn of(size: usize) -> Self {
        let ensemble = Self { servers: Server::of(size) };
        ensemble.start_all();
        ensemble
    }

    /// The single server that the tests of this process share; it is started for the first of them.
    /// Each takes a tree of its own with `fresh_chroot`, and harms no server that others use.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Ensemble> = OnceLock::new();
        SHARED.get_or_init(Self::single)
    }

    /// How many servers it has, running or not.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.servers.len()
    }

    /// Where clients find it: `127.0.0.1:1,127.0.0.1:2,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        connect_string(self.servers.iter().map(Server::port))
    }

    /// The port of a server for clients, which it keeps.
    #[must_use]
    pub fn port(&self, server: usize) -> u16 {
        self.servers[server].port()
    }

    /// The process ID of a server.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self, server: usize) -> u32 {
        self.servers[server].process().pid()
    }

    /// The folder of a server, which goes with it. It works in `data` within.
    #[must_use]
    pub fn folder(&self, server: usize) -> &Path {
        self.servers[server].process().home().folder()
    }

    /// The folders of all servers.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        (0..self.size()).map(|server| self.folder(server).to_owned()).collect()
    }

    /// What a server logged since it was last started.
    #[must_use]
    pub fn log(&self, server: usize) -> Log<'static> {
        self.servers[server].process().log()
    }

    /// A view of the whole tree.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree::at(&self.connect_string())
    }

    /// Makes a node below the root that no other test has, and returns its path: `/t…`.
    ///
    /// # Panics
    /// When the servers do not make it.
    #[must_use]
    pub fn fresh_path(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/t{number}-{:08x}", fastrand::u32(..));
        self.tree().create(&path, b"");
        path
    }

    /// Where clients find a tree of their own, which is as quick as a call.
    ///
    /// # Panics
    /// When the servers do not make it.
    #[must_use]
    pub fn fresh_chroot(&self) -> String {
        self.connect_string() + &self.fresh_path()
    }

    /// A network in front of each server, and where clients find the ensemble through all of them.
    /// The servers reach each other without. A path may be put behind.
    #[must_use]
    pub fn through_proxies(&self) -> (Vec<Proxy>, String) {
        let proxies: Vec<Proxy> =
            self.servers.iter().map(|server| Proxy::to(server.port())).collect();
        let servers = connect_string(proxies.iter().map(Proxy::port));
        (proxies, servers)
    }

    /// The server that the others follow, or a single one.
    ///
    /// # Panics
    /// When there is none for long.
    #[must_use]
    pub fn leader(&self) -> usize {
        let began = Instant::now();
        loop {
            let leads = |server: &Server| {
                let mode = if self.is_up(server) { server.mode() } else { None };
                mode.is_some_and(|mode| mode != "follower")
            };
            if let Some(leader) = self.servers.iter().position(leads) {
                return leader;
            }
            assert!(began.elapsed() < PATIENCE, "nobody leads\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills a server (SIGKILL), frozen or not.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self, server: usize) {
        self.servers[server].process().kill();
    }

    /// Starts a server that was killed on its data, at its port, and waits until it serves; it does
    /// not wait as long as most servers are down.
    ///
    /// # Panics
    /// When it runs, or does not start.
    pub fn start_again(&self, server: usize) {
        self.servers[server].spawn();
        if self.is_quorate() {
            self.wait_serving();
        }
    }

    /// Stops a server as it is (SIGSTOP): connections stay, and nothing answers.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self, server: usize) {
        self.servers[server].process().freeze();
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self, server: usize) {
        self.servers[server].process().thaw();
    }

    /// Kills all servers that run.
    pub fn kill_all(&self) {
        let running = self.servers.iter().filter(|server| server.process().is_running());
        running.for_each(|server| server.process().kill());
    }

    /// Starts all servers that do not run, and waits until they serve.
    ///
    /// # Panics
    /// When they do not.
    pub fn start_all(&self) {
        let stopped = self.servers.iter().filter(|server| !server.process().is_running());
        stopped.for_each(Server::spawn);
        self.wait_serving();
    }

    /// Freezes all servers that run.
    pub fn freeze_all(&self) {
        let running = self.servers.iter().filter(|server| server.process().is_running());
        running.for_each(|server| server.process().freeze());
    }

    /// Lets all frozen servers go on.
    pub fn thaw_all(&self) {
        self.servers.iter().for_each(|server| server.process().thaw());
    }

    /// Kills all servers and starts them without their data: an ensemble that was made anew at the
    /// old place. A session that was open then is refused until it has expired.
    ///
    /// # Panics
    /// When they do not start.
    pub fn wipe(&self) {
        self.kill_all();
        self.servers.iter().for_each(Server::wipe);
        self.start_all();
    }

    /// Kills all servers, keeps a copy of their data, and starts them again.
    ///
    /// # Panics
    /// When they do not start.
    #[must_use]
    pub fn backup(&self) -> Backup {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("backup-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.kill_all();
        self.servers.iter().for_each(|server| server.back_up(&name));
        self.start_all();
        Backup { name }
    }

    /// Kills all servers and starts them on the data of a backup: what came after it is lost. A
    /// session that has seen more is refused until it has expired.
    ///
    /// # Panics
    /// When they do not start, or the backup is another ensemble's.
    pub fn restore(&self, backup: &Backup) {
        self.kill_all();
        self.servers.iter().for_each(|server| server.restore(&backup.name));
        self.start_all();
    }

    /// Waits until every server that runs and is not frozen opens sessions.
    ///
    /// # Panics
    /// When they do not, one has ended by itself, or most of them are down.
    pub fn wait_serving(&self) {
        assert!(self.is_quorate(), "most servers do not run");
        let began = Instant::now();
        for server in self.servers.iter().filter(|server| self.is_up(server)) {
            let address = connect_string([server.port()]);
            while !tree::answers_within(PROBE.max(began.elapsed() / 2), &address) {
                let ended = server.process().has_ended();
                assert!(!ended, "zookeeper ended by itself\n{}", server.process().log());
                assert!(began.elapsed() < PATIENCE, "no session\n{}", self.logs());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// A client that knows all servers gets a session and an answer in this time.
    #[must_use]
    pub fn serves_within(&self, time: Duration) -> bool {
        tree::answers_within(time, &self.connect_string())
    }

    fn is_up(&self, server: &Server) -> bool {
        server.process().is_running() && !server.process().is_frozen()
    }

    fn is_quorate(&self) -> bool {
        self.servers.iter().filter(|server| self.is_up(server)).count() > self.size() / 2
    }

    fn logs(&self) -> String {
        self.servers.iter().map(|server| server.process().log().to_string()).collect()
    }
}

fn connect_string(ports: impl IntoIterator<Item = u16>) -> String {
    let servers: Vec<String> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
    servers.join(",")
}
