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
from equitangents.kernels.program import Affine, DualActivation

_ROUNDING = 4  # in units of epsilon, that two ways of computing a deviation may differ by
_WIDE = 8.0  # of ratios of deviations, beyond which D no longer resolves K behind a nonlinearity


class Both(NamedTuple):
    """The variances (q1, q2) of the fields f and g of every pair; a·f and g/a are of equal variance."""

    q1: Any
    q2: Any
    a: Any

    @property
    def positive(self) -> Any:
        """Where neither variance is zero."""
        return (self.q1 > 0) & (self.q2 > 0)

    @property
    def root(self) -> Any:
        """√(q1 q2)."""
        return safe_sqrt(self.q1) * safe_sqrt(self.q2)

    @property
    def equal(self) -> tuple[Any, Any]:
        """The variances of a·f and g/a, which differ by rounding."""
        return self.a**2 * self.q1, self.q2 / self.a**2

    def gap(self, one: Any, other: Any) -> Any:
        """a·one - other/a."""
        return self.a * one - other / self.a


def both(q1: Any, q2: Any) -> Both:
    """The variances of pairs; a is 1 where one of them is zero."""
    positive = (q1 > 0) & (q2 > 0)
    first, second = (jnp.sqrt(jnp.sqrt(jnp.where(positive, jax.lax.stop_gradient(q), 1))) for q in (q1, q2))
    return Both(q1, q2, jnp.where(q1 == q2, 1, second / first))  # compiled code may round the two roots apart


@jax.custom_jvp
def valued(value: ArrayLike, by: ArrayLike) -> ArrayLike:
    """`value` with the derivatives of `by`, which is the same number with more rounding."""
    return value


@valued.defjvp
def _(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return valued(*primals), tangents[1]


def start(f: ArrayLike, g: ArrayLike, at: Both, sign: int = 1) -> Any:
    """E of f and ±g, from their channels, the last axis."""
    a = at.a[..., None]
    return vanishing(jnp.mean((a * f - sign * g / a) ** 2, axis=-1), at)


def vanishing(e: Any, at: Both) -> Any:
    """E of a distance of a·f and g/a, which is zero where a variance is."""
    return valued(jnp.where(at.positive, e, 0), e)


def moved(e: Any, at: Both, to: Any) -> Any:
    """The distance of to·f and g/to; what is below the rounding of their deviations counts as equal."""
    more1, more2 = to**2 - at.a**2, 1 / to**2 - 1 / at.a**2
    one, other = to * safe_sqrt(at.q1), safe_sqrt(at.q2) / to
    gap = one - other
    gap = jnp.where(jnp.abs(gap) <= _ROUNDING * jnp.finfo(gap.dtype).eps * one, 0, gap)
    return valued(e + gap**2, e + more1 * at.q1 + more2 * at.q2)


def angle_left(distance: Any, at: Both, of: Any) -> Any:
    """E of the distance of of·f and g/of, whose rounding it keeps."""
    more1, more2 = of**2 - at.a**2, 1 / of**2 - 1 / at.a**2
    rest = distance - (of * safe_sqrt(at.q1) - safe_sqrt(at.q2) / of) ** 2
    return valued(jnp.where(at.positive & (rest > 0), rest, 0), distance - more1 * at.q1 - more2 * at.q2)


def covariance(e: Any, at: Both) -> Any:
    """K = √(q1 q2) - E/2."""
    one, other = at.equal
    return valued(at.root - e / 2, (one + other - e) / 2)


def of_covariance(k: Any, at: Both) -> Any:
    """E of a covariance; what is below its rounding counts as zero, which keeps equal inputs exact."""
    (one, other), e = at.equal, 2 * (at.root - k)
    rounding = 32 * jnp.finfo(e.dtype).eps * at.root
    return valued(jnp.where(e <= rounding, 0, e), one + other - 2 * k)


def affine(op: Affine, e: Any, before: Both, after: Both, sign: int = 1) -> Any:
    """E of f and ±g behind weights and bias."""
    distance = op.W_var * moved(e, before, after.a) + op.b_var * (after.a - sign / after.a) ** 2
    return vanishing(distance, after)


def divided(e: Any, before: Both, f1: Any, f2: Any, after: Both) -> Any:
    """E behind multiplication of f and g by f1 and f2."""
    product, square = f1 * f2, before.a**2
    more1, more2 = (after.a * f1) ** 2 - product * square, (f2 / after.a) ** 2 - product / square
    return valued(product * e, product * e + more1 * before.q1 + more2 * before.q2)


def dual(activation: DualActivation, e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
    """(E, E[φ'φ']) behind a nonlinearity; to a kink a `sign` of ±1 says that the E before it is that of f and ±g.

    Of homogeneous ones that of a·f and g/a, which are of equal variance; of others that which `Traits.angular` knows,
    or what is left of the distance, or of K, where deviations differ much.
    """
    traits = traits_of(activation)
    if traits.homogeneity is not None:
        found, slope = activation.pair(e, *before.equal, *sign)
        return vanishing(found, after), slope
    q1, q2 = before.q1, before.q2
    distance, steep = activation.pair(moved(e, before, 1.0), q1, q2)
    square = after.a**2
    by = distance + (square - 1) * after.q1 + (1 / square - 1) * after.q2
    own = traits.angular(e, q1, q2, after.a)
    if own is None:
        k, slope = activation.covariance(before.root - e / 2, q1, q2)
        wide = (before.a**2 > _WIDE) | (before.a**2 < 1 / _WIDE)
        own = jnp.where(wide, 2 * (after.root - k), distance - root_gap(after.q1, after.q2)), slope
    value, slope = own
    return vanishing(valued(jnp.where(value > 0, value, 0), by), after), valued(slope, steep)


def opposite(activation: DualActivation, e: Any, before: Both, after: Both) -> Any:
    """E of φ(u) and -φ(v) from that of u and -v, where `Traits.opposite` knows it; else None."""
    value = traits_of(activation).opposite(e, before.q1, before.q2, after.a)
    if value is None:
        return None
    one, other = before.equal
    by, _ = dual(activation, 2 * (one + other) - e, before, after)
    whole = sum(after.equal)
    return vanishing(valued(jnp.where(value > 0, value, 0), 2 * whole - by), after)
