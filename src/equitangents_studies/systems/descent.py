"""Members trained by stochastic gradient descent with momentum, each at a learning rate of its own, each stopped alone.

loss of a batch B   (1/2K|B|) Σ_{i∈B} |f(x_i) − y_i|² + (λ/2) Σ |θ|²
step                v ← m v + ∇loss,  θ ← θ − η v

A `NetworkJob` minimises K times the first term, so gradients of the second are multiplied by K and η is divided
by K. A member that is stopped goes on at learning rate 0, which changes none of its bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.exceptions import ConvergenceWarning

from equitangents.extending import (
    ArrayLike,
    FiniteNetwork,
    Params,
    check_number,
    check_whole,
    network_job,
    precision,
)
from equitangents_studies.systems.conventions import check_choice
from equitangents_studies.systems.coupling import coupled
from equitangents_studies.systems.tangent_spectrum import largest_eigenvalue
from equitangents_studies.systems.transformations import Transformation


@final
@dataclass(frozen=True)
class GradientInference:
    """Finite networks by stochastic gradient descent with momentum; the module says what η and λ are.

    Args:
        name: what reports call it.
        c: η in units of 2/λ_max.
        weight_decay: λ of the penalty (λ/2) Σ |θ|².
        momentum: m.
        batch_size: samples a step.
        epochs: at most so many.
        members: independent networks, member i a function of (seed, i).
        learning_rate: η itself; None: c · 2/λ_max, measured for every member at its initialisation.
        eigenvalue_inputs: the training inputs that λ_max is measured on, the first so many; None: all.
        stop_at: training accuracy at which a member stops; None: it never does.
        dtype: "float32" or "float64".
    """

    name: str = "NN"
    c: float = 1.0
    weight_decay: float = 0.0
    momentum: float = 0.9
    batch_size: int = 40
    epochs: int = 200
    members: int = 1
    learning_rate: float | None = None
    eigenvalue_inputs: int | None = 256
    stop_at: float | None = 1.0
    dtype: str = "float32"

    finite = True

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "members"):
            check_whole(name, getattr(self, name), 1)
        if self.eigenvalue_inputs is not None:
            check_whole("eigenvalue_inputs", self.eigenvalue_inputs, 1)
        check_number("c", self.c, "a finite number above 0", lambda c: c > 0)
        check_number("weight_decay", self.weight_decay, "a finite number, at least 0", lambda decay: decay >= 0)
        check_number("momentum", self.momentum, "a number from 0 to below 1", lambda m: 0 <= m < 1)
        if self.learning_rate is not None:
            wanted = "None, or a finite number above 0"
            check_number("learning_rate", self.learning_rate, wanted, lambda rate: rate > 0)
        if self.stop_at is not None:
            check_number("stop_at", self.stop_at, "None, or above 0 up to 1", lambda share: 0 < share <= 1)
        check_choice("dtype", self.dtype, ("float32", "float64"))

    def fit(
        self,
        net: FiniteNetwork,
        x: np.ndarray,
        y: np.ndarray,
        index: np.ndarray | None,
        *,
        seed: int,
        coupling: Transformation | None = None,
        watch: Labelled | None = None,
    ) -> NetworkModel:
        """Members trained on x (N, …), targets y (N, K), classes `index` (N,).

        `coupling`: start from the coupled initialisation of this transformation. `watch`: inputs and classes whose
        accuracy is noted after every epoch.
        """
        self._warn_if_unstable(y.shape[1])
        prepared = (lambda params: params) if coupling is None else lambda params: coupled(net, params, coupling)
        trained = train(self, net, x, y, index, seed=seed, prepared=prepared, watch=watch)
        if not np.isfinite(trained.losses).all():
            bad = int((~np.isfinite(trained.losses)).sum())
            warnings.warn(
                f"training diverged for {bad} of {self.members} members; lower c, which is {self.c}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return NetworkModel(net, trained, self.dtype)

    def learning_rates(self, net: FiniteNetwork, params: Params, x: np.ndarray) -> np.ndarray:
        """η of members, given their stacked initial parameters and the training inputs."""
        members = len(jax.tree.leaves(params)[0])
        if self.learning_rate is not None:
            return np.full(members, self.learning_rate)
        of = lambda i: largest_eigenvalue(net, jax.tree.map(lambda a: a[i], params), x[: self.eigenvalue_inputs]).value
        return np.array([self.c * 2 / of(i) for i in range(members)])

    def _warn_if_unstable(self, outputs: int) -> None:
        bound = (1 + self.momentum) * outputs
        if self.learning_rate is None and self.c >= bound:
            warnings.warn(
                f"c is {self.c}; with momentum {self.momentum} and {outputs} outputs full-batch descent on a quadratic "
                f"is stable below (1 + momentum) · outputs = {bound:g}: training may diverge",
                ConvergenceWarning,
                stacklevel=4,
            )


@dataclass(frozen=True, eq=False)
class Trained:
    """Members after training.

    Args:
        params: stacked over members.
        epochs: (members,), after how many epochs each was stopped, or the last.
        losses: (members,), the mean loss of each one's last epoch, without the penalty.
        accuracies: (members,), on the training data at the end; NaN where there are no classes.
        watched: (epochs, members), accuracies on other data after every epoch; a stopped member's stay.
    """

    params: Params
    epochs: np.ndarray
    losses: np.ndarray
    accuracies: np.ndarray
    watched: np.ndarray


class Labelled(NamedTuple):
    """Inputs (N, …) and the number of the class of each, (N,)."""

    x: np.ndarray
    classes: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class NetworkModel:
    """Members of finite width, trained."""

    net: FiniteNetwork
    trained: Trained
    dtype: str

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean over members."""
        return self.predict_members(x).mean(axis=0, dtype=np.float64)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs of all members one by one."""
        return network_job.member_outputs(self.net, self.trained.params, np.asarray(x), self.dtype)


def train(
    how: GradientInference,
    net: FiniteNetwork,
    x: np.ndarray,
    y: np.ndarray,
    index: np.ndarray | None,
    *,
    seed: int,
    prepared: Callable[[Params], Params],
    watch: Labelled | None = None,
) -> Trained:
    """Train members 0 to `how.members` − 1 on x (N, …), targets y (N, K), classes `index` (N,) or None.

    `prepared` changes stacked initial parameters.
    """
    rule = _rule(how.momentum, how.weight_decay * y.shape[1])
    job, chunk = network_job.planned_job(
        net, rule, x, y, batch_size=how.batch_size, members=how.members, seed=seed, dtype=how.dtype
    )
    descent = _Descent(how, job, index, prepared, watch)
    with job.workers() as workers:
        parts = workers.map(descent.of_members, job.groups(chunk), first_alone=True)
    cut = lambda arrays: np.concatenate(arrays, axis=-1)[..., : how.members]
    length = max(len(part.watched) for part in parts)
    grown = [np.concatenate([p.watched, np.repeat(p.watched[-1:], length - len(p.watched), axis=0)]) for p in parts]
    return Trained(
        jax.tree.map(lambda *leaves: np.concatenate(leaves)[: how.members], *[part.params for part in parts]),
        cut([part.epochs for part in parts]),
        cut([part.losses for part in parts]),
        cut([part.accuracies for part in parts]),
        cut(grown),
    )


@dataclass(frozen=True, eq=False)
class _Descent:
    """Training of some members at a time on the same data."""

    how: GradientInference
    job: network_job.NetworkJob
    index: np.ndarray | None
    prepared: Callable[[Params], Params]
    watch: Labelled | None

    @cached_property
    def _begin(self) -> Callable[[range], network_job.NetworkChunk]:
        return self.job.beginner()

    def of_members(self, ids: range) -> Trained:
        """The members `ids`, which share a call."""
        how, net, dtype, x, index = self.how, self.job.recipe.net, self.job.dtype, self.job.x, self.index
        chunk, count, outputs = self._begin(ids), len(ids), self.job.numbers
        with precision.scope(dtype):
            params = jax.tree.map(jnp.asarray, self.prepared(chunk.params()))
        rate = np.asarray(how.learning_rates(net, params, x), dtype) / outputs
        stopped = np.full(count, how.epochs)
        accuracy, losses = np.full(count, np.nan), np.full(count, np.nan)
        watched: list[np.ndarray] = []
        for epoch in range(how.epochs):
            chunk.restore(jax.tree.leaves(params), _at_rates(chunk.state(), np.where(stopped > epoch, rate, 0)))
            loss = np.asarray(chunk.advance(epoch, 1)[0], np.float64) / outputs
            losses = np.where(stopped > epoch, loss, losses)
            params = chunk.params()
            if self.watch is not None:
                watched.append(accuracies(net, params, *self.watch, dtype))
            if index is not None and (how.stop_at is not None or epoch + 1 == how.epochs):
                accuracy = accuracies(net, params, x, index, dtype)
            if index is not None and how.stop_at is not None:
                stopped = np.where((stopped > epoch) & (accuracy >= how.stop_at), epoch + 1, stopped)
                if (stopped <= epoch + 1).all():
                    break
        arrays = jax.tree.map(np.asarray, params)
        return Trained(arrays, stopped, losses, accuracy, np.reshape(watched, (len(watched), count)))


def accuracies(net: FiniteNetwork, params: Params, x: np.ndarray, index: np.ndarray, dtype: str) -> np.ndarray:
    """The share of inputs that each member classifies rightly, (members,); outputs that are not finite are wrong."""
    y = network_job.member_outputs(net, params, x, dtype)
    right = (y.argmax(axis=-1) == index) & np.isfinite(y).all(axis=-1)
    return right.mean(axis=1)


class _Rate(NamedTuple):
    """A member's learning rate, as optimiser state."""

    rate: jax.Array


@lru_cache(maxsize=64)
def _rule(momentum: float, decay: float) -> optax.GradientTransformation:
    """Penalty, momentum, and the member's own learning rate, which `_at_rates` sets; one object for equal arguments."""
    penalty = [optax.add_decayed_weights(decay)] if decay else []
    return optax.chain(*penalty, *([optax.trace(momentum)] if momentum else []), _own_rate())


def _own_rate() -> optax.GradientTransformation:
    def init(params: Params) -> _Rate:
        return _Rate(jnp.zeros((), jax.tree.leaves(params)[0].dtype))

    def update(gradient: optax.Updates, state: _Rate, params: Params = None) -> tuple[optax.Updates, _Rate]:
        return jax.tree.map(lambda g: -state.rate * g, gradient), state

    return optax.GradientTransformation(init, update)


def _at_rates(state: Sequence[jax.Array], rates: np.ndarray) -> list[ArrayLike]:
    """The leaves of the members' optimiser states, of which the last are these learning rates."""
    return [*state[:-1], rates]
