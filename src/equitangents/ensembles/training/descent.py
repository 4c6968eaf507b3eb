"""What members descend, and how: losses of one sample, (N, outputs) × (N, outputs) → (N,), and optimisers, by name.

A batch's loss is the mean over its samples.

mse            ½ Σ_k (f_k − y_k)², so that the loss is L = (1/2N) Σ_i |f(x_i) − y_i|², not divided by the outputs
cross_entropy  −Σ_k y_k log softmax(f)_k, y a probability distribution; of fields a sum over positions

gd        full-batch gradient descent θ ← θ − η ∇L: k steps are k units of gradient-flow time at learning rate η
sgd       the same on mini-batches
momentum  v ← m v + ∇L, θ ← θ − η v
adam      with optax's defaults

A penalty on what predictions lose of equivariance along the orbits of the training samples may come to that: with
u_g(x) = ρ_Y(g)⁻¹ f(ρ_X(g) x) the loss of a sample is that of its copies in the mean, and

    (γ/2) (1/|G|) Σ_g |u_g(x) − ū(x)|²,    ū = (1/|G|) Σ_g u_g.

For orthogonal ρ_Y the mean square over the copies is ½|ū − y|² + (1/2|G|) Σ_g |u_g − ū|²: augmentation is a penalty of
weight 1 already, γ = −1 takes it away, which is training of the orbit's mean ū (feature averaging).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.group import GroupMap
from equitangents.inference.augmented import augment_targets

OPTIMIZERS = ("gd", "sgd", "momentum", "adam")
DEFAULT_BATCH_SIZE = 32


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


@dataclass(frozen=True)
class Penalty:
    """γ, and the matrices R with rows u = f R that take the outputs at each copy back, (copies, outputs, outputs).

    They are kept as bytes, so that training programs are found again by them; None: labels are invariant.
    """

    weight: float
    back: bytes | None = None

    @classmethod
    def of(cls, weight: float, label_action: GroupMap | None, elements: np.ndarray, outputs: int) -> Penalty:
        """The penalty for copies by these elements of a group, which acts so on labels."""
        if label_action is None:
            return cls(weight)
        moved = augment_targets(label_action, np.eye(outputs), elements).reshape(-1, outputs, outputs)
        return cls(weight, np.linalg.inv(moved).tobytes())

    def of_samples(self, outputs: jax.Array) -> jax.Array:
        """The penalty of each sample, (N,), given outputs (copies, N, outputs)."""
        u = outputs
        if self.back is not None:
            back = np.frombuffer(self.back).reshape(len(u), u.shape[2], u.shape[2])
            u = jnp.einsum("gnk,gkl->gnl", u, jnp.asarray(back, u.dtype))
        return 0.5 * self.weight * ((u - u.mean(axis=0)) ** 2).mean(axis=0).sum(axis=-1)


def transformation(
    optimizer: str | optax.GradientTransformation, learning_rate: float, momentum: float
) -> optax.GradientTransformation:
    """The optax transformation for a name of OPTIMIZERS; one that is given already is returned as it is."""
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if optimizer == "adam":
        return optax.adam(learning_rate)
    return optax.sgd(learning_rate, momentum=momentum if optimizer == "momentum" else None)


def check_optimizer(optimizer: object) -> None:
    """Raise unless `optimizer` is a name of OPTIMIZERS or an optax transformation."""
    if isinstance(optimizer, optax.GradientTransformation):
        return
    if not isinstance(optimizer, str):
        raise InvalidTypeError("optimizer", optimizer, [*OPTIMIZERS, "an optax.GradientTransformation"])
    if optimizer not in OPTIMIZERS:
        raise InvalidArgumentError("optimizer", optimizer, [*OPTIMIZERS, "an optax.GradientTransformation"])


def resolve_batch_size(optimizer: object, batch_size: int | None, samples: int) -> int:
    """Samples a step: all of them for "gd"; else `batch_size`, or 32 if None, at most all."""
    if optimizer == "gd":
        if batch_size is not None:
            raise InvalidArgumentError(
                "batch_size",
                batch_size,
                "None with optimizer 'gd', which is full-batch gradient descent",
                "or take optimizer 'sgd'",
            )
        return samples
    return min(DEFAULT_BATCH_SIZE if batch_size is None else int(batch_size), samples)
