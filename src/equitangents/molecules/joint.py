"""Energies and forces together: the kernel differentiated in the positions of both molecules.

If an energy E has covariance k(m, m'), forces F = -∂E/∂x are jointly Gaussian with it:
Cov(F, E') = -∂k/∂x, Cov(E, F') = -∂k/∂x', Cov(F, F') = ∂²k/∂x∂x'. Forces derived from such an energy are curl-free,
and equivariant because the energy is invariant. Source: Christensen et al., J. Chem. Phys. 150, 064105 (2019).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.memory import check_fits
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.smooth_kernel import SmoothKernel

logger = logging.getLogger("equitangents")

_PAIRS = 16  # pairs of atoms are filled up to multiples of it, since each number is compiled once


class TargetLayout(NamedTuple):
    """Positions of energies and forces in one vector: the energies of all molecules first, then 3 numbers per atom."""

    molecules: int
    offsets: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, molecules: Molecules) -> TargetLayout:
        """The layout for these molecules."""
        sizes = molecules.sizes
        return cls(len(molecules), len(molecules) + 3 * np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)

    @property
    def rows(self) -> int:
        """Length of the vector."""
        return self.molecules + 3 * int(self.sizes.sum())

    def of_molecule(self, i: int) -> np.ndarray:
        """Rows of one molecule's energy and forces."""
        return np.concatenate([[i], self.offsets[i] + np.arange(3 * self.sizes[i])])


def joint_kernels(smooth: SmoothKernel, molecules1: Molecules, molecules2: Molecules | None = None) -> np.ndarray:
    """Covariances of energies and forces of two sets of molecules, in float64.

    Args:
        smooth: The kernel.
        molecules1: N1 molecules with A1 atoms in total.
        molecules2: N2 molecules with A2 atoms in total; None: molecules1, at half the cost.

    Returns:
        NNGP and NTK, (2, N1 + 3 A1, N2 + 3 A2): energies first, then forces molecule by molecule.
    """
    columns = molecules1 if molecules2 is None else molecules2
    first, second = TargetLayout.of(molecules1), TargetLayout.of(columns)
    task = f"the covariance of the energies and forces of {len(molecules1)} molecules with those of {len(columns)}"
    # NNGP and NTK, and as much again to work in.
    check_fits(task, 4 * 8 * first.rows * second.rows, "take fewer molecules, or train on energies only")
    total = np.zeros((2, first.rows, second.rows))
    sides1 = _sides(smooth, molecules1)
    sides2 = sides1 if molecules2 is None else _sides(smooth, molecules2)
    logger.info("energies and forces of %d and %d molecules", len(sides1), len(sides2))
    for i, a in enumerate(sides1):
        for j in range(i if molecules2 is None else 0, len(sides2)):
            rows, cols = first.of_molecule(i), second.of_molecule(j)
            block = _blocks(smooth, a, sides2[j])[:, : len(rows), : len(cols)]
            total[:, rows[:, None], cols] = block
            if molecules2 is None and i != j:
                total[:, cols[:, None], rows] = block.swapaxes(1, 2)
    # Atoms of a molecule are compared in one order with each other, in which rounding is not symmetric.
    return (total + total.swapaxes(1, 2)) / 2 if molecules2 is None else total


def energies_and_forces(
    smooth: SmoothKernel, molecules: Molecules, train: Molecules, weights: Float[np.ndarray, " rows"], kernel: int
) -> tuple[np.ndarray, np.ndarray]:
    """Energies (N,) and forces (N, A, 3) of molecules, predicted by weights on the energies and forces of `train`.

    E(x) = Σ_i w_i k(x, x_i) - v_i · ∂k(x, x_i)/∂x_i and F = -∂E/∂x, without a covariance matrix: forces of the training
    set enter along one direction. `weights` are rows of `TargetLayout.of(train)`; `kernel` is 0 for NNGP and 1 for NTK.
    """
    layout = TargetLayout.of(train)
    energies, forces = np.zeros(len(molecules)), np.zeros((*molecules.atomic_numbers.shape, 3))
    others = []
    for j, side in enumerate(_sides(smooth, train)):
        v = weights[layout.of_molecule(j)][1:]
        direction = np.einsum("aekc,e->akc", side.tangents[:, : len(v)], v)
        others.append((weights[j], side._replace(tangents=direction[:, None])))
    for i, side in enumerate(_sides(smooth, molecules)):
        total = np.zeros(1 + side.tangents.shape[1])
        for weight, other in others:
            block = _blocks(smooth, side, other)[kernel]
            total += weight * block[:, 0] + block[:, 1]
        size = 3 * int(molecules.sizes[i])
        energies[i] = total[0]
        forces[i, molecules.atomic_numbers[i] > 0] = total[1 : 1 + size].reshape(-1, 3)
    return energies, forces


class _Side(NamedTuple):
    """One molecule: elements, signals and minus their derivatives along each coordinate, for its padded atoms."""

    numbers: np.ndarray
    signals: np.ndarray  # (A, B², C)
    tangents: np.ndarray  # (A, 3 A, B², C)


def _sides(smooth: SmoothKernel, molecules: Molecules) -> list[_Side]:
    """Molecules with their atoms first and padding last."""
    sides = []
    for z, x in zip(molecules.atomic_numbers, molecules.positions, strict=True):
        order = np.argsort(z == 0, kind="stable")
        with precision.scope(np.float64):
            z, x = z[order], x[order].astype(np.float64)
            c, t = _signals(smooth.signals, jnp.asarray(z), jnp.asarray(x))
            sides.append(_Side(z, np.asarray(c), -np.asarray(t)))
    return sides


@partial(jax.jit, static_argnums=0)
def _signals(signals: AtomSignals, numbers: np.ndarray, positions: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """Signals (A, B², C) and their derivatives (A, 3 A, B², C)."""
    function = lambda x: signals.coefficients(numbers, x)
    slopes = jax.jacfwd(function)(positions)  # (A, B², C, A, 3)
    slopes = jnp.moveaxis(slopes.reshape(*slopes.shape[:3], -1), -1, 1)
    return function(positions), slopes


def _blocks(smooth: SmoothKernel, a: _Side, b: _Side) -> np.ndarray:
    """Covariances of one pair of molecules, (2, 1 + D1, 1 + D2)."""
    same = a.numbers[:, None] == b.numbers
    present = (a.numbers[:, None] > 0) & (b.numbers > 0)
    i, j = np.nonzero(present & (same | (smooth.pairs == "all")))
    fill = -len(i) % _PAIRS
    counts = np.concatenate([np.ones(len(i)), np.zeros(fill)])
    i, j = (np.concatenate([x, np.zeros(fill, x.dtype)]) for x in (i, j))
    with precision.scope(np.float64):
        return np.asarray(smooth.blocks(a.signals, a.tangents, b.signals, b.tangents, (i, j, counts)))
