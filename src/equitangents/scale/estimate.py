"""What a Gram matrix will take, before anything is made: time from the kernel's cost, bytes on disk and in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.formatting import duration, memory_size
from equitangents.kernels import KernelCost
from equitangents.kernels.cost.forecast import CostedKernel, check_dtype
from equitangents.scale.grid import Grid
from equitangents.scale.side import side_of_tile
from equitangents.validation import check_whole

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
        return (
            f"{self.shape[0]:,} × {self.shape[1]:,} inputs, NNGP and NTK in {self.precision}: {self.tiles:,} tiles of "
            f"{self.tile} × {self.tile}, about {duration(self.seconds)} on this machine by the {self.kernel.engine} "
            f"engine (within a factor of {self.kernel.uncertainty:.1f}); {memory_size(self.disk)} on disk, at most "
            f"{memory_size(self.memory)} of memory for each worker"
        )


def estimate(
    net: CostedKernel,
    shape: tuple[int, ...],
    n1: int,
    n2: int | None = None,
    *,
    precision: str = "float32",
    tile: int | None = None,
) -> GramCost:
    """The cost of the Gram matrix of n1 inputs of `shape` with n2 others (None: with themselves).

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
    side = side_of_tile(net, shape, dtype, n1, n2) if tile is None else check_whole("tile", tile, 1)
    grid = Grid((n1,), None if n2 is None else (n2,), side)
    tiles = grid.tiles()
    places = sum(len(grid.places(each)) for each in tiles)
    chunks = -(-n1 // side) + (0 if n2 is None else -(-n2 // side))
    rows = side * int(np.prod(shape)) * size + 4
    one = net.kernel_cost(shape, side, side, precision)
    return GramCost(
        kernel=net.kernel_cost(shape, n1, n2, precision),
        shape=(n1, n1 if n2 is None else n2),
        tile=side,
        tiles=len(tiles),
        disk=2 * places * (side * side * size + 4) + chunks * rows,
        memory=one.memory + tile_bytes(side, int(np.prod(shape)), size),
        precision=precision,
    )


def tile_bytes(side: int, numbers: int, itemsize: int) -> int:
    """Bytes that a worker holds beside what the kernel takes: inputs of so many numbers each, and what it writes."""
    return itemsize * (2 * _COPIES * side * side + 4 * side * numbers)
