"""Which group elements a training set shows: subsets of the pairs (i, g), with weights.

A weight w_ig multiplies the loss of the sample (ρ(g)x_i, y_i). Weights 1/(|G| p(g)) of elements drawn from p make the
loss an unbiased estimate of the complete one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

STRATEGIES = {
    "subgroup": "a subgroup",
    "nearby": "neighbouring elements",
    "shared": "random elements that all inputs share",
    "own": "random elements of each input’s own",
    "uniform": "random elements drawn with replacement",
    "important": "importance-sampled elements, with replacement",
}
RANDOM = ("shared", "own", "uniform", "important")


@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows of the complete data, g·N + i, without repetitions, and their weights, of mean 1 on average."""

    rows: Int[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]


def importance(distances: Float[np.ndarray, "order n"]) -> Float[np.ndarray, "order n"]:
    """P(g | x_i): half uniform, half in proportion to |ρ(g)x_i − x_i|."""
    total = distances.sum(axis=0)
    share = np.divide(distances, total, where=total > 0, out=np.full(distances.shape, 1 / len(distances)))
    return 0.5 / len(distances) + 0.5 * share


def sample(
    strategy: str, budget: int, probabilities: Float[np.ndarray, "order n"], rng: np.random.Generator
) -> Sampled:
    """`budget` elements of a cyclic group for every one of N inputs; `probabilities` are those of "important"."""
    order, n = probabilities.shape
    if strategy in ("subgroup", "nearby"):
        chosen = np.arange(budget) * (order // budget if strategy == "subgroup" else 1)
        elements = np.tile(chosen[:, None], n)
    elif strategy == "shared":
        elements = np.tile(rng.permutation(order)[:budget, None], n)
    elif strategy == "own":
        elements = np.argsort(rng.random((order, n)), axis=0)[:budget]
    else:
        p = probabilities if strategy == "important" else np.full((order, n), 1 / order)
        uniform = rng.random((budget, 1, n))
        elements = np.minimum((uniform > np.cumsum(p, axis=0)[None]).sum(axis=1), order - 1)
    weights = 1 / (order * probabilities) if strategy == "important" else np.ones((order, n))
    rows = (elements * n + np.arange(n)).ravel()
    distinct, copies = np.unique(rows, return_counts=True)
    return Sampled(distinct, copies * weights.ravel()[distinct])
