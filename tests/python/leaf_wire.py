"""The wire format of leafd: its messages as classes, and the codec between them and bytes.

Written from docs/protocol.md alone. This module does no IO.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

VERSION = 1
MAX_REQUEST = 4_096
MAX_RESPONSE = 262_144

T = TypeVar("T")
U16 = Annotated[int, struct.Struct("<H")]
U32 = Annotated[int, struct.Struct("<I")]
U64 = Annotated[int, struct.Struct("<Q")]
I64 = Annotated[int, struct.Struct("<q")]
Bytes4 = Annotated[bytes, struct.Struct("4s")]
LENGTH, VARIANT, HEADER = struct.Struct("<Q"), struct.Struct("<I"), struct.Struct(">I")


class ProtocolError(Exception):
    """The peer does not speak the protocol, so the connection cannot be used any more."""


# Messages. The codec below reads the annotations: a union of structs is an enum whose variants are numbered
# in order, `T | None` is an option, and `tuple[T, ...]` is a list.


@dataclass_transform(frozen_default=True)
class Struct:
    """Base class of the messages. Fields are encoded in the order of their annotations."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Hello(Struct):
    magic: Bytes4 = b"LEAF"
    version: U16 = VERSION


class Segment(Struct):
    tag: str
    count: U32 = 1
    timeout_ms: U32 = 0


class Snowflake(Struct):
    count: U32 = 1
    timeout_ms: U32 = 0


class Time(Struct):
    pass


class Status(Struct):
    pass


class TagList(Struct):
    after: str = ""
    limit: U32 = 100


class TagShow(Struct):
    tag: str


class TagCreate(Struct):
    tag: str
    step: U32 = 0
    first: U64 = 1
    description: str = ""


class TagSetStep(Struct):
    tag: str
    step: U32


class WorkerList(Struct):
    from_: U64 = 0
    limit: U32 = 100


class WorkerRelease(Struct):
    worker: U64
    owner: str


class TagDelete(Struct):
    tag: str


class TagsUsed(Struct):
    after: str = ""
    limit: U32 = 100


class HeldLoan(Struct):
    worker: U64
    claim: str
    limit_unix_ms: U64
    left_ms: U64


class WorkerBorrow(Struct):
    pool: str
    borrower: str
    cgroup: str = ""
    cgroup_inode: U64 = 0
    held: HeldLoan | None = None


class WorkerReturn(Struct):
    pool: str
    borrower: str
    ceiling_unix_ms: U64 = 0


class PoolList(Struct):
    pool: str
    from_: U64 = 0
    limit: U32 = 100


class PoolRelease(Struct):
    pool: str
    worker: U64
    owner: str


class TagForecasts(Struct):
    tag: str = ""
    after: str = ""
    limit: U32 = 100


class PublicEncode(Struct):
    tag: str = ""
    ids: tuple[U64, ...] = ()


class PublicDecode(Struct):
    tag: str = ""
    public_ids: tuple[str, ...] = ()


class Run(Struct):
    first: U64
    count: U32


class Span(Struct):
    start: U64
    end: U64


class Serving(Struct):
    pass


class ClockBehind(Struct):
    behind_ms: U64


class Refused(Struct):
    reason: str


class Starting(Struct):
    reason: str


class SegmentsStatus(Struct):
    store: str
    store_error: str
    tags: U64
    waiting: U64
    issued: U64
    leases: U64


class SnowflakeStatus(Struct):
    state: Serving | ClockBehind | Refused | Starting
    worker: U64 | None
    registry: str
    layout: str
    ceiling_unix_ms: U64
    last_unix_ms: U64
    clock_unix_ms: U64
    issued: U64
    identity: str
    last_report_ms_ago: U64 | None
    registry_error: str
    limit_unix_ms: U64 | None
    clock_offset_ms: I64 | None
    peers: U32


class TagStatus(Struct):
    tag: str
    row_step: U64
    step: U64
    max_id: U64
    description: str
    current: Span | None
    next: Span | None
    position: U64
    remaining: U64
    issued: U64
    leases: U64
    last_lease_ms_ago: U64 | None
    last_lease_size: U64
    waiting: U64
    lease_error: str
    seconds_left: U64 | None


class Held(Struct):
    pass


class Settling(Struct):
    pass


class Released(Struct):
    pass


class JavaLeaf(Struct):
    pass


class WorkerStatus(Struct):
    worker: U64
    owner: str
    address: str
    state: Held | Settling | Released | JavaLeaf
    live: bool
    own: bool
    reported_unix_ms: U64
    age_ms: U64
    ceiling_unix_ms: U64
    limit_unix_ms: U64 | None


class ErrorReply(Struct):
    code: U16
    retry_after_ms: U32
    detail: U64
    message: str


class HelloReply(Struct):
    version: U16
    max_count: U32
    max_in_flight: U32


class Ids(Struct):
    first: Run
    more: tuple[Run, ...] = ()

    @property
    def count(self) -> int:
        """Number of IDs, for checking an answer before `ids` builds a list of them."""
        return self.first.count + sum(run.count for run in self.more)

    def ids(self) -> list[int]:
        """Every ID, in order of issue."""
        return [run.first + i for run in (self.first, *self.more) for i in range(run.count)]


class TimeReply(Struct):
    unix_ms: U64


class DaemonStatus(Struct):
    version: str
    pid: U32
    uptime_ms: U64
    connections: U32
    requests: U64
    state_dir: str
    segments: SegmentsStatus
    snowflake: SnowflakeStatus


class Tags(Struct):
    tags: tuple[TagStatus, ...]


class Goodbye(Struct):
    pass


class Workers(Struct):
    workers: tuple[WorkerStatus, ...]


class TagGrowth(Struct):
    ids: U64
    seconds: U64


class LimitForecast(Struct):
    limit: U64
    reached_unix_ms: U64 | None = None


class TagForecast(Struct):
    tag: str
    max_id: U64
    growth: TagGrowth | None = None
    limits: tuple[LimitForecast, ...] = ()


class Loan(Struct):
    worker: U64
    bits: U32
    claim: str
    start_unix_ms: U64
    limit_unix_ms: U64
    left_ms: U64


class Forecasts(Struct):
    unix_ms: U64
    layout_end_unix_ms: U64 | None
    tags: tuple[TagForecast, ...]


class PublicIds(Struct):
    public_ids: tuple[str, ...]


class PublicNumbers(Struct):
    ids: tuple[U64, ...]


Call = (
    Hello
    | Segment
    | Snowflake
    | Time
    | Status
    | TagList
    | TagShow
    | TagCreate
    | TagSetStep
    | WorkerList
    | WorkerRelease
    | TagDelete
    | TagsUsed
    | WorkerBorrow
    | WorkerReturn
    | PoolList
    | PoolRelease
    | TagForecasts
    | PublicEncode
    | PublicDecode
)
Reply = (
    ErrorReply
    | HelloReply
    | Ids
    | TimeReply
    | DaemonStatus
    | Tags
    | Goodbye
    | Workers
    | Loan
    | Forecasts
    | PublicIds
    | PublicNumbers
)


class Request(Struct):
    id: U64
    call: Call


class Response(Struct):
    id: U64
    reply: Reply


class ErrorCode(IntEnum):
    """The error numbers of version 1; a newer daemon may send others."""

    BAD_MAGIC = 100
    VERSION_UNSUPPORTED = 101
    HELLO_EXPECTED = 102
    MALFORMED = 103
    UNKNOWN_CALL = 104
    FRAME_TOO_LARGE = 105
    BAD_COUNT = 200
    BAD_TAG = 201
    UNKNOWN_TAG = 202
    TAG_EXISTS = 203
    BAD_STEP = 204
    BAD_DESCRIPTION = 205
    FORBIDDEN = 206
    NOT_CONFIGURED = 207
    TOO_MANY_TAGS = 208
    UNKNOWN_WORKER = 209
    WORKER_IN_USE = 210
    WRONG_OWNER = 211
    BAD_PUBLIC_ID = 212
    TOO_MANY_CONNECTIONS = 300
    TOO_MANY_IN_FLIGHT = 301
    STORE_UNAVAILABLE = 302
    STATE_UNAVAILABLE = 303
    CLOCK_BACKWARDS = 304
    WORKER_UNAVAILABLE = 305
    TIME_EXHAUSTED = 306
    BAD_ROW = 307
    DEADLINE_EXCEEDED = 308
    SHUTTING_DOWN = 309
    TOO_MANY_WAITING = 310
    REGISTRY_UNAVAILABLE = 311
    QUOTA_EXCEEDED = 312


# Codec.


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def least_size(kind: Any) -> int:
    """The smallest size of a value of this type, in bytes."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return int(args[1].size)
    if kind is bool:
        return 1
    if kind is str or origin is tuple:
        return LENGTH.size
    if origin in (Union, UnionType):
        return 1 if NoneType in args else VARIANT.size + min(map(least_size, args))
    return sum(map(least_size, _fields(kind).values()))


def _put(kind: Any, value: Any, out: bytearray) -> None:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        out += args[1].pack(value)
    elif kind is bool:
        out.append(value)
    elif kind is str:
        text = value.encode()
        out += LENGTH.pack(len(text)) + text
    elif origin is tuple:
        out += LENGTH.pack(len(value))
        for element in value:
            _put(args[0], element, out)
    elif origin in (Union, UnionType) and NoneType in args:
        out.append(value is not None)
        if value is not None:
            _put(args[0], value, out)
    elif origin in (Union, UnionType):
        out += VARIANT.pack(args.index(type(value)))
        _put(type(value), value, out)
    else:
        for name, field in _fields(kind).items():
            _put(field, getattr(value, name), out)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self.rest = memoryview(body)

    def take(self, size: int) -> bytes:
        if size > len(self.rest):
            raise ProtocolError(f"{size} bytes expected, {len(self.rest)} left")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return bytes(taken)

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]

    def mark(self) -> bool:
        if (mark := self.take(1)[0]) > 1:
            raise ProtocolError(f"option byte or bool {mark}")
        return mark == 1

    def get(self, kind: Any) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.number(args[1])
        if kind is bool:
            return self.mark()
        if kind is str:
            return self.take(self.number(LENGTH)).decode()
        if origin is tuple:
            length = self.number(LENGTH)
            if length * least_size(args[0]) > len(self.rest):
                raise ProtocolError(f"a list of {length} elements does not fit")
            return tuple(self.get(args[0]) for _ in range(length))
        if origin in (Union, UnionType) and NoneType in args:
            return self.get(args[0]) if self.mark() else None
        if origin in (Union, UnionType):
            if (variant := self.number(VARIANT)) >= len(args):
                raise ProtocolError(f"unknown variant {variant}")
            return self.get(args[variant])
        return kind(*[self.get(field) for field in _fields(kind).values()])


def encode(message: Request | Response) -> bytes:
    """One frame, header included. Raises `ValueError` for a number that does not fit its field."""
    body = bytearray()
    try:
        _put(type(message), message, body)
    except struct.error as error:
        raise ValueError(f"{message}: {error}") from error
    return HEADER.pack(len(body)) + body


def decode(kind: type[T], body: bytes) -> T:
    """One message from the body of a frame. Raises `ProtocolError`."""
    reader = _Reader(body)
    try:
        message: T = reader.get(kind)
    except UnicodeDecodeError as error:
        raise ProtocolError(str(error)) from error
    if reader.rest:
        raise ProtocolError(f"{len(reader.rest)} bytes left over")
    return message
