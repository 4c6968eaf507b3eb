"""The largest eigenvalue of the finite tangent kernel, without forming it.

Θ̂ = J Jᵀ/N, J the Jacobian (N·K, parameters) of all outputs on N inputs: Lanczos on v ↦ J(Jᵀv)/N, a product with J
being a forward derivative and one with Jᵀ a backward one, in blocks of inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import NetworkError, NotFiniteError
from equitangents.extending import FiniteNetwork, Numbers, Params, check_array, check_whole, precision

_ROWS = 32  # inputs differentiated at once


@dataclass(frozen=True)
class Eigenvalue:
    """The largest eigenvalue after `steps` steps of Lanczos: `value` approaches it from below.

    `error` is the residual: within it of `value` lies an eigenvalue, the largest one if it is well above the others.
    """

    value: float
    error: float
    steps: int

    def __float__(self) -> float:
        return self.value


def largest_eigenvalue(net: FiniteNetwork, params: Params, x: Numbers, *, steps: int = 24, seed: int = 0) -> Eigenvalue:
    """The largest eigenvalue of J Jᵀ/N, the tangent kernel between all outputs on x, over the number of inputs N.

    It does not carry 1/K: the loss (1/2KN) Σ_i |f(x_i) − y_i|² over K outputs has the curvature λ_max/K.

    >>> import jax, numpy as np
    >>> from equitangents_studies.systems import architecture
    >>> net = architecture("FCN", 1, 8, outputs=2)
    >>> x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    >>> found = largest_eigenvalue(net, net.init(jax.random.key(0), (5,)), x)
    >>> found.value > 0 and found.error < 1e-3 * found.value
    True
    """
    x = np.asarray(check_array("x", x, min_rank=2))
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise NetworkError("params holds no parameters, so there is no tangent kernel; expected those of net.init")
    dtype = np.dtype(leaves[0].dtype)
    rows = min(_ROWS, len(x))
    blocks = -(-len(x) // rows)
    padded = np.zeros((blocks * rows, *x.shape[1:]), dtype)
    padded[: len(x)] = x
    with precision.scope(dtype):
        outputs = jax.eval_shape(net.apply, params, jax.ShapeDtypeStruct((1, *x.shape[1:]), dtype)).shape[-1]
        steps = min(check_whole("steps", steps, 1), len(x) * outputs)
        start = np.zeros((blocks * rows, outputs), dtype)
        start[: len(x)] = np.random.default_rng(seed).standard_normal((len(x), outputs))
        mask = np.arange(blocks * rows) < len(x)
        diagonal, beside = _lanczos(
            net,
            steps,
            params,
            jnp.asarray(padded.reshape(blocks, rows, *x.shape[1:])),
            jnp.asarray(start.reshape(blocks, rows, outputs)),
            jnp.asarray(mask.reshape(blocks, rows, 1), dtype),
        )
    return _top(np.asarray(diagonal, np.float64) / len(x), np.asarray(beside, np.float64) / len(x), dtype)


def _top(diagonal: np.ndarray, beside: np.ndarray, dtype: np.dtype) -> Eigenvalue:
    """The largest eigenvalue of the tridiagonal matrix, up to where the Krylov space is exhausted."""
    if not (np.isfinite(diagonal).all() and np.isfinite(beside).all()):
        raise NotFiniteError(
            "the tangent kernel holds NaN or infinite values: the network's derivatives are not finite"
        )
    ended = np.flatnonzero(beside[:-1] <= 10 * np.finfo(dtype).eps * np.max(np.abs(diagonal)))
    steps = int(ended[0]) + 1 if len(ended) else len(diagonal)
    off = beside[: steps - 1]
    values, vectors = np.linalg.eigh(np.diag(diagonal[:steps]) + np.diag(off, 1) + np.diag(off, -1))
    return Eigenvalue(float(values[-1]), float(beside[steps - 1] * abs(vectors[-1, -1])), steps)


@partial(jax.jit, static_argnums=(0, 1))
def _lanczos(
    net: FiniteNetwork, steps: int, params: Params, x: jax.Array, start: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(diagonal, what stands beside it) of the tridiagonal matrix; all earlier directions are taken out twice."""

    def pulled(total: Params, block: tuple[jax.Array, jax.Array]) -> tuple[Params, None]:
        inputs, v = block
        gradient = jax.vjp(lambda p: net.apply(p, inputs), params)[1](v)[0]
        return jax.tree.map(jnp.add, total, gradient), None

    def product(v: jax.Array) -> jax.Array:
        zero = jax.tree.map(jnp.zeros_like, params)
        gradient, _ = jax.lax.scan(pulled, zero, (x, v.reshape(start.shape)))
        push = lambda inputs: jax.jvp(lambda p: net.apply(p, inputs), (params,), (gradient,))[1]
        return (jax.lax.map(push, x) * mask).ravel()

    def step(basis: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        w = product(basis[k])
        alpha = basis[k] @ w
        for _ in range(2):
            w = w - basis.T @ (basis @ w)
        beta = jnp.linalg.norm(w)
        return basis.at[k + 1].set(w / jnp.where(beta > 0, beta, 1)), (alpha, beta)

    first = (start * mask).ravel()
    basis = jnp.zeros((steps + 1, first.size), first.dtype).at[0].set(first / jnp.linalg.norm(first))
    return jax.lax.scan(step, basis, jnp.arange(steps))[1]
