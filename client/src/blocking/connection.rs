//! A connection of the blocking client: one request, then its answer, within a deadline. In the
//! usual case that is one write and one read and no other system call.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::frame_buffer::FrameBuffer;
use crate::error::ProtocolError;
use crate::session::{self, CheckedCall, ConnectionFailure, DRAIN, DaemonEvent};
use crate::wire::{Reply, Response, decode_response};

/// How much longer than wanted a socket's timeout may be before it is set anew. So calls with the
/// same timeout need not set it each time.
const SLACK: Duration = Duration::from_millis(1);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The time is over.
    DeadlinePassed,
    /// The connection is of no use any more.
    Lost(ConnectionFailure),
}

impl<E: Into<ConnectionFailure>> From<E> for ExchangeError {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

#[derive(Debug)]
pub(super) struct BlockingConnection {
    stream: UnixStream,
    buffer: FrameBuffer,
    /// The timeouts that the socket has now.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl BlockingConnection {
    /// Says hello; `out` is memory to work with.
    pub(super) fn greet(
        stream: UnixStream,
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Self, ExchangeError> {
        let buffer = FrameBuffer::new();
        let mut connection = Self { stream, buffer, read_timeout: None, write_timeout: None };
        out.clear();
        session::greet(out);
        // A daemon that turns the connection away may have closed it before it is greeted; what it
        // said is there to be read.
        let sent = connection.send(out, deadline);
        match (connection.receive(deadline), sent) {
            (Ok(response), _) => session::welcome(response)?,
            (Err(_), Err(trouble)) | (Err(trouble), Ok(())) => return Err(trouble),
        };
        Ok(connection)
    }

    /// Sends a request and waits for its answer.
    pub(super) fn exchange(
        &mut self,
        id: u64,
        ask: &CheckedCall<&str>,
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Reply, ExchangeError> {
        out.clear();
        ask.encode(id, deadline.saturating_duration_since(Instant::now()), out);
        self.send(out, deadline)?;
        // Set when the daemon says that it stops; the answer may still come.
        let mut drain = None;
        loop {
            let response = match self.receive(drain.unwrap_or(deadline)) {
                Err(ExchangeError::DeadlinePassed)
                    if drain.is_some_and(|drain| drain < deadline) =>
                {
                    return Err(ConnectionFailure::goodbye().into());
                }
                received => received?,
            };
            match DaemonEvent::try_from(response)? {
                DaemonEvent::Answer { id: answered, reply } if answered == id => return Ok(reply),
                DaemonEvent::Repeat { id: repeat } if repeat == id => {
                    return Err(ConnectionFailure::goodbye().into());
                }
                DaemonEvent::Answer { id, .. } | DaemonEvent::Repeat { id } => {
                    return Err(ProtocolError::Unasked(id).into());
                }
                DaemonEvent::Goodbye => drain = Some(deadline.min(Instant::now() + DRAIN)),
                DaemonEvent::Closing(error) => return Err(ConnectionFailure::Refused(error).into()),
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), ExchangeError> {
        while !bytes.is_empty() {
            let left = left(deadline)?;
            if !fits(self.write_timeout, left) {
                self.stream.set_write_timeout(Some(left))?;
                self.write_timeout = Some(left);
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(ConnectionFailure::closed().into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if passes(&error) => {}
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
            let left = left(deadline)?;
            if !fits(self.read_timeout, left) {
                self.stream.set_read_timeout(Some(left))?;
                self.read_timeout = Some(left);
            }
            match self.buffer.fill(&self.stream) {
                Ok(0) => return Err(ConnectionFailure::closed().into()),
                Ok(_) => {}
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The time until `deadline`. Never zero, which sockets do not take for a timeout.
fn left(deadline: Instant) -> Result<Duration, ExchangeError> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ExchangeError::DeadlinePassed),
        left => Ok(left),
    }
}

/// Whether a socket's timeout will do: it ends neither much too early, to no purpose, nor more
/// than a little too late.
fn fits(timeout: Option<Duration>, left: Duration) -> bool {
    timeout.is_some_and(|timeout| timeout <= left + SLACK && timeout >= left / 2)
}

/// A signal, or the socket's timeout: the deadline decides.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_the_socket_is_kept_while_it_is_good_enough() {
        let s = Duration::from_secs(1);
        assert!(!fits(None, s));
        assert!(fits(Some(s), s) && fits(Some(s), s - SLACK) && fits(Some(s), 2 * s));
        assert!(!fits(Some(s), s - 2 * SLACK) && !fits(Some(s), 3 * s));
    }
}
