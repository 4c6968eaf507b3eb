"""Masked inputs and graphs, `et.Masked(x, mask)` and `et.Graphs(x, adjacency, mask)`, as the arrays that they hold."""

from __future__ import annotations

from typing import Any

from equitangents.structured import Graphs, Masked


def structured(x: Any, kinds: Any, whole: bool) -> tuple[Any, Any, int | None]:
    """(x, what each of its arrays is, which array is the mask); x as it is if it is neither.

    `whole`: the model takes such objects; others take their arrays as arguments, f(x, mask). One kind stands for the
    array and its mask, and without one nodes are points, adjacencies pairs.
    """
    if not isinstance(x, Masked | Graphs):
        return x, kinds, None
    parts = (x.x, x.mask) if isinstance(x, Masked) else (x.x, x.adjacency, x.mask)
    parts = tuple(part for part in parts if part is not None)
    mask = None if x.mask is None else len(parts) - 1
    if kinds is None or isinstance(kinds, str):
        first = kinds or "points"
        own = (first, first) if isinstance(x, Masked) else (first, "pairs", first)
        kinds = own[: len(parts)]
    return (x if whole else parts), (type(x)(*kinds) if whole else tuple(kinds)), mask
