"""Structure of a finite network's signal: masks, graphs, and the key of dropout."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike, Tree
from equitangents.kernels.operations import Pool
from equitangents.kernels.structured import BlockSums
from equitangents.structured import SMALLER


@dataclass(frozen=True)
class Structure:
    """mask (N, *positions) of the signal or None, graphs (N, P, P) or None, and a key or None.

    The mask of vectors, (N,), says of which inputs anything is left. `masks` is what windows make of missing positions
    (`kernels.structured`).
    """

    mask: Tree = None
    graphs: Tree = None
    key: jax.Array | None = None
    masks: str = SMALLER

    def within(self, i: int) -> Structure:
        """The structure for part i, with its own key."""
        return self if self.key is None else replace(self, key=jax.random.fold_in(self.key, i))

    def after(self, y: jax.Array, mask: ArrayLike | None) -> tuple[jax.Array, Structure]:
        """A layer's output, zero at missing positions, and the structure after it."""
        cleared = y if mask is None else jnp.where(mask[..., None], y, 0)
        return cleared, replace(self, mask=mask)


def pooled(x: jax.Array, mask: ArrayLike, op: Pool | BlockSums, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Means (or sums) over the positions of each block that the mask leaves: (N, *shape, C), and the blocks' mask."""
    member = jnp.asarray(op.labels.array)[None, None] == jnp.arange(op.blocks)[None, :, None]
    weights = (member & mask.reshape((len(x), 1, -1))).astype(x.dtype)
    there = weights.sum(axis=2) > 0
    if op.is_pool:
        weights = weights / jnp.maximum(weights.sum(axis=2, keepdims=True), 1)
    y = jnp.einsum("nbp,npc->nbc", weights, x.reshape((len(x), -1, x.shape[-1])), precision="highest")
    return y.reshape((len(x), *shape, x.shape[-1])), there.reshape((len(x), *shape))


def anywhere(mask: Tree) -> Tree:
    """Whether an input has any position under a mask (N, *positions), (N,)."""
    return None if mask is None else mask.reshape((len(mask), -1)).any(axis=1)
