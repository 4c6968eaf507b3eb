"""Energies and forces of molecules learnt by an infinitely wide network, from energies, from forces, or from both.

Also the common base of molecular regressors: settings, and training on the rows of a joint covariance. Rows whose
prior variance is zero, such as forces on lone atoms, are zero for every network. Nothing can be learnt from them, and
their prediction is zero; they are left out, as by a pseudoinverse.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from equitangents._types import KernelName, Network, Numbers, Times
from equitangents.errors import InvalidArgumentError, NotFittedError, NotPositiveDefiniteError, ShapeError
from equitangents.inference.dynamics import Flow, TrainedProcess, one_time
from equitangents.inference.spectrum import Ridge, Spectrum, decompose
from equitangents.molecules.joint import TargetLayout, energies_and_forces, joint_kernels
from equitangents.molecules.kernel import Pairs, check_molecules, check_question, kernels
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.smooth_kernel import SmoothKernel, kernel_for_forces
from equitangents.validation import check_array, check_choice

logger = logging.getLogger("equitangents")

_ZERO = 1e-6  # of the largest number given: what symmetry forbids may be off by rounding and by the data's own digits
_FAR = 100  # how many times smaller than the ridge an error must be that training should not fit
_NO_VARIANCE = 1e-15  # of the largest one: rounding


@dataclass(frozen=True, eq=False)
class LearntRows:
    """A process trained on R numbers.

    Args:
        process: Trained on the rows that vary; None if there are none.
        varies: (R,) mask of these rows.
        which: The training kernel, 0 for NNGP and 1 for NTK.
    """

    process: TrainedProcess | None
    varies: Bool[np.ndarray, " rows"]
    which: int

    @property
    def max_learning_rate(self) -> float:
        """The largest stable learning rate of gradient descent in steps."""
        return math.inf if self.process is None else self.process.max_learning_rate

    def weights(self, time: float) -> Float[np.ndarray, " rows"]:
        """w with μ_t(x) = Θ(x, rows) w. Raises NotPositiveDefiniteError for a singular kernel at time inf."""
        found = np.zeros(len(self.varies))
        if self.process is not None:
            found[self.varies] = self.process.weights(time)[:, 0]
        return found

    def variance(self, cross: np.ndarray, prior: Float[np.ndarray, " m"], time: float) -> Float[np.ndarray, " m"]:
        """Variances over networks, from NNGP and NTK with the rows, (2, M, R), and the prior variances."""
        if self.process is None:
            return np.maximum(prior, 0.0)
        return self.process.project(*self._cross_pair(cross)).covariance(prior, time)

    def covariance(self, cross: np.ndarray, prior: Float[np.ndarray, "m m"], time: float) -> Float[np.ndarray, "m m"]:
        """The covariance of these rows after training for this time."""
        return prior if self.process is None else self.process.project(*self._cross_pair(cross)).covariance(prior, time)

    def _cross_pair(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return cross[self.which][:, self.varies], cross[0][:, self.varies]


@dataclass(eq=False)
class MolecularRegressor:
    """Base of molecular regressors: settings as in `MoleculeRegressor`, stored unchanged and checked by `fit`."""

    net: Network
    _: KW_ONLY
    signals: AtomSignals | None = None
    pairs: Pairs = "same element"
    time: float = math.inf
    learning_rate: float = 1.0
    ridge: float = 1e-6
    kernel: KernelName = "ntk"
    smooth_: SmoothKernel = field(init=False, repr=False)
    _train: Molecules = field(init=False, repr=False)
    element_energies_: dict[int, float] = field(default_factory=dict, init=False, repr=False)
    notes_: tuple[str, ...] = field(default=(), init=False, repr=False)
    """Notes on the accuracy of the last fit."""

    def _check_settings(self, molecules: Molecules) -> None:
        """Check settings before a kernel is computed, and remove the result of an older fit."""
        self.__dict__.pop("smooth_", None)
        self.notes_ = ()
        check_molecules("molecules", molecules)
        check_question(self.net, "lower", self.signals, self.pairs)
        check_choice("kernel", self.kernel, ("ntk", "nngp"))
        Ridge.number(self.ridge, "molecules share one")
        one_time(self.time)
        Flow(self.learning_rate, samples=1)

    def _check_prediction(self, molecules: Molecules, time: Times | None) -> float:
        """The time of a prediction for these molecules, checked."""
        if not hasattr(self, "smooth_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        check_molecules("molecules", molecules)
        self.smooth_.signals.for_molecules(molecules)
        new = sorted(set(molecules.elements) - set(self._train.elements))
        if new and (self.smooth_.pairs != "all" or self.element_energies_):
            known, remedy = list(self._train.elements), "train on molecules with the element, too"
            raise InvalidArgumentError("molecules", new[0], known, remedy, verb="hold the element")
        return one_time(self.time if time is None else time)

    @property
    def _which(self) -> int:
        """Index of the training kernel: 0 for NNGP, 1 for NTK."""
        return 1 if self.kernel == "ntk" else 0

    def _learn(
        self,
        both: Float[np.ndarray, "2 rows rows"],
        targets: Float[np.ndarray, " rows"],
        varies: Bool[np.ndarray, " rows"],
        scale: Float[np.ndarray, " rows"],
        *,
        samples: int,
        name: str,
    ) -> LearntRows:
        """Train on the rows of NNGP and NTK that vary, each multiplied by its `scale`.

        `samples` is N in the loss; `name` is for errors.
        """
        which = self._which
        if not varies.any():
            logger.warning("%s: no training number varies between networks; nothing is learnt", name)
            return LearntRows(None, varies, which)
        here, factor = np.ix_(varies, varies), scale[varies]
        weighted = lambda matrix: matrix[here] * factor[:, None] * factor
        try:
            spectrum = decompose(weighted(both[which]), ridge=self.ridge, name=name)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(
                f"{error}; kernels of molecules are means over sampled rotations, which are as exact as SphereLift's "
                "tolerance and leave eigenvalues below 0: a lower tolerance helps, too"
            ) from None
        self._note_sampling(spectrum, name)
        process = TrainedProcess(
            spectrum,
            targets[varies, None],
            Flow(self.learning_rate, samples=samples),
            prior=weighted(both[0]) if which == 1 else None,
            scale=factor,
        )
        process.check(one_time(self.time))
        return LearntRows(process, varies, which)

    def _note_sampling(self, spectrum: Spectrum, name: str) -> None:
        """Add a note if the error of sampled rotations, visible in negative eigenvalues, is not far below the ridge."""
        below = self.ridge - spectrum.smallest / spectrum.ridge_unit
        if below > max(self.ridge / _FAR, spectrum.blur / spectrum.ridge_unit):
            digit = 10.0 ** math.floor(math.log10(_FAR * below))  # to which the ridge is rounded up
            note = (
                f"{name}: rotations are sampled to {below:.1e} of its diagonal, which is not far below the ridge "
                f"{self.ridge:.1e}; predictions of rotated molecules may differ by far more than the tolerance: set "
                f"ridge={math.ceil(_FAR * below / digit) * digit:.0e}, or lower SphereLift's tolerance"
            )
            logger.warning("%s", note)
            self.notes_ += (note,)


def checked_targets(name: str, values: Numbers, *shapes: tuple[int, ...]) -> np.ndarray:
    """Targets as finite float64 numbers, of one of these shapes."""
    found = check_array(name, values, min_rank=0).astype(np.float64)
    if found.shape not in shapes:
        raise ShapeError(name, found.shape, " or ".join(map(str, shapes)))
    return np.asarray(found)


def check_lone_atoms(
    name: str, values: np.ndarray, molecules: Molecules, symmetric: Callable[[np.ndarray], np.ndarray], rule: str
) -> None:
    """Raise if a molecule of one atom has a target that its symmetry forbids; `symmetric` projects on allowed ones."""
    lone = np.flatnonzero(molecules.sizes == 1)
    excess = np.abs(values[lone] - symmetric(values[lone])).max(axis=tuple(range(1, values.ndim)))
    wrong = lone[excess > _ZERO * np.abs(values).max(initial=0.0)]
    if len(wrong):
        raise InvalidArgumentError(
            name, values[wrong[0]].tolist(), rule, "of a lone atom, by symmetry", at=int(wrong[0])
        )


class Prediction(NamedTuple):
    """Energies (N,) and forces (N, A, 3) in the units of the training data; stds of one network if requested."""

    energies: Float[np.ndarray, " molecules"]
    forces: Float[np.ndarray, "molecules atoms 3"]
    energy_std: Float[np.ndarray, " molecules"] | None = None
    force_std: Float[np.ndarray, "molecules atoms 3"] | None = None


@dataclass(eq=False)
class MoleculeRegressor(MolecularRegressor):
    """The ensemble of infinitely wide networks trained on energies and forces: E(m) = Σ_atoms N_z(signal of the atom).

    Forces are minus the gradient of the energy, exactly, both for the mean and for every network. They rotate with the
    molecule as far as the kernel is invariant, to the network's `tolerance`. The loss is, for N numbers in total,

        L = (1/2N) [ Σ (E − y)²/σ_E² + Σ |F − f|²/σ_F² ],

    σ² the mean prior variances of the training kernel, so that both kinds count whatever their units.

    Args:
        net: A network on spherical signals whose nonlinearities are smooth (Erf, Gelu, Sin): forces need second
            derivatives, which ReLU's kernel does not have at equal inputs.
        signals: The atoms' signals; None: `signals_for(net)`.
        pairs: Which atoms are compared, "same element" or "all".
        time: Training time of gradient flow; inf: to the end.
        learning_rate: η; `max_learning_rate_` is the largest stable step, known after `fit`.
        ridge: Weight decay towards the initial weights, relative to the loss above; should be well above the effect of
            sampled rotations on the kernel's eigenvalues, which may be many times the network's `tolerance`; `notes_`
            warns otherwise.
        kernel: "ntk", all layers trained; "nngp", only the last one, the posterior of a Gaussian process.
        baseline: "elements": a least-squares energy per element is subtracted first (and added again); "none".
    """

    baseline: Literal["elements", "none"] = field(default="elements", kw_only=True)

    def fit(
        self, molecules: Molecules, energies: Numbers | None = None, forces: Numbers | None = None
    ) -> MoleculeRegressor:
        """Train on energies (N,), forces (N, A, 3), or both; energy and length units determine those of forces.

        Without energies, predicted ones are known up to a constant for each composition. Lone atoms contribute their
        element's energy and no forces, which must be zero.
        """
        self._check_settings(molecules)
        check_choice("baseline", self.baseline, ("elements", "none"))
        if energies is None and forces is None:
            raise InvalidArgumentError("energies", None, "energies, forces or both")
        n, layout = len(molecules), TargetLayout.of(molecules)
        targets, has_target = np.zeros(layout.rows), np.zeros(layout.rows, bool)
        self.element_energies_ = {}
        if energies is not None:
            y = checked_targets("energies", energies, (n,))
            if self.baseline == "elements":
                self.element_energies_ = _element_energies(molecules, y)
            targets[:n], has_target[:n] = y - self._baseline(molecules), True
        if forces is not None:
            f = checked_targets("forces", forces, molecules.positions.shape)
            check_lone_atoms("forces", f, molecules, np.zeros_like, "zero")
            targets[n:], has_target[n:] = f[molecules.atomic_numbers > 0].ravel(), True
        smooth = kernel_for_forces(self.net, molecules, self.signals, self.pairs)
        self._rows = np.flatnonzero(has_target)
        both = _covariances(smooth, molecules, self._rows, forces=forces is not None)
        variance = np.diagonal(both[self._which])
        self._learnt = self._learn(
            both,
            targets[has_target],
            variance > _NO_VARIANCE * variance.max(),
            _scales(variance, self._rows < n),
            samples=len(self._rows),
            name="kernel matrix of energies and forces",
        )
        self.max_learning_rate_ = self._learnt.max_learning_rate
        self._train, self.smooth_ = molecules, smooth
        return self

    def predict(self, molecules: Molecules, *, time: float | None = None, return_std: bool = False) -> Prediction:
        """Energies and forces; with `return_std` also standard deviations over networks, which takes far longer.

        `time`: one training time, None: the constructor's. Raises NotFittedError before `fit`, InvalidArgumentError for
        elements absent from training (with pairs="all" and baseline="none": for elements without channels in
        `signals`), NotPositiveDefiniteError for a singular kernel at time inf.
        """
        t = self._check_prediction(molecules, time)
        weights = np.zeros(TargetLayout.of(self._train).rows)
        weights[self._rows] = self._learnt.weights(t)
        energies, forces = energies_and_forces(self.smooth_, molecules, self._train, weights, self._learnt.which)
        energies += self._baseline(molecules)
        if not return_std:
            return Prediction(energies, forces)
        return Prediction(energies, forces, *self._stds(molecules, t))

    def _stds(self, molecules: Molecules, time: float) -> tuple[np.ndarray, np.ndarray]:
        cross = joint_kernels(self.smooth_, molecules, self._train)[:, :, self._rows]
        layout = TargetLayout.of(molecules)
        prior = np.zeros(layout.rows)
        for i in range(len(molecules)):
            prior[layout.of_molecule(i)] = np.diagonal(joint_kernels(self.smooth_, molecules[[i]])[0])
        std = np.sqrt(self._learnt.variance(cross, prior, time))
        forces = np.zeros(molecules.positions.shape)
        forces[molecules.atomic_numbers > 0] = std[len(molecules) :].reshape(-1, 3)
        return std[: len(molecules)], forces

    def _baseline(self, molecules: Molecules) -> np.ndarray:
        elements = tuple(self.element_energies_)
        return _composition(molecules, elements) @ np.array([self.element_energies_[z] for z in elements])


def _covariances(smooth: SmoothKernel, molecules: Molecules, rows: np.ndarray, *, forces: bool) -> np.ndarray:
    """NNGP and NTK of some rows, (2, R, R); if all rows are energies, forces are not computed."""
    if not forces:  # as predictions do, in float64
        exact = molecules.with_positions(molecules.positions.astype(np.float64))
        found = kernels(smooth, exact, signals=smooth.signals, pairs=smooth.pairs)
        return np.stack([found.nngp, found.ntk]).astype(np.float64)
    joint = joint_kernels(smooth, molecules)
    return joint if len(rows) == joint.shape[1] else joint[:, rows[:, None], rows]


def _element_energies(molecules: Molecules, energies: np.ndarray) -> dict[int, float]:
    solution = np.linalg.lstsq(_composition(molecules, molecules.elements), energies, rcond=None)[0]
    return dict(zip(molecules.elements, solution.tolist(), strict=True))


def _composition(molecules: Molecules, elements: tuple[int, ...]) -> np.ndarray:
    """Number of atoms of each element, (N, elements)."""
    return (molecules.atomic_numbers[:, :, None] == np.array(elements, int)).sum(axis=1).astype(float)


def _scales(variance: np.ndarray, is_energy: np.ndarray) -> np.ndarray:
    """1/σ for every row: one value for energies, one for forces; 1 if every variance is zero."""
    scale = np.ones(len(variance))
    for part in (is_energy, ~is_energy):
        if variance[part].any():
            scale[part] = 1 / np.sqrt(variance[part].mean())
    return scale
