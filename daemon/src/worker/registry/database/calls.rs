//! The one connection of a session. Its calls follow each other, each a transaction with a time limit. A call
//! that has begun goes on if nobody waits for it any more, so that a stop does not cost the connection. After a
//! failure the connection is never used again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::access::DatabaseAccess;
use super::link::{Link, Trouble, Value};
use super::markers::MarkerWatch;
use super::statements::Statements;
use crate::environment::Environment;
use crate::state::mark::FileMark;
use crate::worker::registry::RegistryError;

pub(super) type Reply<'a, T> = BoxFuture<'a, Result<T, Trouble>>;

pub(super) struct SessionCore {
    pub(super) access: DatabaseAccess,
    pub(super) statements: Statements,
    pub(super) environment: Environment,
    /// Its name. No other session has it.
    pub(super) id: i64,
    /// Empty after a failure.
    pub(super) link: tokio::sync::Mutex<Option<Link>>,
    pub(super) is_open: AtomicBool,
    pub(super) disturbances: AtomicU64,
    /// The file that was opened.
    pub(super) file: Option<FileMark>,
    pub(super) markers: Mutex<MarkerWatch>,
    /// The paths of this session's own live markers, and when each had its last beat (ms since the boot).
    pub(super) own: Mutex<HashMap<String, u64>>,
}

impl SessionCore {
    /// How long a beat of this session lasts (ms).
    pub(super) fn lasts_ms(&self) -> i64 {
        i64::try_from(self.access.session_timeout.as_millis()).unwrap_or(i64::MAX)
    }

    /// Makes a call, as one transaction: behind a pooler, a transaction has one connection to the server.
    pub(super) async fn call<T: Send + 'static>(
        self: Arc<Self>,
        writes: bool,
        work: impl for<'a> FnOnce(&'a Self, &'a mut Link) -> Reply<'a, T> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let this = Arc::clone(&self);
        let call = tokio::spawn(async move {
            let mut slot = this.link.lock().await;
            let Some(mut link) = slot.take() else {
                return Err(this.over("the connection has ended"));
            };
            let limit = this.access.timeout;
            let transaction = this.transaction(&mut link, writes, work);
            match tokio::time::timeout(limit, transaction).await {
                Ok(Ok(value)) => {
                    *slot = Some(link);
                    Ok(value)
                }
                Ok(Err(Trouble::Conflict)) => {
                    *slot = Some(link);
                    Err(RegistryError::Conflict)
                }
                Ok(Err(Trouble::Failed(why))) => Err(this.over(&why)),
                Err(_) => Err(this.over(&no_answer(limit))),
            }
        });
        call.await.unwrap_or_else(|error| Err(self.over(&error.to_string())))
    }

    async fn transaction<T>(
        &self,
        link: &mut Link,
        writes: bool,
        work: impl for<'a> FnOnce(&'a Self, &'a mut Link) -> Reply<'a, T>,
    ) -> Result<T, Trouble> {
        link.run(self.statements.begin(writes)).await?;
        let outcome = work(self, link).await;
        let end = match outcome {
            Ok(_) => "COMMIT",
            Err(Trouble::Conflict) => "ROLLBACK",
            Err(_) => return outcome,
        };
        self.is_still_the_one(link).await?;
        link.run(end).await?;
        outcome
    }

    /// Fails if nobody else may see what is written here: in a file that was removed or replaced, on a server
    /// that has become a replica.
    async fn is_still_the_one(&self, link: &mut Link) -> Result<(), Trouble> {
        if self.file != self.access.file_mark() {
            return Err(Trouble::Failed("the file was replaced or removed (database.path)".into()));
        }
        let Some(read_only) = &self.statements.read_only else { return Ok(()) };
        let rows = link.rows(read_only, &[]).await?;
        match rows.first().and_then(|row| row.first()).map(String::as_str) {
            Some("0" | "OFF") => Ok(()),
            _ => {
                let why = "the server is read-only, as a replica is; worker IDs need the primary";
                Err(Trouble::Failed(why.to_owned()))
            }
        }
    }

    /// The session is over.
    pub(super) fn over(&self, why: &str) -> RegistryError {
        self.is_open.store(false, Ordering::Relaxed);
        self.disturbances.fetch_add(1, Ordering::Relaxed);
        RegistryError::Failed(format!("{}: {why}", self.access.place))
    }

    pub(super) async fn beat(&self, link: &mut Link, path: String) -> Result<(), Trouble> {
        let values = [Value::Text(&self.access.name), Value::Text(&path), Value::Number(self.id)];
        link.change(&self.statements.beat, &values).await?;
        self.has_beaten(&path);
        Ok(())
    }

    pub(super) fn has_beaten(&self, path: &str) {
        let now_ms = self.environment.boot_ms();
        if let Some(beaten_ms) = lock(&self.own).get_mut(path) {
            *beaten_ms = now_ms;
        }
    }
}

pub(super) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?} (database.timeout)")
}
