"""Linear steerable layers: convolutions by equivariant kernels, and maps at each point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike, DType, Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels.steerable.execute import (
    count,
    filter_matrices,
    geometry,
    largest_frequency,
    point_kernels,
)
from equitangents.kernels.steerable.program import Filter, Kernels, PointMap, filter_kernels
from equitangents.nn.layer import Layer, check_number, check_scale
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.signal import joined, parted, steerable, with_features
from equitangents.normals import standard_normal
from equitangents.steerable import Features
from equitangents.steerable.angular import AngularKernel
from equitangents.steerable.irrep import Irrep, trivial
from equitangents.validation import check_whole


class _Linear(Layer):
    """Weights N(0, 1) on equivariant kernels κ: f' = W_std/√(B n) Σ w κ f, and a bias on numbers."""

    features: str | Features
    W_std: float
    b_std: float

    steers: ClassVar[bool] = True

    def mask_after(self, mask: ArrayLike | None, signal: Signal) -> ArrayLike | None:
        """The mask that comes in: no point comes or goes."""
        return mask

    def signal(self, signal: Signal) -> Signal:
        """The new features at the points that come in, Gaussian."""
        out = Features(self.features, steerable(signal).features.group)
        kernels = self._kernels(signal, out)
        without = [str(kind) for kind in out.irreps if not count(kernels, kind)]
        if without:
            raise NetworkError(
                "features",
                list(without),
                "features to which an equivariant kernel leads from the signal's",
                "of the layer",
            )
        return with_features(signal, out, gaussian=True)

    def _kernels(self, signal: Signal, out: Features) -> Kernels:
        raise NotImplementedError

    def _rings(self) -> int:
        return 1

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """Weights (kernels, copies in, copies out) for every two irreps that have kernels, and b (copies,)."""
        out = Features(self.features, steerable(signal).features.group)
        kernels, number = self._kernels(signal, out), trivial(out.group)
        keys = jax.random.split(key, len(kernels) + 1)
        params = {
            _name(to, into): standard_normal(
                k,
                (len(found) * self._rings(), steerable(signal).features.copies(into), out.copies(to)),
                dtype,
            )
            for k, ((to, into), found) in zip(keys, kernels.items(), strict=False)
        }
        if self.b_std and out.copies(number):
            params["b"] = standard_normal(keys[-1], (out.copies(number),), dtype)
        return params

    def _weighted(self, params: Params, signal: Signal, out: Features, act: Callable[..., Any]) -> dict[Irrep, Any]:
        """Values (..., copies, d') by irrep: the sum over irreps of what `act(kernels, weights, irrep)` makes."""
        kernels, features = self._kernels(signal, out), steerable(signal).features
        values: dict[Irrep, Any] = {}
        for (to, into), found in kernels.items():
            fan_in = count(kernels, to) * self._rings() * features.copies(into)
            w = params[_name(to, into)] * (self.W_std / math.sqrt(fan_in))
            part = act(found, w, into)
            values[to] = part if to not in values else values[to] + part
        if "b" in params:
            number = trivial(out.group)
            values[number] = values[number] + self.b_std * params["b"][:, None]
        return values


@dataclass(frozen=True)
class SteerableConv(_Linear):
    """Sums over points by equivariant kernels: f'(x_i) = W_std/√(B n) Σ_j Σ_κ w κ(x_j - x_i) f(x_j), plus a bias.

    κ(x) = exp(-(|x| - r)²/(2 width²)) times an angular part with κ(gx) = ρ'(g) κ(x) ρ(g)ᵀ; there are B of them that
    end in one irrep, over all rings and irreps, each with weights N(0, 1) for n copies in. All points are summed over,
    the point itself included: scale by W_std where there are many within reach. Angular parts depend on the direction
    of x however short it is, and those of l ≥ 1 are 0 at x = 0: where two points meet, the network and its kernel
    jump, unless the rings keep away from 0 (r well above `width`) or max_frequency=0.

    Args:
        features: What comes out, copies and irreps, such as "16x0+8x1"; at infinite width copies do not count.
        radii: The radii r of the rings.
        width: How wide the rings are.
        W_std: Scale of the weights.
        b_std: Scale of the bias, which numbers alone have.
        max_frequency: The largest angular frequency J of kernels; None: all there are.

    >>> import jax
    >>> from equitangents import nn
    >>> net = nn.Sequential(
    ...     nn.PointCloud("SO(3)"), nn.SteerableConv("8x0+4x1"), nn.SteerablePool(), nn.SteerableDense("1x1")
    ... )
    >>> net.output_shape((5, 3))
    (3,)
    """

    features: str | Features
    radii: tuple[float, ...] = (0.0, 1.0, 2.0)
    width: float = 0.6
    W_std: float = 1.0
    b_std: float = 0.0
    max_frequency: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.radii, Iterable):
            raise InvalidTypeError("radii", self.radii, "several numbers, such as (0.0, 1.0, 2.0)")
        radii = tuple(check_scale("radii", r) for r in self.radii)
        if not radii or len(set(radii)) < len(radii):
            raise InvalidArgumentError("radii", self.radii, "different radii, at least one")
        object.__setattr__(self, "radii", radii)
        if not check_number("width", self.width) > 0:
            raise InvalidArgumentError("width", self.width, "a positive number")
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)
        if self.max_frequency is not None:
            check_whole("max_frequency", self.max_frequency, 0)

    def signal(self, signal: Signal) -> Signal:
        """The new features at the points that come in, Gaussian."""
        if not steerable(signal).on_points:
            raise NetworkError("SteerableConv reads points; use SteerableDense for features of a whole input")
        return super().signal(signal)

    def _kernels(self, signal: Signal, out: Features) -> Kernels:
        return filter_kernels(steerable(signal).features, out, self.max_frequency)

    def _rings(self) -> int:
        return len(self.radii)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Coordinates and new features, (N, P, channels)."""
        return _convolved(self, signal, params, x)

    def lower(self, signal: Signal) -> tuple[Filter, ...]:
        """One filter over points."""
        into = steerable(signal).features
        out = Features(self.features, into.group)
        return (Filter(into, out, self.radii, self.width, self.max_frequency, self.W_std**2, self.b_std**2),)


@partial(jax.jit, static_argnums=(0, 1))
def _convolved(layer: SteerableConv, signal: Signal, params: Params, x: jax.Array) -> jax.Array:
    """The layer's output, as one compiled program."""
    features = steerable(signal).features
    out = Features(layer.features, features.group)
    points, rest = parted(x, signal)
    values = features.split(rest)
    largest = largest_frequency(layer._kernels(signal, out))

    def act(kernels: tuple[AngularKernel, ...], w: jax.Array, into: Irrep) -> jax.Array:
        def one(points: jax.Array, values: jax.Array) -> jax.Array:
            matrices = filter_matrices(kernels, geometry(points, largest, layer.radii, layer.width))
            by_ring = w.reshape((*matrices.shape[:2], *w.shape[1:]))
            return jnp.einsum("kriajb,krcd,jcb->ida", matrices, by_ring, values, precision="highest")

        return jax.vmap(one)(points, values[into])

    return joined(points, out, layer._weighted(params, signal, out, act))


@dataclass(frozen=True)
class SteerableDense(_Linear):
    """Equivariant maps at each point, or of a whole input: f' = W_std/√(B n) Σ_κ w κ f, plus a bias on numbers.

    An irrep is mapped to copies of itself alone: by multiples of the unit, and for frequencies of SO(2) from 1 on by a
    quarter turn, too. `features` are those that come out, such as "1x1" for one vector.
    """

    features: str | Features
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    def _kernels(self, signal: Signal, out: Features) -> Kernels:
        return point_kernels(steerable(signal).features, out)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Coordinates, if there are any, and new features."""
        features = steerable(signal).features
        out = Features(self.features, features.group)
        points, rest = parted(x, signal)
        values = features.split(rest)

        def act(kernels: tuple[AngularKernel, ...], w: jax.Array, into: Irrep) -> jax.Array:
            maps = jnp.stack([jnp.asarray(k.coefficients[..., 0], x.dtype) for k in kernels])
            return jnp.einsum("kab,kcd,...cb->...da", maps, w, values[into], precision="highest")

        return joined(points, out, self._weighted(params, signal, out, act))

    def lower(self, signal: Signal) -> tuple[PointMap, ...]:
        """One map at every point."""
        into = steerable(signal).features
        return (PointMap(into, Features(self.features, into.group), self.W_std**2, self.b_std**2),)


def _name(to: Irrep, into: Irrep) -> str:
    return f"{into}->{to}"
