"""The kernel between all points of a training set on disk: two arrays, filled tile by tile, and which tiles are there.

`nngp.npy` and `ntk.npy` are (points, points) arrays that any program reads; `tiles.npy` has the CRC-32 of each tile of
both, plus 2³², or 0 for one that is not complete; `about.json` says what they are the kernels of. A fit that was killed
goes on with the tiles that are missing, and computes damaged ones again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from equitangents._types import FileName
from equitangents._version import __version__
from equitangents.checksums import differing
from equitangents.ensembles.fields.kernel import FieldKernel, PointKernel, TurningField
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.errors import InvalidTypeError, StoreError
from equitangents.file_limits import read_json
from equitangents.files import LEFTOVER, file_bytes, open_regular, real, whole_file
from equitangents.kernels.store import VERSION
from equitangents.locks import alone
from equitangents.nn import Sequential
from equitangents.nn.sequential import described_field
from equitangents.scale.identity import action_hash, engine_of, network_hash
from equitangents.tiles.place import local
from equitangents.tiles.store import DamagedTileError, Tiles, check_finite, check_room, each_computed, store_errors

logger = logging.getLogger("equitangents")

Pair = tuple[int, int]  # which rows and which columns, i ≤ j

_FIELDS = ("nngp", "ntk")
_ABOUT, _LOCK, _TILES = "about.json", ".computing", "tiles.npy"
_THERE = 2**32  # added to the checksum of a tile
_BLOCK = 2**24  # bytes that are written at once
_POINTS = 2048  # of a tile's side: whole signals
_LABELS = {
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
        tile = max(1, _POINTS // x.count)  # signals
        self._tiles = _PointTiles(self.path, x.blocks(tile * x.count), np.dtype(x.dtype))
        self._checked = False  # whether every tile was found right
        self._open(_record(kernel, x, tile))

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
        return len(self._tiles.missing(self._tiles.all))

    def compute(self) -> FieldStore:
        """Compute the tiles that are missing or damaged, and return this store."""
        if damaged := self._tiles.damaged():
            logger.warning("field kernel: %d tiles in %s are damaged, and computed again", len(damaged), self.path)
        waiting = sorted([*damaged, *self._tiles.missing(self._tiles.all)])
        if waiting:  # else nothing has to be written
            with self._errors():
                self._compute(waiting)
        self._checked = True
        return self

    def _compute(self, waiting: list[Pair]) -> None:
        with alone(self.path / _LOCK, f"another process computes the kernel in {self.path}; wait until it is done"):
            waiting = [tile for tile in waiting if self._tiles.state(tile) != "whole"]  # another one may have been here
            done = list(each_computed(self._tiles, waiting, self._kernels))
        logger.info("field kernel: %d tiles computed, in %s", len(done), self.path)

    def _kernels(self, tile: Pair) -> list[np.ndarray]:
        """NNGP and NTK of one tile."""
        rows, columns = (self._tiles.parts[k] for k in tile)
        kernels = self.kernel.kernel(self.x[rows], None if tile[0] == tile[1] else self.x[columns])
        values = [np.ascontiguousarray(getattr(kernels, name), self._tiles.dtype) for name in _FIELDS]
        check_finite(tile, values)
        return values

    def _array(self, name: str) -> np.ndarray:
        """One field, once every tile that is complete was found right."""
        if not self._checked:
            if wrong := self._tiles.damaged():
                raise StoreError("path", str(self.path), "undamaged tiles", f"compute() repairs it: {wrong[0]}")
            self._checked = True
        return self._tiles.map(f"{name}.npy", "r")

    def _open(self, record: dict[str, Any]) -> None:
        """Go on in a folder with the same record, or make one; the record is written last."""
        about = self.path / _ABOUT
        if about.is_file():
            held = _read(about)
            if differ := differing(_LABELS, held, record):
                raise StoreError(
                    "path", str(self.path), "a field kernel of the same problem", f"it differs in {differ}"
                )
            return
        if self.path.exists() and not (self.path.is_dir() and self._is_unfinished()):
            raise StoreError("path", str(self.path), "a folder of a field kernel, or a new one")
        size, itemsize = len(self.x), np.dtype(record["precision"]).itemsize
        with self._errors(kept=""):
            self.path.mkdir(parents=True, exist_ok=True)
            there = f", and the disk of {self.path}"
            check_room(self.path, 2 * size**2 * itemsize, f"the kernels of {size} points take", there)
            self._tiles.make()
            with whole_file(about) as partial:
                partial.write_text(json.dumps(record, indent=1))

    def _errors(self, kept: str = "; what is complete is kept") -> AbstractContextManager[None]:
        return store_errors(f"{self.path} cannot be written", kept)

    def _is_unfinished(self) -> bool:
        """Whether the folder holds nothing but what a process that died had written before its record."""
        return all(file.name in self._tiles.files or LEFTOVER.fullmatch(file.name) for file in self.path.iterdir())


class _PointTiles(Tiles[Pair, list[np.ndarray]]):
    """Tiles (i, j), i ≤ j, of the rows `parts[i]` and columns `parts[j]` of both arrays in a folder."""

    def __init__(self, folder: Path, parts: Sequence[slice], dtype: np.dtype) -> None:
        self.folder, self.parts, self.dtype = folder, parts, dtype

    @property
    def files(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """By name (the dtype of the numbers, their shape)."""
        size, tiles = self.parts[-1].stop, len(self.parts)
        found = {f"{name}.npy": (self.dtype, (size, size)) for name in _FIELDS}
        return found | {_TILES: (np.dtype("<u8"), (len(_FIELDS), tiles, tiles))}

    @property
    def all(self) -> list[Pair]:
        """Every tile on and above the diagonal."""
        return [(i, j) for i in range(len(self.parts)) for j in range(i, len(self.parts))]

    def is_there(self, tile: Pair) -> bool:
        """Whether a tile was completed."""
        return bool(self.map(_TILES, "r")[:, *tile].all())

    def read(self, tile: Pair) -> list[np.ndarray]:
        """The tile of both arrays, after its checksum was found right, and the other half to be the same."""
        rows, columns = (self.parts[k] for k in tile)
        sums, found = self.map(_TILES, "r")[:, *tile], []
        for name, checksum in zip(_FIELDS, sums, strict=True):
            array = self.map(f"{name}.npy", "r")
            values = np.ascontiguousarray(array[rows, columns])
            if _checksum(values) != checksum:
                raise DamagedTileError(f"tile {tile} in {self.folder} does not have its checksum")
            if tile[0] != tile[1] and not np.array_equal(values.T, array[columns, rows]):
                raise DamagedTileError(f"tile {tile} in {self.folder} is not that of the other half")
            found.append(values)
        return found

    def write(self, tile: Pair, values: Sequence[np.ndarray]) -> None:
        """Write a tile into both halves of both arrays; it is there when that is on disk."""
        rows, columns = (self.parts[k] for k in tile)
        sums = self.map(_TILES, "r+")
        sums[:, *tile] = 0
        sums.flush()
        for name, matrix in zip(_FIELDS, values, strict=True):
            array = self.map(f"{name}.npy", "r+")
            array[rows, columns] = matrix
            array[columns, rows] = matrix.T
            array.flush()
        sums[:, *tile] = [_checksum(matrix) for matrix in values]
        sums.flush()

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
            raise StoreError(f"{self.folder / name} cannot be read or written: {error.strerror}") from None
        except Exception as error:  # of NumPy's parser: SyntaxError, TokenError and others
            why = str(error).partition("\n")[0]
            raise StoreError(
                f"{self.folder} is damaged: {name}: {why}; remove the folder, and the kernel is computed again"
            ) from None

    def make(self) -> None:
        """Make all files of zeros, for which the disk has room: a memory map of one that has none ends the process."""
        for name, (dtype, shape) in self.files.items():
            described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            with whole_file(self.folder / name) as partial, partial.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, described)
                left = math.prod(shape) * dtype.itemsize
                while left:
                    left -= file.write(bytes(min(left, _BLOCK)))


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(values.reshape(-1).view(np.uint8).data) + _THERE


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
            "net",
            base.net,
            remedy="a store takes networks of equitangents.nn: the content of others has no description, so "
            "that it could not tell them apart",
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


def _read(about: Path) -> dict[str, Any]:
    try:
        held = read_json(file_bytes(about))
        if not isinstance(held, dict):
            raise ValueError("it holds no record")
    except ValueError as error:
        raise StoreError(
            "path", str(about), "a record that can be read", f"remove the folder, or give another: {error}"
        ) from None
    return held
