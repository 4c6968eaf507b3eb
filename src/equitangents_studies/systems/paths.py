"""Paths of transformations from the identity: t ↦ exp(−tA), A antisymmetric.

A has independent Gaussian entries above its diagonal, of variance 1/(n − 1), n its size: so E|Ax|² = |x|², and t is the
length that a signal has gone, in units of its norm. The path stays in the part of the group that is connected with the
identity, the rotations; reflections are not on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import check_whole
from equitangents_studies.systems.data_groups import DataGroup, data_group
from equitangents_studies.systems.transformations import ChannelRotations, FullRotation, Transformation


@dataclass(frozen=True, eq=False)
class Path:
    """`path(t)` is the transformation exp(−tA); `path(0)` is the identity.

    `generators`: A, (1, c, c) or (d, c, c) on channels, (1, cd, cd) on all coordinates.
    """

    group: DataGroup
    shape: tuple[int, ...]
    generators: np.ndarray

    def __call__(self, t: float) -> Transformation:
        """The transformation at t."""
        if not np.isfinite(t):
            raise InvalidArgumentError(f"t is {t!r}; expected a finite number")
        matrices = scipy.linalg.expm(-float(t) * self.generators)
        if self.group.reach == "all":
            return FullRotation(self.group, self.shape, matrices[0])
        return ChannelRotations(self.group, self.shape, matrices)


def path(group: str, shape: tuple[int, ...], *, seed: int = 0) -> Path:
    """A random path from the identity into `group`, one of "O(3)xI", "O(3)^d" and "O(3d)", on signals of `shape`.

    >>> import numpy as np
    >>> into = path("O(3)^d", (4, 4, 3), seed=0)
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> bool(np.allclose(into(0.0)(x), x)), into(0.5).orthogonality_error < 1e-13
    (True, True)

    Source: Xiao & Pennington 2022, arXiv 2207.04612, figure S1; the scale of A is this library's.
    """
    if not shape or min(shape) < 1:
        raise ShapeError(f"shape is {shape}; expected (*positions, channels), each at least 1")
    kind = data_group(group, shape)
    if kind.letter != "O" or kind.size < 2:
        raise InvalidArgumentError(f"group is {group!r}, which is finite here: no path leads away from the identity")
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    count = kind.positions if kind.reach == "own" else 1
    entries = np.triu(rng.standard_normal((count, kind.size, kind.size)), 1) / np.sqrt(kind.size - 1)
    return Path(kind, tuple(shape), entries - entries.swapaxes(1, 2))
