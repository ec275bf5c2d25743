"""Pools against a scripted daemon."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from typing import Any
from unittest import mock

from fake import FakeCase, Peer, Server, error, ids
from leafd_client import (
    ClosedError,
    DeadlineError,
    InvalidArgumentError,
    OutageBegan,
    OutageEnded,
    Pool,
    RefusedError,
    UnavailableError,
)


class PoolCase(FakeCase):
    def pool(self, tag: str | None = "orders", **options: Any) -> Pool:
        pool = Pool(tag, path=self.path, **options)
        self.addCleanup(pool.close)
        return pool

    def wait_until(self, holds: Any) -> None:
        end = time.monotonic() + 20
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)


class Leases(PoolCase):
    def test_every_id_comes_once_and_in_order(self) -> None:
        Server(self.daemon)
        pool = self.pool()
        found = [pool.next() for _ in range(2000)]
        for count in (1, 50, 300, 5000):
            found.extend(pool.next_many(count))
        self.assertEqual(found, list(range(1, len(found) + 1)))
        self.assertEqual(self.daemon.connects, 1)
        stats = pool.stats()
        self.assertEqual(stats.issued, len(found))
        self.assertEqual(stats.leased, stats.issued + stats.held + stats.lost)

    def test_in_every_thread_ids_rise(self) -> None:
        Server(self.daemon)
        pool = self.pool(max_chunk=1000)
        found: list[list[int]] = [[] for _ in range(4)]

        def take(mine: list[int]) -> None:
            for _ in range(3000):
                mine.append(pool.next())

        threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for mine in found:
            self.assertEqual(mine, sorted(mine))
        self.assertEqual(len(set().union(*found)), 12_000)

    def test_it_leases_first_the_smallest_chunk_and_again_at_half(self) -> None:
        pool = self.pool(max_chunk=100)
        call = self.background(pool.next)
        peer = self.daemon.greet()
        request = peer.request()
        self.assertEqual(request.count, 100)
        peer.send(ids(request.id, (1, 100)))
        self.assertEqual(call.result(20), 1)
        self.assertEqual([pool.next() for _ in range(48)], list(range(2, 50)))
        peer.sock.settimeout(0.1)
        with self.assertRaises(OSError):
            peer.request()
        peer.sock.settimeout(20)
        self.assertEqual(pool.next(), 50)
        self.assertEqual(peer.request().count, 100)

    def test_a_chunk_above_the_limit_takes_several_requests_in_order(self) -> None:
        self.daemon.max_count = 40
        pool = self.pool()
        call = self.background(pool.next_many, 100)
        peer = self.daemon.greet()
        for first, count in ((1000, 40), (2000, 40), (3000, 20)):
            request = peer.request()
            self.assertEqual(request.count, count)
            peer.send(ids(request.id, (first, count)))
        runs = (range(1000, 1040), range(2000, 2040), range(3000, 3020))
        self.assertEqual(call.result(20).runs, runs)

    def test_it_never_holds_more_than_two_chunks(self) -> None:
        Server(self.daemon)
        pool = self.pool(min_chunk=100, max_chunk=100)
        for count in (1, 60, 60, 99, 150, 250, 1, 80):
            pool.next_many(count)
            for _ in range(10):
                self.assertLessEqual(pool.stats().held, 200)
                time.sleep(0.001)

    def test_try_next_never_waits(self) -> None:
        pool = self.pool()
        self.assertIsNone(pool.try_next())
        peer = self.daemon.greet()
        self.assertIsNone(pool.try_next())
        peer.send(ids(peer.request().id, (1, 100)))
        self.wait_until(lambda: pool.stats().held)
        self.assertEqual(pool.try_next(), 1)


class Ages(PoolCase):
    def test_old_snowflakes_are_dropped(self) -> None:
        Server(self.daemon)
        pool = self.pool(None, max_age=0.1)
        first = pool.next()
        time.sleep(0.25)
        with mock.patch.object(pool._supplies.get(), "_ask"):
            self.assertIsNone(pool.try_next())
        self.assertGreaterEqual(pool.stats().lost, 99)
        self.assertGreaterEqual(pool.next(), first + 100)
        self.assertGreaterEqual(min(pool.next_many(150)), first + 100)

    def test_the_age_is_that_of_the_request(self) -> None:
        pool = self.pool(None, max_age=0.2, timeout=0.5)
        call = self.background(pool.next)
        peer = self.daemon.greet()
        request = peer.request()
        time.sleep(0.25)
        peer.send(ids(request.id, (1, 100)))
        request = peer.request()
        peer.send(ids(request.id, (500, request.count)))
        self.assertEqual(call.result(20), 500)

    def test_ids_of_a_tag_do_not_age(self) -> None:
        Server(self.daemon)
        pool = self.pool()
        self.assertEqual(pool.next(), 1)
        time.sleep(1.2)
        self.assertEqual(pool.next(), 2)


class Outages(PoolCase):
    def lease(self, pool: Pool, **options: Any) -> Peer:
        call = self.background(pool.next, **options)
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 100)))
        self.assertEqual(call.result(20), 1)
        return peer

    def test_it_issues_what_it_holds_and_recovers(self) -> None:
        events: list[Any] = []
        pool = self.pool(max_chunk=100, on_event=events.append)
        self.lease(pool)
        self.daemon.close()
        self.assertEqual([pool.next() for _ in range(99)], list(range(2, 101)))
        began = time.monotonic()
        with self.assertRaises(UnavailableError):
            pool.next(timeout=0.4)
        self.assertGreaterEqual(time.monotonic() - began, 0.4)
        self.wait_until(lambda: events)
        self.assertIsInstance(events[0], OutageBegan)
        call = self.background(pool.next, timeout=20)
        self.daemon.listen()
        peer = self.daemon.greet()
        request = peer.request()
        peer.send(ids(request.id, (500, request.count)))
        self.assertEqual(call.result(20), 500)
        self.wait_until(lambda: len(events) > 1)
        self.assertIsInstance(events[1], OutageEnded)

    def test_a_daemon_that_does_not_answer_is_a_deadline(self) -> None:
        pool = self.pool()
        call = self.background(pool.next, timeout=0.2)
        self.daemon.greet().request()
        with self.assertRaises(DeadlineError):
            call.result(20)

    def test_an_error_that_does_not_pass_is_given_at_once(self) -> None:
        pool = self.pool(timeout=60)
        peer = self.lease(pool)
        for value in range(2, 51):
            self.assertEqual(pool.next(), value)
        peer.send(error(peer.request().id, 206))
        self.wait_until(lambda: pool.stats().failures)
        self.assertEqual(list(pool.next_many(50)), list(range(51, 101)))
        for _ in range(3):
            call = self.background(pool.next)
            try:
                peer.sock.settimeout(0.3)
                peer.send(error(peer.request().id, 206))
            except OSError:
                pass  # It was given the last error, without another request.
            with self.assertRaises(RefusedError) as caught:
                call.result(20)
            self.assertEqual(caught.exception.number, 206)
        # Once the rules have changed, it works.
        peer.sock.settimeout(20)
        time.sleep(0.6)
        call = self.background(pool.next)
        request = peer.request()
        peer.send(ids(request.id, (700, request.count)))
        self.assertEqual(call.result(20), 700)

    def test_a_passing_error_and_a_lost_connection_are_retried(self) -> None:
        pool = self.pool(timeout=20)
        call = self.background(pool.next)
        peer = self.daemon.greet()
        peer.send(error(peer.request().id, 302))
        peer.request()
        peer.close()
        peer = self.daemon.greet()
        peer.send(error(peer.request().id, 309))
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (5, 100)))
        self.assertEqual(call.result(20), 5)

    def test_a_lower_limit_is_leased_at_once(self) -> None:
        pool = self.pool(timeout=20)
        call = self.background(pool.next)
        peer = self.daemon.greet()
        peer.send(error(peer.request().id, 200, detail=30))
        request = peer.request()
        self.assertEqual(request.count, 30)
        peer.send(ids(request.id, (5, 30)))
        self.assertEqual(call.result(20), 5)


class Lives(PoolCase):
    def test_arguments_are_checked(self) -> None:
        for make in (
            lambda: Pool(""),
            lambda: Pool("a", path=""),
            lambda: Pool("a", min_chunk=0),
            lambda: Pool("a", max_chunk=1_000_001),
            lambda: Pool("a", min_chunk=10, max_chunk=9),
            lambda: Pool(None, max_age=-1),
            lambda: self.pool().next_many(0),
        ):
            with self.assertRaises(InvalidArgumentError):
                make()

    def test_a_closed_pool_answers_closed(self) -> None:
        pool = self.pool(timeout=60)
        call = self.background(pool.next)
        self.daemon.greet().request()
        pool.close()
        with self.assertRaises(ClosedError):
            call.result(20)
        for call_again in (pool.next, pool.try_next, lambda: pool.next_many(2)):
            with self.assertRaises(ClosedError):
                call_again()

    def test_the_thread_of_a_dropped_pool_ends(self) -> None:
        Server(self.daemon)
        pool = Pool("orders", path=self.path)
        pool.next()
        thread = pool._supplies.get()._refill_thread
        assert thread is not None
        del pool
        gc.collect()
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_a_pool_is_pickled_as_its_settings(self) -> None:
        Server(self.daemon)
        pool = self.pool(min_chunk=10)
        pool.next()
        with pickle.loads(pickle.dumps(pool)) as again:
            self.assertEqual(again.stats().held, 0)
            self.assertGreater(again.next(), 10)
