//! Real ZooKeeper servers, single ones and ensembles: private instances in folders of their own. Tests
//! can kill, freeze, wipe and restore them.

pub mod java_leaf;
mod server;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use java_leaf::JavaLeaf;
pub use tree::{Node, Tree};

use crate::log::Log;
use crate::{PATIENCE, Proxy};
use server::Server;

/// The shortest timeout for opening a session. A server that is starting may accept the connection and
/// never answer.
const PROBE: Duration = Duration::from_millis(250);

/// More than an ensemble takes to elect a leader and to serve, unless it hangs.
const ENOUGH: Duration = Duration::from_secs(20);

/// Servers with one common tree. They are numbered from 0 and keep their ports. They end when this is
/// dropped or the test process ends.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
}

/// A copy of the servers' data.
#[derive(Debug, Clone)]
pub struct Backup {
    name: String,
}

impl Backup {
    /// The backup of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Ensemble {
    /// Starts one server for this test alone, with an empty tree. It needs Debian's packages
    /// `zookeeper` and `default-jre-headless`.
    #[must_use]
    pub fn single() -> Self {
        Self::of(1)
    }

    /// Starts several servers for this test alone, with an empty tree. They serve while a majority
    /// runs.
    #[must_use]
    pub fn of(size: usize) -> Self {
        let ensemble = Self { servers: Server::of(size) };
        ensemble.start_all();
        ensemble
    }

    /// The single server that the tests of this process share. Each test has to use a tree of its own
    /// from [`Self::fresh_chroot`], and must not disturb the server.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Ensemble> = OnceLock::new();
        SHARED.get_or_init(Self::single)
    }

    /// Number of servers, running or not.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.servers.len()
    }

    /// The connect string for clients: `127.0.0.1:1,127.0.0.1:2,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        connect_string(self.servers.iter().map(Server::port))
    }

    /// The client port of a server, which stays the same over restarts.
    #[must_use]
    pub fn port(&self, server: usize) -> u16 {
        self.servers[server].port()
    }

    /// The process ID of a server.
    #[must_use]
    pub fn pid(&self, server: usize) -> u32 {
        self.servers[server].process().pid()
    }

    /// The folder of a server, which is removed with it. The server works in the subfolder `data`.
    #[must_use]
    pub fn folder(&self, server: usize) -> &Path {
        self.servers[server].process().home().folder()
    }

    /// The folders of all servers.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        (0..self.size()).map(|server| self.folder(server).to_owned()).collect()
    }

    /// What a server has logged since its last start.
    #[must_use]
    pub fn log(&self, server: usize) -> Log<'static> {
        self.servers[server].process().log()
    }

    /// A view of the whole tree.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree::at(&self.connect_string())
    }

    /// Creates a node below the root for this test alone, and returns its path: `/t…`.
    #[must_use]
    pub fn fresh_path(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/t{number}-{:08x}", fastrand::u32(..));
        self.tree().create(&path, b"");
        path
    }

    /// A connect string for a new tree of this test's own.
    #[must_use]
    pub fn fresh_chroot(&self) -> String {
        self.connect_string() + &self.fresh_path()
    }

    /// A proxy in front of each server, and the connect string that leads through them. A path may be
    /// appended to it. The servers do not use the proxies among themselves.
    #[must_use]
    pub fn through_proxies(&self) -> (Vec<Proxy>, String) {
        let proxies: Vec<Proxy> =
            self.servers.iter().map(|server| Proxy::to(server.port())).collect();
        let servers = connect_string(proxies.iter().map(Proxy::port));
        (proxies, servers)
    }

    /// The server that leads the ensemble; the only one if it is single.
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
            assert!(began.elapsed() < PATIENCE, "no server leads\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills a server (SIGKILL), frozen or not.
    pub fn kill(&self, server: usize) {
        self.servers[server].process().kill();
    }

    /// Starts a killed server again with the same data and port. Waits until it serves, unless most
    /// servers are down.
    pub fn start_again(&self, server: usize) {
        self.servers[server].spawn();
        if self.is_quorate() {
            self.wait_serving();
        }
    }

    /// Freezes a server (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self, server: usize) {
        self.servers[server].process().freeze();
    }

    /// Resumes a frozen server.
    pub fn thaw(&self, server: usize) {
        self.servers[server].process().thaw();
        self.get_going();
    }

    /// Kills all servers that run.
    pub fn kill_all(&self) {
        let running = self.servers.iter().filter(|server| server.process().is_running());
        running.for_each(|server| server.process().kill());
    }

    /// Starts all servers that do not run, and waits until they serve.
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

    /// Resumes all frozen servers.
    pub fn thaw_all(&self) {
        self.servers.iter().for_each(|server| server.process().thaw());
        self.get_going();
    }

    /// Restarts an ensemble that hangs, as an operator would. A leader of ZooKeeper 3.8 that was frozen
    /// can stay leader and commit nothing any more: it waits for its followers to acknowledge what it
    /// proposed to them on connections that have ended.
    fn get_going(&self) {
        if self.size() == 1 || !self.is_quorate() {
            return;
        }
        let began = Instant::now();
        while began.elapsed() < ENOUGH {
            if self.serves_within(ENOUGH / 4) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("the ensemble hangs since it was resumed: restarting it");
        self.kill_all();
        self.start_all();
    }

    /// Kills all servers, deletes their data and starts them again, like a new ensemble at the same
    /// address. A session from before is refused until it has expired.
    pub fn wipe(&self) {
        self.kill_all();
        self.servers.iter().for_each(Server::wipe);
        self.start_all();
    }

    /// Kills all servers, copies their data, and starts them again.
    #[must_use]
    pub fn backup(&self) -> Backup {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("backup-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.kill_all();
        self.servers.iter().for_each(|server| server.back_up(&name));
        self.start_all();
        Backup { name }
    }

    /// Kills all servers and starts them with the data of a backup. A session that has seen later
    /// changes is refused until it has expired.
    pub fn restore(&self, backup: &Backup) {
        self.kill_all();
        self.servers.iter().for_each(|server| server.restore(&backup.name));
        self.start_all();
    }

    /// Waits until every server that runs and is not frozen opens sessions. Most servers have to run.
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

    /// Whether a client that knows all servers gets a session and an answer within `time`.
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

/// A test that fails shows what its servers saw.
impl Drop for Ensemble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

fn connect_string(ports: impl IntoIterator<Item = u16>) -> String {
    let servers: Vec<String> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
    servers.join(",")
}
