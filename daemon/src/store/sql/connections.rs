//! The few connections to a shared database: opened when they are needed, closed when they are
//! idle, and never used again when a call on them was given up or failed.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{
    BuildError, Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult,
};
use sqlx::Connection as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::store::StoreLimits;
use crate::store::guard::DatabaseGuard;

/// Idle for this long, a connection is asked whether it still works before it is used.
const FRESH: Duration = Duration::from_secs(1);

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// How connections are made.
pub(super) trait Connect: Send + Sync + 'static {
    /// What one is.
    type Connection: sqlx::Connection + Send + 'static;

    /// Opens one, and lets it through [`DatabaseGuard::check`].
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, sqlx::Error>> + Send;

    /// Knows which database the connections have to lead to.
    fn guard(&self) -> &Arc<DatabaseGuard>;

    /// Whether open connections still lead to what is at their address. Asked before each use, so
    /// it has to be quick.
    fn is_still_there(&self) -> bool {
        true
    }
}

/// Up to so many connections.
pub(super) struct Connections<C: Connect> {
    pool: Pool<Opener<C>>,
    places: Arc<Semaphore>,
}

/// The right to one of them.
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
    /// How long a connection may take to say that it works: a new one may be there sooner.
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

/// A connection for one call. Unless it is given back, it is closed: after an error, or when the
/// call was given up at its time limit, nobody knows which state it is in.
pub(super) struct Lent<C: Connect> {
    connection: Option<Object<Opener<C>>>,
    _place: PoolSlot,
}

impl<C: Connect> Lent<C> {
    /// The call has ended in good order.
    pub(super) fn give_back(mut self) {
        self.connection = None;
    }

    /// The call has ended in good order, and the connection is not to be kept.
    pub(super) async fn say_goodbye(mut self) {
        let connection = self.connection.take().map(Object::take);
        say_goodbye(connection.into_iter().collect()).await;
    }
}

impl<C: Connect> Deref for Lent<C> {
    type Target = C::Connection;

    #[expect(clippy::unreachable, reason = "only who owns it can give it back, and does not then")]
    fn deref(&self) -> &C::Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("it is still lent"))
    }
}

impl<C: Connect> DerefMut for Lent<C> {
    #[expect(clippy::unreachable, reason = "only who owns it can give it back, and does not then")]
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
    /// No connection yet, never more than `limits` says, and none that is `idle` for long.
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
        let places = Arc::new(Semaphore::new(limits.connections));
        Ok(Self { pool, places })
    }

    /// Waits until one of them is free.
    pub(super) async fn place(&self) -> PoolSlot {
        // It is never closed.
        PoolSlot { _permit: self.places.clone().acquire_owned().await.ok() }
    }

    /// A connection that works.
    ///
    /// # Errors
    /// When none can be opened.
    pub(super) async fn lend(&self, place: PoolSlot) -> Result<Lent<C>, sqlx::Error> {
        match self.pool.get().await {
            Ok(connection) => Ok(Lent { connection: Some(connection), _place: place }),
            Err(PoolError::Backend(error)) => Err(error),
            Err(_) => Err(sqlx::Error::PoolClosed),
        }
    }

    /// One more, which is not counted.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) async fn open(&self) -> Result<C::Connection, sqlx::Error> {
        self.pool.manager().how.connect().await
    }

    /// Knows which database they have to lead to.
    pub(super) fn guard(&self) -> &Arc<DatabaseGuard> {
        self.pool.manager().how.guard()
    }

    /// Closes those that are not in use: after a failure they may lead to a server that no longer
    /// is the right one.
    pub(super) fn close_idle(&self) {
        drop(self.pool.retain(|_, _| false));
    }

    /// Closes them for good.
    pub(super) async fn close(&self) {
        let removed = self.pool.retain(|_, _| false).removed;
        self.pool.close();
        say_goodbye(removed).await;
    }
}

/// Servers log a connection that ends without a word.
async fn say_goodbye(connections: Vec<impl sqlx::Connection>) {
    let all = async {
        for connection in connections {
            let _ = connection.close().await;
        }
    };
    let _ = timeout(GOODBYE, all).await;
}
