"""The Lie derivative at the identity, d/dt ρ_Y(e^{tξ})⁻¹ f(ρ_X(e^{tξ})x) at t = 0, zero for an equivariant f.

It equals J_f(x)·dρ_X(ξ)x − dρ_Y(ξ)f(x): by a Jacobian-vector product where f can be differentiated, else by central
differences. Source: Gruver et al. 2023, "The Lie derivative for measuring learned equivariance".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from equitangents import precision
from equitangents.audit.adapters.callables import CallableModel, NetworkModel
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import Inputs, Shared, has_other_axes
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.task import AuditTask, eps
from equitangents.audit.report.sections import LieResult
from equitangents.groups.symmetry_group import Flow
from equitangents.metrics.measure import norms, ratio

ROWS = 64


def lie_derivatives(m: Measured) -> list[LieResult] | str:
    """One result for each generator of a continuous group; why there is none of finite groups and class numbers."""
    task, group = m.task, m.task.contract.group
    if not group.flows:
        return f"{group.name} has no infinitesimal elements"
    x, actions = task.x.subset(task.rows(ROWS)), m.orbits.actions.continuous()
    if actions.compared or any(y.dtype.kind == "i" for y in task.evaluate(x.subset(np.arange(1))).leaves):
        return f"{m.orbits.no_mean} have no derivative"
    smooth = replace(task, contract=task.contract.continuous())
    return [_along(smooth, flow, x, actions) for flow in group.flows]


def _along(task: AuditTask, flow: Flow, x: Inputs, actions: Actions) -> LieResult:
    y = task.evaluate(x)
    plain = not any(y.complex_pairs) and task.contract.mask is None and not has_other_axes(task.output_action)
    derivative = _by_jvp(task, flow, x, actions) if plain else None
    step = None
    if derivative is None:
        step = eps(y.dtype) ** (1 / 3)  # where rounding and curvature weigh the same
        ends = []
        for t in (step, -step):
            moved = task.evaluate(x.replaced(task.contract.move(flow.at(t), x.leaves)))
            ends.append(actions.act(task.contract.group.inverse(flow.at(t)), moved.leaves))
        derivative = [(a - b) / (2 * step) for a, b in zip(*ends, strict=True)]
    sizes = np.max([ratio(norms(d), norms(v)) for d, v in zip(derivative, y.leaves, strict=True)], axis=0)
    value = task.resampler(x.n).mean(sizes)
    return LieResult(flow.name, flow.unit, value, "jvp" if step is None else "differences", step)


def _by_jvp(task: AuditTask, flow: Flow, x: Inputs, actions: Actions) -> list[np.ndarray] | None:
    """The derivative by forward differentiation in double precision; None where f is no JAX function of reals."""
    if not isinstance(task.model, CallableModel | NetworkModel):
        return None
    if any(isinstance(a, Shared) or a.dtype.kind != "f" for a in x.leaves):
        return None
    wide = [a.astype(np.float64) for a in x.leaves]
    velocity = _differences(lambda t: task.contract.move(flow.at(t), wide))
    try:
        with precision.scope(np.float64):
            given = task.clock.counting(task.model)
            run = lambda *leaves: jax.tree.leaves(given(x.replaced(leaves)))
            outputs, tangents = jax.jvp(
                run, tuple(map(jax.numpy.asarray, wide)), tuple(map(jax.numpy.asarray, velocity))
            )
            y, moved = ([np.asarray(t, np.float64) for t in part] for part in (outputs, tangents))
    except Exception:  # a function of NumPy arrays fails on tracers in its own way
        return None
    turned = lambda t: actions.act(flow.at(t), y)
    return [a - b for a, b in zip(moved, _differences(turned), strict=True)]


def _differences(curve: Any, step: float = 1e-5) -> list[np.ndarray]:
    """The derivative at 0 of a curve of lists of arrays."""
    return [(a - b) / (2 * step) for a, b in zip(curve(step), curve(-step), strict=True)]
