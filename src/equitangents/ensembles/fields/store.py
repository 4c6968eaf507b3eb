"""The kernel between all points of a training set on disk: two arrays, filled tile by tile, and which tiles are there.

`nngp.npy` and `ntk.npy` are (points, points) arrays that any program reads; `tiles.npy` says of each tile whether it is
complete, `checksums.npy` has the CRC32C of each; `about.json` says what they are the kernels of. A fit that was killed
goes on with the tiles that are missing, and computes damaged ones again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import google_crc32c
import numpy as np

from equitangents._types import FileName
from equitangents._version import __version__
from equitangents.claims import read_json
from equitangents.ensembles.fields.kernel import FieldKernel, PointKernel, TurningField
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.errors import InvalidTypeError, StoreError
from equitangents.files import LEFTOVER, real, whole_file
from equitangents.formatting import memory_size
from equitangents.kernels.store.key import VERSION
from equitangents.locks import alone
from equitangents.nn import Sequential
from equitangents.nn.kernel_fields import described_field
from equitangents.scale.identity import action_hash, engine_of, network_hash
from equitangents.scale.place import local
from equitangents.scale.record import differing

logger = logging.getLogger("equitangents")

_FIELDS = ("nngp", "ntk")
_ABOUT, _TILES, _SUMS = "about.json", "tiles.npy", "checksums.npy"
_LOCK = ".computing"
_BLOCK = 2**24  # bytes that are written at once
_POINTS = 2048  # of a tile's side: whole signals
_WORDS = {
    "network": "the network",
    "action": "the augmentation",
    "points": "the inputs or their positions",
    "engine": "the engine",
    "precision": "the precision",
    "tile": "the size of tiles",
    "version": "the version of equitangents",
    "numbers": "the version of the numbers",
}


class FieldStore:
    """NNGP and NTK of points x with themselves in the folder `path`, which is made if there is none.

    Raises StoreError for a folder that holds something else, or kernels of another network, other data or another
    version, and where the disk is full.
    """

    def __init__(self, path: FileName, kernel: PointKernel, x: FieldPoints) -> None:
        self.path, self.kernel, self.x = real(local("store", path)), kernel, x  # memory maps of files
        self._tile = max(1, _POINTS // x.count)  # signals
        self._checked = False  # whether every tile was found right
        self._open(_record(kernel, x, self._tile))

    @property
    def nngp(self) -> np.ndarray:
        """The NNGP, (points, points), read from the disk as it is needed."""
        return self._array("nngp")

    @property
    def ntk(self) -> np.ndarray:
        """NTK of the training set over all points, read from the folder."""
        return self._array("ntk")

    @property
    def missing(self) -> int:
        """How many tiles are not there yet."""
        return len(self._parts) * (len(self._parts) + 1) // 2 - int(np.triu(self._map(_TILES, "r") == 1).sum())

    def compute(self) -> FieldStore:
        """Compute the tiles that are missing, and return this store."""
        self._adopt()
        waiting = self._waiting()
        if waiting:  # else nothing has to be written
            self._compute(waiting)
        self._checked = True
        return self

    def _compute(self, waiting: list[tuple[int, int]]) -> None:
        try:
            with alone(self.path / _LOCK, f"another process computes the kernel in {self.path}; wait until it is done"):
                there = self._map(_TILES, "r") == 1  # another process may have been here before
                waiting = [tile for tile in waiting if not (there[tile] and self._is_right(tile))]
                self._compute_alone(waiting)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}; what is complete is kept") from None
        logger.info("field kernel: %d tiles computed, in %s", len(waiting), self.path)

    def _compute_alone(self, waiting: list[tuple[int, int]]) -> None:
        done, sums = self._map(_TILES, "r+"), self._map(_SUMS, "r+")
        arrays = {name: self._map(f"{name}.npy", "r+") for name in _FIELDS}
        for i, j in waiting:
            rows, columns = self._parts[i], self._parts[j]
            done[i, j] = False
            done.flush()
            kernels = self.kernel.kernel(self.x[rows], None if i == j else self.x[columns])
            for field, (name, array) in enumerate(arrays.items()):
                values = np.ascontiguousarray(getattr(kernels, name), array.dtype)
                if not np.isfinite(values).all():
                    raise StoreError(f"tile ({i}, {j}) of the kernel holds NaN or infinite values; it was not kept")
                array[np.ix_(rows, columns)] = values
                array[np.ix_(columns, rows)] = values.T
                array.flush()
                sums[field, i, j] = _checksum(values)
            sums.flush()
            done[i, j] = True
            done.flush()

    def _waiting(self) -> list[tuple[int, int]]:
        """The tiles that are not there, or damaged."""
        there = self._map(_TILES, "r") == 1
        damaged = [tile for tile in self._all() if there[tile] and not self._is_right(tile)]
        if damaged:
            logger.warning("field kernel: %d tiles in %s are damaged, and computed again", len(damaged), self.path)
        return [tile for tile in self._all() if not there[tile] or tile in damaged]

    def _is_right(self, tile: tuple[int, int]) -> bool:
        """Whether a tile has its checksum in both fields, and is that of the other half."""
        rows, columns = (self._parts[k] for k in tile)
        sums = self._map(_SUMS, "r")
        for field, name in enumerate(_FIELDS):
            array = self._map(f"{name}.npy", "r")
            values = np.ascontiguousarray(array[np.ix_(rows, columns)])
            if _checksum(values) != sums[(field, *tile)]:
                return False
            if tile[0] != tile[1] and not np.array_equal(values.T, array[np.ix_(columns, rows)]):
                return False
        return True

    def _adopt(self) -> None:
        """Give checksums to the tiles of an older version, which has none."""
        if (self.path / _SUMS).is_file():
            return
        logger.warning("field kernel: %s has no checksums, as older versions made it; it has them now", self.path)
        try:
            self._make(_SUMS)
            there, sums = self._map(_TILES, "r") == 1, self._map(_SUMS, "r+")
            for tile in self._all():
                if there[tile]:
                    for field, name in enumerate(_FIELDS):
                        values = self._map(f"{name}.npy", "r")[np.ix_(*(self._parts[k] for k in tile))]
                        sums[(field, *tile)] = _checksum(np.ascontiguousarray(values))
            sums.flush()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        """Where the points of each tile's signals are."""
        images = np.unique(self.x.image)
        groups = [images[start : start + self._tile] for start in range(0, len(images), self._tile)]
        return [np.flatnonzero(np.isin(self.x.image, group)) for group in groups]

    def _all(self) -> Iterator[tuple[int, int]]:
        return ((i, j) for i in range(len(self._parts)) for j in range(i, len(self._parts)))

    def _array(self, name: str) -> np.memmap[Any, np.dtype[Any]]:
        """One field, once every tile that is complete was found right."""
        if not self._checked:
            there = self._map(_TILES, "r") == 1
            wrong = [tile for tile in self._all() if there[tile] and not self._is_right(tile)]
            if wrong:
                raise StoreError(f"{self.path} is damaged in {len(wrong)} tiles, as {wrong[0]}; compute() repairs it")
            self._checked = True
        return self._map(f"{name}.npy", "r")

    def _map(self, name: str, mode: Literal["r", "r+"]) -> np.memmap[Any, np.dtype[Any]]:
        """A file as an array; StoreError unless it begins as it was made, and has its length."""
        dtype, shape = self._files[name]
        try:
            with (self.path / name).open("rb") as file:
                begins = np.lib.format.read_magic(file) == (1, 0) and np.lib.format.read_array_header_1_0(file)
                header, size = file.tell(), os.fstat(file.fileno()).st_size
            if begins != (shape, False, dtype) or size != header + math.prod(shape) * dtype.itemsize:
                raise ValueError("it does not begin, or end, as it was made")
            return np.memmap(self.path / name, dtype, mode, header, shape)
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be read or written: {error.strerror}") from None
        except Exception as error:  # of NumPy's parser: SyntaxError, TokenError and others
            said = str(error).partition("\n")[0]
            raise StoreError(
                f"{self.path} is damaged: {name}: {said}; remove the folder, and the kernel is computed again"
            ) from None

    def _make(self, name: str) -> None:
        """Make a file of zeros, for which the disk has room: a memory map of one that has none ends the process."""
        dtype, shape = self._files[name]
        described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with whole_file(self.path / name) as partial, partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, described)
            left = math.prod(shape) * dtype.itemsize
            if hasattr(os, "posix_fallocate"):
                file.flush()
                os.posix_fallocate(file.fileno(), file.tell(), left)
            else:
                while left:
                    left -= file.write(bytes(min(left, _BLOCK)))

    @cached_property
    def _files(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """By name (the dtype of the numbers, their shape)."""
        size, tiles = len(self.x), len(self._parts)
        kinds: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
            f"{name}.npy": (np.dtype(self.x.dtype), (size, size)) for name in _FIELDS
        }
        kinds |= {_TILES: (np.dtype(np.bool_), (tiles, tiles)), _SUMS: (np.dtype("<u4"), (len(_FIELDS), tiles, tiles))}
        return kinds

    def _open(self, record: dict[str, Any]) -> None:
        """Go on in a folder with the same record, or make one; the record is written last."""
        about = self.path / _ABOUT
        if about.is_file():
            held = _read(about)
            if differ := differing(_WORDS, held, record):
                raise StoreError(f"{self.path} holds a field kernel that differs in {differ}; give another")
            return
        if self.path.exists() and not (self.path.is_dir() and _unfinished(self.path)):
            raise StoreError(f"path is {str(self.path)!r}, which holds something else; give another folder")
        size, dtype = len(self.x), np.dtype(record["precision"])
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            needed, free = 2 * size**2 * dtype.itemsize, shutil.disk_usage(self.path).free
            if needed > free:
                raise StoreError(
                    f"the kernels of {size} points take {memory_size(needed)}, and the disk of {self.path} has "
                    f"{memory_size(free)} left; make room, or give a path on another disk"
                )
            for name in self._files:
                self._make(name)
            with whole_file(about) as partial:
                partial.write_text(json.dumps(record, indent=1))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None


def _record(kernel: PointKernel, x: FieldPoints, tile: int) -> dict[str, Any]:
    """What the numbers depend on, by name."""
    shape = tuple(x.signals.shape[1:])
    action = getattr(kernel, "action", None)
    base = cast(FieldKernel, getattr(kernel, "base", kernel))
    if isinstance(base.net, TurningField):
        network, engine = network_hash(base.net.net, shape), engine_of(base.net.net, shape, x.dtype)
    elif isinstance(base.net, Sequential):
        network = hashlib.sha256(described_field(base.net, shape).encode()).hexdigest()
        engine = base.net.kernel_field(np.asarray(x.signals[:1])).engine
    else:
        raise InvalidTypeError(
            f"net is {base.net!r}; a store takes networks of equitangents.nn: the content of others has no "
            "description, so that it could not tell them apart"
        )
    digest = hashlib.sha256()
    for array in (np.asarray(x.signals), x.image, x.position):
        digest.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return {
        "network": network,
        "action": None if action is None else _action_hash(action, shape),
        "points": digest.hexdigest(),
        "engine": engine,
        "precision": x.dtype.name,
        "tile": tile,
        "version": __version__,
        "numbers": VERSION,
    }


def _action_hash(action: PointAction, shape: tuple[int, ...]) -> str:
    table = hashlib.sha256(np.ascontiguousarray(action.table).tobytes()).hexdigest()
    return f"{action_hash(action.action, shape)} {table}"


def _checksum(values: np.ndarray) -> int:
    checksum: int = google_crc32c.value(values.reshape(-1).view(np.uint8))
    return checksum


def _read(about: Path) -> dict[str, Any]:
    try:
        held = read_json(about.read_bytes())
        if not isinstance(held, dict):
            raise ValueError("it holds no record")
    except ValueError as error:
        raise StoreError(f"{about} cannot be read: {error}; remove the folder, or give another") from None
    return held


def _unfinished(path: Path) -> bool:
    """Whether a folder holds nothing but what a process that died had written before its record."""
    mine = {_TILES, _SUMS, *(f"{name}.npy" for name in _FIELDS)}
    return all(file.name in mine or LEFTOVER.fullmatch(file.name) for file in path.iterdir())
