"""Training of finite networks, written for one member and mapped over many.

θ_0 = net.init(init_key), θ ← optimiser(θ, ∇L) on the batches that order_key draws; both keys are functions only of
(seed, member). A convolution in `net.apply` is patches and a matrix product, so that `vmap` over members is a
batched matrix product.

A batch's loss L is the mean over its samples of

mse            ½ Σ_k (f_k − y_k)², so that L = (1/2N) Σ_i |f(x_i) − y_i|², not divided by the outputs
cross_entropy  −Σ_k y_k log softmax(f)_k, y a probability distribution; for fields a sum over positions

gd        full-batch gradient descent θ ← θ − η ∇L: k steps are k units of gradient-flow time at learning rate η
sgd       the same on mini-batches
momentum  v ← m v + ∇L, θ ← θ − η v
adam      with optax's defaults
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from equitangents._aliases import FiniteNetwork
from equitangents._types import InputShape, Network, Params, Tree
from equitangents.ensembles.networks import TRAINED, ForeignNetwork, split
from equitangents.ensembles.training.variations import PLAIN, Variation
from equitangents.nn.compiled_windows import compiled_windows

ScalarLike = int | np.integer | jax.Array
LOSSES = ("mse", "cross_entropy")
SEGMENT = 512
"""The most epochs that one call of `run_epochs` can make."""
NOISE = 0x6E6F_6973
"""Folded into an epoch's key, which also draws the order of the data, for random numbers of the network."""


def sample_losses(loss: str, outputs: jax.Array, targets: jax.Array, classes: int | None = None) -> jax.Array:
    """The loss of each sample, (N,); rows of fields hold `classes` values per position."""
    if loss == "mse":
        return 0.5 * jnp.sum((outputs - targets) ** 2, axis=-1)
    if classes is not None:
        outputs, targets = (a.reshape(*a.shape[:-1], -1, classes) for a in (outputs, targets))
    found = -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)
    return found if classes is None else found.sum(axis=-1)


@lru_cache(maxsize=128)
def rule_of(optimizer: str, learning_rate: float, momentum: float) -> optax.GradientTransformation:
    """An optimiser by its name; equal arguments give the same object."""
    if optimizer == "adam":
        return optax.adam(learning_rate)
    return optax.sgd(learning_rate, momentum=momentum if optimizer == "momentum" else None)


@dataclass(frozen=True)
class Batches:
    """How an epoch runs over its samples.

    Args:
        samples: samples visited per epoch, each once.
        batch_size: samples per step; the last step of an epoch may have fewer.
        rows: rows of a batch computed at once; larger batches are accumulated in blocks.
        copies: 1, or the number of transformed copies from which each sample is drawn: copy g of sample i is row
            g · samples + i of the data.
        shuffle: whether the order is random.
    """

    samples: int
    batch_size: int
    rows: int
    copies: int = 1
    shuffle: bool = True

    @property
    def steps(self) -> int:
        """Number of optimiser steps per epoch."""
        return -(-self.samples // self.batch_size)

    @property
    def blocks(self) -> int:
        """Number of blocks of rows per batch."""
        return -(-self.batch_size // self.rows)

    @property
    def full_batch(self) -> bool:
        """Whether each step takes all data in their original order."""
        return self.batch_size == self.samples == self.rows and self.copies == 1 and not self.shuffle

    def draw(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(samples, weights 1 or 0 for padding), each (steps, blocks, rows)."""

        def arranged(values: jax.Array) -> jax.Array:
            values = jnp.pad(values, (0, self.steps * self.batch_size - self.samples))
            values = values.reshape(self.steps, self.batch_size)
            values = jnp.pad(values, ((0, 0), (0, self.blocks * self.rows - self.batch_size)))
            return values.reshape(self.steps, self.blocks, self.rows)

        return arranged(self.order(key)), arranged(jnp.ones(self.samples, dtype=jnp.int32))

    def order(self, key: jax.Array) -> jax.Array:
        """The rows of the data in the order of one epoch, (samples,)."""
        order_key, copy_key = jax.random.split(key)
        index = jnp.arange(self.samples, dtype=jnp.int32)
        if self.shuffle:
            index = jax.random.permutation(order_key, index)
        if self.copies > 1:
            copy = jax.random.randint(copy_key, (self.samples,), 0, self.copies, dtype=jnp.int32)
            index = index + self.samples * copy
        return index


@dataclass(frozen=True)
class Recipe:
    """Everything that determines training besides data and seed; hashable, so that it is compiled once."""

    net: Network
    loss: str
    rule: optax.GradientTransformation
    batches: Batches
    variation: Variation = PLAIN
    batchwise: bool = False  # whether the network needs batches whole
    classes: int | None = None  # of fields, at each position

    def trained(self, params: Params) -> Params:
        """A member's variables that the optimiser updates."""
        return split(params)[0] if self.batchwise else params

    @property
    def transformation(self) -> optax.GradientTransformation:
        """The optimiser, modified by the variation."""
        if self.variation == PLAIN:
            return self.rule
        return self.variation.transformation(self.rule, self.batches.samples * self.batches.copies)

    def losses(self, outputs: jax.Array, offset: jax.Array | None, y: jax.Array) -> jax.Array:
        """The loss of each sample, (N,)."""
        outputs = flat(outputs)
        return sample_losses(self.loss, outputs if offset is None else outputs - offset, y, self.classes)


class Members(NamedTuple):
    """Members in training: every leaf has a leading axis over members. `keys` are data of order_keys."""

    keys: jax.Array
    params: Params
    optimizer_state: Tree


class Own(NamedTuple):
    """Data that differ between members, besides parameters; leading axis: members.

    offsets: (members, rows of x, outputs), subtracted from outputs in training, or None.
    rows: (members, rows of x), indices of the rows of x and y that replace each row, or None.
    """

    offsets: jax.Array | None = None
    rows: jax.Array | None = None

    def at(self, index: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """(rows of x and y, offsets) of one member for these rows."""
        index = index if self.rows is None else self.rows[index]
        return index, None if self.offsets is None else self.offsets[index]


def member_keys(seed: ScalarLike, member: ScalarLike) -> tuple[jax.Array, jax.Array]:
    """(init_key, order_key) of one member: its initial parameters, and the order of its data.

    >>> import jax
    >>> init_key, order_key = member_keys(seed=0, member=7)
    >>> first, second = jax.random.split(jax.random.fold_in(jax.random.key(0), 7))
    >>> bool(init_key == first), bool(order_key == second)
    (True, True)
    """
    init_key, order_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), member))
    return init_key, order_key


@partial(jax.jit, static_argnames=("net", "input_shape", "dtype"))
def _init_member(
    net: FiniteNetwork, input_shape: InputShape, dtype: str, seed: ScalarLike, member: ScalarLike
) -> tuple[jax.Array, Params]:
    init_key, order_key = member_keys(seed, member)
    return jax.random.key_data(order_key), net.init(init_key, input_shape, dtype)


def init_members(recipe: Recipe, input_shape: InputShape, dtype: str, seed: int, ids: Sequence[int]) -> Members:
    """The members `ids` before training.

    Initialised one after another by one small program; `vmap` over members would take longer to compile.
    """
    members = [_init_member(recipe.net, input_shape, dtype, np.uint32(seed), np.uint32(i)) for i in ids]
    stack = lambda *leaves: jnp.asarray(np.stack(leaves))
    keys, params = jax.tree.map(stack, *members)
    return Members(keys, params, jax.vmap(recipe.transformation.init)(recipe.trained(params)))


def member_shapes(recipe: Recipe, input_shape: InputShape, dtype: str) -> Members:
    """Shapes of one member, without computing it."""
    keys, params = jax.eval_shape(partial(_init_member, recipe.net, input_shape, dtype), np.uint32(0), np.uint32(0))
    return Members(keys, params, jax.eval_shape(recipe.transformation.init, recipe.trained(params)))


@partial(jax.jit, static_argnames=("recipe",), donate_argnames=("members",))
def run_epochs(
    recipe: Recipe, members: Members, own: Own, x: jax.Array, y: jax.Array, first: ScalarLike, count: ScalarLike
) -> tuple[Members, jax.Array]:
    """Train all members for the epochs first, …, first + count − 1, count ≤ SEGMENT.

    Returns the members and losses (SEGMENT, members), of which the first `count` rows are set: the mean over the
    epoch's samples, each before the step that uses it. `count` is not a static argument: epochs run the same machine
    code however many run in one call, so that splitting a run changes no bit of it.
    """
    epoch_of = _batchwise_epoch if recipe.batchwise else _epoch

    def epoch(i: jax.Array, carry: tuple[Members, jax.Array]) -> tuple[Members, jax.Array]:
        def one(member: Members, own: Own) -> tuple[Params, Tree, jax.Array]:
            key = jax.random.fold_in(jax.random.wrap_key_data(member.keys), first + i)
            return epoch_of(recipe, key, member.params, member.optimizer_state, own, x, y)

        members, losses = carry
        params, state, loss = jax.vmap(one)(members, own)
        return Members(members.keys, params, state), losses.at[i].set(loss)

    losses = jnp.zeros((SEGMENT, len(members.keys)), y.dtype)
    return jax.lax.fori_loop(0, count, epoch, (members, losses))


def _epoch(
    recipe: Recipe, key: jax.Array, params: Params, state: Tree, own: Own, x: jax.Array, y: jax.Array
) -> tuple[Params, Tree, jax.Array]:
    update, batches = recipe.transformation.update, recipe.batches

    def step(carry: tuple[Params, Tree], batch: Tree) -> tuple[tuple[Params, Tree], jax.Array]:
        params, state = carry
        loss, gradient, samples = loss_and_gradient(recipe, params, own, batch, x, y)
        updates, state = update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), loss * samples

    if batches.full_batch and own.rows is None:
        carry, total = step((params, state), None)
    else:
        carry, totals = jax.lax.scan(step, (params, state), batches.draw(key))
        total = totals.sum()
    return *carry, total / batches.samples


def loss_and_gradient(
    recipe: Recipe, params: Params, own: Own, batch: Tree, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, Params, jax.Array | int]:
    """(mean loss, its gradient, number of samples) of one member on one batch, (index, weight) each (blocks, rows)."""
    batches, of = recipe.batches, jax.value_and_grad(partial(_loss, recipe))
    if batches.full_batch and own.rows is None:
        loss, gradient = of(params, own.offsets, x, y, None, batches.samples)
        return loss, gradient, batches.samples
    index, weight = batch
    samples = weight.sum().astype(y.dtype)

    def block(index: jax.Array, weight: jax.Array) -> tuple[jax.Array, Params]:
        index, offset = own.at(index)
        found: tuple[jax.Array, Params] = of(params, offset, x[index], y[index], weight, samples)
        return found

    if batches.blocks == 1:
        return *block(index[0], weight[0]), samples
    add = lambda total, rows: (jax.tree.map(jnp.add, total, block(*rows)), None)
    zero = (jnp.zeros((), y.dtype), jax.tree.map(jnp.zeros_like, params))
    (loss, gradient), _ = jax.lax.scan(add, zero, (index, weight))
    return loss, gradient, samples


def _loss(
    recipe: Recipe,
    params: Params,
    offset: jax.Array | None,
    x: jax.Array,
    y: jax.Array,
    weight: jax.Array | None,
    samples: jax.Array | int,
) -> jax.Array:
    net = recipe.net
    with compiled_windows():
        foreign = isinstance(net, ForeignNetwork)  # one that treats each row of a batch alike, and draws nothing
        outputs = net.train(params, x, jax.random.key(0))[0] if foreign else net.apply(params, x)
    losses = recipe.losses(outputs, offset, y)
    return (losses if weight is None else losses * weight).sum() / samples


def flat(y: jax.Array) -> jax.Array:
    """Outputs (N, outputs); fields (N, *positions, outputs) are reshaped to rows."""
    return y if y.ndim == 2 else y.reshape(len(y), -1)


def _batchwise_epoch(
    recipe: Recipe, key: jax.Array, params: Params, state: Tree, own: Own, x: jax.Array, y: jax.Array
) -> tuple[Params, Tree, jax.Array]:
    """`_epoch` for a network with batch statistics or dropout: batches are not padded; the last may be smaller.

    Step s has the key fold_in(fold_in(epoch's key, NOISE), s).
    """
    update, noise, batches = recipe.transformation.update, jax.random.fold_in(key, NOISE), recipe.batches

    def step(carry: tuple[Params, Tree], batch: tuple[ScalarLike, jax.Array]) -> tuple[tuple[Params, Tree], jax.Array]:
        params, state = carry
        number, rows = batch
        index, offset = own.at(rows)
        step_key = jax.random.fold_in(noise, number)
        loss, gradient, carried = batch_gradient(recipe, params, offset, x[index], y[index], step_key)
        trained = recipe.trained(params)
        updates, state = update(gradient, state, trained)
        return ({TRAINED: optax.apply_updates(trained, updates), **carried}, state), loss * len(rows)

    order = batches.order(key)
    steps, rest = divmod(batches.samples, batches.batch_size)
    batched = order[: steps * batches.batch_size].reshape(steps, batches.batch_size)
    carry, totals = jax.lax.scan(step, (params, state), (jnp.arange(steps), batched))
    total = totals.sum()
    if rest:
        carry, last = step(carry, (steps, order[-rest:]))
        total = total + last
    return *carry, total / batches.samples


def batch_gradient(
    recipe: Recipe, params: Params, offset: jax.Array | None, x: jax.Array, y: jax.Array, key: jax.Array
) -> tuple[jax.Array, Params, dict[str, Tree]]:
    """(mean loss, its gradient, updated collections) of one member on one full batch."""
    trained, carried = split(params)

    def loss(trained: Params) -> tuple[jax.Array, dict[str, Tree]]:
        outputs, after = recipe.net.train({TRAINED: trained, **carried}, x, key)
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, carried)
        return recipe.losses(outputs, offset, y).mean(), after

    (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(trained)
    return value, gradient, after
