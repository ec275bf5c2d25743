//! A connection of the blocking client: one request, then its answer, before a deadline. Usually
//! that takes one write, one read and no other system call.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::descriptor::NotedDescriptor;
use super::frame_buffer::FrameBuffer;
use crate::error::ProtocolError;
use crate::session::{self, CheckedCall, ConnectionFailure, DRAIN, DaemonEvent, Limits};
use crate::wire::{Reply, Response, decode_response};

/// How far a socket's timeout may exceed the time left before it is set again. With this slack,
/// calls with the same timeout set it only once.
const SLACK: Duration = Duration::from_millis(1);

/// Why a request got no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The deadline passed.
    DeadlinePassed,
    /// The connection ended or has to be replaced.
    Lost(ConnectionFailure),
}

impl<E: Into<ConnectionFailure>> From<E> for ExchangeError {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

/// A connection after the handshake.
#[derive(Debug)]
pub(super) struct BlockingConnection {
    /// Before the stream: fields are dropped in this order.
    _note: NotedDescriptor,
    stream: UnixStream,
    buffer: FrameBuffer,
    limits: Limits,
    /// The daemon has said more than its answers: that it stops, or what is wrong.
    is_ending: bool,
    /// The socket's present timeouts.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl BlockingConnection {
    /// Says hello. `out` is scratch memory.
    pub(super) fn greet(
        dialed: (NotedDescriptor, UnixStream),
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Self, ExchangeError> {
        let (buffer, read_timeout, write_timeout) = (FrameBuffer::new(), None, None);
        let limits = Limits { max_in_flight: 1, max_count: 1 };
        let mut connection = Self {
            _note: dialed.0,
            stream: dialed.1,
            buffer,
            limits,
            is_ending: false,
            read_timeout,
            write_timeout,
        };
        out.clear();
        session::greet(out);
        // The daemon may have refused the connection and closed it already. Then writing fails, but
        // the reason can still be read.
        let sent = connection.send(out, deadline);
        connection.limits = match (connection.receive(deadline), sent) {
            (Ok(response), _) => session::welcome(response)?,
            (Err(_), Err(trouble)) | (Err(trouble), Ok(())) => return Err(trouble),
        };
        Ok(connection)
    }

    /// Whether nothing more may be sent on this connection.
    pub(super) const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// What the daemon allows.
    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    /// Sends a request and waits for its answer.
    pub(super) fn exchange(
        &mut self,
        id: u64,
        call: &CheckedCall<&str>,
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Reply, ExchangeError> {
        let mut answer = None;
        self.exchange_all(id, std::slice::from_ref(call), deadline, out, |_, reply| {
            answer = Some(reply);
        })?;
        answer.ok_or_else(|| ConnectionFailure::closed().into())
    }

    /// Sends requests with the IDs from `first_id` on, in one write, and passes each answer on as it
    /// arrives, with the place of its request. An error concerns the requests without an answer.
    pub(super) fn exchange_all(
        &mut self,
        first_id: u64,
        calls: &[CheckedCall<&str>],
        deadline: Instant,
        out: &mut Vec<u8>,
        mut answered: impl FnMut(usize, Reply),
    ) -> Result<(), ExchangeError> {
        out.clear();
        let remaining = deadline.saturating_duration_since(Instant::now());
        for (id, call) in (first_id..).zip(calls) {
            call.encode(id, remaining, out);
        }
        self.send(out, deadline)?;
        let mut open = OpenRequests::new(first_id, calls.len());
        // Set once the daemon announces that it stops. The answers may still arrive.
        let mut drain = None;
        while !open.is_empty() {
            let response = match self.receive(drain.unwrap_or(deadline)) {
                Err(ExchangeError::DeadlinePassed)
                    if drain.is_some_and(|drain| drain < deadline) =>
                {
                    return Err(ConnectionFailure::goodbye().into());
                }
                received => received?,
            };
            match DaemonEvent::try_from(response)? {
                DaemonEvent::Answer { id, reply } => answered(open.close(id)?, reply),
                DaemonEvent::Repeat { id } => {
                    open.close(id)?;
                    return Err(ConnectionFailure::goodbye().into());
                }
                DaemonEvent::Goodbye => drain = Some(deadline.min(Instant::now() + DRAIN)),
                DaemonEvent::Closing(error) => return Err(ConnectionFailure::Refused(error).into()),
            }
        }
        // Nothing but a goodbye or an error can be behind the answers.
        self.is_ending = drain.is_some() || !self.buffer.is_empty();
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), ExchangeError> {
        while !bytes.is_empty() {
            let left = time_left(deadline)?;
            if !fits(self.write_timeout, left) {
                self.stream.set_write_timeout(Some(left))?;
                self.write_timeout = Some(left);
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(ConnectionFailure::closed().into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> Result<Response, ExchangeError> {
        loop {
            if let Some(body) = self.buffer.take()? {
                return Ok(decode_response(body)?);
            }
            let left = time_left(deadline)?;
            if !fits(self.read_timeout, left) {
                self.stream.set_read_timeout(Some(left))?;
                self.read_timeout = Some(left);
            }
            match self.buffer.fill(&self.stream) {
                Ok(0) => return Err(ConnectionFailure::closed().into()),
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Which of some requests with consecutive IDs have no answer yet.
struct OpenRequests {
    first_id: u64,
    /// By the place of the request. One request, the usual case, needs no memory of its own.
    open: OpenPlaces,
    left: usize,
}

enum OpenPlaces {
    One(bool),
    Many(Vec<bool>),
}

impl OpenRequests {
    fn new(first_id: u64, count: usize) -> Self {
        let open =
            if count == 1 { OpenPlaces::One(true) } else { OpenPlaces::Many(vec![true; count]) };
        Self { first_id, open, left: count }
    }

    const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The place of an answered request, which may have one answer.
    fn close(&mut self, id: u64) -> Result<usize, ProtocolError> {
        let place = id.checked_sub(self.first_id).and_then(|place| usize::try_from(place).ok());
        let open = match &mut self.open {
            OpenPlaces::One(open) => place.filter(|place| *place == 0).map(|_| open),
            OpenPlaces::Many(open) => place.and_then(|place| open.get_mut(place)),
        };
        match open {
            Some(open) if *open => {
                *open = false;
                self.left -= 1;
                Ok(place.unwrap_or(0))
            }
            _ => Err(ProtocolError::Unasked(id)),
        }
    }
}

/// The time until `deadline`. Never zero, because a socket rejects a timeout of zero.
pub(super) fn time_left(deadline: Instant) -> Result<Duration, ExchangeError> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ExchangeError::DeadlinePassed),
        left => Ok(left),
    }
}

/// Whether a socket's timeout is close enough to the time left: not below half of it, which would
/// wake the thread for nothing, and not above it by more than [`SLACK`].
fn fits(timeout: Option<Duration>, left: Duration) -> bool {
    timeout.is_some_and(|timeout| timeout <= left + SLACK && timeout >= left / 2)
}

/// Whether to go on after this error: a signal, or the socket's timeout. The deadline decides then.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_one_answer_whatever_the_order() {
        for count in [1, 3] {
            let mut open = OpenRequests::new(7, count);
            assert_eq!(open.close(6), Err(ProtocolError::Unasked(6)));
            let past = 7 + count as u64;
            assert_eq!(open.close(past), Err(ProtocolError::Unasked(past)));
            for place in (0..count).rev() {
                assert!(!open.is_empty());
                let id = 7 + place as u64;
                assert_eq!(open.close(id), Ok(place));
                assert_eq!(open.close(id), Err(ProtocolError::Unasked(id)));
            }
            assert!(open.is_empty());
        }
    }

    #[test]
    fn the_sockets_timeout_is_kept_while_it_is_close_enough() {
        let s = Duration::from_secs(1);
        assert!(!fits(None, s));
        assert!(fits(Some(s), s) && fits(Some(s), s - SLACK) && fits(Some(s), 2 * s));
        assert!(!fits(Some(s), s - 2 * SLACK) && !fits(Some(s), 3 * s));
    }
}
