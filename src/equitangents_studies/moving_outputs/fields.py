"""Fields that move with their inputs: masks of images, and how velocities of flows change.

Masks turn with images of cells; velocities turn with the grid. Kernels on pairs of positions are those of a CNN that
ends on positions, with nothing, C4, C2, or a wrong group built in: images of inverted contrast have the same mask, and
vectors stay as they are where the grid turns.

Flows are exact solutions of the Navier–Stokes equations on a torus. Let v = ∇⊥ψ, ψ a sum of waves that all have the
length |k|² = q. Then (v·∇)v is a gradient, and u(x, t) = U + e^{−νqt} v(x − Ut) solves
∂u/∂t + (u·∇)u = −∇p + νΔu, ∇·u = 0 (Taylor 1923, in a moving frame).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from equitangents import actions, groups, nn
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.data.labelled_images import MaskedImages
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check, presets
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    STD,
    WRONG,
    CommonSettings,
    PairKernel,
    Problem,
    Score,
    Sets,
    Symmetry,
    check_common,
    moved_kernels,
    squared,
)


@dataclass(frozen=True)
class MaskSettings(CommonSettings):
    """`data`: "cells", which are generated, or a folder with images/ and masks/, of `pixels` × `pixels`; networks of
    `channels` channels.
    """

    data: str = "cells"
    pixels: int = 12
    channels: int = 8


@dataclass(frozen=True)
class FlowSettings(CommonSettings):
    """Flows on a grid of `pixels` × `pixels` points, waves with |k|² = `waves`, streams up to `stream`, in a `time`;
    networks of `channels` channels.
    """

    pixels: int = 8
    waves: int = 5
    time: float = 0.4
    stream: float = 1.5
    channels: int = 8
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    draws: int = 6
    ridge: float = 1e-4


MASKS = presets(
    MaskSettings(),
    desk="pixels=16 sizes=2,4,8,16,32 test=24 hidden_layers=3 few=3 channels=16 trained=8 steps=1,10,100,300",
    paper="pixels=24 sizes=4,8,16,32,64 test=50 draws=24 hidden_layers=4 few=4 channels=64 trained=16 members=100 "
    "steps=1,10,100,1000",
)
FLOWS = presets(
    FlowSettings(),
    desk="pixels=12 sizes=1,2,4,8,16,32 test=24 draws=20 hidden_layers=3 few=3 channels=16 trained=8 members=192 "
    "steps=1,10,100,300",
    paper="pixels=16 sizes=1,2,4,8,16,32,64 test=50 draws=20 hidden_layers=4 few=4 channels=64 trained=16 "
    "members=100 steps=1,10,100,1000",
)


def check_masks(s: MaskSettings, data_dir: Path | None) -> None:
    """Images enough."""
    at_least(s, pixels=4)
    check_common(s, math.inf if s.data == CELLS else len(_own(s.data, s.pixels)))


def check_flows(s: FlowSettings, data_dir: Path | None) -> None:
    """Waves that exist and that the grid resolves."""
    at_least(s, pixels=4, waves=1, stream=0)
    check(len(waves(s.waves)) > 0, "waves", s.waves, "a sum of two squares: 1, 2, 4, 5, 8, 9, 10, …")
    check(4 * s.waves < s.pixels**2, "waves", s.waves, f"below {s.pixels**2 / 4:g}, which the grid resolves")
    check(s.time > 0, "time", s.time, "positive")
    check_common(s)


def ends_on_positions(s: MaskSettings | FlowSettings, outputs: int) -> nn.Sequential:
    """A CNN of 3×3 windows, ReLU, and `outputs` numbers at every position; turns carry its windows to windows."""
    hidden = networks.hidden(s.hidden_layers, lambda: nn.Conv(s.channels, (3, 3), padding="circular", **STD))
    return nn.Sequential(*hidden, nn.Dense(outputs, **STD))


def field_kernel(net: nn.Sequential) -> PairKernel:
    """The NTK of a network that ends on positions."""
    return lambda a, b: np.asarray(net.kernel_field(a, b).ntk)


CELLS = "cells"
_LENGTHS = (1.2, 0.3)  # over which the texture is alike, along and across its stripes, in pixels
_GROUND, _BRIGHT, _NOISE = 0.6, 2.0, 0.2
_RADII = (0.16, 0.32)  # of cells, in sides of the image
_MEMBRANE = 0.35  # share of a cell's area inside its membrane


def scenes(
    count: int, pixels: int, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "n pixels pixels 1"], Float[np.ndarray, "n pixels pixels 1"]]:
    """(images, masks of 0 and 1) of `count` scenes of cells; the same for the same seed."""
    rng = np.random.default_rng(seed)
    masks, bright = (np.stack(part) for part in zip(*(_cells(pixels, rng) for _ in range(count)), strict=True))
    x = _GROUND * _stripes(count, pixels, rng) + _BRIGHT * bright + _NOISE * rng.standard_normal(masks.shape)
    turns = rng.integers(4, size=count)
    turned = lambda z: np.stack([np.rot90(image, k) for image, k in zip(z, turns, strict=True)])[..., None]
    return turned(x), turned(masks.astype(np.float64))


def _stripes(count: int, pixels: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise smoothed more along rows of pixels than across, of mean 0 and standard deviation 1."""
    k = np.fft.fftfreq(pixels)
    along, across = _LENGTHS
    kept = np.exp(-2 * np.pi**2 * ((across * k[:, None]) ** 2 + (along * k[None]) ** 2))
    noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((count, pixels, pixels))) * kept).real
    found: np.ndarray = noise * pixels / np.sqrt((kept**2).sum())
    return found


def _cells(pixels: int, rng: np.random.Generator) -> tuple[Bool[np.ndarray, "p p"], Bool[np.ndarray, "p p"]]:
    """(cells, their membranes): one or two ellipses at random places, continued across the borders."""
    mask, membrane = (np.zeros((pixels, pixels), bool) for _ in range(2))
    at = np.indices((pixels, pixels))
    for _ in range(rng.integers(1, 3)):
        centre, radii, angle = rng.uniform(0, pixels, 2), pixels * rng.uniform(*_RADII, 2), rng.uniform(0, np.pi)
        apart = (at - centre[:, None, None] + pixels / 2) % pixels - pixels / 2
        along = np.cos(angle) * apart[0] + np.sin(angle) * apart[1]
        across = np.cos(angle) * apart[1] - np.sin(angle) * apart[0]
        distance = (along / radii[0]) ** 2 + (across / radii[1]) ** 2
        mask |= distance < 1
        membrane |= (distance < 1) & (distance > _MEMBRANE)
    return mask, membrane


@lru_cache(maxsize=1)
def _own(path: str, pixels: int) -> MaskedImages:
    return data.load_mask_folder(path, pixels)


def draw_masks(settings: MaskSettings, k: int) -> Sets:
    """Training and test images of a draw with targets 2·mask − 1, float64; every image standardised by itself."""
    s, count = settings, settings.sizes[-1] + settings.test
    if s.data != CELLS:
        source, rng = _own(s.data, s.pixels), np.random.default_rng((s.seed, k))
        rows, turns = rng.permutation(len(source))[:count], rng.integers(4, size=count)
        turned = lambda z: np.stack([np.rot90(z[i], g) for i, g in zip(rows, turns, strict=True)])
        x, masks = turned(source.images), turned(source.masks)
    else:
        x, masks = scenes(count, s.pixels, (s.seed, k))
    x, y = standardise(x).astype(np.float64), 2 * masks.astype(np.float64) - 1
    n = s.sizes[-1]
    return x[:n], y[:n], x[n:], y[n:]


def dice(predicted: np.ndarray, target: np.ndarray) -> float:
    """2|A ∩ B| / (|A| + |B|) of all predicted and true foreground pixels; 1 if both are empty."""
    a, b = predicted > 0, target > 0
    total = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / total if total else 1.0


def mask_symmetries(channels: int = 1) -> dict[str, Symmetry]:
    """Nothing, C4, its half turns, and inverted contrast of images in so many channels."""
    turns = actions.image_rotations(4)
    sign = actions.channels(groups.cyclic(2), np.stack([np.eye(channels), -np.eye(channels)]))
    same = actions.trivial(groups.cyclic(2))
    return {
        PLAIN: Symmetry("nothing built in", turns),
        RIGHT: Symmetry("C4", turns, turns),
        "subgroup": Symmetry("C2", turns, turns, (0, 2)),
        WRONG: Symmetry("inverted contrast", sign, same),
    }


def masks(s: MaskSettings) -> Problem:
    """Masks of images, ±1 at every pixel."""
    channels = draw_masks(s, 0)[0].shape[-1]
    net = ends_on_positions(s, outputs=1)
    return Problem(
        settings=s,
        sizes=s.sizes,
        ridge=s.ridge,
        net=net,
        name="masks",
        kernel=field_kernel(net),
        symmetries=mask_symmetries(channels),
        positions=(s.pixels, s.pixels),
        draw=partial(draw_masks, s),
        foreign=data.gaussian_noise(s.few, (s.pixels, s.pixels, channels), seed=s.seed).astype(np.float64),
        scores={"squared": Score(squared), "dice": Score(dice, 1)},
    )


_SMALL = 4  # pixels of images on which group convolutions are computed


def mask_checks(s: MaskSettings, folder: RunFolder) -> dict[str, float]:
    """How far the kernels, "NNGP" and "NTK", are from moving with the images, and "convolutions" from the NTK."""
    found = folder.stage("convolutions", "Group convolutions", partial(_convolutions, s))
    moved = folder.stage("covariance", "Kernels of moved images", partial(_covariance, s))
    return {**dict(zip(("NNGP", "NTK"), moved["differences"], strict=True)), "convolutions": float(found["difference"])}


def _covariance(s: MaskSettings, task: Task) -> Arrays:
    """`unmoved` of the NNGP and the NTK of a few images and as much noise."""
    net, action = ends_on_positions(s, outputs=1), mask_symmetries()[RIGHT].inputs
    x, _, _, _ = draw_masks(s, 0)
    few = x[: s.few]
    off = data.gaussian_noise(s.few, x.shape[1:], seed=s.seed).astype(np.float64)
    found = []
    for done, kind in enumerate(("nngp", "ntk"), 1):
        kernel = lambda a, b, kind=kind: np.asarray(getattr(net.kernel_field(a, b), kind))
        found.append(unmoved(kernel, action, np.concatenate([few, off])))
        task.step(done, 2)
    return {"differences": np.array(found)}


def unmoved(kernel: PairKernel, action: actions.Action, x: np.ndarray) -> float:
    """max |Θ(ρ(g)x, ρ(g)x′) − ρ(g) Θ(x, x′) ρ(g)ᵀ| over all g and pairs of positions, relative to max |Θ|.

    `x` is (N, H, W, C); ρ(g) moves positions (H, W), on which the kernel (N, HW, N, HW) lies.
    """
    n, positions = len(x), x.shape[1:3]
    still = kernel(x, x)
    move = lambda g, fields: np.asarray(action(g, fields.reshape(-1, *positions, 1))).reshape(fields.shape)
    worst = []
    for g in action.group.elements:
        copies = np.asarray(action(g, x))
        rows = move(g, still)  # the last axis, then the second
        both = move(g, np.ascontiguousarray(rows.transpose(0, 3, 2, 1))).transpose(0, 3, 2, 1)
        worst.append(np.abs(kernel(copies, copies) - both).max())
    assert still.shape == (n, math.prod(positions)) * 2
    return float(np.max(worst) / np.abs(still).max())


def _convolutions(s: MaskSettings, task: Task) -> Arrays:
    """p4 convolutions averaged over orientations at each pixel, against the moved mean of the CNN's kernel."""
    p4 = groups.wallpaper(4, False, (_SMALL, _SMALL))
    layers = networks.hidden(s.hidden_layers - 1, lambda: nn.GroupConv(s.channels, (3, 3), **STD))
    net = nn.Sequential(nn.Lift(p4, s.channels, (3, 3), **STD), nn.Relu(), *layers, nn.Dense(1, **STD))
    x = np.random.default_rng(s.seed).standard_normal((2, _SMALL, _SMALL, 1))
    field = np.asarray(net.kernel_field(x).ntk)
    count = _SMALL**2
    place = np.array([np.ravel_multi_index(p4.element(g)[2], (_SMALL, _SMALL)) for g in p4.elements])
    average = np.zeros((count, p4.order))
    average[place, np.arange(p4.order)] = 1 / 4
    pooled = np.einsum("pg,ngmh,qh->npmq", average, field, average).reshape(2 * count, 2 * count)
    plain = field_kernel(ends_on_positions(s, outputs=1))
    moved = moved_kernels(plain, {"": mask_symmetries()[RIGHT]}, x, x, (_SMALL, _SMALL))[""]
    task.step(1, 1)
    return {"difference": np.array(largest_difference(pooled, moved))}


VISCOSITY = 0.3


class Flows(NamedTuple):
    """Velocities (N, H, W, 2), components along rows and columns: `before`, and `after` the time asked for."""

    before: Float[np.ndarray, "n height width 2"]
    after: Float[np.ndarray, "n height width 2"]


def waves(q: int) -> Float[np.ndarray, "waves 2"]:
    """The wave vectors with |k|² = q, one of each pair ±k.

    >>> waves(5).astype(int).tolist()
    [[1, -2], [1, 2], [2, -1], [2, 1]]
    """
    most = int(q**0.5)
    every = [(a, b) for a in range(most + 1) for b in range(-most, most + 1) if a * a + b * b == q]
    return np.array([k for k in every if k[0] > 0 or k[1] > 0], float).reshape(-1, 2)


def flows(count: int, pixels: int, q: int, time: float, stream: float, seed: tuple[int, ...]) -> Flows:
    """`count` flows on a torus of side 2π, on a grid of `pixels` × `pixels`.

    Amplitudes of waves are Gaussian, so that a vortex turns at about unit speed; streams are uniform over the disc of
    radius `stream`.
    """
    rng = np.random.default_rng(seed)
    k = waves(q)
    amplitudes = rng.standard_normal((count, len(k))) / np.sqrt(len(k) / 2)
    phases = rng.uniform(0, 2 * np.pi, (count, len(k)))
    angle, speed = rng.uniform(0, 2 * np.pi, count), stream * np.sqrt(rng.uniform(0, 1, count))
    U = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return Flows(velocity(U, k, amplitudes, phases, pixels, 0.0), velocity(U, k, amplitudes, phases, pixels, time))


def velocity(
    U: Float[np.ndarray, "n 2"],
    k: Float[np.ndarray, "waves 2"],
    amplitudes: Float[np.ndarray, "n waves"],
    phases: Float[np.ndarray, "n waves"],
    pixels: int,
    time: float,
) -> Float[np.ndarray, "n pixels pixels 2"]:
    """u(x, time) on the grid, for streams U and waves k."""
    x = np.indices((pixels, pixels)) * 2 * np.pi / pixels
    angle = np.einsum("wa,aij->wij", k, x)[None] + (phases - time * U @ k.T)[:, :, None, None]
    q = float((k[0] ** 2).sum())
    across = np.stack([k[:, 1], -k[:, 0]], axis=-1) / np.sqrt(q)  # perpendicular to k: free of divergence
    v = np.einsum("nwij,wa->nija", amplitudes[:, :, None, None] * np.cos(angle), across)
    found: np.ndarray = U[:, None, None] + np.exp(-VISCOSITY * q * time) * v
    return found


def turning_fields() -> actions.Action:
    """C4 on fields of vectors (N, H, W, 2), components along rows and columns: both grid and vectors turn."""
    turns = actions.image_rotations(4)
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])  # a step down the rows becomes one along the columns
    return actions.tensor_product(
        turns, actions.channels(turns.group, np.stack([np.linalg.matrix_power(quarter, k) for k in range(4)]))
    )


def flow_symmetries() -> dict[str, Symmetry]:
    """Nothing, C4, its half turns, and C4 that turns the grid of targets but not their vectors."""
    fields, still = turning_fields(), actions.image_rotations(4)
    return {
        PLAIN: Symmetry("nothing built in", fields),
        RIGHT: Symmetry("C4", fields, fields, fibre=2),
        "subgroup": Symmetry("C2", fields, fields, (0, 2), fibre=2),
        WRONG: Symmetry("C4, vectors left as they are", fields, still),
    }


def draw_flows(settings: FlowSettings, k: int) -> Sets:
    """Velocities of a draw, and how they change in the time."""
    s, n = settings, settings.sizes[-1]
    found = flows(n + s.test, s.pixels, s.waves, s.time, s.stream, (s.seed, k))
    x, y = found.before, found.after - found.before
    return x[:n], y[:n], x[n:], y[n:]


def divergence(predicted: np.ndarray, target: np.ndarray) -> float:
    """Root mean square of the predicted change's divergence relative to that of its gradient, on the torus."""
    h, w = predicted.shape[1:3]
    k = [np.fft.fftfreq(n, 1 / n) * (np.abs(np.fft.fftfreq(n, 1 / n)) < n / 2) for n in (h, w)]
    spectrum = np.fft.fft2(predicted, axes=(1, 2))
    along = np.stack(np.meshgrid(*k, indexing="ij"), axis=-1)
    free = np.abs((along * spectrum).sum(axis=-1)) ** 2
    whole = (along**2).sum(axis=-1) * (np.abs(spectrum) ** 2).sum(axis=-1)
    return float(np.sqrt(free.sum() / whole.sum()))


def changes_of_flows(s: FlowSettings) -> Problem:
    """How velocities change in the time."""
    net, rng = ends_on_positions(s, outputs=2), np.random.default_rng((s.seed, 2**31))
    return Problem(
        settings=s,
        sizes=s.sizes,
        ridge=s.ridge,
        net=net,
        name="flows",
        kernel=field_kernel(net),
        symmetries=flow_symmetries(),
        positions=(s.pixels, s.pixels),
        draw=partial(draw_flows, s),
        foreign=rng.standard_normal((s.few, s.pixels, s.pixels, 2)),
        scores={"squared": Score(squared), "divergence": Score(divergence, 1)},
    )
