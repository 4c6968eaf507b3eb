"""The distance used by the reference engine: E = 2(√(q1 q2) - K) = 4 √(q1 q2) sin²(θ/2), at each pair of positions.

With ρ = √q, E is the squared distance of the fields a·f and g/a, a² = ρ2/ρ1, whose variances are equal; for any other a
that distance is E + (a ρ1 - ρ2/a)². Windows average distances, with the a of the pair after the window, so that
E' = mean over u of [E_u + (a ρ1_u - ρ2_u/a)²], and a bias of variance b² adds b² (a - 1/a)²: no term is negative.

Kernels do not depend on a, which is treated as a constant: derivatives are those of the distance at that a, and finite
where √q has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import root_gap, safe_sqrt, traits_of
from equitangents.kernels.operations import Affine, DualActivation

_ROUNDING = 4  # in units of epsilon: smaller angles are what two ways of computing a deviation differ by
_WIDE = 8.0  # of ratios of deviations, beyond which D no longer resolves K behind a nonlinearity


class Both(NamedTuple):
    """The variances (q1, q2) of the fields f and g of every pair, and their square roots; a·f and b·g, b = 1/a, have
    equal variances.
    """

    q1: Any
    q2: Any
    a: Any
    b: Any
    root1: Any
    root2: Any

    @property
    def to(self) -> tuple[Any, Any]:
        """Factors (a, 1/a) of f and g that make their norms equal."""
        return self.a, self.b

    @property
    def root(self) -> Any:
        """The geometric mean of both variances, √(q1 q2)."""
        return self.root1 * self.root2

    @property
    def equal(self) -> tuple[Any, Any]:
        """The variances of a·f and g/a, which differ only by rounding."""
        return self.a**2 * self.q1, self.b**2 * self.q2

    @property
    def still(self) -> Both:
        """The same, with a as a constant without derivatives."""
        return self._replace(a=jax.lax.stop_gradient(self.a), b=jax.lax.stop_gradient(self.b))

    def gap(self, one: Any, other: Any) -> Any:
        """Difference at equal norms: a·one - other/a."""
        return self.a * one - self.b * other


def both(q1: Any, q2: Any) -> Both:
    """The variances of pairs; for a zero field, a is computed with any other variance."""
    roots = safe_sqrt(q1), safe_sqrt(q2)
    first, second = (
        jnp.sqrt(jnp.where(q > 0, root, 1)) for q, root in zip((q1, q2), jax.lax.stop_gradient(roots), strict=True)
    )
    a, b = second * (1 / first), first * (1 / second)  # divisions are of inputs, not of pairs
    return Both(q1, q2, a, b, *roots)


PLAIN = 1.0, 1.0  # a and 1/a of the distance of f and g themselves


def valued(value: Callable[..., Any], by: Callable[..., Any], *known: Any) -> Any:
    """value(*known) with the derivatives of by(*known), which is the same number with more rounding.

    `by` is traced only if something is differentiated. Both functions may read only the arrays in `known`.
    """
    found = jax.custom_jvp(value)

    @found.defjvp
    def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
        return found(*primals), jax.jvp(by, primals, tangents)[1]

    return found(*known)


def start(f: ArrayLike, g: ArrayLike, at: Both, *, opposite: bool = False) -> tuple[Any, Any]:
    """(E of f and g, E of f and -g or None), from channels on the last axis: √(q1 q2) |f/√q1 - g/√q2|²."""
    first, second = (jnp.where(q > 0, jnp.sqrt(jax.lax.stop_gradient(q)), 1) for q in (at.q1, at.q2))
    f, g = f / first[..., None], g / second[..., None]
    if not opposite:
        return vanishing(first * second * jnp.mean((f - g) ** 2, axis=-1), at), None
    # One reduction: XLA does not vectorise two in one loop.
    e, other = first * second * jnp.mean((f - jnp.stack([g, -g])) ** 2, axis=-1)
    return vanishing(e, at), vanishing(other, at)


def vanishing(e: Any, at: Both) -> Any:
    """The distance E of a·f and g/a, set to zero if a variance is zero, or the angle is below rounding."""
    return valued(_vanishing, lambda e, root: e, e, at.root)


def _vanishing(e: Any, root: Any) -> Any:
    least = (_ROUNDING * jnp.finfo(e.dtype).eps) ** 2 * root
    return jnp.where((root <= 0) | (e <= least), 0, e)  # NaN stays


def moved(e: Any, at: Both, to: tuple[Any, Any]) -> Any:
    """The distance of a·f and b·g, `to` = (a, b), b = 1/a."""
    return valued(distance, distance_by, e, at, to)


def distance(e: Any, at: Both, to: tuple[Any, Any]) -> Any:
    """The value of `moved`, without its derivatives."""
    return e + (to[0] * at.root1 - to[1] * at.root2) ** 2


def distance_by(e: Any, at: Both, to: tuple[Any, Any]) -> Any:
    """A function with the derivatives of `moved`."""
    a, b = jax.lax.stop_gradient(to)
    at = at.still
    return e + (a**2 - at.a**2) * at.q1 + (b**2 - at.b**2) * at.q2


def angle_left(distance: Any, at: Both, of: tuple[Any, Any]) -> Any:
    """E from the distance of a·f and b·g, `of` = (a, b), with the distance's rounding."""

    def value(distance: Any, at: Both, of: tuple[Any, Any]) -> Any:
        return _vanishing(distance - (of[0] * at.root1 - of[1] * at.root2) ** 2, at.root)

    def by(distance: Any, at: Both, of: tuple[Any, Any]) -> Any:
        a, b = jax.lax.stop_gradient(of)
        at = at.still
        return distance - (a**2 - at.a**2) * at.q1 - (b**2 - at.b**2) * at.q2

    return valued(value, by, distance, at, of)


def covariance(e: Any, at: Both) -> Any:
    """The covariance K = √(q1 q2) - E/2."""
    return valued(lambda e, at: at.root - e / 2, _covariance_by, e, at)


def nearest_covariance(e: Any, opposite: Any, at: Both) -> Any:
    """K from the smaller of E and that of f and -g."""

    def value(e: Any, opposite: Any, at: Both) -> Any:
        return jnp.where(opposite < e, opposite / 2 - at.root, at.root - e / 2)

    return valued(value, lambda e, opposite, at: _covariance_by(e, at), e, opposite, at)


def _covariance_by(e: Any, at: Both) -> Any:
    one, other = at.still.equal
    return (one + other - e) / 2


def of_covariance(k: Any, at: Both, terms: Any = 0.0) -> Any:
    """E of a covariance; values below its rounding count as zero, which keeps equal inputs exact.

    `terms`: for a mean with cancellation, the size of its terms, which determines the rounding of K.
    """

    def value(k: Any, at: Both, terms: Any) -> Any:
        e = 2 * (at.root - k)
        return jnp.where(e <= jnp.finfo(e.dtype).eps * jnp.maximum(32 * at.root, 16 * terms), 0, e)

    def by(k: Any, at: Both, terms: Any) -> Any:
        one, other = at.still.equal
        return one + other - 2 * k

    return valued(value, by, k, at, jax.lax.stop_gradient(terms))


def affine(op: Affine, e: Any, before: Both, after: Both, sign: int = 1) -> Any:
    """The distance E of f and ±g after weights and bias."""

    def through(move: Callable[..., Any], e: Any, before: Both, after: Both, scales: tuple[Any, Any]) -> Any:
        return scales[0] * move(e, before, after.to) + scales[1] * (after.a - sign * after.b) ** 2

    def value(e: Any, before: Both, after: Both, scales: tuple[Any, Any]) -> Any:
        return _vanishing(through(distance, e, before, after, scales), after.root)

    def by(e: Any, before: Both, after: Both, scales: tuple[Any, Any]) -> Any:
        return through(distance_by, e, before, after.still, scales)

    return valued(value, by, e, before, after, (op.W_var, op.b_var))


def divided(e: Any, before: Both, f1: Any, f2: Any, after: Both) -> Any:
    """The distance E after multiplication of f and g by f1 and f2."""

    def by(e: Any, before: Both, f1: Any, f2: Any, after: Both) -> Any:
        before, after = before.still, after.still
        product = f1 * f2
        more1, more2 = (after.a * f1) ** 2 - product * before.a**2, (after.b * f2) ** 2 - product * before.b**2
        return product * e + more1 * before.q1 + more2 * before.q2

    return valued(lambda e, before, f1, f2, after: f1 * f2 * e, by, e, before, f1, f2, after)


def dual(activation: DualActivation, e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
    """(E, E[φ'φ']) after a nonlinearity. For kinks, `sign` ±1 says that the E before it is that of f and ±g.

    By `Traits.angular` if implemented. Otherwise, homogeneous functions use the distance of a·f and g/a, which have
    equal variances; others the distance, or K if standard deviations differ much.
    """

    def value(e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
        found, slope = _behind(activation, e, before, after, *sign)
        return _vanishing(found, after.root), slope

    by = lambda e, before, after, *sign: _behind_by(activation, e, before, after, *sign)
    return valued(value, by, e, before, after, *sign)


def _behind(activation: DualActivation, e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
    traits = traits_of(activation)
    q1, q2 = before.q1, before.q2
    own = traits.angular(e, q1, q2, after.a, *sign)
    if own is not None:
        return own
    if traits.homogeneity is not None:
        return activation.pair(e, *before.equal, *sign)
    squared, _ = activation.pair(distance(e, before, PLAIN), q1, q2)
    k, slope = activation.covariance(before.root - e / 2, q1, q2)
    wide = (before.a**2 > _WIDE) | (before.b**2 > _WIDE)
    return jnp.where(wide, 2 * (after.root - k), squared - root_gap(after.q1, after.q2)), slope


def _behind_by(activation: DualActivation, e: Any, before: Both, after: Both, *sign: Any) -> tuple[Any, Any]:
    before, after = before.still, after.still
    if traits_of(activation).homogeneity is not None:
        return activation.pair(e, *before.equal, *sign)
    squared, steep = activation.pair(moved(e, before, PLAIN), before.q1, before.q2)
    return squared + (after.a**2 - 1) * after.q1 + (after.b**2 - 1) * after.q2, steep


def opposite(activation: DualActivation, e: Any, before: Both, after: Both) -> Any:
    """The distance E of φ(u) and -φ(v) from that of u and -v, if `Traits.opposite` is implemented; else None."""
    found = traits_of(activation).opposite(e, before.q1, before.q2, after.a)
    if found is None:
        return None

    def by(found: Any, e: Any, before: Both, after: Both) -> Any:
        rest, _ = _behind_by(activation, 2 * sum(before.still.equal) - e, before, after)
        return 2 * sum(after.still.equal) - rest

    return valued(lambda found, e, before, after: _vanishing(found, after.root), by, found, e, before, after)
