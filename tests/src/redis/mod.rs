//! Real Redis servers: private instances in folders of their own, with a user `leaf` who needs a password.
//! Tests can kill, freeze, restart, fill and flush them, let them replicate, and put Sentinels beside them.

mod commands;
mod sentinels;
mod server;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub use commands::Answer;
pub use sentinels::{NAME, Sentinels};

use commands::Commands;
pub use server::RIGHTS;
use server::Server;

use crate::certificates::Certificates;
use crate::log::Log;
use crate::stores::wait_until;

/// Further settings of a server.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions<'a> {
    /// Lines of its configuration, which override the harness's own.
    pub settings: &'a [&'a str],
    /// Serve clients with TLS only.
    pub certificates: Option<&'a Certificates>,
}

/// A numbered database on a server. The server ends when the last of its databases is dropped or the test
/// process ends.
#[derive(Debug, Clone)]
pub struct Redis {
    server: Arc<Server>,
    number: u32,
}

impl Redis {
    /// Starts a server for this test alone, without keys. It needs Debian's package `redis-server`.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&RedisOptions::default())
    }

    /// As [`Self::start`], with these lines in its configuration.
    #[must_use]
    pub fn start_set(settings: &[&str]) -> Self {
        Self::start_with(&RedisOptions { settings, certificates: None })
    }

    /// As [`Self::start`], with options.
    #[must_use]
    pub fn start_with(options: &RedisOptions<'_>) -> Self {
        Self { server: Arc::new(Server::start(options)), number: 0 }
    }

    /// The server that the tests of this process share. Each test has to use a database of its own from
    /// [`Self::fresh`], and must not disturb the server.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// An empty database on the same server.
    #[must_use]
    pub fn fresh(&self) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { server: Arc::clone(&self.server), number }
    }

    /// A new database on the shared server, with one tag.
    #[must_use]
    pub fn with_tag(tag: &str, step: i32) -> Self {
        let redis = Self::shared().fresh();
        redis.insert_tag(tag, 1, step);
        redis
    }

    /// The number of the database.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The port of the server, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The process ID of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.process().pid()
    }

    /// The folder of the server, which is removed with it. It works in the subfolder `data`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.server.process().home().folder()
    }

    /// What the server has logged since its last start.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        self.server.process().log()
    }

    /// The settings of a daemon that reaches the database through this port: names without leafd's prefix,
    /// and values.
    #[must_use]
    pub fn settings_at(&self, port: u16) -> Vec<(&'static str, String)> {
        vec![
            ("STORE_KIND", "redis".to_owned()),
            ("REDIS_SERVERS", format!("127.0.0.1:{port}")),
            ("REDIS_DATABASE", self.number.to_string()),
            ("REDIS_USER", "leaf".to_owned()),
            ("REDIS_PASSWORD", "secret".to_owned()),
        ]
    }

    /// Sends a command as an operator. Fails with the server's error.
    pub fn try_run(&self, command: &[&str]) -> Result<Answer, String> {
        let mut commands = self.server.commands();
        if self.number != 0 {
            commands.ask(&["SELECT", &self.number.to_string()])?;
        }
        commands.ask(command)
    }

    /// Sends a command as an operator.
    pub fn run(&self, command: &[&str]) -> Answer {
        let answer = self.try_run(command);
        answer.unwrap_or_else(|error| panic!("{command:?}: {error}\n{}", self.log()))
    }

    /// Adds a tag: its counter, and its step.
    pub fn insert_tag(&self, tag: &str, max_id: i64, step: i32) {
        self.insert(tag, &(max_id - 1).to_string(), &step.to_string());
    }

    /// Adds a tag with these values of its counter and its step.
    pub fn insert(&self, tag: &str, counter: &str, step: &str) {
        self.run(&["SET", &key(tag), counter]);
        self.run(&["HSET", "leafd:steps", &key(tag), step]);
    }

    /// The value of a tag's counter.
    #[must_use]
    pub fn counter(&self, tag: &str) -> Option<String> {
        self.run(&["GET", &key(tag)]).text()
    }

    /// Where the next lease of a tag begins: one above its counter.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> i64 {
        let counter = self.counter(tag);
        let value = counter.as_ref().and_then(|value| value.parse::<i64>().ok());
        value.unwrap_or_else(|| panic!("{tag:?}: {counter:?}")) + 1
    }

    /// The value of a field in one of leafd's hashes.
    #[must_use]
    pub fn own(&self, hash: &str, tag: &str) -> Option<String> {
        self.run(&["HGET", &format!("leafd:{hash}"), &key(tag)]).text()
    }

    /// Deletes all keys of this database, leafd's own too.
    pub fn flush(&self) {
        self.run(&["FLUSHDB"]);
    }

    /// The value of a field in the answer to `INFO`.
    #[must_use]
    pub fn info(&self, field: &str) -> String {
        self.server.info(field)
    }

    /// leafd's connections to this database: the server's IDs of them.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        let list = self.run(&["CLIENT", "LIST"]).text().unwrap_or_default();
        let database = self.number.to_string();
        let value = |line: &str, name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let ours = list.lines().filter(|line| {
            value(line, "user").as_deref() == Some("leaf")
                && value(line, "db").as_ref() == Some(&database)
        });
        ours.filter_map(|line| value(line, "id")).collect()
    }

    /// Starts a server for this test alone that follows this one, which it reaches at `port`. Returns once
    /// it has everything.
    #[must_use]
    pub fn start_replica(&self, port: u16) -> Self {
        let follow = format!("replicaof 127.0.0.1 {port}");
        let server = Server::start(&RedisOptions { settings: &[&follow], certificates: None });
        let replica = Self { server: Arc::new(server), number: self.number };
        replica.wait_following();
        replica
    }

    /// Waits until this replica follows its primary.
    pub fn wait_following(&self) {
        wait_until("the replica follows", || self.info("master_link_status") == "up");
    }

    /// Waits until a replica has everything that this server has.
    pub fn wait_copied_to(&self, replica: &Self) {
        wait_until("the replica has everything", || {
            replica.info("slave_repl_offset") == self.info("master_repl_offset")
        });
    }

    /// Makes a primary of a replica.
    pub fn promote(&self) {
        self.run(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Makes a replica of this server, which loses its keys for those of the server at `port`.
    pub fn follow(&self, port: u16) {
        self.run(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        self.wait_following();
    }

    /// Freezes the server (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self) {
        self.server.process().freeze();
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) {
        self.server.process().thaw();
    }

    /// Kills the server (SIGKILL), frozen or not.
    pub fn kill(&self) {
        self.server.process().kill();
    }

    /// Shuts the server down, and waits for its end. A frozen server has to be thawed first.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts a killed or stopped server again with the same data, configuration and port, and waits until
    /// it answers.
    pub fn start_again(&self) {
        self.server.start_again();
    }

    /// Stops the server and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}

/// The key of a tag's counter, unless `redis.key` says otherwise.
#[must_use]
pub fn key(tag: &str) -> String {
    format!("id:{tag}")
}
