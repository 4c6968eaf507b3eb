"""Train one network on images that are read when needed, with checkpoints.

Stochastic gradient descent with momentum 0.9 on the cross-entropy, L2 penalty, gradients cut at norm 1, learning rate
up linearly for a twentieth of the steps and down to 0 as a cosine. The law of training is invariant under rotations of
the inputs; Adam's would not be. Epochs follow one another without a gap, each in its own order, so every batch is full.
The batch of a step follows from the seed and the step's number.
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

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

from equitangents.errors import InvalidArgumentError
from equitangents.extending import Archive, atomic_file, open_regular, write_archive
from equitangents_studies.data.class_folders import ImageFiles
from equitangents_studies.framework.study import Task
from equitangents_studies.systems.transformations import Transformation

_SMALL = 64
RESNETS = {
    "ResNet-18": ((2, 2, 2, 2), False),
    "ResNet-34": ((3, 4, 6, 3), False),
    "ResNet-50": ((3, 4, 6, 3), True),
    "ResNet-101": ((3, 4, 23, 3), True),
}  # blocks of each stage, and whether they are bottlenecks
MIXERS = {"Mixer-S": (8, 512, 256, 2048), "Mixer-B": (12, 768, 384, 3072)}  # blocks, width, token and channel MLPs


class Block(nn.Module):
    """A residual block: two 3×3 convolutions, or 1×1, 3×3, 1×1 with four times the channels at the end."""

    channels: int
    stride: int
    bottleneck: bool

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """x (n, height, width, channels) to the block's output."""
        conv = partial(nn.Conv, use_bias=False)
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        pointwise = partial(nn.Dense, use_bias=False)  # 1×1; trains ResNet-50 1.5 times as fast as nn.Conv on CPUs
        strides = (self.stride, self.stride)
        if self.bottleneck:
            y = nn.relu(norm()(pointwise(self.channels)(x)))
            y = nn.relu(norm()(conv(self.channels, (3, 3), strides)(y)))
            y = pointwise(4 * self.channels)(y)
        else:
            y = nn.relu(norm()(conv(self.channels, (3, 3), strides)(x)))
            y = conv(self.channels, (3, 3))(y)
        y = norm(scale_init=nn.initializers.zeros)(y)
        if x.shape != y.shape:
            x = norm()(pointwise(y.shape[-1])(x[:, :: self.stride, :: self.stride]))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """Four stages of residual blocks, a global average, one linear layer."""

    blocks: tuple[int, ...]
    bottleneck: bool
    width: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Logits (n, classes) of images (n, height, width, 3)."""
        small = x.shape[1] <= _SMALL
        size, stride = (3, 1) if small else (7, 2)
        x = nn.Conv(self.width, (size, size), (stride, stride), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        if not small:
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, count in enumerate(self.blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                x = Block(self.width * 2**stage, stride, self.bottleneck)(x, train)
        return nn.Dense(self.classes)(x.mean(axis=(1, 2)))


class Mixer(nn.Module):
    """Patches through one linear layer, blocks that mix tokens, then channels, their mean, a linear layer."""

    blocks: int
    width: int
    token_width: int
    channel_width: int
    patch: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Logits (n, classes) of images (n, height, width, 3), the same in training and prediction."""
        p = (self.patch, self.patch)
        x = nn.Conv(self.width, p, p, padding="VALID")(x)
        x = x.reshape(len(x), -1, self.width)
        for _ in range(self.blocks):
            y = nn.LayerNorm()(x).swapaxes(1, 2)
            x = x + self._mlp(y, self.token_width).swapaxes(1, 2)
            x = x + self._mlp(nn.LayerNorm()(x), self.channel_width)
        return nn.Dense(self.classes, kernel_init=nn.initializers.zeros)(nn.LayerNorm()(x).mean(axis=1))

    def _mlp(self, x: jax.Array, width: int) -> jax.Array:
        return nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(width)(x)))


def network(name: str, classes: int, *, shrink: int = 1, patch: int = 16) -> nn.Module:
    """The network called `name`, of RESNETS or MIXERS."""
    if name in RESNETS:
        blocks, bottleneck = RESNETS[name]
        return ResNet(blocks=blocks, bottleneck=bottleneck, width=max(64 // shrink, 1), classes=classes)
    count, *widths = MIXERS[name]
    width, tokens, channels = (max(w // shrink, 1) for w in widths)
    return Mixer(blocks=count, width=width, token_width=tokens, channel_width=channels, patch=patch, classes=classes)


def parameters(module: nn.Module, pixels: int) -> int:
    """Number of parameters for images of `pixels` × `pixels`, without allocating them."""
    init = partial(module.init, train=False)
    shapes: Any = jax.eval_shape(init, jax.random.key(0), jnp.zeros((1, pixels, pixels, 3)))
    return sum(int(leaf.size) for leaf in jax.tree.leaves(shapes["params"]))


_AHEAD = 2  # batches that are read while one is trained on


@dataclass(frozen=True)
class NetworkRecipe:
    """Training of a network: `steps` of `batch` images of `pixels` × `pixels`, a checkpoint every `every` steps."""

    pixels: int
    batch: int
    steps: int
    rate: float
    decay: float
    augment: bool
    every: int
    seed: int


class NetworkState(NamedTuple):
    """Everything that a training step changes."""

    params: Any
    statistics: Any
    optimizer: Any
    step: jax.Array


def train(
    module: Any, files: ImageFiles, tau: Transformation, recipe: NetworkRecipe, kept: Path, task: Task
) -> NetworkState:
    """Train `module` on `files` moved by `tau`; resumes from a checkpoint in `kept`."""
    state = _begin(module, recipe)
    path = kept / "state.msgpack"
    if path.is_file():
        state = _restored(state, path)
    move, done = _as_array(tau), int(state.step)
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        for x, y in _batches(files, recipe, done, workers):
            rate = jnp.float32(rate_at(recipe, done))
            state = _step(module, recipe.decay, state, _moved(x, move), y, rate)
            done += 1
            if done % recipe.every == 0 and done < recipe.steps:
                keep(state, path)
            task.step(done, recipe.steps)
    return state


def right(
    module: Any, state: NetworkState, files: ImageFiles, tau: Transformation, recipe: NetworkRecipe
) -> np.ndarray:
    """Whether each of `files`, moved by `tau`, is classified correctly, (N,)."""
    batch, move, found = recipe.batch, _as_array(tau), []
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        for begin in range(0, len(files), batch):
            rows = np.arange(begin, begin + batch) % len(files)  # the last batch is full, too
            x = files.read(rows, recipe.pixels, workers=workers)
            outputs = np.asarray(_outputs(module, state, _moved(x, move)))
            found.append((outputs.argmax(axis=1) == files.labels[rows]) & np.isfinite(outputs).all(axis=1))
    return np.concatenate(found)[: len(files)]


def keep(state: NetworkState, path: Path) -> None:
    """Write a checkpoint; the earlier one stays until the new one is complete."""
    held = serialization.to_bytes(jax.tree.map(np.asarray, state))
    with atomic_file(path) as partial_path:
        write_archive(partial_path, {}, [np.frombuffer(held, np.uint8)])


def standardised(x: jax.Array) -> jax.Array:
    """Colours from 0 to 255 as numbers from −2 to 2, the same for all images and channels."""
    return (x.astype(jnp.float32) / 255 - 0.5) / 0.25


def image_rows(count: int, recipe: NetworkRecipe, step: int) -> np.ndarray:
    """Rows, among the `count` training images, of a step's batch."""
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


def _begin(module: Any, recipe: NetworkRecipe) -> NetworkState:
    variables = _init(module, recipe.pixels, jax.random.key(recipe.seed))
    params, statistics = variables["params"], variables.get("batch_stats", {})
    return NetworkState(params, statistics, _rule(0.0).init(params), jnp.zeros((), jnp.int32))


def _restored(like: NetworkState, path: Path) -> NetworkState:
    """The state of a checkpoint."""
    try:
        return serialization.from_bytes(like, Archive(open_regular(path)).array(0).tobytes())
    except Exception as error:  # whatever msgpack raises
        raise InvalidArgumentError("path", str(path), "a checkpoint of this network", str(error)) from None


def _as_array(tau: Transformation) -> jax.Array:
    """τ as an array: rotations (positions or 1, 3, 3), or the order (coordinates,) of a permutation."""
    return jnp.asarray(tau.values, jnp.int32 if tau.values.ndim == 1 else jnp.float32)


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


def rate_at(recipe: NetworkRecipe, step: int) -> float:
    """The learning rate of a step: up linearly, then down as a cosine."""
    warm = max(1, recipe.steps // 20)
    if step < warm:
        return recipe.rate * (step + 1) / warm
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(recipe.steps - warm, 1)))


def _rule(decay: float) -> optax.GradientTransformation:
    """The optimiser without the learning rate, which is an argument, so that runs of any length share compiled code."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(decay), optax.trace(0.9))


@partial(jax.jit, static_argnums=(0, 1))
def _init(module: Any, pixels: int, key: jax.Array) -> Any:
    return module.init(key, jnp.zeros((1, pixels, pixels, 3)), train=False)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _step(module: Any, decay: float, state: NetworkState, x: jax.Array, y: jax.Array, rate: jax.Array) -> NetworkState:
    def loss(params: Any) -> tuple[jax.Array, Any]:
        variables = {"params": params, "batch_stats": state.statistics}
        outputs, changed = module.apply(variables, x, train=True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean(), changed.get("batch_stats", {})

    gradient, statistics = jax.grad(loss, has_aux=True)(state.params)
    updates, optimizer = _rule(decay).update(gradient, state.optimizer, state.params)
    params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
    return NetworkState(params, statistics, optimizer, state.step + 1)


@partial(jax.jit, static_argnums=0)
def _outputs(module: Any, state: NetworkState, x: jax.Array) -> jax.Array:
    return module.apply({"params": state.params, "batch_stats": state.statistics}, x, train=False)


def _batches(
    files: ImageFiles, recipe: NetworkRecipe, begin: int, workers: Executor
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images and labels of the steps from `begin` on; only a few batches are read ahead."""

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
