"""Random elements of the groups, and points that they move."""

import numpy as np

from equitangents.steerable import Features
from equitangents.steerable.features import SPACES

IRREPS = {
    "SO(2)": ("0", "1", "2", "3"),
    "O(2)": ("0e", "0o", "1", "2"),
    "SO(3)": ("0", "1", "2"),
    "O(3)": ("0e", "0o", "1e", "1o", "2e", "2o"),
}


def element(group: str, seed: int) -> np.ndarray:
    """A random element; of O(n) a reflection where the seed is odd."""
    n = SPACES[group]
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    wanted = -1.0 if group.startswith("O") and seed % 2 else 1.0
    q[:, 0] *= wanted * np.sign(np.linalg.det(q))
    return q


def cloud(features: str, group: str, seed: int = 0, inputs: int = 2, points: int = 3) -> np.ndarray:
    """Random points with features, (inputs, points, n + channels)."""
    channels = SPACES[group] + Features(features, group).dimension
    return np.random.default_rng(seed).normal(size=(inputs, points, channels))


def moved(x: np.ndarray, g: np.ndarray, features: str, group: str) -> np.ndarray:
    """The points turned by g and shifted, each cloud by its own amount."""
    y = Features(features, group).move(x, g)
    shift = np.random.default_rng(7).normal(size=(len(x), 1, SPACES[group]))
    return np.concatenate([y[..., : SPACES[group]] + shift, y[..., SPACES[group] :]], axis=-1)
