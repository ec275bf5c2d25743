//! The socket of one connection: reads, writes, and chooses which events wake the connection.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watched::watched;

/// A connected socket, registered for one kind of event at a time: a client that reads its answers
/// must not wake a connection that waits for requests.
pub(super) struct ClientStream {
    /// None once a registration has failed.
    socket: Option<AsyncFd<UnixStream>>,
}

impl ClientStream {
    /// Registers `stream` for input, with the runtime that this is called in.
    ///
    /// # Errors
    /// When it cannot be made non-blocking, or the event queue does not take it.
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { socket: Some(watched(stream, Interest::READABLE)?) })
    }

    #[inline]
    fn socket(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Registers the socket for `interest` instead. A second registration beside the first would
    /// need a duplicate of the descriptor, and descriptors are limited.
    pub(super) fn watch(&mut self, interest: Interest) -> io::Result<()> {
        let socket = self.socket.take().ok_or(io::ErrorKind::NotConnected)?;
        self.socket = Some(watched(socket.into_inner(), interest)?);
        Ok(())
    }

    /// Reads what has arrived. 0 is the end of input.
    #[inline]
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let socket = self.socket()?;
            let mut ready = ready!(socket.poll_read_ready(cx))?;
            match socket.get_ref().read(buffer) {
                // A short read has emptied the socket. The next byte causes a new event.
                Ok(count) if count > 0 && count < buffer.len() => {
                    ready.clear_ready();
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// Writes as much as the socket takes now.
    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket()?.get_ref().write(bytes)
    }

    /// Ready when the socket takes bytes again. Needs [`Self::watch`] for output.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket()?.poll_write_ready(cx).map_ok(drop)
    }

    /// Ready when a client that has ended its own output hangs up. Needs [`Self::watch`] for output:
    /// the end of input would make the socket readable all the time.
    pub(super) fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.socket()?;
        loop {
            let mut ready = ready!(socket.poll_write_ready(cx))?;
            if ready.ready().is_write_closed() || has_hung_up(socket.get_ref()) {
                return Poll::Ready(Ok(()));
            }
            // The event only said that there is room for answers.
            ready.clear_ready();
        }
    }

    /// The socket, no longer registered.
    pub(super) fn into_socket(self) -> Option<UnixStream> {
        self.socket.map(AsyncFd::into_inner)
    }
}

fn has_hung_up(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let count = poll(&mut polled, PollTimeout::ZERO).unwrap_or(0);
    let [polled] = polled;
    count > 0 && polled.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}
