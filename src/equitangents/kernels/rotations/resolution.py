"""How finely to sample rotations: measured on the signals themselves, against a finer grid.

K(Q) of bandlimited signals is bandlimited, but a nonlinearity of it is not: the error of the Haar mean falls with the
resolution at a rate that depends on the nonlinearity, on the signals' size, and most of all on how alike they are (the
angle of a signal with itself has a kink at Q = 1). So a sample of pairs, those of signals with themselves among them,
is computed at growing resolution until it agrees with a grid at least half as fine again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from equitangents.groups.rotation_group import euler_grid, from_euler_angles
from equitangents.kernels.rotations.program import Accuracy
from equitangents.sphere import rotate

logger = logging.getLogger("equitangents")

LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
LADDER_OF_FIELDS = (
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
    14,
    16,
    20,
    24,
)  # a field on the sphere for each rotation: five powers of the resolution
_FINER = 1.5  # how much finer the grid is that errors are measured against
_SIGNALS = 4  # in a sample


class Resolution(NamedTuple):
    """Nodes in cos β, the error measured there relative to √(K(x,x) K(x',x')), and what a reader should know of it."""

    value: int
    error: float | None
    note: str | None


Values = tuple[np.ndarray, np.ndarray]


def sample(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Signals to measure on, the largest among them."""
    x = np.concatenate([x1, x2])
    largest = np.argsort(-(x**2).sum(axis=(1, 2)), kind="stable")[: _SIGNALS // 2]
    spread = np.linspace(0, len(x) - 1, _SIGNALS // 2).astype(int)
    return x[np.unique(np.concatenate([largest, spread]))]


def pairs_of(x: np.ndarray, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """n signals with themselves, with copies turned by the rotation matrix `turn`, and with the next."""
    return np.concatenate([x, x, x]), np.concatenate([x, rotate(x, turn), np.roll(x, 1, axis=0)])


def turn_to_node(resolution: int) -> np.ndarray:
    """The rotation after which a signal meets itself at the worst place of a grid over relative rotations.

    Grids are densest around the identity, where a signal meets itself. It meets a turned copy elsewhere: at worst at a
    node of the middle ring, whose cell is the largest. Only for means over all rotations, which no turn changes.
    """
    azimuths, cosine, _ = euler_grid(resolution)
    return from_euler_angles(np.array((azimuths[-1], np.arccos(cosine[resolution // 2]), azimuths[-1])))


def surrogates(bandlimit: int, channels: int) -> np.ndarray:
    """Random signals of unit variance, which stand in for signals that are not known yet."""
    return np.random.default_rng(0).normal(size=(_SIGNALS, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit


def choose(accuracy: Accuracy, ladder: tuple[int, ...], values: Callable[[int], Values], least: float) -> Resolution:
    """The lowest resolution whose error is within the tolerance, or within rounding, `least`.

    `values(r)` are NNGP and NTK of the sample at resolution r.
    """
    known: dict[int, Values] = {}

    def at(r: int) -> Values:
        if r not in known:
            known[r] = values(r)
        return known[r]

    if accuracy.resolution is not None:
        r = accuracy.resolution
        error = difference(at(max(1, int(r / _FINER))), at(r))
        return Resolution(r, error, "resolution as asked for; the error is that of a coarser one")
    tolerance = max(accuracy.tolerance, least)
    for i, r in enumerate(ladder):
        finer = next((s for s in ladder[i + 1 :] if s >= _FINER * r), None)
        if finer is None:
            break
        last, error = r, difference(at(r), at(finer))
        if error <= tolerance:
            return Resolution(r, error, None)
    note = f"the tolerance {tolerance:.1e} is not reached"
    logger.warning("integrals over rotations: %s; the error is about %.1e", note, error)
    return Resolution(last, error, note)


def difference(coarse: Values, fine: Values) -> float:
    """Largest error of the coarser values of `pairs_of`, relative to those of signals with themselves.

    A signal and its turned copy have the kernel of the signal with itself.
    """
    n = len(fine[0]) // 3
    found = 0.0
    for a, b in zip(coarse, fine, strict=True):
        own, root = b[:n], np.sqrt(np.abs(b[:n]))
        scale = np.concatenate([root * root, root * root, root * np.roll(root, 1)])
        error = np.abs(a - np.concatenate([own, own, b[2 * n :]]))
        found = max(found, float((error / np.maximum(scale, 1e-12 * scale.max() + 1e-300)).max()))
    return found
