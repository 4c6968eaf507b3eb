"""Any smooth φ by a few Hermite coefficients, tabulated in the variance, for `native/src/tabulated.hpp`.

With b_n(q) = E[φ'(√q z) h_(n-1)(z)] (`duals.quadrature`), E[φ'φ'] = Σ b_n b_n' ρⁿ⁻¹. Only a few orders n are kept, each
with a weight w_n >= 0 that also represents its neighbours, from non-negative least squares over pairs of variances and
angles. The result is exactly the activation kernel of some function, so that its distances lose no digits. b_n √(w_n/n)
are polynomials in every octave of the variance.

Each function's table is made once, and tested between the variances and angles used to make it. A table that misses
the tolerance is not used; variances outside of its octaves give NaN, and the reference engine recomputes the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from equitangents.kernels.duals.quadrature import disagreement, panels, values_and_slopes
from equitangents.kernels.engines.codes import HALF_ORDERS, TABLE_NODES, DualKind

Values = Callable[[np.ndarray], np.ndarray]

LOWEST = -40  # power of two from which variances are tabulated
_HIGHEST = 7, 4, 1  # to which: the first that holds the tolerance
_LEAST = 3e-9  # tolerance that so few orders hold of any function but polynomials
_ORDERS = 8192  # whose sums are what is right
_FAR, _WIDTH, _HALVINGS, _NODES = 13.0, 0.25, 12, 20  # panels of z: to where, how wide, how often halved toward 0
_FITTED = 2.0 ** np.array([-40, -26, *np.linspace(-14, 0, 15)])  # variances, as shares of the highest
_TRIED = 2.0 ** np.array([-33, -19.3, *np.linspace(-12.6, -0.3, 12)])
_TURNS = np.array([0.0, *np.geomspace(1e-7, 1 - 1e-12, 28)])  # 1 - cos θ
_AT_ONCE = 1 << 16  # numbers of which one compiled program has the values
_BLOCK = 64  # orders at once
_UNSEEN = 1e-4  # of the tolerance: a smaller share of sums has no weight
_ABSENT = 1e-10  # of φ': a parity that has less is left out
_SMOOTH = 2e-3  # of the tolerance: how far polynomials may be off, whose slopes are a hundred times as far


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The code, the number of octaves above 2^LOWEST, and the numbers, (1 + octaves · nodes, columns), φ(0) first."""

    kind: DualKind
    octaves: int
    numbers: np.ndarray


@lru_cache(maxsize=64)
def tabulated(function: Callable[[Any], Any], tolerance: float) -> Tabulated | None:
    """The table of a function, to a relative tolerance; None if no range of variances meets it."""
    if tolerance < _LEAST:
        return None
    with jax.enable_x64(True), jax.ensure_compile_time_eval():  # also while something else is traced
        values = _compiled(function)
        for highest in _HIGHEST:
            if not _grows(values, highest) and (found := _table(values, tolerance, highest)) is not None:
                return found
    return None


@cache
def halves() -> np.ndarray:
    """m of the kept orders 2m + 1 and 2m + 2."""
    found = [*range(7), 8]
    while len(found) < HALF_ORDERS:
        found.append(2 * found[-2])
    return np.array(found[:HALF_ORDERS])


def _grows(values: Values, highest: int) -> bool:
    """Whether E[φ²]/q rises more than fourfold, so that norms differ more after φ than before it, or is not finite."""
    q = 2.0 ** np.arange(LOWEST, highest + 1)
    z, w = _rule()
    share = sum(values(np.sqrt(q)[:, None] * side)[0] ** 2 @ w for side in (z, -z)) / q
    return not np.all(share <= 4 * np.minimum.accumulate(share))


def _table(values: Values, tolerance: float, highest: int) -> Tabulated | None:
    q = 2.0**highest * np.concatenate([_FITTED, _TRIED])
    slopes, lost = _slopes(values, q, _UNSEEN * tolerance)
    if not lost <= tolerance / 10:
        return None
    fitted, tried = slice(0, len(_FITTED)), slice(len(_FITTED), None)
    weights = []
    for first in (1, 2):
        b = slopes[first - 1 :: 2]
        if not np.max(np.abs(b[2 - first :])) >= _ABSENT:
            weights.append(np.where(halves() == 0, 2.0 - first, 0.0))
            continue
        rows, others = (_rows(b[:, part], q[part], first) for part in (fitted, tried))
        seen = np.max(rows.kept, axis=0, initial=0) > _UNSEEN * tolerance  # else no weight would be too large
        found = np.zeros(HALF_ORDERS)
        found[seen], _ = nnls(rows.kept[:, seen], rows.all, maxiter=100 * HALF_ORDERS)
        if not np.max([np.max(np.abs(part.kept @ found - part.all)) for part in (rows, others)]) <= tolerance / 3:
            return None
        weights.append(found)
    odd, even = weights
    if not even.any():
        kind, kept = DualKind.TABULATED_ODD, [(1, odd)]
    elif not odd[1:].any():
        kind, kept = DualKind.TABULATED_EVEN, [(1, odd[:1]), (2, even)]
    else:
        kind, kept = DualKind.TABULATED, [(1, odd), (2, even)]
    return _in_octaves(values, tolerance, highest, kind, kept)


def _slopes(values: Values, q: np.ndarray, enough: float = 0.0) -> tuple[np.ndarray, float]:
    """b_n for n = 1, …, relative to √E[φ'²], (orders, variances), and the fraction of E[φ'²] beyond all of them.

    Stops when that is at most `enough`, or after all orders.
    """
    z, w = _rule()
    slope = np.stack([values(np.sqrt(q)[:, None] * side)[1] for side in (z, -z)])
    steepness = (slope**2 * w).sum(axis=(0, 2))
    slope = slope / np.sqrt(steepness)[:, None]
    found: list[np.ndarray] = []
    lost = np.ones(len(q))
    for begin, rows in _hermite(_ORDERS):
        found.append(_means(slope, begin, rows))
        lost -= (found[-1] ** 2).sum(axis=0)
        if np.max(np.abs(lost)) <= enough:
            break
    return np.concatenate(found), float(np.max(np.abs(lost)))


class _Rows(NamedTuple):
    """Sums for pairs of variances at angles, over the sums of magnitudes: of the kept orders, and of all orders."""

    kept: np.ndarray
    all: np.ndarray


def _rows(b: np.ndarray, q: np.ndarray, first: int) -> _Rows:
    """Rows for E[φ'φ'], for its means over angles, and for distances at angle 0; b_n for n = first, first + 2, …"""
    n = np.arange(first, first + 2 * len(b), 2)
    i, j = np.triu_indices(len(q))
    logarithms = np.log1p(-_TURNS)[:, None]
    means = np.ones((1, len(n)))  # of ρⁿ⁻¹, (1 - ρⁿ)/n(1 - ρ)
    means = np.concatenate([means, -np.expm1(n * logarithms[1:]) / (n * _TURNS[1:, None])])
    factors = np.concatenate([np.exp((n - first) * logarithms), means])
    g = b * np.sqrt(q / n[:, None])
    rising = g * n[:, None]  # 2q ∂g/∂q
    rising[:-1] += np.sqrt((n[:-1] + 1.0) * (n[:-1] + 2))[:, None] * g[1:]
    rising[-1] = 0  # which needs the one beyond
    gaps = np.concatenate([(g[:, i] - g[:, j])[:, i != j] ** 2, rising**2], axis=1)
    kept_orders = halves()[halves() < len(b)]
    parts = []
    for f, terms in ((factors, b[:, i] * b[:, j]), (np.ones((1, len(n))), gaps)):
        size = f @ np.abs(terms)
        kept = np.zeros((*size.shape, HALF_ORDERS))
        kept[..., : len(kept_orders)] = f[:, None, kept_orders] * terms[kept_orders].T
        some = (size > 0).ravel()
        parts.append((kept.reshape(-1, HALF_ORDERS)[some], (f @ terms).ravel()[some], size.ravel()[some]))
    kept, all_, size = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Rows(kept / size[:, None], all_ / size)


def _in_octaves(
    values: Values, tolerance: float, highest: int, kind: DualKind, kept: list[tuple[int, np.ndarray]]
) -> Tabulated | None:
    """The table of the kept orders, (first + 2m, weights); None if it is not smooth enough for polynomials.

    At every variance used to make or test it, E[φ²] and E[φ'²] are compared with the integrals themselves.
    """
    nodes, tried = np.cos(np.pi * (np.arange(TABLE_NODES) + 0.5) / TABLE_NODES), np.linspace(-1, 1, 6)
    q = 2.0 ** np.arange(LOWEST, highest)[:, None] * (1.5 + np.concatenate([nodes, tried]) / 2)
    if not np.max(disagreement(values, q[:, :: TABLE_NODES // 2].ravel())) <= tolerance:
        return None
    orders = np.concatenate([2 * halves()[: len(weights)] + first for first, weights in kept])
    shares = np.sqrt(np.concatenate([weights for _, weights in kept]) / orders)
    z, w = _rule()
    value, slope = np.stack([values(np.sqrt(q.ravel())[:, None] * side) for side in (z, -z)], axis=1)
    columns = np.zeros((1 + len(orders), q.size))
    columns[0] = (value * w).sum(axis=(0, 2))
    for begin, rows in _hermite(max(orders[shares > 0])):
        for j in np.nonzero((orders > begin) & (orders <= begin + len(rows)))[0]:
            at = orders[j] - 1 - begin
            columns[1 + j] = shares[j] * _means(slope, orders[j] - 1, rows[at : at + 1])[0]
    by_octave = columns.T.reshape(*q.shape, -1)
    powers = np.linalg.solve(np.vander(nodes), by_octave[:, :TABLE_NODES])
    off = np.abs(np.vander(tried, TABLE_NODES) @ powers - by_octave[:, TABLE_NODES:])
    square, steepness = ((f**2 * w).sum(axis=(0, 2)).reshape(q.shape) for f in (value, slope))
    sums = by_octave[..., 0] ** 2 + q * (by_octave[..., 1:] ** 2).sum(axis=2), (by_octave[..., 1:] ** 2) @ orders
    wrong = [np.max(abs(found - exact) / exact) for found, exact in zip(sums, (square, steepness), strict=True)]
    steep = np.sqrt(steepness)[:, TABLE_NODES:]
    mean = off[..., 0] / (steep * np.sqrt(q[:, TABLE_NODES:]) + np.abs(by_octave[:, TABLE_NODES:, 0]))
    rest = np.sqrt((off[..., 1:] ** 2 * orders).sum(axis=2)) / steep
    if not (np.max([np.max(mean), np.max(rest)]) <= _SMOOTH * tolerance and np.max(wrong) <= tolerance / 3):
        return None
    zero = np.zeros((1, len(columns)))
    zero[0, :2] = [float(part[0]) for part in values(np.zeros(1))]
    zero[0, 1] *= shares[0]
    return Tabulated(kind, highest - LOWEST, np.concatenate([zero, powers.reshape(-1, len(columns))]))


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes z > 0 and weights of N(0, 1)."""
    halving, equal = _WIDTH * 2.0 ** np.arange(-_HALVINGS, 0), _WIDTH * np.arange(1, _FAR / _WIDTH + 1)
    edges = np.concatenate([np.zeros(1), halving, equal])
    z, w = panels(edges, np.full(len(edges) - 1, _NODES))
    return z, w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _hermite(count: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (n, w times h_n, h_(n+1), … at the nodes) for blocks of orders."""
    z, w = _rule()
    root = np.sqrt(w)
    one, other = root, z * root
    for begin in range(0, count, _BLOCK):
        rows = []
        for n in range(begin, min(begin + _BLOCK, count)):
            rows.append(one)
            one, other = other, (z * other - np.sqrt(n + 1) * one) / np.sqrt(n + 2)
        yield begin, np.stack(rows) * root


def _means(slope: np.ndarray, begin: int, rows: np.ndarray) -> np.ndarray:
    """E[φ' h_n], (n, variances), from φ' at nodes of both signs; `rows` start at order `begin`."""
    found = np.empty((len(rows), slope.shape[1]))
    for first in (0, 1):
        sign = -1 if (begin + first) % 2 else 1
        found[first::2] = rows[first::2] @ (slope[0] + sign * slope[1]).T
    return found


def _compiled(function: Callable[[Any], Any]) -> Values:
    """φ and φ' of an array of any shape, (2, …), by one program."""
    both = jax.jit(lambda u: jnp.stack(values_and_slopes(function, u)))

    def values(u: np.ndarray) -> np.ndarray:
        parts = -(-u.size // _AT_ONCE)
        filled = np.resize(u, (parts, _AT_ONCE))  # repeats u, so that no other number is evaluated
        found = np.stack([both(part) for part in filled], axis=1)
        return found.reshape(2, -1)[:, : u.size].reshape(2, *u.shape)

    return values
