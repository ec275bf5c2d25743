//! Where worker IDs come from: one folder for each registry, and what they have in common. A
//! registry that hosts share is a [`WorkerRegistry`]: it opens [sessions](RegistrySession), in which
//! leafd reads records, writes some of them together under conditions, and keeps markers that live as
//! long as the session. [`open()`] is the one place that knows which registries there are. No rule of
//! the claim is here.

mod connection;
#[cfg(feature = "database")]
pub(crate) mod database;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod fixed;
pub(crate) mod inspection;
mod open;
pub(crate) mod reading;
mod tree;
#[cfg(feature = "database")]
pub(crate) mod worker_node;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::claim::instance::RegistryWords;
use super::claim::name::NodeName;
use super::claim::quiet::Vantage;
use super::claim::record::{FleetRecord, FreeRecord, LeafRecord, LiveRecord};
use super::claim::view::{Versioned, WorkerEntry};
use super::claim::write::RegistryWrite;

pub(crate) use connection::{ClaimConnection, RegistryConnection};
pub(crate) use open::{SharedRegistry, WorkerSource, open, open_pool};

/// Why a call to a registry did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("the tree has changed in between")]
    Conflict,
    /// No answer, or a refusal, in words that name the registry. A write may have been executed.
    #[error("{0}")]
    Failed(String),
}

/// What the registry's own clock says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegistryClock {
    /// In ms since 1970.
    pub(crate) now_ms: u64,
    /// See [`Vantage`].
    pub(crate) epoch: i64,
}

/// The outcome of a call, later.
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, RegistryError>>;

/// A record that may be unreadable, with its version.
pub(crate) type Found<T> = Versioned<Result<T, String>>;

/// The records that are there, of those that were asked for.
pub(crate) type FoundAt<T> = Vec<(NodeName, Found<T>)>;

/// A registry of worker IDs that hosts share.
pub(crate) trait WorkerRegistry: Send + Sync {
    /// What the worker file calls it: a worker ID is an instance's own in this registry alone.
    fn name(&self) -> String;

    /// `HOST:PORT` of each server, the way to which tells this host's own address.
    fn servers(&self) -> &[String];

    /// Where it is, for messages.
    fn place(&self) -> String {
        self.servers().join(",")
    }

    fn words(&self) -> RegistryWords;

    /// Opens a session, and makes what the registry lacks.
    fn connect(&self) -> Answer<'_, Arc<dyn RegistrySession>>;

    /// Opens a session, and writes nothing. A conflict means that the registry is not there yet.
    fn join(&self) -> Answer<'_, Arc<dyn RegistrySession>>;
}

/// A session of a registry. Every call has a time limit. The registry has one order of all writes, and
/// a reading that begins after the answer to [`RegistrySession::clock`] sees all writes before it.
pub(crate) trait RegistrySession: Send + Sync {
    /// Whether a server answers at present. A session that lost its connection is not waited for: an
    /// ensemble that went back to older data refuses it for as long as it lasts, and a new one can
    /// be had at once.
    fn is_connected(&self) -> bool;

    /// Makes what the registry lacks, if its data was deleted.
    fn prepare(&self) -> Answer<'_, ()>;

    /// The registry's time, by a write.
    fn clock(&self) -> Answer<'_, RegistryClock>;

    /// From where everything was seen that was read since the clock told `epoch`. Asked after the
    /// reading, it misses no interruption of it.
    fn vantage(&self, epoch: i64) -> Vantage;

    /// What all instances agree on; none if the registry's data was deleted.
    fn fleet(&self) -> Answer<'_, Option<Found<FleetRecord>>>;

    /// Every worker ID that has an owner, in order, and the number that the next new one gets.
    fn owned(&self) -> Answer<'_, (Vec<NodeName>, u64)>;

    /// Every instance that lives, in order.
    fn live(&self) -> Answer<'_, Vec<NodeName>>;

    /// Every worker ID that was given back, in order.
    fn free(&self) -> Answer<'_, Vec<NodeName>>;

    fn entries<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, Vec<WorkerEntry>>;

    fn live_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<LiveRecord>>;

    fn free_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<FreeRecord>>;

    /// Makes a worker ID that this registry never gave before. After a failure it may be there.
    fn create<'a>(&'a self, identity: &'a str, leaf: &'a LeafRecord) -> Answer<'a, NodeName>;

    /// Writes all or nothing. [`RegistryError::Conflict`] means that nothing was written, since the
    /// records are not as expected.
    fn commit<'a>(&'a self, writes: &'a [RegistryWrite]) -> Answer<'a, ()>;
}
