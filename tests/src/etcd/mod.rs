//! Real etcd clusters: private members in folders of their own. Tests can kill, freeze, wipe and restore
//! them, and read and write keys as an operator does.

mod ctl;
pub(crate) mod gateway;
mod host;
mod member;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use gateway::{EtcdKey, EtcdWatch};
pub use host::LoadedHost;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::certificates::Certificates;
use crate::daemon::Home;
use ctl::Ctl;
use member::Member;

/// The shortest time limit for an answer of a member that may hang.
const PROBE: Duration = Duration::from_millis(500);

/// More than a cluster takes to elect a leader and to serve.
const ENOUGH: Duration = Duration::from_secs(20);

/// Members with common keys. They are numbered from 0 and keep their ports. They end when this is dropped
/// or the test process ends.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
    ctl: Ctl,
}

/// What a cluster is started with.
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    /// Further arguments, such as `--auth-token-ttl=1`.
    pub arguments: Vec<String>,
    /// Serve clients with TLS, and only those with a certificate.
    pub certificates: Option<Certificates>,
}

/// A snapshot of all keys.
#[derive(Debug, Clone)]
pub struct Snapshot {
    file: PathBuf,
}

impl Snapshot {
    /// The snapshot in this file.
    #[must_use]
    pub fn in_file(file: &str) -> Self {
        Self { file: file.into() }
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &str {
        self.file.to_str().expect("a path")
    }
}

/// A daemon that takes its worker ID from etcd and registers as `identity`. Its timeouts are short, so that
/// it notices within seconds that it cannot reach etcd.
#[must_use]
pub fn instance(folder: &Path, endpoints: &str, identity: &str) -> Home {
    Home::new(folder)
        .with("WORKER_REGISTRY", "etcd")
        .with("ETCD_ENDPOINTS", endpoints)
        .with_peer("127.0.0.1:0")
        .with("WORKER_IDENTITY", identity)
        .with("ETCD_SESSION_TIMEOUT", "2s")
        .with("ETCD_TIMEOUT", "500ms")
}

impl EtcdCluster {
    /// Starts one member for this test alone, without keys. It needs Debian's packages `etcd-server` and
    /// `etcd-client`.
    #[must_use]
    pub fn single() -> Self {
        Self::of(1)
    }

    /// Starts several members for this test alone. They serve while a majority runs.
    #[must_use]
    pub fn of(size: usize) -> Self {
        Self::with(size, &EtcdOptions::default())
    }

    /// As [`Self::of`], with options.
    #[must_use]
    pub fn with(size: usize, options: &EtcdOptions) -> Self {
        let members = Member::of(size, options);
        let endpoints: Vec<_> = members.iter().map(Member::url).collect();
        let ctl = Ctl::new(endpoints, options.certificates.as_ref());
        let cluster = Self { members, ctl };
        cluster.start_all();
        cluster
    }

    /// Number of members, running or not.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.members.len()
    }

    /// The value of `etcd.endpoints`.
    #[must_use]
    pub fn endpoints(&self) -> String {
        self.members.iter().map(Member::url).collect::<Vec<_>>().join(",")
    }

    /// The client port of a member, which stays the same over restarts.
    #[must_use]
    pub fn port(&self, member: usize) -> u16 {
        self.members[member].port()
    }

    /// The member that leads the cluster.
    #[must_use]
    pub fn leader(&self) -> usize {
        let began = Instant::now();
        loop {
            let leads = |member: &Member| self.is_up(member) && self.ctl.leads(&member.url());
            if let Some(leader) = self.members.iter().position(leads) {
                return leader;
            }
            assert!(began.elapsed() < PATIENCE, "no member leads\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills a member (SIGKILL), frozen or not.
    pub fn kill(&self, member: usize) {
        self.members[member].process().kill();
    }

    /// Starts a killed member again with the same data and port. Waits until it serves, unless most members
    /// are down.
    pub fn start_again(&self, member: usize) {
        self.members[member].spawn();
        if self.is_quorate() {
            self.wait_serving();
        }
    }

    /// Freezes a member (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self, member: usize) {
        self.members[member].process().freeze();
    }

    /// Resumes a frozen member.
    pub fn thaw(&self, member: usize) {
        self.members[member].process().thaw();
        if self.is_quorate() {
            self.wait_serving();
        }
    }

    /// Kills all members that run.
    pub fn kill_all(&self) {
        let running = self.members.iter().filter(|member| member.process().is_running());
        running.for_each(|member| member.process().kill());
    }

    /// Starts all members that do not run, and waits until they serve.
    pub fn start_all(&self) {
        let stopped = self.members.iter().filter(|member| !member.process().is_running());
        stopped.for_each(Member::spawn);
        self.wait_serving();
    }

    /// Freezes all members that run.
    pub fn freeze_all(&self) {
        let running = self.members.iter().filter(|member| member.process().is_running());
        running.for_each(|member| member.process().freeze());
    }

    /// Resumes all frozen members, and waits until they serve.
    pub fn thaw_all(&self) {
        self.members.iter().for_each(|member| member.process().thaw());
        self.wait_serving();
    }

    /// Kills all members, deletes their data and starts them again, like a new cluster at the same place.
    pub fn wipe(&self) {
        self.kill_all();
        self.members.iter().for_each(Member::wipe);
        self.start_all();
    }

    /// Saves all keys, as an operator does, while the members serve.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("snapshot-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let file = self.members[0].process().home().folder().join("tmp").join(name);
        let first = self.ctl.at(&self.members[0].url());
        let snapshot = Snapshot { file };
        first.run(&["snapshot", "save", snapshot.file()]);
        snapshot
    }

    /// Kills all members, restores the snapshot into each, and starts them.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.kill_all();
        self.members.iter().for_each(|member| member.restore(&snapshot.file));
        self.start_all();
    }

    /// Runs etcdctl to success, and returns what it prints. Most members have to run.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.ctl.run(arguments)
    }

    /// Runs etcdctl on one member, to success.
    pub fn ctl_at(&self, member: usize, arguments: &[&str]) -> String {
        self.ctl.at(&self.members[member].url()).run(arguments)
    }

    /// Turns authentication on. `user` has the password `password`, and may read and write the keys below
    /// `prefix`.
    pub fn enable_authentication(&mut self, user: &str, password: &str, prefix: &str) {
        let root = format!("root:{password}-of-root");
        for arguments in [
            &["user", "add", &root][..],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "leafd"],
            &["role", "grant-permission", "leafd", "--prefix=true", "readwrite", prefix],
            &["user", "add", &format!("{user}:{password}")],
            &["user", "grant-role", user, "leafd"],
            &["auth", "enable"],
        ] {
            self.ctl.run(arguments);
        }
        self.ctl.authenticate_as(&root);
    }

    /// All keys below a prefix, with their values as text.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> BTreeMap<String, String> {
        self.ctl.keys(prefix)
    }

    /// Asks a member that runs by its gateway, again until it answers: a leader may just be elected. The
    /// cluster has to be one without TLS and users.
    #[must_use]
    pub fn ask(&self, path: &str, request: &Value) -> Value {
        let began = Instant::now();
        for member in self.members.iter().cycle() {
            if self.is_up(member) {
                match gateway::ask(member.port(), path, request) {
                    Ok(answer) => return answer,
                    Err(error) => assert!(began.elapsed() < PATIENCE, "{path}: {error}"),
                }
            }
            assert!(began.elapsed() < PATIENCE, "no member runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("there is no member")
    }

    /// A key that is there, as [`Self::ask`] finds it.
    #[must_use]
    pub fn key(&self, key: &str) -> Option<EtcdKey> {
        let answer = self.ask("/v3/kv/range", &json!({ "key": gateway::encode(key) }));
        EtcdKey::all(&answer).pop()
    }

    /// The sorted keys below a folder, without their values, as [`Self::ask`] finds them.
    #[must_use]
    pub fn keys_below(&self, folder: &str) -> Vec<String> {
        let [key, range_end] = ["/", "0"].map(|end| gateway::encode(&format!("{folder}{end}")));
        let request = json!({ "key": key, "range_end": range_end, "keys_only": true });
        let found = EtcdKey::all(&self.ask("/v3/kv/range", &request));
        found.into_iter().map(|found| found.key).collect()
    }

    /// Adds to the number in a key, as one step.
    pub fn add(&self, key: &str, more: u64) {
        let began = Instant::now();
        loop {
            let (before, encoded) = (self.key(key), gateway::encode(key));
            let revision = before.as_ref().map_or(0, |it| it.revision).to_string();
            let number: u64 = before.map_or(0, |it| it.value.parse().expect("a number"));
            let value = gateway::encode(&(number + more).to_string());
            let unchanged = json!({ "target": "MOD", "key": encoded, "mod_revision": revision });
            let put = json!({ "request_put": { "key": encoded, "value": value } });
            let request = json!({ "compare": [unchanged], "success": [put] });
            if self.ask("/v3/kv/txn", &request)["succeeded"] == true {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{key} changes all the time");
        }
    }

    /// Watches all keys of leafd at the first member until it ends.
    #[must_use]
    pub fn watch(&self) -> EtcdWatch {
        EtcdWatch::start(self.port(0))
    }

    /// The names in a folder of a fleet: `forever`, `temporary` or `free`.
    #[must_use]
    pub fn names(&self, fleet: &str, folder: &str) -> Vec<String> {
        let prefix = format!("/leafd/{fleet}/{folder}/");
        let keys = self.keys(&prefix).into_keys();
        let names = keys.filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned));
        names.filter(|name| !name.contains('/')).collect()
    }

    /// The leases of a fleet's live instances, as etcdctl takes them.
    #[must_use]
    pub fn leases(&self, fleet: &str) -> Vec<String> {
        let prefix = format!("/leafd/{fleet}/temporary/");
        let text = self.ctl(&["get", "--prefix", &prefix, "--write-out=json"]);
        let found: Value = serde_json::from_str(&text).expect("JSON");
        let markers = found["kvs"].as_array().into_iter().flatten();
        markers.map(|marker| format!("{:x}", marker["lease"].as_i64().expect("a lease"))).collect()
    }

    /// Waits until every member that runs and is not frozen answers. Most members have to run.
    pub fn wait_serving(&self) {
        assert!(self.is_quorate(), "most members do not run");
        let began = Instant::now();
        for member in self.members.iter().filter(|member| self.is_up(member)) {
            let ctl = self.ctl.at(&member.url());
            while !ctl.answers_within(PROBE.max(began.elapsed() / 2).min(ENOUGH)) {
                let ended = member.process().has_ended();
                assert!(!ended, "etcd ended by itself\n{}", member.process().log());
                assert!(began.elapsed() < PATIENCE, "no answer\n{}", self.logs());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn is_up(&self, member: &Member) -> bool {
        member.process().is_running() && !member.process().is_frozen()
    }

    fn is_quorate(&self) -> bool {
        self.members.iter().filter(|member| self.is_up(member)).count() > self.size() / 2
    }

    fn logs(&self) -> String {
        self.members.iter().map(|member| member.process().log().to_string()).collect()
    }
}

/// A test that fails shows the end of what its members saw.
impl Drop for EtcdCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for member in &self.members {
                let log = member.process().log().to_string();
                let lines: Vec<_> = log.lines().collect();
                eprintln!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}
