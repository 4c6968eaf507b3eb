"""Computing tiles: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents._version import __version__
from equitangents.actions import Action
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels.cost.forecast import as_part
from equitangents.kernels.store.key import VERSION
from equitangents.scale.chunks import Chunks, DamagedChunkError
from equitangents.scale.direct import pages
from equitangents.scale.grid import Tile
from equitangents.scale.metadata import FIELDS, arrays, inputs, read_record
from equitangents.scale.place import ObjectPath, Place
from equitangents.scale.record import Record
from equitangents.scale.whole import write_together

_CHECKED = 60.0  # seconds between a worker's looks at the record of the store
_INPUTS = 2**27  # bytes of inputs that a worker keeps of those that it has read from an object store
_checked: dict[tuple[str, str, tuple[int, ...]], float] = {}  # when this process looked last, by store

Values = list[np.ndarray]  # NNGP and NTK of one tile, (rows, columns) each
Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class Work:
    """One Gram matrix to be computed into the store in `path`; it is sent to workers."""

    path: Place
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
        _checked[self._key] = time.monotonic()

    def check_now_and_then(self) -> None:
        """Check where this process has not done so for a minute: a thousand workers ask one file."""
        if time.monotonic() - _checked.get(self._key, -np.inf) > _CHECKED:
            self.check()

    @property
    def _key(self) -> tuple[str, str, tuple[int, ...]]:
        record = self.record
        return str(self.path), record.network_hash, (*record.x1.rows, *(record.x2.rows if record.x2 else ()))

    def missing(self, tiles: Sequence[Tile]) -> list[Tile]:
        """Which of `tiles` are not there; objects are listed in place of asking for each."""
        grid = self.record.grid
        listed = [self.arrays[name].there(grid.counts) for name in FIELDS]
        whole = [there for there in listed if there is not None]
        if not whole:
            return [tile for tile in tiles if not self.is_there(tile)]

        def is_listed(tile: Tile) -> bool:
            named = all(there[place] for there in whole for place in grid.places(tile))
            return named and (len(grid.blocks(tile)) == 1 or self.is_there(tile))

        return [tile for tile in tiles if not is_listed(tile)]

    def is_there(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk; where rows were added to it, its last one is looked at."""
        grid = self.record.grid
        grew = len(grid.blocks(tile)) > 1
        for turn, place in enumerate(grid.places(tile)):
            last = None
            if grew:
                sizes = [(span.stop - 1) % grid.tile for span in grid.spans(tile)]
                last = (*(0,) * (len(tile) - 2), *(sizes if turn == 0 else sizes[::-1]))
            if not all(self.arrays[name].is_there(place, last) for name in reversed(FIELDS)):  # the last one first
                return False
        return True

    def write(self, tile: Tile, values: Values, into: memoryview | None = None) -> None:
        """Write NNGP and NTK of one tile where they are kept; files are made in the memory `into` if there is any."""
        lead = (None,) * (len(tile) - 2)
        places = self.record.grid.places(tile)
        write_together(
            [
                self.arrays[name].file(place, (matrix if place == tile else matrix.T)[lead], into)
                for name, matrix in zip(FIELDS, values, strict=True)
                for place in reversed(places)  # the mirror first: its own place, the last one, says that all is there
            ]
        )

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
        if not all(map(_is_finite, values)):
            raise StoreError(f"{_named(tile)} of the kernel holds NaN or infinite values; it was not kept")
        return values

    @property
    def kept_inputs(self) -> int:
        """How many chunks of inputs a worker holds: two, and more of them where each is a request."""
        if not isinstance(self.path, ObjectPath):
            return 2
        return max(2, _INPUTS // max(self.arrays[name].nbytes for name in inputs(self.record)))

    def inputs(self, name: str, index: int) -> np.ndarray:
        """The inputs of one row or column of tiles; where these are at the edge, NaN behind them."""
        chunks = self.arrays[name]
        try:
            return chunks.read((index, *(0,) * (len(chunks.shape) - 1)))
        except (DamagedChunkError, FileNotFoundError) as error:
            raise StoreError(f"inputs of the store are damaged: {error}; verify() repairs them") from None

    def known(self, tile: Tile) -> Values | None:
        """What is on disk of a tile that grew, NaN where nothing is; None for one that did not grow."""
        rows, columns = self.record.grid.spans(tile)
        if len(self.record.grid.blocks(tile)) == 1:
            return None
        size = (slice(rows.stop - rows.start), slice(columns.stop - columns.start))
        try:
            return [self.arrays[name].read(tile)[(0,) * (len(tile) - 2)][size] for name in FIELDS]
        except (FileNotFoundError, DamagedChunkError):
            return None

    def _kernels(self, tile: Tile, x1: np.ndarray, x2: np.ndarray, same: bool) -> Values:
        if self.action is not None:
            x2 = np.asarray(self.action(tile[0], x2))
        try:
            with as_part():
                kernels = self.kernel.kernel(x1) if same else self.kernel.kernel(x1, x2)
        except (MemoryError, MemoryLimitError):
            raise MemoryLimitError(
                f"{_named(tile)}, {len(x1)} × {len(x2)} inputs, does not fit in this worker's memory; give a smaller "
                "tile to a new store, or run fewer workers on a machine"
            ) from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                f"this worker computes by the {kernels.engine} engine, and the store holds numbers of the "
                f"{self.record.engine} engine; EQUITANGENTS_ENGINE={self.record.engine} asks for it"
            )
        return [np.asarray(getattr(kernels, name), self.record.precision) for name in FIELDS]


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
    """What `compute_tiles` does, tile by tile, in order: one is written while the next one is computed."""
    try:
        with ThreadPoolExecutor(1) as writer:
            before: tuple[Tile, Future[None], float] | None = None
            read = lru_cache(maxsize=work.kept_inputs)(work.inputs)  # tiles that follow one another share a row
            memory = pages(max(work.arrays[name].nbytes for name in FIELDS))
            for tile in tiles:
                start = time.monotonic()
                work.check_now_and_then()
                there = work.is_there(tile)
                values = None if there else work.values(tile, work.known(tile), read)
                if before is not None:
                    yield _written(*before)
                    before = None
                seconds = time.monotonic() - start
                if values is None:
                    yield Done((tile,), 0, seconds)
                else:
                    before = tile, writer.submit(work.write, tile, values, memory), seconds
            if before is not None:
                yield _written(*before)
    except OSError as error:
        raise unwritable(work.path, error) from None


def _written(tile: Tile, writing: Future[None], seconds: float) -> Done:
    writing.result()
    return Done((tile,), 1, seconds)


def unwritable(path: Place, error: OSError) -> StoreError:
    """What an error of the file system says, in one line."""
    what = (error.strerror or str(error)) + (f" ({error.filename})" if error.filename else "")
    return StoreError(
        f"the store in {path} cannot be read or written: {what}; what is complete there is kept, and the same call "
        "goes on from it"
    )


def _is_finite(matrix: np.ndarray) -> bool:
    """Whether it holds neither NaN nor infinity: the sum of its squares has none then, unless these are too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        flat = matrix.reshape(-1)
        return bool(np.isfinite(np.dot(flat, flat)) or np.isfinite(matrix).all())


def _named(tile: Tile) -> str:
    return f"tile ({', '.join(map(str, tile))})"
