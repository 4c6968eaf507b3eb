"""Structures from files that ASE reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError

_PICKLES = (".pckl", ".pkl", ".pickle", ".bundle")


def read_structures(path: str, limit: int | None = None, seed: int = 0) -> list[Any]:
    """All structures of a file, or `limit` of them drawn at random; nothing is unpickled."""
    from ase.io import read

    if not Path(path).is_file():
        raise InvalidArgumentError(f"atoms is {path!r}, which is not a file")
    if Path(path).suffix.lower() in _PICKLES:
        raise InvalidArgumentError(f"atoms is {path!r}, which is not loaded: a pickle runs any code when it is loaded")
    try:
        found = read(path, index=":")
    except Exception as error:  # whatever ASE's many readers raise
        said = next(iter(str(error).splitlines()), "")
        raise InvalidArgumentError(
            f"atoms is {path!r}, which ASE cannot read: {type(error).__name__}: {said}"
        ) from None
    if not found:
        raise InvalidArgumentError(f"atoms is {path!r}, which holds no structure")
    if limit is None or limit >= len(found):
        return list(found)
    if limit < 1:
        raise InvalidArgumentError(f"limit is {limit}; expected at least 1")
    rows = np.sort(np.random.default_rng(seed).choice(len(found), limit, replace=False))
    return [found[i] for i in rows]
