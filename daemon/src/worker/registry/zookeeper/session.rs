//! A session with ZooKeeper: its calls, each with a time limit.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use zookeeper_client::{
    Acls, Client, CreateMode, Error, MultiWriteError, SessionState, Stat, StateWatcher,
};

use super::access::ZooKeeperAccess;
use crate::environment::Environment;
use crate::worker::claim::name::{self, NodeName};
use crate::worker::claim::quiet::Vantage;
use crate::worker::claim::record::{self, FleetRecord, FreeRecord, LeafRecord, LiveRecord};
use crate::worker::claim::view::{Versioned, WorkerEntry};
use crate::worker::claim::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::{
    Answer, Found, FoundAt, RegistryClock, RegistryError, RegistrySession, tree,
};

/// How many records are asked for before the first has come.
const AT_ONCE: usize = 128;

#[derive(Debug)]
pub(crate) struct ZooKeeperSession {
    client: Client,
    access: ZooKeeperAccess,
    root: String,
    continuity: Continuity,
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

    /// How often the observation was interrupted so far.
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

fn failed(access: &ZooKeeperAccess, why: impl std::fmt::Display) -> RegistryError {
    let servers = access.ensemble.servers.join(",");
    RegistryError::Failed(format!("ZooKeeper at {servers}: {why}"))
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

impl ZooKeeperSession {
    /// Opens a session, and makes what the tree lacks.
    ///
    /// # Errors
    /// When no server answers in time, or they refuse.
    pub(crate) async fn open(
        access: &ZooKeeperAccess,
        environment: &Environment,
    ) -> Result<Self, RegistryError> {
        let this = Self::join(access, environment).await?;
        this.make_folders().await?;
        Ok(this)
    }

    /// Opens a session, and writes nothing.
    ///
    /// # Errors
    /// When no server answers in time, or they refuse.
    pub(super) async fn join(
        access: &ZooKeeperAccess,
        environment: &Environment,
    ) -> Result<Self, RegistryError> {
        let mut servers = access.ensemble.servers.clone();
        // Spreads the fleet over the servers.
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
        let continuity = Continuity { states, disturbances: AtomicU64::new(0) };
        let (access, root) = (access.clone(), access.root());
        Ok(Self { client, access, root, continuity })
    }

    pub(super) fn log_opening(&self) {
        let (session, timeout) = (self.client.session_id(), self.client.session_timeout());
        tracing::info!(%session, ?timeout, "ZooKeeper session");
    }

    fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RegistryError> {
        let limit = self.access.timeout;
        let why = match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if is_conflict(&error) => return Err(RegistryError::Conflict),
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
    ) -> Result<Option<T>, RegistryError> {
        let call = async {
            match call.await {
                Err(Error::NoNode) => Ok(None),
                other => other.map(Some),
            }
        };
        self.call(call).await
    }

    /// Makes the folders of the tree, and what its instances must agree on.
    async fn make_folders(&self) -> Result<(), RegistryError> {
        for folder in [tree::FOREVER, tree::TEMPORARY, tree::FREE] {
            self.ensure(&self.path(folder), &[]).await?;
        }
        let fleet = FleetRecord { version: record::VERSION, layout: self.access.layout.clone() };
        self.ensure(&self.path(tree::LEAFD), &record::write(&fleet)).await?;
        self.ensure(&self.path(tree::CLOCK), &[]).await
    }

    /// Makes a node and those above it, where they are missing.
    async fn ensure(&self, path: &str, data: &[u8]) -> Result<(), RegistryError> {
        // A look comes first: an instance without the right to write above the tree can still use it.
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

    /// The names below a folder in order, and the folder's state.
    async fn names_and_stat(&self, folder: &str) -> Result<(Vec<NodeName>, Stat), RegistryError> {
        let (names, stat) = self.call(self.client.get_children(&self.path(folder))).await?;
        let mut names: Vec<_> = names.iter().filter_map(|name| NodeName::parse(name)).collect();
        names.sort_unstable();
        Ok((names, stat))
    }

    async fn read<T: DeserializeOwned>(
        &self,
        key: &Key,
    ) -> Result<Option<Found<T>>, RegistryError> {
        let found = self.find(self.client.get_data(&self.path(&tree::path(key)))).await?;
        Ok(found.map(|(data, stat)| Versioned {
            value: record::read(&data),
            version: stat.version,
            created: stat.czxid,
            modified: stat.mzxid,
            modified_ms: ms(stat.mtime),
        }))
    }

    /// The records of nodes that are there.
    async fn each<T: DeserializeOwned>(
        &self,
        names: &[NodeName],
        key: impl Fn(&NodeName) -> Key,
    ) -> Result<FoundAt<T>, RegistryError> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let reads = names.iter().map(|name| {
                let key = key(name);
                async move { self.read(&key).await }
            });
            for (name, record) in names.iter().zip(join_all(reads).await) {
                found.extend(record?.map(|record| (name.clone(), record)));
            }
        }
        Ok(found)
    }

    async fn entries_of(&self, names: &[NodeName]) -> Result<Vec<WorkerEntry>, RegistryError> {
        let leafs = self.each(names, Key::leaf).await?;
        let mut entries = Vec::with_capacity(leafs.len());
        for leafs in leafs.chunks(AT_ONCE) {
            let reads = leafs.iter().map(|(name, _)| {
                let key = Key::holder(name);
                async move { self.read(&key).await }
            });
            for ((name, leaf), holder) in leafs.iter().zip(join_all(reads).await) {
                entries.push(WorkerEntry {
                    name: name.clone(),
                    leaf: leaf.clone(),
                    holder: holder?,
                });
            }
        }
        Ok(entries)
    }

    /// Makes a node with a sequence below `forever`.
    async fn create_node(
        &self,
        identity: &str,
        leaf: &LeafRecord,
    ) -> Result<NodeName, RegistryError> {
        let prefix = name::prefix(identity);
        let path = self.path(&format!("{}/{prefix}", tree::FOREVER));
        let options = CreateMode::PersistentSequential.with_acls(Acls::new(&self.access.acls));
        let data = record::write(leaf);
        let (_, sequence) = self.call(self.client.create(&path, &data, &options)).await?;
        let name = format!("{prefix}{sequence}");
        NodeName::parse(&name).ok_or_else(|| {
            failed(&self.access, format!("it made the node {name:?}, beyond all worker IDs"))
        })
    }

    async fn commit_all(&self, writes: &[RegistryWrite]) -> Result<(), RegistryError> {
        let acls = Acls::new(&self.access.acls);
        let persistent = CreateMode::Persistent.with_acls(acls);
        let ephemeral = CreateMode::Ephemeral.with_acls(acls);
        let path = |key: &Key| self.path(&tree::path(key));
        let mut writer = self.client.new_multi_writer();
        for write in writes {
            let added = match write {
                RegistryWrite::Check(key, version) => {
                    writer.add_check_version(&path(key), *version)
                }
                // A node can be made only where there is none.
                RegistryWrite::Absent(key) => writer
                    .add_create(&path(key), &[], &ephemeral)
                    .and_then(|()| writer.add_delete(&path(key), Some(0))),
                RegistryWrite::Create(record) => {
                    let is_live = matches!(record, RegistryRecord::Live(..));
                    let options = if is_live { &ephemeral } else { &persistent };
                    writer.add_create(&path(&record.key()), &tree::bytes(record), options)
                }
                RegistryWrite::Set(record, version) => {
                    writer.add_set_data(&path(&record.key()), &tree::bytes(record), *version)
                }
                RegistryWrite::Delete(key, version) => {
                    writer.add_delete(&path(key), Some(*version))
                }
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

impl RegistrySession for ZooKeeperSession {
    fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    fn prepare(&self) -> Answer<'_, ()> {
        Box::pin(self.make_folders())
    }

    fn clock(&self) -> Answer<'_, RegistryClock> {
        Box::pin(async {
            // A write goes to the leader and comes back: what is read after it is at least as new.
            let written = self.client.set_data(&self.path(tree::CLOCK), &[], None);
            let stat = self.call(written).await?;
            Ok(RegistryClock { now_ms: ms(stat.mtime), epoch: stat.mzxid >> 32 })
        })
    }

    fn vantage(&self, epoch: i64) -> Vantage {
        let session_ms = self.client.session_timeout().as_millis();
        Vantage {
            session: self.client.session_id().0,
            disturbances: self.continuity.disturbances(),
            epoch,
            session_ms: u64::try_from(session_ms).unwrap_or(u64::MAX),
        }
    }

    fn fleet(&self) -> Answer<'_, Option<Found<FleetRecord>>> {
        Box::pin(self.read(&Key::Fleet))
    }

    fn owned(&self) -> Answer<'_, (Vec<NodeName>, u64)> {
        Box::pin(async {
            let (nodes, stat) = self.names_and_stat(tree::FOREVER).await?;
            Ok((nodes, next_sequence(&stat)))
        })
    }

    fn live(&self) -> Answer<'_, Vec<NodeName>> {
        Box::pin(async { Ok(self.names_and_stat(tree::TEMPORARY).await?.0) })
    }

    fn free(&self) -> Answer<'_, Vec<NodeName>> {
        Box::pin(async { Ok(self.names_and_stat(tree::FREE).await?.0) })
    }

    fn entries<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, Vec<WorkerEntry>> {
        Box::pin(self.entries_of(names))
    }

    fn live_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<LiveRecord>> {
        Box::pin(self.each(names, Key::live))
    }

    fn free_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<FreeRecord>> {
        Box::pin(self.each(names, Key::free))
    }

    fn create<'a>(&'a self, identity: &'a str, leaf: &'a LeafRecord) -> Answer<'a, NodeName> {
        Box::pin(self.create_node(identity, leaf))
    }

    fn commit<'a>(&'a self, writes: &'a [RegistryWrite]) -> Answer<'a, ()> {
        Box::pin(self.commit_all(writes))
    }
}

/// The sequence number that the next node gets: how many were made so far. `cversion` counts each
/// creation and each deletion; `num_children` are left.
fn next_sequence(stat: &Stat) -> u64 {
    let made = (i64::from(stat.cversion) + i64::from(stat.num_children)) / 2;
    u64::try_from(made).unwrap_or(0)
}

fn ms(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
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
