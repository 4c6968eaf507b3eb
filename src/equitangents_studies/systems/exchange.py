"""How many samples a symmetry is worth: the same errors with it and without, measured and predicted.

The kernels of the plain network, of the one invariant under a group, under a subgroup, and under a group that is no
symmetry of the data get the same nested training sets; the factor f is by how many times the plain one needs more
samples. The group that is no symmetry is the conjugate of the right one by a random permutation of positions.

log f = mean over errors E that both curves reach of log n₀(E) − log n₁(E), with sizes interpolated on logarithms; or
that difference at one error, the smallest that both reach: what the better curve saves of the largest training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action, from_function
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import (
    ActionLike,
    ArrayLike,
    Numbers,
    Targets,
    check_confidence,
    check_whole,
)
from equitangents.groups import Group
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.report import with_interval
from equitangents.statistics import Estimate, no_interval, t_interval
from equitangents_studies.claim import plain_number
from equitangents_studies.systems.conventions import Step, check_ridge, lines_of, model_name, steps
from equitangents_studies.systems.curves import (
    CurveData,
    DataLike,
    ErrorName,
    LearningCurve,
    curve_data,
    curve_of,
    kernel_curve,
    training_sizes,
)
from equitangents_studies.systems.grams import KernelName, PoolKernel, finite_action, group_grams, symmetric_kernel
from equitangents_studies.systems.predictions import PREDICTIONS

_EQUAL = 1e-6  # below which the logarithm of a factor is rounding
_LEVELS = 33  # errors at which curves are compared


def log_factor(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f: the first curve needs f times the samples of the second. NaN where no error is on both curves.

    A curve that rises in places is taken to fall there not at all.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    low, high = max(a[-1], b[-1]), min(a[0], b[0])
    if not low < high:
        return float("nan")
    levels = low + (high - low) * (np.arange(_LEVELS) + 0.5) / _LEVELS
    at = [np.interp(-levels, -_strict(curve), np.log(sizes)) for curve in (a, b)]
    return float(np.mean(at[0] - at[1]))


def log_factor_at_end(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f at the smallest error that both curves reach, the worse one with its largest training set.

    Where the better curve is below that error from the start, its smallest training set is taken. NaN where an error
    is not positive.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor_at_end(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    sign, better, level = (1, b, a[-1]) if a[-1] >= b[-1] else (-1, a, b[-1])
    needed = np.interp(-level, -_strict(better), np.log(sizes))
    log = float(np.log(sizes[-1]) - needed)
    return sign * log if log > _EQUAL else 0.0


def jackknifed(log: float, without: Float[np.ndarray, " parts"], level: float) -> Estimate:
    """exp of `log` with Student's interval of the pseudo-values; `without` each sample, or part of them, in turn."""
    if len(without) < 2 or not (math.isfinite(log) and np.isfinite(without).all()):
        return no_interval(math.exp(log), level)
    spread = t_interval((len(without) - 1) * (without.mean() - without), level)
    return Estimate(math.exp(log), math.exp(log + spread.low), math.exp(log + spread.high), level)


def measured_factor(
    sizes: Float[np.ndarray, " sizes"],
    first: Float[np.ndarray, "sizes repetitions"],
    second: Float[np.ndarray, "sizes repetitions"],
    level: float,
    log: Callable[..., float] = log_factor,
) -> Estimate:
    """f of the mean errors of curves that share their training sets, with its jackknife interval over repetitions."""
    rows = np.arange(first.shape[1])
    of = lambda kept: log(sizes, first[:, kept].mean(axis=1), second[:, kept].mean(axis=1))
    return jackknifed(of(rows), np.array([of(rows != r) for r in rows]), level)


def _falling(errors: np.ndarray) -> np.ndarray | None:
    """Logarithms of errors, where they rise those before; None where an error is not positive."""
    return np.minimum.accumulate(np.log(errors)) if (errors > 0).all() else None


def _strict(falling: np.ndarray) -> np.ndarray:
    """Falling everywhere, by steps too small to matter, so that it has an inverse."""
    return falling - 1e-12 * np.arange(len(falling))


AS_THEY_ARE = "I"
Key = tuple[str, str]
"""(architecture, group that moved the data)"""


@dataclass(frozen=True)
class Factor:
    """`first` needs `estimate` times the samples of `second` for the smallest error that both reach.

    The worse of both reaches it with the largest training set. `bound`: where one ends above where the other begins,
    what the factor exceeds; negative where its inverse does; else None. `cut`: the better reaches that error with its
    smallest training set already, so that the factor, or its inverse, is at least what `estimate` says.
    `difference`: of the errors, first minus second, at the largest training set. `verdict`: whether the second needs
    "fewer" samples or "more", as the interval of the difference says, which is narrower; else "undecided".
    """

    first: Key
    second: Key
    estimate: Estimate
    bound: float | None
    difference: Estimate
    cut: bool = False

    @property
    def verdict(self) -> Literal["fewer", "more", "undecided"]:
        """What the second curve's algorithm needs."""
        return "fewer" if self.difference.low > 0 else "more" if self.difference.high < 0 else "undecided"

    def to_dict(self) -> dict[str, Any]:
        """All entries as plain values."""
        e, d = self.estimate, self.difference
        return {
            "first": list(self.first),
            "second": list(self.second),
            "factor": plain_number(e.value),
            "interval": [plain_number(e.low), plain_number(e.high)],
            "level": e.confidence,
            "exceeds": self.bound,
            "cut_off": self.cut,
            "difference": plain_number(d.value),
            "difference_interval": [plain_number(d.low), plain_number(d.high)],
            "verdict": self.verdict,
        }


def compared(first: Key, second: Key, curves: Mapping[Key, LearningCurve], error: ErrorName, level: float) -> Factor:
    """The factor of two curves that share their training sets."""
    a, b = curves[first].of(error), curves[second].of(error)
    n = curves[first].sizes.astype(np.float64)
    span = float(n[-1] / n[0])
    found = measured_factor(n, a, b, level, log_factor_at_end)
    cut = abs(math.log(found.value)) >= math.log(span) - 1e-9 if found.value > 0 else False
    return Factor(first, second, found, _bound(span, a, b, level), t_interval(a[-1] - b[-1], level), cut)


def _bound(span: float, a: np.ndarray, b: np.ndarray, level: float) -> float | None:
    """What f exceeds where one curve ends above the beginning of the other, as the interval of that difference says."""
    if t_interval(a[-1] - b[0], level).low > 0:
        return span
    return -span if t_interval(b[-1] - a[0], level).low > 0 else None


def cell(f: Factor) -> str:
    """A factor in a table, with its interval, or the bound that it exceeds."""
    if f.bound is not None:
        return f"> {f.bound:.3g}" if f.bound > 0 else f"< {-1 / f.bound:.3g}"
    e = f.estimate
    if f.cut:
        return f"{'≥' if e.value > 1 else '≤'} {e.value:.2g}"
    return with_interval(e.value, e.interval, (1.0, math.inf))


def scrambled(action: Action, shape: tuple[int, ...], seed: int = 0) -> Action:
    """ρ′(g) = π⁻¹ ρ(g) π on signals (N, *shape), with a random permutation π of the positions.

    Channels stay together; of vectors (N, features) the features are permuted. To an MLP this group looks as the right
    one does; the data know nothing of it.

    >>> from equitangents.actions import image_rotations
    >>> scrambled(image_rotations(4), (8, 8, 1))
    <action turns by 90° of images, positions scrambled of C4>
    """
    places = shape[:-1] if len(shape) > 1 else shape
    pi = np.random.default_rng(check_whole("seed", seed, 0)).permutation(int(np.prod(places)))
    back = np.argsort(pi)

    def permuted(x: np.ndarray, order: np.ndarray) -> np.ndarray:
        flat = x.reshape(len(x), len(pi), -1)
        return flat[:, order].reshape(x.shape)

    def moved(g: int, x: ArrayLike) -> np.ndarray:
        if x.shape[1:] != shape:
            raise ShapeError("x", x.shape, ("N", *shape), "the shape for which positions were scrambled")
        return permuted(np.asarray(action(g, permuted(np.asarray(x), pi))), back)

    return from_function(action.group, moved, exact=action.exact, name=f"{action.name}, positions scrambled")


def moved_at_random(action: Action, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Every input moved by a random element of its own, so that the group is a symmetry of the data.

    >>> from equitangents.actions import image_rotations
    >>> moved_at_random(image_rotations(4), np.zeros((3, 8, 8, 1))).shape
    (3, 8, 8, 1)
    """
    drawn = np.random.default_rng(check_whole("seed", seed, 0)).integers(action.group.order, size=len(x))
    moved = np.array(x)
    for g in np.unique(drawn):
        moved[drawn == g] = np.asarray(action(int(g), x[drawn == g]))
    return moved


_PARTS = 10  # of the pool, each left out in turn for the interval of what is predicted
_LEAST = 10


@dataclass(frozen=True)
class GroupExchange:
    """What one group is worth: the plain network needs `measured` times its samples for the same error.

    kind: "right", "subgroup" or "wrong"; `predicted`: from the spectra, of the squared error.
    """

    kind: str
    group: str
    order: int
    measured: Estimate
    predicted: Estimate


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeRate:
    """How many samples groups save; `right`, `subgroup` and `wrong` are the rows.

    Measured factors compare mean errors of the kind `error`, with intervals over repetitions, whose training sets come
    from the same inputs; predicted ones are of the squared error, with intervals over those inputs. Both are jackknife
    intervals. `curves` are by kind, "plain" among them.
    """

    model: str
    error: ErrorName
    rows: tuple[GroupExchange, ...]
    curves: Mapping[str, LearningCurve]

    @property
    def right(self) -> GroupExchange:
        """The group that was asked about."""
        return self.rows[0]

    @property
    def subgroup(self) -> GroupExchange | None:
        """A part of it; None where it has none but the identity."""
        return next((row for row in self.rows if row.kind == "subgroup"), None)

    @property
    def wrong(self) -> GroupExchange:
        """A group as large that is no symmetry of the data."""
        return self.rows[-1]

    @property
    def table(self) -> dict[str, list[Any]]:
        """One row a group."""
        return {
            "kind": [row.kind for row in self.rows],
            "group": [row.group for row in self.rows],
            "order": [row.order for row in self.rows],
            "measured": [row.measured.value for row in self.rows],
            "measured_low": [row.measured.low for row in self.rows],
            "measured_high": [row.measured.high for row in self.rows],
            "predicted": [row.predicted.value for row in self.rows],
            "predicted_low": [row.predicted.low for row in self.rows],
            "predicted_high": [row.predicted.high for row in self.rows],
        }

    def __repr__(self) -> str:
        return lines_of(self.table)


def exchange_rate(
    net: KernelFunction,
    group: Group | ActionLike,
    data: DataLike,
    y: Targets | None = None,
    *,
    test: float | tuple[Numbers, Targets] = 0.2,
    sizes: Sequence[int] | np.ndarray | None = None,
    repetitions: int = 10,
    error: ErrorName = "squared",
    kernel: KernelName = "ntk",
    ridge: float = 1e-5,
    predict: Literal["spectrum", "inputs"] = "spectrum",
    seed: int = 0,
    confidence: float = 0.95,
    progress: bool | Step = False,
) -> ExchangeRate:
    """By what factor a group, a subgroup and a wrong group change the samples needed for the same error.

    The subgroup is the largest proper one that one or two elements generate; the wrong group is `scrambled`, the
    group's conjugate by a random permutation of positions.

    Args:
        net: an infinite network whose kernel the group leaves invariant.
        group: an exact action of a finite group, or its name; it should be a symmetry of the data
            (`moved_at_random` makes it one).
        data: inputs, as those of `learning_curve`; so are y, test, sizes, repetitions, kernel, ridge, predict, seed and
            progress.
        error: which error is measured.

    Errors of both curves are matched where they overlap; the prediction is that of the squared error.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(64), et.nn.Erf(), et.nn.Dense(1))
    >>> turns = et.actions.image_rotations(4)
    >>> x = np.random.default_rng(0).normal(size=(80, 2, 2, 1))
    >>> found = exchange_rate(net, turns, x, np.tanh(2 * x).sum(axis=(1, 2, 3)), sizes=[8, 16, 32, 64])
    >>> found.right.measured.low > 1, [row.order for row in found.rows]
    (True, [4, 2, 4])
    """
    given = curve_data(data, y, test=test)
    action = finite_action(group, given.x)
    n = training_sizes(sizes, given.most, _LEAST)
    if len(n) < 2:
        raise InvalidArgumentError("sizes", n.tolist(), "two or more, to compare curves")
    count, seed = check_whole("repetitions", repetitions, 1), check_whole("seed", seed, 0)
    if predict not in PREDICTIONS:
        raise InvalidArgumentError("predict", predict, "'spectrum' or 'inputs'")
    if error == "classification" and given.classes is None:
        raise InvalidArgumentError("error is 'classification', and the targets are numbers")
    check_confidence(confidence)
    part = _subgroup(action.group)
    other = scrambled(action, given.x.shape[1:], seed)
    with steps("Exchange rates", progress) as step:
        grams = group_grams(net, action, given.x, kernel, lambda a, b: step(a / b, 3), given.pool)
        kernels = {"plain": grams.mean([action.group.identity]), "right": grams.mean(action.group.elements)}
        orders = {"right": action.group.order, "wrong": other.group.order}
        names = {"right": action.group.name, "wrong": f"{other.group.name} by {other.name}"}
        if part is not None:
            kernels["subgroup"] = grams.mean(part)
            orders["subgroup"], names["subgroup"] = len(part), f"of order {len(part)} of {action.group.name}"
        del grams
        kernels["wrong"] = symmetric_kernel(
            orbit_average(net, other), given.x, kernel, lambda a, b: step(1 + a / b, 3), given.pool
        )
        splits = [given.split(r, seed) for r in range(count)]
        curves, left_out = {}, {}
        for done, (kind, K) in enumerate(kernels.items(), 1):
            matrices = PoolKernel(K)
            errors, predicted = kernel_curve(matrices, given, splits, n, check_ridge(ridge), predict)
            name = f"{model_name(net)}, {kind}"
            curves[kind] = curve_of(name, given, n, errors, predicted, predict, seed, confidence)
            left_out[kind] = _without_parts(matrices, given, n, ridge, predict, seed)
            step(2 + done / len(kernels), 3)
    rows = []
    for kind in ("right", "subgroup", "wrong"):
        if kind in kernels:
            rows.append(_exchange(kind, names[kind], orders[kind], curves, left_out, error, confidence))
    return ExchangeRate(model_name(net), error, tuple(rows), curves)


def _exchange(
    kind: str,
    name: str,
    order: int,
    curves: Mapping[str, LearningCurve],
    left_out: Mapping[str, np.ndarray],
    error: ErrorName,
    level: float,
) -> GroupExchange:
    plain, other = curves["plain"], curves[kind]
    n = plain.sizes.astype(np.float64)
    measured = measured_factor(n, plain.of(error), other.of(error), level)
    assert plain.predicted is not None
    assert other.predicted is not None
    # without a tenth of the inputs there may be too few for the largest sizes
    reached = np.isfinite(left_out["plain"]).all(axis=0)
    pairs = zip(left_out["plain"][:, reached], left_out[kind][:, reached], strict=True)
    parts = np.array([log_factor(n[reached], p, q) for p, q in pairs])
    predicted = jackknifed(log_factor(n, plain.predicted, other.predicted), parts, level)
    return GroupExchange(kind, name, order, measured, predicted)


def _without_parts(
    matrices: PoolKernel, data: CurveData, sizes: np.ndarray, ridge: float, predict: str, seed: int
) -> np.ndarray:
    """What is predicted without each tenth of the pool in turn, (parts, sizes)."""
    dealt = np.random.default_rng((seed, data.pool)).permutation(data.pool) % _PARTS
    found = []
    for part in range(_PARTS):
        kept = np.flatnonzero(dealt != part)
        reachable = sizes[sizes <= len(kept)]
        K = matrices.matrix[np.ix_(kept, kept)]
        risks = PREDICTIONS[predict](K, data.targets[kept], reachable, ridge=ridge * matrices.unit)
        found.append(np.append(risks, np.full(len(sizes) - len(reachable), np.nan)))
    return np.array(found)


def _subgroup(group: Group) -> list[int] | None:
    """Elements of a largest proper subgroup, or None where the identity is the only one."""
    proper = [
        part
        for a in group.elements
        for b in group.elements
        if a <= b and 1 < (part := group.generated_subgroup([a, b])).order < group.order
    ]
    return [int(g) for g in max(proper, key=lambda part: part.order).elements] if proper else None
