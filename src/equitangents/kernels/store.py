"""Kernels kept on disk under a hash of program, inputs to the last bit, precision, engine and versions.

key = SHA-256(format, VERSION, package version, engine, program, x1, x2)

Beyond a limit the least recently used are removed. Large matrices are kept in tiles, so that what is complete survives
an interruption. `EQUITANGENTS_CACHE` names the folder above; without it, it is the platform's for caches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, FileName
from equitangents._version import __version__
from equitangents.actions.action import GroupAction
from equitangents.archives import Archive, write_archive
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.files import LEFTOVER, cache_folder, open_regular, sweep, whole_file
from equitangents.formatting import memory_size
from equitangents.kernels.engines import engine_name
from equitangents.kernels.fields import check_result
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.program import Program
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.precision import is_traced, working_dtype
from equitangents.tiles.chunks import Grid

VERSION = 5  # of the numbers: raised whenever some kernel's change, whatever the version of the package


def kernel_key(program: object, x1: np.ndarray, x2: np.ndarray | None, engine: str) -> str:
    """The hash of the kernels of `program` between the inputs it reads, x1 and x2 (None: x1 with itself).

    Raises InvalidTypeError for a program that holds something without a description by content, such as a function.
    """
    parts = ("kernels", VERSION, __version__, engine, program, x1, x2)
    return hashlib.sha256("|".join(map(described, parts)).encode()).hexdigest()


def described(thing: object) -> str:
    """A text that is equal for equal content and for nothing else.

    >>> described((1, 0.5, None)), described(np.zeros(2)) == described(np.zeros(2, np.float32))
    ('(1,0x1.0000000000000p-1,None)', False)
    """
    if isinstance(thing, FrozenArray):
        return f"array:{thing.key}"
    if isinstance(thing, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
        return f"array:{thing.dtype.str}{thing.shape}{content}"
    if isinstance(thing, float):
        return thing.hex()
    if thing is None or isinstance(thing, bool | int | str):
        return repr(thing)
    if isinstance(thing, tuple):
        return f"({','.join(map(described, thing))})"
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = (f"{f.name}={described(getattr(thing, f.name))}" for f in dataclasses.fields(thing))
        return f"{type(thing).__module__}.{type(thing).__qualname__}({','.join(parts)})"
    raise InvalidTypeError(
        f"a kernel that depends on {thing!r} cannot be kept on disk: its content has no description; compute it "
        "without a store"
    )


logger = logging.getLogger("equitangents")

LIMIT = 5 * 10**9  # bytes
_FACTS = ("engine", "form", "error_estimate", "resolution")  # what is kept of kernels beside notes and numbers


class KernelStore:
    """Kernels in `folder` (None: "kernels" in the package's cache), at most `limit` bytes of them.

    Each is an archive with the key that it is named by, and what is known of it. Beyond the limit those go that were
    used longest ago. Several processes may read and write them at once: a file appears whole under its name, and
    whoever comes second writes the same. A file that cannot be read is computed again, and where nothing can be written
    nothing is kept, with a warning in the log. `clear()` removes all.

    >>> import tempfile, equitangents as et
    >>> from equitangents.kernels import KernelStore, KeptKernel
    >>> net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kernel = KeptKernel(net, KernelStore(folder))
    ...     first, again = (kernel.kernel(np.eye(3)).ntk for _ in range(2))  # the second is read
    >>> np.array_equal(first, again)
    True
    """

    def __init__(self, folder: FileName | None = None, limit: int = LIMIT) -> None:
        if not limit > 0:
            raise InvalidArgumentError(f"limit was {limit}; it must be a positive number of bytes")
        self.folder = cache_folder() / "kernels" if folder is None else Path(folder).expanduser()
        self.limit = int(limit)

    def path(self, key: str) -> Path:
        """The file of one kernel."""
        return self.folder / f"{key}.npz"

    def fetch(self, key: str, compute: Callable[[], Kernels]) -> tuple[Kernels, bool]:
        """(kernels, whether they were read): what cannot be read is computed, and kept."""
        kernels = self.read(key)
        if kernels is not None:
            return kernels, True
        kernels = compute()
        self.write(key, kernels)
        return kernels, False

    def read(self, key: str) -> Kernels | None:
        """What is kept under `key`, which is used now; None where there is nothing that can be read."""
        try:
            try:
                kernels = self._read(key)
            except SystemError:  # CPython 3.11 until 3.11.8, where two threads parse a header at once (issue 106905)
                kernels = self._read(key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
            logger.warning("kernels: %s is damaged (%s) and is computed anew", self.path(key), error)
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path(key))
        return kernels

    def _read(self, key: str) -> Kernels:
        about = Archive(open_regular(self.path(key)))
        if about["key"] != key:
            raise ValueError("it holds another kernel")
        notes, facts = tuple(about["notes"]), {name: about[name] for name in _FACTS}
        return Kernels(about.array(0), about.array(1), notes=notes, **facts)

    def write(self, key: str, kernels: Kernels) -> None:
        """Keep `kernels` under `key`; where nothing can be written, the log says so."""
        about = {name: getattr(kernels, name) for name in (*_FACTS, "notes")} | {"key": key}
        try:
            with whole_file(self.path(key)) as partial:
                write_archive(partial, about, [np.asarray(kernels.nngp), np.asarray(kernels.ntk)])
            removed, _ = self._removed(self.limit, self.path(key))
            if removed:
                kept = memory_size(self.limit)
                logger.info("kernels: removed %d files, least recently used, to keep %s at most", removed, kept)
        except OSError as error:
            logger.warning("kernels: nothing can be kept in %s: %s", self.folder, error)

    @property
    def files(self) -> list[Path]:
        """Every file that is kept."""
        return sorted(path for path in self.folder.glob("*.npz") if not LEFTOVER.fullmatch(path.name))

    @property
    def size(self) -> int:
        """Bytes that the kept kernels take on the disk."""
        return sum(size for _, size, _ in self._used())

    def clear(self) -> tuple[int, int]:
        """Remove all: (how many files, how many bytes)."""
        return self._removed(-1)

    def _used(self) -> list[tuple[float, int, Path]]:
        """(last use, bytes, file), the oldest first; what another process removes meanwhile is left out."""
        used = []
        for path in self.files:
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                used.append((about.st_mtime, about.st_size, path))
        return sorted(used)

    def _removed(self, limit: int, newest: Path | None = None) -> tuple[int, int]:
        """Remove the least recently used files beyond `limit` bytes, not the `newest`: (how many, bytes)."""
        sweep(self.folder)
        used = self._used()
        total = sum(size for _, size, _ in used)
        files = freed = 0
        for _, size, path in used:
            if total - freed > limit and path != newest:
                path.unlink(missing_ok=True)
                files, freed = files + 1, freed + size
        return files, freed


@runtime_checkable
class LoweredNetwork(KernelFunction, Protocol):
    """A network of equitangents.nn: it lowers to a program."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """The layers, first to last."""

    def lower(self, input_shape: tuple[int, ...]) -> tuple[int, Program[Any]]:
        """Number of leading layers before the program, and the program."""

    def lowered(self, x: ArrayLike) -> tuple[ArrayLike, Program[Any]]:
        """The inputs that the program reads, and the program."""

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """The kernel of every input with itself."""


@dataclass(frozen=True)
class KeptKernel:
    """The kernel of `net`, read from `store` where it was computed before; it takes the network's place.

    Matrices are kept in tiles of `tile` × `tile` inputs, those of a symmetric matrix once: a computation that was
    killed goes on from its last tile, and one on more inputs reads the tiles of those that it shares, from the first
    on. The log says how many tiles were read and how many computed.
    """

    net: LoweredNetwork
    store: KernelStore = field(default_factory=KernelStore)
    tile: int = 250

    def __post_init__(self) -> None:
        if not hasattr(self.net, "lowered"):
            raise InvalidTypeError("net", self.net, "a network of equitangents.nn")

    @property
    def draws_noise(self) -> bool:
        """Whether the network draws noise, so that an input differs from an equal one."""
        return bool(getattr(self.net, "draws_noise", False))

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether the network's kernels are known to be."""
        says = getattr(self.net, "invariant_under", None)
        return says is not None and bool(says(action, input_shape))

    def kernel(
        self, x1: ArrayLike, x2: ArrayLike | None = None, step: Callable[[int, int], None] = lambda done, total: None
    ) -> Kernels:
        """NNGP and NTK, (N1, N2), as `net.kernel` gives them; `step(done, total)` after every tile.

        Inputs whose values are not known (inside a JAX program) are computed and not kept.
        """
        if is_traced(x1) or is_traced(x2) or not len(x1) or (x2 is not None and not len(x2)):
            return self.net.kernel(x1, x2)
        dtype = working_dtype(x1, x2)
        check_result(x1, x2, dtype, 0)
        one = np.asarray(x1, dtype)
        other = None if x2 is None else np.asarray(x2, dtype)
        kernels = self._tiles(one, other, step)
        if any(isinstance(x, jax.Array) for x in (x1, x2)):
            kernels = replace(kernels, nngp=jnp.asarray(kernels.nngp), ntk=jnp.asarray(kernels.ntk))
        return kernels

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """NNGP and NTK of every input with itself; too cheap to be kept."""
        return self.net.kernel_diagonal(x)

    def _tiles(self, x1: np.ndarray, x2: np.ndarray | None, step: Callable[[int, int], None]) -> Kernels:
        columns = x1 if x2 is None else x2
        grid = Grid((len(x1),), None if x2 is None else (len(x2),), self.tile)
        nngp, ntk = np.empty((2, len(x1), len(columns)), x1.dtype)
        read, last, notes, tiles = 0, Kernels(nngp, ntk), dict[str, None](), grid.tiles()
        for done, tile in enumerate(tiles, 1):
            rows, across = grid.spans(tile)
            last, known = self.one_tile(x1[rows], None if grid.halved(tile) else columns[across])
            read += known
            notes |= dict.fromkeys(last.notes)
            nngp[rows, across], ntk[rows, across] = last.nngp, last.ntk
            if len(grid.places(tile)) > 1:
                nngp[across, rows], ntk[across, rows] = last.nngp.T, last.ntk.T
            step(done, len(tiles))
        self.report(read, len(tiles))
        return replace(last, nngp=nngp, ntk=ntk, notes=tuple(notes))

    def one_tile(self, x1: np.ndarray, x2: np.ndarray | None) -> tuple[Kernels, bool]:
        """(kernels, whether they were read from disk) of inputs so few that one file holds their kernels."""
        given, program = self.net.lowered(x1)
        other = None if x2 is None else self.net.lowered(x2)[0]
        key = kernel_key(program, np.asarray(given), None if other is None else np.asarray(other), engine_name())
        return self.store.fetch(key, lambda: self.net.kernel(x1, x2))

    def report(self, read: int, total: int) -> None:
        """Say in the log how many tiles were read, and how many computed."""
        if read:
            logger.info("kernels: %d of %d tiles were read from %s and not computed", read, total, self.store.folder)
        if read < total:
            logger.info("kernels: %d of %d tiles were computed and kept in %s", total - read, total, self.store.folder)

    def slices(self, count: int) -> list[slice]:
        """The tiles along one side."""
        return [slice(start, min(start + self.tile, count)) for start in range(0, count, self.tile)]
