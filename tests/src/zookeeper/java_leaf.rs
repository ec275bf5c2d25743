//! A stand-in for a Java Leaf server, as far as it concerns ZooKeeper's tree: how it finds its
//! worker ID, what it reads and writes there, and what it cannot read. Its file is left out, since
//! it is its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zookeeper_client::{CreateMode, Error};

use super::{Tree, tree};

/// How long a report may take. Java Leaf's client tries for 4 s.
const REPORT: Duration = Duration::from_secs(4);

/// A server that is not started yet.
#[derive(Debug, Clone)]
pub struct JavaLeaf {
    servers: String,
    name: String,
    ip: String,
    port: String,
    interval: Duration,
    clock_ms: i64,
}

/// A server that runs. It reports its time until it is dropped.
#[derive(Debug)]
pub struct Running {
    worker: i32,
    shared: Arc<Shared>,
    reporter: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    leaf: JavaLeaf,
    tree: Tree,
    /// Where its node is.
    node: String,
    clock_ms: AtomicI64,
    reports: AtomicU64,
}

/// What it keeps in a node: Jackson writes the fields in this order. Jackson would fill in missing
/// fields and turn a number into a string; this does not, so that what passes here passes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Where it is.
    pub ip: String,
    /// Its port, as a string.
    pub port: String,
    /// When it was written, in ms by the writer's clock.
    pub timestamp: i64,
}

/// A node as a Java Leaf server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// What comes before the `-`: `ip:port`.
    pub owner: String,
    /// The worker ID, which comes behind.
    pub worker: i32,
    /// What is in it.
    pub endpoint: Endpoint,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum Refusal {
    /// What it recorded is later than its clock.
    Clock {
        /// In ms.
        recorded: i64,
        /// In ms.
        now: i64,
    },
    /// A name in the tree that it does not understand, whosever it is.
    Name(String),
    /// Data that it does not understand, and why.
    Data(String),
    /// What ZooKeeper said.
    ZooKeeper(Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock { recorded, now } => {
                write!(formatter, "the node says {recorded}, and the clock only {now}")
            }
            Self::Name(name) => write!(formatter, "cannot understand the name {name:?}"),
            Self::Data(reason) => write!(formatter, "cannot understand the data: {reason}"),
            Self::ZooKeeper(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::ZooKeeper(error)
    }
}

impl JavaLeaf {
    /// A server by a connect string, with `leaf.name`, at an address.
    #[must_use]
    pub fn at(servers: &str, name: &str, ip: &str, port: u16) -> Self {
        Self {
            servers: servers.to_owned(),
            name: name.to_owned(),
            ip: ip.to_owned(),
            port: port.to_string(),
            interval: Duration::from_secs(3),
            clock_ms: 0,
        }
    }

    /// Reports in another interval than 3 s.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// With a clock that is so many ms ahead, or behind if negative.
    #[must_use]
    pub fn with_clock(mut self, ahead_ms: i64) -> Self {
        self.clock_ms = ahead_ms;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// Why it does not start. With a file of an earlier start, Java Leaf would take the worker ID
    /// that is there.
    pub fn start(&self) -> Result<Running, Refusal> {
        let tree = Tree::at(&self.servers);
        let (node, worker) = self.find_or_create(&tree)?;
        let shared = Arc::new(Shared {
            leaf: self.clone(),
            tree,
            node,
            clock_ms: AtomicI64::new(self.clock_ms),
            reports: AtomicU64::new(0),
        });
        let (sender, ended) = channel();
        let reporting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            // A second first, and then three.
            let mut pause = reporting.leaf.interval / 3;
            let mut last = 0;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                reporting.report(&mut last);
                pause = reporting.leaf.interval;
            }
        });
        Ok(Running { worker, shared, reporter: Some((sender, thread)) })
    }

    /// The own node's path, and the worker ID.
    fn find_or_create(&self, tree: &Tree) -> Result<(String, i32), Refusal> {
        let forever = forever(&self.name);
        let keys = match tree.call(async |client| client.list_children(&forever).await) {
            // The first of all servers; whoever is first beside it gets 0 as well.
            Err(Error::NoNode) => return Ok((self.create(tree)?, 0)),
            keys => keys?,
        };
        let owner = format!("{}:{}", self.ip, self.port);
        let mut own = None;
        for key in keys {
            let (first, number) = split(&key)?;
            if first == owner {
                own = Some((format!("{forever}/{key}"), number));
            }
        }
        let Some((node, worker)) = own else {
            let node = self.create(tree)?;
            // It splits the whole path, so a `-` in `leaf.name` is its end.
            let (_, worker) = split(&node)?;
            return Ok((node, worker));
        };
        let (data, _) = tree.call(async |client| client.get_data(&node).await)?;
        let (recorded, now) = (Endpoint::parse(&data)?.timestamp, now(self.clock_ms));
        if recorded > now {
            return Err(Refusal::Clock { recorded, now });
        }
        Ok((node, worker))
    }

    fn create(&self, tree: &Tree) -> Result<String, Error> {
        let prefix = format!("{}/{}:{}-", forever(&self.name), self.ip, self.port);
        let data = self.data(self.clock_ms);
        let mode = CreateMode::PersistentSequential;
        tree.call(async |client| tree::create(client, mode, &prefix, data.as_bytes()).await)
    }

    fn data(&self, clock_ms: i64) -> String {
        let (ip, port, timestamp) = (self.ip.clone(), self.port.clone(), now(clock_ms));
        serde_json::to_string(&Endpoint { ip, port, timestamp }).expect("strings and a number")
    }
}

impl Running {
    /// Its worker ID.
    #[must_use]
    pub const fn worker(&self) -> i32 {
        self.worker
    }

    /// The path of its node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.shared.node
    }

    /// How often it has reported its time.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.shared.reports.load(Ordering::SeqCst)
    }

    /// Steps its clock: so many ms ahead, or behind if negative.
    pub fn set_clock(&self, ahead_ms: i64) {
        self.shared.clock_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.reporter.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Writes over whatever is there, unless the clock is behind the last report. A failure is
    /// logged, and the next report comes all the same.
    fn report(&self, last: &mut i64) {
        let clock_ms = self.clock_ms.load(Ordering::SeqCst);
        if now(clock_ms) < *last {
            return;
        }
        let data = self.leaf.data(clock_ms);
        let written = self.tree.call_within(REPORT, async |client| {
            client.set_data(&self.node, data.as_bytes(), None).await
        });
        if written.is_ok() {
            *last = now(clock_ms);
            self.reports.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Endpoint {
    /// # Errors
    /// When there is anything else than an IP and a port, as strings, and a timestamp.
    fn parse(data: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(data)
            .map_err(|error| Refusal::Data(format!("{error}: {}", String::from_utf8_lossy(data))))
    }
}

/// All nodes of a `leaf.name`, in order of their numbers, read as a Java Leaf server reads its own.
///
/// # Errors
/// What it would not understand.
pub fn records(tree: &Tree, name: &str) -> Result<Vec<Record>, Refusal> {
    let forever = forever(name);
    let keys = tree.call(async |client| client.list_children(&forever).await)?;
    let mut records = Vec::new();
    for name in keys {
        let (owner, worker) = split(&name)?;
        let path = format!("{forever}/{name}");
        let (data, _) = tree.call(async |client| client.get_data(&path).await)?;
        let (owner, endpoint) = (owner.to_owned(), Endpoint::parse(&data)?);
        records.push(Record { owner, worker, endpoint, name });
    }
    records.sort_unstable_by_key(|record| record.worker);
    Ok(records)
}

/// Where the nodes of a `leaf.name` are.
#[must_use]
pub fn forever(name: &str) -> String {
    format!("/snowflake/{name}/forever")
}

/// The first two parts between `-`, the second a number.
fn split(text: &str) -> Result<(&str, i32), Refusal> {
    let mut parts = text.split('-');
    let (first, second) = (parts.next(), parts.next());
    let number = second.and_then(|second| second.parse().ok());
    first.zip(number).ok_or_else(|| Refusal::Name(text.to_owned()))
}

fn now(ahead_ms: i64) -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before 292 million years") + ahead_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_java_does() {
        assert_eq!(split("10.0.0.1:80-0000000012").unwrap(), ("10.0.0.1:80", 12));
        assert_eq!(split("a-1-b").unwrap(), ("a", 1));
        for wrong in ["10.0.0.1:80", "a-", "a-b-0000000001", "pod-1x", "a-99999999999", ""] {
            assert!(matches!(split(wrong), Err(Refusal::Name(_))), "{wrong:?}");
        }
    }

    #[test]
    fn data_are_exactly_three_fields() {
        let endpoint = Endpoint::parse(br#"{"ip":"10.0.0.1","port":"80","timestamp":5}"#).unwrap();
        assert_eq!((endpoint.ip.as_str(), endpoint.port.as_str()), ("10.0.0.1", "80"));
        assert_eq!(
            serde_json::to_string(&endpoint).unwrap(),
            r#"{"ip":"10.0.0.1","port":"80","timestamp":5}"#
        );
        for wrong in [
            r#"{"ip":"10.0.0.1","port":"80","timestamp":5,"ceiling":6}"#,
            r#"{"ip":"10.0.0.1","port":80,"timestamp":5}"#,
            r#"{"ip":"10.0.0.1","port":"80","timestamp":"5"}"#,
            r#"{"ip":"10.0.0.1","port":"80","timestamp":5.0}"#,
            r#"{"ip":"10.0.0.1","port":"80"}"#,
            r#"{"ip":"10.0.0.1","port":"80","timestamp":5} {}"#,
            "[]",
            "",
        ] {
            assert!(matches!(Endpoint::parse(wrong.as_bytes()), Err(Refusal::Data(_))), "{wrong}");
        }
    }
}
