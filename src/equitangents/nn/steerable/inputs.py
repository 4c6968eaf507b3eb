"""Input layers of steerable networks (point clouds, images, global features, sphere signals), and their signals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.groups import SymmetryGroup
from equitangents.nn.layer import ParameterFree, Signal, Steered
from equitangents.nn.sphere_lift import bandlimit_of
from equitangents.steerable import Features
from equitangents.steerable.features import MAX_DEGREE, SPACES, SteerableIrrep, group_name, trivial


class InputLayer(ParameterFree):
    """The first layer of a network: defines how the group named `group` acts on the input's channels."""

    steers: ClassVar[bool] = True
    spaces: ClassVar[tuple[int, ...]] = (2, 3)
    """Dimensions of the spaces whose groups it reads."""
    on_points: ClassVar[bool] = True
    """Whether features are on points, not of a whole input."""
    reads: ClassVar[tuple[int, str]]
    """The number of the input's axes other than the batch and the channels, and the error for other inputs."""
    group: SymmetryGroup | str

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", group_name(self.group))
        if SPACES[self.group_name] not in self.spaces:
            raise NetworkError("group", self.group, [name for name, n in SPACES.items() if n in self.spaces])
        if getattr(self, "features", None) is not None:
            object.__setattr__(self, "features", Features(self.features, self.group))  # type: ignore[attr-defined]

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return group_name(self.group)

    def _check(self, signal: Signal, channels: int | None = None, remedy: str = "") -> None:
        """Raise NetworkError unless `signal` is the layer's input, with `channels` channels."""
        axes, message = self.reads
        if not signal.deterministic or signal.axes != axes:
            raise NetworkError(message)
        if channels not in (None, signal.channels):
            raise NetworkError("signal", signal.channels, channels, remedy, verb="has channels,")

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """No operations: a layer without weights only changes the kernel's inputs."""
        return ()


@dataclass(frozen=True)
class FeatureVector(InputLayer):
    """Global features (N, channels), without points. The first layer of a network.

    Args:
        group: "SO(2)", "O(2)", "SO(3)" or "O(3)", by name or as a group.
        features: Irreps of the channels, such as "2x0+1x1".

    SteerableDense and nonlinearities follow.

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.FeatureVector("SO(3)", "2x0+1x1"), nn.SteerableDense("1x1"))
    >>> net.output_shape((5,))
    (3,)
    """

    on_points: ClassVar[bool] = False
    reads: ClassVar = (0, "FeatureVector reads vectors (N, channels), and is the first layer of a network")
    group: SymmetryGroup | str
    features: Features | str

    def signal(self, signal: Signal) -> Signal:
        features = Features(self.features, self.group)
        self._check(signal, features.dimension, "give as many as the features have")
        return Signal(Steered(features), signal.channels, deterministic=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        return x


@dataclass(frozen=True)
class SphereSignal(InputLayer):
    """Signals on the sphere as harmonic coefficients, (N, B², C), at the index l² + l + m. An input layer.

    Degree l of the C channels becomes C copies of the irrep l, for l < B. SteerableDense is then a convolution with
    zonal filters, with one weight per degree and pair of channels, and FourierNonlinearity acts on the signal's values.
    Coefficients are real and orthonormal over the sphere, as for `SphereLift`; features are coefficients divided by
    √(4π), so that their squares sum to the signal's mean square.

    Args:
        group: "SO(3)", or "O(3)" for scalar signals, where l has the parity (-1)^l.

    >>> from equitangents import nn
    >>> net = nn.Sequential(
    ...     nn.SphereSignal("SO(3)"), nn.SteerableDense("8x0+8x1"), nn.FourierNonlinearity(), nn.SteerableDense("1x1")
    ... )
    >>> net.output_shape((4, 2))
    (3,)
    """

    spaces: ClassVar[tuple[int, ...]] = (3,)
    on_points: ClassVar[bool] = False
    reads: ClassVar = (1, "SphereSignal reads harmonic coefficients (N, B², C), and is the first layer of a network")
    group: SymmetryGroup | str = "SO(3)"

    def signal(self, signal: Signal) -> Signal:
        """One copy of every degree for each input channel."""
        self._check(signal)
        bandlimit = bandlimit_of(signal, MAX_DEGREE + 1, "give fewer coefficients, or begin with SphereLift")
        features = signals_on_directions(self.group_name, signal.channels, bandlimit)
        return Signal(Steered(features), features.dimension, deterministic=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Features (N, C · B²), degree by degree and channel by channel."""
        count, size = signal.channels, math.isqrt(x.shape[1])
        parts = [jnp.swapaxes(x[:, l * l : (l + 1) ** 2], 1, 2).reshape(-1, count * (2 * l + 1)) for l in range(size)]
        return jnp.concatenate(parts, axis=-1) / math.sqrt(4 * math.pi)


def signals_on_directions(group: str, copies: int, bandlimit: int) -> Features:
    """Features of signals on the circle or sphere: copies of every degree below the bandlimit; parities for O(3)."""
    kinds = (SteerableIrrep(group, l, (-1) ** l if group == "O(3)" else 1) for l in range(bandlimit))
    return Features.of(group, tuple((copies, kind) for kind in kinds))


@dataclass(frozen=True)
class PointCloud(InputLayer):
    """Points with features, (N, P, n + channels): n coordinates (2 in the plane, 3 in space), then channels.

    Args:
        group: "SO(2)" or "O(2)" in the plane, "SO(3)" or "O(3)" in space, by name or as a group.
        features: Irreps of the channels, such as "2x0+1x1"; None: no channels, and each point has the scalar 1.

    Outputs depend only on differences of coordinates. Clouds of different sizes go into one array as `Masked`. The
    first layer of a network.

    >>> from equitangents import nn
    >>> nn.PointCloud("SO(3)", "2x0+1x1").features.dimension
    5
    """

    reads: ClassVar = (1, "PointCloud reads points (N, P, channels), and is the first layer of a network")
    group: SymmetryGroup | str
    features: Features | str | None = None

    def signal(self, signal: Signal) -> Signal:
        n, number = SPACES[self.group_name], str(trivial(self.group_name))
        features = Features(self.features or number, self.group)
        own = 0 if self.features is None else features.dimension
        self._check(signal, n + own, "give coordinates, then features")
        return Signal(Steered(features, signal.positions.count), n + features.dimension, deterministic=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The input points, with a feature 1 if there are no channels."""
        return x if self.features is not None else jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


@dataclass(frozen=True)
class PlaneImage(InputLayer):
    """Images (N, H, W, C) as points at their pixels, with unit spacing, around the image's centre.

    `group` is "SO(2)" or "O(2)"; `features` are the irreps of the channels, C scalars by default. x points along
    columns to the right and y upwards, so that `numpy.rot90` rotates the points by 90°. Rotations that map the grid to
    itself are exact symmetries; for others, a sum over pixels approximates an integral. The first layer of a network.
    """

    spaces: ClassVar[tuple[int, ...]] = (2,)
    reads: ClassVar = (2, "PlaneImage reads images (N, H, W, C), and is the first layer of a network")
    group: SymmetryGroup | str
    features: Features | str | None = None

    def signal(self, signal: Signal) -> Signal:
        """A signal with one point per pixel."""
        features = Features(self.features or f"{signal.channels}x{trivial(self.group_name)}", self.group)
        self._check(signal, features.dimension, "give as many as the features have")
        positions = Steered(features, signal.positions.count, grid=signal.positions.shape)
        return Signal(positions, 2 + features.dimension, deterministic=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Coordinates and channels of every pixel, (N, H · W, 2 + C)."""
        height, width = signal.positions.shape
        rows, columns = np.indices((height, width))
        points = np.stack([columns - (width - 1) / 2, (height - 1) / 2 - rows], axis=-1).reshape(-1, 2)
        shared = jnp.broadcast_to(jnp.asarray(points, x.dtype), (len(x), len(points), 2))
        return jnp.concatenate([shared, x.reshape((len(x), len(points), -1))], axis=-1)


def steered(signal: Signal) -> Steered:
    """The steerable positions of a signal; NetworkError if it has none."""
    if not isinstance(signal.positions, Steered):
        raise NetworkError(
            "it reads steerable features; begin the network with PointCloud, PlaneImage, SphereSignal or FeatureVector"
        )
    return signal.positions


def with_features(signal: Signal, features: Features, *, gaussian: bool) -> Signal:
    """A signal on the same points with other features."""
    here = steered(signal)
    positions = replace(here, features=features, deterministic=here.deterministic and not gaussian)
    channels = positions.coordinates + features.dimension
    return replace(signal, positions=positions, channels=channels, gaussian=gaussian, deterministic=False)


def parted(x: jax.Array, signal: Signal) -> tuple[jax.Array, dict[SteerableIrrep, Any]]:
    """(coordinates, {irrep: features (..., copies, d)}) of x, (..., channels)."""
    positions = steered(signal)
    n = positions.coordinates
    return x[..., :n], positions.features.split(x[..., n:])


def joined(points: jax.Array, features: Features, values: dict[SteerableIrrep, jax.Array]) -> jax.Array:
    """Channels (..., channels) from coordinates and {irrep: values (..., copies, d)}."""
    parts = [values[kind].reshape((*points.shape[:-1], -1)) for kind in features.irreps]
    return jnp.concatenate([points, *parts], axis=-1)
