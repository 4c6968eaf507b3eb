"""What is carried by pair of positions beside Θ: the squared distance D = q1 + q2 - 2K, or the covariance K itself.

D keeps the digits of nearly equal inputs, K those of inputs of very different norm. Both are linear under windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals import Normalised, PiecewiseLinear
from equitangents.kernels.duals.geometry import rescaled
from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.operation import DualActivation
from equitangents.kernels.program import Affine, Dual, Op
from equitangents.kernels.units import leaves_units


class Carry(Protocol):
    """How operations act on what is carried, c."""

    def in_units(self, unit1: Any, unit2: Any) -> Carry:
        """The rules for inputs that were divided by these (None: by nothing)."""

    def after(self, op: Op) -> Carry:
        """How operations behind a nonlinearity, or a normalisation, act."""

    def units(self) -> tuple[Any, Any]:
        """What the fields were divided by."""

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


@dataclass(frozen=True)
class _Scaled:
    """Carried quantities of the fields s1·f and s2·g, for inputs that are multiplied by `scales` (s1, s2).

    These are numbers, or arrays with the axes of the inputs. A bias is scaled like a field. Scales are left at the
    first operation that is not homogeneous.
    """

    scales: tuple[Any, Any] | None = None

    def in_units(self, unit1: Any, unit2: Any) -> Self:
        """With the scales over the units."""
        if unit1 is None:
            return self
        first, second = self.scales or (1.0, 1.0)
        return replace(self, scales=(first / unit1, second / unit2))

    def scales_after(self, op: Op) -> tuple[Any, Any] | None:
        """None behind what is not homogeneous."""
        return None if leaves_units(op) else self.scales

    def units(self) -> tuple[Any, Any]:
        """One over the scales."""
        first, second = self.scales or (1.0, 1.0)
        return 1 / first, 1 / second

    def _are_left_at(self, activation: DualActivation) -> bool:
        return self.scales is not None and traits_of(activation).gain is None


@dataclass(frozen=True)
class Distance(_Scaled):
    """Carries the distance D from layer to layer, to which a bias of scaled fields adds b² (s1 - s2)²."""

    def after(self, op: Op) -> Distance:
        """The distance, without scales behind what is not homogeneous."""
        return Distance(self.scales_after(op))

    def start(self, f: Any, g: Any) -> Any:
        """Mean of (f - g)² over channels."""
        return jnp.mean((f - g) ** 2, axis=-1)

    def affine(self, op: Affine, c: Any) -> Any:
        """W² D: equal biases cancel."""
        return op.W_var * c if self.scales is None else op.W_var * c + op.b_var * (self.scales[0] - self.scales[1]) ** 2

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², in the inputs' scales."""
        return self.constant(op.b_var)

    def constant(self, value: float) -> Any:
        """The number times both scales."""
        return value if self.scales is None else value * self.scales[0] * self.scales[1]

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Moments after a nonlinearity, from the distance; scales are left at those that are not homogeneous."""
        if not self._are_left_at(activation):
            return activation.pair(c, q1, q2)
        t1, t2 = self.units()
        if isinstance(activation, Normalised):
            return activation.pair(c, q1, q2, (t1, t2))
        c, slope = activation.pair(rescaled(c, q1, q2, t1, t2), t1 * t1 * q1, t2 * t2 * q2)
        return c, slope * (t1 * t2)

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


class Either(NamedTuple):
    """The distances of f from g, and from -g, of which the smaller one has the digits of the angle."""

    equal: Any
    opposite: Any


@dataclass(frozen=True)
class EitherDistance(_Scaled):
    """Carries the distances from g and from -g, through linear layers and odd functions up to the first kink.

    Only for operations that act on every pair of positions alone, or take means of them.
    """

    def after(self, op: Op) -> EitherDistance | Distance:
        """Odd functions have opposite values; behind others there are no opposite inputs."""
        scales = self.scales_after(op)
        even = isinstance(op, Dual) and not traits_of(op.activation).odd
        return Distance(scales) if even else EitherDistance(scales)

    def _each(self) -> tuple[Distance, Distance]:
        if self.scales is None:
            return Distance((1.0, 1.0)), Distance((1.0, -1.0))
        return Distance(self.scales), Distance((self.scales[0], -self.scales[1]))

    def start(self, f: Any, g: Any) -> Either:
        """Means of (f - g)² and (f + g)² over channels."""
        return Either(*DISTANCE.start(f, jnp.stack([g, -g])))  # one reduction: XLA does not vectorise two in one loop

    def affine(self, op: Affine, c: Any) -> Either:
        """W² times both, and b² (s1 ∓ s2)²."""
        return Either(*(rule.affine(op, part) for rule, part in zip(self._each(), c, strict=True)))

    def bias(self, op: Affine) -> Any:
        """The bias' variance b², in the inputs' scales."""
        return self.constant(op.b_var)

    def constant(self, value: float) -> Any:
        """The number times both scales."""
        return Distance(self.scales).constant(value)

    def dual(self, activation: DualActivation, c: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Moments after an odd function, of both; after a kink that of g, from the smaller distance."""
        rule = Distance(self.scales)
        if traits_of(activation).odd:
            (equal, slope), (opposite, other) = (rule.dual(activation, part, q1, q2) for part in c)
            return Either(equal, opposite), jnp.where(c.opposite < c.equal, other, slope)
        if not isinstance(activation, PiecewiseLinear):
            return rule.dual(activation, c.equal, q1, q2)
        nearer = jax.lax.stop_gradient(c.opposite < c.equal)
        sign = jnp.where(nearer, -1, 1).astype(q1.dtype)
        return activation.pair(jnp.where(nearer, c.opposite, c.equal), q1, q2, sign)

    def covariance(self, c: Any, q1: Any, q2: Any) -> Any:
        """±(q1 + q2 - D)/2, from the smaller distance."""
        return jnp.where(c.opposite < c.equal, (c.opposite - (q1 + q2)) / 2, (q1 + q2 - c.equal) / 2)

    def of_covariance(self, k: Any, q1: Any, q2: Any) -> Any:
        """Never asked for: what is pooled goes on as the distance alone."""
        raise AssertionError("opposite inputs are not carried through pools")

    def unrelated(self, q1: Any, q2: Any) -> Any:
        """The sum of the variances."""
        return q1 + q2

    def cross(self, m1: Any, n1: Any, m2: Any, n2: Any) -> Any:
        """Never asked for: no branches are joined before the first kink."""
        raise AssertionError("opposite inputs are not carried through branches")

    def divided(self, c: Any, q1: Any, q2: Any, f1: Any, f2: Any) -> Either:
        """Those of `Distance`, of both."""
        return Either(*(DISTANCE.divided(part, q1, q2, f1, f2) for part in c))


@dataclass(frozen=True)
class Covariance(_Scaled):
    """Carries the covariance K from layer to layer."""

    def after(self, op: Op) -> Covariance:
        """The covariance, without scales behind what is not homogeneous."""
        return Covariance(self.scales_after(op))

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
        """Moments after a nonlinearity, from the covariance; scales are left at those that are not homogeneous."""
        if not self._are_left_at(activation):
            return activation.covariance(c, q1, q2)
        t1, t2 = self.units()
        c, slope = activation.covariance(t1 * t2 * c, t1 * t1 * q1, t2 * t2 * q2)
        return c, slope * (t1 * t2)

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
