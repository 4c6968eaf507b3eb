"""One part of a list of work, for job arrays without a scheduler of tasks."""

from __future__ import annotations

from typing import TypeVar

from equitangents.errors import InvalidTypeError
from equitangents.validation import check_whole

T = TypeVar("T")


def part_of(work: list[T], shard: tuple[int, int] | None) -> list[T]:
    """Every n-th item from the i-th on, for shard (i, n), 0 ≤ i < n; all of them for None.

    >>> part_of([1, 2, 3, 4, 5], (1, 2))
    [2, 4]
    """
    if shard is None:
        return work
    if not (isinstance(shard, tuple | list) and len(shard) == 2):
        raise InvalidTypeError(f"shard is {shard!r}; expected (i, n), the i-th of n parts")
    count = check_whole("n of shard", shard[1], 1)
    return work[check_whole("i of shard", shard[0], 0, count - 1) :: count]
