"""S_n of any n, whose n! elements are drawn rather than listed; element p takes position i to p[i]."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from jaxtyping import Int

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.symmetry_group import Immutable, SymmetryGroup
from equitangents.validation import check_whole


@final
class Permutations(Immutable, SymmetryGroup):
    """All permutations of n positions; made by `permutations`. `symmetric(n)` lists those of up to 7."""

    n: int

    def __init__(self, n: int):
        vars(self).update(n=n, name=f"S{n}")

    @property
    def order(self) -> int:
        """The number of permutations, n!."""
        return math.factorial(self.n)

    @property
    def identity(self) -> Int[np.ndarray, " n"]:
        """The identity permutation of n points."""
        return np.arange(self.n)

    def check_element(self, name: str, g: Element) -> Int[np.ndarray, " n"]:
        """`g` as an array if it is a permutation of 0 .. n − 1."""
        p = np.asarray(g)
        if p.dtype.kind not in "iu":
            raise InvalidTypeError(name, g, "a permutation of 0, 1, ..., n − 1")
        if p.shape != (self.n,) or not np.array_equal(np.sort(p), np.arange(self.n)):
            raise InvalidArgumentError(name, p.tolist(), "a permutation of 0, 1, ..., n − 1")
        return p

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Independent permutations, each of the n! equally likely."""
        return [rng.permutation(self.n) for _ in range(count)]

    def compose(self, a: Element, b: Element) -> np.ndarray:
        """First b, then a: entry i is a[b[i]]."""
        return np.asarray(a)[b]

    def inverse(self, a: Element) -> np.ndarray:
        """The inverse permutation of a."""
        return np.argsort(a)

    def label(self, g: Element) -> str:
        """The images of the first positions."""
        shown = ",".join(map(str, g[:8]))
        return f"({shown}{',…' if self.n > 8 else ''})"

    def _value(self) -> tuple[Any, ...]:
        return (self.n,)

    def __repr__(self) -> str:
        return f"<{self.name}, all permutations of {self.n} positions>"


def permutations(n: int) -> Permutations:
    """S_n for any n, of which elements are drawn.

    >>> G = permutations(20)
    >>> G.compose(G.inverse(p := G.draw(1, np.random.default_rng(0))[0]), p).tolist() == list(range(20))
    True
    """
    return Permutations(check_whole("n", n, 1))
