//! A blocking view of ZooKeeper's tree, for tests that look what others wrote, and that write what
//! others find. Its session lives on a thread of its own, so that it stays open between calls.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acl, Acls, Client, CreateMode, Error, SessionState};

use crate::instance::PATIENCE;

/// The session's; a test that is killed leaves its nodes for so long.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a session may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// How often something is looked at that changes by itself.
const POLL: Duration = Duration::from_millis(10);

/// A view of a tree. It opens a session for the first call, and another one when that has expired.
/// Every call waits until a server answers, and sees what was written before it by anybody.
/// Dropping it ends the session, and with it the ephemeral nodes.
#[derive(Debug)]
pub struct Tree {
    servers: String,
    auth: Option<String>,
    session_timeout: Duration,
    client: Mutex<Option<Client>>,
    /// None only while it is dropped.
    runtime: Option<Runtime>,
}

/// A node, as it was when one looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What is in it.
    pub data: Vec<u8>,
    /// How often its data were written since it was created.
    pub version: i32,
    /// When its data were last written, in ms by the servers' clock.
    pub mtime: i64,
    /// The session that it ends with, or 0.
    pub ephemeral_owner: i64,
}

impl Tree {
    /// A view by a connect string, of the whole tree or below a path.
    ///
    /// # Panics
    /// When there is no thread for it.
    #[must_use]
    pub fn at(servers: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self {
            servers: servers.to_owned(),
            auth: None,
            session_timeout: SESSION_TIMEOUT,
            client: Mutex::new(None),
            runtime: Some(runtime.expect("a runtime")),
        }
    }

    /// As somebody, by digest: `user:password`.
    #[must_use]
    pub fn with_auth(mut self, user: &str) -> Self {
        self.auth = Some(user.to_owned());
        self
    }

    /// With another session timeout than 4 s.
    #[must_use]
    pub fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Executes anything that a client can, with its error.
    ///
    /// # Errors
    /// What the operation says, or `Timeout` when no server answers for a minute.
    pub fn call<T>(
        &self,
        operation: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.call_within(PATIENCE, operation)
    }

    /// The same with less patience. After `Timeout`, nobody knows whether it was done.
    ///
    /// # Errors
    /// What the operation says, or `Timeout`.
    pub fn call_within<T>(
        &self,
        time: Duration,
        operation: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let call = async {
            let client = self.live().await?;
            operation(&client).await
        };
        let runtime = self.runtime.as_ref().expect("it is not dropped");
        runtime.block_on(async { timeout(time, call).await.unwrap_or(Err(Error::Timeout)) })
    }

    /// The session, when it has just worked: a broken connection shows only when it is used, and a
    /// test should not fail for one that broke long ago. A server that has answered this knows all
    /// that others wrote before.
    async fn live(&self) -> Result<Client, Error> {
        loop {
            let open = self.client().clone();
            let open = open.filter(|client| !client.state().is_terminated());
            let client = match open {
                Some(client) => Ok(client),
                None => self.connect().await,
            };
            let answer = match client {
                Ok(client) => client.sync("/").await.map(|()| client),
                Err(error) => Err(error),
            };
            match answer {
                Ok(_) | Err(Error::AuthFailed | Error::BadArguments(_)) => return answer,
                Err(_) => sleep(POLL).await,
            }
        }
    }

    async fn connect(&self) -> Result<Client, Error> {
        let mut connector = Client::connector().with_session_timeout(self.session_timeout);
        if let Some(user) = &self.auth {
            connector = connector.with_auth("digest", user.as_bytes());
        }
        // Its pauses between tries grow; these do not.
        let client = connector.with_fail_eagerly().connect(&self.servers).await?;
        *self.client() = Some(client.clone());
        Ok(client)
    }

    fn client(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, as nodes name their owner.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn session(&self) -> i64 {
        expect("session", self.call(async |client| Ok(client.session_id().0)))
    }

    /// The names of a node's children, in order; none if there is no such node.
    ///
    /// # Panics
    /// When the servers do not tell.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        let mut children = match self.call(async |client| client.list_children(path).await) {
            Err(Error::NoNode) => Vec::new(),
            result => expect(path, result),
        };
        children.sort_unstable();
        children
    }

    /// A node, if it is there.
    ///
    /// # Panics
    /// When the servers do not tell.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Node> {
        let (data, stat) = match self.call(async |client| client.get_data(path).await) {
            Err(Error::NoNode) => return None,
            result => expect(path, result),
        };
        let (version, mtime, ephemeral_owner) = (stat.version, stat.mtime, stat.ephemeral_owner);
        Some(Node { data, version, mtime, ephemeral_owner })
    }

    /// Makes a node that stays, and those above it that are missing.
    ///
    /// # Panics
    /// When it is there already, or may not be made.
    pub fn create(&self, path: &str, data: &[u8]) {
        self.create_as(CreateMode::Persistent, path, data);
    }

    /// Makes a node that stays, with a number behind its name, and returns its path.
    ///
    /// # Panics
    /// When it may not be made.
    pub fn create_sequential(&self, prefix: &str, data: &[u8]) -> String {
        self.create_as(CreateMode::PersistentSequential, prefix, data)
    }

    /// Makes a node that ends with the session of this view.
    ///
    /// # Panics
    /// When it is there already, or may not be made.
    pub fn create_ephemeral(&self, path: &str, data: &[u8]) {
        self.create_as(CreateMode::Ephemeral, path, data);
    }

    fn create_as(&self, mode: CreateMode, path: &str, data: &[u8]) -> String {
        expect(path, self.call(async |client| create(client, mode, path, data).await))
    }

    /// Writes a node's data, whatever its version, and returns the new version.
    ///
    /// # Panics
    /// When it is not there, or may not be written.
    pub fn set(&self, path: &str, data: &[u8]) -> i32 {
        expect(path, self.call(async |client| client.set_data(path, data, None).await)).version
    }

    /// Removes a node and everything below it, if it is there.
    ///
    /// # Panics
    /// When it may not be removed.
    pub fn delete_recursive(&self, path: &str) {
        for child in self.children(path) {
            self.delete_recursive(&format!("{path}/{child}"));
        }
        match self.call(async |client| client.delete(path, None).await) {
            Err(Error::NoNode) => {}
            result => expect(path, result),
        }
    }

    /// Who may do what with a node.
    ///
    /// # Panics
    /// When it is not there, or nobody may know.
    #[must_use]
    pub fn get_acl(&self, path: &str) -> Vec<Acl> {
        expect(path, self.call(async |client| client.get_acl(path).await)).0
    }

    /// Says who may do what with a node; not with those below it.
    ///
    /// # Panics
    /// When it is not there, or may not be changed.
    pub fn set_acl(&self, path: &str, acl: &[Acl]) {
        expect(path, self.call(async |client| client.set_acl(path, acl, None).await));
    }

    /// Waits until a node is there.
    ///
    /// # Panics
    /// When it does not come.
    pub fn wait_for(&self, path: &str) -> Node {
        let began = Instant::now();
        loop {
            if let Some(node) = self.get(path) {
                return node;
            }
            assert!(began.elapsed() < PATIENCE, "{path} does not come");
            std::thread::sleep(POLL);
        }
    }

    /// Waits until a node is gone, as an ephemeral one of a session that somebody lost.
    ///
    /// # Panics
    /// When it stays.
    pub fn wait_gone(&self, path: &str) {
        let began = Instant::now();
        while let Some(node) = self.get(path) {
            assert!(began.elapsed() < PATIENCE, "{path} stays: {node:?}");
            std::thread::sleep(POLL);
        }
    }

    /// Ends without a goodbye, as a process that is killed: the servers keep the session, and its
    /// ephemeral nodes, until it has expired.
    pub fn crash(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let client = self.client().take();
        // One that is not connected would not get through.
        if let Some(client) = client.filter(|client| client.state() == SessionState::SyncConnected)
        {
            let _ = runtime.block_on(async { timeout(GOODBYE, close(client)).await });
        }
        runtime.shutdown_background();
    }
}

/// Makes a node, and those above it that are missing; its path, with the number.
pub(super) async fn create(
    client: &Client,
    mode: CreateMode,
    path: &str,
    data: &[u8],
) -> Result<String, Error> {
    let anyone = Acls::anyone_all();
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if !parent.is_empty() {
        client.mkdir(parent, &CreateMode::Persistent.with_acls(anyone)).await?;
    }
    let (_, sequence) = client.create(path, data, &mode.with_acls(anyone)).await?;
    Ok(match mode {
        CreateMode::PersistentSequential => format!("{path}{sequence}"),
        _ => path.to_owned(),
    })
}

/// Somebody answers, with a session of its own.
pub(super) fn answers_within(time: Duration, servers: &str) -> bool {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let probe = async {
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        let client = connector.with_fail_eagerly().connect(servers).await?;
        client.sync("/").await?;
        close(client).await;
        Ok::<(), Error>(())
    };
    runtime.block_on(async { timeout(time, probe).await.is_ok_and(|answer| answer.is_ok()) })
}

/// Ends the session, and waits until that has happened.
async fn close(client: Client) {
    let mut state = client.state_watcher();
    drop(client);
    while !state.state().is_terminated() {
        state.changed().await;
    }
}

fn expect<T: Debug>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}
