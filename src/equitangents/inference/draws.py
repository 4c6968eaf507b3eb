"""Gaussian draws: jointly over inputs, and of fields on whole orbits, irrep by irrep.

For a field whose covariance is Σ(gx, hx′) = s(x, x′; g⁻¹h), with Ŝ the block Σ_q s(q) ρ(q) of an irrep, of size M·d,
    and
w_a ~ N(0, Ŝ) for a = 1 … d,
    v_m(g) = Σ_ρ √(d/|G|) Σ_ac ρ(g)_ac w_a(mc)
has that covariance (real irreps). For complex matrices w is circular and v is √2 times the real part, times √2 again if
the irrep also represents its conjugate. The covariance of all M|G| points is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float, Inexact

from equitangents._types import Key
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.precision import scope, standard_normal
from equitangents.validation import is_whole


def as_key(name: str, key: Key) -> jax.Array:
    """A jax.random key: the argument itself, or the key seeded by an integer."""
    if isinstance(key, jax.Array):
        return key
    if not is_whole(key):
        raise InvalidTypeError(name, key, "a whole number or a jax.random key")
    if not 0 <= key < 2**32:
        raise InvalidArgumentError(name, key, "a whole number from 0 to 2**32 - 1")
    return jax.random.key(int(key))


def check_sample(name: str, n: int, key: Key) -> None:
    """Raise unless n is a number of samples and key a jax.random key."""
    if not is_whole(n) or n < 1:
        raise InvalidArgumentError(name, n, "the number of samples, at least 1")
    if not isinstance(key, jax.Array):
        raise InvalidTypeError("key", key, "a key, e.g. jax.random.key(0)")


def sample_gaussian(mean: np.ndarray, covariance: np.ndarray, n: int, *, key: jax.Array) -> np.ndarray:
    """n draws (n, M, outputs) from N(mean, covariance ⊗ 1): outputs independent, inputs jointly.

    mean (M, outputs), covariance (M, M), whose negative eigenvalues (from rounding) count as 0; `key` is a
    jax.random key. Drawn in float64.
    """
    check_sample("n", n, key)
    root = _root(covariance)
    with scope(np.float64):
        normals = np.asarray(standard_normal(key, (n, *mean.shape), np.float64))
    return mean + np.einsum("ij,njk->nik", root, normals, optimize=True)


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
        root = _root(block)
        w = _standard(jax.random.fold_in(key, i), (draws * outputs * d, len(block)), irrep.is_real) @ root.T
        w = w.reshape(draws, outputs, d, m, d).transpose(0, 3, 1, 2, 4)  # (draws, m, outputs, a, c)
        # `inverse` multiplies by ρ* and the weight
        size = np.sqrt(d / len(irrep.matrices)) * (1.0 if irrep.is_real else np.sqrt(2.0 * irrep.count))
        parts.append(w.conj() * (size / irrep.weight))
    return GroupFourier(tuple(irreps)).inverse(parts).transpose(0, 1, 3, 2)


def _root(covariance: np.ndarray) -> np.ndarray:
    """A root R with R R* = Σ; negative eigenvalues (from rounding) count as 0."""
    values, vectors = scipy.linalg.eigh(covariance)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _standard(key: jax.Array, shape: tuple[int, int], is_real: bool) -> np.ndarray:
    """Independent normal numbers of variance 1, real or circular complex."""
    with scope(np.float64):
        z = np.asarray(standard_normal(key, shape if is_real else (2, *shape), np.float64))
    return z if is_real else (z[0] + 1j * z[1]) / np.sqrt(2)
