"""One audit at work: the model, the contract, the inputs, and evaluation in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from equitangents._types import AnyAction, DType, Tree
from equitangents.audit.adapters import Answer, Model
from equitangents.audit.adapters.model import answer, axes_of
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import Inputs, to_numpy
from equitangents.audit.measure.clock import Clock, Record
from equitangents.audit.measure.intervals import Resampler
from equitangents.errors import EquitangentsError, ShapeError
from equitangents.keywords import CheckedKeywords
from equitangents.metrics.measure import Bootstrap

logger = logging.getLogger("equitangents.audit")

RelativeTo = Literal["larger", "norm", "spread"]

_BATCH_BYTES = 64 * 2**20
_LARGEST_BATCH = 256


@dataclass(frozen=True)
class Tolerances(CheckedKeywords):
    """What an audit's verdict goes by.

    Args:
        relative_to: what the headline's error and the verdict are relative to: "norm", ‖f(x)‖; "spread", the root mean
            square distance of f(x) from its mean over the inputs; "larger", that of both that gives the larger error.
        tolerance: the mean error that is acceptable under every element, 0.01 for 1 %; None: none above the floor.
        output_scale: the size of outputs that counts as 100 %, in their own unit, in place of both; a number for all
            outputs, or numbers by the names of some. For outputs that vanish, as forces of a relaxed crystal do.
    """

    relative_to: RelativeTo = "larger"
    tolerance: float | None = None
    output_scale: float | Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class AuditTask:
    """What every part of an audit needs."""

    model: Model
    contract: Contract
    x: Inputs
    elements: list[Any]
    complete: bool
    output_action: AnyAction
    outputs: str
    regression: bool
    """Whether the labels are real numbers, so that outputs are not class scores."""
    batch_size: int
    bootstrap: Bootstrap
    tolerances: Tolerances = field(default_factory=Tolerances)
    quick: bool = False
    """Whether the error and its floor are asked for alone."""
    clock: Clock = field(default_factory=Clock)
    record: Record = field(default_factory=Record)
    given_rows: np.ndarray | None = None
    """Where the inputs stand in the data that were given; None: all of them are audited."""
    unmoved: int = 0
    """Inputs that no element moves, and that were left out, unless all are such."""
    sample: Inputs | None = None
    """All inputs that were to be audited, where some of them were left out."""
    sample_rows: np.ndarray | None = None
    """Where the others stand among these."""

    @property
    def nothing_moves(self) -> bool:
        """Whether no element moves any input, so that they were all kept."""
        return self.unmoved > 0 and self.sample is None

    def row(self, i: int) -> int:
        """Where input i stands in the data that were given."""
        return int(i) if self.given_rows is None else int(self.given_rows[i])

    def of_rows(self, rows: np.ndarray) -> AuditTask:
        """The task of some of its inputs."""
        given = rows if self.given_rows is None else self.given_rows[rows]
        return replace(self, x=self.x.subset(rows), given_rows=given)

    def resampler(self, inputs: int) -> Resampler:
        """Intervals over this many inputs, and over the elements if they are a sample."""
        elements = None if self.complete else len(self.elements)
        return _resampler(inputs, elements, self.bootstrap)

    def over_inputs(self, inputs: int) -> Resampler:
        """Intervals over this many inputs alone."""
        return _resampler(inputs, None, self.bootstrap)

    @property
    def seed(self) -> int:
        """The seed of everything random in the audit."""
        return self.bootstrap.seed

    def evaluate(self, x: Inputs, run: Callable[[Any], Any] | None = None) -> Answer:
        """The model's outputs for all of x, in batches."""
        parts = [self.batch(x.subset(rows), run) for rows in batches(x.n, self.step)]
        leaves = tuple(np.concatenate(columns) for columns in zip(*(p.leaves for p in parts), strict=True))
        return replace(parts[0], leaves=leaves)

    @property
    def step(self) -> int:
        """Inputs a batch: `batch_size`, in whole batches of a model that takes one size alone."""
        size = self._fixed_size
        return self.batch_size if size is None else max(self.batch_size // size, 1) * size

    @property
    def _fixed_size(self) -> int | None:
        clock = self.clock
        return self.model.fixed_batch or (clock.largest if clock.refused is not None else None)

    def batch(self, x: Inputs, run: Callable[[Any], Any] | None = None, finite: bool = True) -> Answer:
        """The model's outputs for one batch; NaN and infinite ones are an error unless `finite` is False."""
        if self.record.replaying:
            return self.record.next(x.n)
        y = self._with_classes(answer(self._output(x, run), x.n, expected=self.output_action, finite=finite))
        y = self._masked(y, x)
        self.clock.check()
        if self.record.recording:
            self.record.keep(y)
        return y

    def _output(self, x: Inputs, run: Callable[[Any], Any] | None) -> Tree:
        clock, size = self.clock, self._fixed_size
        given = clock.counting(run or self.model)
        try:
            if size is not None and size != x.n:
                return filled_up(given, x, size, self.output_action)
            try:
                return given(x)
            except EquitangentsError:
                raise
            except Exception as error:  # of a foreign model, which may take no other size than the one before
                taken = 1 if clock.largest == 0 and x.n > 1 else clock.largest
                if run is not None or not (0 < x.n < taken or taken == 1 < x.n):
                    raise
                try:
                    output = filled_up(given, x, taken, self.output_action)
                except Exception:
                    raise error from None
                clock.refused = next(iter(str(error).splitlines()), type(error).__name__)
                how = "inputs are given one at a time" if taken == 1 else f"batches are filled up to {taken}"
                logger.warning("the model takes no batch of %d (%s); %s", x.n, clock.refused, how)
                return output
        except Exception as error:
            told = error if run is not None else self.model.failed(error, x.tree())
            clock.failed = told
            if told is error:
                if clock.largest == 0 and not isinstance(error, EquitangentsError):
                    error.add_note(f"in an audit, given a batch of {x.n}; if it takes one size alone, say batch_size=")
                raise
            raise told from error

    def _with_classes(self, y: Answer) -> Answer:
        """Class numbers as int64, which `apart` compares for being the same."""
        if self.outputs != "auto" or self.regression or not any(y.whole):
            return y
        leaves = tuple(a.astype(np.int64) if w else a for a, w in zip(y.leaves, y.whole, strict=True))
        return replace(y, leaves=leaves)

    def _masked(self, y: Answer, x: Inputs) -> Answer:
        """0 in place of what the model returns for positions that do not exist."""
        if self.contract.mask is None:
            return y
        mask = np.asarray(x.leaves[self.contract.mask]) != 0
        cut = lambda a: a.ndim >= mask.ndim and a.shape[: mask.ndim] == mask.shape
        there = lambda a: mask.reshape(*mask.shape, *(1,) * (a.ndim - mask.ndim))
        return replace(y, leaves=tuple(np.where(there(a), a, 0) if cut(a) else a for a in y.leaves))

    def output_actions(self, y: Answer) -> Actions:
        """The action on every output."""
        return self.contract.output_actions(self.output_action, y.structure, y.leaves, y.complex_pairs)

    def rows(self, count: int) -> np.ndarray:
        """At most `count` rows of the sample, spread over it, always the same."""
        if self.x.n <= count:
            return np.arange(self.x.n)
        return np.sort(np.random.default_rng(self.seed).choice(self.x.n, count, replace=False))


def filled_up(given: Callable[[Inputs], Any], x: Inputs, size: int, expected: AnyAction = None) -> Tree:
    """The model's output in batches of one size, the last filled up with its last row.

    `expected`, the tree of output actions, says where batches are not along the first axis.
    """
    chunks: list[list[np.ndarray]] = []
    structure: PyTreeDef = None
    axes: list[int] = []
    for rows in batches(x.n, size):
        filled = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows))])
        leaves, structure = jax.tree.flatten(given(x.subset(filled)))
        axes = axes_of(expected, structure, len(leaves))
        own = range(len(rows))
        chunks.append([np.take(to_numpy(a), own, axis) for a, axis in zip(leaves, axes, strict=True)])
    columns = zip(*chunks, strict=True)
    whole = [np.concatenate(parts, axis) for parts, axis in zip(columns, axes, strict=True)]
    return jax.tree.unflatten(structure, whole)


@lru_cache(maxsize=4)
def _resampler(inputs: int, elements: int | None, bootstrap: Bootstrap) -> Resampler:
    """Many parts of one audit share their inputs and elements, and drawing resamples takes longest."""
    return Resampler(inputs, elements, bootstrap)


def eps(dtype: DType) -> float:
    """The rounding of one operation in numbers of this type, half precision among them."""
    return float(jax.numpy.finfo(dtype).eps)


def batches(n: int, size: int) -> list[np.ndarray]:
    """Row numbers in consecutive batches."""
    return [np.arange(i, min(i + size, n)) for i in range(0, n, size)]


def default_batch_size(x: Inputs) -> int:
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
            raise ShapeError(f"f(x) has shape {a.shape}, and after {label} {b.shape}; it must be the same")
