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
import scipy.fft
from jaxtyping import Float

Pairs = Sequence[tuple[int, int]]
LEAST = 1e-12
"""Smallest p-value of many repetitions, of which Fourier transforms tell no smaller ones."""
_FEW = 40


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
        signs.append(np.where(np.isfinite(difference), np.sign(difference), 0).astype(np.int8))
    kinds, times = np.unique(np.stack(signs, axis=1), axis=0, return_counts=True)  # repetitions that are alike, once
    orders = np.array(list(itertools.permutations(range(places))))
    reach = sum(len(pairs) for _, pairs in systems)
    laws = []
    falling = rising = 0
    for kind, count in zip(kinds, times.tolist(), strict=True):
        sums = np.zeros(len(orders), int)
        for sign, (_, pairs) in zip(kind, systems, strict=True):
            for low, high in pairs:
                sums += sign[orders[:, low], orders[:, high]]
                falling += count * int(sign[low, high] > 0)
                rising += count * int(sign[low, high] < 0)
        laws.append(np.bincount(sums + reach, minlength=2 * reach + 1) / len(orders))
    law = _sum_of(laws, times.tolist())
    at = falling - rising + repetitions * reach
    tail = lambda part: float(min(max(part.sum(), LEAST if repetitions > _FEW else 0.0), 1.0))
    return RankTest(tail(law[at:]), tail(law[: at + 1]), falling, rising, repetitions * reach)


def _sum_of(laws: list[np.ndarray], times: list[int]) -> np.ndarray:
    """The law of the sum of independent numbers, of each law so many: for many of them by Fourier transforms."""
    if sum(times) <= _FEW:
        law = np.ones(1)
        for one, count in zip(laws, times, strict=True):
            for _ in range(count):
                law = np.convolve(law, one)
        return law
    length = sum(times) * (len(laws[0]) - 1) + 1
    size = scipy.fft.next_fast_len(length)
    product = np.ones(size // 2 + 1, complex)
    for one, count in zip(laws, times, strict=True):
        product *= np.fft.rfft(one, size) ** count
    return np.fft.irfft(product, size)[:length]
