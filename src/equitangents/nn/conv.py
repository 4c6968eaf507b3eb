"""Dense layers, and windows that slide over a grid: y(p) = W_std/√(n|S|) Σ_u W(u) x(stride·p - low + u) + b_std · b.

A convolution has the same weights at every position; a locally connected layer has separate weights and bias for each.
Positions follow `jax.lax`'s SAME rule: low = total // 2 with total = max((⌈n/stride⌉ - 1)·stride + window - n, 0), for
zero and circular padding; "valid" reads only inside the grid.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import DType, Params, Tree
from equitangents.errors import NetworkError
from equitangents.groups import Group
from equitangents.kernels import operations
from equitangents.kernels.operations import Box, Decouple
from equitangents.kernels.program import Op
from equitangents.kernels.structured import check_masked_windows, deciding
from equitangents.nn.compiled_windows import why_not, window_product
from equitangents.nn.layer import Grid, LinearLayer, ParameterFree, Signal, Structure
from equitangents.structured import SMALLER
from equitangents.validation import check_choice, check_whole


@dataclass(frozen=True, repr=False)
class Dense(LinearLayer):
    """A fully connected layer: K ← W_std² K + b_std², Θ ← K + W_std² Θ.

    The same map acts at every position. `parametrisation="standard"`: weights are drawn from N(0, W_std²/n) and biases
    from N(0, b_std²) for n inputs; K is the same, and Θ ← n K + 1 (with a bias) + W_std² Θ (Sohl-Dickstein et al.
    2020). Only there: `bias=True` with b_std = 0 is a trained bias that starts at 0 (None: a bias if b_std > 0), and
    with `width_scale` s, Θ counts n/s inputs, since weights are √s larger and divided by √s where they multiply.
    """

    channels: int
    W_std: float = 1.0
    b_std: float = 0.0
    parametrisation: str = field(default="ntk", repr=False)
    bias: bool | None = field(default=None, repr=False)
    width_scale: float = field(default=1.0, repr=False)

    def signal(self, signal: Signal) -> Signal:
        return replace(signal, channels=self.channels, gaussian=True, deterministic=False, uneven=False)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The inputs times the weights, plus the bias: W_std/√n · x W + b_std · b."""
        return self.scales.multiply(params, x)


@dataclass(frozen=True)
class Flatten(ParameterFree):
    """The channels of all positions in one vector. Before a dense layer, K' = mean over p of K(p,p)."""

    def signal(self, signal: Signal) -> Signal:
        """A plain vector; not Gaussian, since features of different positions have different variances."""
        positions = signal.positions
        single = positions.count == 1
        channels = positions.count * signal.channels
        uneven = signal.uneven or not (signal.gaussian or single)
        gaussian = signal.gaussian and single
        return replace(signal, positions=Grid(()), channels=channels, gaussian=gaussian, uneven=uneven)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """(N, positions·channels), times the square roots of the positions' weights if these differ."""
        weights = signal.positions.weights
        if weights is not None:
            x = x * np.sqrt(len(weights) * weights).astype(x.dtype)[:, None]
        return x.reshape((x.shape[0], -1))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        return () if signal.positions.shape == () else (operations.Flattening(),)


PADDINGS = ("circular", "zero", "valid")
Sizes = tuple[int, ...] | int
"""One size for each dimension of a grid, or one for all."""


def check_sizes(name: str, value: Tree) -> Sizes:
    """A positive integer, or a tuple with one for each spatial dimension."""
    if isinstance(value, tuple | list):
        return tuple(check_whole(name, part, 1) for part in value)
    return check_whole(name, value, 1)


def per_dimension(name: str, value: Sizes, dimensions: int) -> tuple[int, ...]:
    """`value` as a tuple with one entry per spatial dimension."""
    if isinstance(value, int):
        return (value,) * dimensions
    if len(value) != dimensions:
        raise NetworkError(name, value, "one size for each dimension of the grid")
    return value


def grid_shape(signal: Signal) -> tuple[int, ...]:
    """The shape of the signal's grid; raises NetworkError if it is not on a grid."""
    positions = signal.positions
    if signal.axes not in (1, 2, 3):
        raise NetworkError("signal", positions, "a grid of 1 to 3 dimensions (N, *grid, channels)", verb="is on")
    return positions.shape


def window_box(window: Sizes, stride: Sizes, padding: str, shape: tuple[int, ...]) -> Box:
    """The positions read by a box that slides over a grid of this shape."""
    window, stride = per_dimension("window", window, len(shape)), per_dimension("stride", stride, len(shape))
    if padding == "valid":
        if any(w > n for w, n in zip(window, shape, strict=True)):
            raise NetworkError("window", window, shape, "at most the grid's sizes", verb="with valid padding is")
        out = tuple((n - w) // s + 1 for n, w, s in zip(shape, window, stride, strict=True))
        zero = (0,) * len(shape)
        return Box(shape, out, window, stride, zero, zero, wrap=False)
    out = tuple(-(-n // s) for n, s in zip(shape, stride, strict=True))
    total = [max((o - 1) * s + w - n, 0) for o, s, w, n in zip(out, stride, window, shape, strict=True)]
    low = tuple(t // 2 for t in total)
    high = tuple(t - a for t, a in zip(total, low, strict=True))
    return Box(shape, out, window, stride, low, high, wrap=padding == "circular")


def padded(x: jax.Array, box: Box) -> jax.Array:
    """x (N, *grid, c), padded by the values that windows read outside of the grid."""
    if not (any(box.low) or any(box.high)):
        return x
    widths = [(0, 0), *zip(box.low, box.high, strict=True), (0, 0)]
    return jnp.pad(x, widths, mode="wrap" if box.wrap else "constant")


def patches(x: jax.Array, box: Box) -> jax.Array:
    """The values in each window: (N, *grid, c) to (N, *out, |S|·c), window positions in row-major order.

    Slices, followed by one matrix product, replace a convolution: under `vmap` over an ensemble's members they stay a
    batched matrix product, while a convolution would become a slow grouped one.
    """
    x = padded(x, box)
    pieces = []
    for offset in itertools.product(*map(range, box.window)):
        limits = [u + (n - 1) * s + 1 for u, n, s in zip(offset, box.out_shape, box.stride, strict=True)]
        pieces.append(lax.slice(x, (0, *offset, 0), (x.shape[0], *limits, x.shape[-1]), (1, *box.stride, 1)))
    return jnp.concatenate(pieces, axis=-1) if len(pieces) > 1 else pieces[0]


def windows_left(box: Box, mask: jax.Array, convention: str) -> jax.Array:
    """Mask (N, *out) of the windows that exist under a mask (N, *grid)."""
    return mask.reshape((len(mask), -1))[:, deciding(box, convention)].reshape((len(mask), *box.out_shape))


def taps(box: Box) -> int:
    """The number of positions in the window, |S|."""
    return math.prod(box.window)


def symmetric_box(window: object, group: Group) -> Box | None:
    """The box `window` on the group's grid if rotations and reflections map it to itself; None otherwise."""
    if group.torus is None or not isinstance(window, tuple):
        return None
    if group.order > math.prod(group.torus):
        square = len(set(window)) == 1 or not group.has_quarter_rotations
        if not (square and all(w % 2 for w in window)):
            return None
    return window_box(window, 1, "circular", group.torus)


@dataclass(frozen=True, repr=False)
class WindowLayer(LinearLayer):
    """A linear layer that reads a window around each position of a grid with one to three dimensions; see `Conv`."""

    channels: int
    window: Sizes
    stride: Sizes = 1
    padding: str = "circular"
    W_std: float = 1.0
    b_std: float = 0.0
    parametrisation: str = field(default="ntk", repr=False)
    bias: bool | None = field(default=None, repr=False)
    width_scale: float = field(default=1.0, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_sizes("window", self.window))
        object.__setattr__(self, "stride", check_sizes("stride", self.stride))
        check_choice("padding", self.padding, PADDINGS)
        super().__post_init__()

    def box(self, signal: Signal) -> Box:
        """The positions that the window reads on the signal's grid."""
        return window_box(self.window, self.stride, self.padding, grid_shape(signal))

    def positions_read(self, grid: tuple[int, ...]) -> np.ndarray:
        """(windows, |S|): the position of the grid that each tap of a window reads, row-major; −1 outside of it."""
        return window_box(self.window, self.stride, self.padding, grid).table

    def fan_in(self, signal: Signal) -> int:
        """|S|·n, the inputs of a window."""
        return taps(self.box(signal)) * signal.channels

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        return (self.box(signal),)

    def lower_masked(self, signal: Signal) -> tuple[Any, ...]:
        """As `lower`; raises NetworkError if windows of smaller inputs start at other positions."""
        check_masked_windows(self.box(signal), self.padding)
        return self.lower(signal)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """As `apply`; under a mask as on the smaller input, or by the mask's convention."""
        box, mask = self.box(signal), structure.mask
        if mask is not None:
            if structure.masks == SMALLER:
                check_masked_windows(box, self.padding)
            mask = windows_left(box, mask, structure.masks)
        return structure.after(self.apply(params, x, signal), mask)

    def signal(self, signal: Signal) -> Signal:
        return Signal(Grid(self.box(signal).out_shape), self.channels, gaussian=True)


@dataclass(frozen=True, repr=False)
class Conv(WindowLayer):
    """A convolution: K'(p,p') = W_std² mean over u of K(p+u, p'+u) + b_std², and Θ' = K' + W_std² mean of Θ.

    For grids of one to three dimensions. `padding`: "circular" (a torus), "zero" (the mean still divides by the whole
    window at borders) or "valid". `window` and `stride`: a number, or one per dimension. `parametrisation`,
    `bias` and `width_scale`: as in `Dense`, with n = |S| times the channels, the inputs of a window.
    """

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Every window's values times the weights, plus the bias; in training by `compiled_windows` if possible."""
        box = self.box(signal)
        if why_not(box, x.dtype) is None:
            w = self.scales.scaled(params, self.fan_in(signal))
            return self.scales.add_bias(params, window_product(x, w, box))
        return self.scales.multiply(params, patches(x, box))


@dataclass(frozen=True, repr=False)
class LocallyConnected(WindowLayer):
    """As Conv for p = p'; K' = Θ' = 0 for p ≠ p', because different positions share neither weights nor bias."""

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (positions, |S|·n, channels), b (positions, channels)."""
        count = math.prod(self.box(signal).out_shape)
        shape = (count, self.fan_in(signal), self.channels)
        return self.scales.init(key, shape, (count, self.channels), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Every window's values times the weights of its position, plus the bias."""
        cut, fan_in = patches(x, self.box(signal)), self.fan_in(signal)
        flat = cut.reshape((cut.shape[0], -1, fan_in))
        y = self.scales.add_bias(params, jnp.einsum("npi,pio->npo", flat, self.scales.scaled(params, fan_in)))
        return y.reshape((*cut.shape[:-1], self.channels))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        return (*super().lower(signal), Decouple())
