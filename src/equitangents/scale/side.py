"""The side of the tiles of a new store: as few tiles as give workers enough to share, and each long enough.

Opening, naming and syncing the files of a tile takes about a millisecond, however large they are: tiles of fast kernels
are larger. The side depends on sizes, network and engine alone, never on a measured time: jobs that begin a store at
once agree on it.

In an object store every file is a request, of which a store takes some thousands a second: tiles are larger, and each
is a shard of parts that a reader can ask for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equitangents.kernels.engines import choose
from equitangents.kernels.plans.counting import count
from equitangents.kernels.program import Program

_LEAST, _MOST = 64, 1000  # of a side, where tiles take long
_TILES = 16  # of about so many along the longer side
_LARGEST, LARGEST_SHARD = 2000, 4096  # of a side, where tiles are fast: 16 and 64 MB in float32
_ENOUGH, _ENOUGH_FOR_SHARD = 0.4, 1.6  # of an engine's `quick_work`: some tenths of a second, and about a second
_PART = 1024  # of a side of what a reader asks for


def side_of_tile(
    kernel: Any, shape: tuple[int, ...], dtype: np.dtype, n1: int, n2: int | None = None, *, shard: bool = False
) -> int:
    """For n1 inputs of `shape` and n2 others (None: the same ones); `shard`: in an object store."""
    longer, shorter = max(n1, n2 or n1), min(n1, n2 or n1)
    side = min(max(_LEAST, -(-longer // _TILES)), _MOST)
    largest, work = (LARGEST_SHARD, _ENOUGH_FOR_SHARD) if shard else (_LARGEST, _ENOUGH)
    enough = min(shorter, largest, math.isqrt(_pairs(kernel, shape, dtype, work)))
    if enough > side:
        side = max(side, -(-shorter // -(-shorter // enough)))  # all about equally large
    count = -(-side // _PART) if shard else 1
    return -(-side // count) * count


def side_of_part(tile: int) -> int | None:
    """The side of the largest parts that divide a shard of side `tile`; None where it is one part.

    >>> side_of_part(4096), side_of_part(1500), side_of_part(1000), side_of_part(1511)
    (1024, 750, None, None)
    """
    fitting = [tile // count for count in range(-(-tile // _PART), tile // (_PART // 4) + 1) if tile % count == 0]
    return fitting[0] if fitting and fitting[0] < tile else None


def _pairs(kernel: Any, shape: tuple[int, ...], dtype: np.dtype, enough: float) -> int:
    """How many pairs of inputs are so much work, as a share of what is quick, where that is known; else 0."""
    if not hasattr(kernel, "lower"):
        return 0
    program = kernel.lower(shape)[1]
    if not isinstance(program, Program):
        return 0
    engine = choose(program, None, dtype).engine
    work = count(engine.steps(program))
    return int(enough * engine.quick_work / (work.element_layers + work.products * shape[-1] / 8))
