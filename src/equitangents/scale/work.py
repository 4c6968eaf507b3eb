"""Computing tiles: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from equitangents._version import __version__
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels import KernelFunction
from equitangents.kernels.cost.forecast import as_part
from equitangents.kernels.store.key import VERSION
from equitangents.scale.record import FIELDS, Record, read_record
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Tile
from equitangents.tiles.store import DamagedTileError, check_finite, named, store_errors
from equitangents.tiles.store import each_computed as each_written
from equitangents.tiles.zarr_tiles import Values, ZarrTiles

_CHECKED = 60.0  # seconds between a worker's looks at the record of the store
_INPUTS = 2  # chunks of inputs that a worker keeps: tiles that follow one another share a row
_checked: dict[tuple[str, Record], float] = {}  # when this process looked last, by store

Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class Work:
    """One kernel matrix to be computed into the store in `path`; it is sent to workers."""

    path: Path
    kernel: KernelFunction
    record: Record

    @cached_property
    def arrays(self) -> dict[str, Chunks]:
        """The arrays of the store by name."""
        return self.record.arrays(self.path)

    @property
    def tiles(self) -> ZarrTiles:
        """The tiles of both kernels, as files."""
        return ZarrTiles({name: self.arrays[name] for name in FIELDS}, self.record.grid)

    def check(self) -> None:
        """Raise StoreError unless this process may write into the store."""
        if (__version__, VERSION) != (self.record.version, self.record.numbers):
            raise StoreError(
                f"this worker runs equitangents {__version__} (numbers {VERSION}), and the store was begun with "
                f"{self.record.version} (numbers {self.record.numbers}); install that version for every worker"
            )
        there = read_record(self.path)
        if there is None:
            raise StoreError(f"there is no store in {self.path} any more, or this worker does not see that folder")
        if there != self.record:
            raise StoreError(f"the store in {self.path} has been replaced by another one; open it again")
        _checked[str(self.path), self.record] = time.monotonic()

    def check_now_and_then(self) -> None:
        """Check where this process has not done so for a minute: a thousand workers ask one file."""
        if time.monotonic() - _checked.get((str(self.path), self.record), -np.inf) > _CHECKED:
            self.check()

    def values(self, tile: Tile, inputs: Read | None = None) -> Values:
        """NNGP and NTK of one tile; `inputs` is used in place of ours."""
        grid, read = self.record.grid, inputs or self.inputs
        rows, columns = grid.spans(tile)
        x1 = read("x1", tile[0])[: rows.stop - rows.start]
        x2 = None
        if not grid.halved(tile):
            x2 = read("x1" if grid.symmetric else "x2", tile[1])[: columns.stop - columns.start]
        try:
            with as_part():
                kernels = self.kernel.kernel(x1) if x2 is None else self.kernel.kernel(x1, x2)
        except (MemoryError, MemoryLimitError):
            raise MemoryLimitError(
                f"{named(tile)} does not fit in this worker's memory; give a smaller tile to a new store, or run fewer "
                "workers on a machine"
            ) from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                f"this worker computes by the {kernels.engine} engine, and the store holds numbers of the "
                f"{self.record.engine} engine; EQUITANGENTS_ENGINE={self.record.engine} asks for it"
            )
        values = [np.asarray(getattr(kernels, name), self.record.precision) for name in FIELDS]
        check_finite(tile, values)
        return values

    def inputs(self, name: str, index: int) -> np.ndarray:
        """The inputs of one row or column of tiles; where these are at the edge, NaN behind them."""
        chunks = self.arrays[name]
        try:
            return chunks.read((index, *(0,) * (len(chunks.shape) - 1)))
        except (DamagedTileError, FileNotFoundError) as error:
            raise StoreError(f"inputs of the store are damaged: {error}; verify() repairs them") from None


@dataclass(frozen=True)
class Done:
    """What a worker did: tiles that are there now, and how many of them it computed."""

    tiles: tuple[Tile, ...]
    computed: int


def compute_tiles(work: Work, tiles: Sequence[Tile]) -> Done:
    """Compute those of `tiles` that are not there yet."""
    return Done(tuple(tiles), sum(done.computed for done in each_computed(work, tiles)))


def each_computed(work: Work, tiles: Iterable[Tile]) -> Iterator[Done]:
    """What `compute_tiles` does, tile by tile, in order."""
    files = work.tiles
    read = lru_cache(maxsize=_INPUTS)(work.inputs)

    def compute(tile: Tile) -> Values | None:
        work.check_now_and_then()
        return None if files.is_there(tile) else work.values(tile, read)

    with gram_errors(work.path):
        for tile, computed in each_written(files, tiles, compute):
            yield Done((tile,), int(computed))


def gram_errors(path: Path) -> AbstractContextManager[None]:
    """Errors of the file system as StoreErrors that name the store in `path`."""
    return store_errors(
        f"the store in {path} cannot be read or written",
        "; what is complete there is kept, and the same call goes on from it",
        with_file=True,
    )
