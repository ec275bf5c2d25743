"""The bytes of the protocol: requests are encoded and responses decoded. No socket, no clock.

Section numbers refer to docs/protocol.md of leafd.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional, Union

from ._errors import ProtocolError, RefusedError

VERSION = 1
MAGIC = b"LEAF"

MAX_RESPONSE_LEN = 262_144
MAX_ID = 2**63 - 1
MAX_U32 = 2**32 - 1

# Numbers of calls (section 7).
HELLO, SEGMENT, SNOWFLAKE, TIME, STATUS = range(5)
CALL_NAMES = ("Hello", "Segment", "Snowflake", "Time", "Status")

# Numbers of replies (section 8). Calls of this package are not answered with 5 and 7.
_ERROR, _HELLO, _IDS, _TIME, _STATUS, _TAGS, _GOODBYE, _WORKERS = range(8)

_HEADER = struct.Struct(">I")
_MESSAGE = struct.Struct("<QI")
_HELLO_CALL = struct.Struct("<4sH")
_COUNT_TIMEOUT = struct.Struct("<II")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_RUN = struct.Struct("<QI")
_HELLO_REPLY = struct.Struct("<HII")
_ERROR_REPLY = struct.Struct("<HIQ")
#: Encodes the header and the ID of a request. The header is a number in another byte order than the rest.
frame_start = struct.Struct("<IQ").pack
# The frame of an answer of one run: header, and the fields of `_ONE_RUN`.
_ONE_RUN_FRAME = struct.Struct("<IQIQIQ")
# An answer of one run: request ID, reply number, first, count, number of further runs.
_ONE_RUN = struct.Struct("<QIQIQ")
_ONE_RUN_HEADER = _U32.unpack(_HEADER.pack(_ONE_RUN.size))[0]


class HelloReply(NamedTuple):
    """The answer to ``Hello``: the version in use and the daemon's limits."""

    version: int
    max_count: int
    max_in_flight: int


class IdsReply(NamedTuple):
    """IDs as runs of (first, count), not checked yet."""

    runs: tuple[tuple[int, int], ...]


class TimeReply(NamedTuple):
    """The clock of the daemon's host."""

    unix_ms: int


class Goodbye(NamedTuple):
    """The daemon is stopping."""


class SnowflakeState(NamedTuple):
    """Whether the daemon issues snowflake IDs."""

    #: ``Serving``, ``ClockBehind``, ``Refused`` or ``Starting``.
    variant: str
    #: How far the clock is behind the times already used, in ms; only of ``ClockBehind``.
    behind_ms: Optional[int] = None
    #: Why; only of ``Refused`` and ``Starting``.
    reason: Optional[str] = None


class SegmentsStatus(NamedTuple):
    """The daemon's store and its tags."""

    store: str
    store_error: str
    tags: int
    waiting: int
    issued: int
    leases: int


class SnowflakeStatus(NamedTuple):
    """The daemon's worker ID, clock and snowflake IDs. Section 8 of the protocol explains each field."""

    state: SnowflakeState
    worker: Optional[int]
    registry: str
    layout: str
    ceiling_unix_ms: int
    last_unix_ms: int
    clock_unix_ms: int
    issued: int
    identity: str
    last_report_ms_ago: Optional[int]
    registry_error: str
    limit_unix_ms: Optional[int]
    clock_offset_ms: Optional[int]
    peers: int


class DaemonStatus(NamedTuple):
    """The state of the daemon. Section 8 of the protocol explains each field."""

    version: str
    pid: int
    uptime_ms: int
    connections: int
    requests: int
    state_dir: str
    segments: SegmentsStatus
    snowflake: SnowflakeStatus


Reply = Union[RefusedError, HelloReply, IdsReply, TimeReply, DaemonStatus, Goodbye]


def encode_request(request_id: int, call: int, fields: bytes = b"") -> bytes:
    """Encode a frame with one request."""
    return _HEADER.pack(12 + len(fields)) + _MESSAGE.pack(request_id, call) + fields


def split_request(call: int, fields: bytes) -> tuple[int, bytes]:
    """Encode a request without its ID: what :data:`frame_start` needs beside that, and what follows."""
    (header,) = _U32.unpack(_HEADER.pack(12 + len(fields)))
    return header, _U32.pack(call) + fields


def hello_fields(magic: bytes = MAGIC, version: int = VERSION) -> bytes:
    """Encode the fields of ``Hello``."""
    return _HELLO_CALL.pack(magic, version)


def encode_str(text: str) -> bytes:
    """Encode a ``str``. Raises UnicodeEncodeError if it holds lone surrogates."""
    data = text.encode("utf-8")
    return _U64.pack(len(data)) + data


def count_fields(count: int, timeout_ms: int) -> bytes:
    """Encode the fields of ``Snowflake``, and those of ``Segment`` behind its tag."""
    return _COUNT_TIMEOUT.pack(count, timeout_ms)


class FrameBuffer:
    """Assembles frames from whatever the socket returns."""

    __slots__ = ("_bytes", "_start")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._start = 0

    def append(self, data: bytes) -> None:
        """Add bytes that arrived."""
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def is_empty(self) -> bool:
        """Whether no part of a frame has arrived."""
        return self._start == len(self._bytes)

    def take(self) -> bytes | None:
        """Remove and return the next body if it is complete."""
        body = self._start + 4
        if len(self._bytes) < body:
            return None
        length: int = _HEADER.unpack_from(self._bytes, self._start)[0]
        if length > MAX_RESPONSE_LEN:
            raise ProtocolError(
                f"it announced a message of {length} bytes, above the limit of {MAX_RESPONSE_LEN}"
            )
        if len(self._bytes) < body + length:
            return None
        self._start = body + length
        return bytes(self._bytes[body : self._start])


def decode_one_id(data: bytes, request_id: int) -> int | None:
    """Return the ID from the bytes of a whole answer to this request that brings one ID. Anything else is
    ``None``, and left to :func:`decode_response`."""
    if len(data) != _ONE_RUN_FRAME.size:
        return None
    header, answered, number, first, count, more = _ONE_RUN_FRAME.unpack(data)
    if answered != request_id or number != _IDS or count != 1 or more != 0:
        return None
    return first if header == _ONE_RUN_HEADER and first <= MAX_ID else None


def decode_response(body: bytes) -> tuple[int, Reply]:
    """Decode the body of a frame into a request ID and a reply."""
    if len(body) == _ONE_RUN.size:
        request_id, number, first, count, more = _ONE_RUN.unpack(body)
        if number == _IDS and more == 0:
            return request_id, IdsReply(((first, count),))
    reader = _Reader(body)
    request_id = reader.u64()
    reply = _read_reply(reader)
    reader.end()
    return request_id, reply


def _read_reply(reader: _Reader) -> Reply:
    number = reader.u32()
    if number == _ERROR:
        code, retry_after_ms, detail = reader.unpack(_ERROR_REPLY)
        return RefusedError(code, retry_after_ms, detail, reader.str())
    if number == _HELLO:
        return HelloReply(*reader.unpack(_HELLO_REPLY))
    if number == _IDS:
        return IdsReply(reader.runs())
    if number == _TIME:
        return TimeReply(reader.u64())
    if number == _STATUS:
        return _read_status(reader)
    if number == _GOODBYE:
        return Goodbye()
    if number in (_TAGS, _WORKERS):
        raise ProtocolError(f"it sent reply {number}, which answers none of this client's calls")
    raise ProtocolError(f"it sent a reply of the unknown number {number}")


def _read_status(reader: _Reader) -> DaemonStatus:
    # Arguments are evaluated from left to right, so they are read in the order of the page.
    return DaemonStatus(
        version=reader.str(),
        pid=reader.u32(),
        uptime_ms=reader.u64(),
        connections=reader.u32(),
        requests=reader.u64(),
        state_dir=reader.str(),
        segments=SegmentsStatus(
            store=reader.str(),
            store_error=reader.str(),
            tags=reader.u64(),
            waiting=reader.u64(),
            issued=reader.u64(),
            leases=reader.u64(),
        ),
        snowflake=SnowflakeStatus(
            state=_read_snowflake_state(reader),
            worker=reader.opt_u64(),
            registry=reader.str(),
            layout=reader.str(),
            ceiling_unix_ms=reader.u64(),
            last_unix_ms=reader.u64(),
            clock_unix_ms=reader.u64(),
            issued=reader.u64(),
            identity=reader.str(),
            last_report_ms_ago=reader.opt_u64(),
            registry_error=reader.str(),
            limit_unix_ms=reader.opt_u64(),
            clock_offset_ms=reader.opt_i64(),
            peers=reader.u32(),
        ),
    )


def _read_snowflake_state(reader: _Reader) -> SnowflakeState:
    number = reader.u32()
    if number == 0:
        return SnowflakeState("Serving")
    if number == 1:
        return SnowflakeState("ClockBehind", behind_ms=reader.u64())
    if number == 2:
        return SnowflakeState("Refused", reason=reader.str())
    if number == 3:
        return SnowflakeState("Starting", reason=reader.str())
    raise ProtocolError(f"it sent a snowflake state of the unknown number {number}")


class _Reader:
    """Reads fields one after the other, and never past the end of the body."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        at = self._at
        if len(self._body) - at < form.size:
            raise ProtocolError("it sent a message that ends within a field")
        self._at = at + form.size
        return form.unpack_from(self._body, at)

    def u32(self) -> int:
        return self.unpack(_U32)[0]

    def u64(self) -> int:
        return self.unpack(_U64)[0]

    def opt_u64(self) -> int | None:
        return self.u64() if self._some() else None

    def opt_i64(self) -> int | None:
        return self.unpack(_I64)[0] if self._some() else None

    def str(self) -> str:
        length = self.u64()
        at = self._at
        if len(self._body) - at < length:
            raise ProtocolError("it sent a text that is longer than its message")
        self._at = at + length
        try:
            return self._body[at : self._at].decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("it sent a text that is not UTF-8") from None

    def runs(self) -> tuple[tuple[int, int], ...]:
        first, count = self.unpack(_RUN)
        more = self.u64()
        end = self._at + more * _RUN.size
        if end > len(self._body):
            raise ProtocolError("it sent a list that is longer than its message")
        runs = ((first, count), *_RUN.iter_unpack(self._body[self._at : end]))
        self._at = end
        return runs

    def end(self) -> None:
        if self._at != len(self._body):
            left = len(self._body) - self._at
            raise ProtocolError(f"it sent a message with {left} bytes too many")

    def _some(self) -> bool:
        at = self._at
        if at >= len(self._body) or self._body[at] > 1:
            raise ProtocolError("it sent an option byte other than 0 and 1")
        self._at = at + 1
        return self._body[at] == 1
