//! The calls of the blocking client that are not for IDs: tags, public IDs, worker IDs and loans.

use super::client::Client;
use crate::error::Error;
use crate::session::{self, CheckedCall};
use crate::wire::{ForecastPage, HeldLoan, TagStatus, WorkerLoan, WorkerStatus};

impl Client {
    /// Lists at most `limit` tags (1 to 100) after the tag `after`, in byte order. An empty `after`
    /// starts at the first tag. An empty page is the end.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn tag_list(&mut self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(&CheckedCall::tag_list(after, limit)?)?)
    }

    /// Gets the status of one tag.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownTag` if no tag has this name.
    pub fn tag_show(&mut self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_show(tag)?)?)
    }

    /// Creates a tag. Its first ID is `first` and its leases start with `step` IDs; a `step` of 0
    /// stands for the daemon's default.
    ///
    /// # Errors
    /// See [`Error`]. `TagExists` if the tag exists. The client repeats the call if the connection
    /// breaks before the answer, so `TagExists` may mean the tag that the first try created. Use
    /// [`Self::tag_show`] to find out.
    pub fn tag_create(
        &mut self,
        tag: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_create(tag, step, first, description)?)?)
    }

    /// Changes the step of a tag, starting with its next lease.
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownTag` and `BadStep`.
    pub fn tag_set_step(&mut self, tag: &str, step: u32) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_set_step(tag, step)?)?)
    }

    /// Lists at most `limit` tags (1 to 100) that this daemon has used, after the tag `after` and
    /// in byte order. An empty page is the end. The daemon answers from memory without asking the
    /// store, so descriptions are empty.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownCall` if the daemon is older than this call.
    pub fn tags_used(&mut self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(&CheckedCall::tags_used(after, limit)?)?)
    }

    /// Asks when tags outgrow a type: at most `limit` tags (1 to 100) that this daemon has used, after
    /// the tag `after` and in byte order. A page without tags is the end. The daemon answers from
    /// memory, by the rates that its metrics have.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownCall` if the daemon is older than this call.
    pub fn tag_forecasts(&mut self, after: &str, limit: u32) -> Result<ForecastPage, Error> {
        session::forecasts(self.call(&CheckedCall::tag_forecasts(after, limit)?)?)
    }

    /// Asks when one tag outgrows a type. The answer has this tag alone.
    ///
    /// # Errors
    /// See [`Error`]. `UnknownTag` if this daemon has not used the tag, `UnknownCall` if it is older
    /// than this call.
    pub fn tag_forecast(&mut self, tag: &str) -> Result<ForecastPage, Error> {
        session::forecasts(self.call(&CheckedCall::tag_forecast(tag)?)?)
    }

    /// Makes public IDs of 1 to 32 numbers of a tag, by the daemon's keys; `tag` is empty for snowflake
    /// IDs. Their order is that of `ids`.
    ///
    /// # Errors
    /// See [`Error`]. Expect `NotConfigured` if the daemon has no keys, `Forbidden` if the caller may not have
    /// IDs of the tag, and `UnknownCall` if the daemon is older than this call.
    pub fn public_encode(&mut self, tag: &str, ids: &[u64]) -> Result<Vec<String>, Error> {
        let call = CheckedCall::public_encode(tag, ids)?;
        session::public_ids(self.call(&call)?, ids.len())
    }

    /// Turns 1 to 32 public IDs of a tag back into numbers, by the daemon's keys; `tag` is empty for
    /// snowflake IDs. They have no prefix. Public IDs of another tag give some other numbers.
    ///
    /// # Errors
    /// As [`Self::public_encode`]. Expect `BadPublicId`, and `Forbidden` without a rule that allows it.
    pub fn public_decode(&mut self, tag: &str, public_ids: &[&str]) -> Result<Vec<u64>, Error> {
        let call = CheckedCall::public_decode(tag, public_ids)?;
        session::public_numbers(self.call(&call)?, public_ids.len())
    }

    /// Deletes a tag. The database remembers where it ended: a new tag of this name starts at the
    /// `max_id` of the answer or above.
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownTag`, also if the first try deleted the tag and the connection
    /// broke before the answer, and `NotConfigured` if the database has no table for deleted tags.
    pub fn tag_delete(&mut self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_delete(tag)?)?)
    }

    /// Lists at most `limit` worker IDs (1 to 100) of the registry, ascending and starting at
    /// `from`. An empty page is the end.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `NotConfigured`, if worker IDs come from the
    /// configuration, and `RegistryUnavailable`.
    pub fn worker_list(&mut self, from: u64, limit: u32) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(&CheckedCall::worker_list(from, limit)?)?)
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
    pub fn worker_release(&mut self, worker: u64, owner: &str) -> Result<WorkerStatus, Error> {
        session::worker(self.call(&CheckedCall::worker_release(worker, owner)?)?)
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
    pub fn worker_borrow(
        &mut self,
        pool: &str,
        borrower: &str,
        cgroup: (&str, u64),
        held: Option<HeldLoan<'_>>,
    ) -> Result<WorkerLoan, Error> {
        let call = CheckedCall::worker_borrow(pool, borrower, cgroup, held)?;
        session::loan(self.call(&call)?)
    }

    /// Gives a borrowed worker ID back. The caller guarantees that no process issues with it any
    /// more, and that none has issued anything at or past `ceiling_unix_ms` (ms since 1970).
    ///
    /// # Errors
    /// See [`Error`]. Expect `UnknownWorker` if the daemon does not know the loan.
    pub fn worker_return(
        &mut self,
        pool: &str,
        borrower: &str,
        ceiling_unix_ms: u64,
    ) -> Result<WorkerLoan, Error> {
        let call = CheckedCall::worker_return(pool, borrower, ceiling_unix_ms)?;
        session::loan(self.call(&call)?)
    }

    /// Lists the worker IDs of a pool, like [`Self::worker_list`].
    ///
    /// # Errors
    /// Those of [`Self::worker_list`].
    pub fn pool_list(
        &mut self,
        pool: &str,
        from: u64,
        limit: u32,
    ) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(&CheckedCall::pool_list(pool, from, limit)?)?)
    }

    /// Releases a worker ID of a pool, like [`Self::worker_release`].
    ///
    /// # Errors
    /// Those of [`Self::worker_release`].
    pub fn pool_release(
        &mut self,
        pool: &str,
        worker: u64,
        owner: &str,
    ) -> Result<WorkerStatus, Error> {
        session::worker(self.call(&CheckedCall::pool_release(pool, worker, owner)?)?)
    }
}
