"""What is carried by pair of positions beside Θ: the squared distance D = q1 + q2 - 2K, or the covariance K itself.

D keeps the digits of nearly equal inputs, K those of inputs of very different norm. Both are linear under windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp

from equitangents.kernels.program import Affine, DualActivation


class Carry(Protocol):
    """How operations act on what is carried, c."""

    def start(self, f: Any, g: Any) -> Any:
        """Of two inputs' channels, the last axis."""

    def affine(self, op: Affine, c: Any) -> Any:
        """After weights and bias."""

    def bias(self, op: Affine) -> Any:
        """What a bias adds to K."""

    def constant(self, value: float) -> Any:
        """A number that is added to K or Θ, in the inputs' scales."""

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """(c after a nonlinearity, E[φ'φ'])."""

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """The covariance K that the carried quantity stands for."""

    def of_covariance(self, k: Any, q1: Any, q2: Any) -> Any:
        """What is carried, from a pooled K."""

    def unrelated(self, q1: Any, q2: Any) -> Any:
        """What is carried where K = 0."""

    def cross(self, m1: Any, n1: Any, m2: Any, n2: Any) -> Any:
        """What the sum of two independent fields of means m and n gains by these."""

    def divided(self, c: Any, q1: Any, q2: Any, f1: Any, f2: Any) -> Any:
        """What is carried after multiplication of the fields, of variances q1 and q2, by f1 and f2."""


@dataclass(frozen=True)
class Distance:
    """Carries the distance D from layer to layer.

    With `scales` (s1, s2) it is that of the fields s1·f and s2·g, for inputs that are multiplied by them.
    Nonlinearities must then be homogeneous. A bias is scaled like a field, so that it adds b² (s1 - s2)² to D.
    """

    scales: tuple[Any, Any] | None = None

    def start(self, f: Any, g: Any) -> Any:
        """Mean of (f - g)² over channels."""
        return jnp.mean((f - g) ** 2, axis=-1)

    def affine(self, op: Affine, c: Any) -> Any:
        """W² D: equal biases cancel."""
        if self.scales is None:
            return op.W_var * c
        return op.W_var * c + op.b_var * (self.scales[0] - self.scales[1]) ** 2

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², in the inputs' scales."""
        return self.constant(op.b_var)

    def constant(self, value: float) -> Any:
        """The number times both scales."""
        return value if self.scales is None else value * self.scales[0] * self.scales[1]

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Moments after a nonlinearity, from the distance."""
        return activation.pair(c, q1, q2)

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """(q1 + q2 - D)/2."""
        return (q1 + q2 - c) / 2

    def of_covariance(self, k: Any, q1: Any, q2: Any) -> Any:
        """Differences below their rounding count as zero, which keeps equal inputs exact."""
        d = q1 + q2 - 2 * k
        return jnp.where(d <= 16 * jnp.finfo(d.dtype).eps * (q1 + q2), 0, d)

    def unrelated(self, q1: Any, q2: Any) -> Any:
        """The sum of the variances."""
        return q1 + q2

    def cross(self, m1: Any, n1: Any, m2: Any, n2: Any) -> Any:
        """Twice the product of the gaps."""
        return 2 * (m1 - m2) * (n1 - n2)

    def divided(self, c: Any, q1: Any, q2: Any, f1: Any, f2: Any) -> Any:
        """Both factors times D, and what their gap adds."""
        return f1 * f2 * c + (f1 - f2) * (f1 * q1 - f2 * q2)


@dataclass(frozen=True)
class Covariance:
    """Carries the covariance K from layer to layer."""

    def start(self, f: Any, g: Any) -> Any:
        """Mean of f g over channels."""
        return jnp.mean(f * g, axis=-1)

    def affine(self, op: Affine, c: Any) -> Any:
        """W² K + b²."""
        return op.W_var * c + op.b_var

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², which adds to K."""
        return op.b_var

    def constant(self, value: float) -> Any:
        """The number as it is."""
        return value

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Moments after a nonlinearity, from the covariance."""
        return activation.covariance(c, q1, q2)

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """The carried quantity as it is, since it is K."""
        return c

    def of_covariance(self, k: Any, q1: Any, q2: Any) -> Any:
        """The covariance as it is, since it is what is carried."""
        return k

    def unrelated(self, q1: Any, q2: Any) -> Any:
        """Zero, the covariance of independent signals."""
        return jnp.zeros_like(q1 + q2)

    def cross(self, m1: Any, n1: Any, m2: Any, n2: Any) -> Any:
        """E[f] E[g'] + E[g] E[f']."""
        return m1 * n2 + n1 * m2

    def divided(self, c: Any, q1: Any, q2: Any, f1: Any, f2: Any) -> Any:
        """Both factors times K."""
        return f1 * f2 * c


DISTANCE = Distance()
COVARIANCE = Covariance()
