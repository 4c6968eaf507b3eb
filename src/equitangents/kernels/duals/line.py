"""Hermite coefficients and moments of any φ at one variance.

With h_n the Hermite polynomials orthonormal for z ~ N(0, 1), a_0 = E[φ(√q z)] and b_n = E[φ'(√q z) h_(n-1)(z)], n >= 1,
so that E[φ(u)φ(v)] = a_0 a_0' + Σ √(qq') b_n b_n' ρⁿ/n and E[φ'(u)φ'(v)] = Σ b_n b_n' ρⁿ⁻¹ (Mehler). What is left of
E[φ'²] = Σ b_n² and Var φ = q Σ b_n²/n after N terms bounds what the sums lose, at every angle, by Cauchy and Schwarz.

Integrals are sums over panels of Gauss-Legendre nodes that halve toward zero: φ may live at any scale about it, however
small beside √q. Each is taken by two rules, and E[zφ] = √q E[φ'], E[z²φ] - E[φ] = √q E[zφ'] compare φ with its
derivative, which misses jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.duals.geometry import safe_sqrt

FEW, MANY = 64, 256  # terms of Hermite series
_FAR = 13.0  # deviations beyond which nothing is left of the density, nor of its root
_HALVINGS = 36
_AT_ONCE = 64  # variances whose nodes are held at once
_ROUNDING = 400  # units of epsilon that these sums may be off by


class Line(NamedTuple):
    """Moments at each variance: a_0 and b_1 … b_N (terms first), E[φ²], E[φ'²], and the relative gap of two rules."""

    mean: Any
    slopes: Any
    square: Any
    steepness: Any
    error: Any


def bound(tolerance: float, dtype: Any) -> float:
    """The relative error that is allowed: the tolerance, or where that is below it the rounding of such sums."""
    return max(tolerance, _ROUNDING * float(jnp.finfo(dtype).eps))


def panels(edges: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights of panels between edges, `counts` in each."""
    nodes, weights = [], []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        x, w = np.polynomial.legendre.leggauss(int(count))
        nodes.append((low + high) / 2 + (high - low) / 2 * x)
        weights.append((high - low) / 2 * w)
    return np.concatenate(nodes), np.concatenate(weights)


@cache
def _rule(graded: int, plain: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes z and weights of N(0, 1)."""
    near = np.concatenate([[0.0], 2.0 ** np.arange(-_HALVINGS, 0)])
    far = np.arange(2, int(2 * _FAR) + 1) / 2
    edges = np.concatenate([near, far])
    z, w = panels(edges, np.where(edges[1:] <= 0.5, graded, plain))
    z, w = np.concatenate([-z[::-1], z]), np.concatenate([w[::-1], w])
    return z, w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


@cache
def _hermite(terms: int) -> np.ndarray:
    """h_n(z) √w at the nodes, (terms, nodes)."""
    z, w = _rule(10, 16)
    rows = [np.sqrt(w), z * np.sqrt(w)]
    for n in range(1, terms - 1):
        rows.append((z * rows[n] - np.sqrt(n) * rows[n - 1]) / np.sqrt(n + 1))
    return np.stack(rows[:terms])


def values_and_slopes(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """φ(x) and φ'(x), entry by entry."""
    return function(x), jax.grad(lambda u: jnp.sum(function(u)))(x)


def line(function: Callable[[Any], Any], q: Any, terms: int = MANY) -> Line:
    """`Line` at variances q of any shape; `slopes` are (terms, *shape)."""
    q = jnp.asarray(q)
    found = jax.lax.map(lambda one: _at(function, one, terms), q.ravel(), batch_size=_AT_ONCE)
    mean, slopes, square, steepness, error = found
    shaped = (part.reshape(q.shape) for part in (mean, square, steepness, error))
    mean, square, steepness, error = shaped
    return Line(mean, slopes.T.reshape(terms, *q.shape), square, steepness, jax.lax.stop_gradient(error))


def _at(function: Callable[[Any], Any], q: Any, terms: int) -> tuple[Any, ...]:
    root = safe_sqrt(q)
    z, w = (jnp.asarray(part, q.dtype) for part in _rule(10, 16))
    f, g = values_and_slopes(function, root * z)
    half = jnp.sqrt(w)
    slopes = jnp.asarray(_hermite(terms), q.dtype) @ (half * g)
    mean, square, steepness = w @ f, jnp.sum((half * f) ** 2), jnp.sum((half * g) ** 2)
    z2, w2 = (jnp.asarray(part, q.dtype) for part in _rule(8, 13))
    changes = _changes(root, (z, w, f, g), (w2, *values_and_slopes(function, root * z2)))
    return mean, slopes, square, steepness, jnp.max(jnp.stack(changes))


def disagreement(values: Callable[[np.ndarray], np.ndarray], q: np.ndarray) -> np.ndarray:
    """`Line.error` at variances q, (n,), of a function whose `values` are φ and φ' of an array."""
    root = np.sqrt(q)[:, None]
    (z, w), (z2, w2) = _rule(10, 16), _rule(8, 13)
    changes = _changes(root[:, 0], (z, w, *values(root * z)), (w2, *values(root * z2)))
    return np.max(np.array(changes), axis=0)


def _changes(root: Any, rule: tuple[Any, Any, Any, Any], other: tuple[Any, Any, Any]) -> list[Any]:
    """Differences of E[φ²], E[φ'²], E[zφ] and E[(z²-1)φ] between two rules, or from means of φ'."""
    (z, w, f, g), (w2, f2, g2) = rule, other
    square, steepness = f**2 @ w, g**2 @ w
    first, second = root * (g @ w), root * (g @ (z * w))
    sizes = jnp.maximum(abs(f) @ (abs(z) * w), root * (abs(g) @ w)), abs(f) @ ((z**2 + 1) * w)
    return [
        _change(square, f2**2 @ w2, square),
        _change(steepness, g2**2 @ w2, steepness),
        _change(f @ (z * w), first, sizes[0]),
        _change(f @ ((z**2 - 1) * w), second, sizes[1]),
    ]


def _change(one: Any, other: Any, scale: Any) -> Any:
    """|one - other|/scale, 0 where both are 0; NaN of anything that is none."""
    return jnp.where((one == 0) & (other == 0), 0, jnp.abs(one - other) / jnp.where(scale == 0, 1, scale))


def lost(known: Line, q: Any, terms: int) -> Any:
    """The share of E[φ'²], or if that is more of Var φ, that lies beyond the first `terms` coefficients."""
    squares = known.slopes[:terms] ** 2
    numbers = jnp.arange(1, terms + 1, dtype=squares.dtype).reshape(-1, *[1] * (squares.ndim - 1))
    steep = known.steepness - squares.sum(axis=0)
    varied = known.square - known.mean**2 - q * (squares / numbers).sum(axis=0)
    zero = jnp.zeros_like(q)
    shares = [_change(steep, zero, known.steepness), _change(varied, zero, known.square)]
    return jax.lax.stop_gradient(jnp.maximum(*shares))
