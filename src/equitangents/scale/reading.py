"""Inputs in files: memory maps of .npy, arrays of .npz, Zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equitangents.array_files import read_arrays
from equitangents.errors import InvalidArgumentError


def read_inputs(name: str, path: Path) -> Any:
    """The array in an .npy file, which stays on disk, `x` of an .npz file, or a Zarr array (or `x` of a group).

    Raises InvalidArgumentError, which names `name`, for anything else.
    """
    if path.is_dir():
        return _zarr(name, path)
    if path.suffix == ".npy":
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            pass  # what is wrong with it is said below
    arrays = read_arrays(name, path)
    if isinstance(arrays, np.ndarray):
        return arrays
    if "x" not in arrays:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise InvalidArgumentError(f"{name} is {str(path)!r}, which holds {held}; expected an array x")
    return arrays["x"]


def _zarr(name: str, path: Path) -> Any:
    import zarr

    try:
        node: Any = zarr.open(path, mode="r")
        return node["x"] if isinstance(node, zarr.Group) else node
    except (OSError, ValueError, KeyError) as error:
        raise InvalidArgumentError(
            f"{name} is {str(path)!r}, a folder that is no Zarr array, and no group with an array x: {error}"
        ) from None
