"""A folder of kernels by key, of which the least recently used are gone beyond a limit.

`EQUITANGENTS_CACHE` names the folder above; without it, it is the platform's for caches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._types import ArrayLike, FileName
from equitangents.caches import cache_folder
from equitangents.claims import UNREADABLE, check_arrays, read_json
from equitangents.errors import InvalidArgumentError
from equitangents.files import open_regular, whole_file
from equitangents.kernels.result import Kernels
from equitangents.tiles.store import DamagedTileError, FileTiles, RecentTiles

LIMIT = 5 * 10**9  # bytes


class KernelFiles(FileTiles[Kernels]):
    """Kernels in .npz files, each with the key that it is named by, and what is known of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ".npz")

    def read(self, key: str) -> Kernels:
        """The kernels kept under `key`."""
        try:
            return self._read(key)
        except SystemError:  # CPython 3.11 until 3.11.8, where two threads parse a header at once (its issue 106905)
            return self._read(key)

    def _read(self, key: str) -> Kernels:
        path = self.path(key)
        try:
            with open_regular(path) as file:
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
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            raise DamagedTileError(f"{path} is damaged ({error})") from None
        return kernels

    def write(self, key: str, kernels: Kernels) -> None:
        """Keep `kernels` under `key`."""
        about = {
            "engine": kernels.engine,
            "form": kernels.form,
            "notes": kernels.notes,
            "error_estimate": kernels.error_estimate,
            "resolution": kernels.resolution,
            "kind": _kind(kernels.nngp),
        }
        nngp, ntk = np.asarray(kernels.nngp), np.asarray(kernels.ntk)
        with whole_file(self.path(key)) as partial:
            np.savez(partial, nngp=nngp, ntk=ntk, key=np.array(key), about=np.array(json.dumps(about)))


class KernelStore(RecentTiles[Kernels]):
    """Kernels in `folder` (None: "kernels" in the package's cache), at most `limit` bytes of them.

    A file that cannot be read is computed anew, with a warning in the log. `clear()` removes all.

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
        files = KernelFiles(cache_folder() / "kernels" if folder is None else Path(folder).expanduser())
        super().__init__("kernels", files, int(limit))


def _kind(array: ArrayLike) -> str:
    """Shape and type of an array."""
    return f"{tuple(array.shape)} {np.dtype(array.dtype).str}"
