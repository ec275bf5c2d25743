"""A scripted leafd for tests: the test accepts, reads and answers as it likes, in its own thread."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
import threading
import unittest
from concurrent.futures import Future
from typing import Any, Callable, NamedTuple

from leafd_client import Client


class Request(NamedTuple):
    id: int
    call: int
    fields: bytes

    @property
    def count(self) -> int:
        return struct.unpack("<II", self.fields[-8:])[0]

    @property
    def timeout_ms(self) -> int:
        return struct.unpack("<II", self.fields[-8:])[1]


def frame(request_id: int, reply: int, fields: bytes = b"") -> bytes:
    body = struct.pack("<QI", request_id, reply) + fields
    return struct.pack(">I", len(body)) + body


def error(request_id: int, code: int, retry_after_ms: int = 0, detail: int = 0, text: str = "no") -> bytes:
    fields = struct.pack("<HIQQ", code, retry_after_ms, detail, len(text)) + text.encode()
    return frame(request_id, 0, fields)


def hello(request_id: int, version: int = 1, max_count: int = 100_000, max_in_flight: int = 1024) -> bytes:
    return frame(request_id, 1, struct.pack("<HII", version, max_count, max_in_flight))


def ids(request_id: int, *runs: tuple[int, int]) -> bytes:
    (first, count), *more = runs
    fields = struct.pack("<QIQ", first, count, len(more))
    return frame(request_id, 2, fields + b"".join(struct.pack("<QI", *run) for run in more))


GOODBYE = frame(0, 6)


class Peer:
    """A connection, seen from the daemon."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(20)

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def request(self) -> Request:
        """Read one request."""
        (length,) = struct.unpack(">I", self.read(4))
        body = self.read(length)
        request_id, call = struct.unpack("<QI", body[:12])
        return Request(request_id, call, body[12:])

    def send(self, *frames: bytes) -> None:
        self.sock.sendall(b"".join(frames))

    def is_closed(self) -> bool:
        """Wait until the client closes the connection, or sends something."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.sock.close()


class FakeDaemon:
    """The listener."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.max_count = 100_000
        self.max_in_flight = 1024
        self.connects = 0
        self.peers: list[Peer] = []
        self.listen()

    def listen(self, backlog: int = 128) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(backlog)
        self.listener.settimeout(20)

    def accept(self) -> Peer:
        sock, _ = self.listener.accept()
        self.connects += 1
        self.peers.append(Peer(sock))
        return self.peers[-1]

    def greet(self) -> Peer:
        """Accept a connection and answer its hello."""
        return self.say_hello(self.accept())

    def say_hello(self, peer: Peer) -> Peer:
        request = peer.request()
        assert request.call == 0 and request.fields == b"LEAF\1\0", request
        peer.send(hello(request.id, 1, self.max_count, self.max_in_flight))
        return peer

    def close(self) -> None:
        self.listener.close()
        for peer in self.peers:
            peer.close()


class FakeCase(unittest.TestCase):
    """A test with a fake daemon in a folder of its own."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="leafd-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.path = os.path.join(self.folder, "socket")
        self.daemon = FakeDaemon(self.path)
        self.addCleanup(lambda: self.daemon.close())

    def client(self, **options: Any) -> Client:
        client = Client(self.path, **options)
        self.addCleanup(client.close)
        return client

    def background(self, work: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Run a call in a thread."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work(*args, **options))
            except BaseException as problem:
                future.set_exception(problem)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, 30)
        return future


class Server(threading.Thread):
    """Answers every request of every connection with the next IDs, until it is stopped."""

    def __init__(self, daemon: FakeDaemon, first: int = 1) -> None:
        super().__init__(daemon=True)
        self._daemon_side = daemon
        self._lock = threading.Lock()
        self._next = first
        self.start()

    def run(self) -> None:
        while True:
            try:
                peer = self._daemon_side.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        try:
            self._daemon_side.say_hello(peer)
            while True:
                request = peer.request()
                with self._lock:
                    first = self._next
                    self._next += request.count
                peer.send(ids(request.id, (first, request.count)))
        except (OSError, EOFError):
            peer.close()
