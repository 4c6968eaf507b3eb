"""Outputs as irreps side by side: which channels form a block of which irrep of the rotations.

In space blocks are of degree l and parity e or o, "2x0e+1x1o", in the basis of e3nn (that of l = 1 is x, y, z); in the
plane, pairs that turn by m times the angle. The blocks are chosen by dynamic programming over the channels.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.kinds import Kinds
from equitangents.audit.contract.irreps import Block
from equitangents.audit.measure.rules.pairs import Pairs

MOST_CHANNELS = 64
_DEGREES = 5  # l = 0 .. 4
_FREQUENCIES = 6
_LEFT = 1 / 16  # share of a block's squared error without the irrep that may be left with it


def segments(kinds: Kinds, pairs: Pairs) -> MatrixAction | None:
    """The action of the irreps that the channels are best read as; None where all of them are scalars."""
    C = pairs.y.shape[-1] if pairs.y.ndim > 1 else 1
    if kinds.space not in ("space", "plane") or not 1 < C <= MOST_CHANNELS:
        return None
    motions = [kinds.motion(g) for g in pairs.elements]
    blocks = _space_blocks(motions) if kinds.space == "space" else _plane_blocks()
    y, z = pairs.y.reshape(-1, C), [part.reshape(-1, C) for part in pairs.z]
    scalar = np.array([sum(float(((b[:, j] - y[:, j]) ** 2).sum()) for b in z) for j in range(C)])
    costs = {b.name: _costs(b, motions, y, z) for b in blocks[1:]}
    chosen = _cheapest(blocks, costs, scalar)
    if all(b is blocks[0] for b in chosen):
        return None

    def matrix(g: Any) -> np.ndarray:
        motion, M, at = kinds.motion(g), np.zeros((C, C)), 0
        for b in chosen:
            M[at : at + b.size, at : at + b.size] = b.matrix(motion)
            at += b.size
        return M

    return MatrixAction(kinds.group, matrix, C, _said(chosen))


def _space_blocks(motions: list[np.ndarray]) -> list[Block]:
    """Scalars first; with reflections each degree twice, even and odd."""
    reflects = any(np.linalg.det(R) < 0 for R in motions)
    found = []
    for l in range(_DEGREES):
        for parity in "eo" if reflects else "e" if l % 2 == 0 else "o":
            natural = (l % 2 == 0) == (parity == "e")
            found.append(Block(f"{l}{parity}", 2 * l + 1, l, flips=not natural))
    return found


def _plane_blocks() -> list[Block]:
    ms = [sign * m for m in range(1, _FREQUENCIES + 1) for sign in (1, -1)]
    return [Block("scalar", 1, 0), *(Block(f"frequency {m}", 2, m) for m in ms)]


def _costs(block: Block, motions: list[Any], y: np.ndarray, z: list[np.ndarray]) -> Float[np.ndarray, " starts"]:
    """Squared error of the block at every place where it fits."""
    matrices, d = [block.matrix(motion) for motion in motions], block.size
    return np.array(
        [
            sum(float(((b[:, a : a + d] - y[:, a : a + d] @ M.T) ** 2).sum()) for M, b in zip(matrices, z, strict=True))
            for a in range(y.shape[1] - d + 1)
        ]
    )


def _cheapest(blocks: list[Block], costs: dict[str, np.ndarray], scalar: np.ndarray) -> list[Block]:
    """The blocks, side by side over all channels, with the least squared error."""
    C = len(scalar)
    best, last = [0.0], [blocks[0]]
    for end in range(1, C + 1):
        options = [(best[end - 1] + scalar[end - 1], blocks[0])]
        for b in blocks[1:]:
            at = end - b.size
            if at >= 0 and costs[b.name][at] < _LEFT * scalar[at:end].sum():
                options.append((best[at] + costs[b.name][at], b))
        cost, block = min(options, key=lambda option: option[0])
        best.append(float(cost))
        last.append(block)
    chosen, end = [], C
    while end:
        chosen.append(last[end])
        end -= last[end].size
    return chosen[::-1]


def _said(chosen: list[Block]) -> str:
    """ "2x0e+1x1o", or "1 scalar, frequency 2" in the plane."""
    runs = [(name, len(list(run))) for name, run in groupby(b.name for b in chosen)]
    if chosen[0].name[0].isdigit():
        return "irreps " + "+".join(f"{count}x{name}" for name, count in runs)
    return "irreps " + ", ".join(name if count == 1 else f"{count} times {name}" for name, count in runs)
