"""A rank test along a partial order, by permutation: do values fall from each place to those above it?

In every repetition S = Σ sign(value below − value above) over systems and comparable pairs of places. If places made no
difference, those of one repetition could be exchanged, for all its systems together: the law of S under all these
permutations, independent between repetitions, is computed exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class RankTest:
    """`p_value`: of falling along the order; `reverse`: of rising. `falling` and `rising` of `comparisons` do so."""

    p_value: float
    reverse: float
    falling: int
    rising: int
    comparisons: int


def rank_test(systems: Sequence[tuple[Float[np.ndarray, "repetitions places"], Pairs]]) -> RankTest:
    """The test of several systems with the same places, each with pairs (below, above) of its order.

    Values that are not numbers are compared with nothing; places with equal values count neither way.

    >>> found = rank_test([(np.array([[3.0, 2, 1], [3, 2, 1]]), [(0, 1), (0, 2), (1, 2)])])
    >>> found.falling, round(found.p_value * 36, 9)
    (6, 1.0)
    """
    repetitions, places = systems[0][0].shape
    signs = []
    for values, _ in systems:
        difference = np.asarray(values, np.float64)[:, :, None] - np.asarray(values, np.float64)[:, None, :]
        signs.append(np.where(np.isfinite(difference), np.sign(difference), 0).astype(int))
    orders = np.array(list(itertools.permutations(range(places))))
    reach = sum(len(pairs) for _, pairs in systems)
    law = np.ones(1)
    falling = rising = 0
    for r in range(repetitions):
        sums = np.zeros(len(orders), int)
        for sign, (_, pairs) in zip(signs, systems, strict=True):
            for low, high in pairs:
                sums += sign[r][orders[:, low], orders[:, high]]
                falling += int(sign[r][low, high] > 0)
                rising += int(sign[r][low, high] < 0)
        law = np.convolve(law, np.bincount(sums + reach, minlength=2 * reach + 1) / len(orders))
    at = falling - rising + repetitions * reach
    tail = lambda part: float(min(part.sum(), 1.0))
    return RankTest(tail(law[at:]), tail(law[: at + 1]), falling, rising, repetitions * reach)
