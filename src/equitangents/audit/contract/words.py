"""A map of a finite group's generators, spread over all elements along the words that spell them.

ρ(a·s) = ρ(a) ρ(s) for one word of every element; every other word then says whether ρ respects products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from equitangents.groups import Group

T = TypeVar("T")


def along_words(group: Group, of_generators: Sequence[T], unit: T, product: Callable[[T, T], T]) -> list[T]:
    """ρ(g) for every element, by its shortest word in the generators."""
    values: dict[int, T] = {int(group.identity): unit}
    reached = [int(group.identity)]
    for a in reached:  # grows while it is read
        for s, value in zip(group.generators, of_generators, strict=True):
            b = int(group.compose(a, s))
            if b not in values:
                values[b] = product(values[a], value)
                reached.append(b)
    return [values[g] for g in range(group.order)]


def products(group: Group) -> Iterator[tuple[int, int, Any]]:
    """(a, s, a·s) for every element and every generator: the relations of the group."""
    for a in range(group.order):
        for s in group.generators:
            yield a, s, int(group.compose(a, s))
