"""Many callers at once, in several processes that inherited one client or pool. Each caller writes its IDs
to a file of its own."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from leafd_client import AsyncClient, Client, ForkedError, Ids, LeafdError, Pool

_RUN = struct.Struct("<QI")
_MAX_RUN = 2**32 - 1

# A caller that fails this often in a row gives up: the daemon is gone.
_MAX_FAILURES = 50


def describe(names: Iterable[str]) -> str:
    return " and ".join(names)


def runs_of(value: int | Ids) -> Iterator[tuple[int, int]]:
    """Return (first, count) of each run of a result."""
    if isinstance(value, Ids):
        return ((run.start, len(run)) for run in value.runs)
    return iter([(value, 1)])


class IdFile:
    """Writes runs to a file, joined where IDs are in a row. Nothing is buffered where a fork could copy
    it to a child that writes it again: the child has none of these objects in use."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = os.path.join(folder, name)
        self._runs: list[bytes] = []
        self._first = self._count = 0

    def add(self, value: int | Ids) -> int:
        added = 0
        for first, count in runs_of(value):
            added += count
            if self._count and first == self._first + self._count and self._count + count <= _MAX_RUN:
                self._count += count
                continue
            self._end_run()
            self._first, self._count = first, count
        if len(self._runs) > 100_000:
            self._write()
        return added

    def close(self) -> None:
        self._end_run()
        self._count = 0
        self._write()

    def _end_run(self) -> None:
        if self._count:
            self._runs.append(_RUN.pack(self._first, self._count))

    def _write(self) -> None:
        with open(self._path, "ab") as file:
            file.write(b"".join(self._runs))
        self._runs.clear()


class Tally:
    """What the callers of one process count together."""

    def __init__(self) -> None:
        self.issued = self.calls = self.failed = 0
        self.errors: list[str] = []

    def add(self, issued: int, calls: int, failed: int, errors: list[str]) -> None:
        self.issued += issued
        self.calls += calls
        self.failed += failed
        self.errors = (self.errors + errors)[:10]

    def json(self) -> dict[str, Any]:
        return {
            "issued": str(self.issued),
            "calls": self.calls,
            "failed": self.failed,
            "errors": self.errors,
        }


class Plan:
    """The fields of a `storm` line."""

    def __init__(self, request: dict[str, Any], asynchronous: bool) -> None:
        self.socket = request.get("socket")
        self.tag = request.get("tag")
        self.use = request.get("use", "client")
        self.workers = request.get("workers", 1)
        self.threads = request.get("threads", 1)
        self.fork_again = request.get("fork_again", False)
        self.batch = request.get("batch", 1)
        self.ids = int(request["ids"])
        self.timeout = request.get("timeout_ms", 5000) / 1000
        self.out = request["out"]
        self.asynchronous = asynchronous

    def make(self) -> Client | Pool:
        if self.use == "pool":
            return Pool(self.tag, path=self.socket, timeout=self.timeout)
        return Client(self.socket, timeout=self.timeout)

    def call(self, source: Any) -> Callable[[int], Any]:
        """Return what gets so many IDs at once."""
        asynchronous = isinstance(source, AsyncClient) or (self.asynchronous and isinstance(source, Pool))
        if isinstance(source, Pool):
            one = source.next_async if asynchronous else source.next
            many = source.next_many_async if asynchronous else source.next_many
            return lambda count: one() if count == 1 else many(count)
        if self.tag is None:
            return lambda count: source.snowflake() if count == 1 else source.snowflakes(count)
        return lambda count: source.next(self.tag) if count == 1 else source.next_many(self.tag, count)


def share(total: int, parts: int, index: int) -> int:
    """Return what the part at `index` gets, so that all parts together get `total`."""
    return total // parts + (index < total % parts)


class Caller:
    """One thread or task."""

    def __init__(self, plan: Plan, name: str, count: int, tally: Tally) -> None:
        self.plan = plan
        self.left = count
        self.tally = tally
        self.file = IdFile(plan.out, name)
        self.issued = self.calls = self.failed = self.row = 0
        self.errors: list[str] = []

    def size(self) -> int:
        return min(self.plan.batch, self.left)

    def got(self, value: int | Ids) -> None:
        added = self.file.add(value)
        self.calls += 1
        self.issued += added
        self.left -= added
        self.row = 0

    def missed(self, error: LeafdError) -> None:
        self.calls += 1
        self.failed += 1
        self.row += 1
        self.errors = [*self.errors, str(error)][:10]
        if self.row >= _MAX_FAILURES:
            self.left = 0

    def end(self) -> None:
        self.file.close()
        self.tally.add(self.issued, self.calls, self.failed, self.errors)

    def run(self, call: Callable[[int], Any], half: threading.Semaphore | None = None) -> None:
        whole = self.left
        while self.left > 0:
            if half is not None and self.left <= whole // 2:
                half.release()
                half = None
            try:
                value = call(self.size())
            except LeafdError as error:
                self.missed(error)
            else:
                self.got(value)
        if half is not None:
            half.release()

    async def run_async(self, call: Callable[[int], Any]) -> None:
        while self.left > 0:
            try:
                value = await call(self.size())
            except LeafdError as error:
                self.missed(error)
            else:
                self.got(value)


def run_storm(request: dict[str, Any], asynchronous: bool) -> dict[str, Any]:
    # The driver has threads, and it means to fork.
    warnings.simplefilter("ignore", DeprecationWarning)
    plan = Plan(request, asynchronous)
    tally = Tally()
    source = plan.make()
    first = Caller(plan, "first", 1, tally)
    first.run(lambda count: source.next() if isinstance(source, Pool) else plan.call(source)(count))
    first.end()
    children = []
    for worker in range(plan.workers):
        count = share(plan.ids - first.issued, plan.workers, worker)
        children.append(_fork(lambda worker=worker, count=count: _worker(plan, source, f"{worker}", count)))
    for child in children:
        child(tally)
    source.close()
    return tally.json()


def _fork(work: Callable[[], Tally]) -> Callable[[Tally], None]:
    """Run `work` in a child. Returns what waits for it, and adds what it counted."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            data = json.dumps(work().json()).encode()
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(data)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)

    def wait(tally: Tally) -> None:
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        status = os.waitpid(pid, 0)[1]
        if status != 0 or not data:
            tally.add(0, 0, 1, [f"a child ended with status {status}"])
            return
        child = json.loads(data)
        tally.add(int(child["issued"]), child["calls"], child["failed"], child["errors"])

    return wait


def _worker(plan: Plan, source: Any, name: str, count: int) -> Tally:
    run = _tasks if plan.asynchronous else _threads
    return run(plan, source, name, count)


def _threads(plan: Plan, source: Any, name: str, count: int) -> Tally:
    """All callers of a process, which are threads. If it is to fork again, that happens in their midst."""
    tally = Tally()
    forked = count // 4 if plan.fork_again else 0
    half = threading.Semaphore(0) if plan.fork_again else None
    callers = [
        Caller(plan, f"{name}-{index}", share(count - forked, plan.threads, index), tally)
        for index in range(plan.threads)
    ]
    call = plan.call(source)
    threads = [threading.Thread(target=caller.run, args=(call, half)) for caller in callers]
    for thread in threads:
        thread.start()
    child = None
    if half is not None:
        half.acquire()
        again = Plan.__new__(Plan)
        again.__dict__.update(plan.__dict__, fork_again=False)
        child = _fork(lambda: _threads(again, source, f"{name}-again", forked))
    for thread in threads:
        thread.join()
    for caller in callers:
        caller.end()
    if child is not None:
        child(tally)
    return tally


def _tasks(plan: Plan, source: Any, name: str, count: int) -> Tally:
    """All callers of a process, which are tasks. It forks again between two event loops, since no event
    loop works on both sides of a fork."""
    tally = Tally()
    forked = count // 4 if plan.fork_again else 0
    first = (count - forked) // 2 if plan.fork_again else count
    client = source if plan.use == "pool" else AsyncClient(plan.socket, timeout=plan.timeout)
    _run_tasks(plan, client, f"{name}-0", first, tally)
    child = None
    if plan.fork_again:
        child = _fork(lambda: _tasks_of_child(plan, client, f"{name}-again", forked))
        _run_tasks(plan, client, f"{name}-1", count - forked - first, tally)
        child(tally)
    return tally


def _tasks_of_child(plan: Plan, client: Any, name: str, count: int) -> Tally:
    if isinstance(client, AsyncClient):
        try:
            asyncio.run(client.time())
        except ForkedError:
            client = AsyncClient(plan.socket, timeout=plan.timeout)
        else:
            raise AssertionError("an asynchronous client worked in the child of a fork")
    tally = Tally()
    _run_tasks(plan, client, name, count, tally)
    return tally


def _run_tasks(plan: Plan, client: Any, name: str, count: int, tally: Tally) -> None:
    async def run() -> None:
        call = plan.call(client)
        callers = [
            Caller(plan, f"{name}-{index}", share(count, plan.threads, index), tally)
            for index in range(plan.threads)
        ]
        await asyncio.gather(*(caller.run_async(call) for caller in callers))
        for caller in callers:
            caller.end()

    asyncio.run(run())
