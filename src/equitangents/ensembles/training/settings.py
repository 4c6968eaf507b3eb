"""What members descend, and how: losses of one sample, (N, outputs) × (N, outputs) → (N,), and optimisers, by name.

Checks of these and of other parameters of an ensemble of finite networks, before anything is computed.

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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from equitangents._types import ArrayLike
from equitangents.actions.action import GroupAction, flattened, is_infinite
from equitangents.actions.subset import Augmentation, whole_action
from equitangents.ensembles.training.variations import PLAIN, Variation, ZeroOutput
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import GroupMap
from equitangents.inference.augmented import augment_targets
from equitangents.progress import told_by
from equitangents.scale.executors import check_executor
from equitangents.validation import check_choice, check_number, check_whole

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


AUGMENTATION_MODES = ("full", "random")
DTYPES = ("float32", "float64")
_VERIFIED_SAMPLES = 4


def check_settings(estimator: Any) -> None:
    """Raise InvalidArgumentError or InvalidTypeError, naming the parameter, what it was and what it may be.

    Those that ensembles of every backend have.
    """
    p = estimator
    check_whole("members", p.members, 1)
    check_whole("epochs", p.epochs, 0)
    check_whole("seed", p.seed, 0, 2**32 - 1)
    check_whole("checkpoint_every", p.checkpoint_every, 1)
    for name in ("batch_size", "members_per_chunk", "memory_limit"):
        if getattr(p, name) is not None:
            check_whole(name, getattr(p, name), 1)
    check_choice("loss", p.loss, (None, *LOSSES))
    check_choice("dtype", p.dtype, DTYPES)
    check_choice("augmentation_mode", p.augmentation_mode, AUGMENTATION_MODES)
    check_number("learning_rate", p.learning_rate, "a finite number above 0", lambda v: v > 0)
    check_number("momentum", p.momentum, "a number from 0 to below 1", lambda v: 0 <= v < 1)
    check_executor(p.executor)
    told_by(p.progress)
    if p.executor is not None and p.callback is not None:
        raise InvalidArgumentError(
            "callback and executor are both given; a callback sees all members after every epoch, and these are in "
            "several processes: record= keeps outputs at chosen epochs"
        )
    if p.callback is not None and not callable(p.callback):
        raise InvalidTypeError("callback", p.callback, "a function of (epoch, state), or None")


def check_actions(
    augmentation: Augmentation | None, label_action: GroupAction | None, x: ArrayLike, y: ArrayLike
) -> None:
    """Raise unless the two are actions of one group; NotAnActionError if they are not actions on the first samples.

    augmentation: an action, some of its elements (`ActionSubset`), or None.
    """
    if augmentation is None:
        if label_action is not None:
            raise InvalidArgumentError("label_action is given without augmentation; it moves labels along with inputs")
        return
    if is_infinite(augmentation):
        raise InvalidTypeError(
            "augmentation",
            augmentation.group,
            "a finite group, such as actions.rotations(groups.icosahedral())",
            "or take elements that stand for all: actions.sampled(augmentation, count)",
            verb="is of",
        )
    whole = whole_action(augmentation)
    for name, action, values in (("augmentation", whole, x), ("label_action", label_action, y)):
        if action is None:
            continue
        if not callable(action) or not hasattr(action, "group"):
            raise InvalidTypeError(name, action, "an action (equitangents.actions) or None")
        if action.group != whole.group:
            raise InvalidArgumentError(
                "label_action", action.group, whole.group, "the group of augmentation", verb="is of"
            )
        try:
            action.verify(values[:_VERIFIED_SAMPLES])
        except ShapeError as error:
            if name == "label_action":
                raise
            message = str(error).replace(str(np.shape(values[:_VERIFIED_SAMPLES])), str(np.shape(values)))
            raise ShapeError(f"augmentation by {action.name}: {message}{flattened('X', np.shape(values))}") from None


def check_probabilities(y: np.ndarray) -> None:
    """Raise unless the rows of y are probabilities."""
    wrong = np.flatnonzero((y < 0).any(axis=1) | (abs(y.sum(axis=1) - 1) > 1e-5))
    if len(wrong):
        raise InvalidArgumentError(
            "y",
            y[wrong[0]].tolist(),
            "rows ≥ 0 that sum to 1, also after augmentation, for loss 'cross_entropy'",
            at=int(wrong[0]),
        )


def variation_of(estimator: Any) -> Variation:
    """What sets an estimator's members apart; raises where that is not one variation."""
    if estimator.variation is None:
        return ZeroOutput() if estimator.zero_output else PLAIN
    if not isinstance(estimator.variation, Variation):
        raise InvalidTypeError(
            "variation",
            estimator.variation,
            "None, or Bootstrap(), NTKPosterior() or NNGPPosterior() of equitangents.ensembles",
        )
    if estimator.zero_output:
        raise InvalidArgumentError("zero_output", True, "False with a variation; only one can be set")
    return estimator.variation


def check_record(record: object, record_at: object, epochs: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """(`record` as a dictionary, `record_at` sorted; None: every epoch from 0 on)."""
    if record is None:
        if record_at is not None:
            raise InvalidArgumentError("record_at is given without record, the inputs whose outputs are kept")
        return {}, ()
    if not isinstance(record, Mapping) or not all(isinstance(name, str) for name in record):
        raise InvalidTypeError("record", type(record), "a dictionary of names and inputs X", verb="is of type")
    if record_at is None:
        return dict(record), tuple(range(epochs + 1))
    if not isinstance(record_at, Iterable):
        raise InvalidTypeError("record_at", record_at, "a list of epochs")
    for epoch in record_at:
        check_whole("an epoch of record_at", epoch, 0, epochs)
    return dict(record), tuple(sorted({int(epoch) for epoch in record_at}))
