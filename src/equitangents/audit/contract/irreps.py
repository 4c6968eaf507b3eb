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

from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.kinds import Kinds
from equitangents.errors import InvalidArgumentError
from equitangents.sphere.wigner import wigner

_TERM = re.compile(r"(?:(\d+)x)?(\d+)([eo])")
_TO_E3NN = np.eye(3)[[2, 0, 1]]  # (x, y, z) ↦ (z, x, y), whose usual real harmonics are those of e3nn
_LARGEST = 32  # degrees up to which the matrices are accurate


@dataclass(frozen=True, eq=False)
class Block:
    """One irrep: its name, and its matrix for an element's motion."""

    name: str
    size: int
    degree: int
    """l with its parity, or the frequency."""
    flips: bool = False
    """Whether the determinant multiplies it."""

    def matrix(self, motion: Any) -> Float[np.ndarray, "d d"]:
        """D(g) of a matrix of space, or of (degrees, reflected)."""
        if isinstance(motion, tuple):
            c, s = (f(np.radians(self.degree * motion[0])) for f in (np.cos, np.sin))
            return np.eye(1) if self.size == 1 else np.array([[c, -s], [s, c]])
        R = np.asarray(motion, np.float64)
        if self.degree == 0:
            D = np.eye(1)
        elif self.degree == 1:
            D = R
        else:
            D = np.asarray(wigner(_TO_E3NN @ R @ _TO_E3NN.T, self.degree + 1)[self.degree])
        return D * np.linalg.det(R).round() if self.flips else D


def is_irreps(text: Any) -> bool:
    """Whether a kind is a string of irreps such as "4x0e+2x1o"."""
    return isinstance(text, str) and all(_TERM.fullmatch(term) for term in text.replace(" ", "").split("+"))


def blocks_of(irreps: str, argument: str) -> list[tuple[int, Block]]:
    """(multiplicity, block) of every term; an error that names `argument` if it is no such string."""
    found = []
    for term in irreps.replace(" ", "").split("+"):
        match = _TERM.fullmatch(term)
        if match is None or int(match[2]) >= _LARGEST:
            raise InvalidArgumentError(argument, irreps, "irreps such as '8x0e+4x1o'")
        count, l, parity = int(match[1] or 1), int(match[2]), match[3]
        found.append((count, Block(f"{l}{parity}", 2 * l + 1, l, flips=(l % 2 == 0) != (parity == "e"))))
    return found


def irreps_matrix(blocks: list[tuple[int, Block]], motion: Any) -> Float[np.ndarray, "D D"]:
    """The block-diagonal matrix of all terms."""
    parts = [b.matrix(motion) for b in (b for count, b in blocks for _ in range(count))]
    D = np.zeros((sum(map(len, parts)),) * 2)
    at = 0
    for part in parts:
        D[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return D


def irreps_action(kinds: Kinds, irreps: str) -> MatrixAction:
    """What rotations of space do to arrays whose last axis holds these irreps."""
    if kinds.space != "space":
        raise InvalidArgumentError(
            "outputs", irreps, "SO3, O3, tetrahedral, octahedral or icosahedral for irreps of rotations of space"
        )
    blocks = blocks_of(irreps, "the kind is")
    size = sum(count * b.size for count, b in blocks)
    plain = irreps.replace(" ", "")
    return MatrixAction(kinds.group, lambda g: irreps_matrix(blocks, kinds.motion(g)), size, f"irreps {plain}")
