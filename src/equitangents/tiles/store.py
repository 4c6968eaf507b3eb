"""One store of tiles: each is computed once, kept whole with its checksum, and read where it is asked for again.

`Tiles` is how they lie on disk: files of a Zarr array (`Chunks`), of several with mirrored places (`ZarrTiles`) or
with rows of predictions (`Parts` of `ensembles.streaming`), or memory maps (`MappedTiles`). What is kept is a policy:
`CompleteTiles` are all wanted, so that a disk that is full or may not be written is an error; `RecentTiles` are files
of which those stay within a limit that were used last.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from equitangents.errors import StoreError
from equitangents.files import LEFTOVER, is_abandoned
from equitangents.formatting import memory_size
from equitangents.tiles.place import Place, free_space

logger = logging.getLogger("equitangents")

Key = TypeVar("Key")
Value = TypeVar("Value")
State = Literal["whole", "missing", "damaged"]
MAKE_ROOM = "make room, or give a path on another disk"


class DamagedTileError(ValueError):
    """A tile whose bytes are not those that were written."""


class Tiles(abc.ABC, Generic[Key, Value]):
    """How tiles lie on disk: each whole with its checksum, or not there."""

    @abc.abstractmethod
    def is_there(self, key: Key) -> bool:
        """Whether the tile is there, as far as that is seen without reading all of it."""

    @abc.abstractmethod
    def read(self, key: Key) -> Value:
        """The tile, after its checksum was found right; FileNotFoundError, or DamagedTileError."""

    @abc.abstractmethod
    def write(self, key: Key, value: Value) -> None:
        """Put the tile in place, whole."""

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """Which tiles are not there."""
        return [key for key in keys if not self.is_there(key)]

    def state(self, key: Key) -> State:
        """Whether the tile is whole, which takes reading it."""
        if not self.is_there(key):
            return "missing"
        try:
            self.read(key)
        except (DamagedTileError, OSError):
            return "damaged"
        return "whole"


class Computed(NamedTuple, Generic[Key]):
    """A tile that is there now, whether it was computed for that, and in how many seconds."""

    key: Key
    computed: bool
    seconds: float


class TileStore(abc.ABC, Generic[Key, Value]):
    """Tiles by a policy; `name` is what the log calls them."""

    def __init__(self, name: str, tiles: Tiles[Key, Value]) -> None:
        self.name, self.tiles = name, tiles

    def read(self, key: Key) -> Value | None:
        """A tile; None where there is none, or one that is damaged, which the log says."""
        try:
            return self.tiles.read(key)
        except FileNotFoundError:
            return None
        except DamagedTileError as error:
            logger.warning("%s: %s and is computed anew", self.name, error)
            return None

    @abc.abstractmethod
    def write(self, key: Key, value: Value) -> None:
        """Keep one tile under its key; what becomes of a disk that takes nothing is the policy's."""

    def fetch(self, key: Key, compute: Callable[[], Value]) -> tuple[Value, bool]:
        """(a tile, whether it was read): what cannot be read is computed, and kept."""
        value = self.read(key)
        if value is not None:
            return value, True
        value = compute()
        self.write(key, value)
        return value, False


class CompleteTiles(TileStore[Key, Value]):
    """Tiles that are all wanted; `errors` makes StoreErrors of those of the file system, see `store_errors`."""

    def __init__(
        self,
        name: str,
        tiles: Tiles[Key, Value],
        errors: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        super().__init__(name, tiles)
        self.errors = errors

    def write(self, key: Key, value: Value) -> None:
        """Keep one tile; StoreError where that cannot be."""
        with self.errors():
            self.tiles.write(key, value)

    def each_computed(
        self,
        keys: Iterable[Key],
        compute: Callable[[Key], Value | None],
        write: Callable[[Key, Value], None] | None = None,
    ) -> Iterator[Computed[Key]]:
        """Compute and keep tiles in order: one is written, by `write` or as it is, while the next one is computed.

        `compute` returns None for a tile that is there by now.
        """
        write = write or self.tiles.write
        with self.errors(), ThreadPoolExecutor(1) as writer:
            writing: tuple[Future[None], Computed[Key]] | None = None
            for key in keys:
                start = time.monotonic()
                value = compute(key)
                if writing is not None:
                    writing[0].result()
                    yield writing[1]
                    writing = None
                done = Computed(key, value is not None, time.monotonic() - start)
                if value is None:
                    yield done
                else:
                    writing = writer.submit(write, key, value), done
            if writing is not None:
                writing[0].result()
                yield writing[1]


class FileTiles(Tiles[str, Value]):
    """One file for each tile, named by its key."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self.folder, self.suffix = folder, suffix

    def path(self, key: str) -> Path:
        """The file of one tile."""
        return self.folder / f"{key}{self.suffix}"

    def is_there(self, key: str) -> bool:
        """Whether there is such a file."""
        return self.path(key).is_file()


class RecentTiles(TileStore[str, Value]):
    """Files in a folder, at most `limit` bytes of them: beyond it, those go that were used longest ago.

    Several processes may read and write them at once: a file appears whole under its name, and whoever comes second
    writes the same. Where nothing can be written, the log says so.
    """

    def __init__(self, name: str, tiles: FileTiles[Value], limit: int) -> None:
        super().__init__(name, tiles)
        self.folder, self.limit, self._files = tiles.folder, limit, tiles

    def read(self, key: str) -> Value | None:
        """What is kept under `key`, which is used now; None where there is nothing that can be read."""
        value = super().read(key)
        if value is not None:
            with contextlib.suppress(OSError):
                os.utime(self._files.path(key))
        return value

    def write(self, key: str, value: Value) -> None:
        """Keep `value` under `key`; where nothing can be written, the log says so."""
        try:
            self.tiles.write(key, value)
            self._prune(self._files.path(key))
        except OSError as error:
            logger.warning("%s: nothing can be kept in %s: %s", self.name, self.folder, error)

    @property
    def files(self) -> list[Path]:
        """Every file that is kept."""
        found = self.folder.glob(f"*{self._files.suffix}")
        return sorted(path for path in found if not LEFTOVER.fullmatch(path.name))

    @property
    def size(self) -> int:
        """Bytes that the kept tiles take on the disk."""
        return sum(size for _, size, _ in self._used())

    def clear(self) -> tuple[int, int]:
        """Remove all: (how many files, how many bytes)."""
        used = self._used()
        for path in [*(path for path, _, _ in used), *self._leftovers()]:
            path.unlink(missing_ok=True)
        return len(used), sum(size for _, size, _ in used)

    def _used(self) -> list[tuple[Path, int, float]]:
        """(file, bytes, when it was last used); what another process removes meanwhile is left out."""
        used = []
        for path in self.files:
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                used.append((path, about.st_size, about.st_mtime))
        return used

    def _leftovers(self) -> list[Path]:
        """What processes were writing that are dead."""
        return [path for path in self.folder.glob(".*") if LEFTOVER.fullmatch(path.name) and is_abandoned(path)]

    def _prune(self, newest: Path) -> None:
        """Remove the least recently used files beyond the limit, but not the one just written."""
        for path in self._leftovers():
            path.unlink(missing_ok=True)
        used = self._used()
        total = sum(size for _, size, _ in used)
        removed = 0
        for path, size, _ in sorted(used, key=lambda file: file[2]):
            if total <= self.limit:
                break
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size
                removed += 1
        if removed:
            kept = memory_size(self.limit)
            logger.info("%s: removed %d files, least recently used, to keep %s at most", self.name, removed, kept)


@contextlib.contextmanager
def store_errors(unwritable: str, kept: str | Callable[[], str] = "", *, with_file: bool = False) -> Iterator[None]:
    """Errors of the file system as StoreErrors of one line, from `unwritable` to `kept`, or to what that then says.

    with_file: whether it names the file.
    """
    try:
        yield
    except OSError as error:
        file = f" ({error.filename})" if with_file and error.filename else ""
        raise StoreError(f"{unwritable}: {error.strerror or error}{file}{kept() if callable(kept) else kept}") from None


def check_room(at: Place, needed: int, task: str, there: str = ", and the disk", remedy: str = MAKE_ROOM) -> None:
    """StoreError where the disk of `at` has no room for `needed` bytes, which `task` takes."""
    free = free_space(at)
    if free is not None and needed > free:
        raise StoreError(f"{task} {memory_size(needed)}{there} has {memory_size(free)} left; {remedy}")


def is_finite(numbers: np.ndarray) -> bool:
    """Whether they hold neither NaN nor infinity: the sum of squares has none then, unless these are too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        flat = numbers.reshape(-1)
        return bool(np.isfinite(np.dot(flat, flat)) or np.isfinite(numbers).all())


def check_finite(tile: tuple[int, ...], values: Iterable[np.ndarray]) -> None:
    """StoreError for numbers of a tile of a kernel that are not kept."""
    if not all(map(is_finite, values)):
        raise StoreError(f"{named(tile)} of the kernel holds NaN or infinite values; it was not kept")


def named(tile: tuple[int, ...]) -> str:
    """What messages call a tile."""
    return f"tile ({', '.join(map(str, tile))})"
