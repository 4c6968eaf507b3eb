"""Rotations with weights for means over the group, closed under inversion, which keeps kernels symmetric."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup, euler_grid, from_euler_angles


class ClosedNodes(NamedTuple):
    """Rotations, their weights, which sum to 1, and the number of each one's inverse."""

    turns: Float[np.ndarray, "nodes 3 3"]
    weights: Float[np.ndarray, " nodes"]
    inverses: Int[np.ndarray, " nodes"]


@lru_cache(maxsize=16)
def closed_nodes(group: RotationGroup | MatrixGroup, resolution: int) -> ClosedNodes:
    """All elements of a finite group; of SO(3) and O(3) the Euler grid with γ = π − α for the nodes of α."""
    if isinstance(group, MatrixGroup):
        turns, weights = np.asarray(group.matrices, np.float64), np.asarray(group.weights, np.float64)
        return ClosedNodes(turns, weights, group.inverses)
    azimuth, cosine, weight = euler_grid(resolution)
    alpha, beta, gamma = np.meshgrid(azimuth, np.arccos(cosine), np.pi - azimuth, indexing="ij")
    turns = from_euler_angles(np.stack([alpha, beta, gamma], axis=-1).reshape(-1, 3))
    weights = np.broadcast_to(weight[:, None] / len(azimuth) ** 2, alpha.shape).ravel()
    inverses = np.arange(len(turns)).reshape(alpha.shape).transpose(2, 1, 0).ravel()
    if group.reflections:
        turns, weights = np.concatenate([turns, -turns]), np.concatenate([weights, weights]) / 2
        inverses = np.concatenate([inverses, len(inverses) + inverses])
    return ClosedNodes(turns, weights, inverses)
