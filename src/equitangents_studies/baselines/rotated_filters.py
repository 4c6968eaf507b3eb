"""A group-convolutional network whose filters are rotated by the elements of a finite group of the plane.

lift    F(g) = x ⋆ ρ(g)ψ;    group convolution    F′(g) = Σ_k F(g k) ⋆ ρ(g)ψ_k;    readout    Σ_g ⟨F(g), ρ(g)w⟩ / |G|.
With ρ(g) exact on filters (rotations by 90°, reflections) the output is exactly invariant. Otherwise ψ and w are sums
of smooth functions of the plane, each rotated as a function and sampled at the pixels of a square, and the output is
invariant up to what the samples of images lose:
    B(r, φ) = exp(−(r − R)²/2σ²) cos(mφ) or sin(mφ),   R = 0, 1, 2, … (½, 1½, … on squares of even side),   m ≤ R.

Rotated by α they are B(r, φ − α), evaluated at the pixels: nothing is interpolated. No wave on a ring is shorter
than 2π pixels: with m ≤ 2R trained networks lost more of their accuracy when images rotated by 45°.
Source: Weiler & Cesa 2019, arXiv 1911.08251, section 2.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import actions
from equitangents.actions import Action
from equitangents.extending import ArrayLike, DType, Params, Weights
from equitangents_studies.baselines.baseline import BaselineProblem
from equitangents_studies.baselines.networks import B_STD, LAST_STD, W_STD, count_parameters

_WIDTH = 0.6  # σ, in pixels


@dataclass(frozen=True)
class RotatedFilters:
    """Lift, ReLU, blocks of 2×2 averaged, then `convolutions` group convolutions with ReLU, and the readout.

    Where the group moves pixels to pixels, filters are 3×3 and have a weight for every pixel, and the readout has one
    for every position, as the dense layer of a plain network has. Otherwise filters are 5×5, and they and the readout
    have a weight for each of the `ring_functions`.
    """

    group: str
    width: int
    classes: int
    convolutions: int = 1

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Weights (taps, inputs, width) of the lift, (taps, |G|, width, width) of convolutions, then the readout."""
        order, taps = len(_quotients(self.group)), _weights_of_a(_filter_side(self.group), self.group)
        positions = _weights_of_a(input_shape[0] // 2, self.group)
        keys = jax.random.split(key, self.convolutions + 2)
        shapes = [(taps, input_shape[-1], self.width), *[(taps, order, self.width, self.width)] * self.convolutions]
        hidden = [Weights(W_STD, B_STD).init(k, s, (self.width,), dtype) for k, s in zip(keys, shapes, strict=False)]
        last = Weights(LAST_STD, 0.0).init(keys[-1], (positions, self.width, self.classes), (self.classes,), dtype)
        return (*hidden, last)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """(N, H, W, C) to (N, classes)."""
        lift, *convolutions, last = params
        quotients = _quotients(self.group)
        order, side = len(quotients), _filter_side(self.group)
        x = jnp.asarray(x, lift["w"].dtype)
        filters = _rotated(self.group, side, lift["w"])  # [g, tap, c, o]
        x = _halved(self._convolve(lift, x, jnp.moveaxis(filters, 0, 2)))
        for layer in convolutions:
            rotated = _rotated(self.group, side, layer["w"])  # [g, tap, k, c, o]
            filters = rotated[np.arange(order)[:, None], :, quotients]  # [g, g′, tap, c, o] with k = g⁻¹g′
            filters = filters.transpose((2, 1, 3, 0, 4)).reshape((side**2, order * self.width, order, self.width))
            x = self._convolve(layer, x, filters)
        weights = jnp.moveaxis(_rotated(self.group, x.shape[1], last["w"]), 0, 1)  # [position, g, c, class]
        weights = weights * (LAST_STD / (x[0].size / order) ** 0.5 / order)
        return x.reshape((len(x), -1)) @ weights.reshape((-1, self.classes))

    def _convolve(self, layer: Params, x: jax.Array, filters: jax.Array) -> jax.Array:
        """(N, H, W, inputs) to (N, H, W, |G|·width) by filters [tap, inputs, g, width], bias and ReLU."""
        side, inputs = _filter_side(self.group), x.shape[-1]
        reach = side // 2
        padded = jnp.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
        H, W = x.shape[1:3]
        patches = jnp.concatenate([padded[:, i : i + H, j : j + W] for i in range(side) for j in range(side)], axis=-1)
        kernel = filters.reshape((side**2 * inputs, -1)) * (W_STD / (side**2 * inputs) ** 0.5)
        y = (patches.reshape((-1, side**2 * inputs)) @ kernel).reshape((*x.shape[:3], -1, self.width))
        y = jax.nn.relu(Weights(W_STD, B_STD).add_bias(layer, y))
        return y.reshape((*x.shape[:3], -1))


def rotated_filters(problem: BaselineProblem, parameters: int) -> RotatedFilters:
    """The network whose number of parameters is nearest to `parameters`."""
    sizes: list[tuple[int, RotatedFilters]] = []
    for width in range(1, 1000):
        net = RotatedFilters(problem.group, width, problem.classes, len(problem.channels) - 1)
        sizes.append((count_parameters(net, problem.shape), net))
        if sizes[-1][0] >= parameters:
            break
    return min(sizes, key=lambda size: abs(size[0] - parameters))[1]


def ring_functions(side: int) -> list[tuple[float, int, float]]:
    """Each function's ring radius, its angular frequency, and its phase, 0 or π/2m."""
    radii = np.arange(side / 2 - 0.5, -0.25, -1.0)[::-1]
    return [
        (float(R), m, phase)
        for R in radii
        for m in range(int(R) + 1)
        for phase in ((0.0, np.pi / (2 * m)) if m else (0.0,))
    ]


@lru_cache(maxsize=16)
def rotated_rings(side: int, order: int) -> Float[np.ndarray, "order pixels functions"]:
    """Every function rotated counter-clockwise by g·360°/order, at the pixels of a square, row-major.

    Scaled so that independent weights of variance 1 answer as independent pixels do: filters have squares that sum to
    at most side² on average, and a constant image, which only m = 0 sees, gives side² times its square.
    """
    at = np.arange(side) - (side - 1) / 2
    x, y = np.meshgrid(at, -at)
    r, angle = np.hypot(x, y).ravel(), np.arctan2(y, x).ravel()
    listed = ring_functions(side)
    found = np.empty((order, side * side, len(listed)))
    means = sum(m == 0 for _, m, _ in listed)
    for b, (R, m, phase) in enumerate(listed):
        ring = np.exp(-((r - R) ** 2) / (2 * _WIDTH**2)) * ((m == 0) | (r > 0))  # at the centre there is no angle
        for g in range(order):
            found[g, :, b] = ring * np.cos(m * (angle - phase - 2 * np.pi * g / order))
        power = means * found[0, :, b].sum() ** 2 if m == 0 else len(listed) * (found[0, :, b] ** 2).sum()
        found[:, :, b] *= side / np.sqrt(power)
    return found


def exact_on_filters(group: str) -> bool:
    """Whether the group moves pixels to pixels."""
    return bool(actions.as_action("group", group, (1, 4, 4, 1)).exact)


def _filter_side(group: str) -> int:
    return 3 if exact_on_filters(group) else 5


def _weights_of_a(side: int, group: str) -> int:
    """Weights of one filter on a square."""
    return side * side if exact_on_filters(group) else len(ring_functions(side))


def _rotated(group: str, side: int, weights: jax.Array) -> jax.Array:
    """Filters on a square from their weights (taps, ...), rotated by every g: (|G|, side², ...)."""
    if exact_on_filters(group):
        return weights[_motion(group, side)]
    basis = rotated_rings(side, len(_quotients(group)))
    return jnp.einsum("gpb,b...->gp...", jnp.asarray(basis, weights.dtype), weights)


@lru_cache(maxsize=16)
def _motion(group: str, side: int) -> np.ndarray:
    """Index from which ρ(g) reads each pixel of a square, row-major, (|G|, side²)."""
    action: Action = actions.as_action("group", group, (1, side, side, 1))
    places = np.arange(side * side, dtype=np.float64).reshape((1, side, side, 1))
    orbit = [np.asarray(action(g, places)) for g in range(action.group.order)]
    return np.stack(orbit).reshape((action.group.order, -1)).astype(np.int32)


@lru_cache(maxsize=16)
def _quotients(group: str) -> np.ndarray:
    """quotients[g, g′] = g⁻¹g′."""
    G = actions.as_action("group", group, (1, 4, 4, 1)).group
    return np.array([[G.compose(G.inverse(g), h) for h in range(G.order)] for g in range(G.order)])


def _halved(x: jax.Array) -> jax.Array:
    """Means over blocks of 2×2; they rotate with the image."""
    N, H, W, C = x.shape
    return x.reshape((N, H // 2, 2, W // 2, 2, C)).mean(axis=(2, 4))
