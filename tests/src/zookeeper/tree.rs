//! A blocking client of ZooKeeper's tree, with which tests read and write nodes. Its session runs on a
//! thread of its own, so that it stays open between calls.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acl, Acls, Client, CreateMode, Error, SessionState};

use crate::PATIENCE;

/// The session timeout. The ephemeral nodes of a killed test stay for this time.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How long to wait for a session to be closed.
const GOODBYE: Duration = Duration::from_secs(1);

/// How often to look for a change.
const POLL: Duration = Duration::from_millis(10);

/// A client of a tree. It opens a session with the first call, and a new one if that has expired. Every
/// call waits until a server answers, and sees everything that any client wrote before. Dropping it
/// ends the session, which removes its ephemeral nodes.
#[derive(Debug)]
pub struct Tree {
    servers: String,
    auth: Option<String>,
    session_timeout: Duration,
    client: Mutex<Option<Client>>,
    /// None only during `drop`.
    runtime: Option<Runtime>,
}

/// The state of a node when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The content of the node.
    pub data: Vec<u8>,
    /// How often the data were written since the node was created.
    pub version: i32,
    /// When the data were last written, in ms since 1970 by the servers' clock.
    pub mtime: i64,
    /// The session that owns an ephemeral node; 0 for any other node.
    pub ephemeral_owner: i64,
}

impl Tree {
    /// A client with this connect string, for the whole tree or the part below a path.
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

    /// Authenticates by digest with `user:password`.
    #[must_use]
    pub fn with_auth(mut self, user: &str) -> Self {
        self.auth = Some(user.to_owned());
        self
    }

    /// Sets another session timeout than 4 s.
    #[must_use]
    pub fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Runs any operation of the client library. Fails with its error, or with `Timeout` if no server
    /// answers for a minute.
    pub fn call<T>(
        &self,
        operation: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.call_within(PATIENCE, operation)
    }

    /// As [`Self::call`], but with a timeout. After `Timeout`, the operation may or may not have taken
    /// effect.
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

    /// A session that has just worked. A broken connection shows only when it is used, and a test should
    /// not fail because of one that broke long ago. The `sync` also makes the server catch up with
    /// everything that other clients wrote before.
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
        // The library's own retries back off; those of `live` do not.
        let client = connector.with_fail_eagerly().connect(&self.servers).await?;
        *self.client() = Some(client.clone());
        Ok(client)
    }

    fn client(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ID of the session, as in [`Node::ephemeral_owner`].
    #[must_use]
    pub fn session(&self) -> i64 {
        expect("session", self.call(async |client| Ok(client.session_id().0)))
    }

    /// The sorted names of a node's children; empty if there is no such node.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        let mut children = match self.call(async |client| client.list_children(path).await) {
            Err(Error::NoNode) => Vec::new(),
            result => expect(path, result),
        };
        children.sort_unstable();
        children
    }

    /// A node, if it exists.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Node> {
        let (data, stat) = match self.call(async |client| client.get_data(path).await) {
            Err(Error::NoNode) => return None,
            result => expect(path, result),
        };
        let (version, mtime, ephemeral_owner) = (stat.version, stat.mtime, stat.ephemeral_owner);
        Some(Node { data, version, mtime, ephemeral_owner })
    }

    /// Creates a persistent node and its missing parents.
    pub fn create(&self, path: &str, data: &[u8]) {
        self.create_as(CreateMode::Persistent, path, data);
    }

    /// Creates a persistent node with a number appended to its name, and returns its path.
    pub fn create_sequential(&self, prefix: &str, data: &[u8]) -> String {
        self.create_as(CreateMode::PersistentSequential, prefix, data)
    }

    /// Creates an ephemeral node, which is removed with the session of this client.
    pub fn create_ephemeral(&self, path: &str, data: &[u8]) {
        self.create_as(CreateMode::Ephemeral, path, data);
    }

    fn create_as(&self, mode: CreateMode, path: &str, data: &[u8]) -> String {
        expect(path, self.call(async |client| create(client, mode, path, data).await))
    }

    /// Writes a node's data, whatever its version. Returns the new version.
    pub fn set(&self, path: &str, data: &[u8]) -> i32 {
        expect(path, self.call(async |client| client.set_data(path, data, None).await)).version
    }

    /// Deletes a node and everything below it, if it exists.
    pub fn delete_recursive(&self, path: &str) {
        for child in self.children(path) {
            self.delete_recursive(&format!("{path}/{child}"));
        }
        match self.call(async |client| client.delete(path, None).await) {
            Err(Error::NoNode) => {}
            result => expect(path, result),
        }
    }

    /// The access control list of a node.
    #[must_use]
    pub fn get_acl(&self, path: &str) -> Vec<Acl> {
        expect(path, self.call(async |client| client.get_acl(path).await)).0
    }

    /// Sets the access control list of a node, but not of the nodes below it.
    pub fn set_acl(&self, path: &str, acl: &[Acl]) {
        expect(path, self.call(async |client| client.set_acl(path, acl, None).await));
    }

    /// Waits until a node exists.
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

    /// Waits until a node is gone, such as an ephemeral node whose session expires.
    pub fn wait_gone(&self, path: &str) {
        let began = Instant::now();
        while let Some(node) = self.get(path) {
            assert!(began.elapsed() < PATIENCE, "{path} stays: {node:?}");
            std::thread::sleep(POLL);
        }
    }

    /// Ends without closing the session, like a killed process: the servers keep the session and its
    /// ephemeral nodes until it expires.
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
        // A session that is not connected cannot be closed.
        if let Some(client) = client.filter(|client| client.state() == SessionState::SyncConnected)
        {
            let _ = runtime.block_on(async { timeout(GOODBYE, close(client)).await });
        }
        runtime.shutdown_background();
    }
}

/// Creates a node and its missing parents. Returns its path, including the number of a sequential one.
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

/// Whether a new session gets an answer within `time`.
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

/// Closes the session, and waits until it is closed.
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
