"""Calls of the synchronous client that are alone on its connection, and how others join them."""

from __future__ import annotations

import _socket
import random
import signal
import socket
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from fake import FakeCase, Peer, Request, Server, ids
from leafd_client import Client, ClosedError, DeadlineError, _link
from leafd_client._session import Call

_send = _socket.socket.send


class AloneCase(FakeCase):
    def setUp(self) -> None:
        super().setUp()
        # Calls stay alone until others join them.
        patch = mock.patch.object(_link, "_ALONE_MS", 60_000)
        patch.start()
        self.addCleanup(patch.stop)
        _link._prepare.cache_clear()
        self.addCleanup(_link._prepare.cache_clear)

    def quiet(self, **options: Any) -> tuple[Client, Peer]:
        """Return a client whose next call is alone."""
        client = self.client(**options)
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 1)))
        self.assertEqual(call.result(20), 1)
        self.assertIsNotNone(client._links.get()._quiet)
        return client, peer

    def alone(self, client: Client, peer: Peer, **options: Any) -> tuple[Any, Request]:
        """Begin a call, and wait until it waits alone."""
        call = self.background(client.next, "orders", **options)
        request = peer.request()
        link = client._links.get()
        self.assertIsNotNone(link._alone)
        while link._writer is not None:
            time.sleep(0.001)
        return call, request

    def serves(self, client: Client, peer: Peer, value: int) -> None:
        """Check that one more call is answered on this connection."""
        call = self.background(client.next, "orders")
        peer.send(ids(peer.request().id, (value, 1)))
        self.assertEqual(call.result(20), value)
        self.assertEqual(self.daemon.connects, 1)


class Alone(AloneCase):
    def test_calls_one_after_the_other_are_all_alone(self) -> None:
        client, peer = self.quiet()
        with mock.patch.object(_link.Link, "_lead", side_effect=AssertionError):
            for value in range(2, 20):
                self.serves(client, peer, value)

    def test_a_snowflake_is_alone_too(self) -> None:
        client, peer = self.quiet()
        call = self.background(client.snowflake)
        request = peer.request()
        self.assertEqual((request.call, request.count), (2, 1))
        peer.send(ids(request.id, (2**63 - 1, 1)))
        self.assertEqual(call.result(20), 2**63 - 1)

    def test_an_answer_in_pieces_is_assembled(self) -> None:
        client, peer = self.quiet()
        call, request = self.alone(client, peer)
        for byte in ids(request.id, (7, 1)):
            peer.send(bytes([byte]))
            time.sleep(0.001)
        self.assertEqual(call.result(20), 7)
        self.serves(client, peer, 8)

    def test_it_ends_at_its_deadline(self) -> None:
        client, peer = self.quiet()
        began = time.monotonic()
        call, _ = self.alone(client, peer, timeout=0.2)
        with self.assertRaises(DeadlineError):
            call.result(20)
        self.assertTrue(0.2 <= time.monotonic() - began < 5)

    def test_a_close_ends_it(self) -> None:
        with mock.patch.object(_link, "_ALONE_MS", 50):
            client, peer = self.quiet()
            call, _ = self.alone(client, peer)
            client.close()
            with self.assertRaises(ClosedError):
                call.result(20)
        self.assertTrue(peer.is_closed())

    def test_a_connection_that_ends_repeats_it(self) -> None:
        client, peer = self.quiet()
        call, request = self.alone(client, peer)
        peer.send(ids(request.id, (666, 1))[:20])
        peer.close()
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (2, 1)))
        self.assertEqual(call.result(20), 2)


class Joined(AloneCase):
    def test_others_send_and_are_answered_meanwhile(self) -> None:
        client, peer = self.quiet()
        first, request = self.alone(client, peer)
        others = [self.background(client.next, "orders") for _ in range(5)]
        requests = [peer.request() for _ in others]
        peer.send(*(ids(other.id, (other.id, 1)) for other in requests))
        self.assertEqual(sorted(other.result(20) for other in others), sorted(other.id for other in requests))
        self.assertFalse(first.done())
        peer.send(ids(request.id, (99, 1)))
        self.assertEqual(first.result(20), 99)
        self.serves(client, peer, 100)

    def test_one_that_is_answered_first_leaves_reading_to_the_others(self) -> None:
        client, peer = self.quiet()
        first, request = self.alone(client, peer)
        others = [self.background(client.next, "orders") for _ in range(5)]
        requests = [peer.request() for _ in others]
        peer.send(ids(request.id, (99, 1)), ids(requests[0].id, (1000, 1))[:11])
        self.assertEqual(first.result(20), 99)
        peer.send(ids(requests[0].id, (1000, 1))[11:])
        peer.send(*(ids(other.id, (other.id, 1)) for other in requests[1:]))
        found = sorted(other.result(20) for other in others)
        self.assertEqual(found, sorted([1000, *(other.id for other in requests[1:])]))
        self.serves(client, peer, 100)

    def test_one_that_ends_at_its_deadline_does_not_take_the_others_with_it(self) -> None:
        client, peer = self.quiet()
        hasty, missed = self.alone(client, peer, timeout=0.3)
        patient = self.background(client.next, "orders")
        request = peer.request()
        with self.assertRaises(DeadlineError):
            hasty.result(20)
        peer.send(ids(missed.id, (666, 1)), ids(request.id, (2, 1)))
        self.assertEqual(patient.result(20), 2)
        self.serves(client, peer, 3)

    def test_a_goodbye_repeats_all(self) -> None:
        client, peer = self.quiet()
        first, _ = self.alone(client, peer)
        other = self.background(client.next, "orders")
        peer.request()
        peer.close()
        peer = self.daemon.greet()
        for value in (2, 3):
            peer.send(ids(peer.request().id, (value, 1)))
        self.assertEqual(sorted([first.result(20), other.result(20)]), [2, 3])

    def test_requests_that_come_while_it_sends_are_sent_after_it(self) -> None:
        sending = threading.Event()
        go_on = threading.Event()
        sent: list[int] = []

        def slow(sock: socket.socket, data: bytes, flags: int) -> int:
            if len(data) > 1:  # Not a wake-up.
                sent.append(len(data))
                sending.set()
                go_on.wait(20)
            return _send(sock, data, flags)

        client, peer = self.quiet()
        with mock.patch.object(socket.socket, "send", slow):
            first = self.background(client.next, "orders")
            sending.wait(20)
            others = [self.background(client.next, "orders") for _ in range(20)]
            while len(client._links.get()._calls) < 21:
                time.sleep(0.001)
            go_on.set()
            requests = [peer.request() for _ in range(21)]
        peer.send(*(ids(request.id, (request.id, 1)) for request in requests))
        found = sorted(call.result(20) for call in [first, *others])
        self.assertEqual(found, sorted(request.id for request in requests))
        self.assertEqual(len(sent), 2)
        self.serves(client, peer, 1000)

    def test_a_socket_that_takes_a_few_bytes_at_a_time_gets_whole_requests(self) -> None:
        def some(sock: socket.socket, data: bytes, flags: int) -> int:
            if len(data) > 1 and random.random() < 0.3:  # Wake-ups find room.
                raise BlockingIOError
            return _send(sock, data[:10], flags)

        Server(self.daemon)
        client = self.client()
        found: list[int] = []
        with mock.patch.object(socket.socket, "send", some):
            # The fake daemon uses sendall.
            run_all([lambda: found.extend(client.next("orders") for _ in range(50))] * 4)
            found.extend(client.next("orders") for _ in range(50))
        self.assertEqual(sorted(found), list(range(1, 251)))
        self.assertEqual(self.daemon.connects, 1)

    def test_threads_that_come_and_go_get_each_id_once(self) -> None:
        Server(self.daemon)
        client = self.client()
        found: list[int] = []

        def take() -> None:
            for _ in range(300):
                found.append(client.next("orders"))
                if random.random() < 0.05:
                    time.sleep(0.002)

        run_all([take] * 5)
        self.assertEqual(sorted(found), list(range(1, 1501)))
        self.assertEqual(self.daemon.connects, 1)


class Signals(AloneCase):
    def on_alarm(self, handler: Callable[..., None], first: float, interval: float = 0.0) -> None:
        old = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, first, interval)

    def test_an_exception_while_it_waits_keeps_the_connection(self) -> None:
        class Interrupt(Exception):
            pass

        def strike(*_: object) -> None:
            raise Interrupt

        client, peer = self.quiet()
        self.on_alarm(strike, 0.1)
        with self.assertRaises(Interrupt):
            client.next("orders")
        peer.send(ids(peer.request().id, (666, 1)))
        self.serves(client, peer, 2)

    def test_handlers_that_return_do_not_extend_a_deadline(self) -> None:
        client, _ = self.quiet()
        self.on_alarm(lambda *_: None, 0.001, 0.001)
        began = time.monotonic()
        with self.assertRaises(DeadlineError):
            client.next("orders", timeout=0.3)
        self.assertTrue(0.3 <= time.monotonic() - began < 5)

    def test_threads_that_are_gone_are_replaced(self) -> None:
        for role in ("_alone", "_leader", "_writer"):
            with self.subTest(role=role):
                client, peer = self.quiet()
                link = client._links.get()
                gone = Call(1, time.monotonic() - 10, 1, 1, b"")
                with link._lock:
                    link._quiet = None
                    setattr(link, role, gone)
                call = self.background(client.next, "orders")
                peer = self.daemon.greet()
                while True:
                    request = peer.request()
                    peer.send(ids(request.id, (request.id, 1)))
                    if call.done() or request.fields.count(b"orders"):
                        break
                self.assertEqual(call.result(20), request.id)
                client.close()


def run_all(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    unittest.main()
