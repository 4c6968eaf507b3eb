"""Computing tiles: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from equitangents._version import __version__
from equitangents.actions import Action
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels import KernelFunction
from equitangents.kernels.store import VERSION
from equitangents.scale.record import FIELDS, Record, read_record
from equitangents.tiles.chunks import Chunks, Values, ZarrTiles
from equitangents.tiles.grid import Tile
from equitangents.tiles.place import ObjectPath, Place
from equitangents.tiles.store import DamagedTileError, check_finite, named, store_errors
from equitangents.tiles.store import each_computed as each_written

_CHECKED = 60.0  # seconds between a worker's looks at the record of the store
_INPUTS = 2**27  # bytes of inputs that a worker keeps of those that it has read from an object store
_checked: dict[tuple[str, str, tuple[int, ...]], float] = {}  # when this process looked last, by store

Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class Work:
    """One Gram matrix to be computed into the store in `path`; it is sent to workers."""

    path: Place
    kernel: KernelFunction
    action: Action | None
    record: Record
    arrays: dict[str, Chunks] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", self.record.arrays(self.path))

    @property
    def tiles(self) -> ZarrTiles:
        """The tiles of both kernels, as files."""
        return ZarrTiles({name: self.arrays[name] for name in FIELDS}, self.record.grid)

    def check(self) -> None:
        """Raise StoreError unless this process may write into the store."""
        mine = (__version__, VERSION)
        if mine != (self.record.version, self.record.numbers):
            raise StoreError(
                "worker",
                mine,
                (self.record.version, self.record.numbers),
                "install the version that began the store",
                verb="runs version and numbers",
            )
        there = read_record(self.path)
        if there is None:
            raise StoreError("store", str(self.path), "a folder that this worker sees", "it may have been removed")
        if not there.grew_from(self.record):
            raise StoreError("store", str(self.path), "the one that was opened", "open it again")
        _checked[self._key] = time.monotonic()

    def check_now_and_then(self) -> None:
        """Check where this process has not done so for a minute: a thousand workers ask one file."""
        if time.monotonic() - _checked.get(self._key, -np.inf) > _CHECKED:
            self.check()

    @property
    def _key(self) -> tuple[str, str, tuple[int, ...]]:
        record = self.record
        return str(self.path), record.network_hash, tuple(n for x in record.inputs.values() for n in x.rows)

    def values(self, tile: Tile, known: Values | None = None, inputs: Read | None = None) -> Values:
        """NNGP and NTK of one tile; blocks that `known` holds are taken from it. `inputs` is used in place of ours."""
        grid, read = self.record.grid, inputs or self.inputs
        rows, columns = grid.spans(tile)
        halved = grid.halved(tile)
        down = read("x1", tile[-2])[: rows.stop - rows.start]
        across = down if halved else read("x1" if grid.symmetric else "x2", tile[-1])[: columns.stop - columns.start]
        blocks = grid.blocks(tile)
        if len(blocks) == 1:
            values = self._kernels(tile, down, across, halved)
        else:
            values = [np.full((len(down), len(across)), np.nan, self.record.precision) for _ in FIELDS]
            for block in blocks:
                one, two = (
                    slice(b.start - s.start, b.stop - s.start) for b, s in zip(block, (rows, columns), strict=True)
                )
                if known is not None and all(np.isfinite(matrix[one, two]).all() for matrix in known):
                    parts = [matrix[one, two] for matrix in known]
                else:
                    parts = self._kernels(tile, down[one], across[two], halved and one == two)
                for matrix, part in zip(values, parts, strict=True):
                    matrix[one, two] = part
                    if halved and one != two:
                        matrix[two, one] = part.T
        check_finite(tile, values)
        return values

    @property
    def kept_inputs(self) -> int:
        """How many chunks of inputs a worker holds: two, and more of them where each is a request."""
        if not isinstance(self.path, ObjectPath):
            return 2
        return max(2, _INPUTS // max(self.arrays[name].nbytes for name in self.record.inputs))

    def inputs(self, name: str, index: int) -> np.ndarray:
        """The inputs of one row or column of tiles; where these are at the edge, NaN behind them."""
        chunks = self.arrays[name]
        try:
            return chunks.read((index, *(0,) * (len(chunks.shape) - 1)))
        except (DamagedTileError, FileNotFoundError) as error:
            raise StoreError("store", str(error), "undamaged inputs", "verify() repairs them") from None

    def _kernels(self, tile: Tile, x1: np.ndarray, x2: np.ndarray, same: bool) -> Values:
        if self.action is not None:
            x2 = np.asarray(self.action(tile[0], x2))
        try:
            kernels = self.kernel.kernel(x1) if same else self.kernel.kernel(x1, x2)
        except (MemoryError, MemoryLimitError):
            raise MemoryLimitError(
                named(tile),
                (len(x1), len(x2)),
                "memory for it",
                "give a smaller tile to a new store, or run fewer workers",
                verb="has",
            ) from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                "engine", kernels.engine, self.record.engine, "set EQUITANGENTS_ENGINE to that of the store"
            )
        return [np.asarray(getattr(kernels, name), self.record.precision) for name in FIELDS]


def compute_tile(work: Work, tile: Tile) -> bool:
    """Whether this worker computed the tile; False where it was there."""
    return any([*each_computed(work, [tile])])


def each_computed(work: Work, tiles: Iterable[Tile]) -> Iterator[bool]:
    """Compute tiles in order; whether each was computed now, once it is there."""
    files = work.tiles
    read = lru_cache(maxsize=work.kept_inputs)(work.inputs)  # tiles that follow one another share a row

    def compute(tile: Tile) -> Values | None:
        work.check_now_and_then()
        return None if files.is_there(tile) else work.values(tile, files.known(tile), read)

    with gram_errors(work.path):
        yield from each_written(files, tiles, compute)


def gram_errors(path: Place) -> AbstractContextManager[None]:
    """Errors of the file system as StoreErrors that name the store in `path`."""
    return store_errors(
        f"the store in {path} cannot be read or written",
        "; what is complete there is kept, and the same call goes on from it",
        with_file=True,
    )
