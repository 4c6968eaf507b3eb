"""Near-duplicates: all pairs by their definition, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents.fit.near_duplicates import near_duplicates


def by_definition(x: np.ndarray) -> set[tuple[int, int]]:
    """Every pair and every copy, one by one."""
    varies = lambda a: ((a - a.mean(axis=(0, 1))) ** 2).sum()
    step = 1 if x.shape[1] == x.shape[2] else 2
    found = set()
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            copies = [np.rot90(m, k) for m in (x[j], x[j][:, ::-1]) for k in range(0, 4, step)]
            least = min(((x[i] - copy) ** 2).sum() for copy in copies)
            if least <= 0.01 * (varies(x[i]) + varies(x[j])) / 2:
                found.add((i, j))
    return found


@given(st.integers(0, 2**16), st.sampled_from([(4, 4, 1), (5, 3, 3), (40, 40, 1), (70, 66, 1)]))
@settings(max_examples=8)
def test_pairs_are_those_of_the_definition(seed, shape):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, *shape)) + 3
    turned = np.rot90(x[0], 1 if shape[0] == shape[1] else 2)
    x[4] = turned + rng.choice([0.02, 0.09, 0.1, 0.11, 0.3]) * rng.normal(size=shape)
    x[7], x[8] = x[1][:, ::-1], 3.0  # mirrored; blank
    found = near_duplicates(x.astype(np.float32), [np.array([i]) for i in range(9)])
    assert set(found) == by_definition(x.astype(np.float32).astype(float))
    assert (1, 7) in found


def test_images_that_leave_together_and_others_are_no_pairs():
    x = np.random.default_rng(0).normal(size=(6, 8, 8, 3))
    x[3], x[5] = x[0], x[1]
    assert near_duplicates(x, [np.array([i]) for i in range(6)]) == ((0, 3), (1, 5))
    assert near_duplicates(x, [np.array([0, 3]), np.array([1]), np.array([2, 4]), np.array([5])]) == ((1, 5),)
    blank = np.ones((3, 4, 4, 1))
    assert near_duplicates(blank, [np.array([i]) for i in range(3)]) == ((0, 1), (0, 2), (1, 2))


@pytest.mark.slow
def test_two_thousand_images_take_seconds():
    x = np.random.default_rng(0).normal(size=(2000, 64, 64, 3)).astype(np.float32)
    x[1999] = x[3]
    assert near_duplicates(x, [np.array([i]) for i in range(2000)]) == ((3, 1999),)
