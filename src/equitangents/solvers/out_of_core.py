"""Cholesky out of core: L in tiles on disk, column by column, each written once; resumes after an interruption.

L_jj L_jjᵀ = S_jj and L_ij = S_ij L_jj^{−ᵀ} with S_ij = A_ij − Σ_{k<j} L_ik L_jkᵀ: memory holds the tiles (j, k) of
one row, and three others.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents._types import FileName
from equitangents.errors import InvalidArgumentError, require
from equitangents.files import real
from equitangents.progress import Progress
from equitangents.scale.chunks import Chunks, Index
from equitangents.scale.place import (
    DamagedTileError,
    ObjectPath,
    Place,
    check_room,
    place,
    store_errors,
    sweep,
    write_whole,
)
from equitangents.solvers.cholesky import Factor, refined
from equitangents.solvers.definiteness import blur, largest_eigenvalue, refused
from equitangents.solvers.method import LinearSystem, Method, Respond, SolveTask
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

_SIDES = 64, 4096  # of a tile, at least and at most
_INVERSE_STEPS = 8
_RECORD = "factor.json"


@dataclass(frozen=True)
class OutOfCore(Method):
    """A tiled Cholesky factor on disk, for matrices that do not fit in memory; kept for reuse, and resumable.

    path: the folder for factors, each in a subfolder named by its matrix's hash; None: next to the `GramStore` that is
    solved. tile: side of a tile; None: chosen by the available memory.
    """

    path: FileName | None = None
    tile: int | None = None

    name: ClassVar[str] = "out-of-core"

    def __post_init__(self) -> None:
        if self.tile is not None:
            check_whole("tile", self.tile, 1)

    def memory(self, task: SolveTask) -> float:
        """Bytes of one row of tiles; half the matrix is on disk."""
        side = self.side(task.size, task.limit)
        row = -(-task.size // side) * side
        return 8 * (row * side + 8 * side**2 + task.size * (10 * task.outputs + _INVERSE_STEPS))

    def side(self, size: int, limit: int) -> int:
        """The side of a tile, such that a row of them takes a quarter of the memory."""
        wanted = self.tile or min(_SIDES[1], max(_SIDES[0], limit // (32 * size)))
        return min(size, wanted)

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Compute or resume the factor in a folder named by the matrix's hash."""
        require("google_crc32c", "scale", "a factor on disk")
        base: Place | None = None if self.path is None else place("path", self.path)
        if base is None:
            kernel = system.matrix.folder
            if kernel is None:
                remedy = "give solvers.OutOfCore(path=...), or solve a scale.GramStore (store=, --store)"
                raise InvalidArgumentError("solver", "out-of-core", "a folder for its factor", remedy)
            base = kernel.with_name(kernel.name + ".factors")
        base = base if isinstance(base, ObjectPath) else real(base)  # a link stays one
        side = self.side(task.size, task.limit)
        about = {
            "matrix": system.matrix.fingerprint(),
            "size": system.size,
            "delta": float(system.delta).hex(),
            "tile": side,
        }
        text = json.dumps(about, indent=1, sort_keys=True).encode()
        folder = base / hashlib.sha256(text).hexdigest()[:16]
        with store_errors(f"the factor in {folder} cannot be written", ""):
            if not (folder / _RECORD).exists():
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(folder / _RECORD, text)
        factor = TiledFactor(system, folder, side)
        done = len(factor.tiles) - len(factor.missing)
        logger.info("factor: %d of %d tiles are there, in %s", done, len(factor.tiles), folder)
        factor.compute()
        return partial(refined, system, factor, factor.smallest(_INVERSE_STEPS), largest_eigenvalue(system))


class TiledFactor(Factor):
    """L of Θ + δ in a folder of tiles (i, j), i ≥ j, each with its checksum; existing tiles are complete."""

    shift = 0.0
    precision = "float64"

    def __init__(self, system: LinearSystem, folder: Place, side: int) -> None:
        self._system, self.folder, self.side, self.size = system, folder, side, system.size
        self._count = -(-system.size // side)
        self._chunks = Chunks(folder, (side, side), np.dtype(np.float64))
        self._row = lru_cache(maxsize=self._count)(self._read)

    @property
    def tiles(self) -> list[Index]:
        """All tiles, in the order of their computation."""
        return [(i, j) for j in range(self._count) for i in range(j, self._count)]

    @property
    def missing(self) -> list[Index]:
        """The tiles that do not exist yet."""
        return self._chunks.missing(self.tiles)

    def compute(self) -> None:
        """Compute every missing tile."""
        missing = self.missing
        task = f"the factor in {self.folder} takes"
        check_room(self.folder, len(missing) * self._chunks.nbytes, task, " more, and the disk")
        counted = Progress(0, sum(1 + j for _, j in missing), task="factor", unit="products of tiles")
        for i, j in missing:
            self._write(i, j)
            counted.add(1 + j)
        self._row.cache_clear()
        sweep(self.folder)

    def solve(self, targets: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ Y: every tile is read twice."""
        x = targets.astype(np.float64)
        for i in range(self._count):
            rows = self._span(i)
            for k in range(i):
                x[rows] -= self._read(i, k) @ x[self._span(k)]
            x[rows] = scipy.linalg.solve_triangular(self._read(i, i), x[rows], lower=True)
        for i in reversed(range(self._count)):
            rows = self._span(i)
            for k in range(i + 1, self._count):
                x[rows] -= self._read(k, i).T @ x[self._span(k)]
            x[rows] = scipy.linalg.solve_triangular(self._read(i, i), x[rows], lower=True, trans="T")
        return x

    def _span(self, i: int) -> slice:
        return slice(i * self.side, min((i + 1) * self.side, self.size))

    def _made(self, i: int, j: int) -> np.ndarray:
        """One tile, computed from those before it."""
        rows, columns = self._span(i), self._span(j)
        left = self._system.matrix.finite(np.array(self._system.matrix.block(rows, columns), np.float64))
        if i == j:
            left[np.diag_indices_from(left)] += self._system.delta
        for k in range(j):
            left -= self._read(i, k) @ self._row(j, k).T
        if i == j:
            try:
                return np.asarray(scipy.linalg.cholesky(left, lower=True, overwrite_a=True, check_finite=False))
            except np.linalg.LinAlgError:
                pivot = float(np.linalg.eigvalsh(left)[0])
                rounding = blur(self._system, float(np.abs(left).max()) * self._system.size)
                raise refused(self._system, max(pivot, -rounding)) from None
        return np.asarray(scipy.linalg.solve_triangular(self._row(j, j), left.T, lower=True, check_finite=False).T)

    def _read(self, i: int, j: int) -> np.ndarray:
        """One tile; recomputed if damaged."""
        try:
            tile = self._chunks.read((i, j))
        except (FileNotFoundError, DamagedTileError) as error:
            if isinstance(error, DamagedTileError):
                logger.warning("factor: %s and is computed again", error)
            self._write(i, j)
            tile = self._chunks.read((i, j))
        rows, columns = self._span(i), self._span(j)
        return tile[: rows.stop - rows.start, : columns.stop - columns.start]

    def _write(self, i: int, j: int) -> None:
        made = self._made(i, j)
        kept = "; what is complete is kept, and the same call goes on from it"
        with store_errors(f"the factor in {self.folder} cannot be written", kept):
            self._chunks.write((i, j), made)
