"""The asyncio client against a scripted daemon."""

from __future__ import annotations

import asyncio
import gc
import pickle
import random
import socket
import time
from collections.abc import Coroutine
from typing import Any, Callable

from fake import GOODBYE, FakeCase, Peer, Request, Server, error, ids
from leafd_client import (
    AsyncClient,
    ClosedError,
    DeadlineError,
    Pool,
    ProtocolError,
    RefusedError,
    UnavailableError,
)


class AsyncCase(FakeCase):
    def play(self, work: Callable[[AsyncClient], Coroutine[Any, Any, Any]], **options: Any) -> Any:
        """Run a coroutine with a client."""

        async def run() -> Any:
            async with AsyncClient(self.path, **options) as client:
                return await work(client)

        return asyncio.run(run())

    async def do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run the daemon's part without blocking the loop."""
        return await asyncio.get_running_loop().run_in_executor(None, work, *args)

    def answer(self, request: Request) -> bytes:
        return ids(request.id, (1000 * request.count, request.count))

    async def connect(self, client: AsyncClient) -> Peer:
        """Return the connection after it has answered a call."""
        call = asyncio.create_task(client.next("orders"))
        peer: Peer = await self.do(self.daemon.greet)
        request = await self.do(peer.request)
        peer.send(ids(request.id, (1, 1)))
        self.assertEqual(await call, 1)
        return peer


class Answers(AsyncCase):
    def test_many_tasks_share_a_connection_and_get_their_own_answers(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            tasks = [asyncio.create_task(client.next_many("orders", n)) for n in range(1, 101)]
            requests = [await self.do(peer.request) for _ in tasks]
            random.shuffle(requests)
            peer.send(*map(self.answer, requests))
            for number, result in enumerate(await asyncio.gather(*tasks), 1):
                self.assertEqual(result.runs, (range(1000 * number, 1001 * number),))
            self.assertEqual(self.daemon.connects, 1)

        self.play(work)

    def test_above_max_in_flight_calls_wait_in_the_client(self) -> None:
        self.daemon.max_in_flight = 4

        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            tasks = [asyncio.create_task(client.next_many("orders", n)) for n in range(1, 31)]
            waiting = [await self.do(peer.request) for _ in range(4)]
            peer.sock.settimeout(0.1)
            with self.assertRaises(socket.timeout):
                await self.do(peer.request)
            peer.sock.settimeout(20)
            for _ in range(26):
                peer.send(self.answer(waiting.pop(random.randrange(4))))
                waiting.append(await self.do(peer.request))
            peer.send(*map(self.answer, waiting))
            await asyncio.gather(*tasks)

        self.play(work)

    def test_more_requests_than_the_socket_takes_are_sent_in_the_end(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            tag = "\U00010348" * 128
            tasks = [asyncio.create_task(client.next(tag)) for _ in range(900)]
            await asyncio.sleep(0.2)

            def serve() -> None:
                for number in range(900):
                    peer.send(ids(peer.request().id, (number, 1)))

            await self.do(serve)
            self.assertEqual(sorted(await asyncio.gather(*tasks)), list(range(900)))

        self.play(work)

    def test_damage_fails_the_calls_in_flight_and_the_next_one_works(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            tasks = [asyncio.create_task(client.next("orders")) for _ in range(5)]
            for _ in tasks:
                await self.do(peer.request)
            peer.send(ids(2**64 - 1, (1, 1)))
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                self.assertIsInstance(result, ProtocolError)
            self.assertTrue(await self.do(peer.is_closed))
            await self.connect(client)

        self.play(work)

    def test_an_iterator_gets_a_batch_at_a_time(self) -> None:
        Server(self.daemon)

        async def work(client: AsyncClient) -> None:
            found = []
            async for value in client.ids("orders", batch=10):
                found.append(value)
                if len(found) == 25:
                    break
            self.assertEqual(found, list(range(1, 26)))
            numbers = client.ids("orders", batch=10)
            shared = await asyncio.gather(*(numbers.__anext__() for _ in range(100)))
            self.assertEqual(len(set(shared)), 100)

        self.play(work)


class Ends(AsyncCase):
    def test_a_call_is_repeated_after_the_end_of_its_connection(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            for data in (b"", GOODBYE, b"\0\0"):
                call = asyncio.create_task(client.next("orders"))
                await self.do(peer.request)
                peer.send(data)
                peer.close()
                peer = await self.do(self.daemon.greet)
                request = await self.do(peer.request)
                peer.send(ids(request.id, (5, 1)))
                self.assertEqual(await call, 5)
            # Between two calls, too.
            peer.close()
            await self.connect(client)

        self.play(work, backoff_min=60, backoff_max=60)

    def test_refusals_before_hello_are_given_at_once(self) -> None:
        async def work(client: AsyncClient) -> None:
            for _ in range(10):
                call = asyncio.create_task(client.next("orders"))
                peer = await self.do(self.daemon.accept)
                peer.send(error(0, 206))
                peer.close()
                with self.assertRaises(RefusedError) as caught:
                    await call
                self.assertEqual(caught.exception.number, 206)

        self.play(work, timeout=60)

    def test_a_full_backlog_is_not_taken_for_a_connection(self) -> None:
        self.daemon.listener.close()
        self.daemon.listen(backlog=0)
        filler = socket.socket(socket.AF_UNIX)
        self.addCleanup(filler.close)
        filler.connect(self.path)

        async def work(client: AsyncClient) -> None:
            with self.assertRaises(UnavailableError):
                await client.next("orders", timeout=0.2)
            call = asyncio.create_task(client.next("orders", timeout=20))
            await asyncio.sleep(0.05)
            await self.do(self.daemon.accept)
            peer = await self.do(self.daemon.greet)
            request = await self.do(peer.request)
            peer.send(ids(request.id, (4, 1)))
            self.assertEqual(await call, 4)

        self.play(work)


class Deadlines(AsyncCase):
    def test_silence_and_a_late_answer(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            patient = asyncio.create_task(client.next("orders", timeout=20))
            first = await self.do(peer.request)
            began = time.monotonic()
            hasty = asyncio.create_task(client.next("orders", timeout=0.2))
            missed = await self.do(peer.request)
            other = asyncio.create_task(client.next("orders", timeout=20))
            request = await self.do(peer.request)
            peer.send(ids(request.id, (7, 1)))
            self.assertEqual(await other, 7)
            with self.assertRaises(DeadlineError):
                await hasty
            self.assertTrue(0.2 <= time.monotonic() - began < 5)
            peer.send(ids(missed.id, (666, 1)), ids(first.id, (8, 1)))
            self.assertEqual(await patient, 8)
            self.assertEqual(self.daemon.connects, 1)

        self.play(work)

    def test_a_cancelled_call_leaves_the_connection_to_the_others(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            doomed = asyncio.create_task(client.next("orders"))
            missed = await self.do(peer.request)
            doomed.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await doomed
            call = asyncio.create_task(client.next("orders"))
            request = await self.do(peer.request)
            peer.send(ids(missed.id, (666, 1)), ids(request.id, (2, 1)))
            self.assertEqual(await call, 2)
            self.assertEqual(self.daemon.connects, 1)

        self.play(work)

    def test_without_a_daemon_it_ends_at_its_deadline(self) -> None:
        self.daemon.close()

        async def work(client: AsyncClient) -> None:
            began = time.monotonic()
            with self.assertRaises(UnavailableError):
                await client.next("orders", timeout=0.3)
            self.assertTrue(0.3 <= time.monotonic() - began < 5)

        self.play(work)


class Lives(AsyncCase):
    def test_a_client_outlives_its_event_loop(self) -> None:
        Server(self.daemon)
        client = AsyncClient(self.path)
        found = [asyncio.run(client.next("orders")) for _ in range(3)]
        self.assertEqual(found, [1, 2, 3])

        async def close() -> None:
            await client.close()
            with self.assertRaises(ClosedError):
                await client.next("orders")

        asyncio.run(close())

    def test_two_loops_at_a_time_are_refused(self) -> None:
        Server(self.daemon)
        client = AsyncClient(self.path)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(client.next("orders"))
        with self.assertRaises(RuntimeError):
            asyncio.run(client.next("orders"))
        loop.run_until_complete(client.close())
        loop.close()

    def test_a_close_ends_the_calls_in_flight(self) -> None:
        async def work(client: AsyncClient) -> None:
            peer = await self.connect(client)
            call = asyncio.create_task(client.next("orders"))
            await self.do(peer.request)
            await client.close()
            with self.assertRaises(ClosedError):
                await call
            self.assertTrue(await self.do(peer.is_closed))

        self.play(work)

    def test_a_dropped_client_closes_its_connection(self) -> None:
        async def work(client: AsyncClient) -> None:
            other = AsyncClient(self.path)
            peer = await self.connect(other)
            del other
            gc.collect()
            self.assertTrue(await self.do(peer.is_closed))

        self.play(work)

    def test_a_client_is_pickled_as_its_options(self) -> None:
        client = AsyncClient(self.path, timeout=7)
        again = pickle.loads(pickle.dumps(client))
        self.assertEqual(again._options, client._options)


class Pools(AsyncCase):
    def test_tasks_take_from_a_pool(self) -> None:
        Server(self.daemon)

        async def run() -> None:
            with Pool("orders", path=self.path, min_chunk=10, max_chunk=10) as pool:
                found = await asyncio.gather(*(pool.next_async() for _ in range(500)))
                self.assertEqual(len(set(found)), 500)
                many = await pool.next_many_async(100)
                self.assertGreater(min(many), max(found))

        asyncio.run(run())

    def test_a_task_waits_until_its_deadline_and_gets_the_last_error(self) -> None:
        self.daemon.close()

        async def run() -> None:
            with Pool("orders", path=self.path) as pool:
                began = time.monotonic()
                with self.assertRaises(UnavailableError):
                    await pool.next_async(timeout=0.3)
                self.assertTrue(0.3 <= time.monotonic() - began < 5)
                call = asyncio.create_task(pool.next_async())
                await asyncio.sleep(0.05)
                call.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await call

        asyncio.run(run())
