"""Losses of one sample, (N, outputs) × (N, outputs) → (N,); a batch's loss is their mean.

mse            ½ Σ_k (f_k − y_k)², so that the loss is L = (1/2N) Σ_i |f(x_i) − y_i|², not divided by the outputs
cross_entropy  −Σ_k y_k log softmax(f)_k, y a probability distribution
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """½ Σ_k (f_k − y_k)² of each sample, (N,)."""
    return 0.5 * jnp.sum((outputs - targets) ** 2, axis=-1)


def cross_entropy(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """−Σ_k y_k log softmax(f)_k of each sample, (N,)."""
    return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)


LOSSES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "mse": squared_error,
    "cross_entropy": cross_entropy,
}
