"""Masked inputs and graphs, `et.Masked(x, mask)` and `et.Graphs(x, adjacency, mask)`, as the arrays that they hold."""

from __future__ import annotations

from typing import Any

from equitangents.actions.kinds import space_of
from equitangents.groups.names import parse_group_name
from equitangents.structured import Graphs, Masked

_PERMUTED = ("points", "nodes", "rows", "sets")
_MASKS = {"images": "masks", "sequences": "sequences", **{kind: kind for kind in _PERMUTED}}
"""What a mask is beside arrays of a kind; beside others, such as vectors, nothing moves it."""


def structured(x: Any, kinds: Any, whole: bool, name: str | None) -> tuple[Any, Any, int | None]:
    """(x, what each of its arrays is, which array is the mask); x as it is if it is neither.

    `whole`: the model takes such objects; others take their arrays as arguments, f(x, mask). `name`: of the group, if
    it was given by name. One kind stands for the array, its mask and its adjacency; without one it is what the group
    commonly moves.
    """
    if not isinstance(x, Masked | Graphs):
        return x, kinds, None
    held = (x.x, x.mask) if isinstance(x, Masked) else (x.x, x.adjacency, x.mask)
    parts = tuple(part for part in held if part is not None)
    mask = None if x.mask is None else len(parts) - 1
    if name is not None and (kinds is None or isinstance(kinds, str)):
        first = kinds or _common(name, x.x.ndim)
        own = (first,) if isinstance(x, Masked) else (first, "pairs" if first in _PERMUTED else None)
        kinds = (*own, _MASKS.get(first))[: len(parts)]
    if kinds is None or not whole:
        return (x if whole else parts), kinds, mask
    return x, type(x)(*kinds), mask


def _common(name: str, rank: int) -> str:
    """What the group called `name` moves if nobody says what arrays of this rank are."""
    space = space_of(parse_group_name("group", name))
    if rank == 4 and space in ("plane", "translations"):
        return "images"
    return {"permutations": "points", "translations": "sequences", "reversal": "sequences", "sign": "values"}.get(
        space, "vectors"
    )
