//! The asynchronous client: a handle for any number of callers. Their requests share one
//! connection, which a background task keeps up as long as a handle exists.

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
use crate::wire::{DaemonStatus, ForecastPage, HeldLoan, TagStatus, WorkerLoan, WorkerStatus};
use handle::ClientHandle;

/// A client of leafd for tokio. Cloning is cheap. All clones share one connection. Any number of
/// calls may wait; those above the daemon's limit on requests in flight are queued in the client.
///
/// The client connects on first use and reconnects when the connection is lost. It then repeats
/// calls that got no answer, which may skip IDs but never repeats one. A call fails only if its
/// timeout passes, the daemon refuses it, or the peer breaks the protocol. Dropping the future of a
/// call abandons the call.
///
/// The connection lives in the tokio runtime of the first call, which must have IO and time
/// enabled. It ends when the last handle is dropped. In the child of a `fork`, every call of the parent's
/// client fails with [`Error::Forked`]: make a new client there, in a new runtime.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
    timeout: Duration,
}

impl Client {
    /// Makes a client that connects on first use. Needs no runtime yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let timeout = options.call_timeout();
        Self { handle: Arc::new(ClientHandle::new(options)), timeout }
    }

    /// Makes a client and connects it: the daemon has answered a first call (`Time`).
    ///
    /// # Errors
    /// Those of every call: [`Error::Unavailable`] if no daemon can be reached, [`Error::Refused`]
    /// if the daemon does not let this user connect.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let client = Self::new(options);
        client.time().await?;
        Ok(client)
    }

    /// Returns a handle on the same connection whose calls have this timeout, at most 24 hours.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { handle: Arc::clone(&self.handle), timeout: cut(timeout) }
    }

    /// Gets one ID of `tag`.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `UnknownTag`, `Forbidden` and `StoreUnavailable`.
    pub async fn next(&self, tag: &str) -> Result<u64, Error> {
        session::only_id(self.call(CheckedCall::segment(tag, 1)?).await?)
    }

    /// Gets `count` IDs of `tag`, at most the daemon's limit (100,000 by default).
    ///
    /// # Errors
    /// Those of [`Self::next`], and `BadCount` above the limit.
    pub async fn next_many(&self, tag: &str, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(CheckedCall::segment(tag, count)?).await?, count)
    }

    /// Gets one snowflake ID. [`crate::Layout::decode`] splits it into its parts.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `ClockBackwards`, `WorkerUnavailable` and
    /// `NotConfigured`.
    pub async fn snowflake(&self) -> Result<u64, Error> {
        session::only_id(self.call(CheckedCall::snowflake(1)?).await?)
    }

    /// Gets `count` snowflake IDs, at most the daemon's limit (100,000 by default).
    ///
    /// # Errors
    /// Those of [`Self::snowflake`], and `BadCount` above the limit.
    pub async fn snowflake_many(&self, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(CheckedCall::snowflake(count)?).await?, count)
    }

    /// Reads the clock of the daemon's host, to the millisecond.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn time(&self) -> Result<SystemTime, Error> {
        session::time(self.call(CheckedCall::Time).await?)
    }

    /// Gets the status of the daemon: connections, store, state and snowflake IDs.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self) -> Result<DaemonStatus, Error> {
        session::status(self.call(CheckedCall::Status).await?)
    }

    /// Lists at most `limit` tags (1 to 100) after the tag `after`, in byte order. An empty `after`
    /// starts at the first tag. An empty page is the end.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tag_list(&self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(CheckedCall::tag_list(after, limit)?).await?)
    }

    /// Gets the status of one tag.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownTag` if no tag has this name.
    pub async fn tag_show(&self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_show(tag)?).await?)
    }

    /// Creates a tag. Its first ID is `first` and its leases start with `step` IDs; a `step` of 0
    /// stands for the daemon's default.
    ///
    /// # Errors
    /// See [`Error`]. `TagExists` if the tag exists. The client repeats the call if the connection
    /// breaks before the answer, so `TagExists` may mean the tag that the first try created. Use
    /// [`Self::tag_show`] to find out.
    pub async fn tag_create(
        &self,
        tag: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_create(tag, step, first, description)?).await?)
    }

    /// Changes the step of a tag, starting with its next lease.
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownTag` and `BadStep`.
    pub async fn tag_set_step(&self, tag: &str, step: u32) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_set_step(tag, step)?).await?)
    }

    /// Lists at most `limit` tags (1 to 100) that this daemon has used, after the tag `after` and
    /// in byte order. An empty page is the end. The daemon answers from memory without asking the
    /// store, so descriptions are empty.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownCall` if the daemon is older than this call.
    pub async fn tags_used(&self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(CheckedCall::tags_used(after, limit)?).await?)
    }

    /// Asks when tags outgrow a type: at most `limit` tags (1 to 100) that this daemon has used, after
    /// the tag `after` and in byte order. A page without tags is the end. The daemon answers from
    /// memory, by the rates that its metrics have.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownCall` if the daemon is older than this call.
    pub async fn tag_forecasts(&self, after: &str, limit: u32) -> Result<ForecastPage, Error> {
        session::forecasts(self.call(CheckedCall::tag_forecasts(after, limit)?).await?)
    }

    /// Asks when one tag outgrows a type. The answer has this tag alone.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownTag` if this daemon has not used the tag, `UnknownCall` if it is older
    /// than this call.
    pub async fn tag_forecast(&self, tag: &str) -> Result<ForecastPage, Error> {
        session::forecasts(self.call(CheckedCall::tag_forecast(tag)?).await?)
    }

    /// Makes public IDs of 1 to 32 numbers of a tag, by the daemon's keys; `tag` is empty for snowflake
    /// IDs. Their order is that of `ids`.
    ///
    /// # Errors
    /// See [`Error`]. Expect `NotConfigured` if the daemon has no keys, `Forbidden` if the caller may not have
    /// IDs of the tag, and `UnknownCall` if the daemon is older than this call.
    pub async fn public_encode(&self, tag: &str, ids: &[u64]) -> Result<Vec<String>, Error> {
        let call = CheckedCall::public_encode(tag, ids)?;
        session::public_ids(self.call(call).await?, ids.len())
    }

    /// Turns 1 to 32 public IDs of a tag back into numbers, by the daemon's keys; `tag` is empty for
    /// snowflake IDs. They have no prefix. Public IDs of another tag give some other numbers.
    ///
    /// # Errors
    /// As [`Self::public_encode`]. Expect `BadPublicId`, and `Forbidden` without a rule that allows it.
    pub async fn public_decode(&self, tag: &str, public_ids: &[&str]) -> Result<Vec<u64>, Error> {
        let call = CheckedCall::public_decode(tag, public_ids)?;
        session::public_numbers(self.call(call).await?, public_ids.len())
    }

    /// Deletes a tag. The database remembers where it ended: a new tag of this name starts at the
    /// `max_id` of the answer or above.
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownTag`, also if the first try deleted the tag and the connection
    /// broke before the answer, and `NotConfigured` if the database has no table for deleted tags.
    pub async fn tag_delete(&self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(CheckedCall::tag_delete(tag)?).await?)
    }

    /// Lists at most `limit` worker IDs (1 to 100) of the registry, ascending and starting at
    /// `from`. An empty page is the end.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `NotConfigured`, if worker IDs come from the
    /// configuration, and `RegistryUnavailable`.
    pub async fn worker_list(&self, from: u64, limit: u32) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(CheckedCall::worker_list(from, limit)?).await?)
    }

    /// Releases a worker ID, so that any daemon may claim it. The caller guarantees that `owner`,
    /// its present owner, is gone for good and never starts again with its state directory. If it
    /// did, IDs could be issued twice.
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownWorker`, `WorkerInUse`, `WrongOwner`, and the errors of
    /// [`Self::worker_list`]. The client repeats the call if the connection breaks before the
    /// answer. The second try succeeds if the worker ID is free, and fails with `WrongOwner` if
    /// another owner has claimed it.
    pub async fn worker_release(&self, worker: u64, owner: &str) -> Result<WorkerStatus, Error> {
        session::worker(self.call(CheckedCall::worker_release(worker, owner)?).await?)
    }

    /// Borrows a worker ID of `pool` for a process that uses another snowflake library, or says
    /// that `borrower` still has it. `docs/protocol.md`, section 16, says when to repeat the call
    /// and when to end the process. The connection holds the loan: keep the client for as long as
    /// the process runs. `cgroup` is the path and the inode number of the cgroup of every process
    /// that may use the worker ID; an empty path and 0 if there is none.
    ///
    /// # Errors
    /// See [`Error`]. Expect `WorkerUnavailable` until the registry has confirmed a worker ID,
    /// `WrongOwner` once the borrower has lost it, and `NotConfigured`.
    pub async fn worker_borrow(
        &self,
        pool: &str,
        borrower: &str,
        cgroup: (&str, u64),
        held: Option<HeldLoan<'_>>,
    ) -> Result<WorkerLoan, Error> {
        let call = CheckedCall::worker_borrow(pool, borrower, cgroup, held)?;
        session::loan(self.call(call).await?)
    }

    /// Gives a borrowed worker ID back. The caller guarantees that no process issues with it any
    /// more, and that none has issued anything at or past `ceiling_unix_ms` (ms since 1970).
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownWorker` if the daemon does not know the loan.
    pub async fn worker_return(
        &self,
        pool: &str,
        borrower: &str,
        ceiling_unix_ms: u64,
    ) -> Result<WorkerLoan, Error> {
        let call = CheckedCall::worker_return(pool, borrower, ceiling_unix_ms)?;
        session::loan(self.call(call).await?)
    }

    /// Lists the worker IDs of a pool, like [`Self::worker_list`].
    ///
    /// # Errors
    /// Those of [`Self::worker_list`].
    pub async fn pool_list(
        &self,
        pool: &str,
        from: u64,
        limit: u32,
    ) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(CheckedCall::pool_list(pool, from, limit)?).await?)
    }

    /// Releases a worker ID of a pool, like [`Self::worker_release`].
    ///
    /// # Errors
    /// Those of [`Self::worker_release`].
    pub async fn pool_release(
        &self,
        pool: &str,
        worker: u64,
        owner: &str,
    ) -> Result<WorkerStatus, Error> {
        session::worker(self.call(CheckedCall::pool_release(pool, worker, owner)?).await?)
    }

    async fn call(&self, call: CheckedCall<&str>) -> Result<crate::wire::Reply, Error> {
        self.handle.call(call, self.timeout).await
    }
}
