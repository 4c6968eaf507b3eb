"""Is a learning algorithm symmetric under a group?

A(τX, Y)(τx) = A(X, Y)(x) for all τ: of infinite width as functions, of trained networks in law.

kernel       infinite width: both predictions are computed, and differ by rounding if the algorithm is symmetric
coupled      finite width: networks whose first weights moved along give equal outputs, so the laws are equal
two-sample   finite width: networks of independent seeds, trained on moved data or not, compared by energy_test

The energy distance E² = 2 E|X − Y| − E|X − X'| − E|Y − Y'| is zero only for equal laws. Under equal laws all
assignments of the pooled vectors to the two samples are equally likely, so the share of assignments with a distance as
large is a p-value: it is at most α with probability at most α, for any sizes and dimensions.

Sources: Xiao & Pennington 2022, arXiv 2207.04612, section 4; Székely & Rizzo 2004, Testing for
equal distributions in high dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError
from equitangents.extending import Numbers, check_array, check_number, check_whole
from equitangents.statistics import Estimate, binomial_ends
from equitangents_studies.systems.architectures import why_uncoupled
from equitangents_studies.systems.descent import KernelInference
from equitangents_studies.systems.system import System, fit_moved
from equitangents_studies.systems.transformations import Sample, Transformation, sample_data, transformation


class TwoSample(NamedTuple):
    """The energy distance E² of two samples, and its p-value over random assignments."""

    distance: float
    p_value: float


def energy_test(
    a: Float[np.ndarray, "n values"], b: Float[np.ndarray, "m values"], *, permutations: int = 999, seed: int = 0
) -> TwoSample:
    """Permutation test of the hypothesis that rows of a and of b, two or more each, have one law.

    The statistic is the energy distance 2 E|a − b| − E|a − a′| − E|b − b′| over distinct rows (Székely & Rizzo 2013);
    the p-value is the share of `permutations` random divisions (including the given one) with at least the same
    statistic.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> energy_test(rng.normal(size=(20, 3)), 2 + rng.normal(size=(20, 3))).p_value
    0.001
    """
    pooled = np.concatenate([a, b]).astype(np.float64)
    if not np.isfinite(pooled).all():
        raise NotFiniteError("a or b holds NaN or infinite values; a test needs finite ones")
    distances = cdist(pooled, pooled)  # from differences: squares would lose the digits of samples far from 0
    rng, n, m = np.random.default_rng(seed), len(a), len(b)
    first = np.zeros((permutations + 1, n + m))  # a row for each assignment, 1 for what is in the first sample
    first[0, :n] = 1
    for row in first[1:]:
        row[rng.permutation(n + m)[:n]] = 1
    to_first = first @ distances
    cross = np.einsum("pi,pi->p", to_first, 1 - first)
    within = np.einsum("pi,pi->p", to_first, first)
    rest = distances.sum() - within - 2 * cross
    values = 2 * cross / (n * m) - within / (n * (n - 1)) - rest / (m * (m - 1))
    as_large = np.count_nonzero(values >= values[0] - 1e-12 * np.max(np.abs(values)))  # itself among them
    return TwoSample(float(values[0]), float(as_large / (permutations + 1)))


TOLERANCE = 1e-8
"""Largest difference of predictions in float64, relative to the largest prediction, that counts as rounding."""
_ROUNDING = 1e-11  # by which equal kernels may differ, relative to the largest entry
_SOME = 64  # inputs whose kernels are compared
_FEWEST = 16  # members of each sample


@final
@dataclass(frozen=True)
class SymmetryResult:
    """Result of a test of algorithmic symmetry.

    Args:
        verdict: "symmetric", "not symmetric" or "not decided".
        method: "kernel", "coupled" or "two-sample".
        number: the largest difference of predictions relative to the largest prediction; of two-sample, the p-value.
        tolerance: up to which `number` is rounding; of two-sample, the level at or below which laws differ.
    """

    verdict: str
    method: str
    number: float
    tolerance: float

    @property
    def symmetric(self) -> bool | None:
        """True, False, or None if undecided."""
        return {"symmetric": True, "not symmetric": False}.get(self.verdict)


def algorithmic_symmetry(
    system: System,
    group: str,
    x: Numbers | None = None,
    y: Numbers | None = None,
    x_test: Numbers | None = None,
    *,
    seed: int = 0,
    members: int | None = None,
    level: float = 0.01,
) -> SymmetryResult:
    """Test whether predictions are unchanged when a random element of `group` moves training and test inputs.

    Args:
        system: the architecture and inference; its own transformation moves the inputs first.
        group: "I", "O(3)xI", "O(3)^d", "P(3d)" or "O(3d)".
        x: training inputs (N, *positions, channels); None: `textures` of 8 × 8 × 3 with 3 classes.
        y: labels or targets.
        x_test: inputs that are predicted; None: those of training.
        seed: of the group's element, and of the permutations.
        members: networks of each sample of the two-sample test; None: those of the inference, at least 16.
        level: of the two-sample test: how often it may say "not symmetric" of a symmetric algorithm.

    The method is "kernel" at infinite width; at finite width "coupled" where there is a coupled initialisation for
    the group, and else "two-sample". "not symmetric" means that predictions of kernels differ, or that the
    two-sample test rejects. Equal coupled networks prove symmetry, up to rounding in float64, which is 1e-8 and,
    where kernels agree, at least their difference times their condition number, on up to 64 inputs; a two-sample
    test that does not reject proves nothing: "not decided", as is all that is not finite, and predictions that
    differ although kernels agree (float64 or a ridge may decide those).

    >>> from equitangents_studies import systems
    >>> lcn = systems.System("I", systems.architecture("LCN", depth=2), "NTK")
    >>> systems.algorithmic_symmetry(lcn, "O(3)^d").verdict, systems.algorithmic_symmetry(lcn, "O(3d)").verdict
    ('symmetric', 'not symmetric')
    """
    if not isinstance(system, System):
        raise InvalidTypeError("system", system, "an equitangents_studies.systems.System")
    data = _data(x, y, x_test)
    tau = transformation(group, data.x.shape[1:], seed=seed)
    move = system.transformation(data.x.shape[1:])
    data = Sample(move(np.asarray(data.x, np.float64)), data.y, move(np.asarray(data.x_test, np.float64)))
    system = replace(system, data="I")
    if isinstance(system.inference, KernelInference):
        return _by_kernel(system, tau, data)
    if why_uncoupled(system.architecture, tau.group):
        return _by_two_samples(system, tau, data, seed, members, level)
    precise = replace(system, inference=replace(system.inference, dtype="float64"))
    here, there = _both(precise, precise, tau, data, tau)
    number = relative(there, here)
    verdict = "symmetric" if number <= TOLERANCE else "not decided"  # training may have amplified rounding
    return SymmetryResult(verdict, "coupled", number, TOLERANCE)


_SHAPE, _SAMPLES, _CLASSES = (4, 4, 3), 12, 3  # of each case


def false_alarm_rate(
    system: System, group: str, *, cases: int = 200, members: int = 8, level: float = 0.05, seed: int = 0
) -> Estimate:
    """Rate at which the two-sample test at `level` rejects a symmetric `system`, over `cases`.

    Every case has its own inputs, group element and seeds. The interval is that of Clopper & Pearson at 95 %, over
    cases. It should contain numbers up to `level` if the system is symmetric.
    """
    rejected = 0
    for case in range(check_whole("cases", cases, 1)):
        x = np.random.default_rng([seed, case]).standard_normal((2 * _SAMPLES, *_SHAPE))
        own, tau = system.with_seed(2 * (seed * cases + case)), transformation(group, _SHAPE, seed=case)
        data = Sample(x[:_SAMPLES], np.arange(_SAMPLES) % _CLASSES, x[_SAMPLES:])
        result = _by_two_samples(own, tau, data, case, members, level)
        if not np.isfinite(result.number):
            raise InvalidArgumentError("c", case, remedy="lower c", verb="gives predictions not finite in case")
        rejected += result.verdict == "not symmetric"
    low, high = binomial_ends(rejected / cases, cases, 0.95, (0.0, 1.0))
    return Estimate(rejected / cases, low, high, 0.95)


def _by_kernel(system: System, tau: Transformation, data: Sample) -> SymmetryResult:
    (here, there), few = _both(system, system, tau, data), data.x[:_SOME]
    kernel = lambda z: np.asarray(getattr(system.architecture.kernel(z), system.inference.kernel))
    number, difference, limit = relative(there, here), relative(kernel(tau(few)), kernel(few)), TOLERANCE
    same_kernels = difference <= _ROUNDING
    if same_kernels:  # solving amplifies what rounding left by up to the condition number
        limit = max(limit, float(np.linalg.cond(np.asarray(kernel(few), np.float64))) * difference)
    if number <= limit:
        verdict = "symmetric"
    else:
        decided = not same_kernels and np.isfinite(number + difference)
        verdict = "not symmetric" if decided else "not decided"
    return SymmetryResult(verdict, "kernel", number, limit)


def _by_two_samples(
    system: System, tau: Transformation, data: Sample, seed: int, members: int | None, level: float
) -> SymmetryResult:
    check_number("level", level, "a number between 0 and 1", lambda share: 0 < share < 1)
    count = max(system.inference.members, _FEWEST) if members is None else check_whole("members", members, 2)
    many = replace(system, inference=replace(system.inference, members=count, dtype="float64"))
    samples = [np.reshape(f, (count, -1)) for f in _both(many, many.with_seed(system.seed + 1), tau, data)]
    if not all(np.isfinite(f).all() for f in samples):
        return SymmetryResult("not decided", "two-sample", float("nan"), level)
    p_value = energy_test(*samples, seed=seed).p_value
    return SymmetryResult("not symmetric" if p_value <= level else "not decided", "two-sample", p_value, level)


def _both(
    system: System, other: System, tau: Transformation, data: Sample, coupling: Transformation | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of `system`, and of `other` with all inputs moved by τ; for finite networks of every member."""
    here = fit_moved(system, data.x, data.y, None)
    there = fit_moved(other, tau(data.x), data.y, coupling)
    if isinstance(system.inference, KernelInference):
        return here.predict(data.x_test), there.predict(tau(data.x_test))
    return here.predict_members(data.x_test), there.predict_members(tau(data.x_test))


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """The largest |a − b| over the largest |b|; NaN if an entry is not finite."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("nan")
    return float(np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b)))


def _data(x: Numbers | None, y: Numbers | None, x_test: Numbers | None) -> Sample:
    if x is None:
        if y is not None or x_test is not None:
            raise InvalidArgumentError("x", None, "all data or none")
        return sample_data()
    if y is None:
        raise InvalidArgumentError("y", None, "labels or targets of x")
    x = np.asarray(check_array("x", x, min_rank=2))
    x_test = x if x_test is None else np.asarray(check_array("x_test", x_test, min_rank=2))
    return Sample(x, np.asarray(y), x_test)
