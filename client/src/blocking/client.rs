//! The blocking client itself: its calls, and how a call outlives the connection.

use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::connection::{BlockingConnection, ExchangeError};
use super::dial::Dialer;
use crate::error::Error;
use crate::ids::Ids;
use crate::options::{Options, cut};
use crate::session::{self, Backoff, CheckedCall, ConnectionFailure, FIRST_CALL_ID};
use crate::wire::{DaemonStatus, Reply, TagStatus, WorkerStatus};

/// A blocking client of leafd.
///
/// It connects when it is first used, and again whenever the connection was lost; a call that got
/// no answer is then repeated, which at most skips IDs. A call fails only when its timeout has
/// passed, when the daemon refuses it, or when the peer does not keep to the protocol.
///
/// Each client has a connection of its own. Do not use one client on both sides of a `fork`.
#[derive(Debug)]
pub struct Client {
    options: Options,
    timeout: Duration,
    dialer: Dialer,
    connection: Option<BlockingConnection>,
    backoff: Backoff,
    next_id: u64,
    /// The request, kept for its memory.
    out: Vec<u8>,
}

impl Client {
    /// A client that connects when it is first used.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            timeout: options.call_timeout(),
            dialer: Dialer::default(),
            connection: None,
            backoff: Backoff::new(options.backoff_range()),
            next_id: FIRST_CALL_ID,
            out: Vec::new(),
            options,
        }
    }

    /// A client that is connected: the daemon has said hello and answered a first call (`Time`).
    ///
    /// # Errors
    /// As of every call: [`Error::Unavailable`] when there is no daemon, [`Error::Refused`] when
    /// it does not let this client in.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let mut client = Self::new(options);
        client.time()?;
        Ok(client)
    }

    /// How long each further call may take in all, at most 24 hours.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = cut(timeout);
    }

    /// One ID of `tag`.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `UnknownTag`, `Forbidden` and `StoreUnavailable` are
    /// the ones to expect.
    pub fn next(&mut self, tag: &str) -> Result<u64, Error> {
        session::only_id(self.call(&CheckedCall::segment(tag, 1)?)?)
    }

    /// `count` IDs of `tag`; the daemon has a limit, 100,000 by default.
    ///
    /// # Errors
    /// As [`Self::next`], and `BadCount` above the limit.
    pub fn next_many(&mut self, tag: &str, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(&CheckedCall::segment(tag, count)?)?, count)
    }

    /// One snowflake ID. [`crate::Layout::decode`] takes it apart.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `ClockBackwards`, `WorkerUnavailable` and
    /// `NotConfigured` are the ones to expect.
    pub fn snowflake(&mut self) -> Result<u64, Error> {
        session::only_id(self.call(&CheckedCall::snowflake(1)?)?)
    }

    /// `count` snowflake IDs; the daemon has a limit, 100,000 by default.
    ///
    /// # Errors
    /// As [`Self::snowflake`], and `BadCount` above the limit.
    pub fn snowflake_many(&mut self, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(&CheckedCall::snowflake(count)?)?, count)
    }

    /// The clock of the daemon's host, to the millisecond.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn time(&mut self) -> Result<SystemTime, Error> {
        session::time(self.call(&CheckedCall::Time)?)
    }

    /// How the daemon is.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&mut self) -> Result<DaemonStatus, Error> {
        session::status(self.call(&CheckedCall::Status)?)
    }

    /// A page of at most `limit` tags (1 to 100), in byte order, from the first one after `after`
    /// on; an empty `after` begins at the beginning, a short page is the last.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn tag_list(&mut self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(&CheckedCall::tag_list(after, limit)?)?)
    }

    /// One tag.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` when there is none of this name.
    pub fn tag_show(&mut self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_show(tag)?)?)
    }

    /// Makes a tag whose first ID is `first` and whose leases begin with `step` IDs; 0 is the
    /// daemon's default.
    ///
    /// # Errors
    /// See [`Error`]; `TagExists` when there is one. When the connection broke before the answer,
    /// the call is repeated, and `TagExists` may then mean the tag that it made itself:
    /// [`Self::tag_show`] tells.
    pub fn tag_create(
        &mut self,
        tag: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_create(tag, step, first, description)?)?)
    }

    /// Changes the step of a tag, from its next lease on.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` and `BadStep` are the ones to expect.
    pub fn tag_set_step(&mut self, tag: &str, step: u32) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_set_step(tag, step)?)?)
    }

    /// A page of at most `limit` tags (1 to 100) that this daemon has used, in byte order, after
    /// the tag `after`; an empty page is the end. Comes from memory: the store is not asked, so
    /// descriptions are empty.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownCall` of a daemon that is older than the call.
    pub fn tags_used(&mut self, after: &str, limit: u32) -> Result<Vec<TagStatus>, Error> {
        session::tags(self.call(&CheckedCall::tags_used(after, limit)?)?)
    }

    /// Deletes a tag. Where it ended is remembered: a new tag of this name begins there or above,
    /// at the `max_id` of the answer.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownTag` is the one to expect, also when the connection broke before the
    /// answer of a first try that went well, and `NotConfigured` where the database has no place
    /// to remember deleted tags.
    pub fn tag_delete(&mut self, tag: &str) -> Result<TagStatus, Error> {
        session::tag(self.call(&CheckedCall::tag_delete(tag)?)?)
    }

    /// A page of at most `limit` worker IDs (1 to 100) of the registry, ascending, from `from` on;
    /// an empty page is the end.
    ///
    /// # Errors
    /// See [`Error`]; of the daemon's own, `NotConfigured` where worker IDs come from the
    /// configuration, and `RegistryUnavailable`.
    pub fn worker_list(&mut self, from: u64, limit: u32) -> Result<Vec<WorkerStatus>, Error> {
        session::workers(self.call(&CheckedCall::worker_list(from, limit)?)?)
    }

    /// Makes a worker ID free for anybody, on an operator's word that `owner`, who has it, is gone
    /// for good and never starts again with its state directory.
    ///
    /// # Errors
    /// See [`Error`]; `UnknownWorker`, `WorkerInUse` and `WrongOwner` are the ones to expect, and
    /// those of [`Self::worker_list`]. When the connection broke before the answer, the call is
    /// repeated: it finds the ID free, which is no error, or in the hands of another owner, which
    /// is `WrongOwner`.
    pub fn worker_release(&mut self, worker: u64, owner: &str) -> Result<WorkerStatus, Error> {
        session::worker(self.call(&CheckedCall::worker_release(worker, owner)?)?)
    }

    /// Asks until there is an answer or the time is over.
    fn call(&mut self, ask: &CheckedCall<&str>) -> Result<Reply, Error> {
        let deadline = Instant::now() + self.timeout;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(FIRST_CALL_ID);
        let mut last = None;
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect_again(deadline, last)?,
            };
            match connection.exchange(id, ask, deadline, &mut self.out) {
                Ok(reply) => {
                    self.backoff.answered();
                    // One that is to be closed soon is kept too: the next call finds out.
                    self.connection = Some(connection);
                    return Ok(reply);
                }
                // Its late answer must not meet the next call, so the connection goes as well.
                Err(ExchangeError::DeadlinePassed) => {
                    self.lost();
                    return Err(Error::DeadlineExceeded {
                        call: ask.name(),
                        timeout: self.timeout,
                    });
                }
                Err(ExchangeError::Lost(failure)) => {
                    self.lost();
                    if failure.is_fatal() {
                        return Err(failure.error(self.options.socket_path()));
                    }
                    last = Some(failure);
                }
            }
        }
    }

    /// Tries to connect until it works, the daemon refuses for good, or the time is over.
    fn connect_again(
        &mut self,
        deadline: Instant,
        mut last: Option<ConnectionFailure>,
    ) -> Result<BlockingConnection, Error> {
        loop {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let pause = self.backoff.pause(now).min(left);
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            if pause == left {
                return Err(self.unavailable(last));
            }
            let trouble = match self.dialer.dial(self.options.socket_path(), deadline) {
                Ok(stream) => match BlockingConnection::greet(stream, deadline, &mut self.out) {
                    Ok(connection) => return Ok(connection),
                    Err(trouble) => trouble,
                },
                Err(trouble) => trouble,
            };
            self.lost();
            match trouble {
                ExchangeError::DeadlinePassed => return Err(self.unavailable(last)),
                ExchangeError::Lost(failure) if failure.is_fatal() => {
                    return Err(failure.error(self.options.socket_path()));
                }
                ExchangeError::Lost(failure) => last = Some(failure),
            }
        }
    }

    fn lost(&mut self) {
        self.backoff.lost(Instant::now(), fastrand::f64());
    }

    fn unavailable(&self, last: Option<ConnectionFailure>) -> Error {
        last.unwrap_or_else(|| {
            ConnectionFailure::io(io::ErrorKind::TimedOut, "it did not say hello in time")
        })
        .error(self.options.socket_path())
    }
}
