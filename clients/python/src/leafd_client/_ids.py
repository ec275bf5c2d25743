"""The IDs of one call, checked when they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, overload

from ._errors import ProtocolError
from ._wire import MAX_ID


class Ids(Sequence[int]):
    """The IDs of one call in the order of issue: a sequence of ints that is never empty.

    It stores runs of consecutive IDs, so 100,000 IDs take hardly more memory than one. ``list(ids)``
    turns them into a list.
    """

    __slots__ = ("_len", "runs")

    def __init__(self, runs: Sequence[range]) -> None:
        #: The runs of consecutive IDs, in the order of issue.
        self.runs: tuple[range, ...] = tuple(runs)
        self._len = sum(map(len, self.runs))

    def __len__(self) -> int:
        return self._len

    def __iter__(self) -> Iterator[int]:
        if len(self.runs) == 1:
            return iter(self.runs[0])
        return chain.from_iterable(self.runs)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        index = range(self._len)[index]
        for run in self.runs:
            if index < len(run):
                return run[index]
            index -= len(run)
        raise IndexError(index)

    def __contains__(self, value: object) -> bool:
        return any(value in run for run in self.runs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ids):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Ids({', '.join(f'{run.start}..{run.stop - 1}' for run in self.runs)})"


def check_ids(runs: Sequence[tuple[int, int]], asked: int) -> Ids:
    """Check an answer to a request for ``asked`` IDs: that many, each once, none above 2^63 - 1."""
    total = 0
    for first, count in runs:
        if count == 0:
            raise ProtocolError(f"it sent an empty run of IDs at {first}")
        if first + count - 1 > MAX_ID:
            raise ProtocolError(f"it sent {count} IDs from {first}, which pass the highest ID 2^63 - 1")
        total += count
    if total != asked:
        raise ProtocolError(f"it sent {total} IDs instead of {asked}")
    if len(runs) > 1:
        end = -1
        for first, count in sorted(runs):
            if first < end:
                raise ProtocolError(f"it sent ID {first} twice in one answer")
            end = first + count
    return Ids([range(first, first + count) for first, count in runs])
