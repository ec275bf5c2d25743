//! The few connections to a database: opened on demand, checked to lead to the right database, closed
//! when idle, and never used again after a call on them failed or timed out.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{
    BuildError, Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult,
};
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::state::database::DatabaseIdentity;
use crate::store::StoreLimits;
use crate::store::guard::{DatabaseGuard, UnusableDatabase};
use crate::store::several::MemberPlace;

/// leafd pings a connection before it uses it if the connection was idle for longer than this.
const FRESH: Duration = Duration::from_secs(1);

/// Limit for closing connections politely.
const GOODBYE: Duration = Duration::from_secs(1);

/// How to make connections to one database.
pub(super) trait Connect: Send + Sync + 'static {
    type Connection: sqlx::Connection + Send + 'static;

    /// Opens a connection that [`DatabaseGuard::check`] accepts.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, sqlx::Error>> + Send;

    fn guard(&self) -> &Arc<DatabaseGuard>;

    /// Whether open connections still lead to what is at their address. Called before each use, so it
    /// must be quick.
    fn is_still_there(&self) -> bool {
        true
    }
}

/// A bounded pool of connections.
pub(super) struct Connections<C: Connect> {
    pool: Pool<Opener<C>>,
    slots: Arc<Semaphore>,
}

/// The right to one connection.
pub(super) struct PoolSlot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl<C: Connect> std::fmt::Debug for Connections<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connections")
    }
}

struct Opener<C> {
    how: C,
    /// Time limit for a ping: opening a new connection may be faster than waiting longer.
    ping: Duration,
}

impl<C: Connect> Manager for Opener<C> {
    type Type = C::Connection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<C::Connection, sqlx::Error> {
        self.how.connect().await
    }

    async fn recycle(
        &self,
        connection: &mut C::Connection,
        metrics: &Metrics,
    ) -> RecycleResult<sqlx::Error> {
        if !self.how.is_still_there() {
            return Err(RecycleError::message("the database was replaced"));
        }
        if metrics.last_used() > FRESH {
            let ping = timeout(self.ping, connection.ping()).await;
            ping.map_err(|_| RecycleError::message("it does not answer"))??;
        }
        Ok(())
    }
}

/// A connection for one call. It is closed unless it is given back: after an error or a timeout, its
/// state is unknown.
pub(super) struct Lent<C: Connect> {
    connection: Option<Object<Opener<C>>>,
    _slot: PoolSlot,
}

impl<C: Connect> Lent<C> {
    /// The call has ended well.
    pub(super) fn give_back(mut self) {
        self.connection = None;
    }

    /// The call has ended well, but the pool does not keep the connection.
    pub(super) async fn say_goodbye(mut self) {
        let connection = self.connection.take().map(Object::take);
        say_goodbye(connection.into_iter().collect()).await;
    }
}

impl<C: Connect> Deref for Lent<C> {
    type Target = C::Connection;

    #[expect(clippy::unreachable, reason = "giving it back consumes the only handle")]
    fn deref(&self) -> &C::Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("it is still lent"))
    }
}

impl<C: Connect> DerefMut for Lent<C> {
    #[expect(clippy::unreachable, reason = "giving it back consumes the only handle")]
    fn deref_mut(&mut self) -> &mut C::Connection {
        self.connection.as_mut().unwrap_or_else(|| unreachable!("it is still lent"))
    }
}

impl<C: Connect> Drop for Lent<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

impl<C: Connect> Connections<C> {
    /// An empty pool of at most [`StoreLimits::connections`]. It closes connections that were idle
    /// for `idle`.
    ///
    /// # Errors
    /// When the pool cannot be built.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(super) fn new(
        how: C,
        limits: StoreLimits,
        idle: Option<Duration>,
    ) -> Result<Self, BuildError> {
        let pool = Pool::builder(Opener { how, ping: limits.timeout / 4 });
        let pool = pool.max_size(limits.connections).build()?;
        if let Some(idle) = idle {
            let weak = pool.weak();
            tokio::spawn(async move {
                loop {
                    sleep(idle / 2).await;
                    let Some(pool) = weak.upgrade() else { return };
                    let removed = pool.retain(|_, metrics| metrics.last_used() < idle).removed;
                    drop(pool);
                    say_goodbye(removed).await;
                }
            });
        }
        let slots = Arc::new(Semaphore::new(limits.connections));
        Ok(Self { pool, slots })
    }

    /// Waits until a connection may be used.
    pub(super) async fn slot(&self) -> PoolSlot {
        // Nobody closes the semaphore, so this always succeeds.
        PoolSlot { _permit: self.slots.clone().acquire_owned().await.ok() }
    }

    /// A working connection.
    ///
    /// # Errors
    /// When none can be opened.
    pub(super) async fn lend(&self, slot: PoolSlot) -> Result<Lent<C>, sqlx::Error> {
        match self.pool.get().await {
            Ok(connection) => Ok(Lent { connection: Some(connection), _slot: slot }),
            Err(PoolError::Backend(error)) => Err(error),
            Err(_) => Err(sqlx::Error::PoolClosed),
        }
    }

    /// A new connection outside of the pool and its bound.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) async fn open(&self) -> Result<C::Connection, sqlx::Error> {
        self.pool.manager().how.connect().await
    }

    pub(super) fn guard(&self) -> &Arc<DatabaseGuard> {
        self.pool.manager().how.guard()
    }

    /// Closes the connections that are not in use: after a failure they may lead to a server that is no
    /// longer the right one.
    pub(super) fn close_idle(&self) {
        drop(self.pool.retain(|_, _| false));
    }

    /// Closes the pool.
    pub(super) async fn close(&self) {
        let removed = self.pool.retain(|_, _| false).removed;
        self.pool.close();
        say_goodbye(removed).await;
    }
}

/// Servers log a connection that ends without a goodbye.
async fn say_goodbye(connections: Vec<impl sqlx::Connection>) {
    let all = async {
        for connection in connections {
            let _ = connection.close().await;
        }
    };
    let _ = timeout(GOODBYE, all).await;
}

/// What tells a shared database from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentifiedBy {
    /// Its own identity, if it has one.
    Itself,
    /// The division of which it has a share.
    Division(DatabaseIdentity),
    /// Nothing yet: `leafd division` looks at it.
    Nothing,
}

impl IdentifiedBy {
    /// For one of several databases.
    pub(super) fn of(place: Option<&MemberPlace>) -> Self {
        place.map_or(Self::Nothing, |place| Self::Division(place.division))
    }

    /// Checks a new connection by the answer to the query for the name.
    pub(super) async fn check(
        self,
        guard: &DatabaseGuard,
        answer: Result<Option<String>, sqlx::Error>,
        has_none: impl Fn(&dyn DatabaseError) -> bool,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Itself => check_shared(guard, answer, has_none).await,
            Self::Division(division) => check_member(guard, answer, division).await,
            Self::Nothing => Ok(()),
        }
    }
}

/// Checks a new connection to a shared database. `answer` is what the query for the identity returned;
/// `has_none` recognises the error of a database that has no identity.
async fn check_shared(
    guard: &DatabaseGuard,
    answer: Result<Option<String>, sqlx::Error>,
    has_none: impl Fn(&dyn DatabaseError) -> bool,
) -> Result<(), sqlx::Error> {
    let text = match answer {
        Ok(text) => text,
        Err(sqlx::Error::Database(error)) if has_none(&*error) => None,
        Err(error) => return Err(error),
    };
    let identity = text.map(|text| text.trim().parse::<DatabaseIdentity>()).transpose();
    let identity = identity.map_err(|error| sqlx::Error::Configuration(error.into()))?;
    Ok(guard.check(identity, None).await?)
}

/// As [`check_shared`], for one of several databases: the answer has to be the name of this division.
async fn check_member(
    guard: &DatabaseGuard,
    answer: Result<Option<String>, sqlx::Error>,
    division: DatabaseIdentity,
) -> Result<(), sqlx::Error> {
    let name = answer?.and_then(|text| text.trim().parse::<DatabaseIdentity>().ok());
    if name == Some(division) {
        return Ok(guard.check(name, None).await?);
    }
    let what = name.map_or_else(
        || "is in no division: run `leafd division make`".to_owned(),
        |name| {
            format!(
                "belongs to the division {name}, but store.division is {division}. Is its URL in \
                 store.urls right?"
            )
        },
    );
    Err(sqlx::Error::Configuration(format!("this database {what}").into()))
}

impl From<UnusableDatabase> for sqlx::Error {
    fn from(unusable: UnusableDatabase) -> Self {
        Self::Configuration(unusable.into())
    }
}
