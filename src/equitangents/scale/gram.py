"""Gram matrices on disk: NNGP and NTK of a network between many inputs, as Zarr arrays of tiles."""

from __future__ import annotations

import logging
import math
import secrets
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from equitangents._aliases import ExecutorLike
from equitangents._types import FileName, Numbers
from equitangents.kernels import KernelFunction
from equitangents.memory import check_fits
from equitangents.progress import Progress, ProgressCallback, told_by
from equitangents.scale import executors
from equitangents.scale.chunks import LARGEST, Tile, check_library, tile_bytes
from equitangents.scale.executors import part_of
from equitangents.scale.place import check_room, place, remove_all, sweep
from equitangents.scale.record import FIELDS, Data, Record, open_store, opened, precision_of, problem, read_record
from equitangents.scale.work import Verification, Work, compute_tile, each_computed, gram_errors, verify
from equitangents.validation import check_whole

if TYPE_CHECKING:  # Zarr takes a while to import
    from equitangents.scale.arrays import CheckedArray

logger = logging.getLogger("equitangents")

_A_TILE = 120  # bytes of a tile's name in a list of them


class GramStore:
    """NNGP and NTK between x1 (N1, …) and x2 (N2, …; None: x1 with itself), tile by tile in the folder `path`.

    ```python
    store = et.scale.GramStore("gram.zarr", net, x)
    store.compute(executor=4)           # killed? the same line goes on
    theta = store.ntk[:1000, :1000]     # a Zarr array; store.nngp is the other one
    ```
    The folder is a Zarr group (format 3) with the arrays `ntk` and `nngp`, (N1, N2), and the inputs. Whatever reads
    Zarr reads it; what is not computed yet is NaN. Of a symmetric matrix the upper half is computed, and written to
    both halves. Every tile carries a checksum, appears whole, and is done once it is there.

    The store knows its network, data, engine, precision and version, and is refused to another. Opened with more rows
    that begin with those it has, it grows, and computes what is new.

    Args:
        path: the folder; it is made if there is none. Also s3://bucket/name, gs:// or az:// (`equitangents[scale]`).
        net: a network of equitangents.nn, or an orbit average of one.
        x1: inputs (N1, *positions, channels); also a memory map (`numpy.load(file, mmap_mode="r")`) or a Zarr array.
        x2: other inputs (N2, *positions, channels), for a rectangular matrix.
        precision: "float32" or "float64"; None: float32 where all inputs are, else float64.
        tile: side of a tile; None: that of the store, or for a new one a sixteenth of the matrix, from 64 to 1000, and
            up to 2000 where the kernel is so fast that a tile would take less than some tenths of a second.

    Raises StoreError for a store of another problem, and where the disk is full or not to be written.

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
        check_library()
        self.path = place("path", path)
        self._data: Data = {"x1": opened("x1", x1)} | ({} if x2 is None else {"x2": opened("x2", x2)})
        if tile is not None:
            check_whole("tile", tile, 1)
        dtype = precision_of(precision, self._data)
        with self._files():
            stored = read_record(self.path)
            self._check_room(stored, dtype)
            side = stored.tile if tile is None and stored is not None else tile
            wanted = problem(net, self._data, side, dtype)
            needed = tile_bytes(wanted.tile, int(np.prod(wanted.x1.shape)), dtype.itemsize)
            task = f"a tile of {wanted.tile} × {wanted.tile} inputs"
            check_fits(task, needed, "give a smaller tile to a new store")
            record = open_store(self.path, wanted, self._data)
        self._work = Work(self.path.resolve(), net, record)

    @property
    def ntk(self) -> CheckedArray:
        """The NTK as a Zarr array that is read: (N1, N2)."""
        return self._array("ntk")

    @property
    def nngp(self) -> CheckedArray:
        """The NNGP as a Zarr array that is read: (N1, N2)."""
        return self._array("nngp")

    @property
    def array(self) -> CheckedArray:
        """The NTK, as `ntk`: what solvers take where no kernel is named."""
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
        """All tiles that are computed: (i, j); of a symmetric matrix those with i ≤ j."""
        return self._work.record.grid.tiles()

    @property
    def missing(self) -> int:
        """How many tiles are not there yet."""
        with self._files():
            return len(self._work.tiles.missing(self.tiles))

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the numbers depend on: network, data, engine, precision, version."""
        return str(self._work.record.as_json()["sha256"])

    @property
    def is_current(self) -> bool:
        """Whether the folder is there, and holds the same matrix as when this store was opened."""
        return read_record(self._work.path) == self._work.record

    def compute(
        self,
        executor: ExecutorLike | None = None,
        resume: bool = True,
        *,
        shard: tuple[int, int] | None = None,
        progress: bool | ProgressCallback | None = False,
    ) -> GramStore:
        """Compute the tiles that are not there, and return this store; the numbers are the same whoever computes them.

        Args:
            executor: who computes: None, this process; a number of processes of this machine, which share its cores; an
                executor of `concurrent.futures`, whose workers see the same folder.
            resume: False removes all tiles first.
            shard: (i, n), the i-th of n parts, 0 ≤ i < n, for job arrays: each job computes one.
            progress: True shows it on stderr; a function is called as progress(tiles that are there, all tiles, seconds
                left); False: it is logged.
        """
        executors.check_executor(executor)
        told_by(progress)
        mine = part_of(self.tiles, shard)
        with self._files():
            self._work.check()
            if not resume:
                for name in FIELDS:
                    remove_all(self.path / name / "c")
            waiting = self._work.tiles.missing(mine)
            self._check_free(self._work.tiles.room(waiting))
            turn = secrets.randbelow(len(waiting) or 1)  # two at once begin at different places, and share the rest
            waiting = waiting[turn:] + waiting[:turn]
            self._compute(waiting, len(mine), executor, progress)
            sweep(self.path)  # what processes left behind that were killed
        return self

    def verify(
        self,
        sample: int | None = 16,
        *,
        executor: ExecutorLike | None = None,
    ) -> Verification:
        """Check all metadata, inputs and checksums, recompute `sample` tiles (None: all), and repair what is wrong.

        Tiles that were never computed are counted and left to `compute`. `executor` repairs, as in `compute`.
        """
        executors.check_executor(executor)
        if sample is not None:
            check_whole("sample", sample, 0)
        with self._files():
            self._work.check()
            found, wrong = verify(self._work, self._data, sample)
            if wrong:
                for tile in wrong:
                    self._work.tiles.remove(tile)
                self._compute(wrong, len(wrong), executor, None)
            sweep(self.path)  # what processes left behind that were killed
        return found

    def __repr__(self) -> str:
        there = len(self.tiles) - self.missing
        return f"GramStore({str(self.path)!r}, shape={self.shape}, {there} of {len(self.tiles)} tiles)"

    def _compute(
        self,
        waiting: list[Tile],
        total: int,
        executor: ExecutorLike | None,
        told: bool | ProgressCallback | None,
    ) -> None:
        counted = Progress(total - len(waiting), total, told, task="gram")
        if executor is None:
            for computed in each_computed(self._work, waiting):
                counted.add(1, computed)
        else:
            executors.distribute(
                executor, partial(compute_tile, self._work), waiting, lambda computed: counted.add(1, computed)
            )
        rest = "" if counted.computed == total else ", the others were there"
        logger.info("gram: %d of %d tiles computed%s, in %s", counted.computed, total, rest, self.path)

    def _array(self, name: str) -> CheckedArray:
        from equitangents.scale.arrays import open_checked  # Zarr takes a while to import

        with self._files():
            return open_checked(self._work.path / name)

    def _check_room(self, stored: Record | None, dtype: np.dtype) -> None:
        """Before the inputs are read: StoreError where the disk has no room for their matrices, MemoryLimitError where
        the list of their tiles is too long.
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
