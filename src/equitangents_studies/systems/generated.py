"""A generated data set of textures: what tells classes apart is how neighbouring pixels and channels go together.

Class k is white noise through a filter of its own, x(p) = Σ_u F_k(u) z(p − u) on a torus, 3 taps a side, F_k(u) a
random matrix of the channels. Its law is the same at every position, and under O(c)xI another set of filters has it; a
matrix of its own at every position tears it apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents.extending import check_number, check_shape, check_whole


class Textures(NamedTuple):
    """`x` (N, *positions, channels), of mean 0 and variance 1 over all entries in expectation, and `labels` (N,)."""

    x: Float[np.ndarray, "n *positions channels"]
    labels: np.ndarray


def textures(
    count: int, shape: tuple[int, ...] = (8, 8, 3), classes: int = 5, *, tint: float = 0.0, seed: int = 0
) -> Textures:
    """`count` signals of `shape` = (*positions, channels), classes in turn; filters and noise come from the seed.

    `tint`: the share of the variance that is one random colour for all of a signal's positions, whatever its class, as
    neighbouring pixels of photographs are alike.

    >>> drawn = textures(20, (8, 8, 3), classes=5, seed=0)
    >>> drawn.x.shape, drawn.labels[:6].tolist()
    ((20, 8, 8, 3), [0, 1, 2, 3, 4, 0])
    """
    check_whole("count", count, 1)
    check_whole("classes", classes, 1)
    check_number("tint", tint, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    shape = check_shape("shape", shape)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    grid, c = shape[:-1], shape[-1]
    axes = tuple(range(1, len(shape)))
    filters = np.zeros((classes, *grid, c, c))
    taps = np.indices((3,) * len(grid)).reshape(len(grid), -1).T
    for tap in taps:
        filters[(slice(None), *(tap % grid))] += rng.standard_normal((classes, c, c))
    filters /= np.sqrt((filters**2).sum(axis=(*axes, len(shape)), keepdims=True).sum(axis=-1, keepdims=True) / c)
    labels = np.arange(count) % classes
    noise = rng.standard_normal((count, *shape))
    colours = rng.standard_normal((count, *(1 for _ in grid), c))
    mixed = lambda x: Textures((1 - tint) ** 0.5 * x + tint**0.5 * colours, labels)
    if not grid:
        return mixed(np.einsum("nij,nj->ni", filters[labels], noise))
    spectrum = np.einsum("n...ij,n...j->n...i", np.fft.fftn(filters, axes=axes)[labels], np.fft.fftn(noise, axes=axes))
    return mixed(np.fft.ifftn(spectrum, axes=axes).real)


@dataclass(frozen=True, eq=False)
class Sample:
    """Training inputs x (N, …), labels or targets y, and test inputs."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray

    def of_type(self, dtype: str) -> Sample:
        """A sample with inputs of this precision."""
        return replace(self, x=np.asarray(self.x, dtype), x_test=np.asarray(self.x_test, dtype))


def sample_data(shape: tuple[int, ...] = (8, 8, 3), classes: int = 3, *, seed: int = 0) -> Sample:
    """60 training and 20 test inputs of tinted `textures`, which a wrong group tears apart."""
    x, labels = textures(80, shape, classes, tint=0.8, seed=seed)
    return Sample(x[:60], labels[:60], x[60:])
