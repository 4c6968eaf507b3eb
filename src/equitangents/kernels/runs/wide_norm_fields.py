"""Kernel fields between inputs of very different norm (see `kernels.apart`): by the reference engine, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference import prepare
from equitangents.kernels.engines.reference.carry import COVARIANCE, Distance
from equitangents.kernels.engines.reference.fields import field_tables, field_tile
from equitangents.kernels.fields.plan import FieldPlan
from equitangents.kernels.program import Program
from equitangents.kernels.units import with_biases


def field_kernels(
    plan: FieldPlan, program: Program, x1: np.ndarray, x2: np.ndarray, scales: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (N1, N2, *tail), of inputs that were multiplied by `scales` (None: the covariance is carried).

    One first input after another; x1 and x2 are in float64, and so are the results.
    """
    layout = plan.part.layout
    nngp, ntk = (layout.zeros((len(x1), len(x2)), np.float64) for _ in range(2))
    with precision.scope(np.float64):
        arrays = jax.device_put(field_tables(plan, program))
        for i, a in enumerate(x1):
            for j, b in enumerate(x2):
                for out, value in zip((nngp, ntk), _tile(plan, arrays, _one(a), _one(b), scales), strict=True):
                    out[i, j] = np.asarray(value)[0, 0]
    return nngp, ntk


def _one(x: np.ndarray) -> Any:
    return jnp.asarray(x.reshape((-1, 1, x.shape[-1])))


@partial(jax.jit, static_argnums=0)
def _tile(
    plan: FieldPlan, tables: dict[str, Any], a: ArrayLike, b: ArrayLike, scales: tuple[Any, Any] | None
) -> tuple[Any, Any]:
    steps: Any = plan.steps
    if scales is None:
        p1, p2 = (prepare(steps, tables, x) for x in (a, b))
        return field_tile(plan, tables, a, p1, b, p2, COVARIANCE)
    p1, p2 = (prepare(with_biases(steps, s), tables, x) for x, s in zip((a, b), scales, strict=True))
    return field_tile(plan, tables, a, p1, b, p2, Distance(scales))
