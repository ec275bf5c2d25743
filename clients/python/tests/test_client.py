"""The synchronous client against a scripted daemon."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import signal
import socket
import threading
import time
import unittest
from typing import Any
from unittest import mock

from fake import GOODBYE, FakeCase, Peer, Request, Server, error, frame, hello, ids
from leafd_client import (
    Client,
    ClosedError,
    DeadlineError,
    InvalidArgumentError,
    ProtocolError,
    RefusedError,
    UnavailableError,
)


class ClientCase(FakeCase):
    def connected(self, **options: Any) -> tuple[Client, Peer]:
        """Return a client whose connection has answered a call."""
        client = self.client(**options)
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 1)))
        self.assertEqual(call.result(20), 1)
        return client, peer


class Answers(ClientCase):
    def test_requests_are_sent_as_the_page_says(self) -> None:
        client = self.client(timeout=5.0)
        call = self.background(client.next_many, "größe", 3)
        peer = self.daemon.greet()
        request = peer.request()
        self.assertEqual((request.call, request.count), (1, 3))
        self.assertEqual(request.fields[:-8], b"\7\0\0\0\0\0\0\0" + "größe".encode())
        self.assertTrue(4000 < request.timeout_ms <= 4950, request.timeout_ms)
        peer.send(ids(request.id, (10, 1), (20, 2)))
        result = call.result(20)
        self.assertEqual((list(result), result.runs), ([10, 20, 21], (range(10, 11), range(20, 22))))

    def test_answers_arrive_byte_by_byte(self) -> None:
        client = self.client()
        call = self.background(client.next, "orders")
        peer = self.daemon.accept()
        for byte in hello(peer.request().id):
            peer.send(bytes([byte]))
            time.sleep(0.002)
        for byte in ids(peer.request().id, (7, 1)):
            peer.send(bytes([byte]))
            time.sleep(0.002)
        self.assertEqual(call.result(20), 7)

    def test_the_largest_answer_is_used(self) -> None:
        client, peer = self.connected()
        count = (262_144 - 32) // 12 + 1
        call = self.background(client.next_many, "orders", count)
        request = peer.request()
        peer.send(ids(request.id, *((2 * n, 1) for n in range(count))))
        self.assertEqual(len(call.result(20)), count)

    def test_time_and_snowflakes(self) -> None:
        client, peer = self.connected()
        call = self.background(client.time)
        request = peer.request()
        peer.send(frame(request.id, 3, (1_700_000_000_123).to_bytes(8, "little")))
        self.assertEqual(call.result(20), 1_700_000_000_123)
        call = self.background(client.snowflakes, 2)
        request = peer.request()
        self.assertEqual((request.call, request.count), (2, 2))
        peer.send(ids(request.id, (2**63 - 1, 1), (2**53 + 1, 1)))
        self.assertEqual(list(call.result(20)), [2**63 - 1, 2**53 + 1])

    def test_an_error_of_the_daemon_goes_to_the_caller(self) -> None:
        client, peer = self.connected()
        for number in (104, 202, 206, 301, 302, 306, 312, 999):
            call = self.background(client.next, "orders")
            peer.send(error(peer.request().id, number, 20, 2**64 - 1, "why"))
            with self.assertRaises(RefusedError) as caught:
                call.result(20)
            refused = caught.exception
            self.assertEqual(
                (refused.number, refused.retry_after_ms, refused.detail), (number, 20, 2**64 - 1)
            )

    def test_invalid_arguments_send_nothing(self) -> None:
        client = self.client()
        for call in (
            lambda: client.next(""),
            lambda: client.next(["orders"]),  # type: ignore[arg-type]
            lambda: client.next("\ud800"),
            lambda: Client(5),  # type: ignore[arg-type]
            lambda: Client("/\ud800"),
            lambda: client.next("orders", timeout=-(10**400)),
            lambda: client.next_many("orders", 0),
            lambda: client.snowflakes(-1),
            lambda: client.next("orders", timeout=-1),
            lambda: client.ids("orders", batch=0),
        ):
            with self.assertRaises(InvalidArgumentError):
                call()
        with self.assertRaises(BlockingIOError):
            self.daemon.listener.settimeout(0)
            self.daemon.accept()


class Damage(ClientCase):
    def breaks(self, data: bytes, at_hello: bool = False) -> None:
        client = self.client()
        call = self.background(client.next_many, "orders", 2)
        peer = self.daemon.accept() if at_hello else self.daemon.greet()
        request = peer.request()
        self.assertEqual(request.id, 1 if at_hello else 2)
        peer.send(data)
        with self.assertRaises(ProtocolError):
            call.result(20)
        self.assertTrue(peer.is_closed())
        # The next call makes a new connection.
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (5, 1)))
        self.assertEqual(call.result(20), 5)
        client.close()

    def test_a_damaged_answer_ends_the_connection(self) -> None:
        good = ids(2, (10, 2))
        for data in (
            ids(99, (10, 2)),
            ids(1, (10, 2)),
            ids(0, (10, 2)),
            ids(2, (10, 1)),
            ids(2, (10, 1), (10, 1)),
            ids(2, (2**63, 2)),
            frame(2, 3, bytes(8)),
            frame(2, 6),
            frame(2, 9),
            hello(2),
            b"\0\0\0\0",
            b"\0\4\0\1",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            (len(good) - 5).to_bytes(4, "big") + good[4:-1],
            (len(good) - 3).to_bytes(4, "big") + good[4:] + b"\0",
        ):
            with self.subTest(data=data):
                self.breaks(data)

    def test_anything_but_the_answer_to_hello_is_refused(self) -> None:
        for data in (hello(1, 0), hello(1, 2), hello(77), ids(1, (1, 1)), frame(1, 9)):
            with self.subTest(data=data):
                self.breaks(data, at_hello=True)

    def test_a_second_answer_is_never_another_calls(self) -> None:
        client, peer = self.connected()
        call = self.background(client.next, "orders")
        request = peer.request()
        peer.send(ids(request.id, (10, 1)), ids(request.id, (666, 1)))
        self.assertEqual(call.result(20), 10)
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (11, 1)))
        self.assertEqual(call.result(20), 11)


class Connecting(ClientCase):
    def test_it_ends_at_its_deadline_without_a_daemon(self) -> None:
        for leave in (True, False):
            self.daemon.close()
            if not leave:
                os.unlink(self.path)
            began = time.monotonic()
            with self.assertRaises(UnavailableError) as caught:
                self.client(timeout=0.3).next("orders")
            self.assertTrue(caught.exception.temporary)
            self.assertTrue(0.3 <= time.monotonic() - began < 5)

    def test_a_daemon_that_comes_up_serves_the_call(self) -> None:
        self.daemon.close()
        call = self.background(self.client(timeout=20).next, "orders")
        time.sleep(0.2)
        self.daemon.listen()
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (3, 1)))
        self.assertEqual(call.result(20), 3)

    def test_missing_permission_is_reported_at_once(self) -> None:
        client = self.client(timeout=60)
        refused = PermissionError(13, "Permission denied")
        for _ in range(3):
            with mock.patch.object(socket.socket, "connect", side_effect=refused) as connect:
                with self.assertRaises(UnavailableError) as caught:
                    client.next("orders")
                self.assertEqual(connect.call_count, 1)
            self.assertFalse(caught.exception.temporary)

    def test_a_full_backlog_is_waited_for_until_the_deadline(self) -> None:
        self.daemon.listener.close()
        self.daemon.listen(backlog=0)
        filler = socket.socket(socket.AF_UNIX)
        self.addCleanup(filler.close)
        filler.connect(self.path)
        began = time.monotonic()
        with self.assertRaises(UnavailableError):
            self.client(timeout=0.2).next("orders")
        self.assertTrue(0.2 <= time.monotonic() - began < 5)
        call = self.background(self.client(timeout=20).next, "orders")
        time.sleep(0.05)
        self.daemon.accept()  # The filler.
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (4, 1)))
        self.assertEqual(call.result(20), 4)

    def test_a_refusal_before_hello_is_given_at_once(self) -> None:
        for number in (206, 101):
            for _ in range(20):
                client = self.client(timeout=60)
                call = self.background(client.next, "orders")
                peer = self.daemon.accept()
                peer.send(error(0, number, detail=9))
                peer.close()
                with self.assertRaises(RefusedError) as caught:
                    call.result(20)
                self.assertEqual((caught.exception.number, caught.exception.detail), (number, 9))
                client.close()

    def test_a_full_daemon_is_retried_and_not_before_it_says(self) -> None:
        client = self.client(timeout=20)
        call = self.background(client.next, "orders")
        for request_id in (0, 1):
            peer = self.daemon.accept()
            if request_id:
                peer.request()
            refused = time.monotonic()
            peer.send(error(request_id, 300, retry_after_ms=200))
            peer.close()
        peer = self.daemon.greet()
        self.assertGreaterEqual(time.monotonic() - refused, 0.19)
        peer.send(ids(peer.request().id, (3, 1)))
        self.assertEqual(call.result(20), 3)

    def test_a_daemon_that_stays_full_is_the_error_at_the_deadline(self) -> None:
        call = self.background(self.client(timeout=3.0).next, "orders")
        began = time.monotonic()
        self.daemon.listener.settimeout(0.05)
        while not call.done():
            try:
                peer = self.daemon.accept()
            except socket.timeout:
                continue
            # The client may have left at its deadline.
            with contextlib.suppress(OSError):
                peer.send(error(0, 300))
            peer.close()
        with self.assertRaises(RefusedError) as caught:
            call.result(20)
        self.assertEqual(caught.exception.number, 300)
        self.assertGreaterEqual(time.monotonic() - began, 2.5)
        self.assertTrue(3 <= self.daemon.connects <= 40, self.daemon.connects)


class Deadlines(ClientCase):
    def test_silence_ends_at_the_deadline(self) -> None:
        client, _ = self.connected()
        began = time.monotonic()
        with self.assertRaises(DeadlineError) as caught:
            client.next("orders", timeout=0.2)
        self.assertTrue(caught.exception.temporary)
        self.assertTrue(0.2 <= time.monotonic() - began < 5)

    def test_a_byte_now_and_then_does_not_extend_it(self) -> None:
        client, peer = self.connected()
        call = self.background(client.next, "orders", timeout=0.3)
        for byte in ids(peer.request().id, *((2 * n, 1) for n in range(100))):
            if call.done():
                break
            peer.send(bytes([byte]))
            time.sleep(0.02)
        with self.assertRaises(DeadlineError):
            call.result(0)

    def test_a_daemon_that_never_says_hello_holds_no_call(self) -> None:
        client = self.client()
        for _ in range(2):
            call = self.background(client.next, "orders", timeout=0.2)
            self.daemon.accept().request()
            with self.assertRaises(UnavailableError):
                call.result(20)
        call = self.background(client.next, "orders")
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (3, 1)))
        self.assertEqual(call.result(20), 3)

    def test_a_late_answer_is_dropped(self) -> None:
        client, peer = self.connected()
        patient = self.background(client.next, "orders", timeout=20)
        first = peer.request()
        hasty = self.background(client.next, "orders", timeout=0.2)
        missed = peer.request()
        other = self.background(client.next, "orders", timeout=20)
        peer.send(ids(peer.request().id, (7, 1)))
        self.assertEqual(other.result(20), 7)
        with self.assertRaises(DeadlineError):
            hasty.result(20)
        peer.send(ids(missed.id, (666, 1)), ids(first.id, (8, 1)))
        self.assertEqual(patient.result(20), 8)
        call = self.background(client.next, "orders")
        request = peer.request()
        self.assertNotIn(request.id, (first.id, missed.id))
        peer.send(ids(request.id, (9, 1)))
        self.assertEqual(call.result(20), 9)
        self.assertEqual(self.daemon.connects, 1)

    def test_a_daemon_that_hangs_is_left(self) -> None:
        client, peer = self.connected()
        with self.assertRaises(DeadlineError):
            client.next("orders", timeout=0.1)
        missed = peer.request()
        self.assertTrue(peer.is_closed())
        self.assertGreater(missed.id, 0)

    def be_impatient(self, client: Client) -> None:
        with self.assertRaises((DeadlineError, UnavailableError)):
            client.next("orders", timeout=0.05)

    def test_impatient_calls_do_not_cost_a_patient_one_its_answer(self) -> None:
        client, peer = self.connected()
        began = time.monotonic()
        patient = self.background(client.next, "orders", timeout=20)
        request = peer.request()
        for _ in range(5):
            self.be_impatient(client)
        took = time.monotonic() - began
        if took >= 1.0:
            client.close()
            self.skipTest(f"after {took} s of silence, the connection is replaced rightly")
        time.sleep(max(0.5 - took, 0.0))
        peer.send(ids(request.id, (7, 1)))
        self.assertEqual(patient.result(20), 7)
        self.daemon.listener.settimeout(0)
        with self.assertRaises(BlockingIOError):
            self.daemon.accept()

    def test_a_daemon_that_hangs_is_left_although_others_wait(self) -> None:
        client, peer = self.connected(timeout=60)
        time.sleep(0.3)  # A daemon that was asked nothing is not silent.
        began = time.monotonic()
        patient = self.background(client.next, "orders")
        peer.request()
        accepted = self.background(self.daemon.accept)
        while not accepted.done():
            self.be_impatient(client)
        self.assertGreaterEqual(time.monotonic() - began, 1.0)
        with self.assertRaises((EOFError, ConnectionResetError)):
            while True:
                peer.request()
        peer = self.daemon.say_hello(accepted.result())
        peer.send(ids(peer.request().id, (8, 1)))
        self.assertEqual(patient.result(20), 8)

    def test_a_timeout_of_nothing_ends_at_once(self) -> None:
        with self.assertRaises(UnavailableError):
            self.client().next("orders", timeout=0)


class Reconnecting(ClientCase):
    def test_a_connection_that_ended_between_calls_fails_none(self) -> None:
        client = self.client(backoff_min=60, backoff_max=60)
        for number in range(4):
            call = self.background(client.next, "orders")
            peer = self.daemon.greet()
            peer.send(ids(peer.request().id, (number, 1)), *([GOODBYE] if number % 2 else []))
            self.assertEqual(call.result(20), number)
            peer.close()

    def test_a_call_whose_connection_ends_is_repeated(self) -> None:
        client, peer = self.connected()
        for cut in (0, 1, 5, 30):
            call = self.background(client.next_many, "orders", 2)
            peer.send(ids(peer.request().id, (666, 2))[:cut])
            peer.close()
            peer = self.daemon.greet()
            request = peer.request()
            self.assertEqual(request.count, 2)
            peer.send(ids(request.id, (cut, 2)))
            self.assertEqual(call.result(20)[0], cut)

    def test_after_goodbye_answers_count_and_the_rest_is_repeated(self) -> None:
        client, peer = self.connected()
        calls = [self.background(client.next, "orders") for _ in range(3)]
        requests = sorted([peer.request() for _ in calls])
        peer.send(GOODBYE, ids(requests[1].id, (11, 1)), error(requests[2].id, 309))
        peer.close()
        peer = self.daemon.greet()
        for value in (20, 21):
            peer.send(ids(peer.request().id, (value, 1)))
        self.assertEqual(sorted(call.result(20) for call in calls), [11, 20, 21])
        self.assertEqual(self.daemon.connects, 2)

    def test_a_goodbye_without_an_end_is_left_soon(self) -> None:
        client, peer = self.connected()
        call = self.background(client.next, "orders")
        peer.request()
        peer.send(GOODBYE)
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (2, 1)))
        self.assertEqual(call.result(20), 2)

    def test_an_error_about_the_connection(self) -> None:
        for number, repeats in (
            (206, False),
            (103, False),
            (999, False),
            (306, False),
            (300, True),
            (399, True),
        ):
            with self.subTest(number=number):
                client, peer = self.connected()
                call = self.background(client.next, "orders")
                peer.request()
                peer.send(error(0, number))
                if repeats:
                    again = self.daemon.greet()
                    again.send(ids(again.request().id, (2, 1)))
                    self.assertEqual(call.result(20), 2)
                else:
                    with self.assertRaises(RefusedError) as caught:
                        call.result(20)
                    self.assertEqual(caught.exception.number, number)
                self.assertTrue(peer.is_closed())
                client.close()

    def test_an_error_that_waits_to_be_read_says_more_than_a_failed_write(self) -> None:
        for _ in range(10):
            client, peer = self.connected()
            peer.send(error(0, 206))
            peer.close()
            with self.assertRaises(RefusedError) as caught:
                client.next("orders")
            self.assertEqual(caught.exception.number, 206)
            client.close()

    def test_connections_that_always_end_are_made_with_pauses(self) -> None:
        call = self.background(self.client(timeout=3.0).next, "orders")
        self.daemon.listener.settimeout(0.05)
        while not call.done():
            # Nobody comes for a moment, or the client leaves at its deadline.
            with contextlib.suppress(OSError):
                self.daemon.greet().close()
        with self.assertRaises(UnavailableError):
            call.result(20)
        self.assertTrue(3 <= self.daemon.connects <= 40, self.daemon.connects)


class ManyThreads(ClientCase):
    def calls(self, client: Client, count: int) -> list[Any]:
        return [self.background(client.next_many, "orders", number + 1) for number in range(count)]

    def answer(self, request: Request) -> bytes:
        return ids(request.id, (1000 * request.count, request.count))

    def check(self, calls: list[Any]) -> None:
        for number, call in enumerate(calls, 1):
            self.assertEqual(call.result(20).runs, (range(1000 * number, 1001 * number),))

    def test_answers_in_any_order_reach_their_callers(self) -> None:
        client, peer = self.connected()
        for _ in range(5):
            calls = self.calls(client, 30)
            requests = [peer.request() for _ in calls]
            random.shuffle(requests)
            data = b"".join(map(self.answer, requests))
            peer.send(data[:-10])
            time.sleep(0.01)
            peer.send(data[-10:])
            self.check(calls)
        self.assertEqual(self.daemon.connects, 1)

    def test_above_max_in_flight_calls_wait_in_the_client(self) -> None:
        self.daemon.max_in_flight = 4
        client, peer = self.connected()
        calls = self.calls(client, 30)
        waiting = [peer.request() for _ in range(4)]
        peer.sock.settimeout(0.1)
        with self.assertRaises(socket.timeout):
            peer.request()
        peer.sock.settimeout(20)
        for _ in range(26):
            peer.send(self.answer(waiting.pop(random.randrange(4))))
            waiting.append(peer.request())
        peer.send(*map(self.answer, waiting))
        self.check(calls)

    def test_abandoned_requests_count_against_max_in_flight(self) -> None:
        self.daemon.max_in_flight = 2
        client, peer = self.connected()
        hasty = self.background(client.next, "orders", timeout=0.2)
        missed = peer.request()
        other = self.background(client.next, "orders")
        peer.send(ids(peer.request().id, (2, 1)))
        self.assertEqual(other.result(20), 2)
        with self.assertRaises(DeadlineError):
            hasty.result(20)
        calls = self.calls(client, 2)
        first = peer.request()
        peer.sock.settimeout(0.1)
        with self.assertRaises(socket.timeout):
            peer.request()
        peer.sock.settimeout(20)
        peer.send(ids(missed.id, (666, 1)))
        peer.send(self.answer(first), self.answer(peer.request()))
        self.check(calls)

    def test_a_protocol_error_fails_the_calls_in_flight(self) -> None:
        client, peer = self.connected()
        calls = self.calls(client, 8)
        for _ in calls:
            peer.request()
        peer.send(ids(2**64 - 1, (1, 1)))
        for call in calls:
            with self.assertRaises(ProtocolError):
                call.result(20)

    def test_calls_of_a_lost_connection_are_repeated_unless_answered(self) -> None:
        client, peer = self.connected()
        calls = self.calls(client, 20)
        requests = [peer.request() for _ in calls]
        peer.send(*(self.answer(request) for request in requests if request.count % 2))
        peer.close()
        peer = self.daemon.greet()
        for _ in range(10):
            request = peer.request()
            self.assertEqual(request.count % 2, 0)
            peer.send(self.answer(request))
        self.check(calls)

    def test_a_caller_with_a_short_deadline_does_not_take_the_others_with_it(self) -> None:
        client, peer = self.connected()
        # The first caller reads for all.
        hasty = self.background(client.next, "orders", timeout=0.3)
        peer.request()
        patient = self.calls(client, 3)
        requests = [peer.request() for _ in patient]
        peer.send(self.answer(requests.pop()))
        with self.assertRaises(DeadlineError):
            hasty.result(20)
        peer.send(*map(self.answer, requests))
        self.check(patient)
        self.assertEqual(self.daemon.connects, 1)

    def test_more_requests_than_the_socket_takes_are_sent_in_the_end(self) -> None:
        client, peer = self.connected()
        tag = "\U00010348" * 128
        calls = [self.background(client.next, tag) for _ in range(700)]
        time.sleep(0.3)
        for number in range(700):
            peer.send(ids(peer.request().id, (number, 1)))
        self.assertEqual(sorted(call.result(20) for call in calls), list(range(700)))
        self.assertEqual(self.daemon.connects, 1)

    def test_calls_that_find_the_lock_held_are_all_made(self) -> None:
        client, peer = self.connected()
        with client._links.get()._lock:
            calls = self.calls(client, 50)
            time.sleep(0.05)
        requests = [peer.request() for _ in calls]
        peer.send(*map(self.answer, requests))
        self.check(calls)
        self.assertEqual(self.daemon.connects, 1)

    def test_a_close_ends_the_calls_of_all_threads(self) -> None:
        client, peer = self.connected()
        calls = self.calls(client, 5)
        for _ in calls:
            peer.request()
        client.close()
        for call in calls:
            with self.assertRaises(ClosedError):
                call.result(20)
        self.assertTrue(peer.is_closed())
        with self.assertRaises(ClosedError):
            client.next("orders")


class Uses(ClientCase):
    def test_an_iterator_gets_a_batch_at_a_time_and_threads_may_share_it(self) -> None:
        Server(self.daemon)
        client = self.client()
        numbers = client.ids("orders", batch=10)
        self.assertEqual([next(numbers) for _ in range(25)], list(range(1, 26)))
        found: list[int] = []

        def take() -> None:
            found.extend(next(numbers) for _ in range(500))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(found)), 2000)

    def test_a_client_is_pickled_as_its_options(self) -> None:
        Server(self.daemon)
        client = self.client(timeout=7.0)
        client.next("orders")
        with pickle.loads(pickle.dumps(client)) as again:
            self.assertEqual((again.path, again._options), (client.path, client._options))
            again.next("orders")
        with self.assertRaises(ClosedError):
            again.next("orders")
        client.next("orders")

    def test_a_dropped_client_closes_its_connection(self) -> None:
        client = Client(self.path)
        call = threading.Thread(target=client.next, args=("orders",))
        call.start()
        peer = self.daemon.greet()
        peer.send(ids(peer.request().id, (1, 1)))
        call.join()
        del call, client
        gc.collect()
        self.assertTrue(peer.is_closed())

    def test_an_exception_from_a_signal_handler_loses_no_other_call(self) -> None:
        class Interrupt(Exception):
            pass

        def strike(*_: object) -> None:
            raise Interrupt

        Server(self.daemon)
        client = self.client()
        found: list[int] = []
        problems: list[BaseException] = []
        stop = threading.Event()

        def take() -> None:
            while not stop.is_set():
                try:
                    found.append(client.next("orders"))
                except BaseException as problem:
                    problems.append(problem)

        others = [threading.Thread(target=take) for _ in range(2)]
        for thread in others:
            thread.start()
        old = signal.signal(signal.SIGALRM, strike)
        interrupts = 0
        try:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.002))
                    while True:
                        found.append(client.next("orders"))
                except Interrupt:
                    interrupts += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            stop.set()
            for thread in others:
                thread.join()
        found.extend(client.next("orders") for _ in range(10))
        self.assertGreater(interrupts, 50)
        self.assertEqual(problems, [])
        self.assertEqual(len(found), len(set(found)))


if __name__ == "__main__":
    unittest.main()
