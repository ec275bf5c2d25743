"""Forks: a child never uses its parent's connection, locks or IDs."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from fake import FakeCase, Server, ids
from leafd_client import AsyncClient, Client, ForkedError, Pool


def in_child(work: Callable[[], Any]) -> Any:
    """Run something in a forked child, which has 20 s."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            try:
                result = work()
            except BaseException as problem:
                result = problem
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(pid, 0)[1]
    if status or not data:
        raise AssertionError(f"the child ended with status {status}")
    return pickle.loads(data)


def take(source: Client | Pool, count: int) -> list[int]:
    return [source.next("orders") if isinstance(source, Client) else source.next() for _ in range(count)]


class ForkCase(FakeCase):
    def setUp(self) -> None:
        super().setUp()
        warnings.simplefilter("ignore", DeprecationWarning)  # The fake daemon has threads.


class Children(ForkCase):
    def test_a_child_connects_by_itself_and_the_parents_connection_goes_on(self) -> None:
        Server(self.daemon)
        client = self.client()
        client.next("orders")
        for _ in range(2):
            found = in_child(lambda: take(client, 3))
            mine = take(client, 3)
            self.assertEqual(len(set(found + mine)), 6)
        # One of the parent, one of each child.
        self.assertEqual(self.daemon.connects, 3)

    def test_a_child_closes_its_copies_of_descriptors(self) -> None:
        Server(self.daemon)
        client = self.client()
        client.next("orders")
        link = client._links.get()
        assert link._sock is not None and link._watch.wakers is not None
        numbers = [link._sock.fileno(), *(sock.fileno() for sock in link._watch.wakers)]

        def open_ones() -> list[int]:
            return [number for number in numbers if os.path.exists(f"/proc/self/fd/{number}")]

        self.assertEqual(in_child(open_ones), [])
        self.assertEqual(open_ones(), numbers)

    def test_locks_that_other_threads_hold_do_not_stop_a_child(self) -> None:
        Server(self.daemon)
        client, pool = self.client(), Pool("orders", path=self.path)
        self.addCleanup(pool.close)
        take(client, 1)
        take(pool, 1)
        numbers = client.ids("orders")
        next(numbers)
        held = threading.Event()
        release = threading.Event()

        def hold() -> None:
            with client._links.get()._lock, pool._supplies.get().lock, numbers._batches.get().lock:  # type: ignore[attr-defined]
                held.set()
                release.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(20)
        found = in_child(lambda: [*take(client, 2), *take(pool, 2), next(numbers)])
        self.assertEqual(len(set(found)), 5)
        release.set()
        thread.join()

    def test_a_call_in_flight_is_answered_in_the_parent(self) -> None:
        client = self.client()
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        request = peer.request()
        self.assertEqual(in_child(lambda: 7), 7)
        peer.send(ids(request.id, (5, 1)))
        self.assertEqual(call.result(20), 5)

    def test_a_child_of_a_process_whose_call_is_alone_makes_calls_of_its_own(self) -> None:
        client = self.client()
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 1)))
        self.assertEqual(call.result(20), 1)
        call = self.background(client.next, "orders")
        request = peer.request()
        Server(self.daemon, first=100)
        self.assertEqual(in_child(lambda: take(client, 3)), [100, 101, 102])
        peer.send(ids(request.id, (5, 1)))
        self.assertEqual(call.result(20), 5)

    def test_a_childs_pool_is_empty(self) -> None:
        Server(self.daemon)
        pool = Pool("orders", path=self.path)
        self.addCleanup(pool.close)
        self.assertEqual(take(pool, 10), list(range(1, 11)))
        stats, child = in_child(lambda: (pool.stats(), take(pool, 200)))
        self.assertEqual((stats.held, stats.leased), (0, 0))
        self.assertGreater(min(child), 100)
        self.assertEqual(take(pool, 40), list(range(11, 51)))

    def test_an_iterator_gives_the_rest_of_its_batch_only_in_the_parent(self) -> None:
        Server(self.daemon)
        client = self.client()
        numbers = client.ids("orders", batch=10)
        self.assertEqual([next(numbers) for _ in range(3)], [1, 2, 3])
        child = in_child(lambda: [next(numbers) for _ in range(12)])
        self.assertGreater(min(child), 10)
        self.assertEqual([next(numbers) for _ in range(7)], list(range(4, 11)))

    def test_a_fork_without_pythons_hooks_is_noticed_by_the_pid(self) -> None:
        Server(self.daemon)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fork_of_c.py")
        done = subprocess.run(
            [sys.executable, script, self.path], stdout=subprocess.PIPE, timeout=60, check=True
        )
        found = json.loads(done.stdout)
        self.assertEqual((found["held"], found["open"]), (0, 0))
        everything = [*found["parent"], *found["child"]]
        self.assertEqual(len(set(everything)), 27)

    def test_a_grandchild_is_a_child(self) -> None:
        Server(self.daemon)
        client = self.client()
        numbers = client.ids("orders")
        found = [next(numbers), *take(client, 1)]

        def child() -> list[int]:
            mine = [next(numbers), *take(client, 1)]
            return mine + in_child(lambda: [next(numbers), *take(client, 1)]) + [next(numbers)]

        found += [*in_child(child), next(numbers)]
        self.assertEqual(len(set(found)), len(found))

    def test_an_asynchronous_client_is_refused_in_a_child(self) -> None:
        Server(self.daemon)
        client = AsyncClient(self.path)

        async def work() -> None:
            numbers = client.ids("orders")
            await numbers.__anext__()

            def refused() -> list[str]:
                names = []
                for make in (lambda: client.next("orders"), lambda: numbers.__anext__()):
                    try:
                        make().send(None)
                    except ForkedError as problem:
                        names.append(type(problem).__name__)
                client.__del__()
                return names

            self.assertEqual(in_child(refused), ["ForkedError", "ForkedError"])
            # The parent's selector still knows the connection.
            await client.next("orders")
            await client.close()

        asyncio.run(work())
        self.assertEqual(self.daemon.connects, 1)

    def test_forks_in_the_midst_of_many_threads_repeat_no_id(self) -> None:
        Server(self.daemon)
        client, pool = self.client(), Pool("orders", path=self.path, max_chunk=500)
        self.addCleanup(pool.close)
        numbers = client.ids("orders", batch=7)
        found: list[list[int]] = [[] for _ in range(6)]
        stop = threading.Event()

        calls = (lambda: next(numbers), lambda: client.next("orders"), pool.next)

        def work(mine: list[int], call: Callable[[], int]) -> None:
            while not stop.is_set():
                mine.append(call())

        def child() -> list[int]:
            return [*take(client, 20), *take(pool, 150), *(next(numbers) for _ in range(20))]

        threads = [threading.Thread(target=work, args=(mine, calls[n % 3])) for n, mine in enumerate(found)]
        for thread in threads:
            thread.start()
        children: list[list[int]] = []
        try:
            for _ in range(15):
                children.append(in_child(child))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        everything = [value for part in (*found, *children) for value in part]
        self.assertEqual(len(set(everything)), len(everything))


class Multiprocessing(ForkCase):
    def test_every_start_method_works_with_a_client_as_argument(self) -> None:
        Server(self.daemon)
        client, pool = self.client(), Pool("orders", path=self.path)
        self.addCleanup(pool.close)
        found = [*take(client, 5), *take(pool, 5)]
        for method in ("fork", "forkserver", "spawn"):
            context = multiprocessing.get_context(method)
            with ProcessPoolExecutor(2, mp_context=context) as executor:
                jobs = [executor.submit(take, source, 50) for source in (client, pool) * 2]
                found += [value for job in jobs for value in job.result(60)]
        found += [*take(client, 5), *take(pool, 5)]
        self.assertEqual(len(set(found)), len(found))

    def test_a_child_that_ends_leaves_the_parents_connection(self) -> None:
        Server(self.daemon)
        client = self.client()
        take(client, 1)
        for _ in range(3):
            child = multiprocessing.get_context("fork").Process(target=take, args=(client, 2))
            child.start()
            child.join(20)
            self.assertEqual(child.exitcode, 0)
            time.sleep(0.01)
            take(client, 1)
        self.assertEqual(self.daemon.connects, 4)
