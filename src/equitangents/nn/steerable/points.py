"""Input layers of steerable networks: point clouds, and images of the plane as points at their pixels."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, Params
from equitangents.errors import NetworkError
from equitangents.groups import SymmetryGroup
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.input_layer import InputLayer
from equitangents.steerable import Features
from equitangents.steerable.irrep import SPACES, group_name, trivial
from equitangents.steerable.positions import OnPoints


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", group_name(self.group))
        if self.features is not None:
            object.__setattr__(self, "features", Features(self.features, self.group))

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

    def mask_after(self, mask: ArrayLike | None, signal: Signal) -> ArrayLike | None:
        """The mask that comes in: no point comes or goes."""
        return mask


@dataclass(frozen=True)
class PlaneImage(InputLayer):
    """Reads images (N, H, W, C) as points at their pixels, at distance 1 and around the image's centre.

    `group` is "SO(2)" or "O(2)"; `features` say how the channels turn, C numbers unless given. x points along columns
    to the right and y upwards, so that `numpy.rot90` turns the points by 90°. Turns that map the grid to itself are
    exact symmetries; others hold as far as a sum over pixels approximates an integral. The first layer of a network.
    """

    group: SymmetryGroup | str
    features: Features | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", group_name(self.group))
        if SPACES[self.group_name] != 2:
            raise NetworkError("group", self.group, ["SO(2)", "O(2)"])
        if self.features is not None:
            object.__setattr__(self, "features", Features(self.features, self.group))

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
