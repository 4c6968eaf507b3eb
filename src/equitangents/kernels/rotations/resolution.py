"""Resolution of rotations, measured on the signals against a finer grid.

K(Q) of bandlimited signals is bandlimited, but a nonlinearity of it is not: the error of the Haar mean falls with the
resolution at a rate that depends on the nonlinearity, on the signals' size, and most of all on how alike they are (the
angle of a signal with itself has a kink at Q = 1). So a sample of pairs, those of signals with themselves among them,
is computed at growing resolution until it agrees with a grid at least half as fine again.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from equitangents.groups.rotation_group import euler_grid, from_euler_angles
from equitangents.groups.rotations_of_space import random_rotations
from equitangents.kernels.rotations.program import Accuracy
from equitangents.sphere import degrees, rotate

logger = logging.getLogger("equitangents")

LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
# A field on the sphere for each rotation costs five powers of the resolution.
LADDER_OF_FIELDS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24)
AS_ASKED = "resolution as asked for"
_FINER = 1.5  # how much finer the grid is that errors are measured against
_COARSEST_FINER = 4  # the grid for errors of resolution 1, which has no coarser one
_SIGNALS = 4  # in a sample
_SIDES = 4  # from which each of them is seen


class Resolution(NamedTuple):
    """Nodes in cos β, the error measured there relative to √(K(x,x) K(x',x')), and what a reader should know of it."""

    value: int
    error: float | None
    note: str | None


Values = tuple[np.ndarray, np.ndarray]


def sampled_for(net: Any, x: Callable[[], Any]) -> Any:
    """A kernel with rotations sampled as finely as inputs x() ask for; itself, where it says that it samples none."""
    return net.sampled_for(x()) if getattr(net, "samples_rotations", False) else net


def sample(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Signals to measure on: the largest, the steepest, the roughest for its size, and any others.

    What is large in its constant part alone is exact on any grid, so size does not tell what is hard.
    """
    x = np.concatenate([x1, x2])
    l = degrees(round(x.shape[1] ** 0.5))
    power = (x**2).sum(axis=2)
    size, slope = power.sum(axis=1), power @ (l * (l + 1.0))
    rough = np.divide(slope, size, out=np.zeros_like(size), where=size > 0)
    hardest = [int(np.argmax(by)) for by in (size, slope, rough)]
    others = [0, len(x) - 1, *np.argsort(-slope, kind="stable").tolist()]
    return x[sorted(list(dict.fromkeys([*hardest, *others]))[:_SIGNALS])]


def from_several_sides(x: np.ndarray) -> np.ndarray:
    """Signals, and their copies under fixed rotations.

    The error of a mean over the grid depends on how the signals lie to it, up to fivefold, and a kernel holds them in
    any position. Only for means over all rotations, which no turn changes.
    """
    turns = random_rotations(_SIDES - 1, np.random.default_rng(7))
    return np.concatenate([x, *(rotate(x, R) for R in turns)])


def pairs_of(x: np.ndarray, turns: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of n signals with themselves, with rotated copies, and with the next signal."""
    turned = [rotate(x, R) for R in turns]
    return np.concatenate([x] * (len(turns) + 2)), np.concatenate([x, *turned, np.roll(x, 1, axis=0)])


def turn_to_node(resolution: int) -> np.ndarray:
    """The rotation after which a signal meets itself at the worst place of a grid over relative rotations.

    Grids are densest around the identity, where a signal meets itself. It meets a turned copy elsewhere: at worst at a
    node of the middle ring, whose cell is the largest. Only for means over all rotations, which no turn changes.
    """
    azimuths, cosine, _ = euler_grid(resolution)
    return _turn(azimuths[-1], cosine[resolution // 2])


def turn_between_nodes(resolution: int) -> np.ndarray:
    """A rotation to the middle of a cell, where means come out too small, not too large.

    Then the signal and its copy are at an angle that nonlinearities behind the mean see; at a node there is none.
    """
    azimuths, cosine, _ = euler_grid(resolution)
    middle = resolution // 2
    return _turn(azimuths[-1] + np.pi / len(azimuths), (cosine[middle] + (cosine[middle - 1] if middle else 1)) / 2)


def _turn(azimuth: float, cosine: float) -> np.ndarray:
    return from_euler_angles(np.array((azimuth, np.arccos(cosine), azimuth)))


def surrogates(bandlimit: int, channels: int) -> np.ndarray:
    """Random signals of unit variance, which stand in for signals that are not known yet."""
    return np.random.default_rng(0).normal(size=(_SIGNALS, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit


def choose(
    accuracy: Accuracy, ladder: tuple[int, ...], values: Callable[[int], Values], n: int, least: float
) -> Resolution:
    """The lowest resolution whose error is within the tolerance, or within rounding, `least`.

    `values(r)` are NNGP and NTK of the pairs of n signals at resolution r.
    """
    at = functools.cache(values)
    error = lambda coarse, fine: difference(at(coarse), at(fine), n)
    if accuracy.resolution is not None:
        r = accuracy.resolution
        if r == 1:
            return Resolution(r, error(1, _COARSEST_FINER), AS_ASKED)
        return Resolution(r, error(coarser(r), r), f"{AS_ASKED}; the error is that of a coarser one")
    found = search(ladder, error, max(accuracy.tolerance, least))
    if found.note is None and found.error is not None and found.error > accuracy.tolerance:
        note = f"the tolerance {accuracy.tolerance:.1e} is below the precision's own, {least:.1e}, which was taken"
        return found._replace(note=note)
    return found


def coarser(resolution: int) -> int:
    """One against which a resolution that was asked for is half as fine again."""
    return max(1, int(resolution / _FINER))


def search(ladder: Sequence[int], error: Callable[[int, int], float], tolerance: float) -> Resolution:
    """The lowest resolution of a ladder whose `error(r, finer)`, against one half as fine again, is within `tolerance`.

    Where none is, the finest that has a finer one, with a note and a warning; where none has, the first, whose error is
    infinite.
    """
    last, missed = ladder[0], float("inf")
    for r in ladder:
        finer = next((s for s in ladder if s >= _FINER * r), None)
        if finer is None:
            break
        last, missed = r, error(r, finer)
        if missed <= tolerance:
            return Resolution(r, missed, None)
    note = f"the tolerance {tolerance:.1e} is not reached"
    logger.warning("integrals over rotations: %s; the error is about %.1e", note, missed)
    return Resolution(last, missed, note)


def difference(coarse: Values, fine: Values, n: int) -> float:
    """Largest error of the coarser values of `pairs_of` n signals, relative to those of signals with themselves.

    A signal and its turned copies have the kernel of the signal with itself.
    """
    errors = [0.0]
    for a, b in zip(coarse, fine, strict=True):
        own, root = b[:n], np.sqrt(np.abs(b[:n]))
        same = len(b) // n - 1
        scale = np.concatenate([np.tile(root * root, same), root * np.roll(root, 1)])
        error = np.abs(a - np.concatenate([np.tile(own, same), b[same * n :]]))
        errors.append((error / np.maximum(scale, 1e-12 * scale.max() + 1e-300)).max())
    return float(np.max(errors))  # NaN if any is
