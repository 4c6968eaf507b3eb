"""Second measurements, where noise floors leave the verdict open.

The part of a violation d(x) = f(ρ_X(g)x) − ρ_Y(g)f(x) that is not rounding: d itself in double precision, if the model
can be cast. Otherwise copies x′ of the inputs, with each number changed by 1/64 of its size: rounding differs between
copies and a violation does not, so the mean of ⟨d(x′), d(x″)⟩ over pairs of copies is its square, without bias.

One input suffices: ‖f(ρ(g)x) − ρ(g)f(x)‖ of a single x above its own noise floor shows that f is not equivariant. If
single errors, but not their means, are far above all noise floors, the largest are evaluated again a few times, with
rounding and interpolation measured for that input and its moved copy. An error that does not repeat was model noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from equitangents.audit.adapters.model import Answer
from equitangents.audit.contract.leaf_actions import Actions, differences
from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.measure.floors import (
    PERTURBATION,
    ROUNDING,
    UNINFORMATIVE,
    double_of,
    in_double,
    jitter,
    resampling,
    rounding_of,
    widened,
)
from equitangents.audit.measure.judge import SINGLE, Judgement, Measured, judge, unexact
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import AuditTask, batches, eps
from equitangents.audit.report.numbers import FACTOR, MeanEstimate, Unit
from equitangents.audit.report.sections import Counterexample, FloatFloor
from equitangents.metrics.measure import ratio

_SHARE = 2.0**-6
_ELEMENTS = 8  # those whose errors are the most floors
_TOGETHER, _LEAST, _MOST = 512, 4, 16  # copies: so many together, and at least and at most of each input


def is_open(m: Measured) -> bool:
    """Whether rounding hides the verdict, or may explain small errors of a model of unknown precision."""
    orbits, floors, judgement = m.orbits, m.floors, m.judgement
    plain = not (orbits.class_numbers.any() or orbits.actions.compared or judgement.scales.nothing)
    if not (floors.deterministic and plain and m.task.settings.tolerance is None and orbits.undefined.sum() == 0):
        return False
    small = judgement.headline.error.estimate.mean <= UNINFORMATIVE
    unsure = floors.float_floor.method != "float64" and judgement.above.any() and small
    return unsure or unexact(judgement) in ("rounding", "spread")


def settled(m: Measured) -> Measured:
    """Judged by the violation without rounding under the elements of the largest errors, if it can be measured."""
    task, orbits, floors, judgement = m.task, m.orbits, m.floors, m.judgement
    rows = floors.rows
    x = task.x.subset(rows)
    if not any(a.dtype.kind == "f" for a in x.batches):
        return m
    exact = double_of(task, x, orbits.actions, orbits.dtype)
    if exact is not None and orbits.dtype == np.float64:  # whose rounding is known
        return m
    run = None if exact is None else exact[1]
    if run is not None:
        rows = rows[: in_double(task, x)]
        copies = [widened(task.x.subset(rows))]
    else:
        K = int(np.clip(math.ceil(_TOGETHER / len(rows)), _LEAST, _MOST))
        rng = np.random.default_rng(task.settings.seed)
        copies = [_copy(x, rng) for _ in range(K)]
    errors = judgement.scales.relative(judgement.headline.unit, orbits.separate).mean(axis=2)
    excess = (errors / np.maximum(judgement.output_element_floors, 1e-300)).max(axis=0)
    tried = np.sort(np.argsort(-excess)[:_ELEMENTS])
    stays, changes = _squares(task, orbits, copies, tried, run)
    if not (np.isfinite(stays).all() and np.isfinite(changes).all()):
        return m
    if run is None:
        rounding = np.repeat(_root(changes.mean(axis=(1, 2)))[:, None], len(rows), axis=1) / 2
        rounding = np.maximum(rounding, eps(orbits.dtype) / 4 * orbits.separate_sizes[:, rows])  # of the answer itself
        known = FloatFloor(float(np.max(ratio(rounding, orbits.separate_sizes[:, rows]).mean(axis=1))), "copies")
        floors = replace(floors, rounding=rounding, float_floor=known)
        m = replace(m, floors=floors, judgement=replace(judge(task, orbits, floors), undefined=judgement.undefined))
    return m if m.judgement.scales.nothing else replace(m, judgement=_judged(m, tried, rows, stays, changes))


def _judged(m: Measured, tried: np.ndarray, rows: np.ndarray, stays: np.ndarray, changes: np.ndarray) -> Judgement:
    """The judgement by the violation without rounding: above rounding, no larger than it, or open."""
    floors, judgement, scales = m.floors, m.judgement, m.judgement.scales
    unit: Unit = "spread" if np.isfinite(scales.deviations[scales.judged]).all() else "norm"
    relative = partial(scales.relative, own=False)
    over = relative(unit, np.ones(stays.shape), rows) ** 2
    squares, noise = stays * over, _root((changes * over).mean(axis=2))
    mean, n = squares.mean(axis=2), squares.shape[2]
    half = float(ndtri(0.5 + m.task.settings.confidence / 2)) * squares.std(axis=2) / math.sqrt(max(n - 1, 1))
    unit_rounding = eps(m.orbits.dtype)
    least = unit_rounding if floors.float_floor.method == "copies" else max(ROUNDING, unit_rounding)
    allowance = FACTOR * relative(unit, floors.resampled, floors.rows).mean(axis=2)[:, tried]
    judged = scales.judged
    above = np.zeros_like(judgement.above)
    above[:, tried] = (_root(mean - half) > np.maximum(least, noise / 4) + allowance) & judged[:, None]
    kept = bool((_root(mean + half) <= np.maximum(max(ROUNDING, least), noise / 2) + allowance)[judged].all())
    o, k = np.unravel_index(int(np.argmax(np.where(judged[:, None], mean, -np.inf))), mean.shape)
    steady = MeanEstimate(*(float(_root(v)[o, k]) for v in (mean, mean - half, mean + half)))
    far = judgement.far if above.any() else np.zeros_like(judgement.far)
    headline = replace(judgement.headline, steady=steady, steady_unit=unit)
    return replace(judgement, headline=headline, settled=kept and not above.any(), above=above, far=far)


def _root(a: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(a, 0.0))


def _squares(
    task: AuditTask, orbits: Orbits, copies: list[InputLeaves], tried: np.ndarray, run: object
) -> tuple[Float[np.ndarray, "outputs E n"], Float[np.ndarray, "outputs E n"]]:
    """(violation without rounding, variance between copies) of every output, element and input, squared."""
    outputs, K, n = len(orbits.separate), len(copies), copies[0].n
    own = np.zeros((outputs, len(tried), n))
    sums: list[list[np.ndarray | float]] = [[0.0] * len(tried) for _ in range(outputs)]
    for x in copies:
        y = task.evaluate(x, run)  # type: ignore[arg-type]
        for e, k in enumerate(tried):
            g = task.elements[k]
            z = task.evaluate(task.contract.move(g, x), run)  # type: ignore[arg-type]
            for o, (after, expected) in enumerate(zip(z.leaves, orbits.actions.act(g, y.leaves), strict=True)):
                d = (after - expected).reshape(n, -1)
                own[o, e] += (d**2).sum(axis=1)
                sums[o][e] = sums[o][e] + d
    if K == 1:
        return own, np.zeros_like(own)
    whole = np.array([[(np.asarray(d) ** 2).sum(axis=1) for d in row] for row in sums])
    stays = (whole - own) / (K * (K - 1))
    return stays, own / K - stays


def _copy(x: InputLeaves, rng: np.random.Generator) -> InputLeaves:
    """x with every real number scaled at random; zeros, masks and whole numbers stay."""
    change = lambda a: (a * (1 + _SHARE * rng.standard_normal(a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
    return x.mapped(change)


_TRIED = 3
_AGAIN = 3  # evaluations of one pair
_CHANCE = 1000.0  # roundings by which outputs of a deterministic model may differ


def confirmed(m: Measured) -> Measured:
    """Add a confirmed counterexample if no mean fails, and the observed noise to the noise floors."""
    task, orbits, judgement = m.task, m.orbits, m.judgement
    if judgement.above.any() or not judgement.far.any() or judgement.scales.nothing:
        return m
    errors = judgement.scales.relative(judgement.headline.unit, orbits.separate)
    order = np.argsort(np.where(judgement.far, -errors, np.inf), axis=None)
    places = np.array(np.unravel_index(order[: int(judgement.far.sum())], errors.shape)).T
    _, first = np.unique(places[:, 2], return_index=True)  # of every input its largest error
    tolerance = judgement.headline.tolerance
    for o, k, i in places[np.sort(first)[:_TRIED]]:
        error, floor, noise = _again(m, int(o), int(k), int(i))
        if noise:
            m = replace(m, floors=replace(m.floors, deterministic=False, noise=max(m.floors.noise, noise)))
        if error > max(SINGLE * floor, tolerance or 0.0):
            example = Counterexample(
                label=task.contract.label(task.elements[k]),
                index=task.row(i),
                error=float(errors[o, k, i]),
                floor=floor,
            )
            above = judgement.above.copy()
            if tolerance is None:  # which is for means, so that one input does not decide
                above[o] |= judgement.far[o, :, i]
            return replace(m, judgement=replace(judgement, counterexample=example, above=above))
    return m


def _again(m: Measured, o: int, k: int, i: int) -> tuple[float, float, float]:
    """One pair of input and element evaluated again: (its smallest error, its noise floor, the noise of the outputs).

    Both are in the headline's unit; the noise is relative to ‖f(x)‖, 0 up to rounding.
    """
    task, orbits, judgement = m.task, m.orbits, m.judgement
    rows = np.array([i]) if m.floors.batch_independent else batches(task.x.n, task.step)[i // task.step]
    at, g = int(np.flatnonzero(rows == i)[0]), task.elements[k]
    x, actions = task.x.subset(rows), orbits.actions
    moved = task.contract.move(g, x)
    still, moved_answers = ([task.evaluate(part) for _ in range(_AGAIN)] for part in (x, moved))
    expected = [actions.act(g, y.leaves)[o] for y in still]
    by = actions.comparisons[o]
    off = np.array([differences(z.leaves[o], e, by)[at] for z, e in zip(moved_answers, expected, strict=True)])
    parts = [[differences(y.leaves[o], ys[0].leaves[o], by)[at] for y in ys] for ys in (still, moved_answers)]
    of_x = orbits.separate_sizes[o, i]
    differ = max(np.max(parts), np.max(np.abs(off - orbits.separate[o, k, i])))
    noise = float(ratio(np.array([differ]), np.array([of_x]))[0])
    rounding = [_rounding(task, part, ys[0], actions)[o, at] for part, ys in ((x, still), (moved, moved_answers))]
    floor = 2 * float(np.max(rounding)) + float(np.max(parts))
    if not task.contract.not_a_group:
        floor += float(resampling(replace(task, elements=[g]), x, still[0], actions)[o, 0, at])
    unit = judgement.headline.unit
    table = np.zeros((len(orbits.separate), 2, 1))
    table[o, :, 0] = off.min(), floor
    error, own = judgement.scales.relative(unit, table, np.array([i]))[o, :, 0]
    random = noise > _CHANCE * eps(orbits.dtype)
    return float(error), float(max(own, judgement.output_element_floors[o, k])), noise if random else 0.0


def _rounding(task: AuditTask, x: InputLeaves, y: Answer, actions: Actions) -> np.ndarray:
    """What rounding may do to the outputs for x: (outputs, n)."""
    sizes = actions.sizes(y.leaves)
    method, _, rounding = rounding_of(task, x, y, sizes, True, actions)
    if method != "perturbation":
        return rounding
    return PERTURBATION * (jitter(task, x, actions) + eps(y.dtype) * sizes)
