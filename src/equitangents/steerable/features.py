"""Features: some copies of each of several irreps, as channels.

The channels of "8x0+4x1" are 8 numbers, then 4 vectors one after another: copy by copy, components innermost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.steerable.irrep import SPACES, Irrep, check_elements, group_name, irrep
from equitangents.validation import check_array


@dataclass(frozen=True, init=False, repr=False)
class Features:
    """How channels transform: `entries` are pairs of a number of copies and an irrep.

    Args:
        text: Copies and irreps, such as "8x0+4x1"; "1" alone is one copy. Each irrep at most once. Parities are
            written for O(3), "8x0e+4x1o", and for degree 0 of O(2), "8x0e+2x0o+4x1".
        group: One of "SO(2)", "O(2)", "SO(3)", "O(3)", or such a group.

    Raises:
        InvalidArgumentError: The text names no irreps of the group, or one of them twice.

    >>> features = Features("8x0+4x1", "SO(3)")
    >>> features.dimension, features.matrix(np.eye(3)).shape
    (20, (20, 20))
    """

    group: str
    entries: tuple[tuple[int, Irrep], ...]

    def __init__(self, text: str | Features, group: SymmetryGroup | str | None = None) -> None:
        if isinstance(text, Features):
            if group is not None and group_name(group) != text.group:
                raise InvalidArgumentError("features", text.group, group_name(group), verb="are of")
            object.__setattr__(self, "group", text.group)
            object.__setattr__(self, "entries", text.entries)
            return
        if not isinstance(text, str):
            raise InvalidTypeError("features", text, "a text such as '8x0+4x1'")
        object.__setattr__(self, "group", group_name(group))
        object.__setattr__(self, "entries", tuple(_entry(part, self.group) for part in text.split("+")))
        _check_distinct(self)

    @classmethod
    def of(cls, group: str, entries: tuple[tuple[int, Irrep], ...]) -> Features:
        """Features of given copies and irreps."""
        return cls("+".join(f"{n}x{kind}" for n, kind in entries), group)

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        """The irreps, in order."""
        return tuple(kind for _, kind in self.entries)

    @property
    def dimension(self) -> int:
        """How many channels there are."""
        return sum(n * kind.dimension for n, kind in self.entries)

    @property
    def space(self) -> int:
        """The dimension of the space that the group turns, 2 or 3."""
        return SPACES[self.group]

    def copies(self, kind: Irrep) -> int:
        """How many copies of an irrep there are, 0 if none."""
        return dict((k, n) for n, k in self.entries).get(kind, 0)

    def parts(self) -> Iterator[tuple[Irrep, int, slice]]:
        """(irrep, copies, its channels) one after another."""
        start = 0
        for n, kind in self.entries:
            stop = start + n * kind.dimension
            yield kind, n, slice(start, stop)
            start = stop

    def split(self, values: ArrayLike) -> dict[Irrep, Any]:
        """Channels (..., dimension) by irrep: (..., copies, d)."""
        return {kind: values[..., at].reshape((*values.shape[:-1], n, -1)) for kind, n, at in self.parts()}

    def matrix(self, g: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch d d"]:
        """The representation ρ(g) on all channels, block-diagonal."""
        g = check_elements(self.group, g)
        found = np.zeros((*g.shape[:-2], self.dimension, self.dimension))
        for kind, n, at in self.parts():
            d, block = kind.dimension, kind.matrix(g)
            for start in range(at.start, at.start + n * d, d):
                found[..., start : start + d, start : start + d] = block
        return found

    def move(self, x: ArrayLike, g: Float[np.ndarray, "n n"]) -> np.ndarray:
        """Points x (..., coordinates and channels) moved by g: coordinates are turned, channels become ρ(g) times them.

        Raises:
            ShapeError: The last axis does not hold the coordinates and the channels.
        """
        x = np.asarray(check_array("x", x, allow_empty=True))
        if x.shape[-1] != self.space + self.dimension:
            raise ShapeError("x", x.shape, (..., self.space + self.dimension), "coordinates, then features")
        g = check_elements(self.group, g)
        turned = x[..., : self.space] @ g.T
        return np.concatenate([turned, x[..., self.space :] @ self.matrix(g).T], axis=-1).astype(x.dtype)

    def __str__(self) -> str:
        return "+".join(f"{n}x{kind}" for n, kind in self.entries)

    def __repr__(self) -> str:
        return f"Features({str(self)!r}, {self.group!r})"


def _entry(text: str, group: str) -> tuple[int, Irrep]:
    match = re.fullmatch(r"\s*(?:(\d+)\s*x)?\s*(\w+)\s*", text)
    if match is None or match[1] == "0":
        raise InvalidArgumentError("features", text, "copies and an irrep, such as '4x1'", verb="hold")
    return int(match[1] or 1), irrep(match[2], group)


def _check_distinct(features: Features) -> None:
    kinds = features.irreps
    twice = [kind for i, kind in enumerate(kinds) if kind in kinds[:i]]
    if twice:
        raise InvalidArgumentError(
            "features", twice[0], "each irrep once, with all of its copies", verb="name twice the irrep"
        )
