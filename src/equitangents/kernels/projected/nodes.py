"""The elements q over which kernels are summed, with their weights w(q) ρ(q), and how each moves inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike
from equitangents.kernels.projected.program import PositionMoves, RotationMoves
from equitangents.kernels.rotations.closed_nodes import closed_nodes
from equitangents.sphere import rotate

Move = Callable[[np.ndarray, Any], Any]


@dataclass(frozen=True)
class Nodes:
    """`weighted` w(q) ρ(q), and `move(chosen, x)`, the moved inputs (chosen, N, …).

    `inverses`: the number of each q⁻¹; None where the nodes are not closed under inversion.
    """

    weighted: Float[np.ndarray, "nodes d d"]
    inverses: Int[np.ndarray, " nodes"] | None
    move: Move

    def __len__(self) -> int:
        return len(self.weighted)

    def half(self) -> tuple[np.ndarray, np.ndarray]:
        """(one of each pair q, q⁻¹, its weight: 2, or 1 where they are one): enough for a symmetric problem."""
        everything = np.arange(len(self))
        if self.inverses is None:
            return everything, np.ones(len(self))
        chosen = np.flatnonzero(everything <= self.inverses)
        return chosen, np.where(self.inverses[chosen] == chosen, 1.0, 2.0)


def position_nodes(moves: PositionMoves) -> Nodes:
    """All elements of a finite group."""
    sources, matrices = moves.sources.array, moves.matrices.array

    def move(chosen: np.ndarray, x: ArrayLike) -> ArrayLike:
        flat = x.reshape((len(x), sources.shape[1], x.shape[-1]))
        moved = flat[:, sources[chosen]]  # (N, chosen, P, C)
        return moved.swapaxes(0, 1).reshape((len(chosen), *x.shape))

    return Nodes(matrices / len(matrices), moves.inverses.array, move)


def rotation_nodes(moves: RotationMoves, resolution: int) -> Nodes:
    """All elements of a finite group of rotations, or the nodes of a quadrature at a resolution."""
    turns, _, inverses = closed_nodes(moves.group, resolution)
    return Nodes(_weighted(moves, resolution), inverses, lambda chosen, x: rotate(x, turns[chosen].astype(x.dtype)))


@lru_cache(maxsize=8)
def _weighted(moves: RotationMoves, resolution: int) -> np.ndarray:
    turns, weights, _ = closed_nodes(moves.group, resolution)
    reflections = bool((np.linalg.det(turns) < 0).any())
    if hasattr(moves.group, "table"):
        return moves.representation.at(moves.group) * weights[:, None, None]
    return moves.representation.at_matrices(turns, reflections=reflections) * weights[:, None, None]
