"""Which inputs the group moves at all: ρ(g)x compared with x, exactly and up to rounding.

An input that no element moves, a blank image or one that is symmetric itself, has an orbit of one point, on which every
function is invariant: it tells nothing of the model, and leaves the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from equitangents.audit.contract.trees import Shared

_ROUNDINGS = 8.0
_FEW = 256  # entries, of which one that differs clearly saves the look at all others
_CLEARLY = 1e-3


def moved_rows(x: Sequence[Any], moved: Sequence[Any]) -> Bool[np.ndarray, " n"]:
    """Which rows of some array differ by more than rounding of their largest entry."""
    pairs = [(a, np.asarray(b)) for a, b in zip(x, moved, strict=True) if not isinstance(a, Shared)]
    n = len(pairs[0][0])
    found = np.zeros(n, bool)
    for a, b in pairs:
        if a.shape != b.shape:
            return np.ones(n, bool)
        if b is a:
            continue
        a, b = a.reshape(n, -1), b.reshape(n, -1)
        if a.dtype.kind not in "fc":
            found |= (a != b).any(axis=1)
            continue
        step = max(a.shape[1] // _FEW, 1)
        few, others = a[:, ::step], b[:, ::step]
        found |= _largest(others - few) > _CLEARLY * _largest(few)
        left = np.flatnonzero(~found)
        if len(left):
            limit = _ROUNDINGS * float(np.finfo(a.dtype).eps) * _largest(a[left])
            found[left] = ~(_largest(b[left] - a[left]) <= limit)
    return found


def _largest(a: np.ndarray) -> Float[np.ndarray, " n"]:
    """The largest entry of every row, by size."""
    return np.abs(a).max(axis=1, initial=0).astype(np.float64)
