//! A store in Redis: counters as `INCR` leaves them. A counter holds the highest ID that was given, so a
//! lease of n is (result − n, result], and the row's `max_id`, in leafd's terms, is the counter + 1.
//!
//! Everything that has to hold together is one Lua script, which Redis executes as a whole. Redis can lose
//! what it has confirmed: by a crash, or by a failover to a replica that lags behind. So each lease leaves
//! how far it came, what the last minutes took, and the replication ID of the server, beside the counter; a lease that
//! finds another replication ID skips a margin first. `place` says where Redis is, `link` opens connections
//! and `server` judges what is at their other end, `scripts` has the scripts and their answers, and
//! `calls`, `tags` and `list` the calls of a store.

mod calls;
mod failure;
mod inspection;
mod keys;
mod link;
mod links;
mod list;
mod place;
mod scripts;
mod sentinel;
mod server;
mod tags;

use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use keys::KeyPattern;
pub use place::RedisPlace;

pub(super) use inspection::inspect;

use self::links::Links;
use self::list::KnownKeys;
use self::scripts::Scripts;
use super::{
    BoxFuture, CreatedTag, DatabaseGuard, DeletedTag, LeaseAsk, Leased, NewTag, Row, Store,
    StoreError, StoreLimits,
};
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::secret::Secret;

/// Reading many counters may take this many times [`StoreLimits::timeout`].
const LONG_READ: u32 = 5;

/// A Redis server, and how leafd uses it.
#[derive(Debug, Clone)]
pub struct RedisStore {
    /// Where it is.
    pub place: RedisPlace,
    /// The password of the server.
    pub password: Option<Secret>,
    /// The password of the Sentinels.
    pub sentinel_password: Option<Secret>,
    /// The bounds of its use.
    pub limits: StoreLimits,
    /// IDs per lease of a counter that has no step of its own.
    pub default_step: u64,
    /// Clocks and random bytes.
    pub environment: Environment,
}

struct Redis {
    /// For users; never contains a password.
    described: String,
    place: RedisPlace,
    timeout: Duration,
    default_step: u64,
    links: Links,
    scripts: Scripts,
    known: KnownKeys,
    /// The replication ID for which a skipped margin was logged last.
    told: Mutex<String>,
}

/// Makes a store, which connects on first use.
///
/// # Errors
/// When a certificate or key cannot be used.
pub(super) fn open(store: RedisStore, guard: Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String> {
    let described = store.place.to_string();
    let (place, timeout) = (store.place.clone(), store.limits.timeout);
    let default_step = store.default_step;
    let links = Links::new(store, guard)?;
    let (scripts, known, told) = (Scripts::default(), KnownKeys::default(), Mutex::default());
    Ok(Arc::new(Redis { described, place, timeout, default_step, links, scripts, known, told }))
}

impl Store for Redis {
    fn describe(&self) -> String {
        self.described.clone()
    }

    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        Some(self.links.guard())
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        Box::pin(self.lease_counter(tag, ask))
    }

    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.look_at_server())
    }

    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.prove_counter(tag))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.probe_on_new_link())
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
        Box::pin(self.create_counter(tag, new))
    }

    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>> {
        Box::pin(self.delete_counter(tag, floor))
    }

    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>> {
        Box::pin(self.raise_counter(tag, floor))
    }

    fn set_step<'a>(
        &'a self,
        tag: &'a BizTag,
        step: u64,
    ) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.write_step(tag, step))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.links.close() })
    }
}
