"""What the regressors of molecules have in common: settings, and training on the rows of a joint covariance.

Rows whose prior variance is zero, such as forces on lone atoms, are the same for every network. Nothing can be learnt
from them, and nothing but zero is predicted for them; they are left out, as a pseudoinverse would.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from equitangents._types import KernelName, Network, Numbers, Times
from equitangents.errors import InvalidArgumentError, NotFittedError, NotPositiveDefiniteError, ShapeError
from equitangents.inference.dynamics import Flow, TrainedProcess, one_time
from equitangents.inference.spectrum import Ridge, Spectrum, decompose
from equitangents.molecules.kernel import Pairs, check_molecules, check_question
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.smooth_kernel import SmoothKernel
from equitangents.validation import check_array, check_choice

logger = logging.getLogger("equitangents")

_ZERO = 1e-6  # of the largest number given: what symmetry forbids may be off by rounding and by the data's own digits
_FAR = 100  # how many times smaller than the ridge an error must be that training should not fit


@dataclass(frozen=True, eq=False)
class LearntRows:
    """What was learnt from R numbers.

    Args:
        process: Trained on those rows that vary; None if there are none.
        varies: (R,) which rows do.
        which: The kernel that trained, 0 for NNGP and 1 for NTK.
    """

    process: TrainedProcess | None
    varies: Bool[np.ndarray, " rows"]
    which: int

    @property
    def max_learning_rate(self) -> float:
        """The largest stable step."""
        return math.inf if self.process is None else self.process.max_learning_rate

    def weights(self, time: float) -> Float[np.ndarray, " rows"]:
        """w with μ_t(x) = Θ(x, rows) w. Raises NotPositiveDefiniteError for a singular kernel at time inf."""
        found = np.zeros(len(self.varies))
        if self.process is not None:
            found[self.varies] = self.process.weights(time)[:, 0]
        return found

    def variance(self, cross: np.ndarray, prior: Float[np.ndarray, " m"], time: float) -> Float[np.ndarray, " m"]:
        """Variances of networks, given NNGP and NTK with the rows, (2, M, R), and the prior variances."""
        if self.process is None:
            return np.maximum(prior, 0.0)
        return self.process.project(*self._asked(cross)).covariance(prior, time)

    def covariance(self, cross: np.ndarray, prior: Float[np.ndarray, "m m"], time: float) -> Float[np.ndarray, "m m"]:
        """The covariance of these rows after training for this time."""
        return prior if self.process is None else self.process.project(*self._asked(cross)).covariance(prior, time)

    def _asked(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return cross[self.which][:, self.varies], cross[0][:, self.varies]


@dataclass(eq=False)
class MolecularRegressor:
    """Settings, stored as they are given and checked by `fit`; `MoleculeRegressor` says what they are."""

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
    notes_: tuple[str, ...] = field(default=(), init=False, repr=False)
    """What a reader of the predictions should know of the last fit."""

    def _check_settings(self, molecules: Molecules) -> None:
        """All that can be said before a kernel is computed. A fit that fails leaves no older one to predict with."""
        self.__dict__.pop("smooth_", None)
        self.notes_ = ()
        check_molecules("molecules", molecules)
        check_question(self.net, "lower", self.signals, self.pairs)
        check_choice("kernel", self.kernel, ("ntk", "nngp"))
        Ridge.number(self.ridge, "molecules share one")
        one_time(self.time)
        Flow(self.learning_rate, samples=1)

    def _check_asked(self, molecules: Molecules, time: Times | None) -> float:
        """The time at which a fitted model is asked about these molecules."""
        if not hasattr(self, "smooth_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        check_molecules("molecules", molecules)
        self.smooth_.signals.for_molecules(molecules)
        new = sorted(set(molecules.elements) - set(self._train.elements))
        if new and not self._knows_other_elements():
            raise InvalidArgumentError(
                "molecules",
                new[0],
                list(self._train.elements),
                "train on molecules with the element, too",
                verb="hold the element",
            )
        return one_time(self.time if time is None else time)

    @property
    def _which(self) -> int:
        """Of the two kernels the one that trains."""
        return 1 if self.kernel == "ntk" else 0

    def _knows_other_elements(self) -> bool:
        """Whether something is learnt of elements that no training molecule held."""
        return self.smooth_.pairs == "all"

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
        """Train on those rows of NNGP and NTK that vary, each multiplied by its `scale`.

        `samples` is N of the loss; `name` is for errors.
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
        """Say where the error of sampled rotations, which shows in negative eigenvalues, is not far below the ridge."""
        below = self.ridge - spectrum.smallest / spectrum.ridge_unit
        if below > max(self.ridge / _FAR, spectrum.blur / spectrum.ridge_unit):
            note = (
                f"{name}: rotations are sampled to {below:.1e} of its diagonal, which is not far below the ridge "
                f"{self.ridge:.1e}; predictions of turned molecules may differ by far more than the tolerance: set "
                f"ridge={_rounded_up(_FAR * below):.0e}, or lower SphereLift's tolerance"
            )
            logger.warning("%s", note)
            self.notes_ += (note,)


def _rounded_up(number: float) -> float:
    """To one digit."""
    digit = 10.0 ** math.floor(math.log10(number))
    return math.ceil(number / digit) * digit


def checked_targets(name: str, values: Numbers, *shapes: tuple[int, ...]) -> np.ndarray:
    """Targets as finite float64 numbers of one of these shapes."""
    found = check_array(name, values, min_rank=0).astype(np.float64)
    if found.shape not in shapes:
        raise ShapeError(name, found.shape, " or ".join(map(str, shapes)))
    return np.asarray(found)


def check_lone_atoms(
    name: str, values: np.ndarray, molecules: Molecules, symmetric: Callable[[np.ndarray], np.ndarray], rule: str
) -> None:
    """Raise where a molecule of one atom has a target that its symmetry forbids; `symmetric` is what it allows."""
    lone = np.flatnonzero(molecules.sizes == 1)
    excess = np.abs(values[lone] - symmetric(values[lone])).max(axis=tuple(range(1, values.ndim)))
    wrong = lone[excess > _ZERO * np.abs(values).max(initial=0.0)]
    if len(wrong):
        raise InvalidArgumentError(
            name, values[wrong[0]].tolist(), rule, "of a lone atom, by symmetry", at=int(wrong[0])
        )
