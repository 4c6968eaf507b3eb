"""The effect of more members of an ensemble: E‖D̄_M‖² = ‖μ‖² + tr Σ/M for the mean of M members.

D is a member's violation, with mean μ and covariance Σ over members: a 1/√M law above the limit ‖μ‖. ‖μ‖² is estimated
without bias by products of different members, (‖Σ D‖² − Σ ‖D‖²)/(M(M − 1)).
Source of the law: Gerken & Kessel 2024, arXiv 2403.03103.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.audit.adapters.callables import EnsembleModel
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.task import AuditTask, flattened
from equitangents.audit.report.numbers import MeanEstimate
from equitangents.audit.report.sections import EnsembleSection, EnsembleSize
from equitangents.statistics import FEWEST, no_interval, squared_mean

_ROWS = 48
_ELEMENTS = 16


def ensemble_law(m: Measured) -> EnsembleSection | str:
    """The law of the violation for M members, or why it is not known."""
    task, actions = m.task, m.orbits.actions
    x = task.x.subset(task.rows(_ROWS))
    elements = task.elements[:: -(-len(task.elements) // _ELEMENTS)]
    if m.orbits.no_mean:
        return "outputs are class numbers, masks or sets in any order, which have no mean over members"
    outputs = _members(task, x, elements, actions)
    if outputs is None:
        return f"a model of kind {task.model.kind!r} has no members whose mean it is"
    if len(outputs) < 2:
        return "it has one member"
    mean = outputs.mean(axis=0)
    size = float((mean[0] ** 2).sum(axis=1).mean()) or 1.0
    D = (outputs[:, 1:] - outputs[:, :1]) / math.sqrt(size)  # (M, E, n, K)
    return _section(task, D)


def _members(
    task: AuditTask, x: InputLeaves, elements: list[Any], actions: Actions
) -> Float[np.ndarray, "M E1 n K"] | None:
    """ρ(g)⁻¹f_m(ρ(g)x) of every member, the identity first."""
    group = task.contract.group
    moved = [x, *(task.contract.move(g, x) for g in elements)]
    inverses = [group.identity, *(group.inverse(g) for g in elements)]
    model = task.model
    if isinstance(model, EnsembleModel) and model.deep:
        stacked = [task.clock.timed(model.member_outputs, part) for part in moved]
        if stacked[0] is None:
            return None
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


def _section(task: AuditTask, D: np.ndarray) -> EnsembleSection:
    M, over_inputs = len(D), task.over_inputs(D.shape[2])
    limit2, single2 = _limit(D), float((D**2).sum(axis=3).mean())
    finite2 = max(single2 - limit2, 0.0)
    mean = squared_mean(D.reshape(M, -1), confidence=task.settings.confidence) if M >= FEWEST else no_interval(0.0)
    low, high = (end * D.shape[3] for end in mean.interval)  # of sums over outputs
    sizes = []
    for k in sorted({*(2**j for j in range(int(math.log2(M)) + 1)), M}):
        blocks = D[: M // k * k].reshape(M // k, k, *D.shape[1:]).mean(axis=1)
        squared = (blocks**2).sum(axis=-1).mean(axis=0)
        sizes.append(EnsembleSize(k, over_inputs.mean(squared), max(limit2, 0.0) + finite2 / k))
    return EnsembleSection(
        members=M,
        sizes=sizes,
        finite=math.sqrt(finite2),
        limit=MeanEstimate(limit2, low, high).rooted,
    )


def _limit(D: np.ndarray) -> float:
    """‖μ‖², mean over elements and inputs, without bias."""
    M = len(D)
    total = float((D.sum(axis=0) ** 2).sum(axis=-1).mean())
    own = float((D**2).sum(axis=-1).sum(axis=0).mean())
    return (total - own) / (M * (M - 1))
