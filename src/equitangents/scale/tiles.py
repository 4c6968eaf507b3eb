"""Computing tiles: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._version import __version__
from equitangents.actions import Action
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels.store.key import VERSION
from equitangents.scale.chunks import Chunks, DamagedChunkError
from equitangents.scale.grid import Tile
from equitangents.scale.metadata import FIELDS, arrays, read_record
from equitangents.scale.record import Record


@dataclass(frozen=True)
class Work:
    """One Gram matrix to be computed into the store in `path`; it is sent to workers."""

    path: Path
    kernel: Any
    action: Action | None
    record: Record
    arrays: dict[str, Chunks] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", arrays(self.path, self.record))

    def check(self) -> None:
        """Raise StoreError unless this process may write into the store."""
        mine = (__version__, VERSION)
        if mine != (self.record.version, self.record.numbers):
            raise StoreError(
                f"this worker runs equitangents {mine[0]} (numbers {mine[1]}), and the store was begun with "
                f"{self.record.version} (numbers {self.record.numbers}); install that version for every worker"
            )
        there = read_record(self.path)
        if there is None:
            raise StoreError(f"there is no store in {self.path} any more, or this worker does not see that folder")
        if not there.grew_from(self.record):
            raise StoreError(f"the store in {self.path} has been replaced by another one; open it again")

    def is_there(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk; where rows were added to it, its last one is looked at."""
        grid = self.record.grid
        grew = len(grid.blocks(tile)) > 1
        for turn, place in enumerate(grid.places(tile)):
            last = None
            if grew:
                sizes = [(span.stop - 1) % grid.tile for span in grid.spans(tile)]
                last = (*(0,) * (len(tile) - 2), *(sizes if turn == 0 else sizes[::-1]))
            if not all(self.arrays[name].is_there(place, last) for name in FIELDS):
                return False
        return True

    def computed(self, tile: Tile) -> np.ndarray:
        """The values of one tile, computed but for what of it was there before rows were added."""
        return self.values(tile, self._known(tile) if len(self.record.grid.blocks(tile)) > 1 else None)

    def write(self, tile: Tile, values: np.ndarray) -> None:
        """Write NNGP and NTK of one tile, (2, rows, columns), where they are kept."""
        places = self.record.grid.places(tile)
        lead = (None,) * (len(tile) - 2)
        for name, matrix in zip(FIELDS, values, strict=True):
            for place in reversed(places):  # the mirror first: its own place, the last one, says that all is there
                turned = matrix if place == tile else matrix.T
                self.arrays[name].write(place, turned[lead])

    def values(self, tile: Tile, known: np.ndarray | None = None) -> np.ndarray:
        """NNGP and NTK of one tile, (2, rows, columns); blocks that `known`, of that shape, holds are taken from it."""
        grid = self.record.grid
        rows, columns = grid.spans(tile)
        values = np.full((2, rows.stop - rows.start, columns.stop - columns.start), np.nan, self.record.precision)
        down = self._inputs("x1", tile[-2], rows)
        across = down if grid.halved(tile) else self._inputs("x1" if grid.symmetric else "x2", tile[-1], columns)
        for block in grid.blocks(tile):
            one, two = (slice(b.start - s.start, b.stop - s.start) for b, s in zip(block, (rows, columns), strict=True))
            if known is not None and np.isfinite(known[:, one, two]).all():
                values[:, one, two] = known[:, one, two]
                continue
            values[:, one, two] = self._kernels(tile, down[one], across[two], grid.halved(tile) and one == two)
            if grid.halved(tile) and one != two:
                values[:, two, one] = values[:, one, two].transpose(0, 2, 1)
        if not np.isfinite(values).all():
            raise StoreError(f"{_named(tile)} of the kernel holds NaN or infinite values; it was not kept")
        return values

    def _kernels(self, tile: Tile, x1: np.ndarray, x2: np.ndarray, same: bool) -> np.ndarray:
        if self.action is not None:
            x2 = np.asarray(self.action(tile[0], x2))
        try:
            kernels = self.kernel.kernel(x1) if same else self.kernel.kernel(x1, x2)
        except MemoryError:
            raise MemoryLimitError(
                f"{_named(tile)}, {len(x1)} × {len(x2)} inputs, does not fit in this worker's memory; give a smaller "
                "tile to a new store, or run fewer workers on a machine"
            ) from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                f"this worker computes by the {kernels.engine} engine, and the store holds numbers of the "
                f"{self.record.engine} engine; EQUITANGENTS_ENGINE={self.record.engine} asks for it"
            )
        return np.stack([np.asarray(getattr(kernels, name), self.record.precision) for name in FIELDS])

    def _inputs(self, name: str, index: int, rows: slice) -> np.ndarray:
        chunks = self.arrays[name]
        try:
            whole = chunks.read((index, *(0,) * (len(chunks.shape) - 1)))
        except (DamagedChunkError, FileNotFoundError) as error:
            raise StoreError(f"inputs of the store are damaged: {error}; verify() repairs them") from None
        return whole[: rows.stop - rows.start]

    def _known(self, tile: Tile) -> np.ndarray | None:
        """What is on disk of a tile that grew, NaN where nothing is."""
        rows, columns = self.record.grid.spans(tile)
        size = (slice(rows.stop - rows.start), slice(columns.stop - columns.start))
        try:
            return np.stack([self.arrays[name].read(tile)[(0,) * (len(tile) - 2)][size] for name in FIELDS])
        except (FileNotFoundError, DamagedChunkError):
            return None


@dataclass(frozen=True)
class Done:
    """What a worker did: tiles that it computed, and how long that took; others were there already."""

    tiles: tuple[Tile, ...]
    computed: int
    seconds: float


def compute_tiles(work: Work, tiles: Sequence[Tile]) -> Done:
    """Compute those of `tiles` that are not there yet."""
    start = time.monotonic()
    computed = sum(done.computed for done in each_computed(work, tiles))
    return Done(tuple(tiles), computed, time.monotonic() - start)


def each_computed(work: Work, tiles: Iterable[Tile]) -> Iterator[Done]:
    """The same tile by tile, in order, each when it is on disk; one is written while the next one is computed."""
    try:
        with ThreadPoolExecutor(1) as writer:
            before: tuple[Tile, Future[None], float] | None = None
            for tile in tiles:
                start = time.monotonic()
                work.check()
                there = work.is_there(tile)
                values = None if there else work.computed(tile)
                if before is not None:
                    yield _written(*before)
                    before = None
                seconds = time.monotonic() - start
                if values is None:
                    yield Done((tile,), 0, seconds)
                else:
                    before = tile, writer.submit(work.write, tile, values), seconds
            if before is not None:
                yield _written(*before)
    except OSError as error:
        raise unwritable(work.path, error) from None


def _written(tile: Tile, writing: Future[None], seconds: float) -> Done:
    writing.result()
    return Done((tile,), 1, seconds)


def unwritable(path: Path, error: OSError) -> StoreError:
    """What an error of the file system says, in one line."""
    what = (error.strerror or str(error)) + (f" ({error.filename})" if error.filename else "")
    return StoreError(
        f"the store in {path} cannot be read or written: {what}; what is complete there is kept, and the same call "
        "goes on from it"
    )


def _named(tile: Tile) -> str:
    return f"tile ({', '.join(map(str, tile))})"
