"""What would mend a violation: averaging over the group at test time, more members, training with augmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equitangents.audit.contract.leaf_actions import Actions, apart, size
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.measure.averaging import canonical_scores
from equitangents.audit.measure.ensembles import more_members
from equitangents.audit.measure.floors import Floors
from equitangents.audit.measure.judge import Judgement
from equitangents.audit.measure.orbits import Orbits, measure_orbits
from equitangents.audit.measure.predictions import task_error
from equitangents.audit.measure.scales import make_scales
from equitangents.audit.measure.task import Task
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.part_sections import EnsembleSection, Remedy
from equitangents.audit.report.words import BETTER, UNPRICED, WORSE
from equitangents.metrics.measure import norms, ratio

_ROWS = 16
_PRICED = 256  # inputs, on which the task's error in canonical position is measured


def remedies(
    task: Task,
    orbits: Orbits,
    y: np.ndarray | None,
    ensemble: EnsembleSection | None,
    train: Any,
    judgement: Judgement,
    floors: Floors,
) -> list[Remedy]:
    """Every remedy with what it brings and what it costs the task, measured on the sample where that is possible.

    Those that make the model worse at its task come last.
    """
    found = [
        _averaging(task, orbits, y, judgement, floors.deterministic),
        more_members(ensemble, judgement.headline.unit),
        _augmentation(task, orbits, y, train, judgement),
        *_canonicalising(task, orbits, y, judgement, floors.deterministic),
    ]
    told = [m if y is None or m.task_after is not None else replace(m, note=f"{m.note}; {UNPRICED}") for m in found]
    return sorted(told, key=lambda m: m.note.startswith(WORSE))


def _averaging(task: Task, orbits: Orbits, y: np.ndarray | None, judgement: Judgement, deterministic: bool) -> Remedy:
    """f̄(x) = mean over g of ρ(g)⁻¹f(ρ(g)x), which is equivariant by itself only if f answers the same each time."""
    phi = orbits.signals
    group, listed = task.contract.group, task.contract.is_complete
    mean = phi.mean(axis=0) if listed else phi[1:].mean(axis=0)
    price = _price(task, orbits, y, mean)
    left: float | None
    if deterministic and task.complete and task.contract.exact and not orbits.no_mean:
        left, judged, note = 0.0, Estimate(0.0, 0.0, 0.0), "every element is averaged over, and the action is exact"
    elif orbits.no_mean:
        what = "class numbers" if orbits.class_numbers.any() else "masks of classes and sets in any order"
        left, judged, note = None, None, f"{what} cannot be averaged; return the scores of the classes"
    elif not task.complete and group.draws_are_independent:
        # a mean over E independent elements keeps 1/√E of the deviations, two such means differ by √2 of that
        E = len(phi) - 1
        share = math.sqrt(2 / max(E - 1, 1))
        left = float(np.mean(ratio(norms(phi[1:].std(axis=0)), norms(mean)))) * share
        spread = np.array([norms(part.std(axis=0)) for part in _by_output(phi[1:], orbits)]) * share
        judged = _estimate(task, judgement, spread, orbits.kept)
        note = f"what is left of the violation after averaging over {E} random elements"
    else:
        left, judged = _left_after_averaging(task, orbits, judgement)
        why = "interpolation, or too few angles" if deterministic else "the model's own randomness"
        note = f"on some inputs, turned once more; what is left is {why}"
    times = len(task.elements) + listed
    return Remedy(
        name="averaging over the group at test time",
        measured=left is not None,
        error_before=judgement.by_norm.estimate.mean,
        error_after=left,
        **price.fields,
        cost=f"{times} evaluations an input",
        note=price.said + note,
        quantity="mean error",
        before=judgement.headline.error.estimate,
        after=judged,
    )


def _canonicalising(
    task: Task, orbits: Orbits, y: np.ndarray | None, judgement: Judgement, deterministic: bool
) -> list[Remedy]:
    """ρ(g)⁻¹f(ρ(g)x) for the g that moves x to a canonical position: exact where neither data nor f are random."""
    if not (task.contract.is_complete and task.contract.exact and deterministic):
        return []
    price = _price(task, orbits, None, orbits.signals[0])
    if y is not None and task.complete:
        part, predicted = _canonical(task, orbits)
        price = _price(task, part, y, predicted)
    return [
        Remedy(
            name="canonical inputs",
            measured=False,
            error_before=judgement.by_norm.estimate.mean,
            error_after=0.0,
            **price.fields,
            cost="1 evaluation an input",
            note=f"{price.said}every element moves an input to the same position, and the action is exact; an input "
            "that is symmetric itself has several such positions",
            quantity="mean error",
            before=judgement.headline.error.estimate,
            after=Estimate(0.0, 0.0, 0.0),
        )
    ]


def _canonical(task: Task, orbits: Orbits) -> tuple[Orbits, np.ndarray]:
    """(a part of the orbits, the predictions there for inputs in canonical position), of a group that is listed."""
    chosen = np.unique(np.linspace(0, len(orbits.kept) - 1, _PRICED).astype(int))
    part = replace(orbits, kept=orbits.kept[chosen], signals=orbits.signals[:, chosen])
    x = task.x.subset(part.kept)
    orbit = task.contract.orbit([task.contract.group.identity, *task.elements], x.leaves)
    best = np.array([canonical_scores(task.contract, leaves) for leaves in orbit]).argmax(axis=0)
    return part, part.signals[best, np.arange(len(best))]


@dataclass(frozen=True)
class Price:
    """The task's error without and with a remedy, for inputs as they are given and for all orientations alike."""

    name: str | None
    before: float | None
    after: float | None
    mixed_before: float | None
    mixed_after: float | None

    @property
    def fields(self) -> dict[str, Any]:
        """As a remedy has them."""
        return {
            "task_before": self.before,
            "task_after": self.after,
            "mixed_before": self.mixed_before,
            "mixed_after": self.mixed_after,
        }

    @property
    def said(self) -> str:
        """Better or worse, before anything else is said; "" where the task is not known."""
        if self.name is None or self.before is None or self.after is None:
            return ""
        first = f"{_judged(self.before, self.after)}: the {self.name} {_change(self.before, self.after)}"
        if self.mixed_before is None or self.mixed_after is None:
            return f"{first}; "
        return f"{first}, in mixed orientations it {_change(self.mixed_before, self.mixed_after)}; "


def _price(task: Task, orbits: Orbits, y: np.ndarray | None, predicted: np.ndarray) -> Price:
    """What an invariant model's predictions (K, D) for the kept rows mean for the task: in other orientations they are
    the same.
    """
    errors = [task_error(signal, orbits, y, task.outputs) for signal in orbits.signals]
    before, name = errors[0]
    after, _ = task_error(predicted, orbits, y, task.outputs)
    return Price(name, before, after, mixed([e for e, _ in errors], name), after)


def mixed(errors: list[float | None], name: str | None) -> float | None:
    """The task's error over several sets of inputs together."""
    known = np.array([e for e in errors if e is not None])
    if not len(known):
        return None
    return float(known.mean()) if name == "error rate" else float(np.sqrt((known**2).mean()))


def _judged(before: float, after: float) -> str:
    return WORSE if _rises(before, after) else BETTER if _rises(after, before) else "leaves the task as it is"


def _change(before: float, after: float) -> str:
    if not (_rises(before, after) or _rises(after, before)):
        return f"stays at {before:.3g}"
    return f"{'rises' if _rises(before, after) else 'falls'} from {before:.3g} to {after:.3g}"


def _rises(before: float, after: float) -> bool:
    return after > before * (1 + 1e-9)


def _by_output(signals: np.ndarray, orbits: Orbits) -> list[np.ndarray]:
    """Signals (…, K, D) of every output alone."""
    ends = np.cumsum([math.prod(shape) for shape in orbits.output_shapes])
    return np.split(signals, ends[:-1], axis=-1)


def _estimate(task: Task, judgement: Judgement, table: np.ndarray, rows: np.ndarray) -> Estimate:
    """The mean over inputs of norms (outputs, n) in the headline's unit, the largest over the outputs."""
    scales = judgement.scales
    errors = scales.relative(judgement.headline.unit, table, rows)[scales.judged].max(axis=0)
    return task.over_inputs(len(rows)).mean(errors)


def _left_after_averaging(task: Task, orbits: Orbits, judgement: Judgement) -> tuple[float, Estimate]:
    """The error of the averaged model itself, f̄(ρ(h)x) against f̄(x), for two elements h."""
    group = task.contract.group
    rows = task.rows(_ROWS)
    x = task.x.subset(rows)
    start = _average(task, x, orbits.actions)
    errors, tables = [], []
    for h in task.elements[:: max(1, len(task.elements) // 2)][:2]:
        moved = _average(task, x.replaced(task.contract.move(h, x.leaves)), orbits.actions)
        back = orbits.actions.act(group.inverse(h), moved)
        tables.append([norms(a - b) for a, b in zip(back, start, strict=True)])
        errors.append(np.max([ratio(apart(a, b), size(b)) for a, b in zip(back, start, strict=True)], axis=0))
    return float(np.mean(errors)), _estimate(task, judgement, np.mean(tables, axis=0), rows)


def _average(task: Task, x: Inputs, actions: Actions) -> list[np.ndarray]:
    """f̄(x), the mean of ρ(g)⁻¹f(ρ(g)x) over the elements, and the identity of a finite group."""
    group = task.contract.group
    elements = [*([group.identity] if task.contract.is_complete else []), *task.elements]
    total: list[np.ndarray] | None = None
    for g in elements:
        y = task.evaluate(x.replaced(task.contract.move(g, x.leaves)))
        back = actions.act(group.inverse(g), y.leaves)
        total = back if total is None else [a + b for a, b in zip(total, back, strict=True)]
    return [a / len(elements) for a in total or []]


def _augmentation(task: Task, orbits: Orbits, y: np.ndarray | None, train: Any, judgement: Judgement) -> Remedy:
    """Refit a copy of an estimator on moved training data, and measure it on the sample."""
    now = judgement.by_norm.estimate.mean
    known = Remedy(
        name="training with augmentation",
        measured=False,
        error_before=now,
        error_after=None,
        task_before=None,
        task_after=None,
        cost="one training",
        note="",
        quantity="mean error",
        before=judgement.headline.error.estimate,
    )
    estimator = getattr(task.model, "estimator", None)
    if estimator is None or train is None:
        why = "the model cannot be refitted here" if estimator is None else "no training data were given (train=(x, y))"
        return replace(known, note=why)
    if any(a is not None for a in orbits.actions):
        return replace(known, note="labels would move with the inputs")
    from sklearn.base import clone

    from equitangents.audit.adapters.estimators import EstimatorModel

    x_train, y_train = as_inputs(train[0]), np.asarray(train[1])
    copies = [x_train.leaves[0], *(task.contract.move(g, x_train.leaves)[0] for g in task.elements)]
    flat = np.concatenate(copies).reshape(len(copies) * x_train.n, -1)
    refitted = clone(estimator).fit(flat, np.concatenate([y_train] * len(copies)))
    model = EstimatorModel(refitted, task.model.method)  # type: ignore[attr-defined]
    elsewhere = replace(task, model=model)
    again = measure_orbits(elsewhere, task.x.subset(orbits.kept))
    scales = make_scales(again, None, task.judging)
    unit = judgement.headline.unit
    errors = scales.relative(unit, again.separate).max(axis=0)
    labels = None if y is None else y[orbits.kept]
    here = [task_error(signal, orbits, y, task.outputs) for signal in orbits.signals]
    there = [task_error(signal, again, labels, task.outputs) for signal in again.signals]
    over_all = lambda found: mixed([e for e, _ in found], here[0][1])
    price = Price(here[0][1], here[0][0], there[0][0], over_all(here), over_all(there))
    return replace(
        known,
        measured=True,
        error_after=float(again.errors.mean()),
        after=task.resampler(len(orbits.kept)).mean(errors),
        **price.fields,
        note=f"{price.said}a copy was fitted to {len(copies)} moved copies of the training data",
    )
