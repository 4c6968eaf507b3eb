"""Which architectures and groups are compared on a grid, and how many inputs a budget of time pays for.

time(N) = Σ over kernel matrices of (pairs · seconds a pair) + repetitions · (n³/3 + n² · test inputs) / rate; n is the
largest training set. Pairs of inputs cost what `Sequential.kernel_cost` says of this machine.


Which architecture's symmetries hurt and which help on given data, by learning curves at infinite width.

Kernels of FCN, VEC, LAP and GAP get the same nested training sets, of the data as they are and moved by random elements
of groups. Where Theorem 4.1 says that an architecture does not notice a group, its curve is that of the data as they
are. The factor f of two curves: the first needs f times the samples of the second for the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import get_args

import numpy as np

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import Targets, check_confidence, check_whole, formatting
from equitangents.kernels import KernelFunction
from equitangents.nn import Sequential
from equitangents.statistics import shared_level
from equitangents_studies.systems.architectures import architecture
from equitangents_studies.systems.compared import Affordable, ArchitectureComparison
from equitangents_studies.systems.conventions import (
    Step,
    check_choice,
    check_positive,
    check_ridge,
    steps,
)
from equitangents_studies.systems.curve_data import CurveData, DataLike, curve_data
from equitangents_studies.systems.curves import ErrorName, LearningCurve, learning_curve
from equitangents_studies.systems.data_groups import NAMES, DataGroup, data_group, expected_symmetry
from equitangents_studies.systems.factors import AS_THEY_ARE, Factor, compared
from equitangents_studies.systems.grams import KernelName
from equitangents_studies.systems.transformations import rotate

TEST_SHARE = 0.2
_POOLS = (4, 8, 2)  # sides of the local pooling that is tried first
_RATE = 5e9  # multiply-adds a second of a Cholesky factor on one core, on the slow side
_PAIRS_OF = 100  # inputs whose kernel is asked for to learn what a pair costs


def default_architectures(shape: tuple[int, ...]) -> tuple[str, ...]:
    """FCN, VEC, LAP with windows that fit into the grid more than once, and GAP, from most symmetries to fewest.

    >>> default_architectures((8, 8, 3)), default_architectures((7, 7, 3))
    (('FCN', 'VEC', 'LAP4', 'GAP'), ('FCN', 'VEC', 'GAP'))
    """
    grid = shape[:-1]
    fitting = [k for k in _POOLS if all(size % k == 0 for size in grid) and any(size > k for size in grid)]
    return ("FCN", "VEC", *(f"LAP{k}" for k in fitting[:1]), "GAP")


def check_grid(shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless signals of `shape` = (*positions, channels) have one to three axes of positions."""
    if not 2 <= len(shape) <= 4 or max(shape[:-1]) < 2:
        raise ShapeError(
            "x",
            shape,
            "signals (*positions, channels) on a grid of 1 to 3 axes, such as images",
            verb="holds inputs of shape",
        )


def check_architectures(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The architectures to compare, without repetitions and from most symmetries to fewest."""
    if names is None:
        return default_architectures(shape)
    for name in names:
        if architecture(name, depth=1) is not None and name.startswith("LAP"):
            side = int(name[3:])
            if any(size % side for size in shape[:-1]):
                raise InvalidArgumentError("architectures", name, "pools that divide the grid", str(shape[:-1]))
    order = ("FCN", "LCN", "VEC", "LAP", "GAP")
    found = tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name[:3])))
    if len(found) < 2:
        raise InvalidArgumentError("architectures", list(names), "two or more, to compare them")
    return found


def check_groups(names: Sequence[str], shape: tuple[int, ...]) -> tuple[DataGroup, ...]:
    """The groups that data are moved by, without the identity and without repetitions."""
    return tuple(dict.fromkeys(group for name in names if (group := data_group(name, shape)).letter != "I"))


def notices(name: str, group: DataGroup, shape: tuple[int, ...]) -> bool:
    """Whether an architecture of infinite width makes other predictions of moved data, by Theorem 4.1."""
    return not expected_symmetry(name, group.name, shape, finite=False)


@dataclass(frozen=True)
class Job:
    """A kernel that is computed `matrices` times: of data as they are, and moved."""

    net: Sequential
    matrices: int


def affordable(
    jobs: Sequence[Job],
    shape: tuple[int, ...],
    available: int,
    apart: int,
    wanted: int | None,
    least: int,
    repetitions: int,
    minutes: float,
) -> Affordable:
    """As many inputs as the budget pays for, or the `wanted` ones.

    apart: inputs of a test set of its own, of which no more are used than are trained on; 0: a share is held out.
    Raises InvalidArgumentError where fewer than `least` inputs, or fewer than are wanted, fit into `minutes`.
    """
    costs = [job.net.kernel_cost(shape, _PAIRS_OF, dtype="float32") for job in jobs]
    rate = sum(job.matrices * cost.seconds / cost.pairs for job, cost in zip(jobs, costs, strict=True))
    matrices = sum(job.matrices for job in jobs)

    def seconds(n: int) -> float:
        tested = min(apart, n) or round(TEST_SHARE * n)
        trained = n if apart else n - tested
        pairs = n * (n + 1) // 2 + (n * tested if apart else 0)
        return rate * pairs + matrices * repetitions * (trained**3 / 3 + trained**2 * tested) / _RATE

    def result(n: int) -> Affordable:
        return Affordable(
            n, available, min(apart, n) or round(TEST_SHARE * n), matrices, seconds(n), minutes,
        )  # fmt: skip

    if available < least:
        raise InvalidArgumentError("x", available, f"at least {least}", "curves have four sizes", verb="holds inputs,")
    if wanted is not None:
        if not least <= wanted <= available:
            raise InvalidArgumentError("inputs", wanted, range(least, available + 1), "as many as x holds")
        _check_paid(wanted, seconds(wanted), minutes)
        return result(wanted)
    _check_paid(least, seconds(least), minutes)
    low, high = least, available
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if seconds(middle) <= 60 * minutes else (low, middle - 1)
    return result(low if low == available else max(least, _two_digits(low)))


def _check_paid(n: int, seconds: float, minutes: float) -> None:
    if seconds > 60 * minutes:
        raise InvalidArgumentError(
            "minutes",
            minutes,
            formatting.duration(seconds),
            "allow more, name fewer architectures or groups, or average the grid down",
        )


def _two_digits(n: int) -> int:
    """Rounded down, so that a small change of the machine's speed seldom changes the number."""
    unit = 10 ** max(len(str(n)) - 2, 0)
    return n // unit * unit


_CHECKED = 12  # inputs whose kernel shows that a group is not noticed


def compare_architectures(
    data: DataLike,
    y: Targets | None = None,
    *,
    architectures: Sequence[str] | None = None,
    groups: Sequence[str] = NAMES,
    minutes: float = 10.0,
    inputs: int | None = None,
    depth: int = 4,
    kernel: KernelName = "ntk",
    ridge: float = 1e-4,
    repetitions: int = 10,
    error: ErrorName | None = None,
    standardise: bool = True,
    seed: int = 0,
    confidence: float = 0.95,
    progress: bool | Step = False,
) -> ArchitectureComparison:
    """Learning curves of infinitely wide architectures, and how many samples each saves.

    Args:
        data: signals (N, *positions, channels), or a `Dataset`, or (x, y, test_x, test_y). Without a test set every
            repetition leaves out a fifth of the inputs.
        y: labels or numbers of the signals, where `data` has none.
        architectures: two or more of FCN, LCN, VEC, GAP and LAPk; None: FCN, VEC, LAPk with the first k of 4, 8 and 2
            that fits, and GAP.
        groups: what moves the data; 3 stands for their channels.
        minutes: what kernels and curves may take on this machine. It decides how many inputs are used, the same for
            all curves; the result says how many.
        inputs: use exactly so many, drawn at random; refused where they take longer than `minutes`.
        depth: hidden layers.
        kernel: "ntk" or "nngp".
        ridge: relative to the mean of the kernel's diagonal, as in `learning_curve`.
        repetitions: training sets of each size.
        error: which errors are compared; None: classification errors of labels, unless some mean of them is 0.
        standardise: subtract the mean of all entries of the inputs that are used, and divide by their standard
            deviation; False: take x as it is.
        seed: of inputs, training sets and the groups' elements.
        confidence: all intervals of factors and differences hold together with this probability (Bonferroni), over
            repetitions.

    Raises InvalidArgumentError where the budget does not pay for four training sizes.

    Source: Xiao & Pennington 2022, arXiv 2207.04612.

    >>> from equitangents_studies.systems import textures
    >>> drawn = textures(60, (4, 4, 2), classes=2)
    >>> found = compare_architectures(drawn.x, drawn.labels, architectures=["FCN", "GAP"], groups=["O(3d)"], depth=1)
    >>> found.factor(("FCN", "I"), ("GAP", "I")).verdict, sorted(found.curves)
    ('fewer', [('FCN', 'I'), ('GAP', 'I'), ('GAP', 'O(2d)')])
    """
    given = curve_data(data, y, test=TEST_SHARE)
    shape = given.x.shape[1:]
    check_grid(shape)
    names, moving = check_architectures(architectures, shape), check_groups(groups, shape)
    check_whole("repetitions", repetitions, 2)
    check_ridge(ridge)
    check_choice("kernel", kernel, get_args(KernelName))
    if error is not None:
        check_choice("error", error, get_args(ErrorName))
    check_positive("minutes", minutes)
    check_confidence(confidence)
    nets = {name: architecture(name, depth) for name in names}
    jobs = [Job(net, 1 + sum(notices(name, group, shape) for group in moving)) for name, net in nets.items()]
    classes = 0 if given.classes is None else len(given.classes)
    smallest = max(8, classes)
    apart = 0 if given.held_out else given.test_inputs
    wanted = None if inputs is None else check_whole("inputs", inputs, 1)
    paid = affordable(jobs, shape, given.pool, apart, wanted, 4 * smallest, repetitions, float(minutes))
    x, labels, test = _chosen(given, paid.inputs, paid.test_inputs, standardise, seed)
    most = paid.inputs if apart else paid.inputs - paid.test_inputs
    sizes = np.unique(np.geomspace(smallest, most, int(2 * np.log2(most / smallest)) + 1).round().astype(int))
    curves: dict[tuple[str, str], LearningCurve] = {}
    checks: dict[tuple[str, str], float] = {}
    with steps("Learning curves of architectures", progress) as step:
        for name, net in nets.items():
            for group in (None, *moving):
                key = (name, AS_THEY_ARE if group is None else group.name)
                if group is not None and not notices(name, group, shape):
                    checks[key] = _change(net, x[:_CHECKED], group, kernel, seed)
                    continue
                curves[key] = learning_curve(
                    net, _moved(x, group, seed), labels, sizes=sizes, repetitions=repetitions, kernel=kernel,
                    test=TEST_SHARE if test is None else (_moved(test[0], group, seed), test[1]),
                    ridge=ridge, predict=None, seed=seed, confidence=confidence,
                    progress=partial(_onward, step, len(curves), paid),
                )  # fmt: skip
    chosen = error or _error_of(list(curves.values()))
    factors = _factors(names, [g.name for g in moving], curves, chosen, confidence)
    return ArchitectureComparison(
        architectures=names,
        groups=tuple(group.name for group in moving),
        curves=curves,
        factors=factors,
        checks=checks,
        error=chosen,
        affordable=paid,
        shape=tuple(int(n) for n in shape),
        classes=classes,
        depth=depth,
        kernel=kernel,
        ridge=ridge,
        standardised=standardise,
        seed=seed,
        confidence=confidence,
    )


def _chosen(
    given: CurveData, count: int, tested: int, standardise: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """(inputs, labels, test set of its own or None): as many as are paid for, in float32."""
    rng = np.random.default_rng((seed, given.pool))
    rows = np.sort(rng.permutation(given.pool)[:count])
    x = np.asarray(given.x[rows], np.float64)
    mean, scale = (x.mean(), x.std()) if standardise else (0.0, 1.0)
    if not scale > 0:
        raise InvalidArgumentError("x holds one number everywhere, which tells nothing apart")
    ready = lambda part: ((part - mean) / scale).astype(np.float32)
    if given.held_out:
        return ready(x), given.labels[rows], None
    apart = given.pool + np.sort(rng.permutation(len(given.x) - given.pool)[:tested])
    return ready(x), given.labels[rows], (ready(np.asarray(given.x[apart], np.float64)), given.labels[apart])


def _moved(x: np.ndarray, group: DataGroup | None, seed: int) -> np.ndarray:
    return x if group is None else np.asarray(rotate(x, group.name, seed), np.float32)


def _onward(step: Step, curves: int, paid: Affordable, done: float, total: float) -> None:
    step(curves + done / total, paid.matrices)


def _change(net: KernelFunction, x: np.ndarray, group: DataGroup, kernel: KernelName, seed: int) -> float:
    """By how much the kernel of a few inputs changes when they are moved, relative to its largest entry."""
    before, after = (np.asarray(getattr(net.kernel(part), kernel), np.float64) for part in (x, _moved(x, group, seed)))
    return float(np.abs(after - before).max() / np.abs(before).max())


def _error_of(curves: Sequence[LearningCurve]) -> ErrorName:
    of = [curve.classification for curve in curves]
    return "classification" if all(e is not None and (e.mean(axis=1) > 0).all() for e in of) else "squared"


def _factors(
    names: Sequence[str],
    groups: Sequence[str],
    curves: dict[tuple[str, str], LearningCurve],
    error: ErrorName,
    level: float,
) -> tuple[Factor, ...]:
    """Every two architectures on the data as they are, and every architecture on moved data against those."""
    pairs = [((a, AS_THEY_ARE), (b, AS_THEY_ARE)) for a, b in combinations(names, 2)]
    pairs += [((a, group), (a, AS_THEY_ARE)) for a in names for group in groups if (a, group) in curves]
    own = shared_level(3 * len(pairs), level)  # a factor, a difference and a bound each
    return tuple(compared(first, second, curves, error, own) for first, second in pairs)
