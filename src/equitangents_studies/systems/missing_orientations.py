"""Kernel regression on orbits that are seen in part, from the kernel on whole orbits, irrep by irrep.

Let K be the kernel matrix of all copies ρ(g) x_i, ridge included, and M the copies that are not trained on. With any
targets Y on M, the prediction f there is f_M = Y_M − ((K⁻¹)_MM)⁻¹ (K⁻¹ Y)_M, and it is the one of the copies that are
seen. K⁻¹ is a function of g⁻¹h like K: its block of each irrep is the inverse of K's. Of one missing copy this reads
    Y − f = (Θ̂₀⁻¹ y)_i / ((1/|G|) Σ_ρ d_ρ tr (Θ̂_ρ⁻¹)_ii) :
how far its class stands out where orientations are averaged, over how far an orientation stands apart from the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference import GroupFourier, fourier_irreps
from equitangents.solvers import solve
from equitangents_studies.systems.group_grams import GroupGrams
from equitangents_studies.systems.kernel_spectrum import irrep_blocks


@dataclass(frozen=True, eq=False)
class WholeOrbits:
    """N inputs in all |G| orientations with invariant targets (N, K); `ridge` is added to the kernel as it is."""

    grams: GroupGrams
    targets: Float[np.ndarray, "n outputs"]
    ridge: float

    @cached_property
    def inverse(self) -> Float[np.ndarray, "n n order"]:
        """(K⁻¹)_(g,i)(h,j) as a function of i, j and g⁻¹h, by the inverse of each irrep's block."""
        irreps = fourier_irreps(self.grams.group)
        n, parts = len(self.targets), []
        for irrep, block in zip(irreps, irrep_blocks(self.grams, irreps), strict=True):
            d = irrep.dimension
            block[np.diag_indices(n * d)] += self.ridge
            try:  # Hermitian, which `solvers` do not take
                inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(block, lower=True), np.eye(n * d))
            except np.linalg.LinAlgError:
                raise NotPositiveDefiniteError(
                    f"the kernel matrix of {n}·{self.grams.group.order} copies is not positive definite in the irrep "
                    f"of dimension {d}; take a larger ridge"
                ) from None
            parts.append(inverse.reshape(n, d, n, d).transpose(0, 2, 1, 3))
        return GroupFourier(irreps).inverse(parts)

    @cached_property
    def pull(self) -> Float[np.ndarray, "n outputs"]:
        """K⁻¹ Y, the same at every orientation: Θ̂₀⁻¹ y."""
        return self.inverse.sum(axis=2) @ self.targets

    def one_missing(self) -> Float[np.ndarray, "n outputs"]:
        """Predictions at any orientation of each input, were it the only copy that is not trained on."""
        density = np.diagonal(self.inverse[:, :, self.grams.group.identity])
        return self.targets - self.pull / density[:, None]

    def missing(self, elements: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "missing outputs"]:
        """Predictions at the copies (elements[m], inputs[m]) when these, and no others, are not trained on."""
        return self.targets[inputs] - self.surprise(elements, inputs)

    def surprise(self, elements: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "missing outputs"]:
        """((K⁻¹)_MM)⁻¹ (K⁻¹ Y)_M: targets minus predictions."""
        group = self.grams.group
        relative = group.compose(group.inverses[elements][:, None], elements[None, :])
        inner = self.inverse[inputs[:, None], inputs[None, :], relative]
        return _solved((inner + inner.T) / 2, self.pull[inputs])

    def weights(self, elements: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "order n outputs"]:
        """α, with which f(x) = Σ_gi Θ(x, ρ(g)x_i) α_gi: that of the copies that are seen, 0 at those that are not."""
        group = self.grams.group
        e = np.zeros((group.order, *self.targets.shape))
        e[elements, inputs] = self.surprise(elements, inputs)
        found = np.broadcast_to(self.pull, e.shape).copy()
        everything = np.arange(group.order)
        for h in np.unique(elements):
            relative = group.compose(group.inverses[everything], h)
            found -= np.einsum("ijg,jk->gik", self.inverse[:, :, relative], e[h], optimize=True)
        return found


def predictions(
    grams: GroupGrams, rows: slice, weights: Float[np.ndarray, "order n outputs"]
) -> Float[np.ndarray, "order rows outputs"]:
    """f(ρ(g) x) = Σ_hj Θ_{g⁻¹h}(x, x_j) α_hj for some rows of the kernels, at every g."""
    group = grams.group
    found = np.zeros((group.order, len(range(len(grams.of(group.identity)))[rows]), weights.shape[2]))
    for g in range(group.order):
        for h in range(group.order):
            found[g] += grams.of(int(group.compose(group.inverse(g), h)))[rows].astype(np.float64) @ weights[h]
    return found


def exact_weights(
    grams: GroupGrams,
    targets: Float[np.ndarray, "n outputs"],
    ridge: float,
    elements: np.ndarray,
    inputs: np.ndarray,
) -> Float[np.ndarray, "order n outputs"]:
    """α by solving for the copies that are seen, without irreps: 0 at the copies (elements[m], inputs[m])."""
    group, n = grams.group, len(targets)
    missing = np.zeros((group.order, n), bool)
    missing[elements, inputs] = True
    g, i = np.nonzero(~missing)
    K = np.empty((len(g), len(g)))
    for a in range(group.order):
        for b in range(group.order):
            rows, columns = np.flatnonzero(g == a), np.flatnonzero(g == b)
            block = grams.of(int(group.compose(group.inverse(a), b)))
            K[np.ix_(rows, columns)] = block[np.ix_(i[rows], i[columns])]
    K[np.diag_indices(len(K))] += ridge
    found = np.zeros((group.order, *targets.shape))
    found[g, i] = _solved((K + K.T) / 2, targets[i])
    return found


def _solved(K: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """K⁻¹ times the targets; NotPositiveDefiniteError says of how many copies K is."""
    try:
        return solve(K, targets, solver="cholesky").coefficients
    except NotPositiveDefiniteError:
        raise NotPositiveDefiniteError(
            f"the kernel matrix of {len(K)} copies is not positive definite; take a larger ridge"
        ) from None
