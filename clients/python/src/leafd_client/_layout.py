"""Splits snowflake IDs into their parts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import ClassVar, NamedTuple, Optional

from ._errors import InvalidArgumentError
from ._wire import MAX_ID

_MAX_U64 = 2**64 - 1
_NUMBER = re.compile(r"[0-9]{1,20}")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?Z)?"
)


class Decoded(NamedTuple):
    """The parts of a snowflake ID."""

    #: The start of the ID's time unit, in milliseconds since 1970-01-01T00:00:00Z.
    unix_ms: int
    #: The worker ID, data centre bits included.
    worker: int
    #: The data centre, if the layout has one.
    datacenter: Optional[int]
    #: The sequence number within the time unit.
    sequence: int


@dataclass(frozen=True)
class Layout:
    """How a snowflake ID is composed: time, worker ID and sequence, from the top.

    ``Layout.LEAF``, ``Layout.TWITTER``, ``Layout.BAIDU``, ``Layout.JS``, ``Layout.SONYFLAKE`` and
    ``Layout.DISCORD`` are the presets. :meth:`parse` reads the text that
    ``client.status().snowflake.layout`` returns.
    """

    time_bits: int
    worker_bits: int
    sequence_bits: int
    epoch_ms: int
    unit_ms: int = 1
    #: How many of the upper worker bits stand for the data centre.
    datacenter_bits: int = 0
    #: Whether the sequence is above the worker ID.
    sequence_above_worker: bool = False

    LEAF: ClassVar[Layout]
    TWITTER: ClassVar[Layout]
    BAIDU: ClassVar[Layout]
    JS: ClassVar[Layout]
    SONYFLAKE: ClassVar[Layout]
    DISCORD: ClassVar[Layout]

    def __post_init__(self) -> None:
        bits = (self.time_bits, self.worker_bits, self.sequence_bits)
        if min(*bits, self.datacenter_bits) < 0 or sum(bits) > 63:
            raise InvalidArgumentError(
                f"time {bits[0]} + worker {bits[1]} + sequence {bits[2]} bits make {sum(bits)}, "
                "more than 63"
            )
        if self.time_bits == 0 or self.sequence_bits == 0:
            raise InvalidArgumentError("time and sequence need at least one bit each")
        if self.unit_ms not in (1, 10, 1000):
            raise InvalidArgumentError(f"a unit of {self.unit_ms} ms is not supported; use 1, 10 or 1000")
        if not 0 <= self.epoch_ms <= _MAX_U64:
            raise InvalidArgumentError(f"the epoch {self.epoch_ms} is out of range")
        if self.datacenter_bits > self.worker_bits:
            raise InvalidArgumentError(
                f"{self.datacenter_bits} data centre bits do not fit into {self.worker_bits} worker bits"
            )

    def decode(self, snowflake: int) -> Decoded:
        """Split an ID into its parts."""
        if not 0 <= snowflake <= MAX_ID:
            raise InvalidArgumentError(f"{snowflake} is not between 0 and 2^63 - 1")
        time = snowflake >> (self.worker_bits + self.sequence_bits)
        if time >> self.time_bits:
            bits = self.time_bits + self.worker_bits + self.sequence_bits
            raise InvalidArgumentError(f"{snowflake} has more than the {bits} bits of this layout")
        worker = (snowflake >> self._shifts()[0]) & ((1 << self.worker_bits) - 1)
        datacenter = None
        if self.datacenter_bits:
            datacenter = worker >> (self.worker_bits - self.datacenter_bits)
        return Decoded(
            unix_ms=min(self.epoch_ms + time * self.unit_ms, _MAX_U64),
            worker=worker,
            datacenter=datacenter,
            sequence=(snowflake >> self._shifts()[1]) & ((1 << self.sequence_bits) - 1),
        )

    def compose(self, time: int, worker: int, sequence: int) -> Optional[int]:
        """The ID of these parts, ``time`` in units since the epoch; None if one does not fit."""
        fields = ((time, self.time_bits), (worker, self.worker_bits), (sequence, self.sequence_bits))
        if any(part < 0 or part >> bits for part, bits in fields):
            return None
        worker_at, sequence_at = self._shifts()
        low = worker << worker_at | sequence << sequence_at
        return time << (self.worker_bits + self.sequence_bits) | low

    def _shifts(self) -> tuple[int, int]:
        if self.sequence_above_worker:
            return 0, self.worker_bits
        return self.sequence_bits, 0

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the name of a preset (such as ``leaf``), a preset with another epoch
        (``baidu@EPOCH``), or ``TIME/WORKER/SEQUENCE@EPOCH`` with an optional ``/UNITms``. With the
        sequence above the worker ID it is ``TIME/sSEQUENCE/wWORKER@EPOCH``.

        An epoch is in milliseconds since 1970, or a date in UTC: ``2026-01-01`` or
        ``2010-11-04T01:42:54.657Z``.
        """
        name, at, rest = text.partition("@")
        preset = _PRESETS.get(name)
        if preset is not None:
            return replace(preset, epoch_ms=_epoch(text, rest)) if at else preset
        epoch, slash, unit = rest.partition("/")
        bits = name.split("/")
        if len(bits) != 3 or (slash and not unit.endswith("ms")):
            raise _unknown(text)
        swapped = bits[1].startswith("s") and bits[2].startswith("w")
        worker, sequence = (bits[2][1:], bits[1][1:]) if swapped else (bits[1], bits[2])
        upper, plus, lower = worker.partition("+")
        datacenter = _number(text, upper) if plus else 0
        return cls(
            time_bits=_number(text, bits[0]),
            worker_bits=datacenter + _number(text, lower if plus else upper),
            sequence_bits=_number(text, sequence),
            epoch_ms=_epoch(text, epoch),
            unit_ms=_number(text, unit[:-2]) if slash else 1,
            datacenter_bits=datacenter,
            sequence_above_worker=swapped,
        )

    def __str__(self) -> str:
        worker = str(self.worker_bits)
        if self.datacenter_bits:
            worker = f"{self.datacenter_bits}+{self.worker_bits - self.datacenter_bits}"
        low = f"{worker}/{self.sequence_bits}"
        if self.sequence_above_worker:
            low = f"s{self.sequence_bits}/w{worker}"
        return f"{self.time_bits}/{low}@{self.epoch_ms}/{self.unit_ms}ms"


def _unknown(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"layout {text!r} is neither a preset ({', '.join(_PRESETS)}, each with an optional epoch as in "
        "baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in "
        "41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms, nor "
        "TIME/sSEQUENCE/wWORKER@EPOCH, as in 39/s8/w16@2026-01-01/10ms"
    )


def _number(text: str, part: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise _unknown(text)
    return int(part)


def _epoch(text: str, part: str) -> int:
    date = _DATE.fullmatch(part)
    if date is None:
        return _number(text, part)
    year, month, day, hour, minute, second = (int(group or 0) for group in date.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        raise _unknown(text) from None
    whole = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    if whole < 0:
        raise _unknown(text)
    return whole + int((date.group(7) or "0").ljust(3, "0"))


Layout.LEAF = Layout(41, 10, 12, 1_288_834_974_657)
Layout.TWITTER = replace(Layout.LEAF, datacenter_bits=5)
Layout.BAIDU = Layout(28, 22, 13, 1_463_673_600_000, unit_ms=1000)

Layout.JS = Layout(37, 8, 8, 1_767_225_600_000, unit_ms=10)
Layout.SONYFLAKE = Layout(39, 16, 8, 1_409_529_600_000, unit_ms=10, sequence_above_worker=True)
Layout.DISCORD = replace(Layout.TWITTER, epoch_ms=1_420_070_400_000)

_PRESETS = {
    "leaf": Layout.LEAF,
    "twitter": Layout.TWITTER,
    "baidu": Layout.BAIDU,
    "js": Layout.JS,
    "sonyflake": Layout.SONYFLAKE,
    "discord": Layout.DISCORD,
}
