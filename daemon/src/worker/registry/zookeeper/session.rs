//! The calls to ZooKeeper: a session, the readings of the tree, the writes. Every call has a time
//! limit, and no rule of the claim is here.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use zookeeper_client::{
    Acl, Acls, Client, CreateMode, Error, MultiWriteError, SessionId, SessionState, Stat,
    StateWatcher,
};

use crate::worker::claim::name::NodeName;
use crate::worker::claim::quiet::Vantage;
use crate::worker::claim::record::{self, Fleet, Live};
use crate::worker::claim::view::{self, Entry, Op, Versioned, View, Wanted};
use crate::config::Ensemble;
use crate::environment::Environment;
use crate::secret::Secret;

/// As many of the worker IDs that were given back are looked at.
const MOST_FREE: usize = 32;

/// As many records are asked for before the first has come.
const AT_ONCE: usize = 128;

/// What a session is opened with.
#[derive(Debug, Clone)]
pub struct Access {
    /// The servers and the chroot.
    pub ensemble: Ensemble,
    /// Java Leaf's `leaf.name`.
    pub name: String,
    /// `USER:PASSWORD`.
    pub auth: Option<Secret>,
    /// For the nodes that are made.
    pub acls: Vec<Acl>,
    /// After so long a session that is not heard of is over.
    pub session_timeout: Duration,
    /// After so long a call has failed.
    pub timeout: Duration,
    /// What the fleet has to agree on.
    pub layout: String,
}

impl Access {
    /// The tree: `/snowflake/<name>` below the chroot.
    #[must_use]
    pub fn root(&self) -> String {
        format!("{}/snowflake/{}", self.ensemble.chroot, self.name)
    }
}

/// Why a call did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The tree is not as it was thought to be.
    #[error("the tree has changed in between")]
    Conflict,
    /// No answer, or a refusal. A write may have been executed.
    #[error("ZooKeeper at {servers}: {why}")]
    Failed {
        /// The servers.
        servers: String,
        /// What happened.
        why: String,
    },
}

/// What the servers' clock says.
#[derive(Debug, Clone, Copy)]
pub struct ServersClock {
    /// Their time (ms since 1970).
    pub now_ms: u64,
    /// Their epoch, see [`Vantage`].
    pub epoch: i64,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    environment: Environment,
    access: Access,
    root: String,
    continuity: Arc<Continuity>,
}

/// What interrupts the observation of the tree within one session.
#[derive(Debug)]
struct Continuity {
    states: Mutex<StateWatcher>,
    disturbances: AtomicU64,
}

impl Continuity {
    fn is_disturbed(&self) {
        self.disturbances.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was interrupted so far.
    fn disturbances(&self) -> u64 {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        // The client may have connected again by now, and nobody else would tell. Never put off
        // for other tasks.
        while tokio::task::unconstrained(states.changed()).now_or_never().is_some() {
            self.is_disturbed();
        }
        drop(states);
        self.disturbances.load(Ordering::Relaxed)
    }
}

fn failed(access: &Access, why: impl ToString) -> CallError {
    CallError::Failed { servers: access.ensemble.servers.join(","), why: why.to_string() }
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

impl Session {
    /// Opens one, and makes what the tree lacks.
    ///
    /// # Errors
    /// When no server answers in time, or they refuse.
    pub async fn open(access: &Access, environment: &Environment) -> Result<Self, CallError> {
        let mut servers = access.ensemble.servers.clone();
        // Not the whole fleet at the first one.
        environment.random().shuffle(&mut servers);
        let idle = access.timeout.min(access.session_timeout * 2 / 5);
        let mut connector = Client::connector()
            .with_session_timeout(access.session_timeout)
            .with_connection_timeout(idle)
            .with_fail_eagerly();
        if let Some(auth) = &access.auth {
            connector = connector.with_auth("digest", auth.expose().as_bytes());
        }
        let servers = servers.join(",");
        // A server that says nothing leaves time for another one.
        let limit = access.timeout * 2;
        let client = tokio::time::timeout(limit, connector.connect(&servers)).await;
        let client = client
            .map_err(|_| failed(access, no_answer(limit)))?
            .map_err(|error| failed(access, explain(&error)))?;
        let states = Mutex::new(client.state_watcher());
        let continuity = Arc::new(Continuity { states, disturbances: AtomicU64::new(0) });
        let environment = environment.clone();
        let (access, root) = (access.clone(), access.root());
        let this = Self { client, environment, access, root, continuity };
        this.prepare().await?;
        Ok(this)
    }

    /// Whether a server answers it at present. One that lost its connection is not waited for: an
    /// ensemble that went back to older data refuses it for as long as it lasts, and a new one can
    /// be had at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.client.session_id()
    }

    /// For how long the ensemble keeps it without hearing of it.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, CallError> {
        let limit = self.access.timeout;
        let why = match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if is_conflict(&error) => return Err(CallError::Conflict),
            Ok(Err(error)) => explain(&error),
            Err(_) => no_answer(limit),
        };
        self.continuity.is_disturbed();
        Err(failed(&self.access, why))
    }

    /// `None` when there is no such node.
    async fn find<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, CallError> {
        let call = async {
            match call.await {
                Err(Error::NoNode) => Ok(None),
                other => other.map(Some),
            }
        };
        self.call(call).await
    }

    /// Makes the folders of the tree, and what its instances must agree on.
    async fn prepare(&self) -> Result<(), CallError> {
        for folder in [view::FOREVER, view::TEMPORARY, view::FREE] {
            self.ensure(&self.path(folder), &[]).await?;
        }
        let fleet = Fleet { version: record::VERSION, layout: self.access.layout.clone() };
        self.ensure(&self.path(view::FLEET), &record::write(&fleet)).await?;
        self.ensure(&self.path(view::CLOCK), &[]).await
    }

    /// Makes a node and those above it, where they are missing.
    async fn ensure(&self, path: &str, data: &[u8]) -> Result<(), CallError> {
        // Looked at first: who may not write above the tree can still use it.
        if self.call(self.client.check_stat(path)).await?.is_some() {
            return Ok(());
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parent.is_empty() {
            Box::pin(self.ensure(parent, &[])).await?;
        }
        let options = CreateMode::Persistent.with_acls(Acls::new(&self.access.acls));
        let create = async {
            match self.client.create(path, data, &options).await {
                Ok(_) | Err(Error::NodeExists) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.call(create).await
    }

    /// Reads the tree.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn look(&self, wanted: &Wanted) -> Result<View, CallError> {
        match self.look_once(wanted).await {
            // The tree was deleted.
            Err(CallError::Conflict) => {
                self.prepare().await?;
                self.look_once(wanted).await
            }
            other => other,
        }
    }

    async fn look_once(&self, wanted: &Wanted) -> Result<View, CallError> {
        // A write goes to the leader and comes back: what is read after it is at least as new.
        let clock = self.clock().await?;
        // Before the names: a worker ID that returns afterwards changes its version.
        let fleet = self.read(view::FLEET).await?.ok_or(CallError::Conflict)?;
        let (nodes, stat) = self.names_and_stat(view::FOREVER).await?;
        let (live, _) = self.names_and_stat(view::TEMPORARY).await?;
        let (free, _) = self.names_and_stat(view::FREE).await?;
        let of_interest = nodes.iter().filter(|name| {
            // Few live instances are asked about, so this is not quadratic but for a survey.
            let is_live = wanted.survey && live.binary_search(name).is_ok();
            wanted.includes(name, is_live)
        });
        let entries = self.entries(of_interest).await?;
        let own = live.iter().filter(|name| name.identity() == wanted.identity);
        let lives = self.each(own, view::temporary).await?;
        let mut some: Vec<_> = free.iter().collect();
        self.environment.random().shuffle(&mut some);
        some.sort_by_key(|name| name.identity() != wanted.identity);
        let frees = self.each(some.into_iter().take(MOST_FREE), view::free).await?;
        Ok(View {
            vantage: self.vantage(clock.epoch),
            now_ms: clock.now_ms,
            fleet,
            next_sequence: next_sequence(&stat),
            entries,
            lives,
            frees,
            nodes,
            live,
            free,
        })
    }

    /// The names below a folder in order, and the folder's state.
    async fn names_and_stat(&self, folder: &str) -> Result<(Vec<NodeName>, Stat), CallError> {
        let (names, stat) = self.call(self.client.get_children(&self.path(folder))).await?;
        let mut names: Vec<_> = names.iter().filter_map(|name| NodeName::parse(name)).collect();
        names.sort_unstable();
        Ok((names, stat))
    }

    /// Every worker ID that has an owner, every live instance, and every one that was given back.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn names(&self) -> Result<[Vec<NodeName>; 3], CallError> {
        let (nodes, _) = self.names_and_stat(view::FOREVER).await?;
        let (live, _) = self.names_and_stat(view::TEMPORARY).await?;
        let (free, _) = self.names_and_stat(view::FREE).await?;
        Ok([nodes, live, free])
    }

    /// ZooKeeper's time, by a write.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn clock(&self) -> Result<ServersClock, CallError> {
        let stat = self.call(self.client.set_data(&self.path(view::CLOCK), &[], None)).await?;
        Ok(ServersClock { now_ms: ms(stat.mtime), epoch: stat.mzxid >> 32 })
    }

    /// From where everything was seen that was read since the clock told `epoch`. To be asked after
    /// the reading, so that no interruption of it is missed.
    #[must_use]
    pub fn vantage(&self, epoch: i64) -> Vantage {
        Vantage {
            session: self.id().0,
            disturbances: self.continuity.disturbances(),
            epoch,
            session_ms: u64::try_from(self.timeout().as_millis()).unwrap_or(u64::MAX),
        }
    }

    async fn read<T: DeserializeOwned>(
        &self,
        below: &str,
    ) -> Result<Option<Versioned<Result<T, String>>>, CallError> {
        let found = self.find(self.client.get_data(&self.path(below))).await?;
        Ok(found.map(|(data, stat)| Versioned {
            value: record::read(&data),
            version: stat.version,
            created: stat.czxid,
            modified: stat.mzxid,
            modified_ms: ms(stat.mtime),
        }))
    }

    /// The records of nodes that are there.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn each<'a, T: DeserializeOwned>(
        &self,
        names: impl Iterator<Item = &'a NodeName>,
        path: impl Fn(&NodeName) -> String,
    ) -> Result<Vec<(NodeName, Versioned<Result<T, String>>)>, CallError> {
        let names: Vec<_> = names.collect();
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let reads = names.iter().map(|name| {
                let path = path(name);
                async move { self.read(&path).await }
            });
            for (name, record) in names.iter().zip(join_all(reads).await) {
                found.extend(record?.map(|record| ((*name).clone(), record)));
            }
        }
        Ok(found)
    }

    /// The records of worker IDs that have an owner.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn entries<'a>(
        &self,
        names: impl Iterator<Item = &'a NodeName>,
    ) -> Result<Vec<Entry>, CallError> {
        let leafs = self.each(names, view::forever).await?;
        let mut entries = Vec::with_capacity(leafs.len());
        for leafs in leafs.chunks(AT_ONCE) {
            let reads = leafs.iter().map(|(name, _)| {
                let path = view::holder(name);
                async move { self.read(&path).await }
            });
            for ((name, leaf), holder) in leafs.iter().zip(join_all(reads).await) {
                entries.push(Entry { name: name.clone(), leaf: leaf.clone(), holder: holder? });
            }
        }
        Ok(entries)
    }

    /// Where the other live instances' clocks can be asked for, and under which names.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn peers(&self, nonce: &str) -> Result<Vec<String>, CallError> {
        let (live, _) = self.names_and_stat(view::TEMPORARY).await?;
        let lives = self.each::<Live>(live.iter(), view::temporary).await?;
        let others = lives.into_iter().filter_map(|(_, live)| live.value.ok());
        let others = others.filter(|live| live.nonce != nonce && live.port != 0);
        Ok(others.map(|live| join(&live.ip, live.port)).collect())
    }

    /// Makes a node with a sequence below `forever`.
    ///
    /// # Errors
    /// When the call fails; the node may have been made.
    pub async fn create(&self, prefix: &str, data: &[u8]) -> Result<NodeName, CallError> {
        let path = self.path(&format!("{}/{prefix}", view::FOREVER));
        let options = CreateMode::PersistentSequential.with_acls(Acls::new(&self.access.acls));
        let (_, sequence) = self.call(self.client.create(&path, data, &options)).await?;
        let name = format!("{prefix}{sequence}");
        NodeName::parse(&name).ok_or_else(|| {
            failed(&self.access, format!("it made the node {name:?}, beyond all worker IDs"))
        })
    }

    /// Writes, all or nothing.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when the tree is not as expected: nothing was written.
    pub async fn commit(&self, ops: &[Op]) -> Result<(), CallError> {
        let acls = Acls::new(&self.access.acls);
        let mut writer = self.client.new_multi_writer();
        for op in ops {
            let added = match op {
                Op::Check(path, version) => writer.add_check_version(&self.path(path), *version),
                Op::Create(path, data) => {
                    let options = CreateMode::Persistent.with_acls(acls);
                    writer.add_create(&self.path(path), data, &options)
                }
                Op::CreateEphemeral(path, data) => {
                    let options = CreateMode::Ephemeral.with_acls(acls);
                    writer.add_create(&self.path(path), data, &options)
                }
                Op::Set(path, data, version) => {
                    writer.add_set_data(&self.path(path), data, *version)
                }
                Op::Delete(path, version) => writer.add_delete(&self.path(path), Some(*version)),
            };
            added.map_err(|error| failed(&self.access, explain(&error)))?;
        }
        let commit = writer.commit();
        let commit = async move {
            commit.await.map(drop).map_err(|error| match error {
                MultiWriteError::RequestFailed { source }
                | MultiWriteError::OperationFailed { source, .. } => source,
            })
        };
        self.call(commit).await
    }
}

/// The sequence that the next node gets: so many were made, of which `num_children` are left.
fn next_sequence(stat: &Stat) -> u64 {
    let made = (i64::from(stat.cversion) + i64::from(stat.num_children)) / 2;
    u64::try_from(made).unwrap_or(0)
}

fn ms(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

fn join(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

const fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::NoNode | Error::NodeExists | Error::BadVersion | Error::NotEmpty)
}

fn explain(error: &Error) -> String {
    match error {
        Error::NoHosts => "no server can be reached".to_owned(),
        Error::AuthFailed => "it refuses the authentication (zookeeper.auth)".to_owned(),
        Error::NoAuth => {
            "no right to read or write the tree (zookeeper.auth, the nodes' ACL)".into()
        }
        Error::InvalidAcl => {
            "it refuses the ACL (zookeeper.acl; \"creator\" needs zookeeper.auth)".to_owned()
        }
        other => other.to_string(),
    }
}
