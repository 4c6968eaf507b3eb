"""Angular parts of equivariant kernels: κ(x) ∈ R^{d'×d} on directions, with κ(gx) = ρ'(g) κ(x) ρ(g)ᵀ.

κ_ab(x) = Σ_M C_abM h_JM(x), where C is invariant under ρ' ⊗ ρ ⊗ ρ_J: Clebsch–Gordan coefficients in space, products
of cosines and sines in the plane. Each κ has |κ(x)|² = d' everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.groups import so3
from equitangents.groups.rotations_of_space import plane_turns
from equitangents.sphere.transforms import wigner
from equitangents.steerable.features import SPACES, SteerableIrrep
from equitangents.steerable.harmonics import direction_harmonics


@dataclass(frozen=True, eq=False)
class AngularKernel:
    """κ of frequency J, from features `into` to features `out`; `coefficients` (d', d, d_J)."""

    out: SteerableIrrep
    into: SteerableIrrep
    frequency: int
    coefficients: np.ndarray

    def __call__(self, unit: ArrayLike) -> ArrayLike:
        """Values (..., d', d) at unit vectors (..., n)."""
        h = direction_harmonics(unit, self.frequency)[self.frequency]
        xp = jnp if isinstance(h, jax.Array) else np
        return xp.einsum("abm,...m->...ab", xp.asarray(self.coefficients, h.dtype), h)


@lru_cache(maxsize=1024)
def angular_kernels(
    out: SteerableIrrep, into: SteerableIrrep, max_frequency: int | None = None
) -> tuple[AngularKernel, ...]:
    """All angular kernels between two irreps up to a frequency, ordered by frequency: an orthogonal basis.

    >>> from equitangents.steerable import irrep
    >>> [k.frequency for k in angular_kernels(irrep("1", "SO(3)"), irrep("2", "SO(3)"))]
    [1, 2, 3]
    """
    last = out.degree + into.degree
    last = last if max_frequency is None else min(last, max_frequency)
    return tuple(
        AngularKernel(out, into, J, c)
        for J in range(abs(out.degree - into.degree), last + 1)
        for c in _invariants(out, into, J)
    )


def all_coefficients(kernels: tuple[AngularKernel, ...], largest: int) -> np.ndarray:
    """Coefficients (K, d', d, harmonics) with respect to all harmonics of frequencies 0 to `largest`, concatenated."""
    first = kernels[0]
    ends = np.cumsum([SteerableIrrep(first.out.group, J).dimension for J in range(largest + 1)])
    found = np.zeros((len(kernels), first.out.dimension, first.into.dimension, ends[-1]))
    for i, k in enumerate(kernels):
        end = ends[k.frequency]
        found[i, :, :, end - k.coefficients.shape[-1] : end] = k.coefficients
    return found


def _invariants(out: SteerableIrrep, into: SteerableIrrep, J: int) -> list[np.ndarray]:
    """Orthogonal C (d', d, d_J) with (ρ' ⊗ ρ ⊗ ρ_J) C = C, each of square d'."""
    turn = SteerableIrrep(out.group, J, (-1) ** J if out.group == "O(3)" else 1)  # how harmonics transform
    shape = (out.dimension, into.dimension, turn.dimension)
    if SPACES[out.group] == 2:
        projector = _in_plane(out, into, turn)
    elif out.group == "O(3)" and out.parity * into.parity * turn.parity == -1:
        return []
    else:
        vector = _in_space(out.degree, into.degree, J)
        projector = np.outer(vector, vector)
    return [math.sqrt(shape[0]) * c.reshape(shape) for c in _fixed_basis(projector)]


def _in_plane(out: SteerableIrrep, into: SteerableIrrep, turn: SteerableIrrep) -> np.ndarray:
    """The projector on invariant vectors: the mean of ρ' ⊗ ρ ⊗ ρ_J over enough elements for its frequencies."""
    count = out.degree + into.degree + turn.degree + 1
    turns = plane_turns(1, 360.0 * np.arange(count) / count)
    elements = turns if out.group == "SO(2)" else [*turns, *(turns @ np.diag([1.0, -1.0]))]
    products = (np.kron(np.kron(out.matrix(g), into.matrix(g)), turn.matrix(g)) for g in elements)
    return np.asarray(sum(products)) / len(elements)


def _in_space(out: int, into: int, J: int) -> np.ndarray:
    """The invariant vector of three degrees (l', l, J), which is unique: the mean of any vector over all rotations."""
    D = _rotations((out + into + J + 1) // 2 + 1)
    vector = np.random.default_rng(0).normal(size=(2 * out + 1, 2 * into + 1, 2 * J + 1))
    for _ in range(2):  # the second time removes what rounding left of other vectors
        turned = np.einsum("gkm,ijm->gijk", D.blocks[J], vector, optimize=True)
        turned = np.einsum("gbj,gijk->gibk", D.blocks[into], turned, optimize=True)
        vector = np.einsum("g,gai,gibk->abk", D.weights, D.blocks[out], turned, optimize=True)
        vector /= np.linalg.norm(vector)
    return vector.ravel()


class _Rotations(NamedTuple):
    weights: np.ndarray
    blocks: tuple[np.ndarray, ...]


@lru_cache(maxsize=8)
def _rotations(bandlimit: int) -> _Rotations:
    """Rotations, their weights, and their representations of degrees below the bandlimit."""
    group = so3(bandlimit)
    return _Rotations(group.weights, tuple(np.asarray(block) for block in wigner(group.matrices, bandlimit)))


def _fixed_basis(projector: np.ndarray) -> list[np.ndarray]:
    """An orthonormal basis of a projector's range, determined by the projector."""
    found: list[np.ndarray] = []
    for _ in range(round(np.trace(projector))):
        left = projector - sum((np.outer(v, v @ projector) for v in found), np.zeros_like(projector))
        size = np.linalg.norm(left, axis=0)
        column = left[:, int(np.argmax(size > 0.9 * size.max()))]
        for v in found:  # once more, against rounding
            column = column - v * (v @ column)
        found.append(column / np.linalg.norm(column))
    return found
