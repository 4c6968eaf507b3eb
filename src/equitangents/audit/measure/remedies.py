"""What would mend a violation: averaging over the group at test time, more members, training with augmentation.

None is offered that treats outputs as invariant which move by another rule, or after which all outputs are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equitangents.audit.contract.leaf_actions import Actions, apart, size
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.measure.averaging import canonical_scores
from equitangents.audit.measure.ensembles import more_members
from equitangents.audit.measure.measured import Measured
from equitangents.audit.measure.orbits import Orbits, measure_orbits
from equitangents.audit.measure.predictions import task_error
from equitangents.audit.measure.scales import make_scales
from equitangents.audit.measure.task import Task
from equitangents.audit.report.numbers import FACTOR, Estimate
from equitangents.audit.report.part_sections import AUGMENTATION, REMEDIES, EnsembleSection, Missing, Remedy
from equitangents.audit.report.sections import RuleResult
from equitangents.audit.report.words import BETTER, UNPRICED, WORSE
from equitangents.metrics.measure import norms, ratio

_ROWS = 16
_PRICED = 256  # inputs, on which the task's error in canonical position is measured
NOTHING_LEFT = Estimate(0.0, 0.0, 0.0)


def remedies(
    m: Measured, ensemble: tuple[EnsembleSection, float] | None, rules: list[RuleResult]
) -> list[Remedy | Missing]:
    """Every remedy with what it brings and what it costs the task, measured on the sample where that is possible.

    Those that make the model worse at its task come last; first why some are not offered. `rules`: by which outputs
    move, other than was given.
    """
    members = None if ensemble is None else ensemble[0]
    other = [f"{r.output} moves by another rule ({r.rule}), which it would take away" for r in rules if r.found]
    by_rule = {name: other[0] for name in (*REMEDIES.values(), AUGMENTATION) if other}
    tried: dict[str, Callable[[], list[Remedy | Missing]]] = {
        REMEDIES["average"]: lambda: [_averaging(m)],
        AUGMENTATION: lambda: [_augmentation(m)],
        REMEDIES["canonicalise"]: lambda: _canonicalising(m),
    }
    refused = [Missing(name, why) for name, why in by_rule.items()]
    made = [r for name, make in tried.items() if name not in by_rule for r in make()]
    found = [more_members(members, m.judgement.headline.unit), *(r for r in made if isinstance(r, Remedy))]
    refused += [r for r in made if isinstance(r, Missing)]
    said = lambda r: r if m.y is None or r.task_after is not None else replace(r, note=f"{r.note}; {UNPRICED}")
    order = [REMEDIES["average"], found[0].name, AUGMENTATION, REMEDIES["canonicalise"]]
    return [*refused, *sorted(map(said, found), key=lambda r: (r.note.startswith(WORSE), order.index(r.name)))]


def _averaging(m: Measured) -> Remedy | Missing:
    """f̄(x) = mean over g of ρ(g)⁻¹f(ρ(g)x), which is equivariant by itself only if f answers the same each time."""
    task, orbits, deterministic, phi = m.task, m.orbits, m.floors.deterministic, m.orbits.signals
    group, listed = task.contract.group, task.contract.is_complete
    mean = phi.mean(axis=0) if listed else phi[1:].mean(axis=0)
    if not orbits.no_mean:
        lost = _lost(m, orbits, mean, lambda: _flat(_average(task, task.x, orbits.actions)))
        if lost:
            return Missing(REMEDIES["average"], lost)
    left: float | None
    if deterministic and task.complete and task.contract.exact and not orbits.no_mean:
        left, judged, note = 0.0, NOTHING_LEFT, "every element is averaged over, and the action is exact"
    elif orbits.no_mean:
        left, judged, note = None, None, f"{orbits.no_mean} cannot be averaged; return the scores of the classes"
    elif not task.complete and group.draws_are_independent:
        # a mean over E independent elements keeps 1/√E of the deviations, two such means differ by √2 of that
        E = len(phi) - 1
        share = math.sqrt(2 / max(E - 1, 1))
        left = float(np.mean(ratio(norms(phi[1:].std(axis=0)), norms(mean)))) * share
        spread = np.array([norms(part.std(axis=0)) for part in _by_output(phi[1:], orbits)]) * share
        judged = _estimate(m, spread, orbits.kept)
        note = f"what is left of the violation after averaging over {E} random elements"
    else:
        left, judged = _left_after_averaging(m)
        why = "interpolation, or too few angles" if deterministic else "the model's own randomness"
        note = f"on some inputs, turned once more; what is left is {why}"
    return _remedy(
        m,
        _price(orbits, m.y, mean),
        note,
        name=REMEDIES["average"],
        measured=left is not None,
        error_after=left,
        cost=f"{len(task.elements) + listed} evaluations an input",
        after=judged,
    )


def _lost(m: Measured, orbits: Orbits, predicted: np.ndarray, whole: Callable[[], np.ndarray]) -> str:
    """Which output differs between inputs and, as predicted (K, D) for the kept rows, no longer; "" if none.

    "The same" is up to twice the floor, and twice what means over random elements differ by chance. Outputs that are
    the same for these rows are evaluated for all inputs (`whole`) before that is said.
    """
    part, own = m.floors.absolute, orbits.signals[0]
    hides = FACTOR * np.sqrt(np.mean((part.always + part.resampled.max(axis=1)) ** 2, axis=1))
    if not m.task.contract.is_complete:  # a mean over random elements differs by chance
        drawn = [norms(p.std(axis=0, ddof=1)) for p in _by_output(orbits.signals[1:], orbits)]
        hides += FACTOR * np.sqrt(np.mean(np.square(drawn), axis=1) / (len(orbits.signals) - 1))
    apart_by = lambda a: np.array([math.sqrt(np.mean(norms(p - p.mean(axis=0)) ** 2)) for p in _by_output(a, orbits)])
    classes = lambda a: np.unique(a[:, : math.prod(orbits.output_shapes[0])].argmax(axis=1)).size

    def same(a: np.ndarray) -> list[str]:
        names = [orbits.output_names[o] for o in np.flatnonzero((apart_by(own) > hides) & (apart_by(a) <= hides))]
        told = orbits.scores is not None and classes(own) > 1 and classes(a) == 1
        return [*(f"{name} differs between inputs" for name in names), *(["predicted classes differ"] if told else [])]

    found = same(predicted)
    if found and len(predicted) < m.task.x.n:
        found = same(whole())
    return f"{found[0]}, and would be the same for all of them" if found else ""


def _flat(leaves: list[np.ndarray]) -> np.ndarray:
    """Outputs (N, D), side by side."""
    return np.concatenate([np.asarray(a).reshape(len(a), -1) for a in leaves], axis=1)


def _canonicalising(m: Measured) -> list[Remedy | Missing]:
    """ρ(g)⁻¹f(ρ(g)x) for the g that moves x to a canonical position: exact where neither data nor f are random."""
    contract = m.task.contract
    if not (contract.is_complete and contract.exact and m.floors.deterministic):
        return []
    if m.task.complete and not m.orbits.class_numbers.any():
        part, _, predicted = _canonical(m, _ROWS)
        lost = _lost(m, part, predicted, lambda: _canonical_outputs(m))
        if lost:
            return [Missing(REMEDIES["canonicalise"], lost)]
    return [
        _remedy(
            m,
            _price(*_canonical(m, _PRICED)) if m.y is not None and m.task.complete else Price(),
            "every element moves an input to the same position, and the action is exact; an input that is symmetric "
            "itself has several such positions",
            name=REMEDIES["canonicalise"],
            measured=False,
            error_after=0.0,
            cost="1 evaluation an input",
            after=NOTHING_LEFT,
        )
    ]


def _canonical_outputs(m: Measured) -> np.ndarray:
    """The outputs (N, D) for all inputs, each in its canonical position."""
    task, group, best = m.task, m.task.contract.group, _best(m.task, m.task.x)
    found: np.ndarray | None = None
    for k, g in enumerate([group.identity, *task.elements]):
        rows = np.flatnonzero(best == k)
        if len(rows):
            x = task.x.subset(rows)
            y = task.evaluate(x.replaced(task.contract.move(g, x.leaves)))
            back = _flat(m.orbits.actions.act(group.inverse(g), y.leaves))
            found = np.empty((task.x.n, back.shape[1])) if found is None else found
            found[rows] = back
    assert found is not None
    return found


def _best(task: Task, x: Inputs) -> np.ndarray:
    """Which element moves each input to its canonical position; 0 is the identity."""
    orbit = task.contract.orbit([task.contract.group.identity, *task.elements], x.leaves)
    return np.array([canonical_scores(task.contract, leaves) for leaves in orbit]).argmax(axis=0)


def _canonical(m: Measured, most: int) -> tuple[Orbits, np.ndarray | None, np.ndarray]:
    """(a part of the orbits, labels, the predictions there for inputs in canonical position), of a listed group."""
    task, orbits = m.task, m.orbits
    chosen = np.unique(np.linspace(0, len(orbits.kept) - 1, most).astype(int))
    part = replace(orbits, kept=orbits.kept[chosen], signals=orbits.signals[:, chosen])
    best = _best(task, task.x.subset(part.kept))
    return part, m.y, part.signals[best, np.arange(len(best))]


@dataclass(frozen=True)
class Price:
    """The task's error without and with a remedy, for inputs as they are given and for all orientations alike."""

    name: str | None = None
    before: float | None = None
    after: float | None = None
    mixed_before: float | None = None
    mixed_after: float | None = None

    @property
    def said(self) -> str:
        """Better or worse, before anything else is said; "" where the task is not known."""
        if self.name is None or self.before is None or self.after is None:
            return ""
        first = f"{_judged(self.before, self.after)}: the {self.name} {_change(self.before, self.after)}"
        if self.mixed_before is None or self.mixed_after is None:
            return f"{first}; "
        return f"{first}, in mixed orientations it {_change(self.mixed_before, self.mixed_after)}; "


def _remedy(m: Measured, price: Price, note: str, **told: Any) -> Remedy:
    """A remedy that is told by the mean error, which before it is that of the audit."""
    return Remedy(
        error_before=m.judgement.by_norm.estimate.mean,
        task_before=price.before,
        task_after=price.after,
        mixed_before=price.mixed_before,
        mixed_after=price.mixed_after,
        note=price.said + note,
        quantity="mean error",
        before=m.judgement.headline.error.estimate,
        **told,
    )


def _price(orbits: Orbits, y: np.ndarray | None, predicted: np.ndarray) -> Price:
    """What an invariant model's predictions (K, D) for the kept rows mean for the task: in other orientations they are
    the same.
    """
    (before, name), mean = _task_errors(orbits, y)
    after, _ = task_error(predicted, orbits, y)
    return Price(name, before, after, mean, after)


def _task_errors(orbits: Orbits, y: np.ndarray | None) -> tuple[tuple[float | None, str | None], float | None]:
    """((the task's error for inputs as they are given, its name), its error for all orientations together)."""
    errors = [task_error(signal, orbits, y) for signal in orbits.signals]
    return errors[0], mixed([e for e, _ in errors], errors[0][1])


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


def _estimate(m: Measured, table: np.ndarray, rows: np.ndarray) -> Estimate:
    """The mean over inputs of norms (outputs, n) in the headline's unit, the largest over the outputs."""
    errors = m.judgement.scales.largest(m.judgement.headline.unit, table, rows)
    return m.task.over_inputs(len(rows)).mean(errors)


def _left_after_averaging(m: Measured) -> tuple[float, Estimate]:
    """The error of the averaged model itself, f̄(ρ(h)x) against f̄(x), for two elements h."""
    task, actions = m.task, m.orbits.actions
    rows = task.rows(_ROWS)
    x = task.x.subset(rows)
    start = _average(task, x, actions)
    errors, tables = [], []
    for h in task.elements[:: max(1, len(task.elements) // 2)][:2]:
        moved = _average(task, x.replaced(task.contract.move(h, x.leaves)), actions)
        back = actions.act(task.contract.group.inverse(h), moved)
        tables.append([norms(a - b) for a, b in zip(back, start, strict=True)])
        errors.append(np.max([ratio(apart(a, b), size(b)) for a, b in zip(back, start, strict=True)], axis=0))
    return float(np.mean(errors)), _estimate(m, np.mean(tables, axis=0), rows)


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


def _augmentation(m: Measured) -> Remedy:
    """Refit a copy of an estimator on moved training data, and measure it on the sample."""
    task, orbits, train = m.task, m.orbits, m.parts.train
    estimator = getattr(task.model, "estimator", None)
    known = partial(_remedy, m, name=AUGMENTATION, cost="one training")
    if estimator is None or train is None:
        why = "the model cannot be refitted here" if estimator is None else "no training data were given (train=(x, y))"
        return known(Price(), why, measured=False, error_after=None)
    if any(a is not None for a in orbits.actions):
        return known(Price(), "labels would move with the inputs", measured=False, error_after=None)
    from sklearn.base import clone

    from equitangents.audit.adapters.estimators import EstimatorModel

    x_train, y_train = as_inputs(train[0]), np.asarray(train[1])
    copies = [x_train.leaves[0], *(task.contract.move(g, x_train.leaves)[0] for g in task.elements)]
    flat = np.concatenate(copies).reshape(len(copies) * x_train.n, -1)
    refitted = clone(estimator).fit(flat, np.concatenate([y_train] * len(copies)))
    model = EstimatorModel(refitted, task.model.method)  # type: ignore[attr-defined]
    again = measure_orbits(replace(task, model=model), task.x.subset(orbits.kept))
    errors = make_scales(again, None, task.judging).largest(m.judgement.headline.unit, again.separate)
    (before, name), mixed_before = _task_errors(orbits, m.y)
    (after, _), mixed_after = _task_errors(again, None if m.y is None else m.y[orbits.kept])
    return known(
        Price(name, before, after, mixed_before, mixed_after),
        f"a copy was fitted to {len(copies)} moved copies of the training data",
        measured=True,
        error_after=float(again.errors.mean()),
        after=task.resampler(len(orbits.kept)).mean(errors),
    )
