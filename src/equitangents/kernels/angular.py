"""What the reference engine carries by pair of positions: E = 2(√(q1 q2) - K) = 4 √(q1 q2) sin²(θ/2), the angle alone.

With ρ = √q, E is the squared distance of the fields a·f and g/a, a² = ρ2/ρ1, whose variances are equal; for any other a
that distance is E + (a ρ1 - ρ2/a)². Windows take means of distances, with the a of the pair behind them, so that
E' = mean over u of [E_u + (a ρ1_u - ρ2_u/a)²], and a bias of variance b² adds b² (a - 1/a)²: no term is negative.

Kernels do not depend on a, which counts as a number that inputs do not move: derivatives are those of the distance at
that a, and finite where √q has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import root_gap, safe_sqrt
from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.operation import DualActivation
from equitangents.kernels.program import Affine

_ROUNDING = 4  # in units of epsilon: smaller angles are what two ways of computing a deviation differ by
_WIDE = 8.0  # of ratios of deviations, beyond which D no longer resolves K behind a nonlinearity


class Both(NamedTuple):
    """The variances (q1, q2) of the fields f and g of every pair; a·f and b·g, b = 1/a, are of equal variance."""

    q1: Any
    q2: Any
    a: Any
    b: Any

    @property
    def to(self) -> tuple[Any, Any]:
        """What f and g are multiplied by where their norms are made equal: (a, 1/a)."""
        return self.a, self.b

    @property
    def root(self) -> Any:
        """The geometric mean of both variances, √(q1 q2)."""
        return safe_sqrt(self.q1) * safe_sqrt(self.q2)

    @property
    def equal(self) -> tuple[Any, Any]:
        """The variances of a·f and g/a, which differ by rounding."""
        return self.a**2 * self.q1, self.b**2 * self.q2

    def gap(self, one: Any, other: Any) -> Any:
        """How far apart what belongs to f and to g is at equal norms: a·one - other/a."""
        return self.a * one - self.b * other


def both(q1: Any, q2: Any) -> Both:
    """The variances of pairs; of a field that is zero any other counts in a."""
    first, second = (jnp.sqrt(jnp.sqrt(jnp.where(q > 0, jax.lax.stop_gradient(q), 1))) for q in (q1, q2))
    return Both(q1, q2, second * (1 / first), first * (1 / second))  # divisions are of inputs, not of pairs


PLAIN = 1.0, 1.0  # a and 1/a of the distance of f and g themselves


@jax.custom_jvp
def valued(value: ArrayLike, by: ArrayLike) -> ArrayLike:
    """`value` with the derivatives of `by`, which is the same number with more rounding."""
    return value


@valued.defjvp
def _(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return valued(*primals), tangents[1]


def start(f: ArrayLike, g: ArrayLike, at: Both, *, opposite: bool = False) -> tuple[Any, Any]:
    """(E of f and g, that of f and -g or None), from their channels, the last axis: √(q1 q2) |f/√q1 - g/√q2|²."""
    first, second = (jnp.where(q > 0, jnp.sqrt(jax.lax.stop_gradient(q)), 1) for q in (at.q1, at.q2))
    f, g = f / first[..., None], g / second[..., None]
    if not opposite:
        return vanishing(first * second * jnp.mean((f - g) ** 2, axis=-1), at), None
    # One reduction: XLA does not vectorise two in one loop.
    e, other = first * second * jnp.mean((f - jnp.stack([g, -g])) ** 2, axis=-1)
    return vanishing(e, at), vanishing(other, at)


def vanishing(e: Any, at: Both) -> Any:
    """The distance E of a·f and g/a: zero where a variance is, or an angle that rounding alone makes of none."""
    least = (_ROUNDING * jnp.finfo(e.dtype).eps) ** 2 * at.root
    return valued(jnp.where((at.root > 0) & (e > least), e, 0), e)


def moved(e: Any, at: Both, to: tuple[Any, Any]) -> Any:
    """The distance of a·f and b·g, `to` = (a, b), b = 1/a."""
    a, b = to
    gap = a * safe_sqrt(at.q1) - b * safe_sqrt(at.q2)
    return valued(e + gap**2, e + (a**2 - at.a**2) * at.q1 + (b**2 - at.b**2) * at.q2)


def angle_left(distance: Any, at: Both, of: tuple[Any, Any]) -> Any:
    """E of the distance of a·f and b·g, `of` = (a, b), whose rounding it keeps."""
    a, b = of
    rest = distance - (a * safe_sqrt(at.q1) - b * safe_sqrt(at.q2)) ** 2
    linear = distance - (a**2 - at.a**2) * at.q1 - (b**2 - at.b**2) * at.q2
    return vanishing(valued(rest, linear), at)


def covariance(e: Any, at: Both) -> Any:
    """The covariance K = √(q1 q2) - E/2."""
    one, other = at.equal
    return valued(at.root - e / 2, (one + other - e) / 2)


def of_covariance(k: Any, at: Both) -> Any:
    """E of a covariance; what is below its rounding counts as zero, which keeps equal inputs exact."""
    (one, other), e = at.equal, 2 * (at.root - k)
    rounding = 32 * jnp.finfo(e.dtype).eps * at.root
    return valued(jnp.where(e <= rounding, 0, e), one + other - 2 * k)


def affine(op: Affine, e: Any, before: Both, after: Both, sign: int = 1) -> Any:
    """The distance E of f and ±g behind weights and bias."""
    distance = op.W_var * moved(e, before, after.to) + op.b_var * (after.a - sign * after.b) ** 2
    return vanishing(distance, after)


def divided(e: Any, before: Both, f1: Any, f2: Any, after: Both) -> Any:
    """The distance E behind multiplication of f and g by f1 and f2."""
    product = f1 * f2
    more1, more2 = (after.a * f1) ** 2 - product * before.a**2, (after.b * f2) ** 2 - product * before.b**2
    return valued(product * e, product * e + more1 * before.q1 + more2 * before.q2)


def dual(activation: DualActivation, e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
    """(E, E[φ'φ']) behind a nonlinearity; to a kink a `sign` of ±1 says that the E before it is that of f and ±g.

    That which `Traits.angular` knows. Else of homogeneous ones that of a·f and g/a, which are of equal variance, of
    others what is left of the distance, or of K, where deviations differ much.
    """
    traits = traits_of(activation)
    q1, q2 = before.q1, before.q2
    own = traits.angular(e, q1, q2, after.a, *sign)
    if traits.homogeneity is not None:
        by, steep = activation.pair(e, *before.equal, *sign)
        own = own or (by, steep)
    else:
        distance, steep = activation.pair(moved(e, before, PLAIN), q1, q2)
        by = distance + (after.a**2 - 1) * after.q1 + (after.b**2 - 1) * after.q2
        if own is None:
            k, slope = activation.covariance(before.root - e / 2, q1, q2)
            wide = (before.a**2 > _WIDE) | (before.b**2 > _WIDE)
            own = jnp.where(wide, 2 * (after.root - k), distance - root_gap(after.q1, after.q2)), slope
    value, slope = own
    return vanishing(valued(value, by), after), valued(slope, steep)


def opposite(activation: DualActivation, e: Any, before: Both, after: Both) -> Any:
    """The distance E of φ(u) and -φ(v) from that of u and -v, where `Traits.opposite` knows it; else None."""
    value = traits_of(activation).opposite(e, before.q1, before.q2, after.a)
    if value is None:
        return None
    one, other = before.equal
    by, _ = dual(activation, 2 * (one + other) - e, before, after)
    whole = sum(after.equal)
    return vanishing(valued(value, 2 * whole - by), after)
