"""Energies and forces of molecules learnt by an infinitely wide network, from energies, from forces, or from both."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, NotFittedError, ShapeError
from equitangents.inference.dynamics import Flow
from equitangents.inference.gaussian import TrainedProcess
from equitangents.inference.spectrum import decompose
from equitangents.molecules.joint import JointKernels, Layout, energies_and_forces, joint_kernels
from equitangents.molecules.kernel import Pairs, kernels
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.smooth_kernel import SmoothKernel


class Prediction(NamedTuple):
    """Energies (N,) and forces (N, A, 3) in the units of the training data; stds of one network where asked for."""

    energies: Float[np.ndarray, " molecules"]
    forces: Float[np.ndarray, "molecules atoms 3"]
    energy_std: Float[np.ndarray, " molecules"] | None = None
    force_std: Float[np.ndarray, "molecules atoms 3"] | None = None


class MoleculeRegressor:
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
        ridge: Weight decay towards the initial weights, relative to the loss above; well above the kernel's own error,
            ten times the network's `tolerance`.
        kernel: "ntk", all layers trained; "nngp", the last one alone, the posterior of a Gaussian process.
        baseline: "elements": a least-squares energy for each element is taken off first (and added again); "none".
    """

    def __init__(
        self,
        net: Any,
        *,
        signals: AtomSignals | None = None,
        pairs: Pairs = "same element",
        time: float = math.inf,
        learning_rate: float = 1.0,
        ridge: float = 1e-6,
        kernel: Literal["ntk", "nngp"] = "ntk",
        baseline: Literal["elements", "none"] = "elements",
    ) -> None:
        self.net = net
        self.signals = signals
        self.pairs = pairs
        self.time = time
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.kernel = kernel
        self.baseline = baseline

    def fit(self, molecules: Molecules, energies: Any = None, forces: Any = None) -> MoleculeRegressor:
        """Train on energies (N,), forces (N, A, 3), or both; energy and length units fix those of forces.

        Without energies, predicted ones are known up to a constant for each composition.
        """
        if energies is None and forces is None:
            raise InvalidArgumentError("energies and forces are both None; expected at least one")
        if self.kernel not in ("ntk", "nngp"):
            raise InvalidArgumentError(f"kernel is {self.kernel!r}; expected 'ntk' or 'nngp'")
        if self.baseline not in ("elements", "none"):
            raise InvalidArgumentError(f"baseline is {self.baseline!r}; expected 'elements' or 'none'")
        y = None if energies is None else _checked("energies", energies, (len(molecules),))
        f = None if forces is None else _checked("forces", forces, molecules.positions.shape)
        self.smooth_ = SmoothKernel.of(self.net, molecules, self.signals, self.pairs)
        self._train, self._layout = molecules, Layout.of(molecules)
        self.element_energies_ = self._fit_baseline(molecules, y)
        targets, self._given = np.zeros(self._layout.rows), np.zeros(self._layout.rows, bool)
        if y is not None:
            targets[: len(molecules)] = y - self._baseline(molecules)
            self._given[: len(molecules)] = True
        if f is not None:
            targets[len(molecules) :] = f[molecules.atomic_numbers > 0].ravel()
            self._given[len(molecules) :] = True
        joint = self._joint(molecules, None, forces=f is not None)
        trains, prior = self._trained(joint), None if self.kernel == "nngp" else joint.nngp
        self._scale = _scales(np.diagonal(trains), self._given, len(molecules))
        here, scale = np.ix_(self._given, self._given), self._scale[self._given]
        weighted = lambda matrix: matrix[here] * scale[:, None] * scale
        spectrum = decompose(weighted(trains), ridge=self.ridge, name="kernel matrix of energies and forces")
        dynamics = Flow(self.learning_rate, samples=int(self._given.sum()))
        self._process = TrainedProcess(
            spectrum,
            targets[self._given, None],
            dynamics,
            prior=None if prior is None else weighted(prior),
            scale=scale,
        )
        self._process.check(float(self.time))
        self.max_learning_rate_ = self._process.max_learning_rate
        return self

    def predict(self, molecules: Molecules, *, time: float | None = None, return_std: bool = False) -> Prediction:
        """Energies and forces; with `return_std` those of single networks around them, which takes far longer."""
        if not hasattr(self, "_process"):
            raise NotFittedError("this MoleculeRegressor is not fitted yet; call fit first")
        t = float(self.time if time is None else time)
        self.smooth_.signals.for_molecules(molecules)
        process = self._process
        response = process.dynamics.response(process.spectrum.eigenvalues, t)
        weights = np.zeros(self._layout.rows)
        weights[self._given] = self._scale[self._given] * (
            process.spectrum.vectors @ (response * process.targets[:, 0])
        )
        which = 1 if self.kernel == "ntk" else 0
        energies, forces = energies_and_forces(self.smooth_, molecules, self._train, weights, which)
        energies += self._baseline(molecules)
        if not return_std:
            return Prediction(energies, forces)
        return Prediction(energies, forces, *self._stds(molecules, t))

    def _stds(self, molecules: Molecules, time: float) -> tuple[np.ndarray, np.ndarray]:
        cross = joint_kernels(self.smooth_, molecules, self._train)
        projection = self._process.project(self._trained(cross)[:, self._given], cross.nngp[:, self._given])
        layout = Layout.of(molecules)
        prior = np.zeros(layout.rows)
        for i in range(len(molecules)):
            prior[layout.of_molecule(i)] = np.diagonal(joint_kernels(self.smooth_, molecules[[i]]).nngp)
        std = np.sqrt(projection.variance(prior, time))
        forces = np.zeros(molecules.positions.shape)
        forces[molecules.atomic_numbers > 0] = std[len(molecules) :].reshape(-1, 3)
        return std[: len(molecules)], forces

    def _joint(self, molecules: Molecules, others: Molecules | None, forces: bool) -> JointKernels:
        """All of the covariance, or the energies' alone where nothing else is asked for."""
        if forces:
            return joint_kernels(self.smooth_, molecules, others)
        n = len(molecules)
        found = kernels(self.smooth_, molecules, others, signals=self.smooth_.signals, pairs=self.pairs)
        total = np.zeros((2, self._layout.rows, self._layout.rows))
        total[0, :n, :n], total[1, :n, :n] = found.nngp, found.ntk
        return JointKernels(total[0], total[1])

    def _trained(self, joint: JointKernels) -> np.ndarray:
        return joint.ntk if self.kernel == "ntk" else joint.nngp

    def _fit_baseline(self, molecules: Molecules, energies: np.ndarray | None) -> dict[int, float]:
        if energies is None or self.baseline == "none":
            return {}
        solution = np.linalg.lstsq(_composition(molecules, molecules.elements), energies, rcond=None)[0]
        return dict(zip(molecules.elements, solution.tolist(), strict=True))

    def _baseline(self, molecules: Molecules) -> np.ndarray:
        elements = tuple(self.element_energies_)
        return _composition(molecules, elements) @ np.array([self.element_energies_[z] for z in elements])


def _composition(molecules: Molecules, elements: tuple[int, ...]) -> np.ndarray:
    """How many atoms of each element there are, (N, elements)."""
    return (molecules.atomic_numbers[:, :, None] == np.array(elements, int)).sum(axis=1).astype(float)


def _scales(diagonal: np.ndarray, given: np.ndarray, energies: int) -> np.ndarray:
    """1/σ for every row: one number for energies, one for forces."""
    scale = np.ones(len(diagonal))
    for part in (slice(0, energies), slice(energies, None)):
        if given[part].any():
            scale[part] = 1 / np.sqrt(diagonal[part].mean())
    return scale


def _checked(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ShapeError(f"{name} has shape {values.shape}; expected {shape}")
    if not np.isfinite(values).all():
        raise InvalidArgumentError(f"{name} holds values that are not finite")
    return values
