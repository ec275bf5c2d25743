"""The client against a scripted daemon: answers out of order, stops, silence, and peers that are no leafd."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from unittest import mock

from leaf_client import Client, Connection, ConnectionEnded, LeafError, socket_path
from leaf_wire import (
    HEADER,
    MAX_RESPONSE,
    Call,
    ErrorCode,
    ErrorReply,
    Goodbye,
    Hello,
    HelloReply,
    Ids,
    ProtocolError,
    Reply,
    Request,
    Response,
    Run,
    Segment,
    TagShow,
    Time,
    TimeReply,
    encode,
)
from peer import PATIENCE, Peer

HELLO = HelloReply(version=1, max_count=100, max_in_flight=4)
Script = Callable[[Peer], None]


def asked(peer: Peer, call: Call | None = None) -> int:
    """The ID of the next request, which has to be `call` if that is given."""
    request = peer.receive(Request)
    if call not in (None, request.call):
        raise AssertionError(f"{request} instead of {call}")
    return request.id


def answer(peer: Peer, request: int, reply: Reply) -> None:
    peer.send(encode(Response(request, reply)))


def answers(reply: Reply) -> Script:
    """A script that answers one request."""
    return lambda peer: answer(peer, asked(peer), reply)


def error(code: int, retry_after_ms: int = 0, detail: int = 0) -> ErrorReply:
    return ErrorReply(code, retry_after_ms, detail, "no")


class ScriptedDaemon(unittest.TestCase):
    """Each script handles one connection, in order. An exception in a script fails the test."""

    def play(self, *scripts: Script, hello: Reply = HELLO) -> str:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = f"{folder}/leafd.sock"
        listener = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(path)
        listener.listen()
        listener.settimeout(PATIENCE)
        failures: list[Exception] = []

        def serve() -> None:
            try:
                for script in scripts:
                    with Peer(listener.accept()[0]) as peer:
                        answer(peer, asked(peer, Hello()), hello)
                        script(peer)
            except Exception as failure:
                failures.append(failure)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()

        def finish() -> None:
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive(), "the scripted daemon still waits")
            self.assertEqual(failures, [])

        self.addCleanup(finish)
        return path

    def connect(self, *scripts: Script) -> Connection:
        connection = Connection(self.play(*scripts), self.deadline())
        self.addCleanup(connection.close)
        return connection

    def client(self, *scripts: Script) -> Client:
        client = Client(self.play(*scripts))
        self.addCleanup(client.close)
        return client

    @staticmethod
    def deadline(seconds: float = PATIENCE) -> float:
        return time.monotonic() + seconds


class ConnectionTest(ScriptedDaemon):
    def test_answers_in_any_order_reach_their_requests(self) -> None:
        def script(peer: Peer) -> None:
            requests = [asked(peer) for _ in range(3)]
            for request in (requests[1], requests[2], requests[0]):
                answer(peer, request, TimeReply(request))

        connection = self.connect(script)
        replies = connection.pipeline([Time()] * 3, PATIENCE)
        self.assertEqual(replies, [TimeReply(2), TimeReply(3), TimeReply(4)])

    def test_the_client_keeps_to_the_limit_of_requests_in_flight(self) -> None:
        def script(peer: Peer) -> None:
            waiting: list[int] = []
            for _ in range(12):
                waiting.append(asked(peer))
                if len(waiting) == HELLO.max_in_flight:
                    self.assertFalse(peer.has_more())
                    answer(peer, waiting.pop(0), TimeReply(1))
            for request in waiting:
                answer(peer, request, TimeReply(1))

        self.assertEqual(self.connect(script).pipeline([Time()] * 12, PATIENCE), [TimeReply(1)] * 12)

    def test_an_error_of_one_request_does_not_affect_the_others(self) -> None:
        def script(peer: Peer) -> None:
            answer(peer, asked(peer), TimeReply(1))
            answer(peer, asked(peer), error(202))
            answer(peer, asked(peer), TimeReply(3))

        first, second, third = self.connect(script).pipeline([Time(), TagShow("a"), Time()], PATIENCE)
        self.assertEqual((first, third), (TimeReply(1), TimeReply(3)))
        self.assertIs(getattr(second, "code", None), ErrorCode.UNKNOWN_TAG)

    def test_a_late_answer_is_dropped_and_its_id_is_not_reused(self) -> None:
        def script(peer: Peer) -> None:
            late, then = asked(peer), asked(peer)
            self.assertNotEqual(late, then)
            answer(peer, late, TimeReply(1))
            answer(peer, then, TimeReply(2))

        connection = self.connect(script)
        with self.assertRaises(TimeoutError):
            connection.call(Time(), self.deadline(0.05))
        self.assertEqual(connection.call(Time(), self.deadline()), TimeReply(2))

    def test_after_goodbye_answers_still_arrive_and_no_more_requests_are_sent(self) -> None:
        def script(peer: Peer) -> None:
            request = asked(peer)
            answer(peer, 0, Goodbye())
            answer(peer, request, TimeReply(1))
            self.assertTrue(peer.ended())

        connection = self.connect(script)
        self.assertEqual(connection.call(Time(), self.deadline()), TimeReply(1))
        with self.assertRaises(ConnectionEnded):
            connection.call(Time(), self.deadline())
        connection.close()

    def test_an_error_with_id_0_ends_the_connection_and_fails_what_is_in_flight(self) -> None:
        def script(peer: Peer) -> None:
            asked(peer)
            answer(peer, 0, error(103))
            self.assertTrue(peer.ended())

        connection = self.connect(script)
        for _ in range(2):
            with self.assertRaises(LeafError) as caught:
                connection.call(Time(), self.deadline())
            self.assertIs(caught.exception.code, ErrorCode.MALFORMED)
        self.assertFalse(connection.usable)

    def test_the_client_disconnects_from_a_peer_that_is_not_a_leafd(self) -> None:
        whole = encode(Response(2, TimeReply(1)))
        cases = {
            "an ID never sent": encode(Response(99, TimeReply(1))),
            "an answer twice": whole.replace(b"\2", b"\1", 1),
            "an unknown reply": whole.replace(b"\3", b"\x08", 1),
            "a byte left over": HEADER.pack(len(whole) - 3) + whole[4:] + b"\0",
            "a body cut short": HEADER.pack(len(whole) - 5) + whole[4:-1],
            "a response that is too long": HEADER.pack(MAX_RESPONSE + 1),
            "an answer with ID 0": encode(Response(0, TimeReply(1))),
        }

        def sends(data: bytes) -> Script:
            def script(peer: Peer) -> None:
                asked(peer)
                peer.send(data)
                self.assertTrue(peer.ended())

            return script

        for name, data in cases.items():
            with self.subTest(name), self.assertRaises(ProtocolError):
                self.connect(sends(data)).call(Time(), self.deadline())

    def test_the_longest_response_is_read_in_small_pieces(self) -> None:
        whole = encode(Response(2, ErrorReply(202, 0, 0, "x" * (MAX_RESPONSE - 34))))
        self.assertEqual(len(whole), HEADER.size + MAX_RESPONSE)

        def script(peer: Peer) -> None:
            asked(peer)
            for at in range(0, len(whole), 1_000):
                peer.send(whole[at : at + 1_000])

        with self.assertRaises(LeafError):
            self.connect(script).call(Time(), self.deadline())

    def test_an_answer_to_hello_in_another_version_is_refused(self) -> None:
        path = self.play(lambda peer: None, hello=HelloReply(2, 100, 4))
        with self.assertRaises(ProtocolError):
            Connection(path, self.deadline())

    def test_an_error_instead_of_the_answer_to_hello_is_raised(self) -> None:
        path = self.play(lambda peer: None, hello=error(101, detail=7))
        with self.assertRaises(LeafError) as caught:
            Connection(path, self.deadline())
        self.assertEqual((caught.exception.code, caught.exception.detail), (ErrorCode.VERSION_UNSUPPORTED, 7))


class ClientTest(ScriptedDaemon):
    def test_a_call_without_an_answer_is_repeated_on_a_new_connection(self) -> None:
        def goodbye(peer: Peer) -> None:
            asked(peer)
            answer(peer, 0, Goodbye())

        def crash(peer: Peer) -> None:
            asked(peer)

        def full(peer: Peer) -> None:
            answer(peer, 0, error(300))

        def stopping(peer: Peer) -> None:
            answer(peer, asked(peer), error(309))
            answer(peer, 0, Goodbye())

        for script in (goodbye, crash, full, stopping):
            with self.subTest(script.__name__):
                self.assertEqual(
                    self.client(script, answers(TimeReply(7))).call(Time(), PATIENCE), TimeReply(7)
                )

    def test_temporary_errors_of_class_3_are_retried_and_others_are_raised(self) -> None:
        def recovers(peer: Peer) -> None:
            answer(peer, asked(peer), error(302, retry_after_ms=1))
            answer(peer, asked(peer), error(304, detail=1))
            answer(peer, asked(peer), error(399))
            answer(peer, asked(peer), TimeReply(1))

        self.assertEqual(self.client(recovers).call(Time(), PATIENCE), TimeReply(1))
        for code in (104, 199, 202, 299, 306, 307, 400, 999):
            with self.subTest(code=code), self.assertRaises(LeafError) as caught:
                self.client(answers(error(code))).call(Time(), PATIENCE)
            self.assertEqual(caught.exception.code, code)

    def test_the_last_error_is_raised_at_the_deadline(self) -> None:
        def script(peer: Peer) -> None:
            with contextlib.suppress(EOFError):
                while True:
                    answer(peer, asked(peer), error(302, retry_after_ms=20))

        client = self.client(script)
        with self.assertRaises(LeafError) as caught:
            client.call(Time(), 0.1)
        self.assertIs(caught.exception.code, ErrorCode.STORE_UNAVAILABLE)
        client.close()

    def test_the_client_retries_until_the_daemon_is_there(self) -> None:
        path = self.play(answers(TimeReply(1)))
        os.rename(path, path + ".later")
        timer = threading.Timer(0.1, os.rename, (path + ".later", path))
        timer.start()
        client = Client(path)
        self.assertEqual(client.call(Time(), PATIENCE), TimeReply(1))
        timer.join()
        client.close()

    def test_the_daemon_gets_a_shorter_deadline_than_the_client_waits(self) -> None:
        def script(peer: Peer) -> None:
            request = peer.receive(Request)
            match request.call:
                case Segment(tag="a", count=1, timeout_ms=timeout_ms):
                    self.assertTrue(0 < timeout_ms <= 5_000)
                case other:
                    self.fail(f"{other} instead of a Segment")
            answer(peer, request.id, Ids(Run(1, 1)))

        self.assertEqual(self.client(script).segment("a", timeout=5.0), [1])

    def test_a_count_is_split_by_the_limit_and_all_runs_are_returned(self) -> None:
        def script(peer: Peer) -> None:
            for count, ids in ((100, Ids(Run(1, 60), (Run(101, 40),))), (50, Ids(Run(141, 50)))):
                request = peer.receive(Request)
                self.assertEqual(getattr(request.call, "count", None), count)
                answer(peer, request.id, ids)

        found = self.client(script).segment("a", 150)
        self.assertEqual(found, [*range(1, 61), *range(101, 191)])

    def test_an_answer_with_another_count_is_refused(self) -> None:
        for run in (Run(1, 1), Run(1, 2**32 - 1)):
            with self.subTest(run=run), self.assertRaises(ProtocolError):
                self.client(answers(Ids(run))).segment("a", 2)


class SocketPathTest(unittest.TestCase):
    def path(self, uid: int, environment: dict[str, str], info: os.stat_result | None = None) -> str:
        found = mock.Mock(side_effect=FileNotFoundError) if info is None else mock.Mock(return_value=info)
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch("os.geteuid", return_value=uid),
            mock.patch("os.lstat", found),
        ):
            return socket_path()

    def test_the_first_rule_that_applies_decides(self) -> None:
        def directory(mode: int, uid: int) -> os.stat_result:
            return os.stat_result((mode, 0, 0, 2, uid, uid, 0, 0, 0, 0))

        runtime = self.enterContext(tempfile.TemporaryDirectory())
        own = {"XDG_RUNTIME_DIR": runtime}
        fallback = "/run/leafd/leafd.sock"
        self.assertEqual(self.path(1_000, {"LEAFD_SOCKET": "/x"}), "/x")
        self.assertEqual(self.path(1_000, {"LEAFD_SOCKET": "", **own}), fallback)
        os.mkdir(f"{runtime}/leafd")
        self.assertEqual(self.path(1_000, own), f"{runtime}/leafd/leafd.sock")
        self.assertEqual(self.path(0, own), fallback)
        cases = {
            (0o040700, 1_000): "/tmp/leafd-1000/leafd.sock",
            (0o040755, 1_000): "/tmp/leafd-1000/leafd.sock",
            (0o040770, 1_000): fallback,
            (0o040702, 1_000): fallback,
            (0o040700, 1_001): fallback,
            (0o120700, 1_000): fallback,
        }
        for (mode, owner), expected in cases.items():
            with self.subTest(mode=oct(mode), owner=owner):
                self.assertEqual(self.path(1_000, {}, directory(mode, owner)), expected)
        self.assertEqual(self.path(0, {}, directory(0o040700, 0)), fallback)
