"""What would help: averaging over the group at test time, training with augmentation.

A remedy that would make all outputs equal is not offered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.callables import EstimatorModel
from equitangents.audit.adapters.model import Answer
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import Batch, InputLeaves, Shared, as_inputs
from equitangents.audit.measure.input_sets import training_set
from equitangents.audit.measure.judge import Measured, make_scales
from equitangents.audit.measure.orbits import measure_orbits, task_error
from equitangents.audit.measure.task import AuditTask, Clock, flattened
from equitangents.audit.report.numbers import FACTOR, MeanEstimate
from equitangents.audit.report.sections import AUGMENTATION, AVERAGING, How, MissingSection, Remedy
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import norms

_ROWS = 16
NOTHING_LEFT = MeanEstimate(0.0, 0.0, 0.0)
SAME = "outputs would be the same for all inputs"
INFINITE = "the group has too many elements to list, or infinitely many; average over a finite subgroup"


def remedies(m: Measured) -> list[Remedy | MissingSection]:
    """Reasons for remedies that are not offered, then remedies, those that worsen the task's error last."""
    made = [_averaging(m), _augmentation(m)]
    return sorted(made, key=lambda r: isinstance(r, Remedy) and 1 + r.worse)


def _averaging(m: Measured) -> Remedy | MissingSection:
    """f̄(x) = mean over g of ρ(g)⁻¹f(ρ(g)x), equivariant only if f is deterministic."""
    task, orbits, phi = m.task, m.orbits, m.orbits.signals
    if task.contract.group.elements is None:
        return MissingSection(AVERAGING, INFINITE)
    mean = phi.mean(axis=0)
    if not orbits.no_mean and m.verdict != "equivariant" and _lost(m, mean):
        return MissingSection(AVERAGING, SAME)
    after: MeanEstimate | None
    how: How
    if orbits.no_mean:
        after, how = None, "no mean"
    elif m.floors.deterministic and task.complete and task.contract.inputs.exact:
        after, how = NOTHING_LEFT, "exact"
    elif not task.complete:
        after, how = _left_by_chance(m), "sampled"
    else:
        after, how = _left_after_averaging(m), "measured"
    return Remedy(
        name=AVERAGING,
        how=how,
        cost=len(task.elements) + 1,
        cost_unit="evaluations per input",
        after=after,
        task_before=task_error(phi[0], orbits, m.y)[0],
        task_after=task_error(mean, orbits, m.y)[0],
    )


def _left_by_chance(m: Measured) -> MeanEstimate:
    """Difference of two means over E random elements: √(2/E) of the standard deviation over elements."""
    phi, orbits = m.orbits.signals, m.orbits
    share = math.sqrt(2 / max(len(phi) - 2, 1))
    deviation = np.array([norms(part.std(axis=0)) for part in orbits.by_output(phi[1:])]) * share
    return _estimate(m, deviation, orbits.kept)


def _lost(m: Measured, predicted: np.ndarray) -> bool:
    """Whether averaging makes an output equal for all inputs; `predicted` (K, D) are averages for the kept rows.

    Equal means up to twice the noise floor. If it holds for the kept rows, it is checked on all inputs.
    """
    orbits, part = m.orbits, m.floors
    own = orbits.signals[0]
    hides = FACTOR * np.sqrt(np.mean((part.always + part.resampled.max(axis=1)) ** 2, axis=1))
    deviation = lambda a: np.array([math.sqrt(np.mean(norms(p - p.mean(axis=0)) ** 2)) for p in orbits.by_output(a)])
    classes = lambda a: np.unique(a[:, : math.prod(orbits.output_shapes[0])].argmax(axis=1)).size

    def same(a: np.ndarray) -> bool:
        one_class = orbits.scores is not None and classes(own) > 1 and classes(a) == 1
        return one_class or bool(((deviation(own) > hides) & (deviation(a) <= hides)).any())

    if same(predicted) and len(predicted) < m.task.x.n:
        return same(flattened(_average(m.task, m.task.x, orbits.actions)[0]))
    return same(predicted)


def _estimate(m: Measured, table: np.ndarray, rows: np.ndarray) -> MeanEstimate:
    """Mean over inputs of norms (outputs, n) in the headline's unit, largest over outputs."""
    errors = m.judgement.scales.largest(m.judgement.headline.unit, table, rows)
    return m.task.over_inputs(len(rows)).mean(errors)


def _left_after_averaging(m: Measured) -> MeanEstimate:
    """The error of the averaged model itself, f̄(ρ(h)x) against f̄(x), for two elements h."""
    task, actions = m.task, m.orbits.actions
    rows = task.rows(_ROWS)
    x = task.x.subset(rows)
    start, _ = _average(task, x, actions)
    tables = []
    for h in task.elements[:: max(1, len(task.elements) // 2)][:2]:
        moved, _ = _average(task, task.contract.move(h, x), actions)
        back = actions.act(task.contract.group.inverse(h), moved)
        tables.append([norms(a - b) for a, b in zip(back, start, strict=True)])
    return _estimate(m, np.mean(tables, axis=0), rows)


def _average(task: AuditTask, x: InputLeaves, actions: Actions) -> tuple[list[np.ndarray], Answer]:
    """(f̄(x), the mean of ρ(g)⁻¹f(ρ(g)x) over the identity and the elements; the last output)."""
    group = task.contract.group
    elements = [group.identity, *task.elements]
    total: list[np.ndarray] = []
    for g in elements:
        y = task.evaluate(task.contract.move(g, x))
        back = actions.act(group.inverse(g), y.leaves)
        total = [a + b for a, b in zip(total, back, strict=True)] if total else back
    return [a / len(elements) for a in total], y


def averaged(m: Measured) -> Callable[[], Averaged] | None:
    """A function that makes the averaged model, without the data; None for transforms, which form no group."""
    if m.task.contract.not_a_group:
        return None
    small = replace(m.task, x=m.task.x.subset(np.arange(1)), clock=Clock())
    return partial(Averaged, small, m.orbits.actions, m.orbits.no_mean)


class Averaged:
    """f̄(x) = mean over g of ρ_Y(g)⁻¹ f(ρ_X(g) x): evaluates the model once for every element of a finite group."""

    def __init__(self, task: AuditTask, actions: Actions, no_mean: str):
        group = task.contract.group
        if no_mean:
            raise InvalidArgumentError("f(x)", no_mean, "numbers, which have a mean", "audit class scores")
        if group.elements is None:
            raise InvalidArgumentError(
                "group", group.name, "a finite one, such as 'C8'; it has infinitely many elements"
            )
        others = [g for g in group.elements if not np.array_equal(g, group.identity)]
        self._task, self._actions, self._axes = replace(task, elements=others), actions, task.x.axes

    @property
    def __name__(self) -> str:
        """Name of the averaged model."""
        return f"{self._task.model.name} averaged over {self._task.contract.group.name}"

    def __call__(self, *x: Tree) -> Tree:
        """f̄ of one batch, with the arguments of the model."""
        inputs = self._task.contract.project(as_inputs(self._placed(x[0] if len(x) == 1 else x)))
        with self._task.model.ready():
            mean, y = _average(self._task, inputs, self._actions)
        return y.tree(mean)

    def _placed(self, x: Tree) -> Any:
        """The arrays with their batch axes as in the audit, or without a batch."""
        audited = self._task.x.leaves
        shared = [isinstance(a, Shared) for a in audited]
        if not (self._axes or any(shared)):
            return x
        leaves, structure = jax.tree.flatten(x)
        axes = self._axes or (0,) * len(audited)
        place = lambda a, alone, axis: a if isinstance(a, Batch | Shared) else Shared(a) if alone else Batch(a, axis)
        return jax.tree.unflatten(structure, [place(*each) for each in zip(leaves, shared, axes, strict=True)])


def _augmentation(m: Measured) -> Remedy:
    """Refit a copy of an estimator on moved training data, and measure it on the sample."""
    task, orbits = m.task, m.orbits
    own = task.model if type(task.model) is EstimatorModel else None
    why: How | None = "no refit" if own is None else "no training data" if task.settings.train is None else None
    if why is None and any(a is not None for a in orbits.actions):
        why = "labels move"
    known = Remedy(
        name=AUGMENTATION,
        how=why or "refitted",
        cost=1,
        cost_unit="trainings",
        after=None,
        task_before=task_error(orbits.signals[0], orbits, m.y)[0],
        task_after=None,
    )
    if why is not None:
        return known
    assert own is not None
    from sklearn.base import clone

    x_train, y_train = training_set(task)
    copies = [x_train.leaves[0], *(task.contract.move(g, x_train).leaves[0] for g in task.elements)]
    flat = np.concatenate(copies).reshape(len(copies) * x_train.n, -1)
    refitted = clone(own.estimator).fit(flat, np.concatenate([y_train] * len(copies)))
    model = EstimatorModel(refitted)
    again = measure_orbits(replace(task, model=model), task.x.subset(orbits.kept))
    errors = make_scales(again, None, task.settings).largest(m.judgement.headline.unit, again.separate)
    labels = None if m.y is None else m.y[orbits.kept]
    return replace(
        known,
        after=task.resampler(len(orbits.kept)).mean(errors),
        task_after=task_error(again.signals[0], again, labels)[0],
    )
