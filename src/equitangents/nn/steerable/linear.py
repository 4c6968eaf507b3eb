"""Linear steerable layers: convolutions by equivariant kernels, maps at each point, readouts, means over points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import DType, Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels.steerable import (
    Filter,
    Kernels,
    PointMap,
    PointMean,
    count,
    filter_kernels,
    filter_matrices,
    geometry,
    largest_frequency,
    point_kernels,
)
from equitangents.nn.layer import ByRun, Grid, Layer, ParameterFree, Signal, Steered, Structure, check_scale, every
from equitangents.nn.steerable.inputs import InputLayer, joined, parted, steered, with_features
from equitangents.precision import standard_normal
from equitangents.steerable import Features
from equitangents.steerable.features import SteerableIrrep, trivial
from equitangents.validation import check_number, check_whole

Pair = tuple[SteerableIrrep, SteerableIrrep]
"""(irrep out, irrep in)."""


class _Linear(Layer):
    """Linear maps by equivariant kernels κ, w ~ N(0, 1): f' = W_std/√(B n) Σ w κ f, plus a bias on scalars."""

    features: str | Features
    W_std: float
    b_std: float
    radii: tuple[float, ...] = (0.0,)

    steers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    def signal(self, signal: Signal) -> Signal:
        """The output features at the input's points, Gaussian."""
        _, out, kernels = self._between(signal)
        without = [str(kind) for kind in out.irreps if not count(kernels, kind)]
        if without:
            wanted = "features to which an equivariant kernel leads from the signal's"
            raise NetworkError("features", without, wanted, "of the layer")
        return with_features(signal, out, gaussian=True)

    def _between(self, signal: Signal) -> tuple[Features, Features, Kernels]:
        """(input features, output features, the equivariant kernels between them)."""
        into = steered(signal).features
        out = Features(self.features, into.group)
        return into, out, self._kernels(into, out)

    def _kernels(self, into: Features, out: Features) -> Kernels:
        raise NotImplementedError

    def _mapped(self, kernels: Kernels, pair: Pair, w: jax.Array, values: jax.Array, points: jax.Array) -> jax.Array:
        """Values (..., copies, d') of one pair of irreps: its kernels applied to values (..., copies, d) at points."""
        raise NotImplementedError

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """Weights (kernels, copies in, copies out) for each pair of irreps with kernels, and b (copies,)."""
        into, out, kernels = self._between(signal)
        keys = jax.random.split(key, len(kernels) + 1)
        params = {}
        for k, ((to, of), found) in zip(keys, kernels.items(), strict=False):
            shape = (len(found) * len(self.radii), into.copies(of), out.copies(to))
            params[f"{of}->{to}"] = standard_normal(k, shape, dtype)
        if self.b_std and (numbers := out.copies(trivial(out.group))):
            params["b"] = standard_normal(keys[-1], (numbers,), dtype)
        return params

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        into, out, kernels = self._between(signal)
        points, before = parted(x, signal)
        values: dict[SteerableIrrep, Any] = {}
        for to, of in kernels:
            fan_in = count(kernels, to) * len(self.radii) * into.copies(of)
            w = params[f"{of}->{to}"] * (self.W_std / math.sqrt(fan_in))
            part = self._mapped(kernels, (to, of), w, before[of], points)
            values[to] = part if to not in values else values[to] + part
        if "b" in params:
            values[trivial(out.group)] += self.b_std * params["b"][:, None]
        return joined(points, out, values)


@dataclass(frozen=True)
class SteerableConv(_Linear):
    """Sums over points by equivariant kernels: f'(x_i) = W_std/√(B n) Σ_j Σ_κ w κ(x_j - x_i) f(x_j), plus a bias.

    κ(x) = exp(-(|x| - r)²/(2 width²)) times an angular part with κ(gx) = ρ'(g) κ(x) ρ(g)ᵀ. B kernels, over all rings
    and input irreps, end in one irrep, each with weights N(0, 1) for n input copies. The sum includes the point itself
    and all others: reduce W_std if many are within reach. Angular parts depend on the direction of x however short it
    is, and those of l ≥ 1 are 0 at x = 0: if two points meet, the network and its kernel jump, unless the rings are
    away from 0 (r well above `width`) or max_frequency=0.

    Args:
        features: Output copies and irreps, such as "16x0+8x1"; at infinite width the number of copies has no effect.
        radii: The radii r of the rings.
        width: The width of the rings.
        W_std: Scale of the weights.
        b_std: Scale of the bias, which only scalars have.
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
        for r in self.radii:
            check_scale("radii", r)
        radii = tuple(map(float, self.radii))
        if not radii or len(set(radii)) < len(radii):
            raise InvalidArgumentError("radii", self.radii, "different radii, at least one")
        object.__setattr__(self, "radii", radii)
        check_number("width", self.width, "a positive number", lambda v: v > 0)
        super().__post_init__()
        if self.max_frequency is not None:
            check_whole("max_frequency", self.max_frequency, 0)

    def signal(self, signal: Signal) -> Signal:
        if steered(signal).points is None:
            raise NetworkError("SteerableConv reads points; use SteerableDense for features of a whole input")
        return super().signal(signal)

    def _kernels(self, into: Features, out: Features) -> Kernels:
        return filter_kernels(into, out, self.max_frequency)

    def _mapped(self, kernels: Kernels, pair: Pair, w: jax.Array, values: jax.Array, points: jax.Array) -> jax.Array:
        largest = largest_frequency(kernels)

        def one(points: jax.Array, values: jax.Array) -> jax.Array:
            matrices = filter_matrices(kernels[pair], geometry(points, largest, self.radii, self.width))
            by_ring = w.reshape((*matrices.shape[:2], *w.shape[1:]))
            return jnp.einsum("kriajb,krcd,jcb->ida", matrices, by_ring, values, precision="highest")

        return jax.vmap(one)(points, values)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Coordinates and output features, (N, P, channels), by one compiled program."""
        return _compiled(self, params, x, signal)

    def lower(self, signal: Signal) -> tuple[Filter, ...]:
        into, out, _ = self._between(signal)
        return (Filter(into, out, self.radii, self.width, self.max_frequency, self.W_std**2, self.b_std**2),)


_compiled = jax.jit(_Linear.apply, static_argnums=(0, 3))


@dataclass(frozen=True)
class SteerableDense(_Linear):
    """Equivariant maps at each point, or of global features: f' = W_std/√(B n) Σ_κ w κ f, plus a bias on scalars.

    Each irrep maps only to copies of itself: by multiples of the identity, and for frequencies ≥ 1 of SO(2) also by a
    quarter turn. `features` are the output features, such as "1x1" for one vector.
    """

    features: str | Features
    W_std: float = 1.0
    b_std: float = 0.0

    def _kernels(self, into: Features, out: Features) -> Kernels:
        return point_kernels(into, out)

    def _mapped(self, kernels: Kernels, pair: Pair, w: jax.Array, values: jax.Array, points: jax.Array) -> jax.Array:
        maps = jnp.stack([jnp.asarray(k.coefficients[..., 0], values.dtype) for k in kernels[pair]])
        return jnp.einsum("kab,kcd,...cb->...da", maps, w, values, precision="highest")

    def lower(self, signal: Signal) -> tuple[PointMap, ...]:
        into, out, _ = self._between(signal)
        return (PointMap(into, out, self.W_std**2, self.b_std**2),)


@dataclass(frozen=True)
class PointFeatures(ByRun, ParameterFree):
    """Readout of the features at points, without coordinates: forces, flows, masks.

    D components that transform are D positions of one channel, (N, P, D, 1), since they covary: targets and predictions
    of ensembles are (N, P, D), and `kernel_field` is (N1, P·D, N2, P·D), with D components at each point. D scalars
    have equal distributions, (N, P, D), with kernels (N1, P, N2, P) of one of them. After PlaneImage, P is H × W. A
    linear layer must come before it, and none after it.

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.PointCloud("SO(3)"), nn.SteerableConv("1x1"), nn.PointFeatures())
    >>> net.output_shape((5, 3))
    (5, 3, 1)
    """

    steers: ClassVar[bool] = True
    is_last: ClassVar[bool] = True  # coordinates are dropped here, and later steerable layers would need them
    ends_on_points: ClassVar[bool] = True

    def signal(self, signal: Signal) -> Signal:
        """Components at points as positions of a grid; scalars as channels."""
        positions = steered(signal)
        if positions.points is None:
            raise NetworkError("PointFeatures ends a network on points; this one ends on whole inputs")
        if not signal.gaussian:
            raise NetworkError("PointFeatures needs a linear layer before it, SteerableConv or SteerableDense")
        grid, size = positions.grid or positions.shape, positions.features.dimension
        shape, channels = (grid, size) if positions.features.is_trivial else ((*grid, size), 1)
        return Signal(Grid(shape), channels, gaussian=True)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The features at each point, without coordinates; zero at missing points."""
        values = x[..., steered(signal).coordinates :]
        if structure.mask is not None:
            values = jnp.where(structure.mask[..., None], values, 0)
        return values.reshape((len(x), *self.signal(signal).array_shape)), Structure(key=structure.key)

    def lower(self, signal: Signal) -> tuple[()]:
        """No operations: the kernels at the points are the result."""
        return ()


def equivariant_dimension(layers: tuple[Layer, ...]) -> int | None:
    """Number of outputs of a steerable network with global, non-invariant outputs; None for other networks."""
    begin, found = layers[0], tuple(every(layers))  # all branches that are summed end in the same features
    linear = [layer for layer in found if isinstance(layer, _Linear)]
    if not isinstance(begin, InputLayer) or not linear:
        return None
    if begin.on_points and not any(isinstance(layer, SteerablePool) for layer in found):
        return None
    outputs = Features(linear[-1].features, begin.group)
    return None if outputs.is_trivial else outputs.dimension


@dataclass(frozen=True)
class SteerablePool(ByRun, ParameterFree):
    """Mean of features over existing points: global features, without coordinates."""

    steers: ClassVar[bool] = True

    def signal(self, signal: Signal) -> Signal:
        """The input's features, once for the whole input."""
        positions = steered(signal)
        if positions.points is None:
            raise NetworkError("SteerablePool reads points; these are features of a whole input")
        positions_after = Steered(positions.features, deterministic=positions.deterministic)
        return replace(signal, positions=positions_after, channels=positions.features.dimension, deterministic=False)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Means over points, (N, channels); under a mask over the points that exist."""
        values = x[..., steered(signal).coordinates :]
        if structure.mask is None:
            return jnp.mean(values, axis=1), structure
        present = structure.mask.astype(x.dtype)
        weights = present / jnp.maximum(present.sum(axis=1, keepdims=True), 1)
        y = jnp.einsum("np,npc->nc", weights, values, precision="highest")
        return y, replace(structure, mask=None)

    def lower(self, signal: Signal) -> tuple[PointMean, ...]:
        return (PointMean(),)
