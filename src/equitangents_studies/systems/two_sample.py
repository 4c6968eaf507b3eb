"""Are two samples of vectors from one law?  The energy distance, with its permutation test.

E² = 2 E|X − Y| − E|X − X'| − E|Y − Y'|, zero only for equal laws. Under equal laws all assignments of the pooled
vectors to the two samples are equally likely, so the share of assignments with a distance as large is a p-value: it is
at most α with probability at most α, for any sizes and dimensions.

Source: Székely & Rizzo 2004, Testing for equal distributions in high dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.extending import check_whole


@dataclass(frozen=True)
class TwoSample:
    """The energy distance E² of two samples, and its p-value over random assignments."""

    distance: float
    p_value: float
    permutations: int


def energy_test(
    a: Float[np.ndarray, "n values"], b: Float[np.ndarray, "m values"], *, permutations: int = 999, seed: int = 0
) -> TwoSample:
    """Whether rows of a and of b have one law. The smallest p-value is 1/(permutations + 1).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> energy_test(rng.normal(size=(20, 3)), 2 + rng.normal(size=(20, 3))).p_value
    0.001
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    check_whole("permutations", permutations, 1)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ShapeError("b", b.shape, ("m", *a.shape[1:]), "(n, values) and (m, values)")
    if min(len(a), len(b)) < 2:
        raise InvalidArgumentError("samples", min(len(a), len(b)), "at least 2 rows each", verb="have rows,")
    pooled = np.concatenate([a, b])
    if not np.isfinite(pooled).all():
        raise NotFiniteError("a or b holds NaN or infinite values; a test needs finite ones")
    distances = cdist(pooled, pooled)  # from differences: squares would lose the digits of samples far from 0
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    first = np.zeros((permutations + 1, len(pooled)))
    first[0, : len(a)] = 1
    for row in first[1:]:
        row[rng.permutation(len(pooled))[: len(a)]] = 1
    values = _energies(first, distances)
    as_large = np.count_nonzero(values >= values[0] - 1e-12 * np.max(np.abs(values)))  # itself among them
    return TwoSample(float(values[0]), float(as_large / (permutations + 1)), permutations)


def _energies(first: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """E² of every assignment; `first` marks the rows of the first sample by 1."""
    second = 1 - first
    n, m = first[0].sum(), second[0].sum()
    to_first = first @ distances
    cross = np.einsum("pi,pi->p", to_first, second)
    within = np.einsum("pi,pi->p", to_first, first)
    rest = distances.sum() - within - 2 * cross
    return 2 * cross / (n * m) - within / (n * (n - 1)) - rest / (m * (m - 1))
