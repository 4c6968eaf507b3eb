"""Means of kernels over many copies of a pair of inputs, from distances or covariances that are known beforehand."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, DType
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.execute import State, execute, field_moments
from equitangents.kernels.engines.reference.fibre import FibreGeometry
from equitangents.kernels.engines.reference.tile import sum_in_groups, vector_levels
from equitangents.kernels.plans.plan import FibrePlan
from equitangents.kernels.program import Op

_Alone = tuple[np.ndarray, np.ndarray]


def means(
    steps: FibrePlan, d: np.ndarray, one: _Alone, other: _Alone, dtype: DType, side: int, carry: Carry = DISTANCE
) -> tuple[np.ndarray, np.ndarray]:
    """Means over T of NNGP and NTK, (n1, n2), from what is carried of the inputs, d, (T, n1, n2).

    `one` and `other`: their (mean squares, means). Filled up to `side` inputs, so that equal shapes compile once.
    """
    n1, n2 = d.shape[1:]
    filled = np.ones((len(d), side, side), dtype)
    filled[:, :n1, :n2] = d
    values = [np.concatenate([v, np.ones(side - len(v))]).astype(dtype) for v in (*one, *other)]
    nngp, ntk = (np.asarray(value)[:n1, :n2] for value in _average(steps.vector, carry, filled, *values))
    return nngp, ntk


@partial(jax.jit, static_argnums=(0, 1))
def _average(
    ops: tuple[Op, ...], carry: Carry, d: ArrayLike, q1: ArrayLike, mean1: Any, q2: ArrayLike, mean2: Any
) -> tuple[Any, Any]:
    m1 = field_moments(ops, q1[None, None, :, None], mean1[None, None, :, None], {})
    m2 = field_moments(ops, q2[None, None, None, :], mean2[None, None, None, :], {})
    geometry = FibreGeometry(vector_levels(ops), jnp.zeros((0,), jnp.int32), {}, carry)
    state = execute(ops, geometry, State(d[None], jnp.zeros_like(d)[None]), m1, m2, carry)
    k = carry.covariance(state.d, m1.q[-1], m2.q[-1])[0]
    return sum_in_groups(k) / len(d), sum_in_groups(state.theta[0]) / len(d)
