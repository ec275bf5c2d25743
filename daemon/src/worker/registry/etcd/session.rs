//! A session with etcd: a lease, which a task keeps alive, and calls that follow each other, each with a
//! time limit. A call that has begun goes on if nobody waits for it any more. The session lasts as long as
//! its lease, whichever member answers; it ends with the lease, or if etcd's data is other data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::AbortHandle;

use super::access::EtcdAccess;
use super::client::{EtcdClient, GRANT, KEEP_ALIVE, REVOKE, Trouble};
use super::keys::Keys;
use super::wire::{Done, GrantRequest, Int, LeaseAnswer, LeaseRequest, Streamed};
use crate::duration::ms;
use crate::environment::Environment;
use crate::worker::claim::name::NodeName;
use crate::worker::claim::quiet::Vantage;
use crate::worker::claim::record::{FleetRecord, FreeRecord, LeafRecord, LiveRecord};
use crate::worker::claim::view::WorkerEntry;
use crate::worker::claim::write::{Key, RegistryWrite};
use crate::worker::registry::{
    Answer, Found, FoundAt, RegistryClock, RegistryError, RegistrySession, tree,
};

/// Pause after a call that should have kept the lease alive and failed.
const RETRY: Duration = Duration::from_millis(250);

type Reply<'a, T> = BoxFuture<'a, Result<T, Trouble>>;

pub(crate) struct EtcdSession {
    core: Arc<SessionCore>,
    keeper: AbortHandle,
}

struct SessionCore {
    access: Arc<EtcdAccess>,
    /// Its name, and that of its lease. No other session has it.
    lease: i64,
    /// How long the lease lasts without a sign of life.
    lasts: Duration,
    environment: Environment,
    keys: tokio::sync::Mutex<Keys>,
    is_open: AtomicBool,
    disturbances: Arc<AtomicU64>,
}

impl Drop for EtcdSession {
    fn drop(&mut self) {
        self.keeper.abort();
        let core = Arc::clone(&self.core);
        core.is_open.store(false, Ordering::Relaxed);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Its marker need not outlive it.
            runtime.spawn(async move {
                let mut keys = core.keys.lock().await;
                let request = LeaseRequest { lease: Int(core.lease) };
                let revoke = keys.client.ask::<Done>(&REVOKE, &request);
                let _ = tokio::time::timeout(core.access.timeout, revoke).await;
            });
        }
    }
}

impl EtcdSession {
    /// Opens a session: gets a lease, and writes nothing.
    ///
    /// # Errors
    /// When no member answers in time, or they refuse.
    pub(crate) async fn open(
        access: &Arc<EtcdAccess>,
        environment: &Environment,
    ) -> Result<Self, RegistryError> {
        let failed = |why: String| RegistryError::Failed(format!("{}: {why}", access.place()));
        let mut id = [0; 8];
        environment.fill_random(&mut id).map_err(|error| failed(error.to_string()))?;
        // Positive, and not 0, which is no lease.
        let lease = (i64::from_be_bytes(id) & i64::MAX).max(1);
        let reader = Arc::clone(access);
        let tls = tokio::task::spawn_blocking(move || reader.tls()).await;
        let tls = tls.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        let disturbances = Arc::new(AtomicU64::new(0));
        let client = || {
            let (access, tls) = (Arc::clone(access), tls.clone());
            EtcdClient::new(access, tls, &mut environment.random(), Arc::clone(&disturbances))
        };
        let (client, keeping) = (client(), client());
        let mut core = SessionCore {
            access: Arc::clone(access),
            lease,
            lasts: Duration::ZERO,
            environment: environment.clone(),
            keys: tokio::sync::Mutex::new(Keys::new(Arc::clone(access), client, lease)),
            is_open: AtomicBool::new(true),
            disturbances,
        };
        let limit = access.timeout * 2;
        let granted = tokio::time::timeout(limit, core.grant()).await;
        core.lasts = granted
            .map_err(|_| failed(no_answer(limit)))?
            .map_err(|trouble| failed(text(trouble)))?;
        let core = Arc::new(core);
        let keeper = tokio::spawn(keep(Arc::clone(&core), keeping)).abort_handle();
        Ok(Self { core, keeper })
    }

    pub(super) fn log_opening(&self) {
        let (session, timeout) = (format!("{:x}", self.core.lease), self.core.lasts);
        tracing::info!(%session, ?timeout, "session in {}", self.core.access.place());
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Keys) -> Reply<'a, T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(Arc::clone(&self.core).call(work))
    }
}

/// Keeps the lease alive over a connection of its own, which no call holds up, until the session ends.
async fn keep(core: Arc<SessionCore>, mut client: EtcdClient) {
    let (limit, lasts_ms) = (core.access.timeout, ms(core.lasts));
    let mut pause = core.lasts / 3;
    let mut heard_ms = core.environment.boot_ms();
    while core.is_open.load(Ordering::Relaxed) {
        tokio::time::sleep(pause).await;
        let asked_ms = core.environment.boot_ms();
        let request = LeaseRequest { lease: Int(core.lease) };
        let answer = client.ask::<Streamed>(&KEEP_ALIVE, &request);
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            client.hang_up(&no_answer(limit));
            Err(Trouble::Failed(String::new()))
        });
        pause = RETRY;
        match answer {
            Ok((Streamed { result: Some(LeaseAnswer { seconds: Int(1..) }), .. }, _)) => {
                (pause, heard_ms) = (core.lasts / 3, asked_ms);
            }
            Ok((Streamed { result: Some(_), .. }, _)) => core.ends("its lease has ended"),
            // A new session reads the certificates again, and notices other data.
            _ if core.environment.boot_ms().saturating_sub(heard_ms) > lasts_ms => {
                core.ends("etcd has heard no sign of life for too long");
            }
            _ => {}
        }
    }
}

impl SessionCore {
    async fn grant(&mut self) -> Result<Duration, Trouble> {
        let seconds = self.access.session_timeout.as_millis().div_ceil(1000);
        let seconds = Int(i64::try_from(seconds).unwrap_or(i64::MAX));
        let request = GrantRequest { seconds, lease: Int(self.lease) };
        let mut keys = self.keys.lock().await;
        keys.greet().await?;
        let (answer, _): (LeaseAnswer, _) = keys.client.ask(&GRANT, &request).await?;
        match u64::try_from(answer.seconds.0) {
            Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
            _ => Err(Trouble::Failed("it granted no lease".to_owned())),
        }
    }

    fn ends(&self, why: &str) {
        self.disturbances.fetch_add(1, Ordering::Relaxed);
        if self.is_open.swap(false, Ordering::Relaxed) {
            let session = format!("{:x}", self.lease);
            tracing::info!(%session, "the session in {} is over: {why}", self.access.place());
        }
    }

    async fn call<T: Send + 'static>(
        self: Arc<Self>,
        work: impl for<'a> FnOnce(&'a mut Keys) -> Reply<'a, T> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let this = Arc::clone(&self);
        let call = tokio::spawn(async move {
            let mut keys = this.keys.lock().await;
            if !this.is_open.load(Ordering::Relaxed) {
                return Err(this.failed("the session is over".to_owned()));
            }
            let limit = this.access.timeout;
            let why = match tokio::time::timeout(limit, work(&mut keys)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(Trouble::Conflict)) => return Err(RegistryError::Conflict),
                Ok(Err(Trouble::Failed(why))) => why,
                Ok(Err(Trouble::Over(why))) => {
                    this.ends(&why);
                    why
                }
                Err(_) => keys.client.hang_up(&no_answer(limit)),
            };
            this.disturbances.fetch_add(1, Ordering::Relaxed);
            Err(this.failed(why))
        });
        let ended = |error: tokio::task::JoinError| Err(self.failed(error.to_string()));
        call.await.unwrap_or_else(ended)
    }

    fn failed(&self, why: String) -> RegistryError {
        RegistryError::Failed(format!("{}: {why}", self.access.place()))
    }
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?} (etcd.timeout)")
}

fn text(trouble: Trouble) -> String {
    match trouble {
        Trouble::Failed(why) | Trouble::Over(why) => why,
        Trouble::Conflict => "somebody else writes the same".to_owned(),
    }
}

impl RegistrySession for EtcdSession {
    fn is_connected(&self) -> bool {
        self.core.is_open.load(Ordering::Relaxed)
    }

    fn prepare(&self) -> Answer<'_, ()> {
        self.call(|keys| Box::pin(keys.prepare()))
    }

    fn clock(&self) -> Answer<'_, RegistryClock> {
        self.call(|keys| Box::pin(keys.clock()))
    }

    fn vantage(&self, epoch: i64) -> Vantage {
        Vantage {
            session: self.core.lease,
            disturbances: self.core.disturbances.load(Ordering::Relaxed),
            epoch,
            session_ms: ms(self.core.lasts),
        }
    }

    fn fleet(&self) -> Answer<'_, Option<Found<FleetRecord>>> {
        self.call(|keys| Box::pin(async { Ok(keys.fleet().await?.map(|fleet| fleet.versioned())) }))
    }

    fn owned(&self) -> Answer<'_, (Vec<NodeName>, u64)> {
        self.call(|keys| Box::pin(keys.owned()))
    }

    fn live(&self) -> Answer<'_, Vec<NodeName>> {
        self.call(|keys| Box::pin(keys.names_in(tree::TEMPORARY)))
    }

    fn free(&self) -> Answer<'_, Vec<NodeName>> {
        self.call(|keys| Box::pin(keys.names_in(tree::FREE)))
    }

    fn entries<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, Vec<WorkerEntry>> {
        let names = names.to_vec();
        self.call(|keys| Box::pin(keys.entries(names)))
    }

    fn live_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<LiveRecord>> {
        let names = names.to_vec();
        self.call(|keys| Box::pin(keys.each(tree::TEMPORARY, names, Key::live)))
    }

    fn free_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<FreeRecord>> {
        let names = names.to_vec();
        self.call(|keys| Box::pin(keys.each(tree::FREE, names, Key::free)))
    }

    fn create<'a>(&'a self, identity: &'a str, leaf: &'a LeafRecord) -> Answer<'a, NodeName> {
        let (identity, leaf) = (identity.to_owned(), leaf.clone());
        self.call(|keys| Box::pin(async move { keys.create(&identity, &leaf).await }))
    }

    fn commit<'a>(&'a self, writes: &'a [RegistryWrite]) -> Answer<'a, ()> {
        let writes = writes.to_vec();
        self.call(|keys| Box::pin(async move { keys.commit(&writes).await }))
    }
}
