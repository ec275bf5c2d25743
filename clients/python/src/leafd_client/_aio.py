"""The asyncio client: callbacks of the event loop move the bytes, without tasks or threads of its own."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

from ._errors import ClosedError, ForkedError
from ._ids import Ids
from ._options import Options, StrPath, check_seconds
from ._process import close, current_process
from ._session import Call, Session, check_count, encode_tag
from ._socket import NO_SIGNAL, open_if_wanted
from ._wire import SEGMENT, SNOWFLAKE, STATUS, TIME, DaemonStatus

_now = time.monotonic

_READ_LEN = 64 * 1024


class _LoopLink:
    """The connection of one client in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: Options) -> None:
        self.loop = loop
        self.process = current_process()
        self._path = options.path
        self._session = Session(options)
        self._sock: socket.socket | None = None
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._step_due = False
        # Whether the session is being changed. If it is at the start of a change, an exception struck in
        # the middle of the last one, for example from a signal handler.
        self._changing = False

    async def run(self, call: Call) -> Any:
        """Make a call and wait for its result."""
        future: asyncio.Future[None] = self.loop.create_future()
        call.on_finish = lambda _: resolve(future)
        self._session.add(call)
        # At the end of this round of the loop: one write then carries the requests of all tasks.
        self._step_soon()
        timer = self.loop.call_later(call.timeout, self._give_up, call)
        try:
            await future
        except BaseException:
            self._give_up(call, overdue=False)
            raise
        finally:
            timer.cancel()
        return call.outcome()

    def close(self) -> None:
        """Fail the calls in flight and close the connection."""
        self._session.fail_all(ClosedError())
        self._close_lost_socket()
        if self._timer is not None:
            self._timer.cancel()

    def discard(self) -> None:
        """Close the socket of a client that nobody uses any more, from any thread."""
        if self._sock is None or self.process != current_process():
            # In a child, the loop's selector is the parent's. A change would reach the parent.
            return
        if self.loop.is_closed():
            close(self._sock)
            return
        try:
            self.loop.call_soon_threadsafe(self.close)
        except RuntimeError:
            close(self._sock)  # The loop was closed a moment ago.

    def _begin_change(self) -> float:
        now = _now()
        if self._changing:
            self._session.broken(now)
        self._changing = True
        return now

    def _give_up(self, call: Call, overdue: bool = True) -> None:
        self._session.give_up(call, self._begin_change(), overdue)
        self._changing = False
        self._step()

    def _step_soon(self) -> None:
        if not self._step_due:
            self._step_due = True
            self.loop.call_soon(self._step)

    def _step(self) -> None:
        """Do what is due: connect, send, close."""
        self._step_due = False
        now = self._begin_change()
        session = self._session
        session.tick(now)
        self._close_lost_socket()
        # Not by the loop's own connect: that one takes a full backlog for success.
        opened = open_if_wanted(session, self._path, now)
        if opened is not None:
            self._sock = opened
            self.loop.add_reader(opened, self._readable)
        self._send(now)
        self._set_timer(now)
        self._changing = False

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        then = self._session.next_event()
        if then is not None:
            # A loop may call a little early, by the resolution of its clock.
            self._timer = self.loop.call_later(max(then - now, 0.0) + 0.0005, self._step)

    def _send(self, now: float) -> None:
        out = self._session.pump(now)
        while out and self._sock is not None:
            try:
                sent = self._sock.send(out, NO_SIGNAL)
            except BlockingIOError:
                break
            except OSError as error:
                self._session.send_failed(error, now)
                break
            del out[:sent]
            out = out or self._session.pump(now)
        if self._sock is not None and bool(out) != self._writing:
            self._writing = bool(out)
            if self._writing:
                self.loop.add_writer(self._sock, self._step)
            else:
                self.loop.remove_writer(self._sock)

    def _readable(self) -> None:
        if self._sock is None:
            return
        now = self._begin_change()
        if self._session.connection is None:
            self._changing = False
            self._step()
            return
        try:
            data = self._sock.recv(_READ_LEN)
        except BlockingIOError:
            self._changing = False
            return
        except OSError as error:
            self._session.ended(error, now)
        else:
            if data:
                self._session.received(data, now)
            else:
                self._session.ended(None, now)
        self._changing = False
        self._step()

    def _close_lost_socket(self) -> None:
        if self._sock is not None and self._session.connection is None:
            self.loop.remove_reader(self._sock)
            if self._writing:
                self.loop.remove_writer(self._sock)
                self._writing = False
            close(self._sock)
            self._sock = None


def resolve(future: asyncio.Future[None]) -> None:
    """Wake the task that waits for this future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


class AsyncClient:
    """A client of leafd for asyncio. Any number of tasks may use it at the same time.

    It connects and repeats calls as :class:`Client` does, and has the same options. Cancelling a call
    abandons it; its IDs become a gap. A client belongs to the event loop of its first call, until that
    loop is closed. In the child of a fork, every call raises :class:`ForkedError`: make a new client there.
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
        self._process = current_process()
        self._closed = False
        self._link: _LoopLink | None = None

    @property
    def path(self) -> str:
        """The path of the socket."""
        return self._options.path

    async def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return one ID of a tag."""
        ids: Ids = await self._run(SEGMENT, timeout, 1, encode_tag(tag))
        return ids.runs[0].start

    async def next_many(self, tag: str, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` IDs of a tag, at most the daemon's limit (100,000 by default)."""
        ids: Ids = await self._run(SEGMENT, timeout, check_count(count), encode_tag(tag))
        return ids

    async def snowflake(self, *, timeout: float | None = None) -> int:
        """Return one snowflake ID. :meth:`Layout.decode` splits it into its parts."""
        ids: Ids = await self._run(SNOWFLAKE, timeout, 1)
        return ids.runs[0].start

    async def snowflakes(self, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` snowflake IDs, at most the daemon's limit (100,000 by default)."""
        ids: Ids = await self._run(SNOWFLAKE, timeout, check_count(count))
        return ids

    async def time(self, *, timeout: float | None = None) -> int:
        """Return the clock of the daemon's host, in milliseconds since 1970."""
        unix_ms: int = await self._run(TIME, timeout)
        return unix_ms

    async def status(self, *, timeout: float | None = None) -> DaemonStatus:
        """Return the state of the daemon."""
        status: DaemonStatus = await self._run(STATUS, timeout)
        return status

    def ids(self, tag: str, *, batch: int = 100) -> AsyncIterator[int]:
        """Return an endless iterator over IDs of a tag, which gets ``batch`` of them per call.

        Any number of tasks may share it. What is left of a batch when the iterator is dropped is a gap.
        """
        encode_tag(tag)
        check_count(batch)
        return _AsyncIdIterator(self, tag, batch)

    async def close(self) -> None:
        """Close the connection. Calls in flight, and all later ones, fail with :class:`ClosedError`."""
        self._closed = True
        link = self._link
        if link is not None and link.process == current_process():
            if link.loop is asyncio.get_running_loop():
                link.close()
            else:
                link.discard()
            self._link = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is not None:
            link.discard()

    def __reduce__(self) -> tuple[Any, ...]:
        return _client_with, (self._options,)

    def __repr__(self) -> str:
        return f"AsyncClient({self._options.path!r})"

    async def _run(self, number: int, timeout: float | None, count: int = 0, tag: bytes = b"") -> Any:
        limit = self._options.timeout if timeout is None else check_seconds("timeout", timeout)
        self._check_process()
        if self._closed:
            raise ClosedError
        return await self._get_link().run(Call(number, _now(), limit, count, tag))

    def _check_process(self) -> None:
        if self._process != current_process():
            raise ForkedError

    def _get_link(self) -> _LoopLink:
        loop = asyncio.get_running_loop()
        link = self._link
        if link is None or link.loop is not loop:
            if link is not None:
                if not link.loop.is_closed():
                    raise RuntimeError("this AsyncClient belongs to another event loop")
                link.discard()
            link = self._link = _LoopLink(loop, self._options)
        return link


def _client_with(options: Options) -> AsyncClient:
    client = AsyncClient.__new__(AsyncClient)
    client._start(options)
    return client


class _AsyncIdIterator(AsyncIterator[int]):
    def __init__(self, client: AsyncClient, tag: str, batch: int) -> None:
        self._client = client
        self._tag = tag
        self._size = batch
        # Several, if several tasks found nothing at the same time.
        self._batches: deque[Iterator[int]] = deque()

    async def __anext__(self) -> int:
        self._client._check_process()
        while True:
            while self._batches:
                for value in self._batches[0]:
                    return value
                self._batches.popleft()
            self._batches.append(iter(await self._client.next_many(self._tag, self._size)))
