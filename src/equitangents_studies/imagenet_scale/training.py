"""One network trained on images that are read as they are needed, on all devices, with checkpoints.

Stochastic gradient descent with momentum 0.9 on the cross-entropy, L2 penalty, gradients cut at norm 1, learning rate
up linearly for a twentieth of the steps and down to 0 as a cosine. All of it keeps its law when inputs are rotated,
which Adam does not. A batch is split over the devices, parameters are on each of them. Images follow one another epoch
after epoch, each in an order of its own, so every batch is full. What a step sees follows from the seed and its number.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from equitangents.errors import InvalidArgumentError
from equitangents.extending import append_checksum, whole_file
from equitangents.extending import checked_content as content
from equitangents_studies.data.class_folders import ImageFiles
from equitangents_studies.framework.study import Task
from equitangents_studies.systems.transformations import ChannelRotations, Permutation, Transformation

_AHEAD = 2  # batches that are read while one is trained on


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: `steps` of `batch` images of `pixels` × `pixels`, kept every `every` steps."""

    pixels: int
    batch: int
    steps: int
    rate: float
    decay: float
    augment: bool
    every: int
    seed: int


class State(NamedTuple):
    """What a step changes."""

    params: Any
    statistics: Any
    optimizer: Any
    step: jax.Array


def train(module: Any, files: ImageFiles, tau: Transformation, recipe: Recipe, kept: Path, task: Task) -> State:
    """`module` trained on `files` moved by `tau`; goes on from what lies in `kept`, if anything does."""
    devices = _Devices()
    state = devices.everywhere(_begin(module, recipe))
    path = kept / "state.msgpack"
    if path.is_file():
        state = devices.everywhere(_restored(state, path))
    move, done = devices.everywhere(_as_array(tau)), int(state.step)
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        for x, y in _batches(files, recipe, done, workers):
            rate = jnp.float32(rate_at(recipe, done))
            state = _step(module, recipe.decay, state, _moved(devices.split(x), move), devices.split(y), rate)
            done += 1
            if done % recipe.every == 0 and done < recipe.steps:
                keep(state, path)
            task.step(done, recipe.steps)
    return state


def right(module: Any, state: State, files: ImageFiles, tau: Transformation, recipe: Recipe) -> np.ndarray:
    """Which of `files`, moved by `tau`, are classified rightly, (N,)."""
    devices, batch = _Devices(), recipe.batch
    move, found = devices.everywhere(_as_array(tau)), []
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        for begin in range(0, len(files), batch):
            rows = np.arange(begin, begin + batch) % len(files)  # the last batch is full, too
            x = devices.split(files.read(rows, recipe.pixels, workers=workers))
            outputs = np.asarray(_outputs(module, state, _moved(x, move)))
            found.append((outputs.argmax(axis=1) == files.labels[rows]) & np.isfinite(outputs).all(axis=1))
    return np.concatenate(found)[: len(files)]


def keep(state: State, path: Path) -> None:
    """Write a checkpoint; what was there before stays until the new one is complete."""
    held = serialization.to_bytes(jax.tree.map(np.asarray, state))
    with whole_file(path) as partial_path:
        partial_path.write_bytes(held)
        append_checksum(partial_path)


def standardised(x: jax.Array) -> jax.Array:
    """Colours from 0 to 255 as numbers from −2 to 2, the same for all images and channels."""
    return (x.astype(jnp.float32) / 255 - 0.5) / 0.25


def image_rows(count: int, recipe: Recipe, step: int) -> np.ndarray:
    """The rows of the `count` training images that a step sees."""
    places = np.arange(step * recipe.batch, (step + 1) * recipe.batch)
    rows = np.empty(len(places), np.int64)
    for epoch in np.unique(places // count).tolist():
        mine = places // count == epoch
        rows[mine] = _order(count, recipe.seed, epoch)[places[mine] % count]
    return rows


@lru_cache(maxsize=4)
def _order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the images in an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(count)


class _Devices:
    """All devices of this machine as one line; batches are split along it."""

    def __init__(self) -> None:
        self._mesh = Mesh(np.array(jax.local_devices()), ("batch",))

    def everywhere(self, tree: Any) -> Any:
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def split(self, x: np.ndarray) -> jax.Array:
        return jax.device_put(x, NamedSharding(self._mesh, PartitionSpec("batch")))


def _begin(module: Any, recipe: Recipe) -> State:
    variables = _init(module, recipe.pixels, jax.random.key(recipe.seed))
    params, statistics = variables["params"], variables.get("batch_stats", {})
    return State(params, statistics, _rule(0.0).init(params), jnp.zeros((), jnp.int32))


def _restored(like: State, path: Path) -> State:
    """The state of a checkpoint."""
    try:
        return serialization.from_bytes(like, content(path))
    except Exception as error:  # whatever msgpack makes of it
        raise InvalidArgumentError(f"{path} is not a checkpoint of this network: {error}") from None


def _as_array(tau: Transformation) -> jax.Array:
    """Rotations (positions or 1, 3, 3), or the order (coordinates,) of a permutation."""
    if isinstance(tau, ChannelRotations):
        return jnp.asarray(tau.matrices, jnp.float32)
    assert isinstance(tau, Permutation)
    return jnp.asarray(tau.order, jnp.int32)


@jax.jit
def _moved(x: jax.Array, tau: jax.Array) -> jax.Array:
    """Standardised images, moved."""
    n, *shape = x.shape
    x = standardised(x)
    if tau.ndim == 1:
        return x.reshape(n, -1)[:, tau].reshape(n, *shape)
    pixels = x.reshape(n, -1, shape[-1])
    tau = jnp.broadcast_to(tau, (pixels.shape[1], *tau.shape[1:]))
    moved = jnp.einsum("pij,npj->npi", tau, pixels, precision=jax.lax.Precision.HIGHEST)
    return moved.reshape(n, *shape)


def rate_at(recipe: Recipe, step: int) -> float:
    """The learning rate of a step: up linearly, then down as a cosine."""
    warm = max(1, recipe.steps // 20)
    if step < warm:
        return recipe.rate * (step + 1) / warm
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(recipe.steps - warm, 1)))


def _rule(decay: float) -> optax.GradientTransformation:
    """All but the learning rate, which is an argument: so trainings of any length share what is compiled."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(decay), optax.trace(0.9))


@partial(jax.jit, static_argnums=(0, 1))
def _init(module: Any, pixels: int, key: jax.Array) -> Any:
    return module.init(key, jnp.zeros((1, pixels, pixels, 3)), train=False)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _step(module: Any, decay: float, state: State, x: jax.Array, y: jax.Array, rate: jax.Array) -> State:
    def loss(params: Any) -> tuple[jax.Array, Any]:
        variables = {"params": params, "batch_stats": state.statistics}
        outputs, changed = module.apply(variables, x, train=True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean(), changed.get("batch_stats", {})

    gradient, statistics = jax.grad(loss, has_aux=True)(state.params)
    updates, optimizer = _rule(decay).update(gradient, state.optimizer, state.params)
    params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
    return State(params, statistics, optimizer, state.step + 1)


@partial(jax.jit, static_argnums=0)
def _outputs(module: Any, state: State, x: jax.Array) -> jax.Array:
    return module.apply({"params": state.params, "batch_stats": state.statistics}, x, train=False)


def _batches(
    files: ImageFiles, recipe: Recipe, begin: int, workers: Executor
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images and labels of the steps from `begin` on; a few batches are read ahead, no more are held."""

    def read(step: int) -> tuple[np.ndarray, np.ndarray]:
        rows = image_rows(len(files), recipe, step)
        crops = np.random.default_rng([recipe.seed, step, 1]).random((len(rows), 5)) if recipe.augment else None
        return files.read(rows, recipe.pixels, crops=crops, workers=workers), files.labels[rows].astype(np.int32)

    ahead: deque[Future[tuple[np.ndarray, np.ndarray]]] = deque()
    with ThreadPoolExecutor(1) as reader:
        for step in range(begin, recipe.steps):
            while len(ahead) <= _AHEAD and step + len(ahead) < recipe.steps:
                ahead.append(reader.submit(read, step + len(ahead)))
            yield ahead.popleft().result()
