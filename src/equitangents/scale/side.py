"""The side of the tiles of a new store: as few tiles as give workers enough to share, and each long enough.

Opening, naming and syncing the files of a tile takes about a millisecond, however large they are: tiles of fast kernels
are larger. The side depends on sizes, network and engine alone, never on a measured time: jobs that begin a store at
once agree on it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equitangents.kernels.cost import count
from equitangents.kernels.engines import choose
from equitangents.kernels.program import Positions

_LEAST, _MOST = 64, 1000  # of a side, where tiles take long
_TILES = 16  # of about so many along the longer side
LARGEST = 2000  # of a side, where tiles are fast: 16 MB in float32
_ENOUGH = 0.4  # of an engine's `quick_work`: some tenths of a second
_COPIES = 4  # matrices of a tile's size that a worker holds while it assembles and writes, NNGP and NTK each


def tile_bytes(side: int, numbers: int, itemsize: int) -> int:
    """Bytes that a worker holds beside what the kernel takes: inputs of so many numbers each, and what it writes."""
    return itemsize * (2 * _COPIES * side * side + 4 * side * numbers)


def side_of_tile(kernel: Any, shape: tuple[int, ...], dtype: np.dtype, n1: int, n2: int | None = None) -> int:
    """For n1 inputs of `shape` and n2 others (None: the same ones)."""
    longer, shorter = max(n1, n2 or n1), min(n1, n2 or n1)
    side = min(max(_LEAST, -(-longer // _TILES)), _MOST)
    enough = min(shorter, LARGEST, math.isqrt(_pairs(kernel, shape, dtype)))
    return max(side, -(-shorter // -(-shorter // enough))) if enough > side else side  # all about equally large


def _pairs(kernel: Any, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """How many pairs of inputs are enough work for a tile, where that is known; else 0."""
    if not hasattr(kernel, "lower"):
        return 0
    program = kernel.lower(shape)[1]
    if not isinstance(program.space, Positions):
        return 0
    engine = choose(program, None, dtype).engine
    work = count(engine.steps(program))
    return int(_ENOUGH * engine.quick_work / (work.element_layers + work.products * shape[-1] / 8))
