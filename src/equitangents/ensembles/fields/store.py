"""The kernel between all points of a training set on disk: two arrays, filled tile by tile, and which tiles are there.

`nngp.npy` and `ntk.npy` are (points, points) arrays that any program reads; `tiles.npy` says of each tile whether it is
complete; `about.json` says what they are the kernels of. A fit that was killed goes on with the tiles that are missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._types import FileName
from equitangents._version import __version__
from equitangents.ensembles.fields.action import PointAction
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.turning import TurningField
from equitangents.errors import InvalidTypeError, StoreError
from equitangents.files import LEFTOVER, whole_file
from equitangents.formatting import memory_size
from equitangents.kernels.store.key import VERSION
from equitangents.nn import Sequential
from equitangents.nn.kernel_fields import described_field
from equitangents.scale.identity import action_hash, engine_of, network_hash
from equitangents.scale.place import local

logger = logging.getLogger("equitangents")

_FIELDS = ("nngp", "ntk")
_ABOUT, _TILES = "about.json", "tiles.npy"
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

    def __init__(self, path: FileName, kernel: Any, x: FieldPoints) -> None:
        self.path, self.kernel, self.x = local("store", path), kernel, x  # memory maps of files
        self._tile = max(1, _POINTS // x.count)  # signals
        self._open(_record(kernel, x, self._tile))

    @property
    def nngp(self) -> np.ndarray:
        """The NNGP, (points, points), read from the disk as it is needed."""
        return self._array("nngp", "r")

    @property
    def ntk(self) -> np.ndarray:
        """NTK of the training set over all points, read from the folder."""
        return self._array("ntk", "r")

    @property
    def missing(self) -> int:
        """How many tiles are not there yet."""
        return len(self._parts) * (len(self._parts) + 1) // 2 - int(np.triu(np.load(self.path / _TILES)).sum())

    def compute(self) -> FieldStore:
        """Compute the tiles that are missing, and return this store."""
        there = np.load(self.path / _TILES)
        waiting = [(i, j) for i, j in self._all() if not there[i, j]]
        if not waiting:  # also where nothing may be written
            return self
        try:
            done = np.lib.format.open_memmap(self.path / _TILES, "r+")
            arrays = {name: self._array(name, "r+") for name in _FIELDS}
            for i, j in waiting:
                rows, columns = self._parts[i], self._parts[j]
                kernels = self.kernel.kernel(self.x[rows], None if i == j else self.x[columns])
                for name, array in arrays.items():
                    values = np.asarray(getattr(kernels, name))
                    if not np.isfinite(values).all():
                        raise StoreError(f"tile ({i}, {j}) of the kernel holds NaN or infinite values; it was not kept")
                    array[np.ix_(rows, columns)] = values
                    array[np.ix_(columns, rows)] = values.T
                    array.flush()
                done[i, j] = True
                done.flush()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}; what is complete is kept") from None
        logger.info("field kernel: %d tiles computed, in %s", len(waiting), self.path)
        return self

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        """Where the points of each tile's signals are."""
        images = np.unique(self.x.image)
        groups = [images[start : start + self._tile] for start in range(0, len(images), self._tile)]
        return [np.flatnonzero(np.isin(self.x.image, group)) for group in groups]

    def _all(self) -> Iterator[tuple[int, int]]:
        return ((i, j) for i in range(len(self._parts)) for j in range(i, len(self._parts)))

    def _array(self, name: str, mode: str) -> np.memmap[Any, np.dtype[Any]]:
        found: np.memmap[Any, np.dtype[Any]] = np.lib.format.open_memmap(self.path / f"{name}.npy", mode)
        return found

    def _open(self, record: dict[str, Any]) -> None:
        """Go on in a folder with the same record, or make one; the record is written last."""
        about = self.path / _ABOUT
        if about.is_file():
            held = _read(about)
            differ = [words for name, words in _WORDS.items() if held.get(name) != record[name]]
            if differ:
                raise StoreError(f"{self.path} holds a field kernel that differs in {', '.join(differ)}; give another")
            return
        if self.path.exists() and not (self.path.is_dir() and _unfinished(self.path)):
            raise StoreError(f"path is {str(self.path)!r}, which holds something else; give another folder")
        size, tiles, dtype = len(self.x), len(self._parts), np.dtype(record["precision"])
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            needed, free = 2 * size**2 * dtype.itemsize, shutil.disk_usage(self.path).free
            if needed > free:
                raise StoreError(
                    f"the kernels of {size} points take {memory_size(needed)}, and the disk of {self.path} has "
                    f"{memory_size(free)} left; make room, or give a path on another disk"
                )
            for name in _FIELDS:
                np.lib.format.open_memmap(self.path / f"{name}.npy", "w+", dtype, (size, size)).flush()
            np.lib.format.open_memmap(self.path / _TILES, "w+", np.bool_, (tiles, tiles)).flush()
            with whole_file(about) as partial:
                partial.write_text(json.dumps(record, indent=1))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None


def _record(kernel: Any, x: FieldPoints, tile: int) -> dict[str, Any]:
    """What the numbers depend on, by name."""
    shape = tuple(x.signals.shape[1:])
    action = getattr(kernel, "action", None)
    base: FieldKernel = getattr(kernel, "base", kernel)
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


def _read(about: Path) -> dict[str, Any]:
    try:
        held: dict[str, Any] = json.loads(about.read_bytes())
    except ValueError as error:
        raise StoreError(f"{about} cannot be read: {error}; remove the folder, or give another") from None
    return held


def _unfinished(path: Path) -> bool:
    """Whether a folder holds nothing but what a process that died had written before its record."""
    mine = {_TILES, *(f"{name}.npy" for name in _FIELDS)}
    return all(file.name in mine or LEFTOVER.fullmatch(file.name) for file in path.iterdir())
