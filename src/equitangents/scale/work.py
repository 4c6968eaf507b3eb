"""Computing tiles and verifying them: what a worker does, in whatever process on whatever machine.

A worker is given a `Work` and the names of some tiles. It reads the inputs from the store, and refuses to write where
the store, its own version or its engine are not those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from equitangents._version import __version__
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.kernels import KernelFunction
from equitangents.kernels.program import VERSION
from equitangents.scale.chunks import Chunks, Tile, Values, ZarrTiles
from equitangents.scale.place import DamagedTileError, Place, store_errors
from equitangents.scale.record import FIELDS, Data, Record, read_record, write_inputs, write_metadata

_CHECKED = 60.0  # seconds between a worker's looks at the record of the store
_INPUTS = 2**26  # bytes of inputs that a worker keeps of those that it has read
_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}  # of a tile's largest entry; machines differ in the last digits
_SHOWN = 5  # tiles by name
_MORE = "Tiles outside of the sample may be wrong as well: sample=None computes all of them again."
_checked: dict[tuple[Place, Record], float] = {}  # when this process looked last

Read = Callable[[str, int], np.ndarray]


@dataclass(frozen=True)
class Work:
    """One Gram matrix to be computed into the store in `path`; it is sent to workers."""

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
        _checked[self.path, self.record] = time.monotonic()

    def check_now_and_then(self) -> None:
        """Check a folder, to which rows may be added; an object store once a minute: a thousand workers ask it."""
        last = _checked.get((self.path, self.record), -np.inf)
        if isinstance(self.path, Path) or time.monotonic() - last > _CHECKED:
            self.check()

    def values(self, tile: Tile, inputs: Read | None = None) -> Values:
        """NNGP and NTK of one tile; `inputs` is used in place of ours."""
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
    """Compute tiles in order; whether each was computed now, once it is there."""
    files, most = work.tiles, max(work.arrays[name].nbytes for name in work.record.inputs)
    read = lru_cache(maxsize=max(2, _INPUTS // most))(work.inputs)  # tiles that follow one another share a row
    with gram_errors(work.path):
        for tile in tiles:
            there = files.is_there(tile)
            if not there:
                values = work.values(tile, read)
                work.check_now_and_then()
                files.write(tile, values)
            yield not there


def gram_errors(path: Place) -> AbstractContextManager[None]:
    """Errors of the file system as StoreErrors that name the store in `path`."""
    return store_errors(
        f"the store in {path} cannot be read or written",
        "; what is complete there is kept, and the same call goes on from it",
        with_file=True,
    )


@dataclass(frozen=True)
class Verification:
    """What `GramStore.verify` found.

    `damaged` tiles do not have their checksum, are cut off or gone in part, or differ from their mirror; `wrong` ones
    have their checksum and are not what is computed again. `files` are metadata and inputs that were not as they must
    be. All these are repaired. `missing` tiles were never computed. `largest_difference` is that of the sample,
    relative to the largest entry of the tile; None without a sample.
    """

    checked: int
    missing: int
    damaged: tuple[Tile, ...]
    sampled: int
    wrong: tuple[Tile, ...]
    files: tuple[Place, ...]
    largest_difference: float | None

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged or wrong."""
        return not (self.damaged or self.wrong or self.files)

    def __str__(self) -> str:
        rows = {
            "tiles checked": self.checked,
            "not computed yet": self.missing,
            "computed again": self.sampled,
            "largest difference of these": self.largest_difference,
            "damaged": _listed(self.damaged),
            "wrong numbers": _listed(self.wrong),
            "damaged files": len(self.files),
        }
        lines = [f"{label:28}{value}" for label, value in rows.items()]
        return "\n".join([*lines, *([_MORE] if self.wrong else [])])


def verify(work: Work, data: Data, sample: int | None) -> tuple[Verification, list[Tile]]:
    """(what was found, tiles to be computed again); metadata and inputs are written again."""
    files = [*write_metadata(work.path, work.record), *write_inputs(work.path, work.record, data, thorough=True)]
    states = {tile: work.tiles.state(tile) for tile in work.record.grid.tiles()}
    whole = [tile for tile, state in states.items() if state == "whole"]
    damaged = tuple(tile for tile, state in states.items() if state == "damaged")
    again = whole
    if sample is not None and sample < len(whole):
        again = [whole[k] for k in sorted(np.random.default_rng().choice(len(whole), sample, replace=False))]
    differences = {tile: _difference(work, tile) for tile in again}
    limit = _TOLERANCE[work.record.precision]
    wrong = tuple(tile for tile, difference in differences.items() if not difference <= limit)
    found = Verification(
        checked=len(whole) + len(damaged),
        missing=sum(state == "missing" for state in states.values()),
        damaged=damaged,
        sampled=len(differences),
        wrong=wrong,
        files=tuple(files),
        largest_difference=float(np.max(list(differences.values()))) if differences else None,
    )
    return found, [*damaged, *wrong]


def _difference(work: Work, tile: Tile) -> float:
    """The largest of a tile's entries from what is computed again, relative to the largest entry."""
    errors = []
    for there, again in zip(work.tiles.read(tile), work.values(tile), strict=True):
        errors.append(np.max(np.abs(there - again)) / max(float(np.max(np.abs(again))), 1e-300))
    return float(np.max(errors))


def _listed(tiles: tuple[Tile, ...]) -> str:
    names = [str(tile) for tile in tiles[:_SHOWN]]
    return ", ".join([*names, *(["…"] if len(tiles) > _SHOWN else [])]) or "none"
