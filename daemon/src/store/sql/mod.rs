//! Stores in SQL databases. Every call is one transaction on one connection from a pool; a connection
//! goes back to the pool only after a good end. Here is the store itself; `lease.rs`, `list.rs` and
//! `tags.rs` have its calls, `transaction.rs` what they are made of, and `failure.rs` what errors mean.
//! A [`Dialect`] holds what differs between databases; each has its own folder.

mod checkpoints;
mod connections;
mod dialect;
mod failure;
mod lease;
mod list;
mod member;
pub(super) mod mysql;
pub(super) mod postgres;
pub(super) mod schema;
pub(super) mod sqlite;
mod tags;
mod transaction;
mod witness;
mod witness_rows;

use std::sync::Arc;
use std::time::Duration;

use self::checkpoints::Checkpoints;
use self::connections::Connections;
use self::dialect::{Dialect, Statements, Tables};
use crate::ids::BizTag;
use crate::store::guard::DatabaseGuard;
use crate::store::several::{MemberPlace, MemberStore};
use crate::store::witness::WitnessStore;
use crate::store::{
    BoxFuture, CreatedTag, DeletedTag, LeaseAsk, Leased, NewTag, Row, SharedStore, Store,
    StoreError, StoreLimits,
};

/// leafd closes a connection to a shared database after it was idle for this long.
const IDLE: Duration = Duration::from_secs(10);

/// Reading many rows may take this many times [`StoreLimits::timeout`].
const LONG_READ: u32 = 5;

/// A store in one database.
struct Sql<D: Dialect> {
    /// For users; never contains a password.
    described: String,
    begin_writing: String,
    begin_reading: String,
    timeout: Duration,
    /// Idle connections stay open.
    keeps_connections: bool,
    connections: Connections<D>,
    checkpoints: Checkpoints,
    tables: Tables,
    statements: &'static Statements,
    /// Set if this is one of several databases, each of which has a share of the IDs.
    place: Option<MemberPlace>,
}

impl<D: Dialect> std::fmt::Debug for Sql<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sql").field(&self.described).finish()
    }
}

impl<D: Dialect> Sql<D> {
    /// A store that connects on first use. Without `idle`, connections stay open.
    ///
    /// # Errors
    /// When the pool cannot be built.
    ///
    /// # Panics
    /// With `idle`, outside of a runtime.
    fn new(
        described: String,
        dialect: D,
        limits: StoreLimits,
        idle: Option<Duration>,
    ) -> Result<Self, String> {
        let (begin_writing, begin_reading) = (dialect.begin_writing(), dialect.begin_reading());
        let keeps_connections = idle.is_none();
        let connections = Connections::new(dialect, limits, idle);
        let connections = connections.map_err(|error| error.to_string())?;
        let timeout = limits.timeout;
        let checkpoints = Checkpoints::default();
        Ok(Self {
            described,
            begin_writing,
            begin_reading,
            timeout,
            keeps_connections,
            connections,
            checkpoints,
            tables: Tables::Leaf,
            statements: D::statements(Tables::Leaf),
            place: None,
        })
    }

    /// The same with a share of the IDs, in tables of its own.
    fn with_share(self, place: Option<MemberPlace>) -> Self {
        let tables = Tables::Shares;
        Self { tables, statements: D::statements(tables), place, ..self }
    }
}

/// A store on a server that several hosts share.
///
/// # Errors
/// When the pool cannot be built.
///
/// # Panics
/// Outside of a runtime.
fn open_shared<D: Dialect>(shared: &SharedStore, dialect: D) -> Result<Arc<dyn Store>, String> {
    Ok(Arc::new(Sql::new(shared.address.to_string(), dialect, shared.limits, Some(IDLE))?))
}

/// One of several databases. Without a place, for `leafd division`.
///
/// # Errors
/// When the pool cannot be built.
///
/// # Panics
/// Outside of a runtime.
fn open_member<D: Dialect>(
    shared: &SharedStore,
    dialect: D,
    place: Option<MemberPlace>,
) -> Result<Arc<dyn MemberStore>, String> {
    let store = Sql::new(shared.address.to_string(), dialect, shared.limits, Some(IDLE))?;
    Ok(Arc::new(store.with_share(place)))
}

impl<D: Dialect> Store for Sql<D> {
    fn describe(&self) -> String {
        if self.tables == Tables::Shares || !self.connections.guard().is_nameless() {
            return self.described.clone();
        }
        format!(
            "{} (without the table leafd_identity, or without the right to read it, so leafd would \
             not notice another database at this address; `leafd schema` prints the table, and \
             GRANT SELECT gives the right)",
            self.described
        )
    }

    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        Some(self.connections.guard())
    }

    fn witness(&self) -> Option<&dyn WitnessStore> {
        (self.tables == Tables::Leaf && const { D::WITNESS.is_some() }).then_some(self)
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        Box::pin(self.lease_row(tag, ask))
    }

    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.look_on_open_connection())
    }

    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.prove_row(tag))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.probe_on_new_connection())
    }

    fn page<'a>(
        &'a self,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.page_of(after, limit))
    }

    fn find<'a>(&'a self, tags: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.find_rows(tags))
    }

    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.row(tag))
    }

    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>> {
        Box::pin(async move {
            let created = self.create_row(tag, new).await?;
            self.checkpoint().await;
            Ok(created)
        })
    }

    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>> {
        Box::pin(async move {
            let deleted = self.delete_row(tag, floor).await?;
            self.checkpoint().await;
            Ok(deleted)
        })
    }

    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>> {
        Box::pin(self.raise_row(tag, floor))
    }

    fn set_step<'a>(
        &'a self,
        tag: &'a BizTag,
        step: u64,
    ) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.update_step(tag, step))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.connections.close())
    }
}
