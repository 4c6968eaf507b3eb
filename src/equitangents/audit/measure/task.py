"""The audit task: model, contract and inputs, with counted and timed evaluation in batches.

The interval of a table of errors e(g, x) combines those of its row means and of its column means. With fewer than 5
inputs or sampled elements, or if all errors are equal, there is no interval: its ends are NaN.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, final

import jax
import numpy as np

from equitangents._types import AnyAction, DType
from equitangents.audit.adapters import Answer, Model
from equitangents.audit.adapters.model import answer
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.report.numbers import Distribution, MeanEstimate
from equitangents.audit.settings import AuditSettings
from equitangents.errors import EquitangentsError, ShapeError
from equitangents.metrics.measure import BootstrapSettings
from equitangents.progress import Progress
from equitangents.statistics.bootstrap import Bounds, interval_of_mean, resample, table_interval

_BATCH_BYTES = 64 * 2**20
_LARGEST_BATCH = 256


@dataclass(eq=False)
class Clock:
    """Seconds spent in the model, with the inputs and batches it evaluated, padding included."""

    seconds: float = 0.0
    evaluations: int = 0
    """Inputs."""
    batches: int = 0
    failed: BaseException | None = None
    """The last exception of the model."""
    progress: Progress | None = None

    def timed(self, run: Callable[[Any], Any], x: InputLeaves) -> Any:
        """`run` of a batch, counted and timed."""
        began = time.perf_counter()
        try:
            return run(x.own_tree())
        finally:
            self.add(x.n, time.perf_counter() - began)

    def add(self, inputs: int, seconds: float) -> None:
        """Count one more batch."""
        self.seconds += seconds
        self.evaluations += inputs
        self.batches += 1
        if self.progress is not None:
            self.progress.add(inputs, inputs)


@dataclass(frozen=True, eq=False)
class AuditTask:
    """Everything that the parts of an audit need."""

    model: Model
    contract: Contract
    x: InputLeaves
    elements: list[Any]
    complete: bool
    output_action: AnyAction
    regression: bool
    """Whether the labels are real numbers, so that outputs are not class scores."""
    batch_size: int
    settings: AuditSettings
    clock: Clock = field(default_factory=Clock)
    data_rows: np.ndarray | None = None
    """Rows of the inputs in the user's data; None: all of them are audited."""
    unmoved: int = 0
    """Inputs that no element moves, left out unless that is all of them."""

    def row(self, i: int) -> int:
        """Row of input i in the user's data."""
        return int(i) if self.data_rows is None else int(self.data_rows[i])

    def of_rows(self, rows: np.ndarray) -> AuditTask:
        """The task of some of its inputs."""
        given = rows if self.data_rows is None else self.data_rows[rows]
        return replace(self, x=self.x.subset(rows), data_rows=given)

    def resampler(self, inputs: int) -> Resampler:
        """Intervals over this many inputs, and over the elements if they are a sample."""
        elements = None if self.complete else len(self.elements)
        return _resampler(inputs, elements, self.settings.bootstrap)

    def over_inputs(self, inputs: int) -> Resampler:
        """Intervals over this many inputs."""
        return _resampler(inputs, None, self.settings.bootstrap)

    def evaluate(self, x: InputLeaves, run: Callable[[Any], Any] | None = None) -> Answer:
        """The model's outputs for all of x, in batches."""
        return joined([self.batch(x.subset(rows), run) for rows in batches(x.n, self.step)])

    @property
    def step(self) -> int:
        """Inputs per batch: `batch_size`, rounded to whole batches of a model of fixed batch size."""
        size = self.model.fixed_batch
        return self.batch_size if size is None else max(self.batch_size // size, 1) * size

    def batch(self, x: InputLeaves, run: Callable[[Any], Any] | None = None, finite: bool = True) -> Answer:
        """The model's outputs for one batch; NaN and infinite ones are an error unless `finite` is False."""
        least = self.model.least_batch if x.n < self.model.least_batch else None
        size = self.model.fixed_batch or (self.settings.batch_size and self.batch_size) or least
        one = lambda part: self._with_classes(
            answer(self.clock.timed(run or self.model, part), part.n, expected=self.output_action, finite=finite)
        )
        try:
            return one(x) if size is None or size == x.n else _filled_up(one, x, size)
        except Exception as error:
            failure = self.clock.failed = error if run is not None else self.model.failed(error, x.tree())
            if failure is not error:
                raise failure from error
            if not isinstance(error, EquitangentsError):
                error.add_note(f"in an audit, for a batch of {x.n} inputs; batch_size= sets their number")
            raise

    def _with_classes(self, y: Answer) -> Answer:
        """Class numbers as int64, which `differences` compares for equality."""
        if self.settings.outputs != "auto" or self.regression or not any(y.whole):
            return y
        leaves = tuple(a.astype(np.int64) if w else a for a, w in zip(y.leaves, y.whole, strict=True))
        return replace(y, leaves=leaves)

    def rows(self, count: int) -> np.ndarray:
        """At most `count` rows of the sample, drawn by the seed."""
        if self.x.n <= count:
            return np.arange(self.x.n)
        return np.sort(np.random.default_rng(self.settings.seed).choice(self.x.n, count, replace=False))


def _filled_up(one: Callable[[InputLeaves], Answer], x: InputLeaves, size: int) -> Answer:
    """The model's outputs in batches of one size, the last one padded with its last row."""
    parts = []
    for rows in batches(x.n, size):
        y = one(x.subset(np.concatenate([rows, np.repeat(rows[-1:], size - len(rows))])))
        parts.append(replace(y, leaves=tuple(a[: len(rows)] for a in y.leaves)))
    return joined(parts)


def joined(parts: Sequence[Answer]) -> Answer:
    """Outputs of consecutive batches as one."""
    leaves = zip(*(part.leaves for part in parts), strict=True)
    return replace(parts[0], leaves=tuple(map(np.concatenate, leaves)))


@lru_cache(maxsize=4)
def _resampler(inputs: int, elements: int | None, bootstrap: BootstrapSettings) -> Resampler:
    """Cached, since parts of an audit share their inputs and elements, and drawing resamples is slow."""
    return Resampler(inputs, elements, bootstrap)


def eps(dtype: DType) -> float:
    """Machine epsilon of a type, also of half precision."""
    return float(jax.numpy.finfo(dtype).eps)


def batches(n: int, size: int) -> list[np.ndarray]:
    """Row numbers in consecutive batches."""
    return [np.arange(i, min(i + size, n)) for i in range(0, n, size)]


def default_batch_size(x: InputLeaves) -> int:
    """Rows whose inputs take 64 MiB at most, and 256 at most: a model's own arrays are larger than its inputs."""
    row = sum(a[:1].nbytes for a in x.batches)
    return int(max(1, min(_LARGEST_BATCH, _BATCH_BYTES // max(row, 1))))


def flattened(leaves: Sequence[np.ndarray]) -> np.ndarray:
    """All outputs side by side, (N, D)."""
    return np.concatenate([y.reshape(len(y), -1) for y in leaves], axis=1).astype(np.float64, copy=False)


def check_same_shapes(y: Answer, moved: Answer, label: str) -> None:
    """Raise unless outputs keep their shapes when inputs move."""
    for a, b in zip(y.leaves, moved.leaves, strict=True):
        if a.shape != b.shape:
            raise ShapeError("f", b.shape, a.shape, label, verb="gives moved inputs the shape")


_BLOCKS = 4096  # more inputs than this are averaged in blocks before resampling


@final
class Resampler:
    """Intervals of means over `inputs` inputs, and over `elements` elements if these were sampled (else None)."""

    def __init__(self, inputs: int, elements: int | None, bootstrap: BootstrapSettings):
        self.settings, times, seed = bootstrap, bootstrap.resamples, bootstrap.seed
        self.blocks = np.array_split(np.arange(inputs), min(inputs, _BLOCKS))
        self._columns = resample(len(self.blocks), times, seed)
        self._rows = None if elements is None else resample(elements, times, seed + 1)

    def mean(self, table: Any, bounds: Bounds | None = None) -> MeanEstimate:
        """The mean of values (inputs,) or of a table (elements, inputs), which lie between `bounds`.

        Without bounds, the interval of values of which none is negative holds no negative number.
        """
        table = np.asarray(table, np.float64)
        if bounds is None and table.min() >= 0:
            bounds = (0.0, math.inf)
        mean, level = float(table.mean()), self.settings.confidence
        blocked = table
        if len(self.blocks) < table.shape[-1]:
            blocked = np.stack([table[..., b].mean(axis=-1) for b in self.blocks], axis=-1)
        if table.ndim == 1 or self._rows is None:
            values = blocked if table.ndim == 1 else blocked.mean(axis=0)
            low, high = interval_of_mean(values, self._columns, level, bounds)
        else:
            low, high = table_interval(blocked, self._rows, self._columns, level, bounds)
        return MeanEstimate(mean, *((min(low, mean), max(high, mean)) if low <= high else (math.nan, math.nan)))

    def distribution(self, table: np.ndarray) -> Distribution:
        """Mean with interval, quantiles and maximum."""
        return distribution_of(self.mean(table), table)


def distribution_of(estimate: MeanEstimate, values: np.ndarray) -> Distribution:
    """The distribution of values with this estimate of their mean; every quantile is one of the values."""
    q05, median, q95 = np.quantile(values, [0.05, 0.5, 0.95], method="inverted_cdf").tolist()
    return Distribution(estimate, q05, median, q95, float(np.max(values)))
