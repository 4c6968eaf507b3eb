"""Computing tiles: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from equitangents._version import __version__
from equitangents.actions import Action
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels import KernelFunction
from equitangents.kernels.store import VERSION
from equitangents.scale.record import FIELDS, Record, read_record
from equitangents.tiles.chunks import Chunks, Values, ZarrTiles
from equitangents.tiles.grid import Tile
from equitangents.tiles.place import Place
from equitangents.tiles.store import DamagedTileError, check_finite, named, store_errors

_CHECKED = 60.0  # seconds between a worker's looks at the record of the store
_INPUTS = 2**26  # bytes of inputs that a worker keeps of those that it has read
_checked: dict[tuple[Place, Record], float] = {}  # when this process looked last

Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class Work:
    """One Gram matrix to be computed into the store in `path`; it is sent to workers."""

    path: Place
    kernel: KernelFunction
    action: Action | None
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
        mine, stored = (__version__, VERSION), (self.record.version, self.record.numbers)
        if mine != stored:
            remedy = "install the version that began the store"
            raise StoreError("worker", mine, stored, remedy, verb="runs version and numbers")
        there = read_record(self.path)
        if there is None:
            raise StoreError("store", str(self.path), "a folder that this worker sees", "it may have been removed")
        if not there.grew_from(self.record):
            raise StoreError("store", str(self.path), "the one that was opened", "open it again")
        _checked[self.path, self.record] = time.monotonic()

    def check_now_and_then(self) -> None:
        """Check where this process has not done so for a minute: a thousand workers ask one file."""
        if time.monotonic() - _checked.get((self.path, self.record), -np.inf) > _CHECKED:
            self.check()

    def values(self, tile: Tile, inputs: Read | None = None) -> Values:
        """NNGP and NTK of one tile; `inputs` is used in place of ours."""
        grid, read = self.record.grid, inputs or self.inputs
        rows, columns = grid.spans(tile)
        x1, x2 = read("x1", tile[-2])[: rows.stop - rows.start], None
        if not grid.halved(tile):
            x2 = read("x1" if grid.symmetric else "x2", tile[-1])[: columns.stop - columns.start]
            x2 = x2 if self.action is None else np.asarray(self.action(tile[0], x2))
        try:
            kernels = self.kernel.kernel(x1, x2)
        except (MemoryError, MemoryLimitError):
            sizes = (len(x1), len(x1 if x2 is None else x2))
            remedy = "give a smaller tile to a new store, or run fewer workers"
            raise MemoryLimitError(named(tile), sizes, "memory for it", remedy, verb="has") from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                "engine", kernels.engine, self.record.engine, "set EQUITANGENTS_ENGINE to that of the store"
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
            raise StoreError("store", str(error), "undamaged inputs", "verify() repairs them") from None


def compute_tile(work: Work, tile: Tile) -> bool:
    """Whether this worker computed the tile; False where it was there."""
    return any([*each_computed(work, [tile])])


def each_computed(work: Work, tiles: Iterable[Tile]) -> Iterator[bool]:
    """Compute tiles in order; whether each was computed now, once it is there.

    One tile is written while the next one is computed.
    """
    files, most = work.tiles, max(work.arrays[name].nbytes for name in work.record.inputs)
    read = lru_cache(maxsize=max(2, _INPUTS // most))(work.inputs)  # tiles that follow one another share a row
    writing: Future[None] | None = None
    with gram_errors(work.path), ThreadPoolExecutor(1) as writer:
        for tile in tiles:
            work.check_now_and_then()
            values = None if files.is_there(tile) else work.values(tile, read)
            if writing is not None:
                writing.result()
                yield True
            writing = None if values is None else writer.submit(files.write, tile, values)
            if writing is None:
                yield False
        if writing is not None:
            writing.result()
            yield True


def gram_errors(path: Place) -> AbstractContextManager[None]:
    """Errors of the file system as StoreErrors that name the store in `path`."""
    return store_errors(
        f"the store in {path} cannot be read or written",
        "; what is complete there is kept, and the same call goes on from it",
        with_file=True,
    )
