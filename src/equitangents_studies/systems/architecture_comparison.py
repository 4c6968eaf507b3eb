"""Which architecture's symmetries hurt and which help on given data, by learning curves at infinite width.

Kernels of FCN, VEC, LAP and GAP get the same nested training sets, of the data as they are and moved by random elements
of groups. Where Theorem 4.1 says that an architecture does not notice a group, its curve is that of the data as they
are. The factor f of two curves: the first needs f times the samples of the second for the same error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import FileName, Targets, check_confidence, check_whole, whole_file
from equitangents.kernels import KernelFunction
from equitangents.report import with_interval
from equitangents.statistics import Estimate, shared_level, t_interval
from equitangents_studies.claim import plain_number
from equitangents_studies.systems.architectures import architecture
from equitangents_studies.systems.conventions import Step, check_choice, check_ridge, steps
from equitangents_studies.systems.curves import (
    CurveData,
    DataLike,
    ErrorName,
    LearningCurve,
    curve_data,
    learning_curve,
)
from equitangents_studies.systems.grams import KernelName
from equitangents_studies.systems.sample_efficiency import log_factor_at_end, measured_factor
from equitangents_studies.systems.transformations import NAMES, DataGroup, data_group, expected_symmetry, rotate

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


TEST_SHARE = 0.2
_COLUMNS = ("architecture", "group", "training_inputs", "error", "low", "high")
_POOLS = (4, 8, 2)  # sides of the local pooling that is tried first


def default_architectures(shape: tuple[int, ...]) -> tuple[str, ...]:
    """FCN, VEC, LAP with windows that fit into the grid more than once, and GAP, from most symmetries to fewest.

    >>> default_architectures((8, 8, 3)), default_architectures((7, 7, 3))
    (('FCN', 'VEC', 'LAP4', 'GAP'), ('FCN', 'VEC', 'GAP'))
    """
    grid = shape[:-1]
    fitting = [k for k in _POOLS if all(size % k == 0 for size in grid) and any(size > k for size in grid)]
    return ("FCN", "VEC", *(f"LAP{k}" for k in fitting[:1]), "GAP")


def check_architectures(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The architectures to compare on signals of `shape` = (*positions, channels), without repetitions and from most
    symmetries to fewest. Raises ShapeError unless there are one to three axes of positions.
    """
    if not 2 <= len(shape) <= 4 or max(shape[:-1]) < 2:
        expected = ("*positions", "channels")
        raise ShapeError("x", shape, expected, "on a grid of 1 to 3 axes, as images are", verb="has inputs of shape")
    if names is None:
        return default_architectures(shape)
    for name in names:
        architecture(name, depth=1)
        if name.startswith("LAP") and any(size % int(name[3:]) for size in shape[:-1]):
            dividing = "a part that divides the sides of the grid"
            raise InvalidArgumentError("architectures", name, dividing, str(shape[:-1]))
    order = ("FCN", "LCN", "VEC", "LAP", "GAP")
    found = tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name[:3])))
    if len(found) < 2:
        raise InvalidArgumentError("architectures", list(names), "two or more, to compare them")
    return found


def notices(name: str, group: DataGroup, shape: tuple[int, ...]) -> bool:
    """Whether an architecture of infinite width makes other predictions of moved data, by Theorem 4.1."""
    return not expected_symmetry(name, group.name, shape, finite=False)


_CHECKED = 12  # inputs whose kernel shows that a group is not noticed


@dataclass(frozen=True, eq=False, repr=False)
class ArchitectureComparison:
    """Learning curves by (architecture, group), and factors between the samples that they need.

    A group "I" is the data as they are. `checks`: where an architecture does not notice a group by Theorem 4.1, by how
    much its kernel of a few inputs changed, relative to its largest entry; there is no curve of its own there.
    Intervals of all `factors` and their differences hold together at `confidence`, over repetitions, which draw from
    the same inputs. `settings`: what was asked for and used, plain values by name.
    """

    architectures: tuple[str, ...]
    groups: tuple[str, ...]
    curves: Mapping[Key, LearningCurve]
    factors: tuple[Factor, ...]
    checks: Mapping[Key, float]
    error: ErrorName
    confidence: float
    settings: Mapping[str, Any]

    @property
    def sizes(self) -> np.ndarray:
        """The training sets' sizes, the same for all curves."""
        return next(iter(self.curves.values())).sizes

    def factor(self, first: Key, second: Key) -> Factor:
        """The factor between two curves: of the architectures' order, or of moved data against those as they are."""
        for found in self.factors:
            if (found.first, found.second) == (first, second):
                return found
        raise InvalidArgumentError(
            "first, second", [first, second], "two curves that were compared", "factors lists them", verb="are"
        )

    def curve(self, architecture: str, group: str = AS_THEY_ARE) -> LearningCurve:
        """The curve of an architecture on moved data; that on data as they are where it does not notice the group."""
        key = (architecture, group)
        found = self.curves.get((architecture, AS_THEY_ARE) if key in self.checks else key)
        if found is None:
            raise InvalidArgumentError("architecture, group", key, list(self.curves), verb="are")
        return found

    @property
    def best(self) -> tuple[str, ...]:
        """The architectures that are not shown to need more samples of the data as they are than another one."""
        plain = [f for f in self.factors if f.first[1] == AS_THEY_ARE]
        beaten = {f.first[0] for f in plain if f.verdict == "fewer"} | {
            f.second[0] for f in plain if f.verdict == "more"
        }
        return tuple(name for name in self.architectures if name not in beaten)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        rows = [
            (*key, int(n), *map(plain_number, (e.value, e.low, e.high)))
            for key, curve in self.curves.items()
            for n, e in zip(curve.sizes, curve.estimates(self.error), strict=True)
        ]
        return {
            "best": list(self.best),
            "architectures": list(self.architectures),
            "groups": list(self.groups),
            "error": self.error,
            **self.settings,
            "curves": {name: list(column) for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)},
            "factors": [f.to_dict() for f in self.factors],
            "unnoticed": [{"architecture": a, "group": g, "change": c} for (a, g), c in self.checks.items()],
            "level": self.confidence,
        }

    def to_json(self, path: FileName) -> Path:
        """Write what `to_dict` gives, as JSON."""
        with whole_file(Path(path)) as partial:
            partial.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        rows = [*self.settings.items(), ("error", self.error), ("not beaten", ", ".join(self.best))]
        rows += [(f"error, {_name(key)}", _shown(c.estimates(self.error)[-1])) for key, c in self.curves.items()]
        rows += [
            (f"samples, {_name(f.first)} against {_name(f.second)}", f"{cell(f)}: {f.verdict}") for f in self.factors
        ]
        rows += [(f"change of the kernel, {_name(key)}", f"{change:.1g}") for key, change in self.checks.items()]
        return "\n".join(f"{name}: {value}" for name, value in rows)


def compare_architectures(
    data: DataLike,
    y: Targets | None = None,
    *,
    architectures: Sequence[str] | None = None,
    groups: Sequence[str] = NAMES,
    inputs: int = 1000,
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
        inputs: how many are used, drawn at random, the same for all curves; all where there are fewer. Work grows as
            their square.
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

    Raises InvalidArgumentError for fewer inputs than four training sizes take.

    Source: Xiao & Pennington 2022, arXiv 2207.04612.

    >>> from equitangents_studies.systems import textures
    >>> drawn = textures(60, (4, 4, 2), classes=2)
    >>> found = compare_architectures(drawn.x, drawn.labels, architectures=["FCN", "GAP"], groups=["O(3d)"], depth=1)
    >>> found.factor(("FCN", "I"), ("GAP", "I")).verdict, sorted(found.curves)
    ('fewer', [('FCN', 'I'), ('GAP', 'I'), ('GAP', 'O(2d)')])
    """
    given = curve_data(data, y, test=TEST_SHARE)
    shape = given.x.shape[1:]
    names = check_architectures(architectures, shape)
    moving = tuple(dict.fromkeys(each for each in (data_group(name, shape) for name in groups) if each.letter != "I"))
    check_whole("repetitions", repetitions, 2)
    check_ridge(ridge)
    check_choice("kernel", kernel, get_args(KernelName))
    if error is not None:
        check_choice("error", error, get_args(ErrorName))
    check_confidence(confidence)
    nets = {name: architecture(name, depth) for name in names}
    smallest = max(8, 0 if given.classes is None else len(given.classes))
    if given.pool < 4 * smallest:
        raise InvalidArgumentError("x", given.pool, 4 * smallest, "or more inputs, for four sizes", verb="has inputs,")
    count = min(check_whole("inputs", inputs, 4 * smallest), given.pool)
    tested = round(TEST_SHARE * count) if given.held_out else min(given.test_inputs, count)
    matrices = sum(1 + sum(notices(name, group, shape) for group in moving) for name in names)
    x, labels, test = _chosen(given, count, tested, standardise, seed)
    most = count - tested if given.held_out else count
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
                    progress=partial(_along, step, len(curves), matrices),
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
        confidence=confidence,
        settings={
            "inputs": count,
            "available_inputs": given.pool,
            "test_inputs": tested,
            "repetitions": repetitions,
            "shape": [int(n) for n in shape],
            "classes": 0 if given.classes is None else len(given.classes),
            "depth": depth,
            "kernel": kernel,
            "ridge": ridge,
            "standardised": standardise,
            "seed": seed,
        },
    )


def _along(step: Step, before: int, matrices: int, done: float, total: float) -> None:
    step(before + done / total, matrices)


def _chosen(
    given: CurveData, count: int, tested: int, standardise: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """(inputs, labels, test set of its own or None): `count` of them, in float32."""
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


def _name(key: Key) -> str:
    return key[0] if key[1] == AS_THEY_ARE else f"{key[0]} ({key[1]})"


def _shown(e: Estimate) -> str:
    return with_interval(e.value, e.interval)
