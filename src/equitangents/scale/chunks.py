"""The files of one Zarr array: each chunk has its CRC32C, and is complete or absent.

Files are in Zarr's format 3 with codecs `bytes` and `crc32c`: the numbers, little-endian, and four bytes of checksum.
Zarr's own stores rename a file before it is on disk, and leave partial files of killed processes; here files are
renamed once they are on disk. Tiles of a matrix are chunks of several arrays; those of a symmetric one are stored at
both of their places. A tile exists once all of its files do; those at its own place are renamed last.

Tile (i, j) holds rows [i·t, (i+1)·t) and columns [j·t, (j+1)·t) of the matrix. A symmetric matrix has Θ_ji = Θ_ijᵀ: its
tiles with i ≤ j are computed, and stored again at their mirrored place.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.kernels.cost import count
from equitangents.kernels.engines import choose
from equitangents.kernels.program import Positions
from equitangents.scale.place import DamagedTileError, ObjectPath, Place, write_whole

_CHECKSUM = 4  # bytes of a CRC32C
_LEAST, _MOST = 64, 1000  # of a side, where tiles take long
_TILES = 16  # of about so many along the longer side
LARGEST = 2000  # of a side, where tiles are fast: 16 MB in float32
_ENOUGH = 0.4  # of an engine's `quick_work`: some tenths of a second
_COPIES = 4  # matrices of a tile's size that a worker holds while it assembles and writes, NNGP and NTK each

Index = tuple[int, ...]
Tile = tuple[int, int]


@dataclass(frozen=True)
class Chunks:
    """The chunks of shape `shape` in the folder of one array."""

    folder: Place
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one file."""
        return int(np.prod(self.shape)) * self.dtype.itemsize + _CHECKSUM

    def path(self, index: Index) -> Place:
        """The file of one chunk."""
        return self.folder / "/".join(("c", *map(str, index)))

    def write(self, index: Index, values: np.ndarray) -> None:
        """Store `values` (at most a chunk's size along every axis), padded with NaN.

        FileNotFoundError if the folder is gone, so that a removed store is not created again.
        """
        from google_crc32c import value

        padded = np.full(self.shape, np.nan if self.dtype.kind == "f" else 0, self._stored)
        padded[tuple(map(slice, values.shape))] = values
        content = padded.tobytes()
        if isinstance(self.folder, Path) and not self.folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))
        write_whole(self.path(index), content + value(content).to_bytes(_CHECKSUM, "little"))

    def read(self, index: Index) -> np.ndarray:
        """One chunk, with NaN beyond the values written; FileNotFoundError, or DamagedTileError."""
        from google_crc32c import value

        path = self.path(index)
        content = path.read_bytes()
        if len(content) != self.nbytes:
            raise DamagedTileError(f"{path} has {len(content)} bytes, not {self.nbytes}")
        numbers, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
        if value(numbers) != int.from_bytes(checksum, "little"):
            raise DamagedTileError(f"{path} does not have its checksum")
        return np.frombuffer(numbers, self._stored).reshape(self.shape)

    def missing(self, indices: Iterable[Index]) -> list[Index]:
        """The chunks without a file of full length; objects are listed, a thousand per request."""
        if isinstance(self.folder, ObjectPath):
            stored = {name for name, size in (self.folder / "c").sizes() if size == self.nbytes}
            return [index for index in indices if "/".join(map(str, index)) not in stored]
        return [index for index in indices if not self.is_there(index)]

    def is_there(self, index: Index) -> bool:
        """Whether the file exists with its full length."""
        path = self.path(index)
        try:
            return (path.size() if isinstance(path, ObjectPath) else os.stat(path).st_size) == self.nbytes
        except (FileNotFoundError, NotADirectoryError):
            return False

    def metadata(self, shape: Sequence[int], attributes: dict[str, Any]) -> dict[str, Any]:
        """The content of the array's `zarr.json`, equal for all versions of Zarr; `shape` is that of all chunks."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN" if self.dtype.kind == "f" else 0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "attributes": attributes,
        }

    @property
    def _stored(self) -> np.dtype:
        return self.dtype.newbyteorder("<")


@dataclass(frozen=True)
class TileGrid:
    """Tiles of `tile` × `tile` pairs.

    `rows` and `columns`: the size of the matrix; columns None: it is symmetric.

    >>> grid = TileGrid(rows=5, columns=None, tile=4)
    >>> grid.tiles(), grid.places((0, 1)), grid.spans((0, 1))
    ([(0, 0), (0, 1), (1, 1)], [(0, 1), (1, 0)], (slice(0, 4, None), slice(4, 5, None)))
    """

    rows: int
    columns: int | None
    tile: int

    @property
    def symmetric(self) -> bool:
        """Whether rows and columns are the same inputs."""
        return self.columns is None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole matrix, (N1, N2)."""
        return self.rows, self.columns or self.rows

    def tiles(self) -> list[Tile]:
        """All computed tiles."""
        down, across = (-(-size // self.tile) for size in self.shape)
        return [(i, j) for i in range(down) for j in range(i if self.symmetric else 0, across)]

    def places(self, tile: Tile) -> list[Tile]:
        """The places where a tile's values are stored: its own, and its mirror's unless that is computed, too."""
        i, j = tile
        return [tile, (j, i)] if self.symmetric and i != j else [tile]

    def spans(self, tile: Tile) -> tuple[slice, slice]:
        """The rows and columns of a tile."""
        rows, columns = (
            slice(k * self.tile, min((k + 1) * self.tile, size)) for k, size in zip(tile, self.shape, strict=True)
        )
        return rows, columns

    def halved(self, tile: Tile) -> bool:
        """Whether the tile equals its transpose, so that half of it is computed."""
        return self.symmetric and tile[0] == tile[1]


Values = list[np.ndarray]  # one matrix (rows, columns) for each array


@dataclass(frozen=True)
class ZarrTiles:
    """The tiles of `grid` in `arrays`."""

    arrays: Mapping[str, Chunks]
    grid: TileGrid

    def room(self, tiles: Iterable[Tile]) -> int:
        """Bytes of some tiles, mirrored ones counted twice."""
        each = sum(chunks.nbytes for chunks in self.arrays.values())
        return each * sum(len(self.grid.places(tile)) for tile in tiles)

    def is_there(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk."""
        places = self.grid.places(tile)
        return all(chunks.is_there(place) for place in places for chunks in reversed(list(self.arrays.values())))

    def missing(self, tiles: Sequence[Tile]) -> list[Tile]:
        """The tiles among `tiles` that are not on disk."""
        places = dict.fromkeys(place for tile in tiles for place in self.grid.places(tile))
        lacking = {place for chunks in self.arrays.values() for place in chunks.missing(places)}
        return [tile for tile in tiles if not lacking.isdisjoint(self.grid.places(tile))]

    def is_whole(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk with correct checksums, finite, and equal to their mirror's."""
        for chunks in self.arrays.values():
            try:
                values, *mirrored = (chunks.read(place) for place in self.grid.places(tile))
            except (DamagedTileError, OSError):
                return False
            rows, columns = (span.stop - span.start for span in self.grid.spans(tile))
            equal = all(np.array_equal(values, other.T, equal_nan=True) for other in mirrored)
            if not (equal and np.isfinite(values[:rows, :columns]).all()):
                return False
        return True

    def write(self, tile: Tile, values: Values) -> None:
        """Store one matrix per array at all places of the tile."""
        for chunks, matrix in zip(self.arrays.values(), values, strict=True):
            for place in reversed(self.grid.places(tile)):  # its own, the last one, says that all is there
                chunks.write(place, matrix if place == tile else matrix.T)

    def remove(self, tile: Tile) -> None:
        """Remove a tile, if it exists."""
        for place in self.grid.places(tile):
            for chunks in self.arrays.values():
                chunks.path(place).unlink(missing_ok=True)


def tile_bytes(side: int, numbers: int, itemsize: int) -> int:
    """Bytes that a worker needs in addition to the kernel: inputs of `numbers` values each, and the result."""
    return itemsize * (2 * _COPIES * side * side + 4 * side * numbers)


def side_of_tile(kernel: Any, shape: tuple[int, ...], dtype: np.dtype, n1: int, n2: int | None = None) -> int:
    """The side of the tiles of a new store, for n1 inputs of `shape` and n2 others (None: the same ones).

    Few tiles, but enough for workers to share, and each long enough: opening, renaming and syncing its files takes
    about a millisecond, whatever their size. The side depends only on sizes, network and engine, never on a
    measured time, so that jobs which create a store at the same time agree on it.
    """
    longer, shorter = max(n1, n2 or n1), min(n1, n2 or n1)
    side = min(max(_LEAST, -(-longer // _TILES)), _MOST)
    enough = min(shorter, LARGEST, math.isqrt(_pairs(kernel, shape, dtype)))
    return max(side, -(-shorter // -(-shorter // enough))) if enough > side else side  # all about equally large


def _pairs(kernel: Any, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Number of pairs of inputs that are enough work for a tile; 0 if unknown."""
    if not hasattr(kernel, "lower"):
        return 0
    program = kernel.lower(shape)[1]
    if not isinstance(program.space, Positions):
        return 0
    engine = choose(program, None, dtype).engine
    work = count(engine.plan(program))
    return int(_ENOUGH * engine.quick_work / (work.element_layers + work.products * shape[-1] / 8))
