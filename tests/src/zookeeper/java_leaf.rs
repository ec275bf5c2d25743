//! A stand-in for a Java Leaf server with snowflake IDs. It takes its worker ID from ZooKeeper's tree or
//! from its own file, reads and writes what Java Leaf does, and rejects what Java Leaf cannot parse. It
//! is assumed to issue IDs from its start to its end, whether ZooKeeper is reachable or not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leaf_client::Layout;
use leaf_client::wire::Run;
use serde::{Deserialize, Serialize};
use zookeeper_client::{CreateMode, Error};

use super::{Tree, tree};

/// The timeout of a report.
const REPORT: Duration = Duration::from_secs(10);

/// How often a server that returns late checks whether ZooKeeper is reachable.
const LOOK: Duration = Duration::from_millis(100);

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct JavaLeaf {
    servers: String,
    name: String,
    ip: String,
    port: String,
    interval: Duration,
    clock_ms: i64,
    returns_after: Duration,
    folder: Option<PathBuf>,
}

/// A running server. It issues IDs until it is dropped, and reports its time unless it took its worker
/// ID from its file.
#[derive(Debug)]
pub struct Running {
    worker: i32,
    /// Its clock at the start, in ms since 1970.
    began_ms: i64,
    shared: Arc<Shared>,
    reporter: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    leaf: JavaLeaf,
    tree: Tree,
    /// The path of its node; none if its worker ID is from its file.
    node: Option<String>,
    clock_ms: AtomicI64,
    reports: AtomicU64,
}

/// The content of a node, with the fields in Jackson's order. Jackson would fill in missing fields and
/// accept a number as a string. This is stricter, so that what passes here also passes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The server's IP address.
    pub ip: String,
    /// The server's port, as a string.
    pub port: String,
    /// When the node was written, in ms since 1970 by the writer's clock.
    pub timestamp: i64,
}

/// A node as a Java Leaf server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name of the node.
    pub name: String,
    /// The part before the `-`: `ip:port`.
    pub owner: String,
    /// The worker ID, which is the part after the `-`.
    pub worker: i32,
    /// The content of the node.
    pub endpoint: Endpoint,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum Refusal {
    /// The time in its node is later than its clock.
    Clock {
        /// The time in its node, in ms since 1970.
        recorded: i64,
        /// Its clock, in ms since 1970.
        now: i64,
    },
    /// A node of any server has a name that it cannot parse.
    Name(String),
    /// Its node has data that it cannot parse, with the reason.
    Data(String),
    /// An error of ZooKeeper.
    ZooKeeper(Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock { recorded, now } => {
                write!(
                    formatter,
                    "the time in the node is {recorded}, which is after the clock's {now}"
                )
            }
            Self::Name(name) => write!(formatter, "cannot parse the name {name:?}"),
            Self::Data(reason) => write!(formatter, "cannot parse the data: {reason}"),
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
    /// A server with this connect string, this `leaf.name`, and this address.
    #[must_use]
    pub fn at(servers: &str, name: &str, ip: &str, port: u16) -> Self {
        Self {
            servers: servers.to_owned(),
            name: name.to_owned(),
            ip: ip.to_owned(),
            port: port.to_string(),
            interval: Duration::from_secs(3),
            clock_ms: 0,
            returns_after: Duration::ZERO,
            folder: None,
        }
    }

    /// Makes the first report after an outage this late, as the client may take that long to connect.
    #[must_use]
    pub fn with_late_return(mut self, after: Duration) -> Self {
        self.returns_after = after;
        self
    }

    /// Gives it a temporary folder for its file. It takes its worker ID from there if ZooKeeper or the
    /// recorded time keeps it from starting otherwise.
    #[must_use]
    pub fn with_file_in(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// The folder of its file, which an operator may remove.
    #[must_use]
    pub fn file_folder(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(&self.name).join("leafconf").join(&self.port))
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.file_folder()?.join("workerID.properties"))
    }

    /// Writes its file, unless the folder exists without the file.
    fn keep(&self, worker: i32) {
        let Some(file) = self.file() else { return };
        let folder = file.parent().expect("it is in a folder");
        if file.exists() || !folder.exists() {
            std::fs::create_dir_all(folder).expect("its folder");
            std::fs::write(&file, format!("workerID={worker}")).expect("its file");
        }
    }

    fn kept(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.file()?).ok()?;
        text.lines().find_map(|line| line.strip_prefix("workerID=")?.trim().parse().ok())
    }

    /// Sets another interval between reports than 3 s.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Gives it a clock that is this many ms ahead, or behind if negative.
    #[must_use]
    pub fn with_clock(mut self, ahead_ms: i64) -> Self {
        self.clock_ms = ahead_ms;
        self
    }

    /// Starts it. If it cannot start, it takes the worker ID from the file of an earlier start, whatever
    /// the reason; without such a file it fails.
    pub fn start(&self) -> Result<Running, Refusal> {
        let tree = Tree::at(&self.servers);
        let (node, worker) = match self.find_or_create(&tree) {
            Ok((node, worker)) => {
                self.keep(worker);
                (Some(node), worker)
            }
            Err(refusal) => (None, self.kept().ok_or(refusal)?),
        };
        let shared = Arc::new(Shared {
            leaf: self.clone(),
            tree,
            node,
            clock_ms: AtomicI64::new(self.clock_ms),
            reports: AtomicU64::new(0),
        });
        let began_ms = now(self.clock_ms);
        if shared.node.is_none() {
            return Ok(Running { worker, began_ms, shared, reporter: None });
        }
        let (sender, ended) = channel();
        let reporting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            // The first report comes after a third of the interval.
            let mut pause = reporting.leaf.interval / 3;
            let mut last = 0;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let is_written = reporting.report(&mut last);
                pause = reporting.leaf.interval;
                if !is_written && !reporting.leaf.returns_after.is_zero() {
                    while !reporting.reaches_zookeeper() {
                        if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                            return;
                        }
                    }
                    pause = reporting.leaf.returns_after;
                }
            }
        });
        Ok(Running { worker, began_ms, shared, reporter: Some((sender, thread)) })
    }

    /// The path of its own node, and its worker ID.
    fn find_or_create(&self, tree: &Tree) -> Result<(String, i32), Refusal> {
        let forever = forever(&self.name);
        let keys = match tree.call(async |client| client.list_children(&forever).await) {
            // The first server gets 0. If two are first at the same time, both get 0.
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
            // It splits the whole path, so a `-` in `leaf.name` makes it fail.
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
    /// The worker ID that it issues with.
    #[must_use]
    pub const fn worker(&self) -> i32 {
        self.worker
    }

    /// The path of its node. It must not have started from its file.
    #[must_use]
    pub fn node(&self) -> &str {
        self.shared.node.as_deref().expect("it is registered")
    }

    /// Whether it has a node. Otherwise its worker ID is from its file, and it never reports.
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        self.reporter.is_some()
    }

    /// All IDs that it may have issued so far.
    #[must_use]
    pub fn issued(&self) -> Issued {
        let until_ms = now(self.shared.clock_ms.load(Ordering::SeqCst)) + 1;
        let [from_ms, until_ms] =
            [self.began_ms, until_ms].map(|ms| u64::try_from(ms).expect("after 1970"));
        let worker = u64::try_from(self.worker).expect("a worker ID");
        Issued { worker, from_ms, until_ms }
    }

    /// Stops it, and returns all IDs that it may have issued.
    #[must_use]
    pub fn stop(self) -> Issued {
        self.issued()
    }

    /// Number of its reports so far.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.shared.reports.load(Ordering::SeqCst)
    }

    /// Steps its clock to this many ms ahead, or behind if negative.
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
    /// Overwrites its node, unless the clock is behind the last report. Java Leaf logs a failure and goes
    /// on. Returns whether it did not fail.
    fn report(&self, last: &mut i64) -> bool {
        let clock_ms = self.clock_ms.load(Ordering::SeqCst);
        let Some(node) = self.node.as_ref().filter(|_| now(clock_ms) >= *last) else {
            return true;
        };
        let data = self.leaf.data(clock_ms);
        let written = self
            .tree
            .call_within(REPORT, async |client| client.set_data(node, data.as_bytes(), None).await);
        if written.is_ok() {
            *last = now(clock_ms);
            self.reports.fetch_add(1, Ordering::SeqCst);
        }
        written.is_ok()
    }

    fn reaches_zookeeper(&self) -> bool {
        self.tree.call_within(LOOK, async |client| client.sync("/").await).is_ok()
    }
}

/// All IDs of one worker ID in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// The worker ID.
    pub worker: u64,
    /// The start of the period, in ms since 1970.
    pub from_ms: u64,
    /// The end of the period, exclusive, in ms since 1970.
    pub until_ms: u64,
}

/// How many of the IDs in `runs` one of `javas` may have issued too.
#[must_use]
pub fn duplicates(javas: &[Issued], runs: &[Run]) -> u64 {
    let is_double = |run: &&Run| {
        let id = Layout::LEAF.decode(run.first).expect("an ID of Java Leaf's layout");
        let has = |java: &Issued| {
            java.worker == id.worker && (java.from_ms..java.until_ms).contains(&id.unix_ms)
        };
        javas.iter().any(has)
    };
    runs.iter().filter(is_double).map(|run| u64::from(run.count)).sum()
}

impl Endpoint {
    /// Fails on anything but an IP address and a port, both strings, and a timestamp.
    fn parse(data: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(data)
            .map_err(|error| Refusal::Data(format!("{error}: {}", String::from_utf8_lossy(data))))
    }
}

/// All nodes of a `leaf.name` by worker ID, parsed as a Java Leaf server parses its own. Fails on what
/// that cannot parse.
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

/// The parent of the nodes of a `leaf.name`.
#[must_use]
pub fn forever(name: &str) -> String {
    format!("/snowflake/{name}/forever")
}

/// The first two parts of a text that is separated by `-`. The second has to be a number.
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
    fn ids_of_the_same_worker_id_and_time_are_counted_as_duplicates() {
        let layout = Layout::LEAF;
        let run = |ms, worker, count| {
            let first = layout.compose(ms - layout.epoch_ms(), worker, 0).unwrap();
            Run { first, count }
        };
        let ms = 1_700_000_000_000;
        let java = Issued { worker: 3, from_ms: ms, until_ms: ms + 10 };
        let runs = [run(ms - 1, 3, 1), run(ms, 3, 2), run(ms + 9, 3, 4), run(ms + 10, 3, 8)];
        assert_eq!(duplicates(&[java], &runs), 6);
        assert_eq!(duplicates(&[java], &[run(ms, 4, 1)]), 0);
    }

    #[test]
    fn a_file_is_not_written_again_if_it_was_removed_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let leaf = JavaLeaf::at("nowhere", "leaf", "10.0.0.1", 8080).with_file_in(folder.path());
        leaf.keep(7);
        assert_eq!(leaf.kept(), Some(7));
        std::fs::remove_file(leaf.file().unwrap()).unwrap();
        leaf.keep(8);
        assert_eq!(leaf.kept(), None);
        std::fs::remove_dir_all(leaf.file_folder().unwrap()).unwrap();
        leaf.keep(9);
        assert_eq!(leaf.kept(), Some(9));
    }

    #[test]
    fn names_are_split_at_hyphens_as_java_leaf_does() {
        assert_eq!(split("10.0.0.1:80-0000000012").unwrap(), ("10.0.0.1:80", 12));
        assert_eq!(split("a-1-b").unwrap(), ("a", 1));
        for wrong in ["10.0.0.1:80", "a-", "a-b-0000000001", "pod-1x", "a-99999999999", ""] {
            assert!(matches!(split(wrong), Err(Refusal::Name(_))), "{wrong:?}");
        }
    }

    #[test]
    fn data_with_anything_but_the_three_fields_are_rejected() {
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
