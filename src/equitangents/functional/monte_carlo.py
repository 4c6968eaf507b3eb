"""Kernels as means over random finite networks."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from equitangents._types import Params, Tree
from equitangents.errors import InvalidArgumentError
from equitangents.functional.batching import batch
from equitangents.functional.empirical import ApplyFn, KernelFn, empirical_kernel_fn
from equitangents.kernels.monte_carlo import means
from equitangents.validation import check_whole


def monte_carlo_kernel_fn(
    init_fn: Callable[..., tuple[Tree, Params]],
    apply_fn: ApplyFn,
    key: jax.Array,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: int | Tree | None = None,
    implementation: int | str = "auto",
) -> KernelFn:
    """kernel_fn(x1, x2=None, get=None): means of "nngp" and "ntk" over `n_samples` networks drawn by init_fn.

    `n_samples` may be several different numbers, such as [1, 2, 4, 8]: then the result is an iterator of the means of
    so many, in ascending order.
    Standard errors come with `kernels.monte_carlo`. With `batch_size` each network's kernels go in blocks (`batch`).
    All run on one device, whatever `device_count` says.
    """
    several = isinstance(n_samples, Iterable)
    counts = _counts(n_samples if isinstance(n_samples, Iterable) else (n_samples,))
    empirical = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation)

    def kernel_fn(
        x1: Tree, x2: Tree | None = None, get: str | Sequence[str] | None = None, **keywords: Tree
    ) -> Tree | Iterator[Tree]:
        names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)

        @jax.jit
        def sample(one: jax.Array) -> Tree:
            _, params = init_fn(one, jax.tree.map(lambda v: v.shape, x1))
            blocks = batch(partial(empirical, get=names, params=params), batch_size)
            return tuple(blocks(x1, x2, **_with_key(apply_fn, keywords, one, x2 is None)))

        def estimates() -> Iterator[Tree]:
            for _, found in means(sample, key, counts):
                yield found[0] if isinstance(get, str) else namedtuple("Kernel", names)(*found)

        return estimates() if several else next(estimates())

    return kernel_fn


def _counts(n_samples: Iterable[int]) -> list[int]:
    """Different numbers of networks, in ascending order."""
    given = list(np.asarray(n_samples) if isinstance(n_samples, jax.Array) else n_samples)
    counts = sorted(check_whole("n_samples", n, 1) for n in given)
    if not counts or len(set(counts)) < len(counts):
        raise InvalidArgumentError("n_samples", given, "different whole numbers, at least one of them")
    return counts


def _with_key(apply_fn: ApplyFn, keywords: dict[str, Any], key: jax.Array, same: bool) -> dict[str, Any]:
    """Keywords with keys for each set of inputs, for functions that draw and are given none."""
    draws = getattr(apply_fn, "draws", False)
    if not draws or "rng" in keywords:
        return keywords
    first, second = jax.random.split(jax.random.fold_in(key, 1))
    return {**keywords, "rng": (first, first if same else second)}
