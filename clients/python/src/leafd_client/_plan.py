"""When a pool leases, and how much. Pure: the time is an argument, and the pool does the leasing."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from ._errors import ErrorCode, LeafdError, RefusedError

MAX_CHUNK = 1_000_000

# How long leases have to fail before that is an outage. A restart of the daemon takes less.
_OUTAGE = 1.0

# How much a chunk may grow from one lease to the next. From 100 IDs to a million it takes five.
_GROWTH = 8

# How long a limit that the daemon named counts, in seconds. Quotas may be raised at a reload.
_LIMIT_HOLDS = 60.0

_MAX_RETRY_AFTER = 60.0


class ChunkRule(NamedTuple):
    """The bounds of a chunk, and how long one should last, in seconds."""

    smallest: int
    largest: int
    lasts: float


class Due(NamedTuple):
    """What to do now: lease `ids` IDs, or look again at `at`. Neither: wait until somebody asks."""

    ids: int = 0
    at: Optional[float] = None


class _Trouble:
    """A series of failed attempts."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.attempts = 0
        self.not_before = since
        # Whether another attempt may succeed although nobody changes anything.
        self.passes = True
        self.reported = False


class RefillPlan:
    """Decides for one pool."""

    def __init__(self, rule: ChunkRule, backoff_min: float, backoff_max: float) -> None:
        self._rule = rule
        self._backoff_min = backoff_min
        self._backoff_max = backoff_max
        #: The size of the present chunk.
        self.chunk = rule.smallest
        #: IDs per second between the last two leases.
        self.rate = 0.0
        # IDs of one chunk at most, because of a quota, and until when that counts.
        self._limit: tuple[int, float] | None = None
        # The last lease, and what was taken before it.
        self._last: tuple[float, int] | None = None
        self._trouble: _Trouble | None = None

    def due(self, now: float, held: int, taken: int, asked: bool) -> Due:
        """Return what to do now. ``held``: IDs that callers can take. ``taken``: IDs that callers have
        taken since the start. ``asked``: whether somebody has asked since the last attempt."""
        if held > self.chunk // 2:
            return Due()
        trouble = self._trouble
        if trouble is not None:
            if not trouble.passes and not asked:
                return Due()
            if now < trouble.not_before:
                return Due(at=trouble.not_before)
        self.chunk = self._next_chunk(now, taken)
        room = max(2 * self._rule.largest - held, self._rule.smallest)
        return Due(ids=min(self.chunk, room))

    def _next_chunk(self, now: float, taken: int) -> int:
        limit = self._limit[0] if self._limit and now < self._limit[1] else MAX_CHUNK
        if self._last is None:
            return min(self._rule.smallest, limit)
        at, before = self._last
        self.rate = max(taken - before, 0) / max(now - at, 1e-9)
        wanted = math.floor(self.rate * self._rule.lasts)
        wanted = min(max(wanted, self.chunk // 2), self.chunk * _GROWTH)
        wanted = min(max(wanted, self._rule.smallest), self._rule.largest)
        return max(min(wanted, limit), 1)

    def leased(self, now: float, taken: int) -> float | None:
        """Note that the daemon has leased something. Returns how long the outage was that ends, if it
        was reported."""
        self._last = (now, taken)
        trouble, self._trouble = self._trouble, None
        return now - trouble.since if trouble is not None and trouble.reported else None

    def failed(self, now: float, error: LeafdError, jitter: float) -> tuple[bool, float]:
        """Note that a request failed. ``jitter`` is in 0..1. Returns whether to report an outage, and
        until when there will be no further attempt."""
        retry_after = 0.0
        if isinstance(error, RefusedError):
            retry_after = min(error.retry_after, _MAX_RETRY_AFTER)
            if error.number == ErrorCode.QuotaExceeded:
                # Leave something to others under this quota.
                self._limit = (max(error.detail // 4, 1), now + _LIMIT_HOLDS)
            elif error.number == ErrorCode.BadCount:
                # More at once than a quota gives in a second.
                self._limit = (max(error.detail, 1), now + _LIMIT_HOLDS)
                if error.detail < self.chunk:
                    return False, now
        trouble = self._trouble
        if trouble is None:
            trouble = self._trouble = _Trouble(now)
        pause = min(self._backoff_min * 2.0 ** min(trouble.attempts, 30), self._backoff_max)
        trouble.attempts += 1
        trouble.not_before = now + max(pause * (1.0 - jitter / 2), retry_after)
        trouble.passes = error.temporary
        begins = not trouble.reported and (not trouble.passes or now - trouble.since >= _OUTAGE)
        trouble.reported = trouble.reported or begins
        return begins, trouble.not_before
