"""Activation kernels of functions with a jump: sign and step. With the angle θ between u and v,

E[sign(u) sign(v)] = 1 - 2θ/π and E[step(u) step(v)] = (1 - θ/π)/2. Their derivative is a delta at 0, of which
E[φ'(u)φ'(v)] = c/√(q1 q2 - k²) is infinite at equal inputs: there is no NTK, and the slope below stands for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import (
    acute_angle,
    angle_of_covariance,
    half_angle,
    nearest_axis,
    nearest_axis_of,
)
from equitangents.kernels.duals.traits import Traits

NO_NTK = (
    "a function with a jump has no neural tangent kernel: the kernel of its derivative is infinite between equal "
    "inputs; use the NNGP (kernel='nngp'), or a smooth function such as Erf(), Gelu() or Elementwise(jax.nn.sigmoid)"
)


def _share(s: ArrayLike, m: ArrayLike) -> ArrayLike:
    """θ/π from s = sin²(θ/2) and m = min(s, 1 - s)."""
    acute = acute_angle(m) / jnp.pi
    return jnp.where(s <= 0.5, acute, 1 - acute)


class _Step(Traits):
    """A function of the sign alone: it jumps by `gap` at 0, and E[φ(u)²] is `square` where u is not 0 for certain."""

    bent: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    no_ntk: ClassVar[str | None] = NO_NTK
    gap: ClassVar[float]
    square: ClassVar[float]

    @property
    def homogeneity(self) -> int:
        """0: only the sign of x counts."""
        return 0

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and zeros in place of a derivative that there is not."""
        s, _, _ = half_angle(d, q1, q2)
        both = self.gap**2 * _share(s, nearest_axis(s, d, q1, q2))
        one = (jnp.where(q1 > 0, 1.0, 0.0) + jnp.where(q2 > 0, 1.0, 0.0)) * self.square
        return jnp.where((q1 > 0) & (q2 > 0), both, one.astype(both.dtype)), jnp.zeros_like(both)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] from the covariance itself, and zeros."""
        s, r = angle_of_covariance(k, q1, q2)
        both = self.square * (1 - self.gap * _share(s, nearest_axis_of(s, r)))
        return jnp.where(r > 0, both, 0), jnp.zeros_like(both)


@dataclass(frozen=True)
class Sign(_Step):
    """The sign of x, -1, 0 or 1."""

    gap: ClassVar[float] = 2.0
    square: ClassVar[float] = 1.0

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """1 (0 where x is 0 for certain) and 0."""
        return jnp.where(q > 0, 1, 0).astype(q.dtype), jnp.zeros_like(q)


@dataclass(frozen=True)
class Heaviside(_Step):
    """1 where x > 0, else 0."""

    gap: ClassVar[float] = 1.0
    square: ClassVar[float] = 0.5

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """1/2 and 1/2 (0 where x is 0 for certain)."""
        half = jnp.where(q > 0, 0.5, 0).astype(q.dtype)
        return half, half
