"""The files of one Zarr array (format 3, codecs `bytes` and `crc32c`): each chunk with its CRC32C, whole or not there.

Names are given here: Zarr's own stores give a file its name before it is on disk, and leave what a killed process was
writing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.extras import check_installed
from equitangents.files import PARTIAL, write_together
from equitangents.tiles.store import DamagedTileError, Tiles

_CHECKSUM = 4  # bytes of a CRC32C

Index = tuple[int, ...]


def check_library() -> None:
    """Raise MissingLibraryError where Zarr is not installed."""
    check_installed("zarr", "scale", "a store of tiles")


@dataclass(frozen=True)
class Chunks(Tiles[Index, np.ndarray]):
    """The chunks of shape `shape` in the folder of one array."""

    folder: Path
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one file of a tile."""
        return int(np.prod(self.shape)) * self.dtype.itemsize + _CHECKSUM

    def path(self, index: Index) -> Path:
        """The file of one chunk."""
        return self.folder.joinpath("c", *map(str, index))

    def write(self, index: Index, values: np.ndarray) -> None:
        """Put `values` (at most a chunk's size along every axis) in place; the rest is NaN."""
        write_together([self.file(index, values)])

    def file(self, index: Index, values: np.ndarray) -> tuple[Path, Path, Callable[[], memoryview]]:
        """A chunk as a file that is still to be written.

        The folder that it will lie in is made now, within the array's; FileNotFoundError where that is gone.
        """
        path = self.path(index)
        os.stat(self.folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path, self.folder / PARTIAL, lambda: self._content(values)

    def _content(self, values: np.ndarray) -> memoryview:
        whole = np.full(self.shape, np.nan, self._stored)
        whole[tuple(map(slice, values.shape))] = values
        numbers = whole.tobytes()
        return memoryview(numbers + _checksum(numbers))

    def read(self, index: Index) -> np.ndarray:
        """One chunk, with NaN where nothing was written; FileNotFoundError, or DamagedTileError."""
        path = self.path(index)
        content = path.read_bytes()
        if len(content) != self.nbytes:
            raise DamagedTileError(f"{path} has {len(content)} bytes, not {self.nbytes}")
        numbers = content[:-_CHECKSUM]
        if content[-_CHECKSUM:] != _checksum(numbers):
            raise DamagedTileError(f"{path} does not have its checksum")
        return np.frombuffer(numbers, self._stored).reshape(self.shape).astype(self.dtype, copy=False)

    def is_there(self, index: Index) -> bool:
        """Whether the file is there in its full length."""
        try:
            return os.stat(self.path(index)).st_size == self.nbytes
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, index: Index) -> None:
        """Remove one chunk, if it is there."""
        self.path(index).unlink(missing_ok=True)

    def metadata(self, shape: Sequence[int], attributes: dict[str, Any]) -> dict[str, Any]:
        """What the `zarr.json` of the array holds, the same for all versions of Zarr; `shape` is that of all chunks."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "attributes": attributes,
        }

    @property
    def _stored(self) -> np.dtype:
        return self.dtype.newbyteorder("<")


def _checksum(numbers: bytes) -> bytes:
    import google_crc32c  # comes with Zarr

    return int(google_crc32c.value(numbers)).to_bytes(_CHECKSUM, "little")
