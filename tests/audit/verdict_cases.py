"""Images, and models of them whose violation is known."""

from __future__ import annotations

import numpy as np

from equitangents.audit.report.rows import table

QUIET = {"off_data": False, "resamples": 100}
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(60, 4, 4, 1))
WEIGHTS = RNG.normal(size=(16, 3))


def features(x: np.ndarray) -> np.ndarray:
    return np.tanh(x.reshape(len(x), -1) @ WEIGHTS)


def invariant(x: np.ndarray) -> np.ndarray:
    return sum(features(np.rot90(x, k, (1, 2))) for k in range(4)) / 4


def literal(f, x: np.ndarray) -> tuple[float, float]:
    """(mean violation over ‖f(x)‖, over the spread between inputs and moved copies) under quarter turns."""
    all_four = np.array([f(np.rot90(x, k, (1, 2))) for k in range(4)])
    y = all_four[0]
    off = np.linalg.norm(all_four[1:] - y, axis=2)
    spread = np.sqrt(((all_four - all_four.mean((0, 1))) ** 2).sum() / 4 / (len(y) - 1))
    return float((off / np.linalg.norm(y, axis=1)).mean()), float((off / spread).mean())


def off_by(share: float) -> object:
    """A model whose error is this share of its spread, on IMAGES."""
    y = invariant(IMAGES)
    spread = np.sqrt(((y - y.mean(0)) ** 2).sum() / (len(y) - 1))
    odd = lambda x: features(x) - invariant(x)
    off = np.mean([np.linalg.norm(odd(np.rot90(IMAGES, k, (1, 2))) - odd(IMAGES), axis=1) for k in (1, 2, 3)])
    return lambda x: 4 + invariant(x) + share * spread / off * odd(x)


def shown(report, label):
    """The cells of every row of a report's table under one label, as text."""
    return [" ".join(filter(None, row[1:])) for row in table(report).rows if row[0] == label]
