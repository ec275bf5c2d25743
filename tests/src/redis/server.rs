//! A Redis server: its process, its configuration and its data.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Answer, Commands, RedisOptions};
use crate::PATIENCE;
use crate::instance::{Home, Port, Process};
use crate::log::Log;
use crate::stores::wait_until;

/// The timeout of one command to a server that is starting.
const READY: Duration = Duration::from_secs(5);

/// Every write is in the kernel before it is answered. Without syncs, since a slow disk would delay every
/// lease: tests kill the server, not the machine. Each test on a shared server has a database of its own.
const SETTINGS: &str = "\
bind 127.0.0.1
daemonize no
appendonly yes
appendfsync no
save \"\"
databases 1000
repl-diskless-sync-delay 0
repl-backlog-size 1mb
enable-debug-command local
";

/// The rights of the user `leaf`, as the manual gives them.
pub const RIGHTS: &str = "~id:* ~leafd:* resetchannels -@all +get +mget +hget +hmget +hset +hdel +set +del \
                          +exists +type +pttl +incrby +psetex +time +info +evalsha +eval +script|load \
                          +scan +select +hello +auth +ping +config|get";

/// A server, running or not. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    port: Port,
}

impl Server {
    /// Starts a new server.
    pub(super) fn start(options: &RedisOptions<'_>) -> Self {
        let process = Process::new("redis", Home::new("redis"));
        let port = Port::reserve();
        let home = process.home();
        let mut settings = SETTINGS.to_owned();
        settings += &format!("user leaf on >secret {RIGHTS}\n");
        settings += &format!("unixsocket {}\n", home.folder().join("socket").display());
        match options.certificates {
            None => settings += &format!("port {}\n", port.number()),
            Some(certificates) => {
                for file in ["ca.pem", "member.pem", "member.key"] {
                    home.write(file, &certificates.content(file));
                }
                settings += &format!("port 0\ntls-port {}\n", port.number());
                settings += "tls-ca-cert-file ca.pem\ntls-cert-file member.pem\n";
                settings += "tls-key-file member.key\ntls-auth-clients no\n";
            }
        }
        for line in options.settings {
            settings += line;
            settings += "\n";
        }
        home.write("redis.conf", &settings);
        let server = Self { process, port };
        if let Err(log) = server.try_start() {
            panic!("redis-server does not start\n{log}");
        }
        server
    }

    /// Starts the process and waits until it answers. If it ends instead, fails with its log.
    fn try_start(&self) -> Result<(), Log<'static>> {
        let mut command = Command::new("redis-server");
        // It rewrites the file when a Sentinel changes its role.
        command.arg("./redis.conf");
        self.process.spawn(command);
        let began = Instant::now();
        while !self.is_ready() {
            if self.process.has_ended() {
                return Err(self.process.log());
            }
            let log = || self.process.log();
            assert!(began.elapsed() < PATIENCE, "redis-server does not get ready\n{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether this very server answers and has loaded its data: no other one has a socket in its folder.
    fn is_ready(&self) -> bool {
        let commands = Commands::at(&self.process.home().folder().join("socket"), READY);
        commands.is_ok_and(|mut commands| commands.ask(&["PING"]).is_ok())
    }

    pub(super) const fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Connects as an operator with all rights.
    pub(super) fn commands(&self) -> Commands {
        let socket = self.process.home().folder().join("socket");
        let commands = Commands::at(&socket, PATIENCE);
        commands.unwrap_or_else(|error| panic!("redis: {error}\n{}", self.process.log()))
    }

    pub(super) fn info(&self, field: &str) -> String {
        // A primary that becomes a replica closes its connections.
        let mut answer = None;
        wait_until("the answer to INFO", || {
            answer = self.commands().ask(&["INFO"]).ok();
            answer.is_some()
        });
        let info = answer.and_then(Answer::text).expect("a text");
        let mut values = info.lines().filter_map(|line| line.split_once(':'));
        let found = values.find(|(name, _)| *name == field);
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    pub(super) fn stop(&self) {
        self.process.stop(Signal::SIGTERM);
    }

    pub(super) fn start_again(&self) {
        if let Err(log) = self.try_start() {
            panic!("redis-server does not start again\n{log}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.quit(Signal::SIGKILL);
    }
}
