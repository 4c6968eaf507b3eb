"""The model along orbits: errors ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖/‖f(x)‖, and the signal g ↦ ρ_Y(g)⁻¹f(ρ_X(g)x).

An equivariant function's signal is constant. One pass over the data takes every batch along its whole orbit, so that
splines are filtered once; only the orbits of `kept` rows are stored.

An input that no element moves (a blank or symmetric image) has an orbit of one point, on which every function is
invariant. It says nothing about the model, and leaves the sample.

The module also reads outputs as classes, probabilities or values, and computes the task's error on moved inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import jax
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import Bool, Float, Int, Num

from equitangents.audit.adapters.model import Answer
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.trees import InputLeaves, Shared, dotted
from equitangents.audit.measure.task import AuditTask, batches, check_same_shapes, flattened
from equitangents.audit.report.numbers import MeanEstimate
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.metrics.measure import ratio

_KEPT_NUMBERS = 2**24
_CLASSES = 1024


@dataclass(frozen=True, eq=False)
class Orbits:
    """Results of one pass over the inputs; E elements, N inputs, the identity first in signals."""

    separate: Float[np.ndarray, "outputs E N"]
    """Norms ‖f(ρ(g)x) − ρ(g)f(x)‖ of each output; for class numbers 1 where the class changed."""
    separate_sizes: Float[np.ndarray, "outputs N"]
    """Norms ‖f(x)‖ of each output; 1 for class numbers."""
    deviations: Float[np.ndarray, " outputs"]
    """Standard deviation of each output over inputs and moved copies; nan for one input and for classes."""
    class_numbers: Bool[np.ndarray, " outputs"]
    """Which outputs are class numbers."""
    columns: dict[int, Float[np.ndarray, " classes"]]
    """The class of every column of `signals` of each output of class numbers."""
    kept: Int[np.ndarray, " K"]
    """Rows of `signals`."""
    signals: Float[np.ndarray, "E1 K D"]
    """ρ(g)⁻¹f(ρ(g)x), outputs side by side, for the kept rows."""
    actions: Actions
    output_shapes: list[tuple[int, ...]]
    output_names: list[str]
    structure: PyTreeDef
    """The tree of the outputs."""
    output_axes: tuple[int, ...]
    """Batch axis of every output."""
    dtype: np.dtype
    probabilities: bool
    """Whether the first output is a probability distribution in every row (unless outputs="values")."""
    classes: bool
    """Whether the first output is a vector of class scores."""
    shares: Bool[np.ndarray, " outputs"]
    """Which outputs have errors that are shares: masks of classes, sets of boxes."""
    complex_pairs: Bool[np.ndarray, " outputs"]
    """Which outputs are complex numbers, held as pairs of real ones."""
    matched: dict[int, Float[np.ndarray, "3 E N"]]
    """Matched IoU, share missed and share extra of every output that is a set."""
    moved: Bool[np.ndarray, " N"]
    """Which inputs some element moves."""
    undefined: Bool[np.ndarray, "E N"]
    """Where the model gives NaN or infinite values for a moved input, and finite ones for the input."""

    @cached_property
    def errors(self) -> Float[np.ndarray, "E N"]:
        """Relative errors, the largest over the outputs."""
        return np.max(ratio(self.separate, self.separate_sizes[:, None]), axis=0)

    def by_output(self, signals: Float[np.ndarray, "*more D"]) -> list[np.ndarray]:
        """Signals split by output."""
        ends = np.cumsum([math.prod(shape) for shape in self.output_shapes])
        return np.split(signals, ends[:-1], axis=-1)

    @property
    def one_class(self) -> Bool[np.ndarray, " outputs"]:
        """Which outputs are one class number for all inputs, moved or not; False if unknown."""
        parts = self.by_output(self.signals) if len(self.kept) == self.separate.shape[2] > 1 else []
        same = [bool((part == part[:1, :1]).all()) for part in parts] or [False] * len(self.class_numbers)
        return self.class_numbers & np.array(same)

    @property
    def no_mean(self) -> str:
        """Kind of the outputs that cannot be averaged; "" if all can."""
        if self.class_numbers.any():
            return "class numbers"
        return "masks of classes and sets in any order" if self.actions.compared else ""

    @property
    def scores(self) -> np.ndarray | None:
        """The first output's signal (E + 1, K, classes), if it is a vector of class scores."""
        return self.signals[:, :, : self.output_shapes[0][0]] if self.classes else None

    @property
    def same_class(self) -> Bool[np.ndarray, "E K"] | None:
        """Whether the predicted class of a moved input is that of the input itself; None without classes."""
        scores = self.scores
        return None if scores is None else scores[1:].argmax(axis=2) == scores[0].argmax(axis=1)


@final
class RunningDeviation:
    """√(Σ_g Σ_i ‖f(ρ(g)x_i) − f̄‖² / ((n − 1)|G|)) over n inputs and their moved copies, f̄ the mean over all.

    Moved copies count, since a sample of one kind, such as upright pages, has a small deviation itself, relative to
    which any violation looks large. Sums are about the first row, in units of the largest entry: exactly 0 for a
    constant, no overflow.

    `copies`: number of copies of every input, the input itself included.
    """

    def __init__(self, copies: int = 1) -> None:
        self._copies = copies
        self._first: np.ndarray | None = None
        self._unit = 1.0
        self._sum: np.ndarray | float = 0.0
        self._squares = 0.0
        self._count = 0

    def add(self, y: Num[np.ndarray, "n D"]) -> None:
        """Take one more batch of outputs into account."""
        if self._first is None:
            self._first = y[0].astype(np.float64)
            self._unit = float(np.abs(y).max(initial=0.0)) or 1.0
        d = y / self._unit
        d -= self._first / self._unit
        self._sum = self._sum + d.sum(axis=0)
        self._squares += float(np.vdot(d, d))
        self._count += len(y)

    @property
    def value(self) -> float:
        """The standard deviation; nan for fewer than two inputs."""
        rows, copies = self._count, self._copies
        if rows < 2 * copies:
            return math.nan
        squares = max(self._squares - float((self._sum**2).sum()) / rows, 0.0)  # type: ignore[union-attr]
        return self._unit * math.sqrt(squares / (rows - copies))


def measure_orbits(task: AuditTask, x: InputLeaves | None = None) -> Orbits:
    """One pass over x (by default the task's inputs): f(x) of every batch, then f(ρ_X(g)x) for every g."""
    x = task.x if x is None else x
    contract, orbits = task.contract, None
    running: list[RunningDeviation | None] = []
    for rows in batches(x.n, task.step):
        part = x.subset(rows)
        y = task.batch(part)
        if orbits is None:
            orbits = _empty(task, x.n, y)
            plain = zip(orbits.class_numbers, orbits.actions.comparisons, strict=True)
            running = [None if c or by else RunningDeviation(len(task.elements) + 1) for c, by in plain]
        elif orbits.probabilities:
            orbits = replace(orbits, probabilities=are_distributions(y.leaves[0]))
        actions = orbits.actions
        orbits.separate_sizes[:, rows] = actions.sizes(y.leaves)
        _add(running, y)
        low, high = np.searchsorted(orbits.kept, [rows[0], rows[-1] + 1])
        here, chosen = slice(low, high), orbits.kept[low:high] - rows[0]
        own = [v[chosen] for v in y.leaves]
        if len(chosen):
            orbits.signals[0, here] = flattened(actions.profiles(own, own))
        for k, (g, moved) in enumerate(
            zip(task.elements, contract.inputs.orbit(task.elements, part.leaves), strict=True)
        ):
            if not orbits.moved[rows].all():
                orbits.moved[rows] |= moved_rows(part.leaves, moved)
            z = task.batch(x.replaced(moved), finite=False)
            check_same_shapes(y, z, contract.label(g))
            z, orbits.undefined[k, rows] = _defined(z, y)
            _add(running, z)
            expected = [v if a is None else _acted(a, g, v) for a, v in zip(actions, y.leaves, strict=True)]
            orbits.separate[:, k, rows] = actions.differences(z.leaves, expected)
            for o, (by, v, w) in enumerate(zip(actions.comparisons, z.leaves, expected, strict=True)):
                both = None if by is None else by.compare(v, w)[2]
                if both is not None:
                    orbits.matched.setdefault(o, np.full((3, *orbits.undefined.shape), np.nan))[:, k, rows] = both
            if len(chosen):
                back = actions.act(contract.group.inverse(g), [v[chosen] for v in z.leaves])
                orbits.signals[k + 1, here] = flattened(actions.profiles(back, own))
    assert orbits is not None
    orbits.deviations[:] = [np.nan if each is None else each.value for each in running]
    if not orbits.class_numbers.any():
        return orbits
    signals, columns = _one_hot(orbits.signals, orbits.output_shapes, orbits.class_numbers)
    shapes = [(len(columns[o]),) if o in columns else shape for o, shape in enumerate(orbits.output_shapes)]
    return replace(orbits, signals=signals, output_shapes=shapes, columns=columns)


def _add(running: Sequence[RunningDeviation | None], y: Answer) -> None:
    for each, leaf in zip(running, y.leaves, strict=True):
        if each is not None:
            each.add(leaf.reshape(len(leaf), -1))


def _empty(task: AuditTask, N: int, first: Answer) -> Orbits:
    """Empty tables for one pass, for outputs like the first."""
    actions = task.contract.output_actions(task.output_action, first.structure, first.leaves, first.complex_pairs)
    outputs, E, compared = len(first.leaves), len(task.elements), actions.comparisons
    classes = np.array([a.dtype.kind == "i" for a in first.leaves])
    profiles = actions.profiles(first.leaves, first.leaves)
    width = flattened(profiles).shape[1]
    kept = _kept_rows(N, (E + 1) * width, task.settings.seed)
    return Orbits(
        separate=np.empty((outputs, E, N)),
        separate_sizes=np.empty((outputs, N)),
        deviations=np.full(outputs, np.nan),
        class_numbers=classes,
        columns={},
        kept=kept,
        signals=np.empty((E + 1, len(kept), width)),
        actions=actions,
        output_shapes=[a.shape[1:] for a in profiles],
        output_names=_names(first.structure, outputs),
        structure=first.structure,
        output_axes=first.axes,
        dtype=first.dtype,
        probabilities=task.settings.outputs == "auto" and are_distributions(first.leaves[0]),
        classes=not task.regression and (bool(classes[0]) or _are_scores(first, actions[0])),
        shares=np.array([by is not None and by.share for by in compared]),
        complex_pairs=np.array(first.complex_pairs or [False] * outputs),
        matched={},
        moved=np.zeros(N, bool),
        undefined=np.zeros((E, N), bool),
    )


def _acted(action: LeafAction, g: object, y: np.ndarray) -> np.ndarray:
    moved = action.act(g, y)
    if moved.shape != y.shape:
        raise ShapeError("output_action", moved.shape, y.shape, "it must keep the shape", verb="gives shape")
    return moved


def _kept_rows(n: int, numbers_each: int, seed: int) -> np.ndarray:
    count = max(min(n, 8), min(n, _KEPT_NUMBERS // max(numbers_each, 1)))
    return np.arange(n) if count >= n else np.sort(np.random.default_rng(seed).choice(n, count, replace=False))


def are_distributions(y: np.ndarray) -> bool:
    """Whether every row is a probability distribution."""
    if y.ndim != 2 or y.shape[1] < 2 or y.min() < 0:
        return False
    return bool(np.abs(y.sum(axis=1) - 1).max() < 1e-3)


def _are_scores(first: Answer, action: LeafAction | None) -> bool:
    """Whether outputs are at least two numbers that stay or are permuted; an argmax of vectors means nothing."""
    y = first.leaves[0]
    if first.complex_pairs and first.complex_pairs[0]:
        return False
    permutes = action is not None and action.action.permutes_entries
    return y.ndim == 2 and y.shape[1] >= 2 and (action is None or permutes)


def _defined(z: Answer, y: Answer) -> tuple[Answer, Bool[np.ndarray, " n"]]:
    """(outputs of moved inputs, replaced by those of the inputs where they are not finite; which are not finite)."""
    bad = np.any([~np.isfinite(a.reshape(len(a), -1)).all(axis=1) for a in z.leaves], axis=0)
    if not bad.any():
        return z, bad

    def put(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        there = bad.reshape((len(a),) + (1,) * (a.ndim - 1))
        return np.where(there, b, a)

    return replace(z, leaves=tuple(put(a, b) for a, b in zip(z.leaves, y.leaves, strict=True))), bad


def _one_hot(
    signals: np.ndarray, shapes: list[tuple[int, ...]], classes: np.ndarray
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """(signals with class numbers one-hot encoded, the class of every column by output)."""
    parts, at, columns = [], 0, {}
    for o, (shape, is_class) in enumerate(zip(shapes, classes, strict=True)):
        width = math.prod(shape)
        part = signals[..., at : at + width]
        at += width
        if is_class:
            columns[o] = _columns(part)
            part = (part == columns[o]).astype(np.float64)
        parts.append(part)
    return np.concatenate(parts, axis=-1), columns


def _columns(numbers: np.ndarray) -> np.ndarray:
    """The classes 0, 1, … if they are few, so that column c is class c; else the distinct numbers."""
    largest = int(numbers.max(initial=0))
    if numbers.min(initial=0) >= 0 and largest < _CLASSES:
        return np.arange(max(largest + 1, 2), dtype=np.float64)
    seen = np.unique(numbers)
    return seen if len(seen) > 1 else np.append(seen, seen + 1)


def _names(structure: PyTreeDef, count: int) -> list[str]:
    """The keys of a dictionary, the positions of a tuple; "f(x)" for a single array."""
    paths, _ = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(structure, list(range(count))))
    named = [dotted(path) for path, _ in paths]
    if named == [""]:
        return ["f(x)"]
    return [f"output {name}" if name.replace(".", "").isdigit() else name for name in named]


_ROUNDINGS = 8.0


def moved_rows(x: Sequence[Any], moved: Sequence[Any]) -> Bool[np.ndarray, " n"]:
    """Which rows of some array differ by more than rounding of their largest entry."""
    pairs = [(a, np.asarray(b)) for a, b in zip(x, moved, strict=True) if not isinstance(a, Shared)]
    n = len(pairs[0][0])
    differs = np.zeros(n, bool)
    for a, b in pairs:
        if a.shape != b.shape:
            return np.ones(n, bool)
        if b is a:
            continue
        a, b = a.reshape(n, -1), b.reshape(n, -1)
        if a.dtype.kind not in "fc":
            differs |= (a != b).any(axis=1)
            continue
        limit = _ROUNDINGS * float(np.finfo(a.dtype).eps) * _largest(a)
        differs |= ~(_largest(b - a) <= limit)
    return differs


def _largest(a: np.ndarray) -> Float[np.ndarray, " n"]:
    """The largest entry of every row, by size."""
    return np.abs(a).max(axis=1, initial=0).astype(np.float64)


_UNKNOWN = int(np.iinfo(np.int64).min)
"""Stands for labels without a column of f(x)."""


def same_predictions(task: AuditTask, orbits: Orbits) -> MeanEstimate | None:
    """Share of elements, without the identity, that keep the predicted class; None without classes."""
    same = orbits.same_class
    return None if same is None else task.resampler(len(orbits.kept)).mean(same.mean(axis=0), bounds=(0.0, 1.0))


def check_labels(y: Any, n: int, classes: np.ndarray | None = None) -> np.ndarray | None:
    """Labels as an array: whole numbers (N,) are classes, real numbers (N, …) the values that f should return.

    Where the columns of f(x) belong to named `classes`, labels become column numbers, `_UNKNOWN` those without one.
    """
    if y is None:
        return None
    y = np.asarray(y)
    if y.ndim < 1 or len(y) != n:
        raise ShapeError("y", y.shape, (n, ...), "one row an input")
    if classes is not None and y.ndim == 1:
        same = y[:, None] == classes
        if not same.any():
            known = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
            raise InvalidArgumentError("y", y[0], "labels of the model's classes, " + known, verb="holds")
        return np.where(same.any(axis=1), same.argmax(axis=1), _UNKNOWN)
    if y.dtype.kind not in "fiub":
        hint = (
            "number the classes, or leave y out; only scikit-learn's models know names" if y.dtype.kind in "US" else ""
        )
        raise InvalidTypeError("y", y.dtype, "class numbers, or real numbers like f(x)", hint, verb="has dtype")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
        raise NotFiniteError("y", where, remedy="leave such inputs out")
    return y


def is_classes(y: np.ndarray) -> bool:
    """Whether labels are class numbers."""
    return y.dtype.kind in "iub" and y.ndim == 1


def misfit(orbits: Orbits, y: np.ndarray | None) -> str:
    """Why the labels do not fit the outputs; "" if they do."""
    if y is None:
        return ""
    width = math.prod(orbits.output_shapes[0])
    if not is_classes(y):
        own = math.prod(y.shape[1:])
        return "" if own == width else f"y has {own} numbers an input, f(x) has {width}"
    beyond = y[((y < 0) & (y != _UNKNOWN)) | (y >= width)]
    if width < 2 or 0 in orbits.columns or not len(beyond):
        return ""
    return f"y names class {beyond.max()}; f(x) has {width} columns, those of the classes 0 to {width - 1}"


def task_error(flat: np.ndarray, orbits: Orbits, y: np.ndarray | None) -> tuple[float | None, str | None]:
    """(error, its name) of predictions (K, D) for the kept rows: an error rate, or a root mean square error."""
    if y is None:
        return None, None
    truth, width = y[orbits.kept], math.prod(orbits.output_shapes[0])
    if is_classes(truth):
        if width < 2:
            return None, None
        column = flat[:, :width].argmax(axis=1)
        if 0 in orbits.columns:  # a class without a column was never predicted, and is an error
            return float((orbits.columns[0][column] != truth).mean()), "error rate"
        return float((column != truth).mean()), "error rate"
    truth = truth.reshape(len(truth), -1)
    return float(np.sqrt(((flat[:, :width] - truth) ** 2).sum(axis=1).mean())), "root mean square error"
