"""A bare socket for tests, which can send any bytes and reads frame by frame."""

from __future__ import annotations

import select
import socket
from typing import TypeVar

from leaf_wire import HEADER, Call, Hello, Reply, Request, Response, decode, encode

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds after which a test without an answer fails instead of hanging."""


class Peer:
    """One end of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._stream.settimeout(PATIENCE)

    @classmethod
    def connect(cls, path: str) -> Peer:
        """Connect as a client, without a handshake."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(PATIENCE)
            stream.connect(path)
        except OSError:
            stream.close()
            raise
        return cls(stream)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._stream.sendall(data)

    def send_body(self, body: bytes) -> None:
        """Send bytes as the body of a frame."""
        self.send(HEADER.pack(len(body)) + body)

    def receive(self, kind: type[T]) -> T:
        """The next message. Raises `EOFError` when the stream ends first."""
        return decode(kind, self._exactly(HEADER.unpack(self._exactly(HEADER.size))[0]))

    def response(self) -> Response:
        """The next response. Raises `EOFError` when the stream ends first."""
        return self.receive(Response)

    def ended(self) -> bool:
        """Whether the stream ends here, without another byte."""
        try:
            self._exactly(1)
        except EOFError:
            return True
        return False

    def has_more(self) -> bool:
        """Whether there is something to read within 20 ms."""
        return bool(select.select([self._stream], [], [], 0.02)[0])

    def ask(self, call: Call, request: int = 7) -> Reply:
        """Make one call and return its answer. Nothing else may be in flight."""
        self.send(encode(Request(request, call)))
        response = self.response()
        if response.id != request:
            raise AssertionError(f"{response} in answer to request {request}, {call}")
        return response.reply

    def greet(self) -> Reply:
        """Send a `Hello` and return the answer."""
        return self.ask(Hello(), 1)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._stream.recv(size - len(data))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise EOFError(f"the stream ended {size - len(data)} bytes too early")
            data += chunk
        return bytes(data)
