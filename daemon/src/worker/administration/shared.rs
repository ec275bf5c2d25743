//! The worker IDs of a registry that hosts share: list, release.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leaf_client::wire::{ErrorCode, WireError, WorkerStatus};

use super::status::{released, taken};
use crate::environment::Environment;
use crate::worker::claim::name::NodeName;
use crate::worker::claim::plan;
use crate::worker::claim::quiet::{Quiet, QuietWatch, Vantage};
use crate::worker::claim::view::WorkerEntry;
use crate::worker::registry::{RegistryConnection, RegistryError, RegistrySession};

/// How often a release is tried when the registry changes meanwhile.
const TRIES: u32 = 3;

/// Whether this leafd has a worker ID under a name.
pub(crate) type IsOwn = Arc<dyn Fn(u64, &str) -> bool + Send + Sync>;

/// The worker IDs of a registry, asked over the session of whoever claims there.
#[derive(Clone)]
pub(crate) struct SharedWorkers {
    connection: RegistryConnection,
    is_own: IsOwn,
    environment: Environment,
    /// The nodes that a Java Leaf may write, since they were first asked for.
    watch: Arc<Mutex<QuietWatch>>,
}

/// One reading of some records.
#[derive(Clone, Copy)]
struct TimedReading {
    vantage: Vantage,
    /// When it began and ended (ms since the boot).
    times: (u64, u64),
}

impl std::fmt::Debug for SharedWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedWorkers")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl From<RegistryError> for WireError {
    fn from(error: RegistryError) -> Self {
        Self::new(ErrorCode::RegistryUnavailable, error.to_string()).with_retry_after_ms(1000)
    }
}

/// Every worker ID that has an owner, every live instance, and every worker ID that was given back.
async fn names(session: &dyn RegistrySession) -> Result<[Vec<NodeName>; 3], RegistryError> {
    let (owned, _) = session.owned().await?;
    Ok([owned, session.live().await?, session.free().await?])
}

impl SharedWorkers {
    pub(crate) fn new(
        connection: RegistryConnection,
        is_own: IsOwn,
        environment: Environment,
    ) -> Self {
        Self { connection, is_own, environment, watch: Arc::default() }
    }

    /// How long the node of `entry` has been quiet, unless leafd alone writes it.
    fn javas(&self, reading: TimedReading, entry: &WorkerEntry) -> Option<Quiet> {
        let is_javas = plan::is_written_by_others(entry) || entry.holder().is_none();
        let watch = || {
            let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            watch.see(reading.vantage, reading.times, &entry.name, entry.stamp())
        };
        is_javas.then(watch)
    }

    fn session(&self) -> Result<Arc<dyn RegistrySession>, WireError> {
        self.connection.session().ok_or_else(|| {
            let registry = self.connection.registry();
            let (name, place) = (registry.words().name, registry.place());
            let text = format!("{name} at {place} cannot be reached at present");
            WireError::new(ErrorCode::RegistryUnavailable, text).with_retry_after_ms(1000)
        })
    }

    /// See [`super::Workers::list`].
    pub(crate) async fn list(
        &self,
        from: u64,
        limit: usize,
    ) -> Result<Vec<WorkerStatus>, WireError> {
        let session = self.session()?;
        let began_ms = self.environment.boot_ms();
        let clock = session.clock().await?;
        let now_ms = clock.now_ms;
        let [nodes, live, free] = names(&*session).await?;
        let mut page: Vec<_> = nodes.into_iter().chain(free).collect();
        page.retain(|name| name.sequence() >= from);
        page.sort_by_key(NodeName::sequence);
        page.truncate(limit);
        let entries = session.entries(&page).await?;
        let entries: HashMap<_, _> = entries.iter().map(|entry| (&entry.name, entry)).collect();
        let frees = session.free_records(&page).await?;
        let frees: HashMap<_, _> = frees.iter().map(|(name, free)| (name, free)).collect();
        let times = (began_ms, self.environment.boot_ms());
        let reading = TimedReading { vantage: session.vantage(clock.epoch), times };
        // A node that has gone since the names were read is left out.
        let statuses = page.iter().filter_map(|name| {
            let mut status = match (entries.get(name), frees.get(name)) {
                (Some(entry), _) => {
                    let javas = self.javas(reading, entry);
                    taken(entry, live.contains(name), javas, now_ms)
                }
                (None, Some(free)) => released(name, free, now_ms),
                (None, None) => return None,
            };
            status.own = (self.is_own)(status.worker, name.identity());
            Some(status)
        });
        Ok(statuses.collect())
    }

    /// See [`super::Workers::release`].
    pub(crate) async fn release(
        &self,
        worker: u64,
        owner: &str,
    ) -> Result<WorkerStatus, WireError> {
        let session = self.session()?;
        for _ in 0..TRIES {
            let began_ms = self.environment.boot_ms();
            let clock = session.clock().await?;
            let now_ms = clock.now_ms;
            let [nodes, live, free] = names(&*session).await?;
            let has = |name: &&NodeName| name.sequence() == worker;
            if let Some(name) = free.iter().find(has) {
                let found = session.free_records(std::slice::from_ref(name)).await?;
                if let Some((_, free)) = found.first() {
                    is_of(name, owner)?;
                    return Ok(released(name, free, now_ms));
                }
            }
            let mut names: Vec<_> = nodes.iter().filter(has).collect();
            names.sort_by_key(|name| name.identity() != owner);
            let name = *names.first().ok_or_else(|| unknown(worker))?;
            is_of(name, owner)?;
            let entries = session.entries(std::slice::from_ref(name)).await?;
            let Some(entry) = entries.first() else { continue };
            if live.contains(name) {
                let text =
                    format!("worker ID {worker} is in use: {owner:?} is live; stop it first");
                return Err(WireError::new(ErrorCode::WorkerInUse, text));
            }
            let times = (began_ms, self.environment.boot_ms());
            let reading = TimedReading { vantage: session.vantage(clock.epoch), times };
            if let Some(quiet) = self.javas(reading, entry).filter(|quiet| !quiet.is_enough()) {
                return Err(not_quiet(entry, quiet));
            }
            match session.commit(&plan::release(entry, now_ms)).await {
                Ok(()) | Err(RegistryError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let text = format!("worker ID {worker} changes all the time; look again");
        Err(WireError::new(ErrorCode::RegistryUnavailable, text).with_retry_after_ms(1000))
    }
}

fn unknown(worker: u64) -> WireError {
    let text = format!("there is no worker ID {worker}; `leafctl worker list` shows all");
    WireError::new(ErrorCode::UnknownWorker, text)
}

fn is_of(name: &NodeName, owner: &str) -> Result<(), WireError> {
    if name.identity() == owner {
        return Ok(());
    }
    let worker = name.sequence();
    let text = format!("worker ID {worker} belongs to {:?}, not to {owner:?}", name.identity());
    Err(WireError::new(ErrorCode::WrongOwner, text))
}

/// Why a node that a Java Leaf may write is not released.
fn not_quiet(entry: &WorkerEntry, quiet: Quiet) -> WireError {
    let (worker, owner) = (entry.name.sequence(), entry.name.identity());
    let (needed, left) = (quiet.needed_ms.div_ceil(1000), quiet.left_ms().div_ceil(1000));
    let text = if quiet.was_written {
        format!(
            "worker ID {worker} is in use: something that is not a leafd writes the node of \
             {owner:?}, as a Java Leaf does; stop it first. The worker ID can be released when \
             nothing has written the node for {needed} s"
        )
    } else {
        format!(
            "worker ID {worker} may be in use: something that is not a leafd wrote the node of \
             {owner:?} last, as a Java Leaf does. This leafd watches the node from now on; the \
             worker ID can be released if nothing writes it for {left} s more"
        )
    };
    let retry_after_ms = u32::try_from(quiet.left_ms()).unwrap_or(u32::MAX);
    WireError::new(ErrorCode::WorkerInUse, text).with_retry_after_ms(retry_after_ms)
}
