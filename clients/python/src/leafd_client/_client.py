"""The synchronous client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ._errors import ClosedError
from ._ids import Ids
from ._link import Link
from ._options import Options, StrPath, check_seconds
from ._process import Forkable, PerProcess, Process
from ._session import Call, check_count, encode_tag
from ._wire import SEGMENT, SNOWFLAKE, STATUS, TIME, DaemonStatus

_now = time.monotonic


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
        return self._one(SEGMENT, timeout, encode_tag(tag))

    def next_many(self, tag: str, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` IDs of a tag, at most the daemon's limit (100,000 by default)."""
        ids: Ids = self._run(SEGMENT, timeout, check_count(count), encode_tag(tag))
        return ids

    def snowflake(self, *, timeout: float | None = None) -> int:
        """Return one snowflake ID. :meth:`Layout.decode` splits it into its parts."""
        return self._one(SNOWFLAKE, timeout, b"")

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

    def _one(self, number: int, timeout: float | None, tag: bytes) -> int:
        if self._closed:
            raise ClosedError
        limit = self._options.timeout if timeout is None else check_seconds("timeout", timeout)
        return self._links.get().one(number, limit, tag)

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
