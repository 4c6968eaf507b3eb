"""Which architecture's symmetries hurt and which help on given data, by learning curves at infinite width.

Kernels of FCN, VEC, LAP and GAP get the same nested training sets, from the original data and from data moved by random
elements of groups. If an architecture is symmetric under a group by Theorem 4.1, its curve for moved data is that of
the original data. Sample ratio f of two curves: the first needs f times the samples of the second for equal error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import Numbers, Targets, check_choice, check_number, check_whole
from equitangents.report import with_interval
from equitangents.statistics import Estimate, shared_level, t_interval
from equitangents_studies.claim import plain_number
from equitangents_studies.systems.architectures import architecture
from equitangents_studies.systems.curves import CurveData, ErrorName, LearningCurve, curve_data, learning_curve
from equitangents_studies.systems.grams import Step
from equitangents_studies.systems.sample_efficiency import log_factor_at_end, measured_factor
from equitangents_studies.systems.transformations import NAMES, DataGroup, data_group, expected_symmetry, rotate

AS_THEY_ARE = "I"
_CONFIDENCE, _TEST_SHARE = 0.95, 0.2
_ORDER = ("FCN", "LCN", "VEC", "LAP", "GAP")  # from most symmetries to fewest
_COLUMNS = ("architecture", "group", "training_inputs", "error", "low", "high")
_POOLS = (4, 8, 2)  # sides of the local pooling that is tried first
Key = tuple[str, str]
"""(architecture, group that moved the data)"""


@dataclass(frozen=True)
class SampleRatio:
    """`first` needs `estimate` times the samples of `second` for the smallest error that both reach.

    The worse of both reaches it with the largest training set. `bound`: if the curves do not overlap, a lower bound of
    the ratio (negative: of its inverse); else None. `cut`: the better curve reaches that error with its smallest
    training set, so that `estimate` is a lower bound of the ratio, or of its inverse. `difference`: of the errors,
    first minus second, at the largest training set. `verdict`: whether the second needs "fewer" samples or "more" (else
    "undecided"), from the interval of `difference`, since it is narrower.
    """

    first: Key
    second: Key
    estimate: Estimate
    bound: float | None
    difference: Estimate
    cut: bool = False

    @property
    def verdict(self) -> Literal["fewer", "more", "undecided"]:
        """Whether the second needs "fewer" samples or "more", or "undecided"."""
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


def compared(
    first: Key, second: Key, curves: Mapping[Key, LearningCurve], error: ErrorName, level: float
) -> SampleRatio:
    """The sample ratio of two curves that share their training sets."""
    a, b, n = curves[first].of(error), curves[second].of(error), curves[first].sizes.astype(np.float64)
    span = float(n[-1] / n[0])
    found = measured_factor(n, a, b, level, log_factor_at_end)
    cut = found.value > 0 and abs(math.log(found.value)) >= math.log(span) - 1e-9
    bound = span if t_interval(a[-1] - b[0], level).low > 0 else None
    if bound is None and t_interval(b[-1] - a[0], level).low > 0:
        bound = -span
    return SampleRatio(first, second, found, bound, t_interval(a[-1] - b[-1], level), cut)


def cell(f: SampleRatio) -> str:
    """A ratio in a table, with its interval or bound."""
    if f.bound is not None:
        return f"> {f.bound:.3g}" if f.bound > 0 else f"< {-1 / f.bound:.3g}"
    e = f.estimate
    if f.cut:
        return f"{'≥' if e.value > 1 else '≤'} {e.value:.2g}"
    return with_interval(e.value, e.interval, (1.0, math.inf))


def check_architectures(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The architectures to compare on signals of `shape` = (*positions, channels), without repetitions and from most
    symmetries to fewest. None: FCN, VEC, LAP with windows that fit into the grid more than once, and GAP.

    Raises ShapeError unless there are one to three axes of positions.

    >>> check_architectures(None, (8, 8, 3)), check_architectures(None, (7, 7, 3))
    (('FCN', 'VEC', 'LAP4', 'GAP'), ('FCN', 'VEC', 'GAP'))
    """
    grid = shape[:-1]
    if not 1 <= len(grid) <= 3 or max(grid) < 2:
        expected = ("*positions", "channels")
        raise ShapeError("x", shape, expected, "on a grid of 1 to 3 axes, as images are", verb="has inputs of shape")
    if names is None:
        fitting = [k for k in _POOLS if all(size % k == 0 for size in grid) and any(size > k for size in grid)]
        return ("FCN", "VEC", *(f"LAP{k}" for k in fitting[:1]), "GAP")
    for name in names:
        architecture(name, depth=1)
        if name.startswith("LAP") and any(size % int(name[3:]) for size in grid):
            raise InvalidArgumentError("architectures", name, "a part that divides the sides of the grid", str(grid))
    found = tuple(sorted(dict.fromkeys(names), key=lambda name: _ORDER.index(name[:3])))
    if len(found) < 2:
        raise InvalidArgumentError("architectures", list(names), "two or more, to compare them")
    return found


def notices(name: str, group: DataGroup, shape: tuple[int, ...]) -> bool:
    """Whether moving the data changes an infinitely wide architecture's predictions, by Theorem 4.1."""
    return not expected_symmetry(name, group.name, shape, finite=False)


@dataclass(frozen=True, eq=False, repr=False)
class ArchitectureComparison:
    """Learning curves by (architecture, group), and sample ratios `factors` between them.

    Group "I" is the original data; there is no curve of moved data if the architecture is symmetric under the group by
    Theorem 4.1. Intervals of all `factors` and their differences hold together at 95 %, over repetitions, which draw
    from the same inputs. `settings`: requested and used settings, plain values by name.
    """

    architectures: tuple[str, ...]
    groups: tuple[str, ...]
    curves: Mapping[Key, LearningCurve]
    factors: tuple[SampleRatio, ...]
    error: ErrorName
    settings: Mapping[str, Any]

    def factor(self, first: Key, second: Key) -> SampleRatio:
        """The factor between two curves: in the architectures' order, or of moved against original data."""
        known = {(f.first, f.second): f for f in self.factors}
        if (first, second) not in known:
            pair = [first, second]
            raise InvalidArgumentError("first, second", pair, "two curves of `factors`, in their order", verb="are")
        return known[first, second]

    @property
    def best(self) -> tuple[str, ...]:
        """Architectures for which no other one is shown to need fewer samples of the original data."""
        plain = [f for f in self.factors if f.first[1] == AS_THEY_ARE]
        beaten = {(f.first if f.verdict == "fewer" else f.second)[0] for f in plain if f.verdict != "undecided"}
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
            "level": _CONFIDENCE,
        }

    def __repr__(self) -> str:
        name = lambda key: key[0] if key[1] == AS_THEY_ARE else f"{key[0]} ({key[1]})"
        rows = [*self.settings.items(), ("error", self.error), ("not beaten", ", ".join(self.best))]
        for key, curve in self.curves.items():
            last = curve.estimates(self.error)[-1]
            rows.append((f"error, {name(key)}", with_interval(last.value, last.interval)))
        for f in self.factors:
            rows.append((f"samples, {name(f.first)} against {name(f.second)}", f"{cell(f)}: {f.verdict}"))
        return "\n".join(f"{label}: {value}" for label, value in rows)


def compare_architectures(
    x: Numbers,
    y: Targets,
    *,
    test: tuple[Numbers, Targets] | None = None,
    architectures: Sequence[str] | None = None,
    groups: Sequence[str] = NAMES,
    inputs: int = 1000,
    depth: int = 4,
    ridge: float = 1e-4,
    repetitions: int = 10,
    error: ErrorName | None = None,
    standardise: bool = True,
    seed: int = 0,
    progress: Step = lambda done, total: None,
) -> ArchitectureComparison:
    """Learning curves of infinitely wide architectures (NTK), and the samples that each saves.

    Args:
        x: signals (N, *positions, channels).
        y: their labels, or numbers.
        test: test signals and labels; None: every repetition leaves out a fifth of the inputs.
        architectures: two or more of FCN, LCN, VEC, GAP and LAPk; None: FCN, VEC, LAPk with the first k of 4, 8 and 2
            that fits, and GAP.
        groups: groups that move the data; 3 stands for the number of channels.
        inputs: how many are used, drawn at random, the same for all curves; all where there are fewer. Work grows as
            their square.
        depth: hidden layers.
        ridge: relative to the mean of the kernel's diagonal, as in `learning_curve`.
        repetitions: training sets of each size.
        error: which errors are compared; None: classification errors of labels, unless some mean of them is 0.
        standardise: subtract the mean of all entries of the inputs that are used, and divide by their standard
            deviation; False: use x unchanged.
        seed: of inputs, training sets and the groups' elements.
        progress: called with (done, total).

    All intervals of factors and differences hold together with 95 % (Bonferroni), over repetitions.
    Raises InvalidArgumentError for fewer inputs than four training sizes take.

    Source: Xiao & Pennington 2022, arXiv 2207.04612.

    >>> from equitangents_studies.systems import textures
    >>> drawn = textures(60, (4, 4, 2), classes=2)
    >>> found = compare_architectures(drawn.x, drawn.labels, architectures=["FCN", "GAP"], groups=["O(3d)"], depth=1)
    >>> found.factor(("FCN", "I"), ("GAP", "I")).verdict, sorted(found.curves)
    ('fewer', [('FCN', 'I'), ('GAP', 'I'), ('GAP', 'O(2d)')])
    """
    given = curve_data(x, y, test=_TEST_SHARE if test is None else test)
    shape = given.x.shape[1:]
    names = check_architectures(architectures, shape)
    moving = tuple(dict.fromkeys(each for each in (data_group(name, shape) for name in groups) if each.letter != "I"))
    check_whole("repetitions", repetitions, 2)
    check_number("ridge", ridge, "a finite number ≥ 0", lambda r: r >= 0)
    if error is not None:
        check_choice("error", error, get_args(ErrorName))
    smallest = max(8, 0 if given.classes is None else len(given.classes))
    if given.pool < 4 * smallest:
        raise InvalidArgumentError("x", given.pool, 4 * smallest, "or more inputs, for four sizes", verb="has inputs,")
    count = min(check_whole("inputs", inputs, 4 * smallest), given.pool)
    tested = round(_TEST_SHARE * count) if given.held_out else min(len(given.x) - given.pool, count)
    used, labels, held_out = _chosen(given, count, tested, standardise, seed)
    most = count - tested if given.held_out else count
    sizes = np.unique(np.geomspace(smallest, most, int(2 * np.log2(most / smallest)) + 1).round().astype(int))
    keys = [(name, g) for name in names for g in (None, *moving) if g is None or notices(name, g, shape)]
    curves: dict[Key, LearningCurve] = {}

    def moved(part: np.ndarray, group: DataGroup | None) -> np.ndarray:
        return part if group is None else np.asarray(rotate(part, group.name, seed), np.float32)

    for name, group in keys:
        curves[name, AS_THEY_ARE if group is None else group.name] = learning_curve(
            architecture(name, depth),
            moved(used, group),
            labels,
            test=_TEST_SHARE if held_out is None else (moved(held_out[0], group), held_out[1]),
            sizes=sizes,
            repetitions=repetitions,
            ridge=ridge,
            predict=None,
            seed=seed,
            progress=partial(_along, progress, len(curves), len(keys)),
        )
    of = [curve.classification for curve in curves.values()]
    known = all(errors is not None and (errors.mean(axis=1) > 0).all() for errors in of)
    chosen = error or ("classification" if known else "squared")
    pairs = [((a, AS_THEY_ARE), (b, AS_THEY_ARE)) for a, b in combinations(names, 2)]
    pairs += [(key, (key[0], AS_THEY_ARE)) for key in curves if key[1] != AS_THEY_ARE]
    level = shared_level(3 * len(pairs), _CONFIDENCE)  # a factor, a difference and a bound each
    settings = {
        "inputs": count,
        "available_inputs": given.pool,
        "test_inputs": tested,
        "repetitions": repetitions,
        "shape": [int(n) for n in shape],
        "classes": 0 if given.classes is None else len(given.classes),
        "depth": depth,
        "ridge": ridge,
        "standardised": standardise,
        "seed": seed,
    }
    factors = tuple(compared(first, second, curves, chosen, level) for first, second in pairs)
    return ArchitectureComparison(names, tuple(g.name for g in moving), curves, factors, chosen, settings)


def _along(progress: Step, before: int, count: int, done: float, total: float) -> None:
    progress(before + done / total, count)


def _chosen(
    given: CurveData, count: int, tested: int, standardise: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """(inputs, labels, separate test set or None): `count` inputs, in float32."""
    rng = np.random.default_rng((seed, given.pool))
    rows = np.sort(rng.permutation(given.pool)[:count])
    x = np.asarray(given.x[rows], np.float64)
    mean, scale = (x.mean(), x.std()) if standardise else (0.0, 1.0)
    if not scale > 0:
        raise InvalidArgumentError("x", float(mean), "numbers that differ", verb="holds one number everywhere,")
    ready = lambda part: ((part - mean) / scale).astype(np.float32)
    if given.held_out:
        return ready(x), given.labels[rows], None
    held_out = given.pool + np.sort(rng.permutation(len(given.x) - given.pool)[:tested])
    return ready(x), given.labels[rows], (ready(np.asarray(given.x[held_out], np.float64)), given.labels[held_out])
