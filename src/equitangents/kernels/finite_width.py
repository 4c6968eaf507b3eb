"""Means and standard deviations of the kernels of dense networks of finite width, to first order in 1/width.

A network is a sequence of linear blocks z_i = n^{-1/2} Σ_j W_ij φ_j + bias, from n channels, and nonlinearities. Its
statistics follow a recursion over layers (theory: Roberts, Yaida & Hanin 2022, chapters 4 and 8).

Pairs I = (a, b) are of inputs a, b ∈ {0, 1}, numbered 2a + b. With Ĝ the covariance of preactivations given all layers
before, Θ̂_ij the tangent kernel between channels i and j, to first order in 1/width, which all of the following
contain:

    V_IJ = Cov(Ĝ_I, Ĝ_J)                    K₁ = E Ĝ - K,  Θ₁ = E Θ̂_ii - Θ
    D_IJ = E[z_i(a) z_i(b) ΔΘ̂_jj(J)]         F_IJ = E[z_i(a) z_j(b) ΔΘ̂_ij(a', b')]     for I = (a, a'), J = (b, b')
    A_IJ = E[ΔΘ̂_ii(I) ΔΘ̂_jj(J)]              B_IJ = E[ΔΘ̂_ij(a, b) ΔΘ̂_ij(a', b')]       for I = (a, a'), J = (b, b')

for channels i ≠ j. A linear block acts on both pairs alike. A nonlinearity adds 1/n times the covariances of one
channel's products, and changes of the covariance enter by derivatives of F and G: for Gaussian (u, v) with k = E[uv],
q1 = E[u²], q2 = E[v²], F(k, q1, q2) = E[φ(u)φ(v)] and G = E[φ'(u)φ'(v)], and Price's theorem gives F_k = G. Means of
four values are quadratures over (u, v), exact for kinks, to rounding for smooth functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Network
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels import duals
from equitangents.kernels.operations import DualActivation
from equitangents.kernels.structured import Times
from equitangents.validation import check_array

_LEFT, _RIGHT = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
_FIRST, _SECOND = 3 * _LEFT, 3 * _RIGHT  # the pairs (a, a) and (b, b) of each pair (a, b)
_MIRRORED = 2 * _RIGHT + _LEFT
_ACROSS = 1  # the pair (0, 1)
_AT_ONCE = 64  # pairs of inputs


@dataclass(frozen=True)
class FiniteWidth:
    """Kernels of random networks with the net's own widths, all (N1, N2), to first order in 1/width.

    nngp: E K̂ = K + K₁, of the covariance K̂ of outputs given all layers but the last (the kernel of the last
    features). ntk: E Θ̂ = Θ + Θ₁, of the tangent kernel averaged over outputs, as computed by `kernels.empirical`.
    nngp_std, ntk_std: the standard deviations of K̂ and Θ̂ over networks. nngp_correction, ntk_correction: K₁ and Θ₁.
    """

    nngp: np.ndarray
    ntk: np.ndarray
    nngp_std: np.ndarray
    ntk_std: np.ndarray
    nngp_correction: np.ndarray
    ntk_correction: np.ndarray


def finite_width(net: Network, x1: ArrayLike, x2: ArrayLike | None = None) -> FiniteWidth:
    """Mean and standard deviation of kernels of random networks with the widths of `net`, to first order in 1/width.

    ```python
    net = nn.Sequential(nn.Dense(64, W_std=2**0.5), nn.Relu(), nn.Dense(64, W_std=2**0.5), nn.Relu(), nn.Dense(1))
    k = kernels.finite_width(net, x)
    k.ntk, k.ntk_std            # E Θ̂ and its standard deviation over networks of 64 channels
    ```
    Supports dense layers in NTK parametrisation, `Scale`, and piecewise linear or smooth nonlinearities between them,
    after layers without weights such as `Flatten`; each layer has its own number of channels. Means of
    scale-invariant nonlinearities have no correction on the diagonal. The remaining error is of second order,
    (depth/width)².

    Errors: InvalidTypeError if net is no `Sequential`; NetworkError names a layer whose distribution is unknown.
    Source: Roberts, Yaida & Hanin 2022; arXiv 2508.11522.
    """
    if not (hasattr(net, "layers") and hasattr(net, "signals")):
        raise InvalidTypeError("net", net, "nn.Sequential")
    first = check_array("x1", x1, min_rank=2)
    second = first if x2 is None else check_array("x2", x2, min_rank=2)
    linear, nonlinearities, outputs = _blocks(net, tuple(np.shape(first)[1:]))
    features = [_features(net, x) for x in (first, second)]
    limit = net.kernel(np.asarray(first, np.float64), None if x2 is None else np.asarray(second, np.float64))
    shape = len(first), len(second)
    i, j = np.triu_indices(shape[0]) if x2 is None else np.indices(shape).reshape(2, -1)
    found = np.empty((4, *shape))
    for start in range(0, len(i), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        both = np.stack([features[0][i[rows]], features[1][j[rows]]], axis=1)
        found[:, i[rows], j[rows]] = _statistics(linear, nonlinearities, outputs, both)
    if x2 is None:
        found[:, j, i] = found[:, i, j]
    std = np.sqrt(np.maximum(found[2:], 0))
    nngp, ntk = np.asarray(limit.nngp) + found[0], np.asarray(limit.ntk) + found[1]
    return FiniteWidth(nngp, ntk, std[0], std[1], found[0], found[1])


def _features(net: Network, x: ArrayLike) -> np.ndarray:
    """The input of the first layer with weights, (N, C), in float64."""
    values = np.asarray(net.lowered(np.asarray(x, np.float64))[0], np.float64)
    return values.reshape((len(values), -1))


class _DenseStep(NamedTuple):
    """K' = W_var K + b_var, of a dense layer with `width` input channels."""

    W_var: float
    b_var: float
    width: int


_KNOWN = "dense layers in NTK parametrisation on vectors, Scale, and nonlinearities"
_REMEDY = "use kernels.monte_carlo for this network"


def _blocks(net: Any, input_shape: tuple[int, ...]) -> tuple[list[_DenseStep], list[Any], int]:
    """(linear blocks, nonlinearities between, outputs); NetworkError names a layer whose distribution is unknown."""
    layers, signals = net.layers, net.signals(input_shape)
    groups: list[list[int]] = [[]]
    between: list[Any] = []
    for i in range(net.lower(input_shape)[0], len(layers)):
        if getattr(layers[i], "dual", None) is not None:
            between.append(layers[i])
            groups.append([])
        else:
            groups[-1].append(i)
    linear = []
    for group in groups:
        held = [layers[i] for i in group]
        if sum(layer.has_weights for layer in held) != 1:
            wanted = "one layer with weights before the first nonlinearity, after the last, and between two"
            raise NetworkError("layers", held or "none", wanted, verb="between nonlinearities are")
        weights, bias = 1.0, 0.0
        for i in group:
            for op in layers[i].lower(signals[i]):
                known = isinstance(op, Times) or (op.affine is not None and not op.has_rates)
                if not known or signals[i].positions.count != 1:
                    raise NetworkError("layer", layers[i], _KNOWN, _REMEDY)
                by, more = (op.factor**2, 0.0) if isinstance(op, Times) else (op.W_var, op.b_var)
                weights, bias = by * weights, by * bias + more
        linear.append(_DenseStep(weights, bias, signals[group[0]].channels))
    return linear, between, signals[-1].channels


@dataclass
class _State:
    """Kernels and corrections (B, 4), and tensors (B, 4, 4), of pairs of inputs."""

    kernel: np.ndarray
    tangent: np.ndarray
    nngp: np.ndarray
    ntk: np.ndarray
    v: np.ndarray
    d: np.ndarray
    f: np.ndarray
    a: np.ndarray
    b: np.ndarray


def _statistics(linear: list[_DenseStep], nonlinearities: list[Any], outputs: int, features: np.ndarray) -> np.ndarray:
    """K₁, Θ₁ and the variances of K̂ and Θ̂ over networks, (4, B), between two inputs with features (B, 2, C)."""
    initial = np.einsum("bic,bjc->bij", features, features) / features.shape[-1]
    kernel = linear[0].W_var * initial.reshape((-1, 4)) + linear[0].b_var
    none, nothing = np.zeros_like(kernel), np.zeros((len(kernel), 4, 4))
    # After a linear map of given inputs nothing is random but the preactivations themselves.
    state = _State(kernel, kernel, none, none, nothing, nothing, nothing, nothing, nothing)
    for layer, block in zip(nonlinearities, linear[1:], strict=True):
        state = _next(state, _Law(layer), block)
    own = (state.b[:, 0, 3] + state.b[:, 1, 2]) / outputs
    at = _ACROSS
    return np.stack([state.nngp[:, at], state.ntk[:, at], state.v[:, at, at], state.a[:, at, at] + own])


def _next(state: _State, law: _Law, block: _DenseStep) -> _State:
    """The state after a nonlinearity and the linear block that follows."""
    k, t, n, W = state.kernel, state.tangent, block.width, block.W_var
    jet, means = law.jet(k), law.products(k)
    g1, g2 = jet.g[:, :, None], jet.g[:, None, :]
    t1, t2 = t[:, :, None], t[:, None, :]
    by_f, by_g = (lambda tensor, slopes=slopes: _along(slopes, tensor) for slopes in (jet.f_by, jet.g_by))
    # Σ_e E[∂_e(φ(a) φ'(b))] times the tensor at (e, b)
    by_slope = lambda tensor: g1 * tensor + 2 * jet.f_by[2][..., None] * tensor[:, _SECOND]

    v = W**2 * (means.ff_cov / n + by_f(by_f(state.v).mT).mT)
    crossed = by_f(by_g(state.v).mT)  # rows: φφ, columns: φ'φ'
    d_only = W**2 * ((means.fg_cov / n + crossed) * t2 + by_f(state.d) * g2)
    turned = t1 * by_g(state.d) * g2
    inner = (means.gg_cov / n + by_g(by_g(state.v).mT).mT) * t1 * t2 + turned + turned.mT + g1 * g2 * state.a
    between = t.reshape((-1, 2, 2))
    firsts, seconds = between[:, _LEFT[:, None], _LEFT], between[:, _RIGHT[:, None], _RIGHT]
    f = W**2 * (means.hh / n * seconds + by_slope(by_slope(state.f).mT).mT)
    b = W**2 * (means.gg / n * firsts * seconds + g1 * g2 * state.b)

    nngp = W * (by_f(state.nngp[..., None])[..., 0] + _curvature(jet.f_by_by, state.v))
    moved = by_g(state.nngp[..., None])[..., 0] + _curvature(jet.g_by_by, state.v)
    ntk = nngp + W * (jet.g * state.ntk + t * moved + _with_own(jet.g_by, state.d, state.f))

    kernel = W * jet.f + block.b_var
    a = v + d_only + d_only.mT + W**2 * inner
    return _State(kernel, kernel + W * jet.g * t, nngp, ntk, v, v + d_only, f, a, b)


def _along(slopes: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """Derivative, by `slopes` (3, B, 4), along a tensor (B, 4, ...) on its first pair."""
    k, q1, q2 = slopes[..., None]
    return np.asarray(k * tensor + q1 * tensor[:, _FIRST] + q2 * tensor[:, _SECOND])


def _curvature(by_by: np.ndarray, v: np.ndarray) -> np.ndarray:
    """½ F'' : V at each pair, (B, 4)."""
    at = np.arange(4), _FIRST, _SECOND
    return np.asarray(sum(by_by[i, j] * v[:, at[i], at[j]] for i in range(3) for j in range(3)) / 2)


def _with_own(slopes: np.ndarray, d: np.ndarray, f: np.ndarray) -> np.ndarray:
    """½ Σ_ef E[∂_e∂_f(φ'(a)φ'(b))] M_ef, with M_ef = E[z_i(e) z_i(f) ΔΘ̂_ii(a, b)] of one channel i."""
    own = np.arange(4)
    # E[z(e) z(f) ΔΘ̂_ii(a, b)] = D_(e f)(a b) + F_(e a)(f b) + F_(e b)(f a)
    crossed = d[:, own, own] + (f[:, _FIRST, _SECOND] + f[:, own, _MIRRORED])  # e = a, f = b
    left = d[:, _FIRST, own] + 2 * f[:, _FIRST, own]  # e = f = a: (a a)(a b) and (a b)(a a)
    right = d[:, _SECOND, own] + 2 * f[:, _MIRRORED, _SECOND]  # e = f = b: (b a)(b b)
    return np.asarray(slopes[0] * crossed + slopes[1] * left + slopes[2] * right)


class _Jet(NamedTuple):
    """F and G at all pairs, (B, 4), and their derivatives in (k, q1, q2): gradients (3, ...), Hessians (3, 3, ...)."""

    f: np.ndarray
    f_by: np.ndarray
    f_by_by: np.ndarray
    g: np.ndarray
    g_by: np.ndarray
    g_by_by: np.ndarray


class _Products(NamedTuple):
    """Over pairs of pairs, (B, 4, 4): covariances of φφ and φ'φ', and means of φ'φ' φ'φ' and of φφ' φφ'."""

    ff_cov: np.ndarray
    fg_cov: np.ndarray
    gg_cov: np.ndarray
    gg: np.ndarray
    hh: np.ndarray


_PARALLEL = 1e-8  # of sin²: below, u and v are taken as multiples of one another
_ANGLES = 16  # nodes between two kinks: for products of four sines and cosines that is exact to rounding
_NODES = (40, 80, 160, 320)  # of Gauss and Hermite along each direction
_AGREES = 1e-9

_Form = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # of (k, q1, q2)


class _Law:
    """A nonlinearity φ: `value` and `slope` elementwise, and Gaussian means of pairs and quadruples of them."""

    def __init__(self, layer: Any) -> None:
        dual = layer.dual
        self.kinked = isinstance(dual, duals.PiecewiseLinearDual)
        if not self.kinked and type(dual) not in _SMOOTH:
            raise NetworkError(
                "layer", layer, "piecewise linear functions (Relu, LeakyRelu, Abs), Erf, Gelu, Sin and Cos", _REMEDY
            )
        self.layer, self.dual = layer, dual

    def value(self, z: np.ndarray) -> np.ndarray:
        """The nonlinearity φ(z), elementwise."""
        return _entry_by_entry(_derivatives(self.layer, 0), z)[0]

    def slope(self, z: np.ndarray) -> np.ndarray:
        """φ'(z), with φ'(0) between the slopes on both sides."""
        if self.kinked:
            a = self.dual.slope
            return (1 + a) / 2 + (1 - a) / 2 * np.sign(z)
        return _entry_by_entry(_derivatives(self.layer, 1), z)[0]

    def jet(self, k: np.ndarray) -> _Jet:
        """F, G and their derivatives, for kernels (B, 4).

        If u and v are multiples of one another, a kink's G is constant and its F linear along the possible
        changes.
        """
        at: tuple[np.ndarray, ...] = (k, k[:, _FIRST], k[:, _SECOND])
        f, g = _entry_by_entry(_covariance(self.dual), *at)
        forms, regular = _kink(self.dual.slope) if self.kinked else _smooth(_SMOOTH[type(self.dual)]), np.ones(1, bool)
        if self.kinked:
            product = at[1] * at[2]
            regular = 1 - np.divide(k * k, product, out=np.ones_like(k), where=product > 0) > _PARALLEL
            at = tuple(np.where(regular, v, other) for v, other in zip(at, (0.0, 1.0, 1.0), strict=True))
        found = np.where(regular, np.stack(_entry_by_entry(_closed_jet(forms), *at)), 0.0)
        by, g_by, by_by, g_by_by = np.split(found, np.cumsum([3, 3, 9]))
        by[0] = g
        return _Jet(f, by, by_by.reshape((3, 3, *k.shape)), g, g_by, g_by_by.reshape((3, 3, *k.shape)))

    def products(self, k: np.ndarray) -> _Products:
        """Means of four values of one channel."""
        found = np.empty((5, len(k), 4, 4))
        for i, (z, w) in enumerate(zip(*self._sites(k[:, 1], k[:, 0], k[:, 3]), strict=True)):
            f, g = self.value(z), self.slope(z)
            ff, fg, gg = (a[:, _LEFT] * b[:, _RIGHT] for a, b in ((f, f), (f, g), (g, g)))
            f_mean, g_mean = w @ ff, w @ gg
            weighted = w[:, None] * ff, w[:, None] * gg
            found[0, i] = weighted[0].T @ ff - np.outer(f_mean, f_mean)
            found[1, i] = weighted[0].T @ gg - np.outer(f_mean, g_mean)
            found[3, i] = weighted[1].T @ gg
            found[2, i] = found[3, i] - np.outer(g_mean, g_mean)
            found[4, i] = (w[:, None] * fg).T @ fg
        return _Products(*found)

    def _sites(self, k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of (u, v), (B, nodes, 2), and weights (B, nodes).

        Smooth functions use enough nodes for F and G to match their closed forms to 1e-9; NetworkError if none suffice.
        """
        if self.kinked:
            return _polar(k, q1, q2)
        closed = np.stack(_entry_by_entry(_covariance(self.dual), k, q1, q2))
        for count in _NODES:
            values, weights = _hermite(k, q1, q2, count)
            found = [
                np.einsum("ns,ns,ns->n", weights, *np.moveaxis(of(values), -1, 0)) for of in (self.value, self.slope)
            ]
            error = np.max(np.abs(found - closed) / (np.abs(closed).max(axis=1, keepdims=True) + 1e-300))
            if error <= _AGREES:
                return values, weights
        raise NetworkError(
            "layer",
            self.layer,
            "variances before it at which its expectations are known to 1e-9",
            "use a smaller W_std or smaller inputs",
        )


def _entry_by_entry(run: Callable[..., Sequence[jax.Array]], *arrays: np.ndarray) -> list[np.ndarray]:
    """Results of an elementwise compiled function, in float64. Inputs are padded to a power of 8 (above 4,096: of 2),
    since compiling for a new size takes longer than running.
    """
    size = arrays[0].size
    bits = (size - 1).bit_length()
    pad = (0, (1 << (bits if bits > 12 else -(-bits // 3) * 3)) - size)
    with precision.scope(np.float64):
        found = run(*(jnp.asarray(np.pad(np.ravel(v), pad, mode="edge"), np.float64) for v in arrays))
        return [np.array(v)[:size].reshape(arrays[0].shape) for v in found]


@lru_cache
def _covariance(dual: DualActivation) -> Callable[..., Sequence[jax.Array]]:
    return jax.jit(dual.covariance)


@lru_cache
def _derivatives(layer: Any, order: int) -> Callable[[jax.Array], list[jax.Array]]:
    function = lambda z: layer.function(z)
    for _ in range(order):
        function = jax.grad(function)
    return jax.jit(lambda z: [jax.vmap(function)(z)])


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
_SMOOTH: dict[type, _Form] = {duals.ErfDual: _erf, duals.GeluDual: _gelu, duals.SinDual: _sine, duals.CosDual: _cosine}


@lru_cache
def _smooth(form: _Form) -> tuple[_Form, _Form]:
    """F, and G = F_k."""
    return form, jax.grad(form)


@lru_cache
def _kink(slope: float) -> tuple[_Form, _Form]:
    """F, and G = odd² + even² (2/π) arcsin c, of odd z + even |z|, with c = k/√(q1 q2)."""
    even, odd = ((1 - slope) / 2) ** 2 * 2 / math.pi, ((1 + slope) / 2) ** 2

    def tangent(k: jax.Array, q1: jax.Array, q2: jax.Array) -> jax.Array:
        return odd + even * jnp.arcsin(k / jnp.sqrt(q1 * q2))

    return lambda k, q1, q2: k * tangent(k, q1, q2) + even * jnp.sqrt(q1 * q2 - k * k), tangent


@lru_cache
def _closed_jet(forms: tuple[_Form, _Form]) -> Callable[..., list[jax.Array]]:
    """Gradients and Hessians of F and of G at one pair, over many pairs."""

    def one(k: jax.Array, q1: jax.Array, q2: jax.Array) -> list[jax.Array]:
        by = [jax.grad(form, (0, 1, 2))(k, q1, q2) for form in forms]
        return jax.tree.leaves((by, [jax.hessian(form, (0, 1, 2))(k, q1, q2) for form in forms]))

    return jax.jit(jax.vmap(one))


def _hermite(k: np.ndarray, q1: np.ndarray, q2: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u = √q1 x and v = (k/√q1) x + √(q2 - k²/q1) y, for all nodes x and y of N(0, 1), and weights."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    root = np.sqrt(q1)
    along = np.divide(k, root, out=np.zeros_like(k), where=root > 0)
    across = np.sqrt(np.maximum(q2 - along**2, 0))
    v = along[:, None, None] * x[:, None] + across[:, None, None] * x
    u = np.broadcast_to((root[:, None] * x)[:, :, None], v.shape)
    values = np.stack([u, v], axis=-1).reshape((len(k), -1, 2))
    return values, np.broadcast_to(np.outer(w, w).ravel() / w.sum() ** 2, values.shape[:2])


def _polar(k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in polar coordinates, with panels between the angles at which u or v changes sign, and weights."""
    scale = np.sqrt(q1 * q2)
    angle = np.arccos(np.clip(np.divide(k, scale, out=np.zeros_like(k), where=scale > 0), -1, 1))
    cuts = np.stack([0 * angle, angle, 0 * angle + math.pi, angle + math.pi, 0 * angle + 2 * math.pi], axis=1)
    cuts = cuts - math.pi / 2
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
