"""Comparing folded activations of the same inputs: as far as an orthogonal matrix explains, and entry by entry."""

from __future__ import annotations

import numpy as np

from equitangents.audit.adapters.folding import Folded


def misfit(a: Folded, b: Folded) -> float:
    """min over orthogonal Q of ‖B − A Q‖/‖A‖, for features A and B of the same inputs."""
    if a.shape != b.shape:
        return float("inf")
    size = a.squared
    if size == 0:
        return 0.0 if b.squared == 0 else float("inf")
    nuclear = float(np.linalg.svd(a.factor.T @ b.factor, compute_uv=False).sum())
    return float(np.sqrt(max(size + b.squared - 2 * nuclear, 0.0) / size))


def same(a: Folded, b: Folded) -> bool:
    """Whether both are of one array."""
    return a is b or (a.shape == b.shape and np.array_equal(a.sample, b.sample))


def difference(a: Folded, b: Folded) -> float:
    """‖A − B‖/‖A‖ of the entries that were kept."""
    one, two = (np.asarray(v.sample, np.float64) for v in (a, b))
    size, off = float(np.linalg.norm(one)), float(np.linalg.norm(one - two))
    return off / size if size else float(off > 0)
