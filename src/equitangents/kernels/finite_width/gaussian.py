"""Gaussian expectations of nonlinearities: moments with derivatives, and values with weights.

Moments of pairs of values of a nonlinearity, and their derivatives by the covariance.

With F(k, q1, q2) = E[φ(u)φ(v)] and G = E[φ'(u)φ'(v)] of Gaussian (u, v), k = E[uv], q1 = E[u²], q2 = E[v²], Price's
theorem gives derivatives as expectations of derivatives of φ: F_k = G, F_q1 = ½ E[φ''(u)φ(v)], and so on.

Values of a Gaussian field at the sites of two inputs, with weights: for expectations of up to four factors.

Without positions there are two sites, and a rule for two dimensions is exact (kinks) or as good as exact (smooth
functions). With positions four sites occur together, for which there is no closed form: quasi-random draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from equitangents import precision
from equitangents.errors import NetworkError
from equitangents.kernels import duals
from equitangents.kernels.operations import DualActivation

_PARALLEL = 1e-8  # of sin²: below, u and v are taken as multiples of one another


Form = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # of (k, q1, q2)


@dataclass(frozen=True)
class Jet:
    """F and G of many pairs, (...), with their derivatives by (k, q1, q2): gradients (3, ...), Hessians (3, 3, ...)."""

    f: np.ndarray
    f_by: np.ndarray
    f_by_by: np.ndarray
    g: np.ndarray
    g_by: np.ndarray
    g_by_by: np.ndarray


class Law:
    """A nonlinearity φ: `value` and `slope` entry by entry, `jet` of pairs, and whether it has a kink at zero."""

    def __init__(self, layer: Any) -> None:
        dual = layer.dual
        self.kinked = isinstance(dual, duals.PiecewiseLinear)
        if not self.kinked and type(dual) not in _SMOOTH:
            raise NetworkError(
                "layer",
                layer,
                "piecewise linear functions (Relu, LeakyRelu, Abs), Erf, Gelu, Sin and Cos",
                "use kernels.monte_carlo for this network",
            )
        self.layer, self.dual = layer, dual

    def value(self, z: np.ndarray) -> np.ndarray:
        """The nonlinearity φ(z), entry by entry."""
        return self._derivative(0)(z)

    def slope(self, z: np.ndarray) -> np.ndarray:
        """φ'(z), with φ'(0) between the slopes on both sides."""
        if self.kinked:
            a = self.dual.slope
            return (1 + a) / 2 + (1 - a) / 2 * np.sign(z)
        return self._derivative(1)(z)

    def kernels(self, k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(F, G) by the closed forms of `kernels.duals`."""
        f, g = _entry_by_entry(_covariance(self.dual), k, q1, q2)
        return f, g

    def jet(self, k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> Jet:
        """F, G and their derivatives, of arrays of one shape."""
        f, g = self.kernels(k, q1, q2)
        by, by_by, slope_by, slope_by_by = self._gradients(k, q1, q2)
        by[0] = g
        return Jet(f, by, by_by, g, slope_by, slope_by_by)

    def _gradients(self, k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, ...]:
        """Gradients and Hessians of F, then of G.

        Where u and v are multiples of one another, a kink's G does not change and its F is linear along the changes
        that can occur.
        """
        forms, regular = _kink(self.dual.slope) if self.kinked else _smooth(_SMOOTH[type(self.dual)]), np.ones(1, bool)
        if self.kinked:
            product = q1 * q2
            regular = 1 - np.divide(k * k, product, out=np.ones_like(k), where=product > 0) > _PARALLEL
            k, q1, q2 = np.where(regular, k, 0.0), np.where(regular, q1, 1.0), np.where(regular, q2, 1.0)
        found = np.where(regular, np.stack(_entry_by_entry(_closed_jet(forms), k, q1, q2)), 0.0)
        by, slope_by, by_by, slope_by_by = np.split(found, np.cumsum([3, 3, 9]))
        square = lambda rows: rows.reshape((3, 3, *k.shape))
        return by, square(by_by), slope_by, square(slope_by_by)

    def _derivative(self, order: int) -> Callable[[np.ndarray], np.ndarray]:
        run = _derivatives(self.layer, order)
        return lambda z: _entry_by_entry(run, z)[0]


def _entry_by_entry(run: Callable[..., Sequence[jax.Array]], *arrays: np.ndarray) -> list[np.ndarray]:
    """Results of a compiled function of entries, in float64. Padded to a power of 8 or, above 4,096, of 2, since a
    program for a new size takes longer to compile than it runs."""
    size = arrays[0].size
    bits = (size - 1).bit_length()
    pad = (0, (1 << (bits if bits > 12 else -(-bits // 3) * 3)) - size)
    with precision.scope(np.float64):
        found = run(*(jnp.asarray(np.pad(np.ravel(v), pad, mode="edge"), np.float64) for v in arrays))
        return [np.array(v)[:size].reshape(arrays[0].shape) for v in found]


@lru_cache
def _covariance(dual: DualActivation) -> Callable[..., Sequence[jax.Array]]:
    return jax.jit(dual.covariance)


def _erf(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
    return (2 / math.pi) * jnp.arcsin(2 * k / jnp.sqrt((1 + 2 * q1) * (1 + 2 * q2)))


def _gelu(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
    """E[u Φ(u) v Φ(v)] by Stein's identity, in one form that is smooth everywhere."""
    product = (1 + q1) * (1 + q2)
    both = 1 / 4 + jnp.arcsin(k / jnp.sqrt(product)) / (2 * math.pi)  # E[Φ(u) Φ(v)]
    density = 1 / (2 * math.pi * jnp.sqrt(product - k * k))
    return k * both + density * (q1 * q2 - k * k + k * k / (1 + q1) + k * k / (1 + q2))


def _sine(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
    return (jnp.exp(k - (q1 + q2) / 2) - jnp.exp(-k - (q1 + q2) / 2)) / 2


def _cosine(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
    return (jnp.exp(k - (q1 + q2) / 2) + jnp.exp(-k - (q1 + q2) / 2)) / 2


# The forms of `kernels.duals` are split where digits would cancel, and their derivatives are not those of the whole.
_SMOOTH: dict[type, Form] = {
    duals.Erf: _erf,
    duals.Gelu: _gelu,
    duals.Sin: _sine,
    duals.Cos: _cosine,
}


@lru_cache
def _smooth(form: Form) -> tuple[Form, Form]:
    """F, and G = F_k."""
    return form, jax.grad(form)


@lru_cache
def _kink(slope: float) -> tuple[Form, Form]:
    """F and G = odd² + even² (2/π) arcsin c of odd z + even |z|, with c = k/√(q1 q2)."""
    even, odd = ((1 - slope) / 2) ** 2 * 2 / math.pi, ((1 + slope) / 2) ** 2

    def tangent(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
        return odd + even * jnp.arcsin(k / jnp.sqrt(q1 * q2))

    return lambda k, q1, q2: k * tangent(k, q1, q2) + even * jnp.sqrt(q1 * q2 - k * k), tangent


@lru_cache
def _closed_jet(forms: tuple[Form, Form]) -> Callable[..., list[jax.Array]]:
    """Gradients and Hessians of F and of G at one pair, over many pairs."""

    def one(k: jax.Array, q1: jax.Array, q2: jax.Array) -> list[jax.Array]:
        by = [jax.grad(form, (0, 1, 2))(k, q1, q2) for form in forms]
        return jax.tree.leaves((by, [jax.hessian(form, (0, 1, 2))(k, q1, q2) for form in forms]))

    return jax.jit(jax.vmap(one))


def gaussian_pairs(k: np.ndarray, q1: np.ndarray, q2: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u = √q1 x, (n, nodes), and v = (k/√q1) x + √(q2 - k²/q1) y, (n, nodes, nodes)."""
    root = np.sqrt(q1)
    along = np.divide(k, root, out=np.zeros_like(k), where=root > 0)
    across = np.sqrt(np.maximum(q2 - along**2, 0))
    return root[:, None] * x, along[:, None, None] * x[:, None] + across[:, None, None] * x


@lru_cache
def hermite_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for means over N(0, 1)."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()


@lru_cache
def _derivatives(layer: Any, order: int) -> Callable[[jax.Array], list[jax.Array]]:
    function = lambda z: layer.function(z)
    for _ in range(order):
        function = jax.grad(function)
    return jax.jit(lambda z: [jax.vmap(function)(z)])


_ANGLES = 16  # nodes between two kinks: for products of four sines and cosines that is exact to rounding
_NODES = (40, 80, 160, 320)  # of Gauss and Hermite along each direction
_AGREES = 1e-9


def two_sites(law: Law, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, S, 2) and weights (n, S) for covariances (n, 2, 2).

    Of smooth functions with as many nodes as give F and G of their closed forms to 1e-9; NetworkError if none do.
    """
    k, q1, q2 = covariance[:, 0, 1], covariance[:, 0, 0], covariance[:, 1, 1]
    if law.kinked:
        return _polar(k, q1, q2)
    closed = np.stack(law.kernels(k, q1, q2))
    for count in _NODES:
        values, weights = _hermite(k, q1, q2, count)
        found = [
            np.einsum("ns,ns,ns->n", weights, of(values[..., 0]), of(values[..., 1])) for of in (law.value, law.slope)
        ]
        error = np.max(np.abs(found - closed) / (np.abs(closed).max(axis=1, keepdims=True) + 1e-300))
        if error <= _AGREES:
            return values, weights
    largest = float(covariance.max())
    raise NetworkError(
        f"expectations of {law.layer!r} at variances up to {largest:.3g} are known to {float(error):.0e} alone, "
        "too little for first-order statistics; use a smaller W_std or smaller inputs"
    )


def _hermite(k: np.ndarray, q1: np.ndarray, q2: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = hermite_nodes(count)
    u, v = gaussian_pairs(k, q1, q2, x)
    values = np.stack([np.broadcast_to(u[:, :, None], v.shape), v], axis=-1).reshape((len(k), -1, 2))
    return values, np.broadcast_to(np.outer(w, w).ravel(), values.shape[:2])


def _polar(k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In polar coordinates, with panels between the angles at which u or v changes its sign."""
    scale = np.sqrt(q1 * q2)
    angle = np.arccos(np.clip(np.divide(k, scale, out=np.zeros_like(k), where=scale > 0), -1, 1))
    cuts = (
        np.stack([0 * angle, angle, 0 * angle + math.pi, angle + math.pi, 0 * angle + 2 * math.pi], axis=1)
        - math.pi / 2
    )
    x, w = np.polynomial.legendre.leggauss(_ANGLES)
    half = np.diff(cuts, axis=1)[:, :, None] / 2
    turns = (cuts[:, :-1, None] + half * (1 + x)).reshape((len(k), -1))
    shares = (half * w).reshape((len(k), -1)) / (2 * math.pi)
    halves, radial = np.polynomial.laguerre.laggauss(4)  # r²/2 is exponential; degree 2 at most in it
    r = np.sqrt(2 * halves)
    u = np.sqrt(q1)[:, None, None] * np.cos(turns)[:, :, None] * r
    v = np.sqrt(q2)[:, None, None] * np.cos(turns - angle[:, None])[:, :, None] * r
    weights = shares[:, :, None] * radial
    return np.stack([u, v], axis=-1).reshape((len(k), -1, 2)), weights.reshape((len(k), -1))


def many_sites(covariance: np.ndarray, count: int, seed: int) -> np.ndarray:
    """`count` scrambled Sobol draws of N(0, covariance), (count, sites), the largest directions first."""
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1]
    factor = vectors[:, order] * np.sqrt(np.maximum(values[order], 0))
    kept = max(1, int(np.count_nonzero(values > 1e-14 * max(values.max(), 0))))
    return _normal(kept, count, seed) @ factor[:, :kept].T


@lru_cache(maxsize=4)
def _normal(sites: int, count: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc  # takes half as long to import as all of `kernels`

    uniform = qmc.Sobol(sites, scramble=True, rng=np.random.default_rng(seed)).random(count)
    return np.asarray(ndtri(np.clip(uniform, 1e-15, 1 - 1e-15)))
