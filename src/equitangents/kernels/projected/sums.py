"""Sums Σ_q w(q) ρ(q) k(x, q x') of kernels, over all pairs of two sets of inputs or each input with itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.kernels.projected.nodes import Nodes
from equitangents.kernels.result import Kernels

_NUMBERS = 1 << 22  # of one kernel, or of moved inputs, at a time

KernelOf = Callable[[Any, Any], Kernels]


class Sums(NamedTuple):
    """NNGP and NTK of d outputs, and one of the kernels that they were summed from."""

    nngp: Any
    ntk: Any
    term: Kernels


def all_pairs(kernel: KernelOf, nodes: Nodes, x1: Any, x2: Any = None) -> Sums:
    """(N1, N2, d, d); x2 None: x1 with itself, at half the cost, exactly symmetric."""
    chosen, factor = nodes.half() if x2 is None else (np.arange(len(nodes)), np.ones(len(nodes)))
    second = x1 if x2 is None else x2
    total, term = None, None
    for part in _chunks(len(chosen), len(x1) * len(second), second.size):
        here = chosen[part]
        moved = nodes.move(here, second)
        term = kernel(x1, moved.reshape((-1, *second.shape[1:])))
        shape = (len(x1), len(here), len(second))
        weights = nodes.weighted[here] * factor[part, None, None]
        added = [_weighted(k.reshape(shape), weights) for k in (term.nngp, term.ntk)]
        total = added if total is None else [a + b for a, b in zip(total, added, strict=True)]
    assert total is not None
    assert term is not None
    if x2 is None:
        total = [(k + k.transpose(1, 0, 3, 2)) / 2 for k in total]
    return Sums(total[0], total[1], term)


def diagonal(kernel: KernelOf, nodes: Nodes, x: Any) -> Sums:
    """(N, d, d): each input with itself, one after another."""
    found = []
    for i in range(len(x)):
        k = all_pairs(kernel, nodes, x[i : i + 1])
        found.append(k)
    join = jnp.concatenate if precision.is_traced(found[0].ntk) else np.concatenate
    return Sums(join([k.nngp[0] for k in found]), join([k.ntk[0] for k in found]), found[-1].term)


def _weighted(k: Any, weights: np.ndarray) -> Any:
    """Σ_q w(q) k[i, q, j] as (N1, N2, d, d), in float64 unless traced."""
    if precision.is_traced(k):
        return jnp.einsum("nqm,qab->nmab", k, weights.astype(k.dtype), precision="highest")
    d = weights.shape[1]
    k = np.asarray(k, np.float64)
    return np.tensordot(k, weights.reshape(len(weights), d * d), axes=(1, 0)).reshape(len(k), k.shape[2], d, d)


def _chunks(count: int, pairs: int, numbers: int) -> list[slice]:
    step = max(1, _NUMBERS // max(pairs, numbers, 1))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]
