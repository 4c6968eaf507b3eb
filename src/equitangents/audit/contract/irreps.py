"""Irreps of rotations side by side, such as "4x0e+2x1o": numbers that turn by D(g), block after block.

The basis is that of e3nn since 0.2.2: real spherical harmonics whose degree 1 is (x, y, z), and whose degree 2 is
(xz, xy, y² − (x² + z²)/2, yz, (z² − x²)/2) up to factors; each multiplicity is a block of its own, one after another.
Source: docs.e3nn.org, "Change of Basis".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.kinds import Kinds
from equitangents.errors import InvalidArgumentError
from equitangents.sphere.wigner import wigner

_TERM = re.compile(r"(?:(\d+)x)?(\d+)([eo])")
_TO_E3NN = np.eye(3)[[2, 0, 1]]  # (x, y, z) ↦ (z, x, y), whose usual real harmonics are those of e3nn
_LARGEST = 32  # degrees up to which the matrices are accurate


@dataclass(frozen=True)
class Block:
    """The irrep of degree l."""

    degree: int
    flips: bool
    """Whether the determinant multiplies it."""

    @property
    def size(self) -> int:
        """2 l + 1."""
        return 2 * self.degree + 1

    def matrix(self, R: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "d d"]:
        """D(R)."""
        D = R if self.degree == 1 else wigner(_TO_E3NN @ R @ _TO_E3NN.T, self.degree + 1)[self.degree]
        return np.asarray(D) * (np.linalg.det(R).round() if self.flips else 1.0)


def is_irreps(text: Any) -> bool:
    """Whether a kind is a string of irreps such as "4x0e+2x1o"."""
    return isinstance(text, str) and all(_TERM.fullmatch(term) for term in text.replace(" ", "").split("+"))


def blocks_of(irreps: str, argument: str) -> list[tuple[int, Block]]:
    """(multiplicity, block) of every term; an error that names `argument` if it is no such string."""
    found = []
    for term in irreps.replace(" ", "").split("+"):
        match = _TERM.fullmatch(term)
        if match is None or int(match[2]) >= _LARGEST:
            raise InvalidArgumentError(f"{argument} {irreps!r}; expected irreps such as '8x0e+4x1o'")
        count, l, parity = int(match[1] or 1), int(match[2]), match[3]
        found.append((count, Block(l, flips=(l % 2 == 0) != (parity == "e"))))
    return found


def irreps_matrix(blocks: list[tuple[int, Block]], R: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "D D"]:
    """The block-diagonal matrix of all terms, for a rotation or reflection."""
    parts = [(count, block.matrix(np.asarray(R, np.float64))) for count, block in blocks]
    return block_diag(*(D for count, D in parts for _ in range(count)))


def irreps_action(kinds: Kinds, irreps: str) -> MatrixAction:
    """What rotations of space do to arrays whose last axis holds these irreps."""
    if kinds.space != "space":
        raise InvalidArgumentError(
            f"{irreps!r} are irreps of rotations of space; {kinds.group.name} is none of SO3, O3, tetrahedral, "
            "octahedral, icosahedral"
        )
    blocks = blocks_of(irreps, "the kind is")
    size = sum(count * b.size for count, b in blocks)
    plain = irreps.replace(" ", "")
    return MatrixAction(kinds.group, lambda g: irreps_matrix(blocks, kinds.motion(g)), size, f"irreps {plain}")
