"""What is carried by pair of positions beside Θ: the squared distance D = q1 + q2 - 2K, or the covariance K itself.

D keeps the digits of nearly equal inputs, K those of inputs of very different norm. Both are linear under windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals import PiecewiseLinear
from equitangents.kernels.program import Affine, DualActivation


class Carry(Protocol):
    """How operations act on what is carried, c."""

    def in_units(self, unit1: Any, unit2: Any) -> Carry:
        """The rules for inputs that were divided by these (None: by nothing)."""

    def bent(self) -> Carry:
        """How operations behind a nonlinearity act."""

    def start(self, f: Any, g: Any) -> Any:
        """What is carried of two inputs, from their channels, the last axis."""

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


def _over(scales: tuple[Any, Any] | None, unit1: ArrayLike | None, unit2: ArrayLike) -> tuple[Any, Any] | None:
    if unit1 is None:
        return scales
    first, second = scales or (1.0, 1.0)
    return first / unit1, second / unit2


@dataclass(frozen=True)
class Distance:
    """Carries the distance D from layer to layer.

    With `scales` (s1, s2) it is that of the fields s1·f and s2·g, for inputs that are multiplied by them: numbers, or
    arrays with the axes of the inputs.
    Nonlinearities must then be homogeneous. A bias is scaled like a field, so that it adds b² (s1 - s2)² to D.

    With `sign`, an array of ±1 with the axes of the inputs, it is the distance from ±g up to the first kink: it keeps
    the angle between opposite inputs.
    """

    scales: tuple[Any, Any] | None = None
    sign: Any = None

    def in_units(self, unit1: Any, unit2: Any) -> Distance:
        """With the scales over the units."""
        return Distance(_over(self.scales, unit1, unit2), self.sign)

    def bent(self) -> Distance:
        """Behind a nonlinearity there are no opposite inputs: the distance without its sign."""
        return self if self.sign is None else Distance(self.scales)

    def start(self, f: Any, g: Any) -> Any:
        """Mean of (f - g)² over channels."""
        return jnp.mean((f - g if self.sign is None else f - self.sign[..., None] * g) ** 2, axis=-1)

    def affine(self, op: Affine, c: Any) -> Any:
        """W² D: equal biases cancel."""
        if self.scales is None:
            return op.W_var * c
        second = self.scales[1] if self.sign is None else self.sign * self.scales[1]
        return op.W_var * c + op.b_var * (self.scales[0] - second) ** 2

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², in the inputs' scales."""
        return self.constant(op.b_var)

    def constant(self, value: float) -> Any:
        """The number times both scales."""
        return value if self.scales is None else value * self.scales[0] * self.scales[1]

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Moments after a nonlinearity, from the distance."""
        if self.sign is None:
            return activation.pair(c, q1, q2)
        assert isinstance(activation, PiecewiseLinear)
        return activation.pair(c, q1, q2, self.sign)

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """(q1 + q2 - D)/2."""
        k = (q1 + q2 - c) / 2
        return k if self.sign is None else self.sign * k

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
    """Carries the covariance K from layer to layer; `scales` as in `Distance`."""

    scales: tuple[Any, Any] | None = None

    def in_units(self, unit1: Any, unit2: Any) -> Covariance:
        """With the scales over the units."""
        return Covariance(_over(self.scales, unit1, unit2))

    def bent(self) -> Covariance:
        """Behind a nonlinearity covariances go on as before."""
        return self

    def start(self, f: Any, g: Any) -> Any:
        """Mean of f g over channels."""
        return jnp.mean(f * g, axis=-1)

    def affine(self, op: Affine, c: ArrayLike) -> ArrayLike:
        """W² K + b²."""
        return op.W_var * c + self.bias(op)

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², in the inputs' scales, which adds to K."""
        return self.constant(op.b_var)

    def constant(self, value: float) -> Any:
        """The number times both scales."""
        return value if self.scales is None else value * self.scales[0] * self.scales[1]

    def dual(self, activation: DualActivation, c: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[Any, Any]:
        """Moments after a nonlinearity, from the covariance."""
        return activation.covariance(c, q1, q2)

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """The carried quantity as it is, since it is K."""
        return c

    def of_covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
        """The covariance as it is, since it is what is carried."""
        return k

    def unrelated(self, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
        """Zero, the covariance of independent signals."""
        return jnp.zeros_like(q1 + q2)

    def cross(self, m1: ArrayLike, n1: ArrayLike, m2: ArrayLike, n2: ArrayLike) -> ArrayLike:
        """E[f] E[g'] + E[g] E[f']."""
        return m1 * n2 + n1 * m2

    def divided(self, c: ArrayLike, q1: ArrayLike, q2: ArrayLike, f1: ArrayLike, f2: ArrayLike) -> ArrayLike:
        """Both factors times K."""
        return f1 * f2 * c


DISTANCE = Distance()
COVARIANCE = Covariance()
