"""The files of one Zarr array: each chunk with its CRC32C, whole or not there at all.

Zarr makes and reads what a file holds (format 3, codecs `bytes` and `crc32c`; a large chunk may be a shard of smaller
ones). Names are given here: Zarr's own stores give a file its name before it is on disk, and leave what a killed
process was writing. Tiles of a matrix are chunks of several arrays; those of a symmetric one lie at both of their
places. A tile is there once all of its files are: they are named when all are on disk, those of its own place last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.extras import check_installed
from equitangents.tiles.grid import Grid, Tile
from equitangents.tiles.place import PARTIAL, File, ObjectPath, Place, write_together
from equitangents.tiles.store import DamagedTileError, State, Tiles

if TYPE_CHECKING:  # Zarr takes a while to import
    import zarr

_CHECKSUM = 4  # bytes of a CRC32C
_OFFSET = 8  # bytes of a number in the index of a shard, which has two for each chunk

Index = tuple[int, ...]


def check_library() -> None:
    """Raise MissingLibraryError where Zarr is not installed."""
    check_installed("zarr", "scale", "a store of tiles")


@dataclass(frozen=True)
class Chunks(Tiles[Index, np.ndarray]):
    """The chunks of shape `shape` in the folder of one array; of `inner`, which divides it, where each is a shard."""

    folder: Place
    shape: tuple[int, ...]
    dtype: np.dtype
    inner: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one file of a tile."""
        numbers = int(np.prod(self.shape)) * self.dtype.itemsize
        if self.inner is None:
            return numbers + _CHECKSUM
        count = int(np.prod(self.shape)) // int(np.prod(self.inner))
        return numbers + count * (_CHECKSUM + 2 * _OFFSET) + _CHECKSUM

    def path(self, index: Index) -> Place:
        """The file of one chunk."""
        return self.folder.joinpath("c", *map(str, index))

    def write(self, index: Index, values: np.ndarray) -> None:
        """Put `values` (at most a chunk's size along every axis) in place; the rest is NaN."""
        write_together([self.file(index, values)])

    def file(self, index: Index, values: np.ndarray) -> File:
        """A chunk as a file that is still to be written.

        The folder that it will lie in is made now, within the array's; FileNotFoundError where that is gone.
        """
        path = self.path(index)
        if isinstance(path, Path) and isinstance(self.folder, Path):
            os.stat(self.folder)
            path.parent.mkdir(parents=True, exist_ok=True)
        return File(path, self.folder / PARTIAL, partial(self._content, values))

    def _content(self, values: np.ndarray) -> memoryview:
        held, array, lock = _in_memory(self.shape, self.dtype, self.inner)
        # all of it: a shard leaves out chunks to which nothing is written
        whole = np.full(self.shape, array.fill_value, self.dtype)
        whole[tuple(map(slice, values.shape))] = values
        with lock:
            array[...] = whole
            return memoryview(held.pop(_key(self.shape)).as_buffer_like()).cast("B")

    def read(self, index: Index) -> np.ndarray:
        """One chunk, with NaN where nothing was written; FileNotFoundError, or DamagedTileError."""
        from zarr.core.buffer import default_buffer_prototype

        path = self.path(index)
        content = path.read_bytes()
        if len(content) != self.nbytes:
            raise DamagedTileError(f"{path} has {len(content)} bytes, not {self.nbytes}")
        held, array, lock = _in_memory(self.shape, self.dtype, self.inner)
        with lock:
            held[_key(self.shape)] = default_buffer_prototype().buffer.from_bytes(content)
            try:
                return np.asarray(array[...])
            except (ValueError, RuntimeError):  # of the codecs
                raise DamagedTileError(f"{path} does not have its checksum") from None
            finally:
                del held[_key(self.shape)]

    def is_there(self, index: Index, last: Index | None = None) -> bool:
        """Whether the file is there in its full length, and holds a number at the place `last` within the chunk."""
        path = self.path(index)
        try:
            if (path.size() if isinstance(path, ObjectPath) else os.stat(path).st_size) != self.nbytes:
                return False
            return last is None or bool(np.isfinite(self.read(index)[last]))
        except (FileNotFoundError, NotADirectoryError, DamagedTileError):
            return False

    def there(self, counts: Sequence[int]) -> np.ndarray | None:
        """Which of so many chunks along every axis are there in their full length: objects are listed, a thousand by
        one request. None for a folder, whose files are asked for one by one.
        """
        if not isinstance(self.folder, ObjectPath):
            return None
        found = np.zeros(tuple(counts), bool)
        for name, size in (self.folder / "c").sizes():
            index = tuple(int(part) for part in name.split("/") if part.isdigit())
            if len(index) == found.ndim and size == self.nbytes and all(map(int.__lt__, index, found.shape)):
                found[index] = True
        return found

    def remove(self, index: Index) -> None:
        """Remove one chunk, if it is there."""
        self.path(index).unlink(missing_ok=True)

    def metadata(self, shape: Sequence[int], attributes: dict[str, Any]) -> dict[str, Any]:
        """What the `zarr.json` of the array holds, the same for all versions of Zarr; `shape` is that of all chunks."""
        codecs: list[dict[str, Any]] = [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "crc32c"},
        ]
        if self.inner is not None:
            shard = {
                "chunk_shape": list(self.inner),
                "codecs": codecs,
                "index_codecs": codecs,
                "index_location": "end",
            }
            codecs = [{"name": "sharding_indexed", "configuration": shard}]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN" if self.dtype.kind == "f" else 0,
            "codecs": codecs,
            "attributes": attributes,
        }


def _key(shape: tuple[int, ...]) -> str:
    """The name of the chunk of an array that is one chunk."""
    return "/".join(["c", *("0" for _ in shape)])


@lru_cache(maxsize=64)
def _in_memory(
    shape: tuple[int, ...], dtype: np.dtype, inner: tuple[int, ...] | None
) -> tuple[dict[str, Any], zarr.Array[Any], Lock]:
    """An array of one chunk, the dictionary in which its files are kept, and a lock for whoever uses them."""
    import zarr
    from zarr.codecs import Crc32cCodec
    from zarr.storage import MemoryStore

    held: dict[str, Any] = {}
    array = zarr.create_array(
        MemoryStore(held),
        shape=shape,
        dtype=dtype,
        chunks=inner or shape,
        shards=None if inner is None else shape,
        compressors=Crc32cCodec(),
        fill_value=np.nan if dtype.kind == "f" else 0,
        config={"write_empty_chunks": True},
    )
    return held, array, Lock()


Values = list[np.ndarray]  # one matrix (rows, columns) for each array


@dataclass(frozen=True)
class ZarrTiles(Tiles[Tile, Values]):
    """The tiles of `grid` in `arrays`."""

    arrays: Mapping[str, Chunks]
    grid: Grid

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays' files at one place."""
        return sum(chunks.nbytes for chunks in self.arrays.values())

    def room(self, tiles: Iterable[Tile]) -> int:
        """Bytes that some tiles take, mirrored ones twice."""
        return self.nbytes * sum(len(self.grid.places(tile)) for tile in tiles)

    def is_there(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk; where rows were added to it, its last one is looked at."""
        grid = self.grid
        grew = len(grid.blocks(tile)) > 1
        for turn, place in enumerate(grid.places(tile)):
            last = None
            if grew:
                sizes = [(span.stop - 1) % grid.tile for span in grid.spans(tile)]
                last = (*(0,) * (len(tile) - 2), *(sizes if turn == 0 else sizes[::-1]))
            if not all(
                chunks.is_there(place, last) for chunks in reversed(list(self.arrays.values()))
            ):  # the last one first
                return False
        return True

    def missing(self, tiles: Iterable[Tile]) -> list[Tile]:
        """Which of `tiles` are not there; objects are listed in place of asking for each."""
        grid = self.grid
        listed = [chunks.there(grid.counts) for chunks in self.arrays.values()]
        whole = [there for there in listed if there is not None]
        if not whole:
            return super().missing(tiles)

        def is_listed(tile: Tile) -> bool:
            named = all(there[place] for there in whole for place in grid.places(tile))
            return named and (len(grid.blocks(tile)) == 1 or self.is_there(tile))

        return [tile for tile in tiles if not is_listed(tile)]

    def read(self, tile: Tile) -> Values:
        """The matrices of a tile at its own place; of one that grew, with NaN where nothing is yet."""
        return [self._cut(chunks.read(tile), tile) for chunks in self.arrays.values()]

    def known(self, tile: Tile) -> Values | None:
        """What is on disk of a tile that grew; None for one that did not grow, or is not there."""
        if len(self.grid.blocks(tile)) == 1:
            return None
        try:
            return self.read(tile)
        except (FileNotFoundError, DamagedTileError):
            return None

    def state(self, tile: Tile) -> State:
        """Whether a tile is whole, "missing" where none of its files is there or it grew, else "damaged"."""
        places = self.grid.places(tile)
        if not any(chunks.path(place).exists() for chunks in self.arrays.values() for place in places):
            return "missing"
        for chunks in self.arrays.values():
            try:
                values, *mirrored = (chunks.read(place) for place in places)
            except (DamagedTileError, OSError):
                return "damaged"
            lead = (0,) * (len(tile) - 2)
            if not np.isfinite(self._cut(values, tile)).all():
                return "missing" if len(self.grid.blocks(tile)) > 1 else "damaged"
            if not all(np.array_equal(values[lead], other[lead].T, equal_nan=True) for other in mirrored):
                return "damaged"
        return "whole"

    def write(self, tile: Tile, values: Values) -> None:
        """Put one matrix of every array where it is kept."""
        lead = (None,) * (len(tile) - 2)
        places = self.grid.places(tile)
        write_together(
            [
                chunks.file(place, (matrix if place == tile else matrix.T)[lead])
                for chunks, matrix in zip(self.arrays.values(), values, strict=True)
                for place in reversed(places)  # the mirror first: its own place, the last one, says that all is there
            ]
        )

    def remove(self, tile: Tile) -> None:
        """Remove a tile, if it is there."""
        for place in self.grid.places(tile):
            for chunks in self.arrays.values():
                chunks.remove(place)

    def _cut(self, chunk: np.ndarray, tile: Tile) -> np.ndarray:
        """What a chunk holds of the matrix."""
        rows, columns = self.grid.spans(tile)
        return chunk[(0,) * (len(tile) - 2)][: rows.stop - rows.start, : columns.stop - columns.start]
