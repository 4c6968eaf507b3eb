"""Ensembles: what more members cure. For M members, E‖D̄_M‖² = ‖μ‖² + tr Σ/M, where D is a member's violation,
μ its mean and Σ its covariance over members: the 1/√M law above a limit that no number of members removes.

‖μ‖² is estimated without bias by products of different members, (‖Σ D‖² − Σ ‖D‖²)/(M(M − 1)).
Source of the law: Gerken & Kessel 2024, arXiv 2403.03103.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.audit.adapters.estimators import EnsembleModel
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.task import AuditTask, flattened
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.part_sections import EnsembleSection, EnsembleSize
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.metrics.measure import ratio
from equitangents.metrics.on_orbits import RunningSpread
from equitangents.nn import Sequential
from equitangents.nn.mean_law import mean_law
from equitangents.statistics import FEWEST, no_interval, squared_mean

_ROWS = 48
_ELEMENTS = 16


def ensemble_law(m: Measured) -> tuple[EnsembleSection, float] | str:
    """(the section, the spread between members), or why there is none."""
    task, actions = m.task, m.orbits.actions
    x = task.x.subset(task.rows(_ROWS))
    elements = task.elements[:: -(-len(task.elements) // _ELEMENTS)]
    if m.orbits.no_mean:
        return "outputs are class numbers, masks of them or sets in any order, which have no mean over members"
    outputs = _members(task, x, elements, actions)
    if outputs is None:
        return f"a model of kind {task.model.kind!r} has no members"
    if len(outputs) < 2:
        return "it has one member"
    mean = outputs.mean(axis=0)
    size = float((mean[0] ** 2).sum(axis=1).mean()) or 1.0
    D = (outputs[:, 1:] - outputs[:, :1]) / math.sqrt(size)  # (M, E, n, K)
    spread = math.sqrt(float(outputs[:, 0].var(axis=0, ddof=1).sum(axis=1).mean()))
    section = _section(task, D, outputs, _theory(task, m.parts.theory, x, elements))
    return replace(section, by_design=_by_design(task, x, actions)), spread


def _by_design(task: AuditTask, x: Inputs, actions: Actions) -> str | None:
    """What layers and training say of the mean of infinitely many members; None where they say nothing."""
    model, moved = task.model, task.contract.inputs
    if not isinstance(model, EnsembleModel) or len(moved) != 1 or moved[0] is None or len(actions) != 1:
        return None
    ensemble, action, asked = model.ensemble, moved[0].action, actions[0]
    net, grid, learned = (getattr(ensemble, name, None) for name in ("net", "positions_", "label_action"))
    if not (isinstance(net, Sequential) and isinstance(action, Action)) or grid:
        return None  # outputs that are fields may move, too
    if ensemble.augmentation_ != action or learned != (None if asked is None else asked.action):
        return None
    if np.shape(x.leaves[0])[1:] != ensemble.sample_shape_:
        return None  # the model takes them flattened
    law = mean_law(net, action, np.asarray(x.leaves[0]), getattr(ensemble, "optimizer", "gd"))
    return None if law is None else str(law)


def _members(task: AuditTask, x: Inputs, elements: list[Any], actions: Actions) -> Float[np.ndarray, "M E1 n K"] | None:
    """ρ(g)⁻¹f_m(ρ(g)x) of every member, the identity first."""
    group = task.contract.group
    moved = [x, *(x.replaced(task.contract.move(g, x.leaves)) for g in elements)]
    inverses = [group.identity, *(group.inverse(g) for g in elements)]
    model = task.model
    if isinstance(model, EnsembleModel) and model.deep:
        stacked = [task.clock.counting(model.member_outputs)(part) for part in moved]
        members = [[np.asarray(s[m], np.float64) for s in stacked] for m in range(len(stacked[0]))]
        leaves = [[actions.act(h, [y]) for h, y in zip(inverses, ys, strict=True)] for ys in members]
    else:
        parts = model.members()
        if parts is None:
            return None
        leaves = []
        for member in parts:
            with member.ready():
                answers = [task.evaluate(part, member).leaves for part in moved]
            leaves.append([actions.act(h, y) for h, y in zip(inverses, answers, strict=True)])
    return np.array([[flattened(y) for y in along] for along in leaves])


def _section(
    task: AuditTask, D: np.ndarray, outputs: np.ndarray, theory: tuple[float, float] | None
) -> EnsembleSection:
    M = len(D)
    limit2, single2 = _limit(D), float((D**2).sum(axis=3).mean())
    finite2 = max(single2 - limit2, 0.0)
    found = squared_mean(D.reshape(M, -1), confidence=task.bootstrap.confidence) if M >= FEWEST else no_interval(0.0)
    low, high = (end * D.shape[3] for end in found.interval)  # of sums over outputs
    sizes = []
    for k in sorted({*(2**j for j in range(int(math.log2(M)) + 1)), M}):
        blocks = D[: M // k * k].reshape(M // k, k, *D.shape[1:]).mean(axis=1)
        squared = (blocks**2).sum(axis=-1).mean(axis=0)
        expected = None if theory is None else theory[0] + theory[1] / k
        sizes.append(EnsembleSize(k, _over_inputs(task, squared), max(limit2, 0.0) + finite2 / k, expected))
    norms = lambda y: np.sqrt((y**2).sum(axis=-1))
    own = ratio(norms(outputs[:, 1:] - outputs[:, :1]), norms(outputs[:, :1]))
    mean = outputs.mean(axis=0)
    of_mean = ratio(norms(mean[1:] - mean[:1]), norms(mean[:1]))
    return EnsembleSection(
        members=M,
        member_error=_over_inputs(task, own.mean(axis=0)),
        mean_error=_over_inputs(task, of_mean),
        sizes=sizes,
        finite=math.sqrt(finite2),
        limit=Estimate(limit2, low, high).rooted,
        exponent=_exponent(sizes, limit2),
        theory_limit=None if theory is None else math.sqrt(theory[0]),
        by_spread=_norm_over_spread(mean),
    )


def _norm_over_spread(y: np.ndarray) -> float | None:
    """Root mean square of ‖f(x)‖ over the spread between inputs and moved copies, of outputs (E + 1, n, D); None where
    there is none.
    """
    spread = RunningSpread(len(y))
    spread.add(y.reshape(-1, y.shape[-1]))
    size = math.sqrt(float((y[0] ** 2).sum(axis=1).mean()))
    return size / spread.value if spread.value > 1e-6 * size else None


def _limit(D: np.ndarray) -> float:
    """‖μ‖², mean over elements and inputs, without bias."""
    M = len(D)
    total = float((D.sum(axis=0) ** 2).sum(axis=-1).mean())
    own = float((D**2).sum(axis=-1).sum(axis=0).mean())
    return (total - own) / (M * (M - 1))


def _over_inputs(task: AuditTask, table: np.ndarray) -> Estimate:
    return task.over_inputs(table.shape[-1]).mean(table)


def _exponent(sizes: list[EnsembleSize], limit2: float) -> float | None:
    """Slope of the error above its limit against M in logarithms; −1/2 expected."""
    points = [(s.members, s.squared_error.mean - max(limit2, 0.0)) for s in sizes]
    points = [(k, e) for k, e in points if e > 0]
    if len(points) < 3 or max(e for _, e in points) < 1e-20:
        return None
    k, e = np.log(np.array(points)).T
    # a size k is a mean over M/k blocks, so that small sizes are known best
    return float(np.polyfit(k, e / 2, 1, w=np.exp(-k / 2))[0])


def _theory(task: AuditTask, theory: Any, x: Inputs, elements: list[Any]) -> tuple[float, float] | None:
    """(limit², finite²) of infinitely wide networks: ‖Δμ‖² and tr Cov(Δ), relative to the mean's square."""
    if theory is None:
        return None
    if not hasattr(theory, "predict") or len(x.leaves) != 1:
        raise InvalidTypeError("theory", theory, "a fitted InfiniteEnsemble, for a model of one input")
    if task.output_action is not None:
        raise InvalidTypeError("theory is given with an output_action; it is compared for invariant outputs alone")
    orbit = np.stack([x.leaves[0], *(task.contract.move(g, x.leaves)[0] for g in elements)], axis=1)
    limit2 = finite2 = size = 0.0
    for points in orbit:  # the orbit of one input, jointly
        mean, cov = theory.predict(points, return_cov=True)
        mean = np.asarray(mean, np.float64).reshape(len(points), -1)
        if mean.ndim != 2:
            raise ShapeError(f"theory predicts shape {mean.shape}; expected (N, outputs)")
        size += float((mean[0] ** 2).sum())
        limit2 += float(((mean[1:] - mean[0]) ** 2).sum(axis=1).mean())
        variance = np.diag(cov)[1:] + cov[0, 0] - 2 * cov[0, 1:]
        finite2 += float(np.maximum(variance, 0).mean()) * mean.shape[1]
    return limit2 / size, finite2 / size
