"""What would mend a violation: averaging over the group at test time, more members, training with augmentation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equitangents.audit.contract.haar import O3, SO3, Permutations
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.symmetry import Finite
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.relative import task_error
from equitangents.audit.measure.task import Task, pulled_back, relative
from equitangents.audit.report.sections import EnsembleSection, Remedy
from equitangents.metrics.measure import norms, ratio

_TARGET = 0.01
_ROWS = 16


def remedies(
    task: Task, orbits: Orbits, y: np.ndarray | None, ensemble: EnsembleSection | None, train: Any, error: float
) -> list[Remedy]:
    """Every remedy with what it brings, measured on the sample where that is possible."""
    return [_averaging(task, orbits, y, error), _members(ensemble), _augmentation(task, orbits, y, train, error)]


def _averaging(task: Task, orbits: Orbits, y: np.ndarray | None, error: float) -> Remedy:
    """f̄(x) = mean over g of ρ(g)⁻¹f(ρ(g)x)."""
    phi = orbits.signals
    symmetry = task.contract.symmetry
    mean = phi.mean(axis=0) if symmetry.order is not None else phi[1:].mean(axis=0)
    before, _ = task_error(phi[0], orbits, y, task.outputs)
    after, _ = task_error(mean, orbits, y, task.outputs)
    if task.complete and isinstance(symmetry, Finite) and task.contract.exact:
        left, note = 0.0, "exact: every element is averaged over, and the action is exact"
    elif (isinstance(symmetry, Finite) and not task.complete) or isinstance(symmetry, SO3 | O3 | Permutations):
        # a mean over E independent elements keeps 1/√E of the deviations, two such means differ by √2 of that
        E = len(phi) - 1
        left = float(np.mean(ratio(norms(phi[1:].std(axis=0)), norms(mean)))) * math.sqrt(2 / max(E - 1, 1))
        note = f"what is left of the violation after averaging over {E} random elements"
    else:
        left = _left_after_averaging(task, orbits.actions)
        note = "measured on some inputs, turned once more; what is left is interpolation, or too few angles"
    times = len(task.elements) + (symmetry.order is not None)
    return Remedy(
        "averaging over the group at test time", True, error, left, before, after, f"{times} evaluations an input", note
    )


def _left_after_averaging(task: Task, actions: list[LeafAction | None]) -> float:
    """The error of the averaged model itself, f̄(ρ(h)x) against f̄(x), for two elements h."""
    symmetry = task.contract.symmetry
    x = task.x.subset(task.rows(_ROWS))
    start = _average(task, x, actions)
    errors = []
    for h in task.elements[:: max(1, len(task.elements) // 2)][:2]:
        moved = _average(task, x.replaced(task.contract.move(h, x.leaves)), actions)
        errors.append(relative(pulled_back(actions, symmetry.inverse(h), moved), start))
    return float(np.mean(errors))


def _average(task: Task, x: Inputs, actions: list[LeafAction | None]) -> list[np.ndarray]:
    """f̄(x), the mean of ρ(g)⁻¹f(ρ(g)x) over the elements, and the identity of a finite group."""
    symmetry = task.contract.symmetry
    elements = [*([symmetry.identity] if symmetry.order is not None else []), *task.elements]
    total: list[np.ndarray] | None = None
    for g in elements:
        y = task.evaluate(x.replaced(task.contract.move(g, x.leaves)))
        back = pulled_back(actions, symmetry.inverse(g), y.leaves)
        total = back if total is None else [a + b for a, b in zip(total, back, strict=True)]
    return [a / len(elements) for a in total or []]


def _members(ensemble: EnsembleSection | None) -> Remedy:
    if ensemble is None:
        note = "not known: the model is no ensemble, so that the spread between members cannot be measured"
        return Remedy("more ensemble members", False, None, None, None, None, "one training a member", note)
    limit = ensemble.limit.mean
    if limit >= _TARGET:
        note = f"no number of members brings the error below {limit:.2g}: train the members on augmented data"
    else:
        count = math.ceil(ensemble.finite**2 / (_TARGET**2 - limit**2))
        note = f"{max(count, 1)} members bring the error to {_TARGET:.0%}, by the fitted law"
    return Remedy(
        "more ensemble members", False, ensemble.mean_error.mean, limit, None, None, "one training a member", note
    )


def _augmentation(task: Task, orbits: Orbits, y: np.ndarray | None, train: Any, error: float) -> Remedy:
    """Refit a copy of an estimator on moved training data, and measure it on the sample."""
    name, cost = "training with augmentation", "one training"
    estimator = getattr(task.model, "estimator", None)
    if estimator is None or train is None:
        why = "the model cannot be refitted here" if estimator is None else "no training data were given (train=(x, y))"
        return Remedy(name, False, error, None, None, None, cost, f"not measured: {why}")
    from sklearn.base import clone

    from equitangents.audit.adapters.estimators import EstimatorModel

    x_train, y_train = as_inputs(train[0]), np.asarray(train[1])
    if any(a is not None for a in orbits.actions):
        return Remedy(name, False, error, None, None, None, cost, "not measured: labels would move with the inputs")
    copies = [x_train.leaves[0], *(task.contract.move(g, x_train.leaves)[0] for g in task.elements)]
    flat = np.concatenate(copies).reshape(len(copies) * x_train.n, -1)
    refitted = clone(estimator).fit(flat, np.concatenate([y_train] * len(copies)))
    model = EstimatorModel(refitted, task.model.method)  # type: ignore[attr-defined]
    rows = orbits.kept
    x = task.x.subset(rows)
    after = task.evaluate(x, model)
    errors = []
    for g in task.elements:
        moved = task.evaluate(x.replaced(task.contract.move(g, x.leaves)), model)
        errors.append(ratio(norms(moved.leaves[0] - after.leaves[0]), norms(after.leaves[0])))
    before_task, _ = task_error(orbits.signals[0], orbits, y, task.outputs)
    flat_after = after.leaves[0].reshape(len(rows), -1)
    after_task, _ = task_error(flat_after, orbits, y, task.outputs)
    note = f"measured: a copy was fitted to {len(copies)} moved copies of the training data"
    return Remedy(name, True, error, float(np.mean(errors)), before_task, after_task, cost, note)
