"""One input suffices: ‖f(ρ(g)x) − ρ(g)f(x)‖ of a single x above its own floor shows that f is not equivariant.

Where single errors stand far above the floors of all inputs, though means do not, the largest are looked at by
themselves: the model is asked again, a few times, and rounding and interpolation are measured for that very input and
its moved copy. An error that does not come back was noise of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from equitangents.audit.adapters.model import Answer
from equitangents.audit.contract.leaf_actions import Actions, apart
from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.floors import PERTURBATION, jitter, resampling, rounding_of
from equitangents.audit.measure.judge import SINGLE, Measured
from equitangents.audit.measure.task import AuditTask, batches, eps
from equitangents.audit.report.sections import Counterexample
from equitangents.metrics.measure import ratio

_TRIED = 3
_TIMES = 3  # the model is asked again
_CHANCE = 1000.0  # roundings by which answers may differ without being called random


@dataclass(frozen=True)
class Again:
    """What asking again for one pair of input and element showed."""

    error: float
    """The smallest of the errors, in the headline's unit."""
    floor: float
    noise: float
    """By how much answers differed, relative to ‖f(x)‖; 0 up to rounding."""


def confirmed(m: Measured) -> Measured:
    """With a counterexample, if no mean fails and one is found; with floors that hold the noise that was seen."""
    task, orbits, judgement = m.task, m.orbits, m.judgement
    if judgement.above.any() or not judgement.far.any() or judgement.scales.nothing:
        return m
    errors = judgement.scales.relative(judgement.headline.unit, orbits.separate)
    order = np.argsort(np.where(judgement.far, -errors, np.inf), axis=None)
    places = np.array(np.unravel_index(order[: int(judgement.far.sum())], errors.shape)).T
    _, first = np.unique(places[:, 2], return_index=True)  # of every input its largest error
    tolerance = judgement.headline.tolerance
    for o, k, i in places[np.sort(first)[:_TRIED]]:
        again = _again(m, int(o), int(k), int(i))
        if again.noise:
            noise = max(m.floors.noise, again.noise)
            m = replace(m, floors=replace(m.floors, deterministic=False, noise=noise))
        if again.error > max(SINGLE * again.floor, tolerance or 0.0):
            found = Counterexample(
                output=orbits.output_names[o],
                label=task.contract.label(task.elements[k]),
                index=task.row(i),
                error=float(errors[o, k, i]),
                floor=again.floor,
                inputs=int(judgement.far.any(axis=(0, 1)).sum()),
            )
            above = judgement.above.copy()
            if tolerance is None:  # which is for means, so that one input does not decide
                above[o] |= judgement.far[o, :, i]
            return replace(m, judgement=replace(judgement, counterexample=found, above=above))
    return m


def _again(m: Measured, o: int, k: int, i: int) -> Again:
    """One error measured again, with the floor of that input under that element."""
    task, orbits, judgement = m.task, m.orbits, m.judgement
    rows = np.array([i]) if m.floors.batch_independent else batches(task.x.n, task.step)[i // task.step]
    at, g = int(np.flatnonzero(rows == i)[0]), task.elements[k]
    given, actions, action = task.x.subset(rows), orbits.actions, orbits.actions[o]
    x = task.contract.start(given)
    moved = x.replaced(task.contract.move(g, given.leaves))
    still, turned = ([task.evaluate(part) for _ in range(_TIMES)] for part in (x, moved))
    expected = [y.leaves[o] if action is None else action.act(g, y.leaves[o]) for y in still]
    by = actions.comparisons[o]
    off = np.array([apart(z.leaves[o], e, by)[at] for z, e in zip(turned, expected, strict=True)])
    parts = [[apart(y.leaves[o], ys[0].leaves[o], by)[at] for y in ys] for ys in (still, turned)]
    of_x = orbits.separate_sizes[o, i]
    differ = max(np.max(parts), np.max(np.abs(off - orbits.separate[o, k, i])))
    noise = float(ratio(np.array([differ]), np.array([of_x]))[0])
    rounding = [_rounding(task, part, ys[0], actions)[o, at] for part, ys in ((x, still), (moved, turned))]
    floor = 2 * float(np.max(rounding)) + float(np.max(parts))
    if not task.contract.not_a_group:
        both = resampling(replace(task, elements=[g]), x, still[0], actions)
        floor += float(np.max([np.nan_to_num(part[o, 0, at]) for part in both]))
    unit = judgement.headline.unit
    table = np.zeros((len(orbits.separate), 2, 1))
    table[o, :, 0] = off.min(), floor
    error, own = judgement.scales.relative(unit, table, np.array([i]))[o, :, 0]
    random = noise > _CHANCE * eps(orbits.dtype)
    return Again(float(error), float(max(own, judgement.output_element_floors[o, k])), noise if random else 0.0)


def _rounding(task: AuditTask, x: Inputs, y: Answer, actions: Actions) -> np.ndarray:
    """What rounding may do to the outputs for x: (outputs, n)."""
    sizes = actions.sizes(y.leaves)
    method, _, rounding = rounding_of(task, x, y, sizes, True, actions)
    if method != "perturbation":
        return rounding
    return PERTURBATION * (jitter(task, x, actions) + eps(y.dtype) * sizes)
