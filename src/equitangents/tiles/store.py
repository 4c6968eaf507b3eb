"""Tiles on disk: each is computed once, kept whole with its checksum, and read where it is asked for again.

`Tiles` is how they lie there: files of a Zarr array (`Chunks`), of several with mirrored places (`ZarrTiles`), or
parts of memory maps.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Literal, TypeVar

import numpy as np

from equitangents.errors import StoreError
from equitangents.formatting import memory_size
from equitangents.tiles.place import Place, free_space

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


def each_computed(
    tiles: Tiles[Key, Value], keys: Iterable[Key], compute: Callable[[Key], Value | None]
) -> Iterator[bool]:
    """Compute and write tiles in order; of each whether it was computed, when it is there.

    `compute` returns None for a tile that is there by now. One tile is written while the next one is computed.
    """
    with ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for key in keys:
            value = compute(key)
            if writing is not None:
                writing.result()
                yield True
                writing = None
            if value is None:
                yield False
            else:
                writing = writer.submit(tiles.write, key, value)
        if writing is not None:
            writing.result()
            yield True


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
        raise StoreError(named(tile), "NaN or infinite values", "finite ones", "it was not kept", verb="holds")


def named(tile: tuple[int, ...]) -> str:
    """What messages call a tile."""
    return f"tile ({', '.join(map(str, tile))})"
