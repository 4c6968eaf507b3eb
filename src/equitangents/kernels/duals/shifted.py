"""Activation kernel of a nonlinearity plus a constant: distances and derivatives do not change, moments do."""

from __future__ import annotations

from dataclasses import dataclass

from equitangents._types import ArrayLike
from equitangents.kernels.duals.traits import Traits, traits_of
from equitangents.kernels.operation import DualActivation


@dataclass(frozen=True)
class Shifted(Traits):
    """φ(x) + offset, for φ with the dual `of`."""

    of: DualActivation
    offset: float

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        return self.of.pair(d, q1, q2)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        value, slope = self.of.covariance(k, q1, q2)
        means = self.of.moments(q1)[1] + self.of.moments(q2)[1]
        return value + self.offset * (means + self.offset), slope

    @property
    def steepness(self) -> int:
        """The power as which φ grows, which the offset does not change."""
        return traits_of(self.of).steepness

    @property
    def grows(self) -> bool:
        """Whether φ does, which the offset does not change."""
        return traits_of(self.of).grows

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Second moment and mean, of φ and with the offset."""
        square, mean = self.of.moments(q)
        return square + self.offset * (2 * mean + self.offset), mean + self.offset
