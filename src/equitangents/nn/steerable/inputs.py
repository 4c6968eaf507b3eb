"""Input layers of steerable networks: point clouds, images, global features, signals on the sphere; their signals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.groups import SymmetryGroup
from equitangents.kernels.program import Op
from equitangents.nn.layer import Grid, ParameterFree, Signal
from equitangents.steerable import Features
from equitangents.steerable.features import MAX_DEGREE, SPACES, Irrep, OnPoints, OnWhole, group_name, trivial


class InputLayer(ParameterFree):
    """Input layer: the representation of the input's channels under the group named `group`."""

    steers: ClassVar[bool] = True
    spaces: ClassVar[tuple[int, ...]] = (2, 3)
    """Dimensions of the spaces whose groups it reads."""
    on_points: ClassVar[bool] = True
    """Whether features are on points, not of a whole input."""
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

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """No operations, since a layer without weights only changes the inputs of the kernel."""
        return ()


@dataclass(frozen=True)
class FeatureVector(InputLayer):
    """Reads features of a whole input, (N, channels), without points.

    Args:
        group: "SO(2)", "O(2)", "SO(3)" or "O(3)", by name or as a group.
        features: How the channels turn, such as "2x0+1x1".

    SteerableDense and nonlinearities follow. The first layer of a network.

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.FeatureVector("SO(3)", "2x0+1x1"), nn.SteerableDense("1x1"))
    >>> net.output_shape((5,))
    (3,)
    """

    on_points: ClassVar[bool] = False
    group: SymmetryGroup | str
    features: Features | str

    def signal(self, signal: Signal) -> Signal:
        """The features of the whole input."""
        if not (signal.given and signal.positions == Grid(())):
            raise NetworkError("FeatureVector reads vectors (N, channels), and is the first layer of a network")
        features = Features(self.features, self.group)
        if signal.channels != features.dimension:
            raise NetworkError(
                "signal", signal.channels, features.dimension, "give as many as the features have", verb="has channels,"
            )
        return Signal(OnWhole(features), signal.channels, given=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The features as they came."""
        return x


@dataclass(frozen=True)
class SphereSignal(InputLayer):
    """Reads signals on the sphere by their harmonic coefficients, (N, B², C), at the index l² + l + m.

    Degree l of the C channels becomes C copies of the irrep l, for l below B. SteerableDense is then a convolution with
    zonal filters, with one weight for every degree and two channels, and FourierNonlinearity a function of the signal's
    values. Coefficients are as for `SphereLift`, real and orthonormal over the sphere; features are those divided by
    √(4π), so that their squares add up to the signal's mean square. The first layer of a network.

    Args:
        group: "SO(3)", or "O(3)", where signals are numbers at points: l is even or odd as (-1)^l.

    >>> from equitangents import nn
    >>> net = nn.Sequential(
    ...     nn.SphereSignal("SO(3)"), nn.SteerableDense("8x0+8x1"), nn.FourierNonlinearity(), nn.SteerableDense("1x1")
    ... )
    >>> net.output_shape((4, 2))
    (3,)
    """

    spaces: ClassVar[tuple[int, ...]] = (3,)
    on_points: ClassVar[bool] = False
    group: SymmetryGroup | str = "SO(3)"

    def signal(self, signal: Signal) -> Signal:
        """One copy of every degree for each channel of the input."""
        if not signal.given or signal.axes != 1:
            raise NetworkError(
                "SphereSignal reads harmonic coefficients (N, B², C), and is the first layer of a network"
            )
        count = signal.positions.count
        bandlimit = math.isqrt(count)
        if bandlimit**2 != count:
            raise NetworkError("signal", count, "B² coefficients, a square number", verb="has length")
        if bandlimit > MAX_DEGREE + 1:
            raise NetworkError(
                "signal",
                bandlimit,
                range(1, MAX_DEGREE + 2),
                "give fewer coefficients, or begin with SphereLift",
                verb="has bandlimit",
            )
        features = signals_on_directions(self.group_name, signal.channels, bandlimit)
        return Signal(OnWhole(features), features.dimension, given=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Features (N, C · B²), degree by degree and channel by channel."""
        count, size = signal.channels, math.isqrt(x.shape[1])
        parts = [jnp.swapaxes(x[:, l * l : (l + 1) ** 2], 1, 2).reshape(-1, count * (2 * l + 1)) for l in range(size)]
        return jnp.concatenate(parts, axis=-1) / math.sqrt(4 * math.pi)


def signals_on_directions(group: str, copies: int, bandlimit: int) -> Features:
    """Features of signals on the circle or sphere: copies of every degree below the bandlimit, even or odd for O(3)."""
    kinds = (Irrep(group, l, (-1) ** l if group == "O(3)" else 1) for l in range(bandlimit))
    return Features.of(group, tuple((copies, kind) for kind in kinds))


@dataclass(frozen=True)
class PointCloud(InputLayer):
    """Reads points with features, (N, P, n + channels): n coordinates, 2 in the plane and 3 in space, then channels.

    Args:
        group: "SO(2)" or "O(2)" in the plane, "SO(3)" or "O(3)" in space, by name or as a group.
        features: How the channels turn, such as "2x0+1x1"; None: there are none, and each point has the number 1.

    What the network makes of a cloud depends on differences of coordinates alone. Clouds of several sizes go into one
    array as `Masked`. The first layer of a network.

    >>> from equitangents import nn
    >>> nn.PointCloud("SO(3)", "2x0+1x1").features.dimension
    5
    """

    group: SymmetryGroup | str
    features: Features | str | None = None

    def signal(self, signal: Signal) -> Signal:
        """The points, with their features."""
        n, features = SPACES[self.group_name], None if self.features is None else Features(self.features, self.group)
        channels = n + (0 if features is None else features.dimension)
        if not signal.given or signal.axes != 1:
            raise NetworkError("PointCloud reads points (N, P, channels), and is the first layer of a network")
        if signal.channels != channels:
            raise NetworkError(
                "signal", signal.channels, channels, "give coordinates, then features", verb="has channels,"
            )
        found = features or Features(str(trivial(self.group_name)), self.group)
        return Signal(OnPoints(found, signal.positions.count), n + found.dimension, given=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The points as they came, with a 1 where there are no features."""
        return x if self.features is not None else jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


@dataclass(frozen=True)
class PlaneImage(InputLayer):
    """Reads images (N, H, W, C) as points at their pixels, at distance 1 and around the image's centre.

    `group` is "SO(2)" or "O(2)"; `features` say how the channels turn, C numbers unless given. x points along columns
    to the right and y upwards, so that `numpy.rot90` turns the points by 90°. Turns that map the grid to itself are
    exact symmetries; others hold as far as a sum over pixels approximates an integral. The first layer of a network.
    """

    spaces: ClassVar[tuple[int, ...]] = (2,)
    group: SymmetryGroup | str
    features: Features | str | None = None

    def signal(self, signal: Signal) -> Signal:
        """One point a pixel."""
        if not signal.given or signal.axes != 2:
            raise NetworkError("PlaneImage reads images (N, H, W, C), and is the first layer of a network")
        found = Features(self.features or f"{signal.channels}x{trivial(self.group_name)}", self.group)
        if found.dimension != signal.channels:
            raise NetworkError(
                "signal", signal.channels, found.dimension, "give as many as the features have", verb="has channels,"
            )
        positions = OnPoints(found, signal.positions.count, grid=signal.positions.shape)
        return Signal(positions, 2 + found.dimension, given=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Coordinates and channels of every pixel, (N, H · W, 2 + C)."""
        height, width = signal.positions.shape
        rows, columns = np.indices((height, width))
        points = np.stack([columns - (width - 1) / 2, (height - 1) / 2 - rows], axis=-1).reshape(-1, 2)
        spread = jnp.broadcast_to(jnp.asarray(points, x.dtype), (len(x), len(points), 2))
        return jnp.concatenate([spread, x.reshape((len(x), len(points), -1))], axis=-1)


def steerable(signal: Signal) -> OnPoints | OnWhole:
    """The positions of a signal of steerable features; NetworkError for others."""
    if not signal.positions.steerable:
        raise NetworkError(
            "it reads steerable features; begin the network with PointCloud, PlaneImage, SphereSignal or FeatureVector"
        )
    return signal.positions


def with_features(signal: Signal, features: Features, *, gaussian: bool) -> Signal:
    """A signal on the same points with other features."""
    here = steerable(signal)
    positions = replace(here, features=features, given=here.given and not gaussian)
    return replace(
        signal,
        positions=positions,
        channels=positions.coordinates + features.dimension,
        gaussian=gaussian,
        given=False,
    )


def gaussian_features(signal: Signal) -> Features:
    """The features before a nonlinearity; NetworkError unless a linear layer made them."""
    features = steerable(signal).features
    if not signal.gaussian:
        raise NetworkError("a nonlinearity needs a linear layer before it, SteerableConv or SteerableDense")
    return features


def parted(x: jax.Array, signal: Signal) -> tuple[jax.Array, jax.Array]:
    """(coordinates, features) of x, (..., channels)."""
    n = steerable(signal).coordinates
    return x[..., :n], x[..., n:]


def joined(points: jax.Array, features: Features, values: dict[Irrep, jax.Array]) -> jax.Array:
    """Channels of coordinates and of values (..., copies, d) by irrep."""
    parts = [values[kind].reshape((*points.shape[:-1], -1)) for kind in features.irreps]
    return jnp.concatenate([points, *parts], axis=-1)


def summed(values: Sequence[jax.Array], signal: Signal) -> jax.Array:
    """The sum of the branches' features; the points' coordinates, which lead the channels, are kept from the first."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    n = signal.positions.coordinates if signal.positions.steerable else 0
    return jnp.concatenate([values[0][..., :n], total[..., n:]], axis=-1) if n else total


def shape_of(signal: Signal) -> str:
    """Name of a branch's output in messages: its features, or its shape."""
    return str(signal.positions if signal.positions.steerable else signal.array_shape)


def check_passed_on(signal: Signal) -> None:
    """Raise NetworkError for given steerable features that a branch without weights hands on to a sum."""
    if signal.positions.steerable and signal.positions.given:
        raise NetworkError(
            "signal",
            signal.positions,
            remedy="a sum with the input has no infinitely wide limit: put SteerableConv or SteerableDense first",
        )


def check_summands(parts: Sequence[Signal]) -> None:
    """Raise NetworkError where more than one summand of steerable features ends in a nonlinearity.

    Nonlinearities may have means, and those of two branches would add their products to the kernel.
    """
    if parts[0].positions.steerable and sum(not part.gaussian for part in parts) > 1:
        raise NetworkError(
            "two summands of steerable features end in a nonlinearity, whose means may add to the kernel; end "
            "all branches but one with SteerableConv or SteerableDense"
        )
