"""Forms of an ID: texts of the number, numbers of a day, UUIDs and ObjectIDs.

Pure, reversible functions of the number, defined bit by bit in leafd's ``docs/forms.md``. Every ID has
exactly one text in each form, and no other text is read: :class:`InvalidArgumentError` says what is wrong.

>>> encode("base62", 17)
'0000000000H'
>>> decode("ord_crockford32", "ord_000000000000HH")
17
"""

from __future__ import annotations

import re
import uuid as _uuid
from dataclasses import dataclass
from datetime import date as _date
from datetime import timedelta

from ._errors import InvalidArgumentError
from ._layout import Layout
from ._wire import MAX_ID

__all__ = [
    "NAMESPACE",
    "Snowflakes",
    "day_of",
    "day_tag",
    "day_text",
    "decode",
    "encode",
    "read_day_text",
    "uuid5",
]

#: The namespace of UUIDs of version 5.
NAMESPACE = _uuid.UUID("6c656166-642d-575d-a31b-5e0c8f419726")

_DIGITS = "0123456789"
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FORMS = {
    "base62": (_DIGITS + _UPPER + _UPPER.lower(), 11),
    "base36": (_DIGITS + _UPPER.lower(), 13),
    "crockford32": (_DIGITS + "ABCDEFGHJKMNPQRSTVWXYZ", 13),
}
_CHECKS = _FORMS["crockford32"][0] + "*~$=U"
_PREFIX = re.compile(r"[a-z]([a-z_]{0,61}[a-z])?")
_PADDED = re.compile(r"padded([1-9]|1[0-9])?")
_ZONE = re.compile(r"([+-])([0-9]{2}):([0-5][0-9])")
_FLEET = re.compile(r"[0-9a-f]{10}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

#: How many bits below the milliseconds UUIDs and ObjectIDs have room for.
_LOW_BITS = 34
#: 1970-01-01 in units of 100 ns since 1582-10-15.
_GREGORIAN = 122_192_928_000_000_000
_WORKER_BITS = 21


def encode(form: str, number: int) -> str:
    """The text of an ID in a form of the number alone, such as ``base62`` or ``ord_padded8``."""
    prefix, name, width = _form(form)
    if not 0 <= number <= MAX_ID:
        raise InvalidArgumentError(f"{number} is not between 0 and 2^63 - 1")
    if name not in _FORMS:
        return prefix + str(number).zfill(width)
    alphabet, _ = _FORMS[name]
    symbols, left = [], number
    for _ in range(width):
        left, value = divmod(left, len(alphabet))
        symbols.append(alphabet[value])
    check = _CHECKS[number % 37] if name == "crockford32" else ""
    return prefix + "".join(reversed(symbols)) + check


def decode(form: str, text: str) -> int:
    """The ID of a text in a form of the number alone."""
    prefix, name, width = _form(form)
    if not text.startswith(prefix):
        raise InvalidArgumentError(f"{text!r}: the prefix is not {prefix!r}")
    digits = text[len(prefix) :]
    if name not in _FORMS:
        return _decimal(text, digits, width, len(prefix))
    length = width + (name == "crockford32")
    alphabet, _ = _FORMS[name]
    number = 0
    # Bounded before it is converted: a number of a million digits takes long.
    for at, symbol in enumerate(digits[:width]):
        value = alphabet.find(symbol)
        if value < 0:
            raise InvalidArgumentError(f"{text!r}: character {len(prefix) + at + 1} is {symbol!r}")
        number = number * len(alphabet) + value
    if len(digits) != length:
        raise InvalidArgumentError(f"{text!r}: {len(digits)} characters instead of {length}")
    check = digits[width:]
    if number > MAX_ID:
        raise InvalidArgumentError(f"{text!r}: the number is above 2^63 - 1")
    if name == "crockford32" and check != _CHECKS[number % 37]:
        raise InvalidArgumentError(
            f"{text!r}: the check symbol is {check!r}, but {_CHECKS[number % 37]!r} belongs to this number"
        )
    return number


def _form(form: str) -> tuple[str, str, int]:
    prefix, underscore, name = form.rpartition("_")
    if underscore and not _PREFIX.fullmatch(prefix):
        raise InvalidArgumentError(
            f"prefix {prefix!r}: a prefix is 1 to 63 lowercase letters and underscores"
        )
    if name in _FORMS:
        return prefix + underscore, name, _FORMS[name][1]
    if name == "decimal":
        return prefix + underscore, name, 1
    padded = _PADDED.fullmatch(name)
    if padded is None:
        raise InvalidArgumentError(
            f"there is no form {form!r}; there are decimal, base62, base36, crockford32 and padded[N], "
            "each with an optional prefix"
        )
    return prefix + underscore, "padded", int(padded.group(1) or 19)


def _decimal(text: str, digits: str, width: int, before: int) -> int:
    for at, digit in enumerate(digits):
        if digit not in _DIGITS:
            raise InvalidArgumentError(f"{text!r}: character {before + at + 1} is {digit!r}")
    if len(digits) < width:
        raise InvalidArgumentError(f"{text!r}: {len(digits)} digits instead of at least {width}")
    if len(digits) > width and digits.startswith("0"):
        raise InvalidArgumentError(f"{text!r}: character {before + 1} is one zero too many")
    # Bounded before it is converted: a number of a million digits takes long.
    if len(digits) > 19 or int(digits) > MAX_ID:
        raise InvalidArgumentError(f"{text!r}: the number is above 2^63 - 1")
    return int(digits)


def day_of(unix_ms: int, zone: str) -> _date:
    """The date at a time in milliseconds since 1970, where ``zone`` is ``UTC`` or such as ``+08:00``."""
    minutes = 0
    if zone != "UTC":
        parts = _ZONE.fullmatch(zone)
        if parts is None or int(parts.group(2)) * 60 + int(parts.group(3)) > 18 * 60:
            raise InvalidArgumentError(f"time zone {zone!r}: write UTC, or a distance such as +08:00")
        minutes = (int(parts.group(2)) * 60 + int(parts.group(3))) * (-1 if parts.group(1) == "-" else 1)
    first, last = _date(1970, 1, 1), _date(9999, 12, 31)
    days = (unix_ms // 60_000 + minutes) // 1440
    return first + timedelta(days=min(max(days, 0), (last - first).days))


def day_tag(base: str, day: _date) -> str:
    """The tag of a day's IDs. Ask for an ID of it, and pass the same day to :func:`day_text`."""
    return f"{base}-{day:%Y%m%d}"


def day_text(day: _date, number: int) -> str:
    """The text of an ID of a day's tag, such as ``20261122-000017``."""
    return f"{day:%Y%m%d}-{encode('padded6', number)}"


def read_day_text(text: str) -> tuple[_date, int]:
    """The day and the ID of what :func:`day_text` returned."""
    day, hyphen, digits = text.partition("-")
    try:
        if not hyphen or not re.fullmatch(r"(19[7-9]|[2-9][0-9]{2})[0-9]{5}", day):
            raise ValueError
        date = _date(int(day[:4]), int(day[4:6]), int(day[6:]))
    except ValueError:
        raise InvalidArgumentError(f"{text!r} does not begin with a date, such as 20261122-") from None
    return date, _decimal(text, digits, 6, 9)


def uuid5(fleet: str, tag: str, number: int) -> _uuid.UUID:
    """The UUID of an ID of a tag: a hash, which nothing turns back."""
    return _uuid.uuid5(NAMESPACE, f"{_fleet(fleet):010x}/{tag}/{number}")


def _fleet(text: str) -> int:
    if not _FLEET.fullmatch(text):
        raise InvalidArgumentError(f"fleet ID {text!r}: a fleet ID is 10 lowercase hexadecimal digits")
    return int(text, 16)


@dataclass(frozen=True)
class Snowflakes:
    """Turns the snowflakes of one installation into UUIDs and ObjectIDs, and back.

    >>> snowflakes = Snowflakes(Layout.LEAF, "4be1f0a37c")
    >>> str(snowflakes.uuid7(2124029785372885063))
    '01a1fcd4-5c07-7000-8000-474be1f0a37c'
    """

    layout: Layout
    #: The fleet ID: 10 lowercase hexadecimal digits.
    fleet: str

    def __post_init__(self) -> None:
        _fleet(self.fleet)

    def uuid7(self, snowflake: int) -> _uuid.UUID:
        """Version 7: sorts as the snowflakes do."""
        ms, low = self._split(snowflake)
        if ms >> 48:
            raise InvalidArgumentError("a UUID of version 7 has no room for this time")
        lower = low & 0x3FFFFF
        return _make(7, ms, low >> 22, lower << 40 | _fleet(self.fleet))

    def uuid8(self, snowflake: int) -> _uuid.UUID:
        """Version 8: the number itself; it needs no layout."""
        if not 0 <= snowflake <= MAX_ID:
            raise InvalidArgumentError(f"{snowflake} is not between 0 and 2^63 - 1")
        bits = snowflake << 59 | _fleet(self.fleet) << 19
        return _make(8, bits >> 74, bits >> 62 & 0xFFF, bits & ((1 << 62) - 1))

    def uuid1(self, snowflake: int) -> _uuid.UUID:
        """Version 1: time in 100 ns, clock sequence and node."""
        parts = self.layout.decode(snowflake)
        self._check_room_of_1()
        excess = parts.worker >> _WORKER_BITS << self.layout.sequence_bits
        ticks = parts.unix_ms * 10_000 + _GREGORIAN + excess + parts.sequence
        if ticks >> 60:
            raise InvalidArgumentError("a UUID of version 1 has no room for this time")
        worker = parts.worker & ((1 << _WORKER_BITS) - 1)
        node = (worker & 0x7F) << 41 | 1 << 40 | _fleet(self.fleet)
        first = (ticks & 0xFFFFFFFF) << 16 | ticks >> 32 & 0xFFFF
        return _make(1, first, ticks >> 48, worker >> 7 << 48 | node)

    def _check_room_of_1(self) -> None:
        excess_bits = max(self.layout.worker_bits - _WORKER_BITS, 0)
        if 1 << (excess_bits + self.layout.sequence_bits) > self.layout.unit_ms * 10_000:
            raise InvalidArgumentError("a UUID of version 1 has no room for this layout")

    def object_id(self, snowflake: int) -> str:
        """An ObjectID: sorts as the snowflakes do."""
        ms, low = self._split(snowflake)
        if ms // 1000 >> 32:
            raise InvalidArgumentError("an ObjectID has no room for this time")
        bits = (ms // 1000) << 64 | (ms % 1000) << 54 | low << 20 | _fleet(self.fleet) >> 20
        return f"{bits:024x}"

    def encode(self, form: str, snowflake: int) -> str:
        """The text of a snowflake as ``uuid7``, ``uuid8``, ``uuid1`` or ``objectid``."""
        return str(getattr(self, _snowflake_form(form))(snowflake))

    def decode(self, form: str, text: str) -> int:
        """The snowflake of such a text. Only the text that :meth:`encode` returns is accepted."""
        if _snowflake_form(form) == "object_id":
            return self.id_of_object_id(text)
        if not _UUID.fullmatch(text):
            raise InvalidArgumentError(f"{text!r}: a UUID has 36 characters, lowercase and with hyphens")
        uuid = _uuid.UUID(text)
        if uuid.version != int(form[4:]):
            raise InvalidArgumentError(f"{text!r} is no UUID of version {form[4:]}")
        return self.id_of(uuid)

    def id_of(self, uuid: _uuid.UUID) -> int:
        """The snowflake of a UUID of version 1, 7 or 8 of this installation."""
        a, b, c = uuid.int >> 80, uuid.int >> 64 & 0xFFF, uuid.int & ((1 << 62) - 1)
        if uuid.variant != _uuid.RFC_4122 or uuid.version not in (1, 7, 8):
            raise InvalidArgumentError(f"{uuid} is no UUID of version 1, 7 or 8")
        fleet = c >> 19 if uuid.version == 8 else c
        if fleet & ((1 << 40) - 1) != _fleet(self.fleet):
            raise InvalidArgumentError(f"{uuid} is of another installation")
        if uuid.version == 7:
            snowflake = self._join(a, b << 22 | c >> 40)
        elif uuid.version == 8:
            snowflake = a << 15 | b << 3 | c >> 59
            if c & ((1 << 19) - 1):
                raise InvalidArgumentError(f"{uuid}: its last 19 bits are not zero")
        else:
            snowflake = self._id_of_1(b << 48 | (a & 0xFFFF) << 32 | a >> 16, c)
        return snowflake

    def _id_of_1(self, ticks: int, rest: int) -> int:
        self._check_room_of_1()
        since = ticks - _GREGORIAN - self.layout.epoch_ms * 10_000
        time, step = divmod(since, self.layout.unit_ms * 10_000)
        excess, sequence = divmod(step, 1 << self.layout.sequence_bits)
        worker = excess << _WORKER_BITS | rest >> 48 << 7 | rest >> 41 & 0x7F
        snowflake = self.layout.compose(time, worker, sequence)
        if not rest >> 40 & 1 or snowflake is None:
            raise InvalidArgumentError("no snowflake of this layout becomes this UUID")
        return snowflake

    def id_of_object_id(self, text: str) -> int:
        """The snowflake of an ObjectID of this installation."""
        if not re.fullmatch(r"[0-9a-f]{24}", text):
            raise InvalidArgumentError(f"{text!r}: an ObjectID has 24 lowercase hexadecimal digits")
        bits = int(text, 16)
        if bits & 0xFFFFF != _fleet(self.fleet) >> 20:
            raise InvalidArgumentError(f"{text!r} is of another installation")
        ms = bits >> 54 & 0x3FF
        if ms > 999:
            raise InvalidArgumentError(f"{text!r} has more than 999 milliseconds")
        return self._join((bits >> 64) * 1000 + ms, bits >> 20 & ((1 << _LOW_BITS) - 1))

    def _low_bits(self) -> int:
        return self.layout.worker_bits + self.layout.sequence_bits

    def _excess_bits(self) -> int:
        excess = max(self._low_bits() - _LOW_BITS, 0)
        if 1 << excess > self.layout.unit_ms:
            raise InvalidArgumentError("UUIDs and ObjectIDs have no room for this layout")
        return excess

    def _split(self, snowflake: int) -> tuple[int, int]:
        self._excess_bits()
        start = self.layout.decode(snowflake).unix_ms
        low = snowflake & ((1 << self._low_bits()) - 1)
        return start + (low >> _LOW_BITS), low & ((1 << _LOW_BITS) - 1)

    def _join(self, ms: int, low: int) -> int:
        excess_bits = self._excess_bits()
        time, excess = divmod(ms - self.layout.epoch_ms, self.layout.unit_ms)
        low |= excess << _LOW_BITS
        is_right = 0 <= time < 1 << self.layout.time_bits and not excess >> excess_bits
        if not is_right or low >> self._low_bits():
            raise InvalidArgumentError("no snowflake of this layout becomes this")
        return time << self._low_bits() | low


def _snowflake_form(form: str) -> str:
    if form not in ("uuid7", "uuid8", "uuid1", "objectid"):
        raise InvalidArgumentError(f"there is no form {form!r}; there are uuid7, uuid8, uuid1 and objectid")
    return "object_id" if form == "objectid" else form


def _make(version: int, a: int, b: int, c: int) -> _uuid.UUID:
    return _uuid.UUID(int=a << 80 | version << 76 | b << 64 | 0b10 << 62 | c)
