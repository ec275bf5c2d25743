"""Pools: IDs that the daemon leased to this process ahead of need."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Optional, TypeVar, Union

from ._aio import resolve
from ._client import _client_with
from ._errors import (
    ClosedError,
    DeadlineError,
    ForkedError,
    InvalidArgumentError,
    LeafdError,
    UnsupportedError,
)
from ._ids import Ids
from ._options import Options, StrPath, check_seconds
from ._plan import MAX_CHUNK, ChunkRule, RefillPlan
from ._process import Forkable, PerProcess, Process, current_process
from ._session import check_count, encode_tag

_T = TypeVar("_T")

_now = time.monotonic
_log = logging.getLogger("leafd_client")

# The size of the first chunk, and of the smallest.
_MIN_CHUNK = 100

# How long a chunk should last, in seconds.
_LASTS = 1.0

# How old a snowflake ID may be, in seconds.
_MAX_AGE = 1.0

# Below it, a round trip could outdate a whole chunk.
_SHORTEST_MAX_AGE = 0.01

# A chunk lasts this part of the maximum age: it is prefetched at half, so its last ID is taken when it is
# three quarters of this part old, and the rest covers a slower rate.
_AGE_PART = 2

# How often an idle refill thread looks whether its pool was dropped, in seconds.
_LOOK = 30.0

# The clock of ages. It goes on while the machine sleeps.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class PoolStats(NamedTuple):
    """The counters of a pool in this process."""

    #: IDs that the daemon has leased to the pool: those issued, held and lost.
    leased: int = 0
    #: IDs that callers got.
    issued: int = 0
    #: IDs that callers can take now. This is what an outage leaves.
    held: int = 0
    #: IDs that nobody gets, because they became older than ``max_age`` or the pool was closed.
    lost: int = 0
    #: Chunks that the daemon has leased.
    refills: int = 0
    #: Attempts to lease that failed.
    failures: int = 0
    #: Calls that had to wait for a refill.
    waits: int = 0
    #: The size of a chunk at present.
    chunk: int = 0


class OutageBegan(NamedTuple):
    """The pool has not been able to lease for a second, or the error does not pass by itself. It goes on
    trying."""

    error: LeafdError
    #: The IDs that it still holds.
    held: int


class OutageEnded(NamedTuple):
    """The pool has leased again."""

    #: How long it could not, in seconds.
    after: float


PoolEvent = Union[OutageBegan, OutageEnded]


class _Settings(NamedTuple):
    """The checked settings of a pool."""

    #: ``None``: snowflake IDs.
    tag: Optional[str]
    options: Options
    rule: ChunkRule
    #: How old an ID may be, in nanoseconds; 0: any age.
    max_age: int
    on_event: Optional[Callable[[PoolEvent], None]]


class _Failure(NamedTuple):
    """Why the last attempt to lease failed, and when the next one may be made."""

    error: LeafdError
    until: float


class _Bell:
    """Wakes one thread, which waits without the lock of the supply.

    A condition takes that lock again before it returns. An exception from a signal handler then leaves the
    ``with`` statement without the lock, and so releases that of another thread.
    """

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        try:
            self._silent.release()
        except RuntimeError:
            pass  # It has rung already.

    def wait(self, seconds: float) -> None:
        """Wait until it has rung since the last wait."""
        self._silent.acquire(timeout=max(seconds, 0.0))


class _Supply(Forkable):
    """What a pool holds in one process. Everything is changed under one lock, so an ID that is taken
    after another one was returned is higher."""

    def __init__(self, process: Process, settings: _Settings) -> None:
        super().__init__(process)
        self._settings = settings
        self._client = _client_with(settings.options)
        self._plan = RefillPlan(settings.rule, settings.options.backoff_min, settings.options.backoff_max)
        self.lock = threading.Lock()
        self._refill_thread: threading.Thread | None = None
        self._refill_bell = _Bell()
        # Callers that wait for a refill, in threads and in event loops.
        self._bells: set[_Bell] = set()
        self._futures: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._asked = False
        self._failure: _Failure | None = None
        self._closed = False
        # Runs in the order of issue, each a list of its next ID, its end, and when it was requested. The
        # one in front is replaced as a whole: an exception in the middle must not mix two of them.
        self._front = [0, 0, 0]
        self._runs: deque[list[int]] = deque()
        self._held = 0
        self._leased = 0
        self._lost = 0
        self._refills = 0
        self._failures = 0
        self._waits = 0

    # Taking. The caller holds the lock.

    def take(self) -> int | None:
        """Take one ID."""
        if self._settings.max_age:
            self._drop_old()
        while True:
            run = self._front
            value = run[0]
            if value < run[1]:
                # First the change: if an exception strikes here, the ID is lost, and not issued twice.
                run[0] = value + 1
                self._held -= 1
                if self._held <= self._plan.chunk >> 1:
                    self._ask()
                return value
            if not self._runs:
                self._ask()
                return None
            self._front = self._runs.popleft()

    def take_runs(self, count: int, runs: list[range]) -> int:
        """Take up to ``count`` IDs. Returns how many."""
        taken = 0
        while taken < count:
            first = self.take()
            if first is None:
                break
            run = self._front
            end = min(run[1], first + count - taken)
            self._held -= end - run[0]
            run[0] = end
            taken += end - first
            if runs and runs[-1].stop == first:
                runs[-1] = range(runs[-1].start, end)
            else:
                runs.append(range(first, end))
        if self._held <= self._plan.chunk >> 1:
            self._ask()
        return taken

    def _drop_old(self) -> None:
        oldest = time.clock_gettime_ns(_BOOT_CLOCK) - self._settings.max_age
        while self._front[2] < oldest:
            run = self._front
            left = run[1] - run[0]
            run[0] = run[1]
            self._held -= left
            self._lost += left
            if not self._runs:
                return
            self._front = self._runs.popleft()

    def _issued(self) -> int:
        return self._leased - self._held - self._lost

    def _count_held(self) -> None:
        """Count again. An exception in the middle of a change must not leave a wrong number for ever: the
        pool would never be refilled."""
        front = self._front
        self._held = front[1] - front[0] + sum(run[1] - run[0] for run in self._runs)

    # Waiting

    def wait_for(self, take: Callable[[], _T | None], timeout: float) -> _T:
        """Call ``take`` under the lock until it returns something."""
        deadline = _now() + timeout
        bell = _Bell()
        waited = False
        try:
            while True:
                with self.lock:
                    taken = take()
                    if taken is not None:
                        return taken
                    self._check(deadline, timeout)
                    self._waits += not waited
                    waited = True
                    self._bells.add(bell)
                bell.wait(deadline - _now())
        finally:
            self._bells.discard(bell)

    async def wait_for_async(self, take: Callable[[], _T | None], timeout: float) -> _T:
        """As :meth:`wait_for`, without blocking the event loop."""
        deadline = _now() + timeout
        waited = False
        loop = asyncio.get_running_loop()
        while True:
            with self.lock:
                taken = take()
                if taken is not None:
                    return taken
                self._check(deadline, timeout)
                self._waits += not waited
                waited = True
                future: asyncio.Future[None] = loop.create_future()
                self._futures[future] = loop
            timer = loop.call_later(max(deadline - _now(), 0.0) + 0.0005, resolve, future)
            try:
                await future
            finally:
                timer.cancel()
                self._futures.pop(future, None)
            if self.process != current_process():
                raise ForkedError(
                    "the process was forked while this call waited; make a new one in the child"
                )

    def _check(self, deadline: float, timeout: float) -> None:
        """Raise the error for a caller that found nothing, if it should not wait any longer."""
        if self._closed:
            raise ClosedError("the pool was closed")
        if self._refill_thread is None:
            raise UnsupportedError("this system cannot start a thread that refills the pool")
        now = _now()
        failure = self._failure
        if failure is not None:
            lasting = not failure.error.temporary and now < failure.until
            if lasting or now >= deadline:
                raise failure.error.copy()
        elif now >= deadline:
            raise DeadlineError("Snowflake" if self._settings.tag is None else "Segment", timeout)

    def _tell(self) -> list[tuple[asyncio.Future[None], asyncio.AbstractEventLoop]]:
        """Wake everybody that waits. The caller releases the lock and then calls `_wake_loops`."""
        for bell in list(self._bells):
            bell.ring()
        futures = list(self._futures.items())
        self._futures.clear()
        return futures

    # Refilling

    def _ask(self) -> None:
        """Have the refill thread look. Starts it if there is none."""
        if self._refill_thread is None and not self._closed:
            thread = threading.Thread(target=self._refill, name="leafd-pool", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # No thread. A caller that finds nothing gets an error.
            self._refill_thread = thread
        if not self._asked:
            # In this order: if an exception strikes in between, the next caller asks again.
            self._refill_bell.ring()
            self._asked = True

    def _refill(self) -> None:
        with self.lock:
            # An exception may have kept the caller that started this thread from noting it, or another one
            # may have started one as well.
            if self._refill_thread is None:
                self._refill_thread = threading.current_thread()
            if self._refill_thread is not threading.current_thread():
                return
        while True:
            count = self._wait_until_due()
            if count is None:
                return
            try:
                self._lease(count)
            except LeafdError as error:
                self._failed(error)
            except Exception as error:
                _log.exception("a defect in leafd_client: a refill failed")
                self._failed(UnsupportedError(f"a refill failed: {error!r}"))

    def _wait_until_due(self) -> int | None:
        """Return how many IDs to lease, or ``None`` if the pool was closed."""
        while True:
            with self.lock:
                if self._closed:
                    return None
                self._count_held()
                now = _now()
                due = self._plan.due(now, self._held, self._issued(), self._asked)
                self._asked = self._asked and not due.ids and self._held <= self._plan.chunk >> 1
                if due.ids:
                    return due.ids
                pause = _LOOK if due.at is None else min(due.at - now, _LOOK)
            self._refill_bell.wait(pause)

    def _lease(self, count: int) -> None:
        """Lease a chunk, one request after the other: their IDs are in the order of issue."""
        left = count
        while left > 0:
            # Before the request: no ID of the answer is older.
            born = time.clock_gettime_ns(_BOOT_CLOCK)
            ids = self._client._lease(self._settings.tag, left)
            self._leased_ids(ids, born, is_first=left == count)
            left -= len(ids)
        with self.lock:
            self._refills += 1

    def _leased_ids(self, ids: Ids, born: int, is_first: bool) -> None:
        after = None
        with self.lock:
            if is_first:
                after = self._plan.leased(_now(), self._issued())
            self._leased += len(ids)
            if self._closed:
                self._lost += len(ids)
                return
            self._held += len(ids)
            self._runs.extend([run.start, run.stop, born] for run in ids.runs)
            self._failure = None
            woken = self._tell()
        _wake_loops(woken)
        if after is not None:
            self._report(OutageEnded(after))

    def _failed(self, error: LeafdError) -> None:
        with self.lock:
            begins, until = self._plan.failed(_now(), error, random.random())
            self._failures += 1
            self._failure = _Failure(error, until)
            held = self._held
            woken = self._tell()
        _wake_loops(woken)
        if begins and not self._closed:
            self._report(OutageBegan(error, held))

    def _report(self, event: PoolEvent) -> None:
        if self._settings.on_event is not None:
            try:
                self._settings.on_event(event)
            except Exception:
                _log.exception("the on_event of a leafd_client.Pool failed")

    # The end

    def close(self) -> None:
        """Drop what the pool holds, and end its thread."""
        with self.lock:
            self._closed = True
            self._lost += self._held
            self._held = 0
            self._front = [0, 0, 0]
            self._runs.clear()
            self._refill_bell.ring()
            woken = self._tell()
        _wake_loops(woken)
        self._client.close()

    def drop(self) -> None:
        """End the thread of a pool that nobody uses any more. The garbage collector may call this in
        any thread, also in one that has the lock."""
        self._closed = True
        self._refill_bell.ring()

    def abandon(self) -> None:
        self._client._links.get()

    # What it tells

    def stats(self) -> PoolStats:
        with self.lock:
            return PoolStats(
                leased=self._leased,
                issued=self._issued(),
                held=self._held,
                lost=self._lost,
                refills=self._refills,
                failures=self._failures,
                waits=self._waits,
                chunk=self._plan.chunk,
            )

    def seconds_left(self) -> float | None:
        with self.lock:
            return self._held / self._plan.rate if self._plan.rate > 0 else None


class Pool:
    """A pool of IDs of one tag, or of snowflake IDs: a call usually takes no system call to leafd.

    Any number of threads and event loops may use it at the same time. An ID that is taken after another
    one was returned, by any thread of the process, is higher; unless the daemon has switched to another
    store in between. Between processes there is no order. A process that ends loses what its pool holds:
    at most two chunks.

    The pool neither connects nor starts a thread before its first use, so a server can make it before
    it forks. A child's pool is empty and goes on by itself.

    :param tag: the tag; ``None`` for snowflake IDs.
    :param path: the socket; by default that of :func:`default_socket_path`.
    :param timeout: the longest wait for an ID in seconds, and the timeout of a lease; at most 24 hours.
    :param min_chunk: size of the first and smallest chunk, 1 to 1,000,000 IDs; 100 by default.
    :param max_chunk: size of the largest chunk, 1 to 1,000,000 IDs. A chunk is what was used in about a
        second.
    :param max_age: how old an ID may be in seconds when it is taken, 0.01 to 86,400; by default 1 for
        snowflake IDs, whose time would be wrong by that much, and unlimited for IDs of a tag.
    :param on_event: called by the refill thread when an outage begins and when it ends.
    """

    def __init__(
        self,
        tag: str | None,
        *,
        path: StrPath | None = None,
        timeout: float = 5.0,
        backoff_min: float = 0.005,
        backoff_max: float = 0.5,
        min_chunk: int | None = None,
        max_chunk: int = MAX_CHUNK,
        max_age: float | None = None,
        on_event: Callable[[PoolEvent], None] | None = None,
    ) -> None:
        options = Options.check(path, timeout, backoff_min, backoff_max)
        if tag is not None:
            encode_tag(tag)
        elif max_age is None:
            max_age = _MAX_AGE
        largest = _check_chunk("max_chunk", max_chunk)
        smallest = min(_MIN_CHUNK, largest)
        if min_chunk is not None:
            smallest = _check_chunk("min_chunk", min_chunk)
            if smallest > largest:
                raise InvalidArgumentError(f"min_chunk {smallest} is above max_chunk {largest}")
        lasts, age = _LASTS, 0
        if max_age is not None:
            seconds = max(check_seconds("max_age", max_age), _SHORTEST_MAX_AGE)
            lasts, age = min(_LASTS, seconds / _AGE_PART), int(seconds * 1e9)
        self._start(_Settings(tag, options, ChunkRule(smallest, largest, lasts), age, on_event))

    def _start(self, settings: _Settings) -> None:
        self._settings = settings
        self._closed = False
        self._supplies = PerProcess(lambda process: _Supply(process, settings))

    def next(self, *, timeout: float | None = None) -> int:
        """Return the next ID, and wait for one at most ``timeout`` seconds.

        If none comes in time, the error of the last attempt to lease is raised. An error that does not
        pass by itself is raised at once.
        """
        supply = self._supplies.get()
        with supply.lock:
            value = supply.take()
        if value is not None:
            return value
        return supply.wait_for(supply.take, self._limit(timeout))

    def try_next(self) -> int | None:
        """Return the next ID if one is there, without waiting. ``None``: a refill is under way."""
        supply = self._supplies.get()
        with supply.lock:
            value = supply.take()
        if value is None and self._closed:
            raise ClosedError("the pool was closed")
        return value

    def next_many(self, count: int, *, timeout: float | None = None) -> Ids:
        """Return ``count`` IDs. Those taken before an error are lost."""
        runs: list[range] = []
        supply = self._supplies.get()
        return supply.wait_for(_taker(supply, check_count(count), runs), self._limit(timeout))

    async def next_async(self, *, timeout: float | None = None) -> int:
        """As :meth:`next`, without blocking the event loop. A cancelled call has taken no ID."""
        supply = self._supplies.get()
        with supply.lock:
            value = supply.take()
        if value is not None:
            return value
        return await supply.wait_for_async(supply.take, self._limit(timeout))

    async def next_many_async(self, count: int, *, timeout: float | None = None) -> Ids:
        """As :meth:`next_many`, without blocking the event loop."""
        runs: list[range] = []
        supply = self._supplies.get()
        take = _taker(supply, check_count(count), runs)
        return await supply.wait_for_async(take, self._limit(timeout))

    def stats(self) -> PoolStats:
        """Return the counters of the pool in this process."""
        supply = self._supplies.known()
        return supply.stats() if supply is not None else PoolStats()

    def seconds_left(self) -> float | None:
        """Return how long the IDs that the pool holds last at the rate of the last chunk. ``None`` while
        the pool does not know a rate."""
        supply = self._supplies.known()
        return supply.seconds_left() if supply is not None else None

    def close(self) -> None:
        """Give up what the pool holds. All later calls raise :class:`ClosedError`."""
        self._closed = True
        self._supplies.get().close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        supplies = getattr(self, "_supplies", None)
        supply = supplies.known() if supplies is not None else None
        if supply is not None:
            supply.drop()

    def __reduce__(self) -> tuple[Any, ...]:
        return _pool_with, (self._settings,)

    def __repr__(self) -> str:
        return f"Pool({self._settings.tag!r}, path={self._settings.options.path!r})"

    def _limit(self, timeout: float | None) -> float:
        if self._closed:
            raise ClosedError("the pool was closed")
        if timeout is None:
            return self._settings.options.timeout
        return check_seconds("timeout", timeout)


def _pool_with(settings: _Settings) -> Pool:
    pool = Pool.__new__(Pool)
    pool._start(settings)
    return pool


def _check_chunk(name: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_CHUNK:
        raise InvalidArgumentError(f"{name} is {count!r}; it has to be 1 to {MAX_CHUNK} IDs")
    return count


def _taker(supply: _Supply, count: int, runs: list[range]) -> Callable[[], Ids | None]:
    left = count

    def take() -> Ids | None:
        nonlocal left
        left -= supply.take_runs(left, runs)
        return Ids(runs) if left == 0 else None

    return take


def _wake_loops(futures: list[tuple[asyncio.Future[None], asyncio.AbstractEventLoop]]) -> None:
    for future, loop in futures:
        try:
            loop.call_soon_threadsafe(resolve, future)
        except RuntimeError:
            pass  # The loop was closed, and nobody waits there any more.
