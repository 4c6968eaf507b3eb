"""The files of one Zarr array: each chunk raw and little-endian, with its CRC32C behind it, whole or not there at all.

This is Zarr's format 3 with the codecs `bytes` and `crc32c`, so that whatever reads Zarr reads it and checks it. A
large chunk may be a shard: smaller ones behind one another in one file, each with its checksum, and at its end where
each of them begins, so that a reader asks for those that it needs. Chunks that no other program reads carry zlib's
CRC-32 in its place, which needs no further library.
"""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.extras import require
from equitangents.tiles.place import ObjectPath, Place
from equitangents.tiles.store import DamagedTileError, Tiles
from equitangents.tiles.whole import PARTIAL, File, write_together

_CHECKSUM = struct.Struct("<I")
_OFFSET = np.dtype("<u8")
_BLOCK = 256  # rows and columns of a transposed matrix that are copied at once


Index = tuple[int, ...]


@dataclass(frozen=True)
class Chunks(Tiles[Index, np.ndarray]):
    """The chunks of shape `shape` in the folder of one array; of `inner`, which divides it, where each is a shard."""

    folder: Place
    shape: tuple[int, ...]
    dtype: np.dtype
    inner: tuple[int, ...] | None = None
    portable: bool = True  # for readers of Zarr; False: for this package only, without its extra `scale`

    @property
    def _crc(self) -> Callable[[Any], int]:
        if not self.portable:
            return zlib.crc32
        crc: Callable[[Any], int] = require("google_crc32c", "scale", "a Zarr file").value
        return crc

    @property
    def nbytes(self) -> int:
        """Bytes of one file of a tile."""
        each = self._each
        if self.inner is None:
            return each
        count = int(np.prod(self._counts))
        return count * (each + 2 * _OFFSET.itemsize) + _CHECKSUM.size

    @property
    def _each(self) -> int:
        """Bytes of one chunk that has a checksum of its own."""
        return int(np.prod(self.inner or self.shape)) * self.dtype.itemsize + _CHECKSUM.size

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many chunks a shard has, along every axis."""
        return tuple(whole // part for whole, part in zip(self.shape, self.inner or self.shape, strict=True))

    def _parts(self) -> Iterator[tuple[slice, tuple[slice, ...]]]:
        """(which bytes, which numbers) of every chunk that has a checksum of its own."""
        inner, each = self.inner or self.shape, self._each
        for turn, place in enumerate(itertools.product(*map(range, self._counts))):
            spans = tuple(slice(k * part, (k + 1) * part) for k, part in zip(place, inner, strict=True))
            yield slice(turn * each, (turn + 1) * each), spans

    @property
    def _stored(self) -> np.dtype:
        return self.dtype.newbyteorder("<")

    def path(self, index: Index) -> Place:
        """The file of one chunk."""
        return self.folder.joinpath("c", *map(str, index))

    def write(self, index: Index, values: np.ndarray) -> None:
        """Put `values` (at most a chunk's size along every axis) in place; the rest is NaN."""
        write_together([self.file(index, values)])

    def file(self, index: Index, values: np.ndarray, into: memoryview | None = None) -> File:
        """A chunk as a file that is still to be written; what it holds is made in the memory `into`, if there is any.

        The folder that it will lie in is made now, within the array's; FileNotFoundError where that is gone.
        """
        path = self.path(index)
        if isinstance(path, Path) and isinstance(self.folder, Path):
            os.stat(self.folder)
            path.parent.mkdir(parents=True, exist_ok=True)
        return File(path, self.folder / PARTIAL, partial(self._content, values, into))

    def _content(self, values: np.ndarray, into: memoryview | None) -> memoryview:
        content = np.empty(self.nbytes, np.uint8) if into is None else np.frombuffer(into, np.uint8, self.nbytes)
        if self.inner is None:
            self._fill(content, values, self.shape)
            return content.data
        for where, spans in self._parts():
            self._fill(content[where], values[spans], self.inner)
        index = content[where.stop :]
        index[: -_CHECKSUM.size] = self._index().view(np.uint8)
        self._seal(index)
        return content.data

    def _fill(self, content: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> None:
        """Numbers and their checksum; what `values` lack is NaN."""
        whole = content[: -_CHECKSUM.size].view(self._stored).reshape(shape)
        if values.shape != shape:
            np.copyto(whole, np.nan, casting="unsafe")
        copy(values, whole[tuple(map(slice, values.shape))])
        self._seal(content)

    def _index(self) -> np.ndarray:
        """Where each chunk of a shard begins, and how long it is: all are there, one behind another."""
        begins = np.arange(np.prod(self._counts), dtype=_OFFSET) * self._each
        return np.stack([begins, np.full_like(begins, self._each)], axis=-1).reshape(-1)

    def read(self, index: Index) -> np.ndarray:
        """One chunk, with NaN where nothing was written; FileNotFoundError, or DamagedTileError."""
        path = self.path(index)
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if len(content) != self.nbytes:
            raise DamagedTileError(f"{path} has {len(content)} bytes, not {self.nbytes}")
        if self.inner is None:
            return self._checked(path, content, self.shape).astype(self.dtype, copy=False)
        values = np.empty(self.shape, self.dtype)
        for where, spans in self._parts():
            values[spans] = self._checked(path, content[where], self.inner)
        if not np.array_equal(self._opened(path, content[where.stop :]).view(_OFFSET), self._index()):
            raise DamagedTileError(f"{path} does not say where its chunks are")
        return values

    def _checked(self, path: Place, content: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return self._opened(path, content).view(self._stored).reshape(shape)

    def _seal(self, content: np.ndarray) -> None:
        """Put the checksum behind what it is of."""
        numbers, behind = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
        behind[:] = np.frombuffer(_CHECKSUM.pack(self._crc(numbers)), np.uint8)

    def _opened(self, path: Place, content: np.ndarray) -> np.ndarray:
        """The numbers before a checksum; DamagedTileError where it is another one."""
        numbers, kept = content[: -_CHECKSUM.size], _CHECKSUM.unpack(content[-_CHECKSUM.size :].data)[0]
        if self._crc(numbers) != kept:
            raise DamagedTileError(f"{path} does not have its checksum")
        return numbers

    def is_there(self, index: Index, last: Index | None = None) -> bool:
        """Whether the file is there in its full length, and holds a number at the place `last` within the chunk."""
        path = self.path(index)
        try:
            if (path.size() if isinstance(path, ObjectPath) else os.stat(path).st_size) != self.nbytes:
                return False
            if last is None:
                return True
            start = self._offset(tuple(last))
            if isinstance(path, ObjectPath):
                content = path.read_range(start, self.dtype.itemsize)
            else:
                with path.open("rb") as file:
                    file.seek(start)
                    content = file.read(self.dtype.itemsize)
            return bool(np.isfinite(np.frombuffer(content, self._stored)).all())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _offset(self, at: tuple[int, ...]) -> int:
        """Where in the file the number `at` stands."""
        inner = self.inner or self.shape
        turn = np.ravel_multi_index([k // part for k, part in zip(at, inner, strict=True)], self._counts)
        within = np.ravel_multi_index([k % part for k, part in zip(at, inner, strict=True)], inner)
        return int(turn) * self._each + int(within) * self.dtype.itemsize

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
        """What the `zarr.json` of the array holds; `shape` is that of all chunks together."""
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


def copy(values: np.ndarray, target: np.ndarray) -> None:
    """Copy what may be a transposed matrix, block by block, so that blocks stay in the processor's cache."""
    if values.ndim < 2 or abs(values.strides[-1]) <= abs(values.strides[-2]):
        np.copyto(target, values, casting="unsafe")
        return
    for i in range(0, values.shape[-2], _BLOCK):
        for j in range(0, values.shape[-1], _BLOCK):
            block = np.s_[..., i : i + _BLOCK, j : j + _BLOCK]
            np.copyto(target[block], values[block], casting="unsafe")
