"""Pools whose callers are struck by exceptions, as signal handlers raise them, and by forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from test_fork import ForkCase

from fake import FakeCase, Server, ids
from leafd_client import ForkedError, Pool


class Struck(Exception):
    """What a signal handler raises."""


def strike(*_: Any) -> None:
    raise Struck


def _struck_once(function: Callable[..., None], is_called: bool) -> Callable[..., None]:
    """Return the function, whose first caller is struck after it, or before."""
    left = 1

    def struck(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if is_called or left < 0:
            function(*arguments)
        if left == 0:
            raise Struck

    return struck


class Signals(FakeCase):
    def pool(self, **options: Any) -> Pool:
        pool = Pool("orders", path=self.path, **options)
        self.addCleanup(pool.close)
        return pool

    def test_a_caller_that_is_struck_while_it_waits_releases_no_lock_of_another_thread(self) -> None:
        pool = self.pool(timeout=60)
        supply = pool._supplies.get()
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, strike))
        main = threading.main_thread().ident
        assert main is not None

        def hold() -> bool:
            while not pool.stats().waits:
                time.sleep(0.001)
            with supply.lock:
                # The caller wakes, and wants the lock.
                supply._tell()
                time.sleep(0.1)
                signal.pthread_kill(main, signal.SIGUSR1)
                time.sleep(0.1)
                return supply.lock.locked()

        held = self.background(hold)
        with self.assertRaises(Struck):
            pool.next()
        self.assertTrue(held.result(20))
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 100)))
        self.assertEqual(pool.next(), 1)
        self.assertEqual(supply._bells, set())

    def test_a_caller_that_is_struck_while_it_asks_for_a_refill_leaves_that_to_the_next(self) -> None:
        Server(self.daemon)
        for rings in (True, False):
            pool = self.pool()
            pool.next()
            bell = pool._supplies.get()._refill_bell
            with mock.patch.object(bell, "ring", side_effect=_struck_once(bell.ring, rings)):
                with self.assertRaises(Struck):
                    for _ in range(1000):
                        pool.next()
                found = [pool.next() for _ in range(1000)]
            self.assertEqual(found, sorted(set(found)))

    def test_a_caller_that_is_struck_while_it_starts_the_thread_leaves_one_thread(self) -> None:
        Server(self.daemon)
        pool = self.pool()
        start = threading.Thread.start
        with mock.patch.object(threading.Thread, "start", _struck_once(start, True)):
            with self.assertRaises(Struck):
                pool.next()
            found = [pool.next() for _ in range(1000)]
        self.assertEqual(found, sorted(set(found)))
        threads = [thread for thread in threading.enumerate() if thread.name == "leafd-pool"]
        self.assertEqual(threads, [pool._supplies.get()._refill_thread])


class Forks(ForkCase):
    def test_a_call_that_waits_in_an_event_loop_gets_its_id_in_the_parent_only(self) -> None:
        pool = Pool("orders", path=self.path)
        self.addCleanup(pool.close)

        async def work() -> int:
            call = asyncio.ensure_future(pool.next_async())
            while not pool.stats().waits:
                await asyncio.sleep(0.001)
            peer = self.daemon.greet()
            peer.send(ids(peer.request().id, (1, 100)))
            while not pool.stats().held:
                time.sleep(0.001)
            # The loop has yet to wake the call, on both sides.
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.write(writing, str(await call).encode())
                except ForkedError:
                    os.write(writing, b"forked")
                finally:
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as pipe:
                self.assertEqual(pipe.read(), "forked")
            os.waitpid(child, 0)
            return await call

        self.assertEqual(asyncio.run(work()), 1)


if __name__ == "__main__":
    unittest.main()
