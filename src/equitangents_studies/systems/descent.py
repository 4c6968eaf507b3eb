"""Members trained by stochastic gradient descent with momentum, each at a learning rate of its own, each stopped alone.

loss of a batch B   (1/2K|B|) Σ_{i∈B} |f(x_i) − y_i|² + (λ/p) Σ |θ|^p
step                v ← m v + ∇loss,  θ ← θ − η v

`ensembles.training` minimises K times the first term, so gradients of the second are multiplied by K and η is divided
by K. A member that is stopped goes on at learning rate 0, which changes none of its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from equitangents.extending import (
    PLAIN,
    Batches,
    FiniteNetwork,
    Own,
    Params,
    Plan,
    Recipe,
    Workers,
    evaluate,
    init_members,
    make_plan,
    member_shapes,
    outputs,
    precision,
    rows_at_once,
    run_epochs,
)


@dataclass(frozen=True)
class Steps:
    """How one member is trained; `weight_decay` is λ and `power` is p."""

    momentum: float
    batch_size: int
    epochs: int
    weight_decay: float
    power: float
    stop_at: float | None
    dtype: str


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


def prepare(net: FiniteNetwork, x: np.ndarray, y: np.ndarray, steps: Steps) -> tuple[Recipe, Plan]:
    """What is computed, and how many members and rows at a time."""
    size = min(steps.batch_size, len(x))
    batches = Batches(len(x), size, size, shuffle=size < len(x))
    rule = _rule(steps.momentum, steps.weight_decay * y.shape[1], steps.power)
    recipe = Recipe(net, "mse", rule, 1.0, 0.0, batches)
    with precision.scope(steps.dtype):
        plan = make_plan(recipe, member_shapes(recipe, x.shape[1:], steps.dtype), x, y, 1, None)
    batches = Batches(len(x), size, plan.rows, shuffle=size < len(x))
    return Recipe(net, "mse", rule, 1.0, 0.0, batches), plan


def train(
    recipe: Recipe,
    plan: Plan,
    x: np.ndarray,
    y: np.ndarray,
    index: np.ndarray | None,
    steps: Steps,
    *,
    members: int,
    seed: int,
    prepared: Callable[[Params], Params],
    rates: Callable[[Params, Sequence[int]], np.ndarray],
    watch: Labelled | None = None,
) -> Trained:
    """Train members 0 to `members` − 1 on x (N, …), targets y (N, K), classes `index` (N,) or None.

    `prepared` changes stacked initial parameters; `rates` gives a member's η for these and the members' numbers.
    """
    x, y = x.astype(steps.dtype), y.astype(steps.dtype)
    begins = range(0, members, plan.chunk)
    of_chunk = partial(_train_chunk, recipe, plan, x, y, index, steps, seed, prepared, rates, watch)
    with Workers() as workers:
        parts = workers.map(of_chunk, begins, first_alone=True)
    cut = lambda arrays: np.concatenate(arrays, axis=-1)[..., :members]
    length = max(len(part.watched) for part in parts)
    grown = [np.concatenate([p.watched, np.repeat(p.watched[-1:], length - len(p.watched), axis=0)]) for p in parts]
    return Trained(
        jax.tree.map(lambda *leaves: np.concatenate(leaves)[:members], *[part.params for part in parts]),
        cut([part.epochs for part in parts]),
        cut([part.losses for part in parts]),
        cut([part.accuracies for part in parts]),
        cut(grown),
    )


def _train_chunk(
    recipe: Recipe,
    plan: Plan,
    x: np.ndarray,
    y: np.ndarray,
    index: np.ndarray | None,
    steps: Steps,
    seed: int,
    prepared: Callable[[Params], Params],
    rates: Callable[[Params, Sequence[int]], np.ndarray],
    watch: Labelled | None,
    begin: int,
) -> Trained:
    ids = range(begin, begin + plan.chunk)
    with precision.scope(steps.dtype):
        start = init_members(recipe, x.shape[1:], steps.dtype, seed, ids)
        params = jax.tree.map(jnp.asarray, prepared(start.params))
        rate = np.asarray(rates(params, ids), steps.dtype) / y.shape[1]
        state, inputs, targets = start.optimizer_state, jnp.asarray(x), jnp.asarray(y)
        stopped = np.full(plan.chunk, steps.epochs)
        accuracy, losses = np.full(plan.chunk, np.nan), np.full(plan.chunk, np.nan)
        watched: list[np.ndarray] = []
        for epoch in range(steps.epochs):
            state = _at_rates(state, jnp.asarray(np.where(stopped > epoch, rate, 0)))
            params, state, history = run_epochs(
                recipe, start.keys, params, state, Own(), inputs, targets, np.int32(epoch), np.int32(1)
            )
            losses = np.where(stopped > epoch, np.asarray(history[0], np.float64) / y.shape[1], losses)
            if watch is not None:
                watched.append(accuracies(recipe.net, params, *watch, steps.dtype))
            if index is not None and (steps.stop_at is not None or epoch + 1 == steps.epochs):
                accuracy = accuracies(recipe.net, params, x, index, steps.dtype)
            if index is not None and steps.stop_at is not None:
                stopped = np.where((stopped > epoch) & (accuracy >= steps.stop_at), epoch + 1, stopped)
                if (stopped <= epoch + 1).all():
                    break
        arrays = jax.tree.map(np.asarray, params)
    return Trained(arrays, stopped, losses, accuracy, np.reshape(watched, (len(watched), plan.chunk)))


def member_outputs(net: FiniteNetwork, params: Params, x: np.ndarray, dtype: str) -> np.ndarray:
    """Outputs (members, N, K) of stacked members."""
    with precision.scope(dtype):
        params = jax.tree.map(jnp.asarray, params)
    size = rows_at_once(net, params, x, dtype)
    return evaluate(partial(outputs, net, PLAIN, params, None), x, dtype, size)


def accuracies(net: FiniteNetwork, params: Params, x: np.ndarray, index: np.ndarray, dtype: str) -> np.ndarray:
    """The share of inputs that each member classifies rightly, (members,); outputs that are not finite are wrong."""
    y = member_outputs(net, params, x, dtype)
    right = (y.argmax(axis=-1) == index) & np.isfinite(y).all(axis=-1)
    return right.mean(axis=1)


class _Rate(NamedTuple):
    """A member's learning rate, as optimiser state."""

    rate: Any


@lru_cache(maxsize=64)
def _rule(momentum: float, decay: float, power: float) -> optax.GradientTransformation:
    """Penalty, momentum, and the member's own learning rate, which `_at_rates` sets; one object for equal arguments."""
    parts = [optax.trace(momentum)] if momentum else []
    return optax.chain(*([_penalty(decay, power)] if decay else []), *parts, _own_rate())


def _penalty(decay: float, power: float) -> optax.GradientTransformation:
    """Adds the gradient of (λ/p) Σ |θ|^p, λ |θ|^(p−1) sign θ."""
    slope = lambda p: p if power == 2 else jnp.sign(p) * jnp.abs(p) ** (power - 1)

    def update(gradient: Any, state: Any, params: Params = None) -> tuple[Any, Any]:
        return jax.tree.map(lambda g, p: g + decay * slope(p), gradient, params), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _own_rate() -> optax.GradientTransformation:
    def init(params: Params) -> _Rate:
        return _Rate(jnp.zeros((), jax.tree.leaves(params)[0].dtype))

    def update(gradient: Any, state: _Rate, params: Params = None) -> tuple[Any, _Rate]:
        return jax.tree.map(lambda g: -state.rate * g, gradient), state

    return optax.GradientTransformation(init, update)


def _at_rates(state: Any, rates: jax.Array) -> Any:
    """The members' optimiser state with these learning rates."""
    return (*state[:-1], _Rate(rates))
