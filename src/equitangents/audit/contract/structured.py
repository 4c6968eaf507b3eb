"""Masked inputs and graphs, `et.Masked(x, mask)` and `et.Graphs(x, adjacency, mask)`, as the arrays that they hold."""

from __future__ import annotations

from typing import Any

from equitangents.structured import Graphs, Masked


def structured(x: Any, kinds: Any, whole: bool, named: bool) -> tuple[Any, Any, int | None]:
    """(x, what each of its arrays is, which array is the mask); x as it is if it is neither.

    `whole`: the model takes such objects; others take their arrays as arguments, f(x, mask). `named`: the group was
    given by name. One kind stands for the array and its mask; without one images are images, and all else are points.
    """
    if not isinstance(x, Masked | Graphs):
        return x, kinds, None
    held = (x.x, x.mask) if isinstance(x, Masked) else (x.x, x.adjacency, x.mask)
    parts = tuple(part for part in held if part is not None)
    mask = None if x.mask is None else len(parts) - 1
    if named and (kinds is None or isinstance(kinds, str)):
        first = kinds or ("images" if x.x.ndim == 4 else "points")
        also = "masks" if first == "images" else first
        own = (first, also) if isinstance(x, Masked) else (first, "pairs", also)
        kinds = own[: len(parts)]
    if kinds is None or not whole:
        return (x if whole else parts), kinds, mask
    return x, type(x)(*kinds), mask
