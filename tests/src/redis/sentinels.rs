//! Three Sentinels, which watch a primary and put a replica in its place when it fails.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Answer, Commands, Redis};
use crate::instance::{Home, Port, Process};
use crate::stores::wait_until;

/// How long a primary does not answer before a Sentinel takes it for down.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// How long a test waits for a failover. One that did not succeed is tried again after twice the
/// `failover-timeout`.
const LONGEST: Duration = Duration::from_secs(120);

/// The name of the primary, for `redis.sentinel`.
pub const NAME: &str = "mymaster";

/// The Sentinels of one primary. Dropping this kills them.
#[derive(Debug)]
pub struct Sentinels(Vec<Sentinel>);

#[derive(Debug)]
struct Sentinel {
    process: Process,
    port: Port,
}

impl Sentinels {
    /// Starts three. Returns once each knows the others and this many replicas.
    #[must_use]
    pub fn start(primary: &Redis, replicas: usize) -> Self {
        Self::start_set(primary, replicas, &[])
    }

    /// As [`Self::start`], with these lines in their configuration.
    #[must_use]
    pub fn start_set(primary: &Redis, replicas: usize, settings: &[&str]) -> Self {
        let sentinels = Self((0..3).map(|_| Sentinel::start(primary, settings)).collect());
        if settings.is_empty() {
            for sentinel in &sentinels.0 {
                wait_until("the Sentinels know each other", || {
                    sentinel.count("sentinels") == 2 && sentinel.count("replicas") == replicas
                });
            }
        }
        sentinels
    }

    /// The value of `redis.servers`.
    #[must_use]
    pub fn servers(&self) -> String {
        let place = |one: &Sentinel| format!("127.0.0.1:{}", one.port.number());
        self.0.iter().map(place).collect::<Vec<_>>().join(",")
    }

    /// The port of the primary, as most Sentinels know it.
    #[must_use]
    pub fn primary(&self) -> Option<u16> {
        let ports: Vec<_> = self.0.iter().filter_map(Sentinel::primary).collect();
        ports.iter().copied().find(|port| ports.iter().filter(|other| *other == port).count() >= 2)
    }

    /// Waits until they have put another server in place of the one at this port, which has failed.
    pub fn wait_failover_from(&self, port: u16) {
        self.wait(port, || {});
    }

    /// Makes them put a replica in place of the primary at this port, although it works.
    pub fn fail_over_from(&self, port: u16) {
        // They give up if no replica is good enough at that moment. While one goes on, they refuse another.
        self.wait(port, || drop(self.0[0].ask(&["SENTINEL", "FAILOVER", NAME])));
    }

    fn wait(&self, port: u16, mut ask: impl FnMut()) {
        let began = Instant::now();
        while self.primary().is_none_or(|primary| primary == port) {
            let log = || self.0[0].process.log();
            assert!(began.elapsed() < LONGEST, "there is no failover from {port}\n{}", log());
            ask();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills a Sentinel (SIGKILL).
    pub fn kill(&self, number: usize) {
        self.0[number].process.kill();
    }
}

impl Sentinel {
    fn start(primary: &Redis, settings: &[&str]) -> Self {
        let (process, port) = (Process::new("sentinel", Home::new("redis")), Port::reserve());
        let mut lines = format!(
            "bind 127.0.0.1\nport {}\ndaemonize no\nsentinel monitor {NAME} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {NAME} {}\nsentinel failover-timeout {NAME} 8000\n",
            port.number(),
            primary.port(),
            DOWN_AFTER.as_millis(),
        );
        for line in settings {
            lines += line;
            lines += "\n";
        }
        process.home().write("sentinel.conf", &lines);
        let mut command = Command::new("redis-sentinel");
        command.arg("./sentinel.conf");
        process.spawn(command);
        let sentinel = Self { process, port };
        wait_until("the Sentinel listens", || {
            assert!(!sentinel.process.has_ended(), "{}", sentinel.process.log());
            Commands::at_port(sentinel.port.number()).is_ok()
        });
        sentinel
    }

    fn ask(&self, command: &[&str]) -> Result<Answer, String> {
        let commands = Commands::at_port(self.port.number());
        commands.map_err(|error| error.to_string())?.ask(command)
    }

    fn count(&self, what: &str) -> usize {
        match self.ask(&["SENTINEL", what, NAME]) {
            Ok(Answer::List(list)) => list.len(),
            _ => 0,
        }
    }

    fn primary(&self) -> Option<u16> {
        let address = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
        address.texts().get(1)?.parse().ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.quit(Signal::SIGKILL);
    }
}
