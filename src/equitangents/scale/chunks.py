"""The files of one Zarr array: each chunk raw and little-endian, with its CRC32C behind it, whole or not there at all.

This is Zarr's format 3 with the codecs `bytes` and `crc32c`, so that whatever reads Zarr reads it and checks it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from equitangents.scale.whole import File, write_together

_CHECKSUM = struct.Struct("<I")
_BLOCK = 256  # rows and columns of a transposed matrix that are copied at once
PARTIAL = ".partial"  # the folder in an array's where its files are written before they get their names


class DamagedChunkError(ValueError):
    """A chunk whose bytes are not those that were written."""


@dataclass(frozen=True)
class Chunks:
    """The chunks of shape `shape` in the folder of one array."""

    folder: Path
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one file of a tile."""
        return int(np.prod(self.shape)) * self.dtype.itemsize + _CHECKSUM.size

    @property
    def _stored(self) -> np.dtype:
        return self.dtype.newbyteorder("<")

    def path(self, index: Sequence[int]) -> Path:
        """The file of one chunk."""
        return self.folder.joinpath("c", *map(str, index))

    def write(self, index: Sequence[int], values: np.ndarray) -> None:
        """Put `values` (at most a chunk's size along every axis) in place; the rest is NaN."""
        write_together([self.file(index, values)])

    def file(self, index: Sequence[int], values: np.ndarray, into: memoryview | None = None) -> File:
        """The same as a file that is still to be written; what it holds is made in the memory `into`, if there is any.

        The folder that it will lie in is made now.
        """
        path = self.path(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        return File(path, self.folder / PARTIAL, partial(self._content, values, into))

    def _content(self, values: np.ndarray, into: memoryview | None) -> memoryview:
        content = np.empty(self.nbytes, np.uint8) if into is None else np.frombuffer(into, np.uint8, self.nbytes)
        numbers, checksum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
        whole = numbers.view(self._stored).reshape(self.shape)
        if values.shape != self.shape:
            np.copyto(whole, np.nan, casting="unsafe")
        copy(values, whole[tuple(map(slice, values.shape))])
        checksum[:] = np.frombuffer(_CHECKSUM.pack(google_crc32c.value(numbers)), np.uint8)
        return memoryview(content)

    def read(self, index: Sequence[int]) -> np.ndarray:
        """One chunk, with NaN where nothing was written; FileNotFoundError, or DamagedChunkError."""
        path = self.path(index)
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if len(content) != self.nbytes:
            raise DamagedChunkError(f"{path} has {len(content)} bytes, not {self.nbytes}")
        numbers, kept = content[: -_CHECKSUM.size], _CHECKSUM.unpack(content[-_CHECKSUM.size :])[0]
        if google_crc32c.value(numbers) != kept:
            raise DamagedChunkError(f"{path} does not have its checksum")
        return numbers.view(self._stored).reshape(self.shape).astype(self.dtype, copy=False)

    def is_there(self, index: Sequence[int], last: Sequence[int] | None = None) -> bool:
        """Whether the file is there in its full length, and holds a number at the place `last` within the chunk."""
        path = self.path(index)
        try:
            if os.stat(path).st_size != self.nbytes:
                return False
            if last is None:
                return True
            with path.open("rb") as file:
                file.seek(int(np.ravel_multi_index(tuple(last), self.shape)) * self.dtype.itemsize)
                number = np.frombuffer(file.read(self.dtype.itemsize), self._stored)
                return bool(np.isfinite(number).all())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, index: Sequence[int]) -> None:
        """Remove one chunk, if it is there."""
        self.path(index).unlink(missing_ok=True)

    def metadata(self, shape: Sequence[int], attributes: dict[str, Any]) -> dict[str, Any]:
        """What the `zarr.json` of the array holds; `shape` is that of all chunks together."""
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


def copy(values: np.ndarray, target: np.ndarray) -> None:
    """Copy what may be a transposed matrix, block by block, so that blocks stay in the processor's cache."""
    if values.ndim < 2 or abs(values.strides[-1]) <= abs(values.strides[-2]):
        np.copyto(target, values, casting="unsafe")
        return
    for i in range(0, values.shape[-2], _BLOCK):
        for j in range(0, values.shape[-1], _BLOCK):
            block = np.s_[..., i : i + _BLOCK, j : j + _BLOCK]
            np.copyto(target[block], values[block], casting="unsafe")
