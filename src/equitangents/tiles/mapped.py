"""Tiles of symmetric matrices within whole arrays on disk, memory maps that any program reads: `<name>.npy`.

`tiles.npy` says of each tile whether it is complete, `checksums.npy` has the CRC-32 of each in every array.
"""

from __future__ import annotations

import logging
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equitangents.errors import StoreError
from equitangents.files import open_regular, whole_file
from equitangents.tiles.store import DamagedTileError, Tiles

logger = logging.getLogger("equitangents")

Pair = tuple[int, int]  # which rows and which columns, i ≤ j

_TILES, _SUMS = "tiles.npy", "checksums.npy"
_BLOCK = 2**24  # bytes that are written at once


class MappedTiles(Tiles[Pair, list[np.ndarray]]):
    """Tiles (i, j), i ≤ j, of the rows `parts[i]` and columns `parts[j]` of the arrays `names` in a folder."""

    def __init__(self, folder: Path, names: Sequence[str], parts: Sequence[np.ndarray], dtype: np.dtype) -> None:
        self.folder, self.names, self.parts, self.dtype = folder, names, parts, dtype

    @property
    def files(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """By name (the dtype of the numbers, their shape)."""
        size, tiles = sum(map(len, self.parts)), len(self.parts)
        found = {f"{name}.npy": (self.dtype, (size, size)) for name in self.names}
        return found | {
            _TILES: (np.dtype(np.bool_), (tiles, tiles)),
            _SUMS: (np.dtype("<u4"), (len(self.names), tiles, tiles)),
        }

    @property
    def all(self) -> list[Pair]:
        """Every tile on and above the diagonal."""
        return [(i, j) for i in range(len(self.parts)) for j in range(i, len(self.parts))]

    def is_there(self, tile: Pair) -> bool:
        """Whether a tile was completed."""
        return bool(self.map(_TILES, "r")[tile] == 1)

    def missing(self, tiles: Iterable[Pair]) -> list[Pair]:
        """Which tiles were not completed."""
        there = self.map(_TILES, "r") == 1
        return [tile for tile in tiles if not there[tile]]

    def read(self, tile: Pair) -> list[np.ndarray]:
        """The tile of every array, after its checksum was found right, and the other half to be the same."""
        rows, columns = (self.parts[k] for k in tile)
        sums, found = self.map(_SUMS, "r"), []
        for field, array in enumerate(self._arrays("r")):
            values = np.ascontiguousarray(array[np.ix_(rows, columns)])
            if _checksum(values) != sums[(field, *tile)]:
                raise DamagedTileError(f"tile {tile} in {self.folder} does not have its checksum")
            if tile[0] != tile[1] and not np.array_equal(values.T, array[np.ix_(columns, rows)]):
                raise DamagedTileError(f"tile {tile} in {self.folder} is not that of the other half")
            found.append(values)
        return found

    def write(self, tile: Pair, values: Sequence[np.ndarray]) -> None:
        """Write a tile into both halves of every array; it is there when that is on disk."""
        rows, columns = (self.parts[k] for k in tile)
        done, sums = self.map(_TILES, "r+"), self.map(_SUMS, "r+")
        done[tile] = False
        done.flush()
        for field, (array, matrix) in enumerate(zip(self._arrays("r+"), values, strict=True)):
            array[np.ix_(rows, columns)] = matrix
            array[np.ix_(columns, rows)] = matrix.T
            array.flush()
            sums[(field, *tile)] = _checksum(matrix)
        sums.flush()
        done[tile] = True
        done.flush()

    def damaged(self) -> list[Pair]:
        """Tiles that were completed, and are not what was written."""
        return [tile for tile in self.all if self.state(tile) == "damaged"]

    def map(self, name: str, mode: Literal["r", "r+"]) -> np.memmap[Any, np.dtype[Any]]:
        """A file as an array; StoreError unless it begins as it was made, and has its length."""
        dtype, shape = self.files[name]
        try:
            with open_regular(self.folder / name) as file:
                begins = np.lib.format.read_magic(file) == (1, 0) and np.lib.format.read_array_header_1_0(file)
                header, size = file.tell(), os.fstat(file.fileno()).st_size
            if begins != (shape, False, dtype) or size != header + math.prod(shape) * dtype.itemsize:
                raise ValueError("it does not begin, or end, as it was made")
            return np.memmap(self.folder / name, dtype, mode, header, shape)
        except OSError as error:
            raise StoreError(
                "path", str(self.folder / name), "a file that can be read and written", str(error.strerror)
            ) from None
        except Exception as error:  # of NumPy's parser: SyntaxError, TokenError and others
            said = str(error).partition("\n")[0]
            raise StoreError(
                "path",
                str(self.folder),
                f"an undamaged {name}",
                f"remove the folder, and the kernel is computed again: {said}",
            ) from None

    def make(self) -> None:
        """Make all files, of zeros."""
        for name in self.files:
            self._make(name)

    def _arrays(self, mode: Literal["r", "r+"]) -> Iterator[np.memmap[Any, np.dtype[Any]]]:
        return (self.map(f"{name}.npy", mode) for name in self.names)

    def _make(self, name: str) -> None:
        """Make a file of zeros, for which the disk has room: a memory map of one that has none ends the process."""
        dtype, shape = self.files[name]
        described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with whole_file(self.folder / name) as partial, partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, described)
            left = math.prod(shape) * dtype.itemsize
            if hasattr(os, "posix_fallocate"):
                file.flush()
                os.posix_fallocate(file.fileno(), file.tell(), left)
            else:
                while left:
                    left -= file.write(bytes(min(left, _BLOCK)))


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(values.reshape(-1).view(np.uint8).data)
