//! What a scenario works with: a driver, a folder, and names for its clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::Answer;
use super::driver::{About, Driver, Line, PATIENCE};
use super::fake::{Asked, FakeDaemon};
use super::language::Column;

/// The timeout of calls that should succeed, in ms: nothing takes that long.
pub const PLENTY_MS: u32 = 100_000;

/// The stage of one scenario.
#[derive(Debug)]
pub struct Stage<'a> {
    column: &'a Column,
    driver: &'a mut Driver,
    about: &'a About,
    folder: TempDir,
    names: usize,
    figures: Vec<String>,
}

impl<'a> Stage<'a> {
    /// A stage with a folder of its own.
    ///
    /// # Panics
    /// If there can be no folder.
    #[must_use]
    pub fn new(column: &'a Column, driver: &'a mut Driver, about: &'a About) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { column, driver, about, folder, names: 0, figures: Vec::new() }
    }

    /// The client under test.
    #[must_use]
    pub const fn column(&self) -> &Column {
        self.column
    }

    /// What the driver says about itself.
    #[must_use]
    pub const fn about(&self) -> &About {
        self.about
    }

    /// The folder of this scenario.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Prints a line below the outcome.
    pub fn note(&mut self, figure: String) {
        self.figures.push(figure);
    }

    /// The lines to print.
    pub(super) fn take_figures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.figures)
    }

    /// The path at which [`Self::fake`] listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder().join("leafd.sock")
    }

    /// A fake daemon.
    #[must_use]
    pub fn fake(&self) -> FakeDaemon {
        FakeDaemon::listen(&self.socket())
    }

    /// A command that starts another driver.
    #[must_use]
    pub fn command(&self) -> Command {
        self.column.command()
    }

    /// Opens a client of the fake daemon whose calls have plenty of time. Returns its name.
    #[track_caller]
    pub fn open(&mut self) -> String {
        self.open_with(json!({}))
    }

    /// As [`Self::open`], with options that replace the usual ones.
    #[track_caller]
    pub fn open_with(&mut self, options: Value) -> String {
        let (name, fields) = self.named("client", json!({"timeout_ms": PLENTY_MS}), options);
        self.ask("open", fields).ok();
        name
    }

    /// Opens a pool of the tag `orders` at the fake daemon, with these options. Returns its name.
    #[track_caller]
    pub fn pool(&mut self, options: Value) -> String {
        let usual = json!({"tag": "orders", "timeout_ms": PLENTY_MS});
        let (name, fields) = self.named("pool", usual, options);
        self.ask("pool_open", fields).ok();
        name
    }

    fn named(&mut self, what: &str, mut fields: Value, options: Value) -> (String, Value) {
        self.names += 1;
        // The driver outlives the scenario.
        let folder = self.folder().file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{what}-{}-{folder}", self.names);
        fields[what] = json!(name);
        fields["socket"] = json!(self.socket());
        if let Value::Object(options) = options {
            options.into_iter().for_each(|(key, value)| fields[key] = value);
        }
        (name, fields)
    }

    /// Sends a line.
    pub fn send(&mut self, op: &str, fields: Value) -> Line {
        self.driver.send(op, fields)
    }

    /// Sends the line for one ID of the tag `orders`.
    pub fn next(&mut self, client: &str) -> Line {
        self.send("next", json!({"client": client, "tag": "orders"}))
    }

    /// As [`Self::next`], with a timeout.
    pub fn next_within(&mut self, client: &str, timeout_ms: u32) -> Line {
        self.send("next", json!({"client": client, "tag": "orders", "timeout_ms": timeout_ms}))
    }

    /// Sends the line for several IDs of the tag `orders`.
    pub fn next_many(&mut self, client: &str, count: u32) -> Line {
        self.send("next_many", json!({"client": client, "tag": "orders", "count": count}))
    }

    /// Waits for the answer to a line.
    #[track_caller]
    pub fn wait(&mut self, line: Line) -> Answer {
        self.driver.wait(line)
    }

    /// As [`Self::wait`], with another limit.
    pub fn wait_within(&mut self, line: Line, limit: Duration) -> Answer {
        self.driver.wait_within(line, limit)
    }

    /// The answer to a line, if it is there.
    pub fn take(&mut self, line: Line) -> Option<Answer> {
        self.driver.take(line)
    }

    /// Sends a line and waits for its answer.
    #[track_caller]
    pub fn ask(&mut self, op: &str, fields: Value) -> Answer {
        let line = self.send(op, fields);
        self.wait(line)
    }

    /// Answers requests until the line has its answer.
    ///
    /// # Panics
    /// If there is none for [`PATIENCE`].
    #[track_caller]
    pub fn serve(
        &mut self,
        fake: &mut FakeDaemon,
        line: Line,
        mut answer: impl FnMut(&mut FakeDaemon, Asked),
    ) -> Answer {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.take(line) {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "line {} is not answered", line.id());
            match fake.poll() {
                Some(asked) => answer(fake, asked),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Makes a call for one ID and gives it this one. Returns the connection.
    #[track_caller]
    pub fn gets(&mut self, fake: &mut FakeDaemon, client: &str, id: u64) -> usize {
        let line = self.next(client);
        let asked = fake.request();
        fake.give(&asked, id);
        assert_eq!(self.wait(line).id(), id);
        asked.peer
    }
}
