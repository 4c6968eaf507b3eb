"""Activations of many inputs as what is needed of them: the Gram matrix K = H Hᵀ, and a few entries; and their errors.

Features H (inputs × numbers) go as soon as they are seen, so that of a large model one layer is held at a time. Two
layers are compared as far as an orthogonal matrix explains, and entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

_BLOCK = 2**16  # columns that are converted to double precision at a time
SAMPLE = 4096
"""Entries of a layer that are kept, about."""
_VANISHES = 1e-15


@dataclass(frozen=True, eq=False)
class Folded:
    """One layer's features of n inputs."""

    shape: tuple[int, ...]
    dtype: np.dtype
    gram: Float[np.ndarray, "n n"]
    sample: np.ndarray
    """Entries spread over all inputs and numbers."""

    @property
    def squared(self) -> float:
        """‖H‖², the sum of the squares of all activations."""
        return float(np.trace(self.gram))

    @property
    def factor(self) -> Float[np.ndarray, "n n"]:
        """L with L Lᵀ = K."""
        values, vectors = np.linalg.eigh(self.gram)
        values = np.where(values > _VANISHES * len(values) * values[-1], values, 0.0)
        return vectors * np.sqrt(values)


def folded(features: Any) -> Folded:
    """The array's Gram matrix, and a sample of it."""
    a = np.asarray(features)
    flat = a.reshape(len(a), -1)
    sample = _sampled(flat)
    return Folded(a.shape, sample.dtype, gram(flat), sample)


def gram(flat: np.ndarray) -> Float[np.ndarray, "n n"]:
    """H Hᵀ in double precision, block by block."""
    total = np.zeros((len(flat), len(flat)))
    for at in range(0, flat.shape[1], _BLOCK):
        block = np.asarray(flat[:, at : at + _BLOCK], np.float64)
        total += block @ block.T
    return total


def _sampled(flat: np.ndarray) -> np.ndarray:
    """At most about `SAMPLE` entries, the same places of every input."""
    each = max(1, SAMPLE // max(len(flat), 1))
    step = max(1, flat.shape[1] // each)
    return np.array(flat[:, ::step])


def misfit(a: Folded, b: Folded) -> float:
    """min over orthogonal Q of ‖B − A Q‖/‖A‖, for features A and B of the same inputs."""
    if a.shape != b.shape:
        return float("inf")
    size = a.squared
    if size == 0:
        return 0.0 if b.squared == 0 else float("inf")
    nuclear = float(np.linalg.svd(a.factor.T @ b.factor, compute_uv=False).sum())
    return float(np.sqrt(max(size + b.squared - 2 * nuclear, 0.0) / size))


def difference(a: Folded, b: Folded) -> float:
    """‖A − B‖/‖A‖ of the entries that were kept."""
    one, two = (np.asarray(v.sample, np.float64) for v in (a, b))
    size, off = float(np.linalg.norm(one)), float(np.linalg.norm(one - two))
    return off / size if size else float(off > 0)
