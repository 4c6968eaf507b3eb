"""Candidate networks: dense, convolutional, pooled and staged networks of several depths on images of several sizes,
and dense networks on simple features of images.

An average pool before the first weights reduces the image: its kernel needs no pairs of pixels, and it commutes with
the symmetries of the grid. Its sides are those nearest to 8, 16 and 32 that divide the image's own.

Simple features of images (`FeatureNetwork`), over the pixels p of an image (H, W, C), of each channel c:

    colours     mean, deviation and quantiles of x_c(p), and the covariances of two channels
    edges       mean, deviation and quantiles of |∇x_c|(p), of the image and of its means over blocks of w² pixels
    directions  (Σ_p w_i(p) |∇x|(p) max(0, cos(θ(p) − kπ/4))²)^½ for each cell i of a grid and k = 0, …, 7: of the mean
                channel, θ being the angle of ∇x, w_i a pyramid about the middle of the cell with Σ_p w_i(p) = 1
                (after the histograms of oriented gradients of Dalal & Triggs, CVPR 2005)

A quarter turn or a reflection of the image permutes p, and blocks with w dividing H and W; it rotates ∇x and keeps
|∇x|. So colours and edges are invariant under every symmetry of the grid, and directions are permuted: cells like
pixels, k → k ± 2 or −k. The kernel of a dense network depends on inner products only; on standardised features it is
invariant if features that are permuted share mean and standard deviation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.kernels import Kernels
from equitangents.kernels.cost import KernelCost
from equitangents.kernels.orbit import OrbitAverage
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Relu, Sequential
from equitangents.nn.layer import Layer
from equitangents.precision import working_dtype

_SIDES = (8, 16, 32)
_DEEP = (1, 2, 4)
_POOLED = (1, 2, 4, 8)
_ON_FEATURES, _CELLS = (1, 2), (4, 8)
_W_STD, _B_STD = math.sqrt(2), 0.1
_DENSE = Dense(1, W_std=_W_STD, b_std=_B_STD)
_ZEROS = Conv(1, (3, 3), padding="zero", W_std=_W_STD, b_std=_B_STD)
_CIRCULAR = Conv(1, (3, 3), padding="circular", W_std=_W_STD, b_std=_B_STD)
_COLOURS, _EDGES = (0.1, 0.25, 0.5, 0.75, 0.9), (0.5, 0.9)  # quantiles
_BLOCKS, _MIN_BLOCKS = (1, 2, 4, 8), 3  # sides of blocks; the fewest blocks along a side
_SIDE, _DIRECTIONS, _BASELINE_CELLS = 16, 8, 4  # side of the small copy, at most; directions, in cells along a side
_RIGHT = 1e-9  # cosine of a right angle, up to rounding
_TIMED, _CHUNK = 4, 64  # images whose features are timed, and computed at a time
_ROUNDINGS = 8.0  # of the largest pixel, by which a constant feature may differ between images


@dataclass(frozen=True)
class NetworkCandidate:
    """A network with its family, hidden layers and input pixels (H, W).

    family: "dense"; "convolutional" with a flattening readout; "pooled" over all positions at the readout; "staged",
    which also halves the grid between layers (after the Myrtle networks of Shankar et al. 2020, arXiv 2003.02237);
    "colours and edges", "directions" of edges, or both, dense on these. pixels: () for vectors and colours; for
    directions their cells.
    """

    family: str
    layers: int
    pixels: tuple[int, ...]
    net: Sequential | FeatureNetwork | OrbitAverage

    @property
    def name(self) -> str:
        """Such as "pooled, 2 layers, 16×16"."""
        size = f", {'×'.join(map(str, self.pixels))}" if self.pixels else ""
        return f"{self.family}, {self.layers} layer{'s' if self.layers > 1 else ''}{size}"


def candidates(input_shape: tuple[int, ...]) -> tuple[NetworkCandidate, ...]:
    """Candidates for inputs (channels,) or (H, W, channels).

    >>> [each.name for each in candidates((5,))]
    ['dense, 1 layer', 'dense, 2 layers', 'dense, 4 layers']
    >>> sorted({each.pixels for each in candidates((28, 28, 1))})
    [(7, 7), (14, 14), (28, 28)]
    """
    if len(input_shape) == 1:
        return tuple(NetworkCandidate("dense", depth, (), _dense(depth)) for depth in _DEEP)
    height, width = input_shape[:2]
    networks = list[NetworkCandidate]()
    for window in _windows(height, width):
        pixels = height // window, width // window
        kinds: list[tuple[str, int, list[Layer]]] = [("dense", 2, [Flatten(), *(_DENSE, Relu()) * 2])]
        kinds += [("convolutional", depth, [*(_ZEROS, Relu()) * depth, Flatten()]) for depth in (2, 4)]
        kinds += [("pooled", depth, [*(_CIRCULAR, Relu()) * depth, GlobalAvgPool()]) for depth in _POOLED]
        if not (pixels[0] % 4 or pixels[1] % 4):
            halved = [AvgPool(2), _CIRCULAR, Relu()]
            kinds.append(("staged", 4, [*(_CIRCULAR, Relu()) * 2, *halved, *halved, GlobalAvgPool()]))
        networks += [
            NetworkCandidate(family, depth, pixels, _network(layers, window)) for family, depth, layers in kinds
        ]
    return tuple(networks)


def of_features(x: Float[np.ndarray, "n height width channels"]) -> tuple[NetworkCandidate, ...]:
    """Dense networks on colours and edges, on directions of edges in 4×4 and 8×8 cells, and on both."""
    kinds = [("colours and edges", 0, True)]
    for cells in _CELLS:
        if min(x.shape[1:3]) >= 2 * cells:
            kinds += [("directions", cells, False), ("directions, colours and edges", cells, True)]
    nets = [FeatureNetwork.of(_dense(1), x, cells, colours) for _, cells, colours in kinds]
    return tuple(
        NetworkCandidate(family, depth, (cells, cells) if cells else (), replace(net, base=_dense(depth)))
        for (family, cells, _), net in zip(kinds, nets, strict=True)
        for depth in _ON_FEATURES
    )


def _windows(height: int, width: int) -> list[int]:
    """Sides of the blocks to average: the divisors of the image's sides that come nearest to each of `_SIDES`."""
    side, both = math.sqrt(height * width), math.gcd(height, width)
    divisors = [k for k in range(1, both + 1) if both % k == 0]
    return sorted({min(divisors, key=lambda k: abs(math.log(side / k / wanted))) for wanted in _SIDES}, reverse=True)


def _dense(depth: int) -> Sequential:
    return _network([Flatten(), *(_DENSE, Relu()) * depth])


def _network(layers: Sequence[Layer], window: int = 1) -> Sequential:
    """The layers on means over blocks of window² pixels, and a readout."""
    return Sequential(*([AvgPool(window)] if window > 1 else []), *layers, Dense(1))


def features_of(x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n features"]:
    """Vectors unchanged; for images (N, H, W, C) a small copy, colours, edges and their directions in 4×4 cells."""
    x = np.asarray(x, np.float64)
    if x.ndim == 2:
        return x
    small = block_means(x, -(-max(x.shape[1:3]) // _SIDE))
    return np.concatenate([small.reshape(len(x), -1), colours_and_edges(x), directions(x, _BASELINE_CELLS)], axis=1)


def _in_chunks(features: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Compute features in chunks of images, in bounded memory."""

    @wraps(features)
    def chunked(x: np.ndarray, *more: Any) -> np.ndarray:
        return np.concatenate([features(x[i : i + _CHUNK], *more) for i in range(0, max(1, len(x)), _CHUNK)])

    return chunked


@_in_chunks
def colours_and_edges(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n features"]:
    """Features "colours" and "edges" of the module's docstring, in float64."""
    n, height, width, channels = x.shape
    signals = np.ascontiguousarray(np.moveaxis(x, 3, 1), np.float64)
    flat = signals.reshape(n, channels, height * width)
    centred = flat - flat.mean(axis=2, keepdims=True)
    covariances = centred @ centred.transpose(0, 2, 1) / (height * width)
    features = [_statistics(flat, _COLOURS), covariances[:, *np.triu_indices(channels, 1)]]
    for side in _BLOCKS:
        if side > 1:
            if height % side or width % side or min(height, width) < _MIN_BLOCKS * side:
                break
            rows = signals[:, :, ::2] + signals[:, :, 1::2]
            signals = (rows[..., ::2] + rows[..., 1::2]) / 4
        down, across = _gradient(signals)
        strength = np.sqrt(down**2 + across**2)
        features.append(_statistics(strength.reshape(n, channels, height * width // side**2), _EDGES))
    return np.concatenate(features, axis=1)


def block_means(x: Float[np.ndarray, "n height width channels"], side: int) -> Float[np.ndarray, "n h w channels"]:
    """Means over blocks of side² pixels; an incomplete block at the border is left out."""
    n, height, width, channels = x.shape
    h, w = height // side, width // side
    blocks = x[:, : h * side, : w * side].reshape(n, h, side, w, side, channels)
    return np.asarray(blocks.mean(axis=(2, 4)))


def _statistics(x: Float[np.ndarray, "n channels pixels"], quantiles: Sequence[float]) -> Float[np.ndarray, "n f"]:
    """Mean, standard deviation and quantiles of each channel."""
    ordered, at = np.sort(x, axis=2), np.multiply(quantiles, x.shape[2] - 1)
    low = ordered[..., np.floor(at).astype(int)]
    between = low + at % 1 * (ordered[..., np.ceil(at).astype(int)] - low)
    parts = [ordered.mean(axis=2, keepdims=True), ordered.std(axis=2, keepdims=True), between]
    return np.concatenate(parts, axis=2).reshape(len(x), x.shape[1] * (2 + len(quantiles)))


def _gradient(x: Float[np.ndarray, "*n h w"]) -> list[Float[np.ndarray, "*n h w"]]:
    """Central differences down and across, one-sided at borders; 0 along a side of one pixel."""
    return [np.gradient(x, axis=axis) if x.shape[axis] > 1 else np.zeros_like(x) for axis in (-2, -1)]


@_in_chunks
def directions(x: Float[np.ndarray, "n height width channels"], cells: int) -> Float[np.ndarray, "n features"]:
    """Directions of edges in cells × cells cells, (N, cells²·8), in float64."""
    down, across = _gradient(np.asarray(x, np.float64).mean(axis=3))
    strength = np.hypot(down, across)
    least = np.maximum(_RIGHT * strength, np.finfo(float).tiny)
    rows, columns = (_pyramids(side, cells) for side in x.shape[1:3])
    responses = []
    for k in range(_DIRECTIONS):
        towards = 2 * np.pi * k / _DIRECTIONS
        along = np.cos(towards) * across + np.sin(towards) * down
        responses.append(rows @ (np.where(along > least, along, 0.0) ** 2 / np.maximum(strength, least)) @ columns.T)
    return np.sqrt(np.stack(responses, axis=3)).reshape(len(x), cells**2 * _DIRECTIONS)


def _pyramids(side: int, cells: int) -> Float[np.ndarray, "cells side"]:
    """Weights of pixels along a side for each cell, falling linearly to 0 at the centres of its neighbours."""
    middles = (np.arange(cells) + 0.5) * side / cells - 0.5
    weights = np.maximum(0.0, 1 - np.abs(np.arange(side) - middles[:, None]) * min(1.0, cells / side))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _shared(values: Float[np.ndarray, " features"], cells: int) -> Float[np.ndarray, " features"]:
    """Each feature averaged over those that symmetries of the grid permute it with."""
    permuted = values[: cells**2 * _DIRECTIONS].reshape(cells, cells, _DIRECTIONS)
    mirrored = permuted[:, ::-1, (_DIRECTIONS // 2 - np.arange(_DIRECTIONS)) % _DIRECTIONS]
    quarter = _DIRECTIONS // 4
    rotated = [np.roll(np.rot90(each, k), -quarter * k, axis=2) for each in (permuted, mirrored) for k in range(4)]
    return np.concatenate([np.mean(rotated, axis=0).ravel(), values[permuted.size :]])


@dataclass(frozen=True)
class FeatureNetwork:
    """The network `base` on standardised features (f − shift)/scale of an image.

    cells: cells along a side for directions of edges, 0 for none; colours: whether to include colours and edges.
    """

    base: Sequential
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    cells: int = 0
    colours: bool = True

    @classmethod
    def of(
        cls, base: Sequential, x: Float[np.ndarray, "n height width channels"], cells: int = 0, colours: bool = True
    ) -> FeatureNetwork:
        """Standardise by the features of x; those that are constant up to rounding of pixels are only shifted."""
        raw = cls(base, (0.0,), (1.0,), cells, colours)._features(x)
        shift = _shared(raw.mean(axis=0), cells)
        scale = np.sqrt(_shared(((raw - shift) ** 2).mean(axis=0), cells))
        largest = np.maximum(np.abs(x).max(), np.abs(raw).max(axis=0))
        constant = np.ptp(raw, axis=0) <= _ROUNDINGS * np.finfo(working_dtype(x)).eps * largest
        scale = np.where(_shared(constant * 1.0, cells) == 1, 1.0, scale)
        return cls(base, tuple(shift.tolist()), tuple(scale.tolist()), cells, colours)

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """NNGP and NTK of `base`, each (N1, N2), in the precision of x1 and x2."""
        dtype = working_dtype(x1, x2)
        second = None if x2 is None else self._features(x2).astype(dtype)
        return self.base.kernel(self._features(x1).astype(dtype), second)

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: DTypeLike = "float32"
    ) -> KernelCost:
        """Cost of `base`, plus the time of the features, measured on a few images."""
        some = np.random.default_rng(0).normal(size=(_TIMED, *input_shape)).astype(dtype)
        start = time.perf_counter()
        width = self._features(some).shape[1]
        each = (time.perf_counter() - start) / _TIMED
        cost = self.base.kernel_cost((width,), n1, n2, dtype)
        return replace(cost, seconds=cost.seconds + each * (n1 + (n2 or 0)))

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether every generator moves pixels by a symmetry of the grid and keeps channels.

        Then K(ρ(g)x, ρ(g)x') = K(x, x'), and without cells K(ρ(g)x, x') = K(x, x').
        """
        if not isinstance(action, Action) or len(input_shape) != 3:
            return False
        moves = [action.moves(g, input_shape) for g in action.group.generators]
        grid = np.arange(input_shape[0] * input_shape[1]).reshape(input_shape[:2])
        allowed = {each.tobytes() for each in symmetries(grid, (0, 1))}
        return all(m is not None and m[1] and np.asarray(m[0], grid.dtype).tobytes() in allowed for m in moves)

    def _features(self, x: ArrayLike) -> Float[np.ndarray, "n features"]:
        x = np.asarray(x)
        parts = [directions(x, self.cells)] if self.cells else []
        parts += [colours_and_edges(x)] if self.colours else []
        standardised: np.ndarray = (np.concatenate(parts, axis=1) - self.shift) / self.scale
        return standardised


def symmetries(x: np.ndarray, axes: tuple[int, int]) -> Iterator[np.ndarray]:
    """Quarter turns along two axes and their mirror images; half turns if the sides differ."""
    rotated = (np.rot90(each, k, axes) for each in (x, np.flip(x, axes[1])) for k in range(4))
    return (each for each in rotated if each.shape == x.shape)
