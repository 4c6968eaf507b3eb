"""How many samples a symmetry is worth: the same errors with it and without, measured and predicted.

The kernels of the plain network, of the one invariant under a group, under a subgroup, and under a group that is no
symmetry of the data get the same nested training sets; `factor` is by how many times the plain one needs more samples.
The group that is no symmetry is the conjugate of the right one by a random permutation of positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents.actions import Action, from_function
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import (
    ActionLike,
    ArrayLike,
    Elements,
    Numbers,
    Targets,
    check_confidence,
    check_whole,
)
from equitangents.groups import Group
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.statistics import Estimate
from equitangents_studies.systems.conventions import Step, check_ridge, lines_of, model_name, steps
from equitangents_studies.systems.curve_data import CurveData, DataLike, curve_data, training_sizes
from equitangents_studies.systems.curves import ErrorName, LearningCurve, curve_of, kernel_curve
from equitangents_studies.systems.factors import (
    bound,
    jackknifed,
    log_factor,
    measured_factor,
)
from equitangents_studies.systems.grams import KernelName, PoolKernel, finite_action, group_grams, symmetric_kernel
from equitangents_studies.systems.predictions import PREDICTIONS, Missed


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

    kind: "right", "subgroup" or "wrong"; `predicted`: from the spectra, of the squared error. `bounds` (measured,
    predicted): where the curves share no error, what the factor exceeds; negative where its inverse does; else None.
    `missed`: where training sets show that the predicted error of either curve is wrong.
    """

    kind: str
    group: str
    order: int
    measured: Estimate
    predicted: Estimate
    bounds: tuple[float | None, float | None] = (None, None)
    missed: Missed | None = None


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
    subgroup: Elements | None = None,
    wrong: Action | None = None,
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

    Args:
        net: an infinite network whose kernel the group leaves invariant.
        group: an exact action of a finite group, or its name; it should be a symmetry of the data
            (`moved_at_random` makes it one).
        data: inputs, as those of `learning_curve`; so are y, test, sizes, repetitions, kernel, ridge, predict, seed and
            progress.
        subgroup: its elements; None: the largest proper one that one or two elements generate.
        wrong: an action that is no symmetry of the data; None: `scrambled`, the group's conjugate by a random
            permutation of positions.
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
    part = _subgroup(action, subgroup)
    other = scrambled(action, given.x.shape[1:], seed) if wrong is None else finite_action(wrong, given.x)
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
    a, b = plain.of(error), other.of(error)
    measured = measured_factor(n, a, b, level)
    assert plain.predicted is not None
    assert other.predicted is not None
    # without a tenth of the inputs there may be too few for the largest sizes
    reached = np.isfinite(left_out["plain"]).all(axis=0)
    pairs = zip(left_out["plain"][:, reached], left_out[kind][:, reached], strict=True)
    parts = np.array([log_factor(n[reached], p, q) for p, q in pairs])
    predicted = jackknifed(log_factor(n, plain.predicted, other.predicted), parts, level)
    return GroupExchange(
        kind,
        name,
        order,
        measured,
        predicted,
        (
            bound(n, a.mean(axis=1), b.mean(axis=1)),
            bound(n, plain.predicted, other.predicted),
        ),
        plain.missed or other.missed,
    )


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


def _subgroup(action: Action, given: Elements | None) -> list[int] | None:
    """Elements of a proper subgroup, or None where the identity is the only one."""
    group = action.group
    if given is not None:
        return [int(g) for g in group.subgroup(given).elements]
    proper = [
        part
        for a in group.elements
        for b in group.elements
        if a <= b and 1 < (part := group.generated_subgroup([a, b])).order < group.order
    ]
    return [int(g) for g in max(proper, key=lambda part: part.order).elements] if proper else None
