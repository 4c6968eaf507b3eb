"""Draws of a Gaussian field on whole orbits whose covariance is Σ(gx, hx′) = s(x, x′; g⁻¹h), irrep by irrep.

With Ŝ the block Σ_q s(q) ρ(q) of an irrep, of size M·d, and w_a ~ N(0, Ŝ) for a = 1 … d,
    v_m(g) = Σ_ρ √(d/|G|) Σ_ac ρ(g)_ac w_a(mc)
has that covariance (real irreps). For complex matrices w is circular and v takes √2 times the real part, twice over for
an irrep that stands for its conjugate, too. The covariance of all M|G| points is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float, Inexact

from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.normals import standard_normal
from equitangents.precision import scope


def sample_on_orbits(
    irreps: Sequence[FourierIrrep],
    blocks: Sequence[Inexact[np.ndarray, "md md"]],
    draws: int,
    outputs: int,
    *,
    key: jax.Array,
) -> Float[np.ndarray, "draws m order outputs"]:
    """`draws` fields of mean 0 on the orbits of m inputs; blocks Ŝ with row (m, c), Hermitian; outputs independent."""
    parts = []
    for i, (irrep, block) in enumerate(zip(irreps, blocks, strict=True)):
        d, m = irrep.dimension, len(block) // irrep.dimension
        values, vectors = scipy.linalg.eigh(block)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        w = _standard(jax.random.fold_in(key, i), (draws * outputs * d, len(block)), irrep.is_real) @ root.T
        w = w.reshape(draws, outputs, d, m, d).transpose(0, 3, 1, 2, 4)  # (draws, m, outputs, a, c)
        # `inverse` multiplies by ρ* and the weight
        size = np.sqrt(d / len(irrep.matrices)) * (1.0 if irrep.is_real else np.sqrt(2.0 * irrep.count))
        parts.append(w.conj() * (size / irrep.weight))
    return GroupFourier(tuple(irreps)).inverse(parts).transpose(0, 1, 3, 2)


def _standard(key: Any, shape: tuple[int, int], is_real: bool) -> np.ndarray:
    """Independent normal numbers of variance 1, real or circular complex."""
    with scope(np.float64):
        z = np.asarray(standard_normal(key, shape if is_real else (2, *shape), np.float64))
    return z if is_real else (z[0] + 1j * z[1]) / np.sqrt(2)
