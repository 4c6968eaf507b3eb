"""Ensembles whose members depend on one another: boosted ones, and nested means of what one run leaves behind.

Boosting: network s + 1, freshly initialised, learns the residual y − ν Σ_{j ≤ s} f_j of the data; the prediction after
S stages is ν Σ_{j ≤ S} f_j. Source: Friedman 2001, Greedy function approximation: a gradient boosting machine.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents.extending import FiniteNetwork, precision
from equitangents_studies.framework.progress import Task


def boosted(
    net: FiniteNetwork,
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, " n"],
    points: Float[np.ndarray, "p ..."],
    *,
    runs: int,
    stages: int,
    shrinkage: float,
    rate: float,
    steps: int,
    seed: int,
    task: Task,
) -> Float[np.ndarray, "stages runs p"]:
    """Predictions on `points` after every stage, of independent runs; each stage takes `steps` of gradient descent."""
    with precision.scope(np.float32):
        data, asked = jnp.asarray(x, jnp.float32), jnp.asarray(points, jnp.float32)
        residual = jnp.tile(jnp.asarray(y, jnp.float32), (runs, 1))
        total, found = jnp.zeros((runs, len(points)), jnp.float32), []
        for stage in range(stages):
            keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), stage), runs)
            learnt, predicted = _stage(net, rate, steps, keys, data, residual, asked)
            residual = residual - shrinkage * learnt
            total = total + shrinkage * predicted
            found.append(np.asarray(total))
            task.step(stage + 1, stages)
    return np.stack(found)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _stage(net: FiniteNetwork, rate: float, steps: int, keys: Any, x: Any, targets: Any, points: Any) -> Any:
    """One network a run, trained on its own targets (runs, N): its outputs on the data and on the points."""

    def run(key: Any, y: Any) -> Any:
        loss = lambda params: ((net.apply(params, x)[:, 0] - y) ** 2).mean() / 2
        step = lambda _, params: jax.tree.map(lambda p, g: p - rate * g, params, jax.grad(loss)(params))
        params = jax.lax.fori_loop(0, steps, step, net.init(key, x.shape[1:], "float32"))
        return net.apply(params, x)[:, 0], net.apply(params, points)[:, 0]

    # one run after another: their weights stay in a core's cache
    return jax.lax.map(lambda pair: run(*pair), (keys, targets))


def nested_means(
    d: Float[np.ndarray, "members runs values"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "runs sizes"]:
    """Mean square of means over M members of one run, evenly spaced among all of them, the last included."""
    count = len(d)
    chosen = [np.unique(np.round(np.linspace(count - 1, -1, m, endpoint=False)).astype(int)) for m in sizes]
    return np.stack([(d[rows].mean(axis=0) ** 2).mean(axis=-1) for rows in chosen], axis=1)
