"""Training data, all pairs (ρ_X(g) x_i, ρ_Y(g) y_i), and which of them an epoch visits in which order.

full    the data set is replaced by all N|G| pairs, g running slowest
random  every epoch visits each sample once, moved by a random element: copy g of sample i is row g·N + i

The order is a function of one key, so that nothing else has to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions.action import GroupAction
from equitangents.actions.subset import Augmentation, augmenting_elements
from equitangents.ensembles.fields.targets import moved_targets
from equitangents.inference import augment_inputs
from equitangents.inference.augmented import augment_targets


@dataclass(frozen=True)
class Augmented:
    """Data x (rows, …), y (rows, outputs); an epoch visits `samples`, each drawn from `copies` rows.

    targets (N, outputs), or fields: those of the N samples before augmentation.
    """

    x: np.ndarray
    y: np.ndarray
    samples: int
    copies: int
    targets: np.ndarray

    @property
    def transformed(self) -> int:
        """How many transformed copies of each sample the rows hold, running slowest."""
        return len(self.x) // len(self.targets)


def augment(
    action: Augmentation | None, label_action: GroupAction | None, mode: str, x: ArrayLike, y: np.ndarray, dtype: str
) -> Augmented:
    """The data that are trained on, in `dtype`; `action` None leaves them as they are.

    Targets may be fields, (N, *positions, outputs), which go with their positions, and end in one row each.

    The copies are made once, before training; images that are resampled cost no more later than exact ones.
    """
    if action is None:
        return Augmented(np.asarray(x, dtype), np.asarray(y.reshape(len(y), -1), dtype), len(x), 1, y)
    elements = augmenting_elements(action)
    moved = np.asarray(augment_inputs(action, x), dtype)
    if y.ndim > 2:
        targets = np.asarray(moved_targets(action, label_action, y).reshape(len(moved), -1), dtype)
    else:
        targets = np.asarray(augment_targets(label_action, y, elements), dtype)
    if mode == "full":
        return Augmented(moved, targets, len(moved), 1, y)
    return Augmented(moved, targets, len(x), len(elements), y)


@dataclass(frozen=True)
class Batches:
    """How an epoch runs over its samples.

    Args:
        samples: samples an epoch visits, each once.
        batch_size: of one step; the last step of an epoch may have fewer.
        rows: how many of a batch are computed at once; a batch of more is summed up in blocks.
        copies: 1, or the number of transformed copies that each sample is drawn from: copy g of sample i is row
            g · samples + i of the data.
        orbits: whether a sample comes in all its copies, in place of one that is drawn.
        shuffle: whether the order is random.
        gathered: whether each member has rows of its own in the place of the data's.
    """

    samples: int
    batch_size: int
    rows: int
    copies: int = 1
    shuffle: bool = True
    gathered: bool = False
    orbits: bool = False

    @property
    def each(self) -> int:
        """How many rows of the data a sample brings along."""
        return self.copies if self.orbits else 1

    def rows_of(self, index: jax.Array) -> jax.Array:
        """The rows of the data of some samples, copies running slowest."""
        if not self.orbits:
            return index
        return (self.samples * jnp.arange(self.copies, dtype=index.dtype)[:, None] + index).ravel()

    @property
    def steps(self) -> int:
        """How many optimiser steps an epoch takes."""
        return -(-self.samples // self.batch_size)

    @property
    def blocks(self) -> int:
        """How many blocks of rows a batch is computed in."""
        return -(-self.batch_size // self.rows)

    @property
    def whole(self) -> bool:
        """Whether each step takes all data in their own order, so that nothing is gathered."""
        own_order = self.shuffle or self.gathered
        return self.batch_size == self.samples == self.rows and self.copies == self.each and not own_order

    def draw(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(samples, weights 1 or 0 for padding), each (steps, blocks, rows)."""
        weight = jnp.ones(self.samples, dtype=jnp.int32)
        return self._arrange(self.order(key)), self._arrange(weight)

    def order(self, key: jax.Array) -> jax.Array:
        """The rows of the data that an epoch visits, one after another, (samples,); of `orbits` their first copies."""
        order_key, copy_key = jax.random.split(key)
        index = jnp.arange(self.samples, dtype=jnp.int32)
        if self.shuffle:
            index = jax.random.permutation(order_key, index)
        if self.copies > self.each:
            copy = jax.random.randint(copy_key, (self.samples,), 0, self.copies, dtype=jnp.int32)
            index = index + self.samples * copy
        return index

    def _arrange(self, values: jax.Array) -> jax.Array:
        values = jnp.pad(values, (0, self.steps * self.batch_size - self.samples))
        values = values.reshape(self.steps, self.batch_size)
        values = jnp.pad(values, ((0, 0), (0, self.blocks * self.rows - self.batch_size)))
        return values.reshape(self.steps, self.blocks, self.rows)
