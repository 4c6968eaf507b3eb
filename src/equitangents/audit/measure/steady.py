"""What of a violation d(x) = f(ρ_X(g)x) − ρ_Y(g)f(x) is no rounding: the part that stays.

In double precision, where the model can be cast: there d is the violation itself. Else on copies x′ of the inputs, each
number changed by a share of 1/64: rounding differs from copy to copy, of any type inside, and a violation does not, so
that the mean of ⟨d(x′), d(x″)⟩ over pairs of copies is the square of what stays, without bias from rounding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.floors import ROUNDING, UNINFORMATIVE, Floors, in_double, twin_of, widened
from equitangents.audit.measure.judge import Judgement, Settled, judge, unexact
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import AuditTask, eps
from equitangents.audit.report.numbers import FACTOR, Estimate, Unit
from equitangents.audit.report.sections import FloatFloor
from equitangents.metrics.measure import ratio

_SHARE = 2.0**-6
_ELEMENTS = 8  # those whose errors are the most floors
_TOGETHER, _LEAST, _MOST = 512, 4, 16  # copies: so many together, and at least and at most of each input


def is_open(task: AuditTask, orbits: Orbits, floors: Floors, judgement: Judgement) -> bool:
    """Whether rounding hides the answer, or may be what small errors are though its type is not known."""
    plain = not (orbits.class_numbers.any() or orbits.actions.compared or judgement.scales.nothing)
    if not (floors.deterministic and plain and task.tolerances.tolerance is None and orbits.undefined.sum() == 0):
        return False
    small = judgement.headline.error.estimate.mean <= UNINFORMATIVE
    unsure = floors.rounding.method != "float64" and judgement.above.any() and small
    return unsure or unexact(judgement) in ("rounding", "spread")


def settled(task: AuditTask, orbits: Orbits, floors: Floors, judgement: Judgement) -> tuple[Floors, Judgement]:
    """Both with what stays under the elements of the largest errors; as they are where nothing could be moved."""
    rows = floors.absolute.rows
    x = task.x.subset(rows)
    if not any(a.dtype.kind == "f" for a in x.batches):
        return floors, judgement
    run = twin_of(task, x, orbits.actions, orbits.dtype)
    if run is not None and orbits.dtype == np.float64:  # whose rounding is known
        return floors, judgement
    if run is not None:
        rows = rows[: in_double(task, x)]
        copies = [widened(task.x.subset(rows))]
    else:
        K = int(np.clip(math.ceil(_TOGETHER / len(rows)), _LEAST, _MOST))
        rng = np.random.default_rng(task.seed)
        copies = [_copy(x, rng) for _ in range(K)]
    errors = judgement.scales.relative(judgement.headline.unit, orbits.separate).mean(axis=2)
    excess = (errors / np.maximum(judgement.output_element_floors, 1e-300)).max(axis=0)
    tried = np.sort(np.argsort(-excess)[:_ELEMENTS])
    stays, changes = _squares(task, orbits, copies, tried, run)
    if not (np.isfinite(stays).all() and np.isfinite(changes).all()):
        return floors, judgement
    if run is None:
        rounding = np.repeat(_root(changes.mean(axis=(1, 2)))[:, None], len(rows), axis=1) / 2
        rounding = np.maximum(rounding, eps(orbits.dtype) / 4 * orbits.separate_sizes[:, rows])  # of the answer itself
        known = FloatFloor(float(np.max(ratio(rounding, orbits.separate_sizes[:, rows]).mean(axis=1))), "copies")
        floors = replace(floors, absolute=replace(floors.absolute, rounding=rounding), rounding=known)
        judgement = judge(task, orbits, floors)
    if judgement.scales.nothing:
        return floors, judgement
    return floors, _judged(task, orbits, floors, judgement, (tried, rows, stays, changes))


def _judged(
    task: AuditTask,
    orbits: Orbits,
    floors: Floors,
    judgement: Judgement,
    found: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> Judgement:
    """The judgement by what stays: above rounding, no more than it, or open."""
    tried, rows, stays, changes = found
    scales, part = judgement.scales, floors.absolute
    unit: Unit = "spread" if np.isfinite(scales.spreads[scales.judged]).all() else "norm"
    relative = partial(scales.relative, own=False)
    over = relative(unit, np.ones(stays.shape), rows) ** 2
    squares, noise = stays * over, _root((changes * over).mean(axis=2))
    mean, n = squares.mean(axis=2), squares.shape[2]
    half = float(ndtri(0.5 + task.bootstrap.confidence / 2)) * squares.std(axis=2) / math.sqrt(max(n - 1, 1))
    unit_rounding = eps(orbits.dtype)
    least = unit_rounding if floors.rounding.method == "copies" else max(ROUNDING, unit_rounding)
    beside = FACTOR * relative(unit, part.resampled, part.rows).mean(axis=2)[:, tried]
    judged = judgement.scales.judged
    above = np.zeros_like(judgement.above)
    above[:, tried] = (_root(mean - half) > np.maximum(least, noise / 4) + beside) & judged[:, None]
    kept = bool((_root(mean + half) <= np.maximum(max(ROUNDING, least), noise / 2) + beside)[judged].all())
    o, k = np.unravel_index(int(np.argmax(np.where(judged[:, None], mean, -np.inf))), mean.shape)
    steady = Estimate(*(float(_root(v)[o, k]) for v in (mean, mean - half, mean + half)))
    far = judgement.far if above.any() else np.zeros_like(judgement.far)
    headline = replace(judgement.headline, steady=steady, steady_unit=unit)
    return replace(judgement, headline=headline, settled=Settled(kept and not above.any()), above=above, far=far)


def _root(a: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(a, 0.0))


def _squares(
    task: AuditTask, orbits: Orbits, copies: list[Inputs], tried: np.ndarray, run: object
) -> tuple[Float[np.ndarray, "outputs E n"], Float[np.ndarray, "outputs E n"]]:
    """(what stays, what changes from copy to copy) of every output, element and input, squared."""
    outputs, K, n = len(orbits.separate), len(copies), copies[0].n
    own = np.zeros((outputs, len(tried), n))
    sums: list[list[np.ndarray | float]] = [[0.0] * len(tried) for _ in range(outputs)]
    for x in copies:
        start = task.contract.start(x)
        y = task.evaluate(start, run)  # type: ignore[arg-type]
        for e, k in enumerate(tried):
            g = task.elements[k]
            z = task.evaluate(start.replaced(task.contract.move(g, x.leaves)), run)  # type: ignore[arg-type]
            for o, action in enumerate(orbits.actions):
                expected = y.leaves[o] if action is None else action.act(g, y.leaves[o])
                d = (z.leaves[o] - expected).reshape(n, -1)
                own[o, e] += (d**2).sum(axis=1)
                sums[o][e] = sums[o][e] + d
    if K == 1:
        return own, np.zeros_like(own)
    whole = np.array([[(np.asarray(d) ** 2).sum(axis=1) for d in row] for row in sums])
    stays = (whole - own) / (K * (K - 1))
    return stays, own / K - stays


def _copy(x: Inputs, rng: np.random.Generator) -> Inputs:
    """x with every real number changed by some share of it; zeros, masks and whole numbers stay."""
    change = lambda a: (a * (1 + _SHARE * rng.standard_normal(a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
    return x.mapped(change)
