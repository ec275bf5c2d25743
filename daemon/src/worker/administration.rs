//! The worker IDs of a tree as people administer them: list, release.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leaf_client::wire::{
    ErrorCode, MAX_ADDRESS_CHARS, MAX_OWNER_CHARS, WireError, WorkerState, WorkerStatus,
};

use super::claim::name::NodeName;
use super::claim::plan;
use super::claim::quiet::{Quiet, Vantage, Watch};
use super::claim::record::{Free, Phase};
use super::registrar::SharedSession;
use super::registry::zookeeper::session::{Access, CallError, Session};
use super::claim::view::{self, Entry, Versioned};
use crate::environment::Environment;
use crate::snowflake::issuer::Issuer;

/// How often a release is tried when the tree changes meanwhile.
const TRIES: u32 = 3;

/// The tree of this instance.
#[derive(Clone)]
pub struct Registry {
    session: SharedSession,
    access: Access,
    issuer: Issuer,
    environment: Environment,
    /// The nodes that a Java Leaf may write, since they were asked for.
    watch: Arc<Mutex<Watch>>,
}

/// One reading of some nodes.
#[derive(Clone, Copy)]
struct Reading {
    vantage: Vantage,
    /// When it began and ended (ms since the boot).
    times: (u64, u64),
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("access", &self.access).finish_non_exhaustive()
    }
}

impl From<CallError> for WireError {
    fn from(error: CallError) -> Self {
        Self::new(ErrorCode::RegistryUnavailable, error.to_string()).with_retry_after_ms(1000)
    }
}

impl Registry {
    /// That of `session`, which may not be there yet.
    #[must_use]
    pub fn new(
        session: SharedSession,
        access: Access,
        issuer: Issuer,
        environment: Environment,
    ) -> Self {
        Self { session, access, issuer, environment, watch: Arc::default() }
    }

    /// How long the node of `entry` has been quiet, if it is not one that leafd alone writes.
    fn javas(&self, reading: Reading, entry: &Entry) -> Option<Quiet> {
        let is_javas = plan::is_written_by_others(entry) || entry.holder().is_none();
        let watch = || {
            let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            watch.see(reading.vantage, reading.times, &entry.name, entry.sight())
        };
        is_javas.then(watch)
    }

    fn session(&self) -> Result<Session, WireError> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        session.filter(Session::is_connected).ok_or_else(|| {
            let servers = self.access.ensemble.servers.join(",");
            let text = format!("ZooKeeper at {servers} cannot be reached at present");
            WireError::new(ErrorCode::RegistryUnavailable, text).with_retry_after_ms(1000)
        })
    }

    /// At most `limit` worker IDs, ascending, from `from` on.
    ///
    /// # Errors
    /// When ZooKeeper does not answer.
    pub async fn list(&self, from: u64, limit: usize) -> Result<Vec<WorkerStatus>, WireError> {
        let session = self.session()?;
        let began_ms = self.environment.boot_ms();
        let clock = session.clock().await?;
        let now_ms = clock.now_ms;
        let [nodes, live, free] = session.names().await?;
        let mut page: Vec<_> = nodes.iter().chain(&free).collect();
        page.retain(|name| name.sequence() >= from);
        page.sort_unstable_by_key(|name| name.sequence());
        page.truncate(limit);
        let entries = session.entries(page.iter().copied()).await?;
        let entries: HashMap<_, _> = entries.iter().map(|entry| (&entry.name, entry)).collect();
        let frees = session.each::<Free>(page.iter().copied(), view::free).await?;
        let frees: HashMap<_, _> = frees.iter().map(|(name, free)| (name, free)).collect();
        let times = (began_ms, self.environment.boot_ms());
        let reading = Reading { vantage: session.vantage(clock.epoch), times };
        let own = self.issuer.status();
        // A node that has gone since the names were read is left out.
        let statuses = page.into_iter().filter_map(|name| {
            let mut status = match (entries.get(name), frees.get(name)) {
                (Some(entry), _) => {
                    let javas = self.javas(reading, entry);
                    taken(entry, live.contains(name), javas, now_ms)
                }
                (None, Some(free)) => released(name, free, now_ms),
                (None, None) => return None,
            };
            status.own = own.worker == Some(status.worker) && own.identity == name.identity();
            Some(status)
        });
        Ok(statuses.collect())
    }

    /// Makes `worker` free for anybody, on an operator's word that `owner` is gone for good.
    ///
    /// # Errors
    /// When there is no such worker ID, another owner has it, or its owner is live; when ZooKeeper
    /// does not answer.
    pub async fn release(&self, worker: u64, owner: &str) -> Result<WorkerStatus, WireError> {
        let session = self.session()?;
        for _ in 0..TRIES {
            let began_ms = self.environment.boot_ms();
            let clock = session.clock().await?;
            let now_ms = clock.now_ms;
            let [nodes, live, free] = session.names().await?;
            let has = |name: &&NodeName| name.sequence() == worker;
            if let Some(name) = free.iter().find(has) {
                let found = session.each::<Free>([name].into_iter(), view::free).await?;
                if let Some((_, free)) = found.first() {
                    is_of(name, owner)?;
                    return Ok(released(name, free, now_ms));
                }
            }
            let mut names: Vec<_> = nodes.iter().filter(has).collect();
            names.sort_by_key(|name| name.identity() != owner);
            let name = *names.first().ok_or_else(|| unknown(worker))?;
            is_of(name, owner)?;
            let entries = session.entries([name].into_iter()).await?;
            let Some(entry) = entries.first() else { continue };
            if live.contains(name) {
                let text =
                    format!("worker ID {worker} is in use: {owner:?} is live; stop it first");
                return Err(WireError::new(ErrorCode::WorkerInUse, text));
            }
            let times = (began_ms, self.environment.boot_ms());
            let reading = Reading { vantage: session.vantage(clock.epoch), times };
            if let Some(quiet) = self.javas(reading, entry).filter(|quiet| !quiet.is_enough()) {
                return Err(not_quiet(entry, quiet));
            }
            match session.commit(&plan::release(entry, now_ms)).await {
                Ok(()) => tracing::info!(worker, owner, "worker ID released by an operator"),
                Err(CallError::Conflict) => {}
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

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Why a node that a Java Leaf may write is not released.
fn not_quiet(entry: &Entry, quiet: Quiet) -> WireError {
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

/// `javas`: how long the node has been quiet, where something that is not a leafd wrote it last.
/// What has not been seen to be quiet counts as live.
fn taken(entry: &Entry, has_live_node: bool, javas: Option<Quiet>, now_ms: u64) -> WorkerStatus {
    let leaf = entry.leaf.value.as_ref().ok();
    let address = leaf.map_or(String::new(), |leaf| format!("{}:{}", leaf.ip, leaf.port));
    let age_ms = now_ms.saturating_sub(entry.leaf.modified_ms);
    let holder = entry.holder().filter(|_| javas.is_none());
    let state = match holder.map(|holder| holder.phase) {
        Some(Phase::Held) => WorkerState::Held,
        Some(Phase::Settling) => WorkerState::Settling,
        None => WorkerState::JavaLeaf,
    };
    let may_be_written = javas.is_some_and(|quiet| !quiet.is_enough());
    let ceiling = holder.map(|holder| holder.ceiling).or(leaf.map(|leaf| leaf.timestamp));
    WorkerStatus {
        worker: entry.name.sequence(),
        owner: short(entry.name.identity(), MAX_OWNER_CHARS),
        address: short(&address, MAX_ADDRESS_CHARS),
        state,
        live: has_live_node || may_be_written,
        own: false,
        reported_unix_ms: entry.leaf.modified_ms,
        age_ms,
        ceiling_unix_ms: ceiling.unwrap_or(0),
        limit_unix_ms: holder.map(|holder| holder.limit).filter(|limit| *limit > 0),
    }
}

fn released(name: &NodeName, free: &Versioned<Result<Free, String>>, now_ms: u64) -> WorkerStatus {
    WorkerStatus {
        worker: name.sequence(),
        owner: short(name.identity(), MAX_OWNER_CHARS),
        address: String::new(),
        state: WorkerState::Released,
        live: false,
        own: false,
        reported_unix_ms: free.modified_ms,
        age_ms: now_ms.saturating_sub(free.modified_ms),
        ceiling_unix_ms: free.value.as_ref().map_or(0, |free| free.not_before),
        limit_unix_ms: None,
    }
}
