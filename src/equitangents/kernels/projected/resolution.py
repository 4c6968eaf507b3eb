"""How finely rotations are sampled for a readout in a representation: measured on a few of the signals.

A block of high degree is a small part of the kernel, so errors are relative to the block's own diagonal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.groups import MatrixGroup, so3
from equitangents.kernels.projected.program import RotationMoves
from equitangents.kernels.projected.sums import all_pairs, rotation_nodes
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations.resolution import LADDER, Resolution, sample, surrogates
from equitangents.sphere import rotate

logger = logging.getLogger("equitangents")

_FINEST = 24  # 53,016 rotations
_FINER = 1.5
_SMALL = 1e-6  # of the kernel of numbers: blocks below that are not resolved any further


def resolve(
    moves: RotationMoves, kernel: Callable[[Any, Any], Kernels], x1: ArrayLike, x2: ArrayLike | None
) -> Resolution:
    """The lowest resolution at which the blocks of a few signals are within the tolerance of those of a finer grid."""
    if isinstance(moves.group, MatrixGroup):
        return Resolution(0, None, None)
    traced = precision.is_traced(x1) or precision.is_traced(x2)
    note = "resolution and error are those of random signals of unit variance" if traced else None
    if traced:
        signals = surrogates(moves.bandlimit, x1.shape[-1])
    else:
        signals = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    both = np.concatenate([signals, *(rotate(signals, R) for R in so3(1).random(2))])
    known: dict[int, np.ndarray] = {}

    def at(r: int) -> np.ndarray:
        if r not in known:
            found = all_pairs(kernel, rotation_nodes(moves, r), signals, both)
            known[r] = np.stack([found.nngp, found.ntk])
        return known[r]

    own = kernel(signals, signals)
    size = _SMALL * np.array([np.abs(np.diagonal(k)).max() for k in (np.asarray(own.nngp), np.asarray(own.ntk))])

    def error(coarse: int, fine: int) -> float:
        scale = np.einsum("viikk->vik", at(fine)[:, :, : len(signals)]).max(axis=(1, 2))
        difference = np.abs(at(coarse) - at(fine)).reshape(2, -1).max(axis=1)
        return float(np.max(difference / np.maximum(np.maximum(scale, size), 1e-300)))

    tolerance = max(moves.accuracy.tolerance, 64 * float(np.finfo(precision.working_dtype(x1, x2)).eps))
    if (r := moves.accuracy.resolution) is not None:
        coarse = max(1, int(r / _FINER))
        return Resolution(r, error(coarse, r) if coarse < r else None, "resolution as asked for")
    ladder = [r for r in LADDER if 2 * r > moves.bandlimit and r <= _FINEST]
    last, missed = ladder[0], np.inf
    for r in ladder:
        finer = next((s for s in ladder if s >= _FINER * r), None)
        if finer is None:
            break
        last, missed = r, error(r, finer)
        if missed <= tolerance:
            return Resolution(r, missed, note)
    note = f"the tolerance {tolerance:.1e} is not reached"
    logger.warning("integrals over rotations: %s; the error is about %.1e", note, missed)
    return Resolution(last, missed, note)
