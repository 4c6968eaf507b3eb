"""Moments of any φ for pairs of variables: by Hermite series where these are short, else by integrals over sectors.

With ρ = cos θ, a_0, b_n as in `line` and c_n = √q b_n: E[φφ'] = a_0 a_0' + Σ c_n c_n' ρⁿ/n, E[φ'φ'] = Σ b_n b_n' ρⁿ⁻¹,
and E[(aφ - φ'/a)²] = (a a_0 - a_0'/a)² + Σ [(a c_n - c_n'/a)² + 2 c_n c_n' (1 - ρⁿ)]/n without cancellation, since
1 - ρⁿ = 2s (1 + ρ + … + ρⁿ⁻¹).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents.kernels.duals import sectors
from equitangents.kernels.duals.geometry import safe_sqrt
from equitangents.kernels.duals.line import FEW, MANY, Line, bound, line, lost

_BLOCK = 32  # pairs of which none or all are integrated over sectors
_UNROLLED = 8  # terms in one pass over all pairs


class PairMoments(NamedTuple):
    """E[(aφ(u) - φ(v)/a)²], E[φφ] and E[φ'φ']; NaN where the tolerance is missed."""

    distance: Any
    product: Any
    slope: Any


def moments(function: Callable[[Any], Any], tolerance: float, s: Any, q1: Any, q2: Any, a: Any) -> PairMoments:
    """`PairMoments` at sin²(θ/2) = s; all broadcast against each other."""
    one, other = line(function, q1), line(function, q2)
    allowed = bound(tolerance, s.dtype)
    at = s, q1, q2, a
    few = jnp.maximum(jnp.max(lost(one, q1, FEW)), jnp.max(lost(other, q2, FEW))) <= allowed
    by = lambda terms: lambda one, other, at: _series(terms, one, other, *at)
    found = jax.lax.cond(few, by(FEW), by(MANY), one, other, at)
    short = (lost(one, q1, MANY) <= allowed) & (lost(other, q2, MANY) <= allowed)
    sure = (one.error <= allowed) & (other.error <= allowed)
    short, sure = (jnp.broadcast_to(part, found.slope.shape) for part in (short, sure))
    found = _by_sectors(function, tolerance, found, short | ~sure, one, other, *at)
    return PairMoments(*(jnp.where(sure, part, jnp.nan) for part in found))


def _series(terms: int, one: Line, other: Line, s: Any, q1: Any, q2: Any, a: Any) -> PairMoments:
    root1, root2 = safe_sqrt(q1), safe_sqrt(q2)
    cosine = 1 - 2 * s
    zero = jnp.zeros(jnp.broadcast_shapes(s.shape, root1.shape, root2.shape), s.dtype)

    def add(total: tuple[Any, ...], term: tuple[Any, Any, Any]) -> tuple[tuple[Any, ...], None]:
        gaps, turned, product, slope, power, geometric = total
        n, b, b2 = term
        c, c2 = root1 * b, root2 * b2
        geometric = geometric + power  # 1 + ρ + … + ρⁿ⁻¹
        slope = slope + b * b2 * power
        power = power * cosine
        gaps = gaps + (a * c - c2 / a) ** 2 / n
        turned = turned + c * c2 * geometric / n
        product = product + c * c2 * power / n
        return (gaps, turned, product, slope, power, geometric), None

    numbers = jnp.arange(1, terms + 1, dtype=s.dtype)
    sides = numbers, one.slopes[:terms], other.slopes[:terms]
    # Groups of terms, whose values are computed again for derivatives in place of being kept.
    grouped = tuple(part.reshape(-1, _UNROLLED, *part.shape[1:]) for part in sides)

    def group(total: Any, terms: Any) -> Any:
        return jax.lax.scan(add, total, terms, unroll=_UNROLLED)

    start = (zero, zero, zero, zero, zero + 1, zero)
    (gaps, turned, product, slope, *_), _ = jax.lax.scan(jax.checkpoint(group), start, grouped)
    distance = (a * one.mean - other.mean / a) ** 2 + gaps + 4 * s * turned
    return PairMoments(distance, one.mean * other.mean + product, slope)


def _by_sectors(
    function: Callable[[Any], Any], tolerance: float, found: PairMoments, short: Any, one: Line, other: Line, *at: Any
) -> PairMoments:
    """`found` with the pairs whose series are not short integrated over sectors, where there are any."""
    allowed = bound(tolerance, found.slope.dtype)
    shape, size = found.slope.shape, found.slope.size
    if size == 0:
        return found
    known = one.square, one.steepness, other.square, other.steepness

    def all_blocks(found: PairMoments) -> PairMoments:
        blocks = -(-size // _BLOCK)

        def blocked(part: Any) -> Any:
            flat = jnp.broadcast_to(part, shape).ravel()
            return jnp.concatenate([flat, jnp.repeat(flat[-1:], blocks * _BLOCK - size)]).reshape(blocks, _BLOCK)

        def integrated(block: Any) -> PairMoments:
            _, _, known, at = block
            sums = sectors.sums(function, tolerance, *at)
            wrong = [abs(sums.squares[0] / known[0] - 1), abs(sums.steepness[0] / known[1] - 1)]
            wrong += [abs(sums.squares[1] / known[2] - 1), abs(sums.steepness[1] / known[3] - 1)]
            sure = jnp.all(jnp.stack(wrong) <= allowed)
            new = PairMoments(sums.distance, sums.product, sums.slope)
            return PairMoments(*(jnp.where(sure, part, jnp.nan) for part in new))

        def one_pair(pair: Any) -> PairMoments:
            return jax.lax.cond(pair[1], lambda pair: pair[0], integrated, pair)

        def of_block(block: Any) -> PairMoments:
            every = lambda block: jax.lax.map(one_pair, block)
            return jax.lax.cond(jnp.all(block[1]), lambda block: block[0], every, block)

        parts = jax.tree.map(blocked, (found, short, known, at))
        done = jax.lax.map(of_block, parts)
        return PairMoments(*(part.ravel()[:size].reshape(shape) for part in done))

    return jax.lax.cond(jnp.all(short), lambda found: found, all_blocks, found)
