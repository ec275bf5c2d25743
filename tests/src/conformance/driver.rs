//! A driver: a small program around one client, which obeys lines of JSON. See
//! `tests/conformance/README.md` for the lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::Answer;

/// How long a line may take before the driver counts as stuck. No scenario measures time by it.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// What a driver says about its language and mode.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The whole answer.
    pub all: Value,
    /// Whether it handles lines side by side.
    pub concurrent: bool,
    /// Whether it can fork.
    pub forks: bool,
    /// Whether the client has pools.
    pub pools: bool,
    /// Whether a call can be cancelled.
    pub cancels: bool,
}

/// A line without an answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(u64);

impl Line {
    /// Its `id`, for `cancel`.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0
    }
}

/// What came from the driver so far.
#[derive(Debug, Default)]
struct Heard {
    answers: BTreeMap<u64, Value>,
    /// Why nothing more will come.
    end: Option<String>,
}

#[derive(Debug, Default)]
struct Inbox {
    heard: Mutex<Heard>,
    news: Condvar,
}

/// A running driver. Dropping it kills it.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    inbox: Arc<Inbox>,
    last: u64,
}

impl Driver {
    /// Starts a driver.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let inbox = Arc::new(Inbox::default());
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let sink = Arc::clone(&inbox);
        std::thread::spawn(move || sink.listen(output));
        let input = child.stdin.take();
        Self { child, input, inbox, last: 0 }
    }

    /// Asks what the driver is.
    pub fn about(&mut self) -> About {
        let line = self.send("about", json!({}));
        let all = self.wait(line).ok();
        let is = |name: &str| all.get(name).and_then(Value::as_bool).unwrap_or_default();
        About {
            concurrent: is("concurrent"),
            forks: is("forks"),
            pools: is("pools"),
            cancels: is("cancels"),
            all,
        }
    }

    /// Sends a line. `fields` is an object; null fields are left out.
    ///
    /// # Panics
    /// If the driver takes no lines.
    pub fn send(&mut self, op: &str, fields: Value) -> Line {
        self.last += 1;
        let mut line = json!({"id": self.last, "op": op});
        let Value::Object(fields) = fields else { panic!("{fields} is no object") };
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            line[name] = value;
        }
        let input = self.input.as_mut().expect("its input is open");
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.unwrap_or_else(|error| panic!("the driver takes no line ({error}): {line}"));
        Line(self.last)
    }

    /// The answer to a line, if it is there. It is handed out once.
    pub fn take(&mut self, line: Line) -> Option<Answer> {
        let mut heard = self.inbox.lock();
        if let Some(answer) = heard.answers.remove(&line.0) {
            return Some(Answer::read(&answer));
        }
        if let Some(end) = &heard.end {
            let end = end.clone();
            drop(heard);
            panic!("the driver ended with line {} unanswered: {end}", line.0);
        }
        None
    }

    /// Waits for the answer to a line.
    ///
    /// # Panics
    /// If there is none for [`PATIENCE`].
    pub fn wait(&mut self, line: Line) -> Answer {
        self.wait_within(line, PATIENCE)
    }

    /// As [`Self::wait`], with another limit.
    pub fn wait_within(&mut self, line: Line, limit: Duration) -> Answer {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.take(line) {
                return answer;
            }
            assert!(began.elapsed() < limit, "line {} is not answered", line.0);
            let heard = self.inbox.lock();
            if !heard.answers.contains_key(&line.0) && heard.end.is_none() {
                let pause = Duration::from_millis(200);
                drop(self.inbox.news.wait_timeout(heard, pause));
            }
        }
    }

    /// Ends the driver's input, and waits for its end with status 0.
    ///
    /// # Panics
    /// If it ends in another way, or not at all.
    pub fn finish(mut self) {
        drop(self.input.take());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                assert!(
                    status.success(),
                    "at the end of its input, the driver ended with {status}"
                );
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the driver goes on after the end of its input");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Inbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, output: impl BufRead) {
        let mut end = "its output ended".to_owned();
        for text in output.lines() {
            let text = match text {
                Ok(text) => text,
                Err(error) => {
                    end = format!("its output cannot be read: {error}");
                    break;
                }
            };
            let answer: Option<Value> = serde_json::from_str(&text).ok();
            let Some((answer, id)) =
                answer.and_then(|answer| answer["id"].as_u64().map(|id| (answer, id)))
            else {
                end = format!("it wrote what is no answer: {text:?}");
                break;
            };
            let mut heard = self.lock();
            if heard.answers.insert(id, answer).is_some() {
                heard.end = Some(format!("it answered line {id} twice"));
            }
            self.news.notify_all();
        }
        self.lock().end.get_or_insert(end);
        self.news.notify_all();
    }
}
