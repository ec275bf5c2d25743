//! The asynchronous client: a handle that any number of callers share. Their requests travel
//! together on one connection, which a task of its own keeps up for as long as a handle lives.

mod calls;
mod connection;
mod handle;
mod link;
mod task;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::ids::Ids;
use crate::options::{Options, cut};
use crate::session::{self, CheckedCall};
use crate::wire::{DaemonStatus, TagStatus, WorkerStatus};
use handle::ClientHandle;

/// A client of leafd for tokio. Cloning is cheap; all clones share one connection, on which any
/// number of calls may wait at the same time.
///
/// It connects when it is first used, and again whenever the connection was lost; a call that got
/// no answer is then repeated, which at most skips IDs. A call fails only when its timeout has
/// passed, when the daemon refuses it, or when the peer does not keep to the protocol. Dropping
/// the future of a call gives up the call.
///
/// The connection lives in the tokio runtime of the first call, which must have IO and time
/// enabled, and ends with the last handle. Do not use one client on both sides of a `fork`.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
    timeout: Duration,
}

impl Client {
    /// A client that connects when it is first used. Needs no runtime yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let timeout = options.call_timeout();
        Self { handle: Arc::new(ClientHandle::new(options)), timeout }
    }

    /// A client that is connected: the daemon has said hello and answered a first call (`Time`).
    ///
    /// # Errors
    /// As of every call: [`Error::Unavailable`] when there is no daemon, [`Error::Refused`] when
    /// it does not let this client in.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let client = Self::new(options);
        client.time().await?;
        Ok(client)
    }

    /// A handle on the same connection whose calls may take up to `timeout`, at most 24 hours.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { handle: Arc::clone(&self.handle), timeout: cut(timeout) }
    }

    /// One ID of `tag`.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `UnknownTag`, `Forbidden` and `StoreUnavailable` are
    /// the ones to expect.
    pub async fn next(&self, tag: &str) -> Result<u64, Error> {
        session::only_id(self.call(CheckedCall::segment(tag, 1)?).await?)
    }

    /// `count` IDs of `tag`; the daemon has a limit, 100,000 by default.
    ///
    /// # Errors
    /// As [`Self::next`], and `BadCount` above the limit.
    pub async fn next_many(&self, tag: &str, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(CheckedCall::segment(tag, count)?).await?, count)
    }

    /// One snowflake ID. [`crate::Layout::decode`] takes it apart.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `ClockBackwards`, `WorkerUnavailable` and
    /// `NotConfigured` are the ones to expect.
    pub async fn snowflake(&self) -> Result<u64, Error> {
        session::only_id(self.call(CheckedCall::snowflake(1)?).await?)
    }

    /// `count` snowflake IDs; the daemon has a limit, 100,000 by default.
    ///
    /// # Errors
    /// As [`Self::snowflake`], and `BadCount` above the limit.
    pub async fn snowflake_many(&self, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(CheckedCall::snowflake(count)?).await?, count)
    }

    /// The clock of the daemon's host, to the millisecond.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn time(&self) -> Result<SystemTime, Error> {
        session::time(self.call(CheckedCall::Time).await?)
    }

    /// How the daemon is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self) -> Result<DaemonStatus, Error> {
        session::status(self.call(CheckedCall::Status).await?)
    }

    /// A page of at most `limit` tags (1 to 100), in byte order, from the first one after `after`
    /// on; an empty `after` begins at the beginning, a short page is the last.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tag_list(&self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(CheckedCall::tag_list(after, limit)?).await?)
    }

    /// One tag.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` when there is none of this name.
    pub async fn tag_show(&self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_show(tag)?).await?)
    }

    /// Makes a tag whose first ID is `first` and whose leases begin with `step` IDs; 0 is the
    /// daemon's default.
    ///
    /// # Errors
    /// See [`Error`]; `TagExists` when there is one. When the connection broke before the answer,
    /// the call is repeated, and `TagExists` may then mean the tag that it made itself:
    /// [`Self::tag_show`] tells.
    pub async fn tag_create(
        &self,
        tag: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_create(tag, step, first, description)?).await?)
    }

    /// Changes the step of a tag, from its next lease on.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` and `BadStep` are the ones to expect.
    pub async fn tag_set_step(&self, tag: &str, step: u32) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_set_step(tag, step)?).await?)
    }

    /// A page of at most `limit` tags (1 to 100) that this daemon has used, in byte order, after
    /// the tag `after`; an empty page is the end. Comes from memory: the store is not asked, so
    /// descriptions are empty.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownCall` of a daemon that is older than the call.
    pub async fn tags_used(&self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(CheckedCall::tags_used(after, limit)?).await?)
    }

    /// Deletes a tag. Where it ended is remembered: a new tag of this name begins there or above,
    /// at the `max_id` of the answer.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` is the one to expect, also when the connection broke before the
    /// answer of a first try that went well, and `NotConfigured` where the database has no place
    /// to remember deleted tags.
    pub async fn tag_delete(&self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_delete(tag)?).await?)
    }

    /// A page of at most `limit` worker IDs (1 to 100) of the registry, ascending, from `from` on;
    /// an empty page is the end.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `NotConfigured` where worker IDs come from the
    /// configuration, and `RegistryUnavailable`.
    pub async fn worker_list(&self, from: u64, limit: u32) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(CheckedCall::worker_list(from, limit)?).await?)
    }

    /// Makes a worker ID free for anybody, on an operator's word that `owner`, who has it, is gone
    /// for good and never starts again with its state directory.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownWorker`, `WorkerInUse` and `WrongOwner` are the ones to expect, and
    /// those of [`Self::worker_list`]. When the connection broke before the answer, the call is
    /// repeated: it finds the ID free, which is no error, or in the hands of another owner, which
    /// is `WrongOwner`.
    pub async fn worker_release(&self, worker: u64, owner: &str) -> Result<WorkerStatus, Error> {
        session::worker(self.call(CheckedCall::worker_release(worker, owner)?).await?)
    }

    async fn call(&self, ask: CheckedCall<&str>) -> Result<crate::wire::Reply, Error> {
        self.handle.call(ask, self.timeout).await
    }
}
