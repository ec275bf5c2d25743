//! The blocking client: its calls for IDs, and the loop that repeats a call on a new connection.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::connection::{BlockingConnection, ExchangeError};
use super::descriptor::Descriptor;
use super::dial::dial;
use crate::error::Error;
use crate::fork::ProcessMark;
use crate::ids::Ids;
use crate::options::{Options, cut};
use crate::session::{self, Backoff, CheckedCall, ConnectionFailure, FIRST_CALL_ID, Limits};
use crate::wire::{DaemonStatus, Reply};

/// A blocking client of leafd, with its own connection.
///
/// The client connects on first use and reconnects when the connection is lost. It then repeats a
/// call that got no answer, which may skip IDs but never repeats one. A call fails only if its
/// timeout passes, the daemon refuses it, or the peer breaks the protocol.
///
/// After a `fork`, the child's copy of a client opens a new connection at its first call. The parent's
/// connection stays as it is: the child only closes its copy of the descriptor.
#[derive(Debug)]
pub struct Client {
    options: Options,
    timeout: Duration,
    connection: Option<BlockingConnection>,
    /// The process in which the connection was made.
    process: ProcessMark,
    /// Where to note the connection's descriptor, for a pool.
    descriptor: Option<Arc<Descriptor>>,
    backoff: Backoff,
    next_id: u64,
    /// The buffer of the request, kept to reuse its memory.
    out: Vec<u8>,
}

impl Client {
    /// Makes a client that connects on first use.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            timeout: options.call_timeout(),
            connection: None,
            process: ProcessMark::current(),
            descriptor: None,
            backoff: Backoff::new(options.backoff_range()),
            next_id: FIRST_CALL_ID,
            out: Vec::new(),
            options,
        }
    }

    /// As [`Self::new`], and notes the descriptor of each connection in `descriptor`.
    pub(crate) fn noting(options: Options, descriptor: &Arc<Descriptor>) -> Self {
        Self { descriptor: Some(Arc::clone(descriptor)), ..Self::new(options) }
    }

    /// Makes a client and connects it: the daemon has answered a first call (`Time`).
    ///
    /// # Errors
    /// Those of every call: [`Error::Unavailable`] if no daemon can be reached, [`Error::Refused`]
    /// if the daemon does not let this user connect.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let mut client = Self::new(options);
        client.time()?;
        Ok(client)
    }

    /// Sets the timeout of all further calls, at most 24 hours.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = cut(timeout);
    }

    /// Gets one ID of `tag`.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `UnknownTag`, `Forbidden` and `StoreUnavailable`.
    pub fn next(&mut self, tag: &str) -> Result<u64, Error> {
        session::only_id(self.call(&CheckedCall::segment(tag, 1)?)?)
    }

    /// Gets `count` IDs of `tag`, at most the daemon's limit (100,000 by default).
    ///
    /// # Errors
    /// Those of [`Self::next`], and `BadCount` above the limit.
    pub fn next_many(&mut self, tag: &str, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(&CheckedCall::segment(tag, count)?)?, count)
    }

    /// Gets one snowflake ID. [`crate::Layout::decode`] splits it into its parts.
    ///
    /// # Errors
    /// See [`Error`]. Expect the daemon's errors `ClockBackwards`, `WorkerUnavailable` and
    /// `NotConfigured`.
    pub fn snowflake(&mut self) -> Result<u64, Error> {
        session::only_id(self.call(&CheckedCall::snowflake(1)?)?)
    }

    /// Gets `count` snowflake IDs, at most the daemon's limit (100,000 by default).
    ///
    /// # Errors
    /// Those of [`Self::snowflake`], and `BadCount` above the limit.
    pub fn snowflake_many(&mut self, count: u32) -> Result<Ids, Error> {
        session::ids(self.call(&CheckedCall::snowflake(count)?)?, count)
    }

    /// Reads the clock of the daemon's host, to the millisecond.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn time(&mut self) -> Result<SystemTime, Error> {
        session::time(self.call(&CheckedCall::Time)?)
    }

    /// Gets the status of the daemon: connections, store, state and snowflake IDs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&mut self) -> Result<DaemonStatus, Error> {
        session::status(self.call(&CheckedCall::Status)?)
    }

    /// Gets at least `total` IDs, if nothing fails, by requests of equal size that are all in flight at
    /// once. Passes on what each brings, in the order of the requests: of segment IDs, later ones are
    /// higher. Unlike a call, it does not wait for a daemon that cannot be reached: it tries a new
    /// connection once. If the connection breaks after an answer, the other requests bring nothing.
    pub(crate) fn ids_in_flight(
        &mut self,
        tag: Option<&str>,
        total: u64,
        mut pass: impl FnMut(Result<Ids, Error>),
    ) -> Result<(), Error> {
        self.leave_parents_connection();
        let deadline = Instant::now() + self.timeout;
        let (mut answers, mut next) = (BTreeMap::new(), 0);
        loop {
            let used = self.connection.take();
            let is_new = used.is_none();
            let mut connection = match used {
                Some(connection) => connection,
                None => self.connect_once(deadline).map_err(|trouble| match trouble {
                    ExchangeError::DeadlinePassed => self.unavailable(None),
                    ExchangeError::Lost(failure) => failure.error(self.options.socket_path()),
                })?,
            };
            let (requests, count) = split(total, connection.limits());
            let call = match tag {
                Some(tag) => CheckedCall::segment(tag, count)?,
                None => CheckedCall::snowflake(count)?,
            };
            let calls = vec![call; requests];
            let id = self.take_call_ids(requests);
            let done =
                connection.exchange_all(id, &calls, deadline, &mut self.out, |place, reply| {
                    answers.insert(place, session::ids(reply, count));
                    while let Some(answer) = answers.remove(&next) {
                        next += 1;
                        pass(answer);
                    }
                });
            let answered = next > 0 || !answers.is_empty();
            // Behind a request without an answer, but still in order.
            std::mem::take(&mut answers).into_values().for_each(&mut pass);
            match done {
                Ok(()) => {
                    self.keep(connection);
                    return Ok(());
                }
                Err(_) if answered => return Ok(()),
                Err(ExchangeError::DeadlinePassed) => {
                    let name = calls.first().map_or("Segment", CheckedCall::name);
                    return Err(self.too_late(name));
                }
                // The daemon may have closed a connection that was not used for long.
                Err(ExchangeError::Lost(failure)) if is_new || failure.is_fatal() => {
                    return Err(failure.error(self.options.socket_path()));
                }
                Err(ExchangeError::Lost(_)) => {}
            }
        }
    }

    /// The ID of the first of so many calls.
    fn take_call_ids(&mut self, calls: usize) -> u64 {
        let id = self.next_id;
        let calls = u64::try_from(calls).unwrap_or(u64::MAX);
        self.next_id = id.checked_add(calls).unwrap_or(FIRST_CALL_ID);
        id
    }

    /// Sends the call, on new connections if need be, until an answer arrives or the deadline
    /// passes.
    pub(super) fn call(&mut self, call: &CheckedCall<&str>) -> Result<Reply, Error> {
        self.leave_parents_connection();
        let deadline = Instant::now() + self.timeout;
        let id = self.take_call_ids(1);
        let mut last = None;
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect_again(deadline, last)?,
            };
            match connection.exchange(id, call, deadline, &mut self.out) {
                Ok(reply) => {
                    self.backoff.answered();
                    self.keep(connection);
                    return Ok(reply);
                }
                // The connection goes too, so that the late answer cannot reach the next call.
                Err(ExchangeError::DeadlinePassed) => {
                    self.lost(Duration::ZERO);
                    return Err(self.too_late(call.name()));
                }
                Err(ExchangeError::Lost(failure)) => {
                    self.lost(failure.retry_after());
                    if failure.is_fatal() {
                        return Err(failure.error(self.options.socket_path()));
                    }
                    last = Some(failure);
                }
            }
        }
    }

    /// Keeps a connection for the next call. If the daemon is about to close it without having said so, that
    /// call notices.
    fn keep(&mut self, connection: BlockingConnection) {
        if connection.is_ending() {
            self.lost(Duration::ZERO);
        } else {
            self.connection = Some(connection);
        }
    }

    /// In the child of a fork: closes this copy of the connection.
    fn leave_parents_connection(&mut self) {
        let process = ProcessMark::current();
        if self.process != process {
            self.process = process;
            self.connection = None;
            self.backoff = Backoff::new(self.options.backoff_range());
        }
    }

    /// Tries to connect until it succeeds, the daemon refuses for good, or the deadline passes.
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
            let trouble = match self.connect_once(deadline) {
                Ok(connection) => return Ok(connection),
                Err(trouble) => trouble,
            };
            match trouble {
                ExchangeError::DeadlinePassed => {
                    self.lost(Duration::ZERO);
                    return Err(self.unavailable(last));
                }
                ExchangeError::Lost(failure) => {
                    self.lost(failure.retry_after());
                    if failure.is_fatal() {
                        return Err(failure.error(self.options.socket_path()));
                    }
                    last = Some(failure);
                }
            }
        }
    }

    fn connect_once(&mut self, deadline: Instant) -> Result<BlockingConnection, ExchangeError> {
        let dialed = dial(self.options.socket_path(), self.descriptor.as_ref(), deadline)?;
        BlockingConnection::greet(dialed, deadline, &mut self.out)
    }

    fn lost(&mut self, retry_after: Duration) {
        self.backoff.lost(Instant::now(), fastrand::f64(), retry_after);
    }

    fn too_late(&self, call: &'static str) -> Error {
        Error::DeadlineExceeded { call, timeout: self.timeout }
    }

    fn unavailable(&self, last: Option<ConnectionFailure>) -> Error {
        last.unwrap_or_else(|| {
            ConnectionFailure::io(io::ErrorKind::TimedOut, "it did not say hello in time")
        })
        .error(self.options.socket_path())
    }
}

/// How many requests of how many IDs bring `total` IDs, as far as the daemon allows.
fn split(total: u64, limits: Limits) -> (usize, u32) {
    let most = u64::from(limits.max_count);
    let requests = usize::try_from(total.div_ceil(most)).unwrap_or(usize::MAX);
    let requests = requests.clamp(1, limits.max_in_flight);
    let count = total.div_ceil(u64::try_from(requests).unwrap_or(u64::MAX)).clamp(1, most);
    (requests, u32::try_from(count).unwrap_or(limits.max_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_equal_size_within_the_daemons_limits() {
        let split =
            |total, max_count, max_in_flight| split(total, Limits { max_in_flight, max_count });
        assert_eq!(split(1, 100_000, 1024), (1, 1));
        assert_eq!(split(1_000_000, 100_000, 1024), (10, 100_000));
        assert_eq!(split(1_000_001, 100_000, 1024), (11, 90_910));
        assert_eq!(split(1_000_000, 100_000, 3), (3, 100_000));
        assert_eq!(split(0, 1, 1), (1, 1));
        assert_eq!(split(u64::MAX, u32::MAX, usize::MAX), (1 << 32 | 1, u32::MAX));
    }
}
