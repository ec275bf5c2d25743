//! A connection of the blocking client: one request, then its answer, within a deadline. In the
//! usual case that is one write and one read and no other system call.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::inbox::Inbox;
use crate::error::ProtocolError;
use crate::session::{self, Ask, DRAIN, Event, Failure};
use crate::wire::{Reply, Response, decode_response};

/// How much longer than wanted a socket's timeout may be before it is set anew. So calls with the
/// same timeout need not set it each time.
const SLACK: Duration = Duration::from_millis(1);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The time is over.
    Late,
    /// The connection is of no use any more.
    Lost(Failure),
}

impl<E: Into<Failure>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    inbox: Inbox,
    /// The timeouts that the socket has now.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl Connection {
    /// Says hello; `out` is memory to work with.
    pub(super) fn greet(
        stream: UnixStream,
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Self, Trouble> {
        let inbox = Inbox::new();
        let mut connection = Self { stream, inbox, read_timeout: None, write_timeout: None };
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
        ask: &Ask<&str>,
        deadline: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Reply, Trouble> {
        out.clear();
        ask.encode(id, deadline.saturating_duration_since(Instant::now()), out);
        self.send(out, deadline)?;
        // Set when the daemon says that it stops; the answer may still come.
        let mut drain = None;
        loop {
            let response = match self.receive(drain.unwrap_or(deadline)) {
                Err(Trouble::Late) if drain.is_some_and(|drain| drain < deadline) => {
                    return Err(Failure::goodbye().into());
                }
                received => received?,
            };
            match Event::try_from(response)? {
                Event::Answer { id: answered, reply } if answered == id => return Ok(reply),
                Event::Repeat { id: repeat } if repeat == id => {
                    return Err(Failure::goodbye().into());
                }
                Event::Answer { id, .. } | Event::Repeat { id } => {
                    return Err(ProtocolError::Unasked(id).into());
                }
                Event::Goodbye => drain = Some(deadline.min(Instant::now() + DRAIN)),
                Event::Closing(error) => return Err(Failure::Refused(error).into()),
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let left = left(deadline)?;
            if !fits(self.write_timeout, left) {
                self.stream.set_write_timeout(Some(left))?;
                self.write_timeout = Some(left);
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(Failure::closed().into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> Result<Response, Trouble> {
        loop {
            if let Some(body) = self.inbox.take()? {
                return Ok(decode_response(body)?);
            }
            let left = left(deadline)?;
            if !fits(self.read_timeout, left) {
                self.stream.set_read_timeout(Some(left))?;
                self.read_timeout = Some(left);
            }
            match self.inbox.fill(&self.stream) {
                Ok(0) => return Err(Failure::closed().into()),
                Ok(_) => {}
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The time until `deadline`. Never zero, which sockets do not take for a timeout.
fn left(deadline: Instant) -> Result<Duration, Trouble> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(Trouble::Late),
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
