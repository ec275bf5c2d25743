"""The socket of a client, and what waits for it."""

from __future__ import annotations

import select
import socket

from ._process import close, remember
from ._session import Session

# Without it, an application that restores the default action of SIGPIPE would die with the daemon.
NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)


def open_socket(path: str) -> socket.socket:
    """Connect without waiting. A full backlog is ``BlockingIOError``."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    remember(sock)
    try:
        sock.setblocking(False)
        sock.connect(path)
    except BaseException:
        close(sock)
        raise
    return sock


def open_if_wanted(session: Session, path: str, now: float) -> socket.socket | None:
    """Connect if the session wants a connection now, and tell it the outcome."""
    if not session.wants_socket(now):
        return None
    try:
        sock = open_socket(path)
    except OSError as error:
        session.open_failed(error, now)
        return None
    session.opened(now)
    return sock


class Watch:
    """Waits for a socket, for one thread. Others can wake that thread."""

    def __init__(self) -> None:
        #: The thread reads from the first, others write to the second.
        self.wakers: tuple[socket.socket, socket.socket] | None = None
        self._poll = select.poll()
        # What the poll waits for.
        self._watched: tuple[socket.socket | None, bool] | None = None

    def set(self, sock: socket.socket | None, writable: bool) -> None:
        """Say what to wait for: bytes to read, and whether it is room to write as well."""
        if self.wakers is None:
            self.wakers = socket.socketpair()
            for waker in self.wakers:
                remember(waker)
                waker.setblocking(False)
        if self._watched != (sock, writable):
            self._poll = select.poll()
            self._poll.register(self.wakers[0], select.POLLIN)
            if sock is not None:
                self._poll.register(sock, select.POLLIN | (select.POLLOUT if writable else 0))
            self._watched = sock, writable

    def wait(self, seconds: float) -> None:
        """Wait for the socket or for a wake-up."""
        ready = self._poll.poll(max(seconds, 0.0) * 1000)
        if self.wakers is not None and (self.wakers[0].fileno(), select.POLLIN) in ready:
            try:
                self.wakers[0].recv(4096)
            except OSError:
                pass  # Closed in the meantime.

    def wake(self) -> None:
        """Wake the thread that waits, or the next one that does."""
        if self.wakers is not None:
            try:
                self.wakers[1].send(b"\0", NO_SIGNAL)
            except OSError:
                pass  # Full: it will wake up anyway.

    def close(self) -> None:
        """Close the wakers."""
        for waker in self.wakers or ():
            close(waker)
        self.wakers = None
        self._watched = None
