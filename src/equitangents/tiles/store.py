"""What may go wrong with files of a store: damage, a disk that is full or takes nothing, numbers that are none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from equitangents.errors import StoreError
from equitangents.formatting import memory_size
from equitangents.tiles.place import Place, free_space

MAKE_ROOM = "make room, or give a path on another disk"


class DamagedTileError(ValueError):
    """A tile whose bytes are not those that were written."""


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


def check_finite(tile: tuple[int, ...], values: Iterable[np.ndarray]) -> None:
    """StoreError for numbers of a tile of a kernel that are not kept."""
    if not all(np.isfinite(matrix).all() for matrix in values):
        raise StoreError(named(tile), "NaN or infinite values", "finite ones", "it was not kept", verb="holds")


def named(tile: tuple[int, ...]) -> str:
    """What messages call a tile."""
    return f"tile ({', '.join(map(str, tile))})"
