//! Storms: many callers at once, by processes with threads or by tasks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use leaf_client::pool::Pool;
use leaf_client::{Client, Error, Ids, blocking};
use serde_json::{Value, json};

use crate::common::{Line, in_child};

/// What a storm is asked to do.
#[derive(Debug, Clone)]
struct Orders {
    tag: Option<String>,
    pool: bool,
    workers: u64,
    threads: u64,
    fork_again: bool,
    batch: u32,
    ids: u64,
    out: PathBuf,
}

impl Orders {
    fn read(line: &Line) -> Self {
        Self {
            tag: line.0["tag"].as_str().map(str::to_owned),
            pool: line.text("use") == "pool",
            workers: u64::from(line.number("workers")),
            threads: u64::from(line.number("threads")),
            fork_again: line.0["fork_again"] == true,
            batch: line.number("batch"),
            ids: line.text("ids").parse().expect("a number"),
            out: PathBuf::from(line.text("out")),
        }
    }

    /// The IDs of one of so many equal parts.
    const fn part(&self, parts: u64) -> u64 {
        self.ids.div_ceil(parts)
    }
}

/// What a worker did.
#[derive(Debug, Default)]
struct Tally {
    issued: u64,
    calls: u64,
    failed: u64,
    errors: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.issued += other.issued;
        self.calls += other.calls;
        self.failed += other.failed;
        self.errors.extend(other.errors);
        self.errors.truncate(10);
    }

    fn value(&self) -> Value {
        json!({
            "issued": self.issued.to_string(), "calls": self.calls, "failed": self.failed,
            "errors": self.errors,
        })
    }

    fn read(value: &Value) -> Self {
        Self {
            issued: value["issued"].as_str().and_then(|text| text.parse().ok()).expect("issued"),
            calls: value["calls"].as_u64().expect("calls"),
            failed: value["failed"].as_u64().expect("failed"),
            errors: serde_json::from_value(value["errors"].clone()).expect("texts"),
        }
    }
}

/// The IDs of one thread, and their file.
#[derive(Debug, Default)]
struct Record {
    tally: Tally,
    done: Vec<u8>,
    open: Option<(u64, u32)>,
}

impl Record {
    fn ids(&mut self, result: Result<Ids, Error>) {
        self.tally.calls += 1;
        match result {
            Ok(ids) => ids.runs().iter().for_each(|run| self.run(run.first, run.count)),
            Err(error) => self.failed(&error),
        }
    }

    fn id(&mut self, result: Result<u64, Error>) {
        self.tally.calls += 1;
        match result {
            Ok(id) => self.run(id, 1),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) {
        self.tally.failed += 1;
        if self.tally.errors.len() < 10 {
            self.tally.errors.push(error.to_string());
        }
    }

    fn run(&mut self, first: u64, count: u32) {
        self.tally.issued += u64::from(count);
        self.open = match self.open {
            Some((start, length)) if start + u64::from(length) == first => {
                match length.checked_add(count) {
                    Some(length) => Some((start, length)),
                    None => self.close_and(first, count),
                }
            }
            _ => self.close_and(first, count),
        };
    }

    fn close_and(&mut self, first: u64, count: u32) -> Option<(u64, u32)> {
        if let Some((start, length)) = self.open {
            self.done.extend(start.to_le_bytes());
            self.done.extend(length.to_le_bytes());
        }
        Some((first, count))
    }

    /// Writes the file.
    fn end(mut self, folder: &Path) -> Tally {
        static FILES: AtomicU64 = AtomicU64::new(0);
        self.close_and(0, 0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        let file = std::fs::File::create_new(path).and_then(|mut file| file.write_all(&self.done));
        file.expect("the file of a thread");
        self.tally
    }
}

/// What one thread of a process takes IDs from.
enum Source {
    Client(Box<blocking::Client>),
    Pool(Pool),
}

impl Source {
    fn take(&mut self, orders: &Orders, record: &mut Record) {
        match (self, &orders.tag) {
            (Self::Client(client), Some(tag)) => record.ids(client.next_many(tag, orders.batch)),
            (Self::Client(client), None) => record.ids(client.snowflake_many(orders.batch)),
            (Self::Pool(pool), _) if orders.batch > 1 => record.ids(pool.next_many(orders.batch)),
            (Self::Pool(pool), _) => record.id(pool.next()),
        }
    }
}

/// Forked processes with threads, which inherit what was used before.
pub fn of_processes(line: &Line) -> Value {
    let orders = Orders::read(line);
    let mut sources: Vec<Source> = Vec::new();
    let pool = orders.pool.then(|| line.pool().expect("a pool"));
    let mut first = Record::default();
    for _ in 0..orders.threads {
        let source = match &pool {
            Some(pool) => Source::Pool(pool.clone()),
            None => Source::Client(Box::new(blocking::Client::new(line.options()))),
        };
        sources.push(source);
    }
    // Used before the fork.
    sources.iter_mut().for_each(|source| source.take(&orders, &mut first));
    let mut tally = first.end(&orders.out);
    let children: Vec<_> = (0..orders.workers).map(|_| fork(&orders, &mut sources)).collect();
    children.into_iter().for_each(|child| tally.add(child.join()));
    tally.value()
}

/// A child that works. Its result comes at its end.
struct Child(std::thread::JoinHandle<Value>);

impl Child {
    fn join(self) -> Tally {
        Tally::read(&self.0.join().expect("the child's result"))
    }
}

#[expect(unsafe_code, reason = "fork")]
fn fork(orders: &Orders, sources: &mut Vec<Source>) -> Child {
    use std::io::{Read, pipe};
    let (mut result, mut sink) = pipe().expect("a pipe");
    // SAFETY: the child does what this test is about, and ends without what its parent does at its end.
    match unsafe { nix::unistd::fork() }.expect("a child") {
        nix::unistd::ForkResult::Child => {
            drop(result);
            let tally = work(orders, std::mem::take(sources));
            let sent = sink.write_all(tally.value().to_string().as_bytes()).is_ok();
            // SAFETY: as above.
            unsafe { nix::libc::_exit(i32::from(!sent)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(sink);
            Child(std::thread::spawn(move || {
                let mut text = String::new();
                result.read_to_string(&mut text).expect("the child's result");
                nix::sys::wait::waitpid(child, None).expect("the child");
                serde_json::from_str(&text).expect("the child has a result")
            }))
        }
    }
}

/// A worker process: its threads take half of the IDs, it forks, and both take the rest.
fn work(orders: &Orders, sources: Vec<Source>) -> Tally {
    let share = orders.part(orders.workers);
    if !orders.fork_again {
        return threads(orders, sources, share).0;
    }
    let (mut tally, mut sources) = threads(orders, sources, share / 2);
    let rest = share - share / 2;
    let quarter = rest.div_ceil(2);
    let child = in_child(|| Ok(threads(orders, std::mem::take(&mut sources), quarter).0.value()));
    tally.add(Tally::read(&child.expect("the second child's result")));
    tally.add(threads(orders, sources, quarter).0);
    tally
}

fn threads(orders: &Orders, sources: Vec<Source>, ids: u64) -> (Tally, Vec<Source>) {
    let each = ids.div_ceil(orders.threads);
    let mut tally = Tally::default();
    let sources = std::thread::scope(|scope| {
        let threads: Vec<_> = sources
            .into_iter()
            .map(|mut source| {
                scope.spawn(move || {
                    let mut record = Record::default();
                    while record.tally.issued < each {
                        source.take(orders, &mut record);
                    }
                    (record.end(&orders.out), source)
                })
            })
            .collect();
        let mut sources = Vec::new();
        for thread in threads {
            let (done, source) = thread.join().expect("no panic");
            tally.add(done);
            sources.push(source);
        }
        sources
    });
    (tally, sources)
}

/// Tasks that share one client or pool.
pub async fn of_tasks(line: &Line) -> Value {
    let orders = Orders::read(line);
    let client = Client::new(line.options());
    let pool = orders.pool.then(|| line.pool().expect("a pool"));
    let tasks = orders.workers * orders.threads;
    let each = orders.part(tasks);
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let (orders, client, pool) = (orders.clone(), client.clone(), pool.clone());
            tokio::spawn(async move {
                let mut record = Record::default();
                let mut calls = 0u32;
                while record.tally.issued < each {
                    match (&pool, &orders.tag) {
                        (Some(pool), _) => record.id(pool.next_async().await),
                        (None, Some(tag)) => record.ids(client.next_many(tag, orders.batch).await),
                        (None, None) => record.ids(client.snowflake_many(orders.batch).await),
                    }
                    calls += 1;
                    // A pool that has IDs never waits.
                    if pool.is_some() && calls.is_multiple_of(1024) {
                        tokio::task::yield_now().await;
                    }
                }
                record.end(&orders.out)
            })
        })
        .collect();
    let mut tally = Tally::default();
    for task in all {
        tally.add(task.await.expect("no panic"));
    }
    tally.value()
}
