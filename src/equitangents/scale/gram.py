"""Gram matrices on disk: NNGP and NTK of a network between many inputs, as Zarr arrays of tiles.

A worker, in any process on any machine, gets a `GramWork` and the indices of some tiles. It reads the inputs from the
store, and raises an error if the store, its own version or its engine differ from those in the work.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from equitangents._types import FileName, Numbers
from equitangents._version import __version__
from equitangents.errors import MemoryLimitError, StoreError, require
from equitangents.kernels import KernelFunction
from equitangents.kernels.program import VERSION
from equitangents.memory import check_fits
from equitangents.progress import Progress, ProgressCallback, callback_of
from equitangents.scale import executors, record
from equitangents.scale.chunks import LARGEST, Chunks, Tile, Values, ZarrTiles, tile_bytes
from equitangents.scale.executors import ExecutorLike, part_of
from equitangents.scale.place import DamagedTileError, Place, check_room, place, remove_all, store_errors, sweep
from equitangents.scale.record import FIELDS, Data, Record, read_record
from equitangents.validation import check_whole

if TYPE_CHECKING:  # Zarr takes a while to import
    from equitangents.scale.arrays import CheckedArray

logger = logging.getLogger("equitangents")

_A_TILE = 120  # bytes of a tile's name in a list of them
_INPUTS = 2**26  # bytes of inputs that a worker keeps of those that it has read

Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class GramWork:
    """One Gram matrix to be computed into the store at `path`; it is sent to workers."""

    path: Place
    kernel: KernelFunction
    record: Record

    @cached_property
    def arrays(self) -> dict[str, Chunks]:
        """The arrays of the store by name."""
        return self.record.arrays(self.path)

    @property
    def tiles(self) -> ZarrTiles:
        """The tiles of both kernels, as files."""
        return self.record.tiles(self.path)

    def check(self) -> None:
        """Raise StoreError unless this process may write into the store."""
        mine, stored = (__version__, VERSION), (self.record.version, self.record.numbers)
        if mine != stored:
            remedy = "install the version that began the store"
            raise StoreError("worker", mine, stored, remedy, verb="runs version and numbers")
        there = read_record(self.path)
        if there is None:
            raise StoreError("store", str(self.path), "a folder that this worker sees", "it may have been removed")
        if there != self.record:
            raise StoreError("store", str(self.path), "the one that was opened, with its rows", "open it again")

    def values(self, tile: Tile, inputs: Read | None = None) -> Values:
        """NNGP and NTK of one tile; `inputs` reads inputs from elsewhere than the store."""
        grid, read = self.record.grid, inputs or self.inputs
        rows, columns = grid.spans(tile)
        x1, x2 = read("x1", tile[0])[: rows.stop - rows.start], None
        if not grid.halved(tile):
            x2 = read("x1" if grid.symmetric else "x2", tile[1])[: columns.stop - columns.start]
        try:
            kernels = self.kernel.kernel(x1, x2)
        except (MemoryError, MemoryLimitError):
            sizes = (len(x1), len(x1 if x2 is None else x2))
            remedy = "give a smaller tile to a new store, or run fewer workers"
            raise MemoryLimitError(f"tile {tile}", sizes, "memory for it", remedy, verb="has") from None
        if kernels.engine != self.record.engine:
            raise StoreError(
                "engine", kernels.engine, self.record.engine, "set EQUITANGENTS_ENGINE to that of the store"
            )
        values = [np.asarray(getattr(kernels, name), self.record.precision) for name in FIELDS]
        if not all(np.isfinite(matrix).all() for matrix in values):
            raise StoreError(f"tile {tile}", "NaN or infinite values", "finite ones", "it was not kept", verb="holds")
        return values

    def inputs(self, name: str, index: int) -> np.ndarray:
        """The inputs of one row or column of tiles, padded with NaN at the edge."""
        chunks = self.arrays[name]
        try:
            return chunks.read((index, *(0,) * (len(chunks.shape) - 1)))
        except (DamagedTileError, FileNotFoundError) as error:
            raise StoreError("store", str(error), "undamaged inputs", "compute(check=True) repairs them") from None


def compute_tile(work: GramWork, tile: Tile) -> bool:
    """Whether this worker computed the tile; False if it existed."""
    return any([*each_computed(work, [tile])])


def each_computed(work: GramWork, tiles: Iterable[Tile]) -> Iterator[bool]:
    """Compute tiles in order; yield whether each was computed now, once it is stored."""
    files, most = work.tiles, max(work.arrays[name].nbytes for name in work.record.inputs)
    read = lru_cache(maxsize=max(2, _INPUTS // most))(work.inputs)  # tiles that follow one another share a row
    with gram_errors(work.path):
        for tile in tiles:
            there = files.is_there(tile)
            if not there:
                values = work.values(tile, read)
                work.check()  # rows may have been added
                files.write(tile, values)
            yield not there


def gram_errors(path: Place) -> AbstractContextManager[None]:
    """Context in which file errors become StoreErrors that name the store at `path`."""
    return store_errors(
        f"the store in {path} cannot be read or written",
        "; what is complete there is kept, and the same call goes on from it",
    )


class GramStore:
    """NNGP and NTK between x1 (N1, …) and x2 (N2, …; None: x1 with itself), tile by tile in the folder `path`.

    ```python
    store = et.scale.GramStore("gram.zarr", net, x)
    store.compute(executor=4)           # killed? the same line goes on
    theta = store.ntk[:1000, :1000]     # a Zarr array; store.nngp is the other one
    ```
    The folder is a Zarr group (format 3) with the arrays `ntk` and `nngp`, (N1, N2), and the inputs. Any Zarr library
    can read it; entries that are not computed yet are NaN. For a symmetric matrix the upper half is computed, and
    stored in both halves. Every tile has a checksum, and exists only when complete.

    The store records network, data, engine, precision and version, and raises an error for others. Opened with more
    rows that begin with its own, it grows, and computes only the new entries.

    Args:
        path: the folder, created if needed. Also s3://bucket/name, gs:// or az:// (`equitangents[scale]`).
        net: a network of equitangents.nn, or an orbit average of one.
        x1: inputs (N1, *positions, channels); also a memory map (`numpy.load(file, mmap_mode="r")`) or a Zarr array.
        x2: other inputs (N2, *positions, channels), for a rectangular matrix.
        precision: "float32" or "float64"; None: float32 if all inputs are, else float64.
        tile: side of a tile; None: that of the store, or for a new one a sixteenth of the matrix, from 64 to 1000, and
            up to 2000 if the kernel is so fast that a tile would take less than some tenths of a second.

    Raises StoreError for a store of another problem, and if the disk is full or read-only.

    >>> import tempfile, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> x = np.random.default_rng(0).normal(size=(5, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = et.scale.GramStore(folder + "/gram.zarr", net, x, tile=2).compute()
    ...     len(store.tiles), store.missing, bool(np.allclose(store.array[:], net.kernel(x).ntk))
    (6, 0, True)
    """

    def __init__(
        self,
        path: FileName,
        net: KernelFunction,
        x1: Numbers,
        x2: Numbers | None = None,
        *,
        tile: int | None = None,
        precision: str | None = None,
    ) -> None:
        require("google_crc32c", "scale", "a store of tiles")
        self.path = place("path", path)
        self._data: Data = {"x1": record.opened("x1", x1)} | ({} if x2 is None else {"x2": record.opened("x2", x2)})
        if tile is not None:
            check_whole("tile", tile, 1)
        dtype = record.precision_of(precision, self._data)
        with self._files():
            stored = read_record(self.path)
            self._check_room(stored, dtype)
            side = stored.tile if tile is None and stored is not None else tile
            wanted = record.problem(net, self._data, side, dtype)
            needed = tile_bytes(wanted.tile, int(np.prod(wanted.x1.shape)), dtype.itemsize)
            task = f"a tile of {wanted.tile} × {wanted.tile} inputs"
            check_fits(task, needed, "give a smaller tile to a new store")
            there = record.open_store(self.path, wanted, self._data)
        self._work = GramWork(self.path.resolve(), net, there)

    @property
    def ntk(self) -> CheckedArray:
        """The NTK as a read-only Zarr array, (N1, N2)."""
        return self._array("ntk")

    @property
    def nngp(self) -> CheckedArray:
        """The NNGP as a read-only Zarr array, (N1, N2)."""
        return self._array("nngp")

    @property
    def array(self) -> CheckedArray:
        """The NTK, as `ntk`: the default kernel for solvers."""
        return self.ntk

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of each matrix, (N1, N2)."""
        return self._work.record.grid.shape

    @property
    def tile(self) -> int:
        """The side of a tile."""
        return self._work.record.tile

    @property
    def tiles(self) -> list[Tile]:
        """All computed tiles (i, j); for a symmetric matrix those with i ≤ j."""
        return self._work.record.grid.tiles()

    @property
    def missing(self) -> int:
        """Number of tiles that are not computed yet."""
        with self._files():
            return len(self._work.tiles.missing(self.tiles))

    @property
    def fingerprint(self) -> str:
        """A hash of everything that determines the numbers: network, data, engine, precision, version."""
        return str(self._work.record.as_json()["sha256"])

    @property
    def is_current(self) -> bool:
        """Whether the folder exists and holds the same matrix as when this store was opened."""
        return read_record(self._work.path) == self._work.record

    def compute(
        self,
        executor: ExecutorLike | None = None,
        resume: bool = True,
        *,
        shard: tuple[int, int] | None = None,
        check: bool = False,
        progress: bool | ProgressCallback | None = False,
    ) -> GramStore:
        """Compute the missing tiles, and return this store; the numbers do not depend on who computes them.

        Args:
            executor: None: this process; an integer: a number of processes on this machine, which share its cores; or
                an executor of `concurrent.futures`, whose workers see the same folder.
            resume: False removes all tiles first.
            shard: (i, n), the i-th of n parts, 0 ≤ i < n, for job arrays: each job computes one.
            check: verify the checksums of metadata, inputs and existing tiles, and repair damage.
            progress: True shows it on stderr; a function is called as progress(finished tiles, all tiles, seconds
                left); False: it is logged.
        """
        executors.check_executor(executor)
        callback_of(progress)
        mine = part_of(self.tiles, shard)
        with self._files():
            self._work.check()
            if not resume:
                for name in FIELDS:
                    remove_all(self.path / name / "c")
            if check:
                record.write_metadata(self._work.path, self._work.record)
                record.write_inputs(self._work.path, self._work.record, self._data, thorough=True)
                for tile in mine:
                    if not self._work.tiles.is_whole(tile):
                        self._work.tiles.remove(tile)
            waiting = self._work.tiles.missing(mine)
            self._check_free(self._work.tiles.room(waiting))
            turn = secrets.randbelow(len(waiting) or 1)  # two at once begin at different places, and share the rest
            waiting = waiting[turn:] + waiting[:turn]
            counted = Progress(len(mine) - len(waiting), len(mine), progress, task="gram")
            if executor is None:
                for computed in each_computed(self._work, waiting):
                    counted.add(1, computed)
            else:
                run = partial(compute_tile, self._work)
                executors.distribute(executor, run, waiting, lambda computed: counted.add(1, computed))
            rest = "" if counted.computed == len(mine) else ", the others were there"
            logger.info("gram: %d of %d tiles computed%s, in %s", counted.computed, len(mine), rest, self.path)
            sweep(self.path)  # what processes left behind that were killed
        return self

    def __repr__(self) -> str:
        there = len(self.tiles) - self.missing
        return f"GramStore({str(self.path)!r}, shape={self.shape}, {there} of {len(self.tiles)} tiles)"

    def _array(self, name: str) -> CheckedArray:
        from equitangents.scale.arrays import open_checked  # Zarr takes a while to import

        with self._files():
            return open_checked(self._work.path / name)

    def _check_room(self, stored: Record | None, dtype: np.dtype) -> None:
        """Before reading the inputs: StoreError if the disk has no room for the matrices, MemoryLimitError if the list
        of tiles is too long.
        """
        sizes = [x.shape[0] for x in self._data.values()]
        needed = 2 * dtype.itemsize * sizes[0] * sizes[-1]
        tiles = math.prod(-(-size // LARGEST) for size in (sizes[0], sizes[-1]))
        check_fits(
            f"the list of the tiles of {sizes[0]:,} × {sizes[-1]:,} inputs", _A_TILE * tiles, "give fewer inputs"
        )
        if stored is not None:
            needed -= 2 * np.dtype(stored.precision).itemsize * math.prod(stored.grid.shape)
        self._check_free(needed)

    def _check_free(self, needed: int) -> None:
        check_room(self.path, needed, f"the tiles that are missing in {self.path} take")

    def _files(self) -> AbstractContextManager[None]:
        return gram_errors(self.path)
