"""Vectors and symmetric tensors of molecules, such as dipoles and polarisabilities, learnt equivariantly.

y(m) = Σ_atoms ∫ ρ(g) N_z(g) dg: the network's features on rotations, transformed back by the tensor's ρ. Its kernel is
a matrix, k(m, m') = Σ_ij ∫ κ_ij(Q) ρ(Q)ᵀ dQ, with k(Rm, m') = ρ(R) k(m, m') and k(m, Rm') = k(m, m') ρ(R)ᵀ. So rotating
a molecule rotates the prediction and its covariance, at every training time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError
from equitangents.memory import check_fits
from equitangents.molecules.kernel import compared, sum_over_atoms
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.regressor import LearntRows, MolecularRegressor, check_lone_atoms, checked_targets
from equitangents.molecules.signals import Neighbourhoods
from equitangents.molecules.smooth_kernel import SmoothKernel, kernel_for_tensors
from equitangents.sphere.harmonics import polynomials

_ATOMS = 256  # rows at a time
DEGREES = {1: (1,), 2: (0, 2)}
"""The degrees that tensors of a rank are made of."""


class TensorPrediction(NamedTuple):
    """Tensors (N, 3) or (N, 3, 3); if requested, the covariance over networks, (N, 3, 3) or (N, 9, 9)."""

    values: np.ndarray
    covariance: np.ndarray | None = None


def tensor_kernels(
    smooth: SmoothKernel, molecules1: Molecules, molecules2: Molecules | None, degree: int
) -> Float[np.ndarray, "2 n1 d n2 d"]:
    """NNGP and NTK of outputs that transform as the harmonics of a degree, d = 2l + 1."""
    a = smooth.signals(molecules1)
    b = a if molecules2 is None else smooth.signals(molecules2)
    n1, n2, d = len(molecules1), len(molecules1 if molecules2 is None else molecules2), 2 * degree + 1
    # NNGP and NTK, and as much again to work in.
    check_fits(f"kernels of degree {degree} of {n1} and {n2} molecules", 32 * n1 * n2 * d * d, "take fewer molecules")
    total = np.zeros((2, n1, n2, d, d))
    for one, other in compared(a, b, smooth.pairs):
        first, second = (Neighbourhoods(*(v[rows] for v in f)) for f, rows in ((a, one), (b, other)))
        for start in range(0, len(first.signals), _ATOMS):
            here = slice(start, start + _ATOMS)
            values = smooth.steered(first.signals[here], second.signals, degree)
            left = sum_over_atoms(first, here, n1).toarray()
            right = sum_over_atoms(second, slice(None), n2).toarray()
            total += np.einsum("na,vabij,mb->vnmij", left, values, right, optimize=True)
    if degree > 0:  # the surroundings of a lone atom are isotropic: no part of them is equivariant
        for sizes, axis in ((molecules1.sizes, 1), ((molecules2 or molecules1).sizes, 2)):
            total *= np.expand_dims(sizes > 1, tuple(i for i in range(5) if i != axis))
    total = np.moveaxis(total, 3, 2)
    return (total + np.moveaxis(total, (1, 2), (3, 4))) / 2 if molecules2 is None else total


@dataclass(eq=False)
class TensorRegressor(MolecularRegressor):
    """The ensemble of infinitely wide equivariant networks trained on vectors or symmetric matrices of molecules.

    Parameters are those of `MoleculeRegressor` except `baseline`. The equivariant readout replaces the network's group
    pooling; `ridge` is relative to the mean diagonal of the kernel.
    """

    # Kernels of tensors are sampled less exactly than those of energies, in units of their diagonal.
    ridge: float = field(default=1e-5, kw_only=True)

    def fit(self, molecules: Molecules, tensors: Numbers) -> TensorRegressor:
        """Train on vectors (N, 3) or symmetric matrices (N, 3, 3), in the frame of the positions.

        For lone atoms vectors must be zero, and matrices multiples of the identity.
        """
        self._check_settings(molecules)
        n = len(molecules)
        y = checked_targets("tensors", tensors, (n, 3), (n, 3, 3))
        if y.ndim == 3 and (odd := np.abs(y - y.swapaxes(1, 2)).max((1, 2))).max() > 1e-6 * np.abs(y).max():
            raise InvalidArgumentError(
                "tensors", int(odd.argmax()), "symmetric matrices", verb="are not symmetric at index"
            )
        check_lone_atoms("tensors", y, molecules, _isotropic, "zero" if y.ndim == 2 else "a multiple of the identity")
        self.rank_ = y.ndim - 1
        smooth = kernel_for_tensors(self.net, molecules, DEGREES[self.rank_], self.signals, self.pairs)
        self._train = molecules
        self._learnt = {degree: self._learn_degree(smooth, y, degree) for degree in DEGREES[self.rank_]}
        self.smooth_ = smooth
        return self

    def predict(self, molecules: Molecules, *, time: float | None = None, return_cov: bool = False) -> TensorPrediction:
        """Tensors, and with `return_cov` the covariance of one network's components for each molecule.

        `time`: one training time, None: the constructor's. Raises the errors of `MoleculeRegressor.predict`.
        """
        t = self._check_prediction(molecules, time)
        n = len(molecules)
        values, covariance = np.zeros((n, 3**self.rank_)), np.zeros((n, 3**self.rank_, 3**self.rank_))
        for degree, learnt in self._learnt.items():
            d, turn = 2 * degree + 1, basis(self.rank_, degree)
            cross = tensor_kernels(self.smooth_, molecules, self._train, degree).reshape(2, n * d, -1)
            values += (cross[self._which] @ learnt.weights(t)).reshape(n, d) @ turn
            for i in range(n if return_cov else 0):
                prior = tensor_kernels(self.smooth_, molecules[[i]], None, degree)[0].reshape(d, d)
                rows = slice(i * d, (i + 1) * d)
                covariance[i] += turn.T @ learnt.covariance(cross[:, rows], prior, t) @ turn
        shape = (n, *(3,) * self.rank_)
        return TensorPrediction(values.reshape(shape), covariance if return_cov else None)

    def _learn_degree(self, smooth: SmoothKernel, y: np.ndarray, degree: int) -> LearntRows:
        n, d = len(y), 2 * degree + 1
        both = tensor_kernels(smooth, self._train, None, degree).reshape(2, n * d, n * d)
        own = np.diagonal(both[self._which])
        varies = own > len(own) * np.finfo(own.dtype).eps * own.max(initial=0.0)  # rounding makes less of 0
        targets = components(y, degree).ravel()
        name = f"kernel matrix of degree {degree}"
        return self._learn(both, targets, varies, np.ones(n * d), samples=n, name=name)


@lru_cache(maxsize=8)
def basis(rank: int, degree: int) -> Float[np.ndarray, "d components"]:
    """Orthonormal tensors of a rank that transform as the harmonics of a degree, (2l + 1, 3) or (2l + 1, 9)."""
    if rank == 1:
        return np.eye(3)[[1, 2, 0]]  # Y_1 is proportional to (y, z, x)
    # x ↦ xᵀ S x is a harmonic of degree 2, or constant on the sphere; S follows from enough points.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    squares = (x[:, :, None] * x[:, None, :]).reshape(64, 9)
    values = polynomials(x, 3)[:, degree**2 : (degree + 1) ** 2]
    found = np.linalg.lstsq(squares, values, rcond=None)[0].T
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def components(tensors: Float[np.ndarray, "n ..."], degree: int) -> Float[np.ndarray, "n d"]:
    """The components of one degree of vectors (N, 3) or symmetric matrices (N, 3, 3)."""
    return tensors.reshape(len(tensors), -1) @ basis(tensors.ndim - 1, degree).T


def _isotropic(values: np.ndarray) -> np.ndarray:
    """The isotropic part: zero for vectors; for matrices the mean of the diagonal times the identity."""
    if values.ndim == 2:
        return np.zeros_like(values)
    return np.trace(values, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
