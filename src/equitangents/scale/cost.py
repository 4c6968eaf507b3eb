"""What a Gram matrix will take, before anything is made: time from the kernel's cost, bytes on disk and in memory.

The side of the tiles of a new store: as few tiles as give workers enough to share, and each long enough.

Opening, naming and syncing the files of a tile takes about a millisecond, however large they are: tiles of fast kernels
are larger. The side depends on sizes, network and engine alone, never on a measured time: jobs that begin a store at
once agree on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equitangents.formatting import FORESEEN, duration, memory_size
from equitangents.kernels.content import LoweredNetwork
from equitangents.kernels.cost import CostedKernel, KernelCost, check_dtype, count
from equitangents.kernels.engines import choose
from equitangents.kernels.program import Positions
from equitangents.tiles.chunks import Grid
from equitangents.validation import check_whole

_LEAST, _MOST = 64, 1000  # of a side, where tiles take long
_TILES = 16  # of about so many along the longer side
LARGEST = 2000  # of a side, where tiles are fast: 16 MB in float32
_ENOUGH = 0.4  # of an engine's `quick_work`: some tenths of a second
_COPIES = 4  # matrices of a tile's size that a worker holds while it assembles and writes, NNGP and NTK each


@dataclass(frozen=True)
class GramCost:
    """What computing a Gram matrix into a store takes.

    `kernel` is the cost of all pairs at once; `seconds` that of all tiles on this machine, by all its cores, within a
    factor of `kernel.uncertainty`; of a symmetric matrix the tiles on the diagonal are halved, too. `disk` is what both
    matrices and the inputs take, `memory` the peak of one worker.
    """

    kernel: KernelCost
    shape: tuple[int, int]
    tile: int
    tiles: int
    disk: int
    memory: int
    precision: str

    @property
    def seconds(self) -> float:
        """Seconds of all tiles on this machine."""
        return self.kernel.seconds

    def __str__(self) -> str:
        kernel = self.kernel
        known = kernel.uncertainty <= FORESEEN
        rows = {
            "inputs": " × ".join(map(str, self.shape)),
            "precision": self.precision,
            "engine": kernel.engine,
            "tiles": self.tiles,
            "side of a tile": self.tile,
            "time on this machine": duration(self.seconds) if known else "not known",
            "within a factor of": round(kernel.uncertainty, 1) if known else "not known",
            "on disk": memory_size(self.disk),
            "memory of a worker": memory_size(self.memory),
        }
        return "\n".join(f"{label:28}{value}" for label, value in rows.items())


def estimate(
    net: CostedKernel,
    input_shape: tuple[int, ...],
    n1: int,
    n2: int | None = None,
    *,
    precision: str = "float32",
    tile: int | None = None,
) -> GramCost:
    """The cost of the Gram matrix of n1 inputs of `input_shape` with n2 others (None: with themselves).

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> cost = et.scale.estimate(net, (3,), 1000, tile=100)
    >>> cost.tiles, cost.disk
    (55, 8012840)
    """
    n1 = check_whole("n1", n1, 1)
    n2 = None if n2 is None else check_whole("n2", n2, 1)
    dtype = np.dtype(check_dtype(precision))
    size = dtype.itemsize
    side = side_of_tile(net, input_shape, dtype, n1, n2) if tile is None else check_whole("tile", tile, 1)
    grid = Grid((n1,), None if n2 is None else (n2,), side)
    tiles = grid.tiles()
    places = sum(len(grid.places(each)) for each in tiles)
    chunks = -(-n1 // side) + (0 if n2 is None else -(-n2 // side))
    rows = side * int(np.prod(input_shape)) * size + 4
    one = net.kernel_cost(input_shape, side, side, precision)
    return GramCost(
        kernel=net.kernel_cost(input_shape, n1, n2, precision),
        shape=(n1, n1 if n2 is None else n2),
        tile=side,
        tiles=len(tiles),
        disk=2 * places * (side * side * size + 4) + chunks * rows,
        memory=one.memory + tile_bytes(side, int(np.prod(input_shape)), size),
        precision=precision,
    )


def tile_bytes(side: int, numbers: int, itemsize: int) -> int:
    """Bytes that a worker holds beside what the kernel takes: inputs of so many numbers each, and what it writes."""
    return itemsize * (2 * _COPIES * side * side + 4 * side * numbers)


def side_of_tile(kernel: object, shape: tuple[int, ...], dtype: np.dtype, n1: int, n2: int | None = None) -> int:
    """For n1 inputs of `shape` and n2 others (None: the same ones)."""
    longer, shorter = max(n1, n2 or n1), min(n1, n2 or n1)
    side = min(max(_LEAST, -(-longer // _TILES)), _MOST)
    enough = min(shorter, LARGEST, math.isqrt(_pairs(kernel, shape, dtype)))
    return max(side, -(-shorter // -(-shorter // enough))) if enough > side else side  # all about equally large


def _pairs(kernel: object, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """How many pairs of inputs are enough work for a tile, where that is known; else 0."""
    if not isinstance(kernel, LoweredNetwork):
        return 0
    program = kernel.lower(shape)[1]
    if not isinstance(program.space, Positions):
        return 0
    engine = choose(program, None, dtype).engine
    work = count(engine.steps(program))
    return int(_ENOUGH * engine.quick_work / (work.element_layers + work.products * shape[-1] / 8))
