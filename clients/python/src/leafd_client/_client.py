"""The synchronous client.

Any number of threads share one connection. There is no background thread: one of the calling threads,
the leader, reads for all of them, and passes that on to another one when its own call is finished. A
single thread therefore does not wait for any other.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ._errors import ClosedError
from ._ids import Ids
from ._options import Options, StrPath, check_seconds
from ._process import Forkable, PerProcess, Process, close, remember
from ._session import Call, Session, check_count, encode_tag
from ._wire import SEGMENT, SNOWFLAKE, STATUS, TIME, DaemonStatus

_now = time.monotonic

_READ_LEN = 32 * 1024

# A leader whose deadline passed this many seconds ago is gone: a second exception struck it while it
# dealt with the first.
_LEADER_GRACE = 1.0

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


class Link(Forkable):
    """The connection of one client in one process, and the threads that wait for it."""

    def __init__(self, process: Process, options: Options) -> None:
        super().__init__(process)
        self._path = options.path
        self._lock = threading.Lock()
        self._session = Session(options)
        self._sock: socket.socket | None = None
        # All calls, in the order in which they were made, and the lock on which the thread of each waits.
        self._calls: dict[Call, threading.Lock] = {}
        # The call whose thread reads for all.
        self._leader: Call | None = None
        # Wakes the leader: it reads from the first, others write to the second.
        self._wakers: tuple[socket.socket, socket.socket] | None = None
        # Whether the session is being changed. If it is although the lock was free, an exception struck
        # in the middle, for example from a signal handler.
        self._changing = False
        self._closed = False

    def run(self, call: Call) -> Any:
        """Make a call and wait for its result."""
        try:
            if not self._begin(call):
                self._follow(call)
            if not call.finished:
                self._lead(call)
        except BaseException:
            with self._lock:
                now = self._begin_change()
                self._session.give_up(call, now, overdue=False)
                self._step(now)
                self._leave(call)
                self._changing = False
            raise
        return call.outcome()

    def close(self) -> None:
        """Fail the calls in flight and close the connection."""
        with self._lock:
            self._begin_change()
            self._closed = True
            self._session.fail_all(ClosedError())
            self._close_lost_socket()
            self._wake_leader()
            if self._leader is None:
                self._close_wakers()
            self._changing = False

    def abandon(self) -> None:
        for sock in (self._sock, *(self._wakers or ())):
            if sock is not None:
                close(sock)

    # One thread at a time

    def _begin(self, call: Call) -> bool:
        """Queue a call. Returns whether its thread is the leader."""
        with self._lock:
            now = self._begin_change()
            if self._closed:
                self._changing = False
                raise ClosedError
            wait = threading.Lock()
            wait.acquire()
            self._calls[call] = wait
            self._session.add(call)
            leads = self._take_lead(call, now)
            if not leads:
                call.on_finish = self._wake
                self._step(now)
                if self._has_unsent():
                    self._wake_leader()
            self._changing = False
            return leads

    def _take_lead(self, call: Call, now: float) -> bool:
        """Make this call's thread the leader if there is none."""
        leader = self._leader
        if leader is not None and now < leader.deadline + _LEADER_GRACE:
            return False
        self._leader = call
        return True

    def _follow(self, call: Call) -> None:
        """Wait until the leader has the answer, or until this thread becomes the leader."""
        wait = self._calls[call]
        while True:
            wait.acquire(timeout=max(call.deadline - _now(), 0.0))
            with self._lock:
                now = self._begin_change()
                if not call.finished and now >= call.deadline:
                    self._session.give_up(call, now)
                    self._step(now)
                done = call.finished or self._take_lead(call, now)
                if call.finished:
                    self._leave(call)
                self._changing = False
            if done:
                return

    def _lead(self, call: Call) -> None:
        """Move bytes until this call is finished."""
        while True:
            with self._lock:
                now = self._begin_change()
                self._step(now)
                if not call.finished and now >= call.deadline:
                    self._session.give_up(call, now)
                    self._step(now)
                if call.finished:
                    self._leave(call)
                    self._changing = False
                    return
                until = min(call.deadline, self._session.next_event() or call.deadline)
                waiting = self._events()
                self._changing = False
            waiting.poll(max(until - now, 0.0) * 1000)
            with self._lock:
                now = self._begin_change()
                self._empty_wakers()
                self._receive(now)
                self._changing = False

    def _leave(self, call: Call) -> None:
        """End a call. If nobody reads then, a waiting thread is woken, and does."""
        self._calls.pop(call, None)
        if self._leader is call:
            self._leader = None
        if self._leader is None:
            if self._closed:
                self._close_wakers()
            for other in self._calls:
                if not other.finished:
                    self._wake(other)
                    return

    def _wake(self, call: Call) -> None:
        """Wake the thread of a call, which looks what there is to do. It may come once too often."""
        wait = self._calls.get(call)
        if wait is not None and wait.locked():
            wait.release()

    def _begin_change(self) -> float:
        now = _now()
        if self._changing:
            self._repair(now)
        self._changing = True
        return now

    def _repair(self, now: float) -> None:
        """Begin again with a new connection. No answer is used twice: it is removed before it is used."""
        self._session.broken(now)
        self._close_lost_socket()
        known = set(self._session.pending())
        for call in self._calls:
            if not call.finished and call not in known:
                self._session.add(call)
            self._wake(call)

    # Bytes

    def _step(self, now: float) -> None:
        """Do what is due: connect, send, close. Nothing here waits."""
        session = self._session
        session.tick(now)
        self._close_lost_socket()
        if session.wants_socket(now):
            try:
                self._sock = open_socket(self._path)
            except OSError as error:
                session.open_failed(error, now)
            else:
                session.opened(now)
                self._wake_leader()  # It waits for another socket, or for none.
        self._send(now)

    def _send(self, now: float) -> None:
        out = self._session.pump(now)
        while out and self._sock is not None:
            try:
                sent = self._sock.send(out, NO_SIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                self._session.send_failed(error, now)
                self._wake_leader()  # From now on it reads for a short time only.
                return
            del out[:sent]
            out = out or self._session.pump(now)

    def _receive(self, now: float) -> None:
        while self._sock is not None:
            try:
                data = self._sock.recv(_READ_LEN)
            except BlockingIOError:
                return
            except OSError as error:
                self._session.ended(error, now)
            else:
                if data:
                    self._session.received(data, now)
                else:
                    self._session.ended(None, now)
                if 0 < len(data) < _READ_LEN:
                    return
            self._close_lost_socket()

    def _has_unsent(self) -> bool:
        connection = self._session.connection
        return connection is not None and len(connection.out) > 0

    def _events(self) -> select.poll:
        waiting = select.poll()
        if self._wakers is None:
            self._wakers = socket.socketpair()
            for sock in self._wakers:
                remember(sock)
                sock.setblocking(False)
        waiting.register(self._wakers[0], select.POLLIN)
        if self._sock is not None:
            events = select.POLLIN | (select.POLLOUT if self._has_unsent() else 0)
            waiting.register(self._sock, events)
        return waiting

    def _close_lost_socket(self) -> None:
        if self._sock is not None and self._session.connection is None:
            close(self._sock)
            self._sock = None
            self._wake_leader()

    def _wake_leader(self) -> None:
        if self._wakers is not None:
            try:
                self._wakers[1].send(b"\0", NO_SIGNAL)
            except OSError:
                pass  # Full: it will wake up anyway.

    def _empty_wakers(self) -> None:
        if self._wakers is not None:
            try:
                self._wakers[0].recv(4096)
            except OSError:
                pass  # Empty, as usual.

    def _close_wakers(self) -> None:
        for sock in self._wakers or ():
            close(sock)
        self._wakers = None


class Client:
    """A client of leafd. Any number of threads may use it at the same time; they share a connection.

    It connects at the first call and reconnects when the connection is lost. It then repeats calls
    that got no answer, which may skip IDs but never repeats one. A call fails only if its timeout
    passes, the daemon refuses it, or the peer breaks the protocol.

    In the child of a fork it goes on with a connection of its own. Pickling it pickles its options.
    Do not use it from a signal handler.

    :param path: the socket; by default that of :func:`default_socket_path`.
    :param timeout: seconds for a call, connecting and repeating included; at most 24 hours.
    :param backoff_min: first pause between attempts to connect, in seconds; at least 0.001.
    :param backoff_max: longest pause. Pauses double, and jitter shortens each by up to half.
    """

    def __init__(
        self,
        path: StrPath | None = None,
        *,
        timeout: float = 5.0,
        backoff_min: float = 0.005,
        backoff_max: float = 0.5,
    ) -> None:
        self._start(Options.check(path, timeout, backoff_min, backoff_max))

    def _start(self, options: Options) -> None:
        self._options = options
        self._closed = False
        self._links = PerProcess(lambda process: Link(process, options))

    @property
    def path(self) -> str:
        """The path of the socket."""
        return self._options.path

    def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return one ID of a tag."""
        ids: Ids = self._run(SEGMENT, timeout, 1, encode_tag(tag))
        return ids.runs[0].start

    def next_many(self, tag: str, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` IDs of a tag, at most the daemon's limit (100,000 by default)."""
        ids: Ids = self._run(SEGMENT, timeout, check_count(count), encode_tag(tag))
        return ids

    def snowflake(self, *, timeout: float | None = None) -> int:
        """Return one snowflake ID. :meth:`Layout.decode` splits it into its parts."""
        ids: Ids = self._run(SNOWFLAKE, timeout, 1)
        return ids.runs[0].start

    def snowflakes(self, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` snowflake IDs, at most the daemon's limit (100,000 by default)."""
        ids: Ids = self._run(SNOWFLAKE, timeout, check_count(count))
        return ids

    def time(self, *, timeout: float | None = None) -> int:
        """Return the clock of the daemon's host, in milliseconds since 1970."""
        unix_ms: int = self._run(TIME, timeout)
        return unix_ms

    def status(self, *, timeout: float | None = None) -> DaemonStatus:
        """Return the state of the daemon."""
        status: DaemonStatus = self._run(STATUS, timeout)
        return status

    def ids(self, tag: str, *, batch: int = 100) -> Iterator[int]:
        """Return an endless iterator over IDs of a tag, which gets ``batch`` of them per call.

        Any number of threads may share it. In the child of a fork it begins with a batch of its own.
        What is left of a batch when the iterator is dropped is a gap.
        """
        encode_tag(tag)
        check_count(batch)
        return _IdIterator(self, tag, batch)

    def close(self) -> None:
        """Close the connection. Calls in flight, and all later ones, fail with :class:`ClosedError`."""
        self._closed = True
        self._links.get().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody else can hold a lock: every method holds the client.
        links = getattr(self, "_links", None)
        link = links.known() if links is not None else None
        if link is not None:
            link.abandon()

    def __reduce__(self) -> tuple[Any, ...]:
        return _client_with, (self._options,)

    def __repr__(self) -> str:
        return f"Client({self._options.path!r})"

    def _run(self, number: int, timeout: float | None, count: int = 0, tag: bytes = b"") -> Any:
        if self._closed:
            raise ClosedError
        limit = self._options.timeout if timeout is None else check_seconds("timeout", timeout)
        return self._links.get().run(Call(number, _now(), limit, count, tag))

    def _lease(self, tag: str | None, count: int) -> Ids:
        """Return up to ``count`` IDs, as many as one request may bring, for a pool.

        Unlike a call, it does not wait for a daemon that cannot be reached: it connects once.
        """
        number, data = (SNOWFLAKE, b"") if tag is None else (SEGMENT, encode_tag(tag))
        call = Call(number, _now(), self._options.timeout, count, data)
        call.fits = call.once = True
        ids: Ids = self._links.get().run(call)
        return ids


def _client_with(options: Options) -> Client:
    client = Client.__new__(Client)
    client._start(options)
    return client


class _Batch(Forkable):
    """What is left of a batch in one process."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.lock = threading.Lock()
        self.ids: Iterator[int] = iter(())


class _IdIterator(Iterator[int]):
    def __init__(self, client: Client, tag: str, batch: int) -> None:
        self._client = client
        self._tag = tag
        self._size = batch
        self._batches = PerProcess(_Batch)

    def __next__(self) -> int:
        batch = self._batches.get()
        with batch.lock:
            for value in batch.ids:
                return value
            batch.ids = iter(self._client.next_many(self._tag, self._size))
            return next(batch.ids)
