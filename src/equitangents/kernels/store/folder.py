"""A folder of kernels by key, of which the least recently used are gone beyond a limit.

`EQUITANGENTS_CACHE` names the folder above; without it, it is the platform's for caches.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._types import ArrayLike, FileName
from equitangents.caches import cache_folder
from equitangents.errors import InvalidArgumentError
from equitangents.file_limits import UNREADABLE, check_arrays, read_json
from equitangents.files import LEFTOVER, open_regular, sweep, whole_file
from equitangents.formatting import memory_size
from equitangents.kernels.result import Kernels

logger = logging.getLogger("equitangents")

LIMIT = 5 * 10**9  # bytes


class KernelStore:
    """Kernels in `folder` (None: "kernels" in the package's cache), at most `limit` bytes of them.

    Each is an .npz file with the key that it is named by, and what is known of it. Beyond the limit those go that were
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
            raise InvalidArgumentError("limit", limit, "a positive number of bytes", verb="was")
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
        except UNREADABLE as error:
            logger.warning("kernels: %s is damaged (%s) and is computed anew", self.path(key), error)
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path(key))
        return kernels

    def _read(self, key: str) -> Kernels:
        with open_regular(self.path(key)) as file:
            check_arrays(file)
            archive = np.load(file, allow_pickle=False)
            if str(archive["key"]) != key:
                raise ValueError("it holds another kernel")
            about: dict[str, Any] = read_json(str(archive["about"]))
            notes = tuple(about.pop("notes"))
            kind = about.pop("kind", None)
            kernels = Kernels(archive["nngp"], archive["ntk"], notes=notes, **about)
            # a header that asks for less than there is would have the checksum of the zip file not looked at
            if kind is not None and any(_kind(array) != kind for array in (kernels.nngp, kernels.ntk)):
                raise ValueError("its arrays are not of the shape that was written")
        return kernels

    def write(self, key: str, kernels: Kernels) -> None:
        """Keep `kernels` under `key`; where nothing can be written, the log says so."""
        about = {
            "engine": kernels.engine,
            "form": kernels.form,
            "notes": kernels.notes,
            "error_estimate": kernels.error_estimate,
            "resolution": kernels.resolution,
            "kind": _kind(kernels.nngp),
        }
        nngp, ntk = np.asarray(kernels.nngp), np.asarray(kernels.ntk)
        try:
            with whole_file(self.path(key)) as partial:
                np.savez(partial, nngp=nngp, ntk=ntk, key=np.array(key), about=np.array(json.dumps(about)))
            self._prune(self.path(key))
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
        used = self._used()
        for path, _, _ in used:
            path.unlink(missing_ok=True)
        sweep(self.folder)
        return len(used), sum(size for _, size, _ in used)

    def _used(self) -> list[tuple[Path, int, float]]:
        """(file, bytes, when it was last used); what another process removes meanwhile is left out."""
        used = []
        for path in self.files:
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                used.append((path, about.st_size, about.st_mtime))
        return used

    def _prune(self, newest: Path) -> None:
        """Remove the least recently used files beyond the limit, but not the one just written."""
        sweep(self.folder)
        used = self._used()
        total, removed = sum(size for _, size, _ in used), 0
        for path, size, _ in sorted(used, key=lambda file: file[2]):
            if total <= self.limit:
                break
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size
                removed += 1
        if removed:
            kept = memory_size(self.limit)
            logger.info("kernels: removed %d files, least recently used, to keep %s at most", removed, kept)


def _kind(array: ArrayLike) -> str:
    """Shape and type of an array."""
    return f"{tuple(array.shape)} {np.dtype(array.dtype).str}"
