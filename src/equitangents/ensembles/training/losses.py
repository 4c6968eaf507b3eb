"""Losses of one sample, (N, outputs) × (N, outputs) → (N,); a batch's loss is their mean.

mse            ½ Σ_k (f_k − y_k)², so that the loss is L = (1/2N) Σ_i |f(x_i) − y_i|², not divided by the outputs
cross_entropy  −Σ_k y_k log softmax(f)_k, y a probability distribution; of fields a sum over positions
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp


def squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """½ Σ_k (f_k − y_k)² of each sample, (N,)."""
    return 0.5 * jnp.sum((outputs - targets) ** 2, axis=-1)


def cross_entropy(outputs: jax.Array, targets: jax.Array, classes: int | None = None) -> jax.Array:
    """−Σ_k y_k log softmax(f)_k of each sample, (N,); rows of fields hold `classes` numbers for each position."""
    if classes is not None:
        outputs, targets = (a.reshape(*a.shape[:-1], -1, classes) for a in (outputs, targets))
    found = -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)
    return found if classes is None else found.sum(axis=-1)


Loss = Callable[[jax.Array, jax.Array], jax.Array]
LOSSES: dict[str, Loss] = {"mse": squared_error, "cross_entropy": cross_entropy}


def loss_of(name: str, classes: int | None = None) -> Loss:
    """A loss by name, of rows that hold `classes` numbers for each position, or (None) for one."""
    return LOSSES[name] if classes is None or name == "mse" else partial(cross_entropy, classes=classes)
