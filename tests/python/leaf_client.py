"""A client of leafd in plain Python, written from docs/protocol.md alone.

`Connection` is one connection with many requests in flight. `Client` reconnects, retries what may be
retried, and splits counts above the limit of one request. Neither is thread-safe.
"""

from __future__ import annotations

import os
import random
import select
import socket
import stat
import time
from collections.abc import Iterable
from dataclasses import replace

from leaf_wire import (
    HEADER,
    MAX_REQUEST,
    MAX_RESPONSE,
    VERSION,
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
    Segment,
    Snowflake,
    decode,
    encode,
)

GRACE = 1.0
"""Seconds that the client waits beyond the daemon's deadline, so that the typed error arrives first."""


class LeafError(Exception):
    """The reply `Error`. `code` is an `ErrorCode`, or a plain number if this client does not know it."""

    def __init__(self, reply: ErrorReply) -> None:
        self.code: int = ErrorCode(reply.code) if reply.code in list(ErrorCode) else reply.code
        self.retry_after_ms, self.detail, self.message = reply.retry_after_ms, reply.detail, reply.message
        super().__init__(f"{getattr(self.code, 'name', 'error')} ({reply.code}): {reply.message}")

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed soon: class 3xx, except errors that need an operator."""
        return self.code // 100 == 3 and self.code not in (ErrorCode.TIME_EXHAUSTED, ErrorCode.BAD_ROW)

    @property
    def wait(self) -> float:
        """Seconds to wait before the next try; 0 if the daemon does not say."""
        behind_ms = self.detail if self.code == ErrorCode.CLOCK_BACKWARDS else 0
        return max(self.retry_after_ms, behind_ms) / 1000


class ConnectionEnded(ConnectionError):
    """The stream ended before the answer; the request may be repeated on a new connection."""


def socket_path() -> str:
    """Where the daemon listens, by the first rule that applies."""
    if path := os.environ.get("LEAFD_SOCKET"):
        return path
    uid, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR")
    if uid != 0 and runtime and os.path.isdir(f"{runtime}/leafd"):
        return f"{runtime}/leafd/leafd.sock"
    shared = f"/tmp/leafd-{uid}"
    try:
        found = os.lstat(shared)
    except OSError:
        return "/run/leafd/leafd.sock"
    if uid != 0 and stat.S_ISDIR(found.st_mode) and found.st_uid == uid and found.st_mode & 0o022 == 0:
        return f"{shared}/leafd.sock"
    return "/run/leafd/leafd.sock"


class Connection:
    """A connection after the handshake. `send` requests, then `wait` for their answers in any order."""

    def __init__(self, path: str, deadline: float) -> None:
        """Connect and complete the handshake. Deadlines are instants of `time.monotonic`."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received, self._unsent = bytearray(), bytearray()
        self._in_flight: set[int] = set()
        self._given_up: set[int] = set()
        self._answers: dict[int, Reply] = {}
        self._last_id = 0
        self._end: Exception | None = None
        self.draining = False
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.connect(path)
            self._socket.setblocking(False)
            self.hello = HelloReply(VERSION, max_count=0, max_in_flight=1)
            answer = self.call(Hello(), deadline)
            if not isinstance(answer, HelloReply) or answer.version != VERSION:
                raise ProtocolError(f"{answer} in answer to Hello")
            self.hello = answer
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether more requests may be sent."""
        return self._end is None and not self.draining

    def send(self, call: Call, deadline: float) -> int:
        """Queue a request and return its ID; `wait` writes it. Blocks while too many are in flight."""
        while self.usable and len(self._in_flight) >= self.hello.max_in_flight:
            self._exchange(deadline)
        if not self.usable:
            raise self._end or ConnectionEnded("the daemon is stopping")
        frame = encode(Request(self._last_id + 1, call))
        if len(frame) > HEADER.size + MAX_REQUEST:
            raise ValueError(f"a request has at most {MAX_REQUEST} bytes")
        self._last_id += 1
        self._in_flight.add(self._last_id)
        self._unsent += frame
        return self._last_id

    def wait(self, request: int, deadline: float) -> Reply:
        """The answer to a request. Raises a `LeafError` answer, or the error that ended the connection."""
        try:
            while request not in self._answers:
                if self._end is not None:
                    raise self._end
                self._exchange(deadline)
        except TimeoutError:
            self._given_up.add(request)
            raise
        reply = self._answers.pop(request)
        if isinstance(reply, ErrorReply):
            raise LeafError(reply)
        return reply

    def call(self, call: Call, deadline: float) -> Reply:
        """Make one call and return its answer. Raises like `wait`."""
        return self.wait(self.send(call, deadline), deadline)

    def pipeline(self, calls: Iterable[Call], timeout: float = 5.0) -> list[Reply | LeafError]:
        """The answers to many calls, in the order of the calls."""
        deadline = time.monotonic() + timeout
        answers: list[Reply | LeafError] = []
        for request in [self.send(call, deadline) for call in calls]:
            try:
                answers.append(self.wait(request, deadline))
            except LeafError as error:
                if self._end is error:
                    raise
                answers.append(error)
        return answers

    def close(self) -> None:
        """Close the connection."""
        self._end = self._end or ConnectionEnded("closed")
        self._socket.close()

    def _exchange(self, deadline: float) -> None:
        """Wait until the socket is readable or writable, and read or write. Raises `TimeoutError`."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer before the deadline")
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        events = dict(poll.poll(left * 1000)).get(self._socket.fileno(), 0)
        try:
            if events & ~select.POLLOUT:
                self._read()
            elif events:
                self._write()
        except (LeafError, ProtocolError, OSError) as error:
            self._end = error
            self.close()

    def _write(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except ConnectionError:
            self._unsent.clear()  # The daemon has closed the connection, but its earlier answers can still be read.

    def _read(self) -> None:
        chunk = self._socket.recv(65_536)
        self._received += chunk
        while len(self._received) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self._received)[0]
            if end > HEADER.size + MAX_RESPONSE:
                raise ProtocolError(f"a response of {end - HEADER.size} bytes")
            if len(self._received) < end:
                break
            body = bytes(self._received[HEADER.size : end])
            del self._received[:end]
            self._dispatch(decode(Response, body))
        if not chunk:
            raise ConnectionEnded("the stream ended")

    def _dispatch(self, response: Response) -> None:
        match response:
            case Response(id=0, reply=Goodbye()):
                self.draining = True
                self._unsent.clear()
            case Response(id=0, reply=ErrorReply() as reply):
                raise LeafError(reply)
            case Response(id=request, reply=reply) if request in self._in_flight:
                self._in_flight.remove(request)
                if request in self._given_up:
                    self._given_up.remove(request)
                else:
                    self._answers[request] = reply
            case _:
                raise ProtocolError(f"an answer without a request: {response}")


class Client:
    """Calls with a timeout in seconds. Reconnects when the connection has ended."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or socket_path()
        self._connection: Connection | None = None
        self._process = os.getpid()

    def segment(self, tag: str, count: int = 1, timeout: float = 5.0) -> list[int]:
        """IDs of a tag. A count above the daemon's limit takes several requests."""
        return self._ids(Segment(tag), count, timeout)

    def snowflake(self, count: int = 1, timeout: float = 5.0) -> list[int]:
        """Snowflake IDs. A count above the daemon's limit takes several requests."""
        return self._ids(Snowflake(), count, timeout)

    def call(self, call: Call, timeout: float = 5.0) -> Reply:
        """Make one call, and retry it while that may help. A retried `TagCreate` may find its own tag.

        A count above the limit of one request is reduced to it. Raises `LeafError`, `ProtocolError` or
        `OSError`, which is a `TimeoutError` if there is no answer at all.
        """
        deadline, pause = time.monotonic() + timeout, 0.05
        while True:
            try:
                return self._attempt(call, deadline)
            except (LeafError, ConnectionError, FileNotFoundError, BlockingIOError) as error:
                retry_after = error.wait if isinstance(error, LeafError) else 0.0
                wait = retry_after or pause * random.uniform(0.5, 1.0)
                hopeless = isinstance(error, LeafError) and not error.transient
                if hopeless or time.monotonic() + wait >= deadline:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, 2.0)

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        if self._connection is not None:
            self._connection.close()

    def _attempt(self, call: Call, deadline: float) -> Reply:
        connection = self._connected(deadline)
        if not isinstance(call, Segment | Snowflake):
            return connection.call(call, deadline + GRACE)
        left_ms = max(int((deadline - time.monotonic()) * 1000), 1)
        count = min(call.count, connection.hello.max_count)
        call = replace(call, count=count, timeout_ms=min(left_ms, 2**32 - 1))
        reply = connection.call(call, deadline + GRACE)
        if not isinstance(reply, Ids) or reply.count != count:
            raise ProtocolError(f"{count} IDs asked for, the answer is {reply}")
        return reply

    def _connected(self, deadline: float) -> Connection:
        """The connection to use. A forked child opens its own."""
        if self._connection is None or not self._connection.usable or self._process != os.getpid():
            self.close()
            self._connection = Connection(self._path, deadline + GRACE)
            self._process = os.getpid()
        return self._connection

    def _ids(self, call: Segment | Snowflake, count: int, timeout: float) -> list[int]:
        deadline, ids = time.monotonic() + timeout, list[int]()
        while len(ids) < count:
            reply = self.call(replace(call, count=count - len(ids)), deadline - time.monotonic())
            ids += reply.ids() if isinstance(reply, Ids) else []
        return ids
