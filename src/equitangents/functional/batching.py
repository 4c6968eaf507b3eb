"""Kernels of many inputs in blocks, to limit memory, and as means over random networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params, Tree
from equitangents.errors import InvalidArgumentError
from equitangents.functional.empirical import ApplyFn, KernelFn, empirical_kernel_fn
from equitangents.kernels.tangent import means
from equitangents.keywords import Get, named, names_of
from equitangents.validation import check_whole


def batch(
    kernel_fn: Callable[..., Tree], batch_size: int = 0, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Tree]:
    """kernel_fn in blocks of `batch_size` inputs of each side; 0 for no blocks.

    Kernels of `equitangents` go in blocks by themselves, so that this is for functions of one's own. All run on one
    device, whatever `device_count` and `store_on_device` say. The number of inputs need not be a multiple of
    `batch_size`. Inputs may be trees of arrays; graphs (`pattern=`) are cut, too. The `Kernel` of another kernel_fn
    goes in as a whole; what comes out must be kernels between inputs, as of get=("nngp", "ntk").
    """
    size = check_whole("batch_size", batch_size, 0)

    def batched(x1: Tree, x2: Tree | None = None, *args: Tree, **keywords: Tree) -> Tree:
        leaves, alone = jax.tree.leaves(x1, is_leaf=_is_kernel), not jax.tree.leaves(x2)
        n1, n2 = (
            (0, 0) if _is_kernel(leaves[0]) else (len(leaves[0]), len(leaves[0] if alone else jax.tree.leaves(x2)[0]))
        )
        if not size or (n1 <= size and n2 <= size):
            return kernel_fn(x1, x2, *args, **keywords)
        rows = []
        for i in range(0, n1, size):
            row = []
            for j in range(0, n2, size):
                here = slice(i, i + size), slice(j, j + size)
                other = None if alone and i == j else _cut(x1 if alone else x2, here[1])
                row.append(kernel_fn(_cut(x1, here[0]), other, *args, **_cut_keywords(keywords, *here)))
            rows.append(row)
        return _assembled(rows)

    return batched


def _is_kernel(value: object) -> bool:
    return hasattr(value, "nngp") and hasattr(value, "cov1")


def _cut(x: Tree, at: slice) -> Tree:
    return jax.tree.map(lambda v: v[at], x)


def _cut_keywords(keywords: dict[str, Any], rows: slice, columns: slice) -> dict[str, Any]:
    """Graphs of the inputs at hand."""
    pattern = keywords.get("pattern")
    if pattern is None:
        return keywords
    pair = pattern if isinstance(pattern, tuple | list) else (pattern, pattern)
    cut = tuple(None if p is None else p[at] for p, at in zip(pair, (rows, columns), strict=True))
    return {**keywords, "pattern": cut}


def _assembled(rows: list[list[Tree]]) -> Tree:
    """One kernel of the blocks; of trees and named tuples one for each of them."""
    first = rows[0][0]
    if hasattr(first, "cov1") or hasattr(first, "cov2"):
        raise InvalidArgumentError("batch joins kernels between inputs: ask for get=('nngp', 'ntk')")
    leaves = [[jax.tree.leaves(block) for block in row] for row in rows]
    xp = jnp if isinstance(leaves[0][0][0], jax.Array) else np
    count = len(leaves[0][0])
    parts = [xp.concatenate([xp.concatenate([b[k] for b in row], axis=1) for row in leaves]) for k in range(count)]
    return jax.tree.unflatten(jax.tree.structure(first), parts)


def monte_carlo_kernel_fn(
    init_fn: Callable[..., tuple[Tree, Params]],
    apply_fn: ApplyFn,
    key: jax.Array,
    n_samples: int,
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: int | Tree | None = None,
    implementation: int | str = "auto",
) -> KernelFn:
    """kernel_fn(x1, x2=None, get=None): means of "nngp" and "ntk" over `n_samples` networks drawn by init_fn.

    Standard errors come with `kernels.monte_carlo`. With `batch_size` each network's kernels go in blocks (`batch`).
    All run on one device, whatever `device_count` says.
    """
    n_samples = check_whole("n_samples", n_samples, 1)
    empirical = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation)

    def kernel_fn(x1: Tree, x2: Tree | None = None, get: Get = None, **keywords: Tree) -> Tree:
        names = names_of(get)
        draws = getattr(apply_fn, "draws", False) and "rng" not in keywords

        @jax.jit
        def sample(one: jax.Array) -> Tree:
            _, params = init_fn(one, jax.tree.map(lambda v: v.shape, x1))
            blocks = batch(partial(empirical, get=names, params=params), batch_size)
            first, second = jax.random.split(jax.random.fold_in(one, 1))
            rng = {"rng": (first, first if x2 is None else second)} if draws else {}
            return tuple(blocks(x1, x2, **keywords, **rng))

        return named(get, names, means(sample, key, n_samples)[0], "Kernel")

    return kernel_fn
