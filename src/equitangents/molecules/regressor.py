"""Energies and forces of molecules learnt by an infinitely wide network, from energies, from forces, or from both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError
from equitangents.molecules.joint import Layout, energies_and_forces, joint_kernels
from equitangents.molecules.kernel import kernels
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.regressor_base import MolecularRegressor, check_lone_atoms, checked_targets
from equitangents.molecules.resolution import kernel_for_forces
from equitangents.molecules.smooth_kernel import SmoothKernel
from equitangents.validation import check_choice

_NO_VARIANCE = 1e-15  # of the largest one: rounding


class Prediction(NamedTuple):
    """Energies (N,) and forces (N, A, 3) in the units of the training data; stds of one network where asked for."""

    energies: Float[np.ndarray, " molecules"]
    forces: Float[np.ndarray, "molecules atoms 3"]
    energy_std: Float[np.ndarray, " molecules"] | None = None
    force_std: Float[np.ndarray, "molecules atoms 3"] | None = None


@dataclass(eq=False)
class MoleculeRegressor(MolecularRegressor):
    """The ensemble of infinitely wide networks trained on energies and forces: E(m) = Σ_atoms N_z(signal of the atom).

    Forces are minus the gradient of the energy, exactly: of the mean and of every network. They turn with the molecule
    as far as the kernel is invariant, to the network's `tolerance`. Minimised is, for N numbers in all,

        L = (1/2N) [ Σ (E − y)²/σ_E² + Σ |F − f|²/σ_F² ],

    σ² the mean prior variances of the trained kernel, so that either kind counts whatever its unit.

    Args:
        net: A network on spherical signals whose nonlinearities are smooth (Erf, Gelu, Sin): forces need second
            derivatives, which ReLU's kernel does not have at equal inputs.
        signals: What atoms see; None: `signals_for(net)`.
        pairs: Which atoms are compared, "same element" or "all".
        time: Training time of gradient flow; inf: to the end.
        learning_rate: η; the largest stable step is known after `fit` as `max_learning_rate_`.
        ridge: Weight decay towards the initial weights, relative to the loss above; well above what sampling rotations
            does to the kernel's eigenvalues, which may be many times the network's `tolerance`; `notes_` says where it
            is not.
        kernel: "ntk", all layers trained; "nngp", the last one alone, the posterior of a Gaussian process.
        baseline: "elements": a least-squares energy for each element is taken off first (and added again); "none".
    """

    baseline: Literal["elements", "none"] = field(default="elements", kw_only=True)

    def fit(
        self, molecules: Molecules, energies: Numbers | None = None, forces: Numbers | None = None
    ) -> MoleculeRegressor:
        """Train on energies (N,), forces (N, A, 3), or both; energy and length units fix those of forces.

        Without energies, predicted ones are known up to a constant for each composition. Lone atoms teach their
        element's energy and no forces, which must be zero.
        """
        self._check_settings(molecules)
        check_choice("baseline", self.baseline, ("elements", "none"))
        if energies is None and forces is None:
            raise InvalidArgumentError("energies and forces are both None; expected at least one")
        n, layout = len(molecules), Layout.of(molecules)
        targets, given = np.zeros(layout.rows), np.zeros(layout.rows, bool)
        self.element_energies_ = {}
        if energies is not None:
            y = checked_targets("energies", energies, (n,))
            if self.baseline == "elements":
                self.element_energies_ = _element_energies(molecules, y)
            targets[:n], given[:n] = y - self._baseline(molecules), True
        if forces is not None:
            f = checked_targets("forces", forces, molecules.positions.shape)
            check_lone_atoms("forces", f, molecules, np.zeros_like, "zero")
            targets[n:], given[n:] = f[molecules.atomic_numbers > 0].ravel(), True
        smooth = kernel_for_forces(self.net, molecules, self.signals, self.pairs)
        self._asked = np.flatnonzero(given)
        both = _covariances(smooth, molecules, self._asked, forces=forces is not None)
        variance = np.diagonal(both[self._which])
        self._learnt = self._learn(
            both,
            targets[given],
            variance > _NO_VARIANCE * variance.max(),
            _scales(variance, self._asked < n),
            samples=len(self._asked),
            name="kernel matrix of energies and forces",
        )
        self.max_learning_rate_ = self._learnt.max_learning_rate
        self._train, self.smooth_ = molecules, smooth
        return self

    def predict(self, molecules: Molecules, *, time: float | None = None, return_std: bool = False) -> Prediction:
        """Energies and forces; with `return_std` those of single networks around them, which takes far longer.

        `time`: one training time, None: the constructor's. Raises NotFittedError before `fit`, InvalidArgumentError for
        elements that no training molecule held (with pairs="all" and no energies taken off for elements, for those that
        `signals` have no channels for), NotPositiveDefiniteError for a singular kernel at time inf.
        """
        t = self._check_asked(molecules, time)
        weights = np.zeros(Layout.of(self._train).rows)
        weights[self._asked] = self._learnt.weights(t)
        energies, forces = energies_and_forces(self.smooth_, molecules, self._train, weights, self._learnt.which)
        energies += self._baseline(molecules)
        if not return_std:
            return Prediction(energies, forces)
        return Prediction(energies, forces, *self._stds(molecules, t))

    def _stds(self, molecules: Molecules, time: float) -> tuple[np.ndarray, np.ndarray]:
        cross = joint_kernels(self.smooth_, molecules, self._train)[:, :, self._asked]
        layout = Layout.of(molecules)
        prior = np.zeros(layout.rows)
        for i in range(len(molecules)):
            prior[layout.of_molecule(i)] = np.diagonal(joint_kernels(self.smooth_, molecules[[i]])[0])
        std = np.sqrt(self._learnt.variance(cross, prior, time))
        forces = np.zeros(molecules.positions.shape)
        forces[molecules.atomic_numbers > 0] = std[len(molecules) :].reshape(-1, 3)
        return std[: len(molecules)], forces

    def _knows_other_elements(self) -> bool:
        return super()._knows_other_elements() and not self.element_energies_

    def _baseline(self, molecules: Molecules) -> np.ndarray:
        elements = tuple(self.element_energies_)
        return _composition(molecules, elements) @ np.array([self.element_energies_[z] for z in elements])


def _covariances(smooth: SmoothKernel, molecules: Molecules, rows: np.ndarray, *, forces: bool) -> np.ndarray:
    """NNGP and NTK of some rows, (2, R, R); forces are left out of the work where all rows are energies."""
    if not forces:
        found = kernels(smooth, molecules, signals=smooth.signals, pairs=smooth.pairs)
        return np.stack([found.nngp, found.ntk]).astype(np.float64)
    joint = joint_kernels(smooth, molecules)
    return joint if len(rows) == joint.shape[1] else joint[:, rows[:, None], rows]


def _element_energies(molecules: Molecules, energies: np.ndarray) -> dict[int, float]:
    solution = np.linalg.lstsq(_composition(molecules, molecules.elements), energies, rcond=None)[0]
    return dict(zip(molecules.elements, solution.tolist(), strict=True))


def _composition(molecules: Molecules, elements: tuple[int, ...]) -> np.ndarray:
    """How many atoms of each element there are, (N, elements)."""
    return (molecules.atomic_numbers[:, :, None] == np.array(elements, int)).sum(axis=1).astype(float)


def _scales(variance: np.ndarray, is_energy: np.ndarray) -> np.ndarray:
    """1/σ for every row: one number for energies, one for forces; 1 where every variance is zero."""
    scale = np.ones(len(variance))
    for part in (is_energy, ~is_energy):
        if variance[part].any():
            scale[part] = 1 / np.sqrt(variance[part].mean())
    return scale
