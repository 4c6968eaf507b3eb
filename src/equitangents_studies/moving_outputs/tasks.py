"""Tasks whose outputs move with their inputs: masks of images, changes of flows, the element that moved a template.

Masks rotate with images of cells, velocities with the grid; kernels on pairs of positions are those of a CNN that ends
on positions. MLPs learn which element of C_n rotated an image on rings.

Flows are exact solutions of the Navier–Stokes equations on a torus. Let v = ∇⊥ψ, ψ a sum of waves that all have the
length |k|² = q. Then (v·∇)v is a gradient, and u(x, t) = U + e^{−νqt} v(x − Ut) solves
∂u/∂t + (u·∇)u = −∇p + νΔu, ∇·u = 0 (Taylor 1923, in a moving frame).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents import actions, groups, nn
from equitangents.extending import FiniteNetwork
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.common.orbits import moved_each
from equitangents_studies.framework.study import at_least, check, presets
from equitangents_studies.moving_outputs.kernels import PairKernel, Symmetry


@dataclass(frozen=True)
class MovingSettings:
    """Each of `draws` draws has training sets of `sizes` inputs and `test` test inputs; the `ridge` is relative to the
    kernel's mean diagonal. `few` inputs in all orientations train the kernels to the times `units`. `members` networks
    of `channels` channels or `width` neurons are trained on `trained` inputs and recorded after `steps`.

    Masks and flows are on `pixels` × `pixels` points; flows have waves with |k|² = `waves`, streams up to `stream`, and
    change in a `time`. Of rotations, C_`order` acts on `rings` × `angles` samples of images of `data`.
    """

    task: Literal["masks", "flows", "rotations"] = "masks"
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    test: int = 12
    draws: int = 12
    hidden_layers: int = 2
    ridge: float = 1e-2
    few: int = 2
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    members: int = 64
    trained: int = 4
    steps: tuple[int, ...] = (1, 10, 100)
    seed: int = 0
    pixels: int = 12
    channels: int = 8
    waves: int = 5
    time: float = 0.4
    stream: float = 1.5
    data: str = "digits"
    order: int = 8
    rings: int = 4
    angles: int = 16
    width: int = 64


PRESETS = presets(
    MovingSettings(),
    desk="pixels=16 sizes=2,4,8,16,32 test=24 hidden_layers=3 few=3 channels=16 trained=8 steps=1,10,100,300",
    paper="pixels=24 sizes=4,8,16,32,64 test=50 draws=24 hidden_layers=4 few=4 channels=64 trained=16 members=100 "
    "steps=1,10,100,1000",
    flows_quick="task=flows pixels=8 sizes=1,2,4,8,16 draws=6 ridge=1e-4",
    flows_desk="flows-quick pixels=12 sizes=1,2,4,8,16,32 test=24 draws=20 hidden_layers=3 few=3 channels=16 trained=8 "
    "members=192 steps=1,10,100,300",
    flows_paper="flows-quick pixels=16 sizes=1,2,4,8,16,32,64 test=50 draws=20 hidden_layers=4 few=4 channels=64 "
    "trained=16 members=100 steps=1,10,100,1000",
    rotations_quick="task=rotations sizes=4,8,16,32,64,128 test=50 draws=8 ridge=1e-3 few=3 trained=16",
    rotations_desk="rotations-quick order=16 angles=32 sizes=4,8,16,32,64,128,256 test=100 draws=12 width=128 "
    "steps=1,10,100,1000",
    rotations_paper="rotations-quick data=mnist order=32 rings=8 angles=64 sizes=4,8,16,32,64,128,256,512 "
    "test=500 draws=20 hidden_layers=3 members=100 width=512 steps=1,10,100,1000",
)


def check_settings(s: MovingSettings, data_dir: Path | None) -> None:
    """Require growing sizes, enough images and networks, waves that the grid resolves, and exact rotations."""
    least = {"test": 1, "draws": 2, "hidden_layers": 1, "few": 1, "members": 5, "stream": 0}
    at_least(s, **least, pixels=4, waves=1, order=2, rings=1)
    check(list(s.sizes) == sorted(set(s.sizes)) and len(s.sizes) >= 2, "sizes", s.sizes, "two or more, increasing")
    check(min(s.sizes) >= 1, "sizes", s.sizes, "at least 1 each")
    check(s.few <= min(s.test, s.sizes[-1]), "few", s.few, f"at most {min(s.test, s.sizes[-1])}, inputs of a draw")
    for name in ("ridge", "time"):
        check(getattr(s, name) > 0, name, getattr(s, name), "positive")
    check(1 <= s.trained <= s.sizes[-1], "trained", s.trained, f"between 1 and {s.sizes[-1]}, the largest training set")
    increasing = list(s.steps) == sorted(set(s.steps)) and len(s.steps) >= 1 and min(s.steps) >= 0
    check(increasing, "steps", s.steps, "one or more, increasing from 0 or more")
    check(len(s.units) >= 1 and min(s.units) > 0, "units", s.units, "positive times")
    if s.task == "flows":
        check(len(waves(s.waves)) > 0, "waves", s.waves, "a sum of two squares: 1, 2, 4, 5, 8, 9, 10, …")
        check(4 * s.waves < s.pixels**2, "waves", s.waves, f"below {s.pixels**2 / 4:g}, which the grid resolves")
    if s.task == "rotations":
        check(s.order % 2 == 0, "order", s.order, "even, so that every second rotation is in a subgroup")
        check(s.angles % s.order == 0, "angles", s.angles, f"a multiple of the order, {s.order}")
        check(s.data in data.names(), "data", s.data, data.names())
        held = len(upright(s.data, data_dir))
        fits = s.sizes[-1] + s.test <= held
        check(fits, "sizes", s.sizes, f"so few that they and {s.test} test images are at most {held}")


STD: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
PLAIN, RIGHT, WRONG = "plain", "right", "wrong"

Sets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and targets, test inputs and targets."""


@dataclass(frozen=True, eq=False)
class MovingTask:
    """A task whose symmetry moves inputs and targets, and the networks that learn it.

    `symmetries` by name include PLAIN, RIGHT and WRONG. `draw(k)` returns training and test sets of draw k, with the
    largest number of training inputs; `foreign` are other inputs. `scores` map (predictions, targets) to a number and
    include `squared`. `net` is trained at finite width.
    """

    settings: MovingSettings
    kernel: PairKernel
    symmetries: Mapping[str, Symmetry]
    positions: tuple[int, ...]
    draw: Callable[[int], Sets]
    foreign: np.ndarray
    scores: Mapping[str, Callable[[np.ndarray, np.ndarray], float]]
    net: FiniteNetwork


def moving_task(s: MovingSettings, data_dir: Path | None) -> MovingTask:
    """Masks, flows, or rotations of images."""
    rng, grid = np.random.default_rng((s.seed, 2**31)), (s.pixels, s.pixels)
    if s.task == "rotations":
        return MovingTask(
            settings=s,
            kernel=pair_kernel(mlp(s.hidden_layers)),
            symmetries=plane_symmetries(s.order),
            positions=(),
            draw=partial(plane_draw, s, data_dir),
            foreign=rng.standard_normal((s.few, s.rings, s.angles, upright(s.data, data_dir).shape[-1])),
            scores={"squared": squared, "wrong": wrong_element},
            net=mlp(s.hidden_layers, s.width, s.order),
        )
    masks = s.task == "masks"
    net = ends_on_positions(s, outputs=1 if masks else 2)
    noise = data.gaussian_noise(s.few, (*grid, 1), seed=s.seed).astype(np.float64)
    return MovingTask(
        settings=s,
        kernel=lambda a, b: np.asarray(net.kernel_field(a, b).ntk),
        symmetries=mask_symmetries() if masks else flow_symmetries(),
        positions=grid,
        draw=partial(mask_draw if masks else flow_draw, s),
        foreign=noise if masks else rng.standard_normal((s.few, *grid, 2)),
        scores={"squared": squared, **({"dice": dice} if masks else {"divergence": divergence})},
        net=net,
    )


def squared(predicted: np.ndarray, target: np.ndarray) -> float:
    """Mean squared error relative to the mean square of the targets."""
    return float(((predicted - target) ** 2).mean() / (target**2).mean())


def dice(predicted: np.ndarray, target: np.ndarray) -> float:
    """2|A ∩ B| / (|A| + |B|) of all predicted and true foreground pixels; 1 if both are empty."""
    a, b = predicted > 0, target > 0
    total = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / total if total else 1.0


def divergence(predicted: np.ndarray, target: np.ndarray) -> float:
    """Root mean square of the predicted change's divergence relative to that of its gradient, on the torus."""
    h, w = predicted.shape[1:3]
    k = [np.fft.fftfreq(n, 1 / n) * (np.abs(np.fft.fftfreq(n, 1 / n)) < n / 2) for n in (h, w)]
    spectrum = np.fft.fft2(predicted, axes=(1, 2))
    along = np.stack(np.meshgrid(*k, indexing="ij"), axis=-1)
    free = np.abs((along * spectrum).sum(axis=-1)) ** 2
    whole = (along**2).sum(axis=-1) * (np.abs(spectrum) ** 2).sum(axis=-1)
    return float(np.sqrt(free.sum() / whole.sum()))


def wrong_element(predicted: np.ndarray, target: np.ndarray) -> float:
    """Share of inputs whose element is not the one with the largest output."""
    return float((predicted.argmax(axis=-1) != target.argmax(axis=-1)).mean())


def ends_on_positions(s: MovingSettings, outputs: int) -> nn.Sequential:
    """A CNN of 3×3 windows, ReLU, and `outputs` numbers at every position; rotations map its windows to windows."""
    hidden = networks.hidden(s.hidden_layers, lambda: nn.Conv(s.channels, (3, 3), padding="circular", **STD))
    return nn.Sequential(*hidden, nn.Dense(outputs, **STD))


_LENGTHS = (1.2, 0.3)  # over which the texture is alike, along and across its stripes, in pixels
_GROUND, _BRIGHT, _NOISE = 0.6, 2.0, 0.2
_RADII = (0.16, 0.32)  # of cells, in sides of the image
_MEMBRANE = 0.35  # share of a cell's area inside its membrane


def scenes(
    count: int, pixels: int, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "n pixels pixels 1"], Float[np.ndarray, "n pixels pixels 1"]]:
    """(images, masks of 0 and 1) of `count` scenes of cells; the same for the same seed.

    One or two ellipses at random places, continued across the borders, with bright membranes, on Gaussian noise that is
    smoothed more along rows of pixels than across; each scene in one of four orientations.
    """
    rng = np.random.default_rng(seed)
    at = np.indices((pixels, pixels))
    masks, bright = np.zeros((2, count, pixels, pixels), bool)
    for mask, membrane in zip(masks, bright, strict=True):
        for _ in range(rng.integers(1, 3)):
            centre, radii, angle = rng.uniform(0, pixels, 2), pixels * rng.uniform(*_RADII, 2), rng.uniform(0, np.pi)
            offset = (at - centre[:, None, None] + pixels / 2) % pixels - pixels / 2
            along = np.cos(angle) * offset[0] + np.sin(angle) * offset[1]
            across = np.cos(angle) * offset[1] - np.sin(angle) * offset[0]
            distance = (along / radii[0]) ** 2 + (across / radii[1]) ** 2
            mask |= distance < 1
            membrane |= (distance < 1) & (distance > _MEMBRANE)
    k, (along, across) = np.fft.fftfreq(pixels), _LENGTHS
    kept = np.exp(-2 * np.pi**2 * ((across * k[:, None]) ** 2 + (along * k[None]) ** 2))
    stripes = np.fft.ifft2(np.fft.fft2(rng.standard_normal((count, pixels, pixels))) * kept).real
    x = _GROUND * (stripes * pixels / np.sqrt((kept**2).sum())) + _BRIGHT * bright
    x += _NOISE * rng.standard_normal(masks.shape)
    quarters = rng.integers(4, size=count)
    rotated = lambda z: np.stack([np.rot90(image, k) for image, k in zip(z, quarters, strict=True)])[..., None]
    return rotated(x), rotated(masks.astype(np.float64))


def mask_draw(s: MovingSettings, k: int) -> Sets:
    """Training and test images of a draw with targets 2·mask − 1, float64; every image standardised by itself."""
    n = s.sizes[-1]
    x, masks = scenes(n + s.test, s.pixels, (s.seed, k))
    x, y = standardise(x).astype(np.float64), 2 * masks - 1
    return x[:n], y[:n], x[n:], y[n:]


def mask_symmetries() -> dict[str, Symmetry]:
    """Nothing, C4, its rotations by 0° and 180°, and inverted contrast."""
    rotations = actions.image_rotations(4)
    sign = actions.channels(groups.cyclic(2), np.array([[[1.0]], [[-1.0]]]))
    return {
        PLAIN: Symmetry("nothing built in", rotations),
        RIGHT: Symmetry("C4", rotations, rotations),
        "subgroup": Symmetry("C2", rotations, rotations, (0, 2)),
        WRONG: Symmetry("inverted contrast", sign, actions.trivial(groups.cyclic(2))),
    }


VISCOSITY = 0.3


def waves(q: int) -> Float[np.ndarray, "waves 2"]:
    """The wave vectors with |k|² = q, one of each pair ±k.

    >>> waves(5).astype(int).tolist()
    [[1, -2], [1, 2], [2, -1], [2, 1]]
    """
    most = int(q**0.5)
    every = [(a, b) for a in range(most + 1) for b in range(-most, most + 1) if a * a + b * b == q]
    return np.array([k for k in every if k[0] > 0 or k[1] > 0], float).reshape(-1, 2)


def flows(
    count: int, s: MovingSettings, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "n pixels pixels 2"], Float[np.ndarray, "n pixels pixels 2"]]:
    """Velocities (rows, columns) of `count` flows on a torus of side 2π, before and after the time of the settings.

    Amplitudes of waves are Gaussian, so that a vortex rotates at about unit speed; streams are uniform over a disc.
    """
    rng, k = np.random.default_rng(seed), waves(s.waves)
    amplitudes = rng.standard_normal((count, len(k))) / np.sqrt(len(k) / 2)
    phases = rng.uniform(0, 2 * np.pi, (count, len(k)))
    angle, speed = rng.uniform(0, 2 * np.pi, count), s.stream * np.sqrt(rng.uniform(0, 1, count))
    U = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    of = partial(velocity, U, k, amplitudes, phases, s.pixels)
    return of(0.0), of(s.time)


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
    return np.asarray(U[:, None, None] + np.exp(-VISCOSITY * q * time) * v)


def flow_draw(s: MovingSettings, k: int) -> Sets:
    """Velocities of a draw, and their changes over `time`."""
    n = s.sizes[-1]
    x, after = flows(n + s.test, s, (s.seed, k))
    return x[:n], (after - x)[:n], x[n:], (after - x)[n:]


def flow_symmetries() -> dict[str, Symmetry]:
    """Nothing, C4, its rotations by 0° and 180°, and C4 that rotates the grid of targets but not their vectors.

    On fields of vectors (N, H, W, 2), components along rows and columns, C4 rotates both grid and vectors.
    """
    still = actions.image_rotations(4)
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])  # a step down the rows becomes one along the columns
    rotated = np.stack([np.linalg.matrix_power(quarter, k) for k in range(4)])
    fields = actions.tensor_product(still, actions.channels(still.group, rotated))
    return {
        PLAIN: Symmetry("nothing built in", fields),
        RIGHT: Symmetry("C4", fields, fields, fibre=2),
        "subgroup": Symmetry("C2", fields, fields, (0, 2), fibre=2),
        WRONG: Symmetry("C4, vectors not rotated", fields, still),
    }


_DIGITS = (2, 3, 4, 5, 7)  # no rotation maps one to another
_FEATURES = 8  # kernels do not depend on it


@lru_cache(maxsize=2)
def upright(name: str, data_dir: Path | None) -> Float[np.ndarray, "n height width channels"]:
    """All upright images of a set (of digits only 2, 3, 4, 5 and 7)."""
    x, y = data.load(name, data_dir).pooled
    return x[np.isin(y, _DIGITS)] if name in ("digits", "mnist") else x


def plane_draw(s: MovingSettings, data_dir: Path | None, k: int) -> Sets:
    """Images on rings, each rotated by a random element of C_n, and the elements as signals on the group."""
    rng, images, n = np.random.default_rng((s.seed, k)), upright(s.data, data_dir), s.sizes[-1]
    chosen = images[rng.permutation(len(images))[: n + s.test]]
    x = standardise(actions.to_rings(chosen, s.rings, s.angles)).astype(np.float64)
    elements = rng.integers(s.order, size=len(x))
    x, y = moved_each(actions.ring_rotations(s.order), elements, x), np.eye(s.order)[elements] - 1 / s.order
    return x[:n], y[:n], x[n:], y[n:]


def mlp(hidden_layers: int, width: int = _FEATURES, outputs: int = 1) -> nn.Sequential:
    """Dense layers on all numbers of an input: rotating both inputs does not change its kernel."""
    hidden = networks.hidden(hidden_layers, lambda: nn.Dense(width, **STD))
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(outputs, **STD))


def pair_kernel(net: nn.Sequential) -> PairKernel:
    """The NTK of a network without positions, in the shape of a kernel on pairs of positions."""
    return lambda a, b: np.asarray(net.kernel(a, b).ntk)[:, None, :, None]


def plane_symmetries(order: int) -> dict[str, Symmetry]:
    """Nothing, C_n on signals on C_n, every second rotation, and rotations counted backwards."""
    rotations, elements = actions.ring_rotations(order), np.arange(order)
    forwards = actions.labels(rotations.group, (elements[:, None] + elements) % order)
    backwards = actions.labels(rotations.group, (elements - elements[:, None]) % order)
    half = tuple(range(0, order, 2))
    return {
        PLAIN: Symmetry("nothing built in", rotations),
        RIGHT: Symmetry(f"C{order}", rotations, forwards, fibre=order),
        "subgroup": Symmetry(f"C{order // 2}", rotations, forwards, half, fibre=order),
        WRONG: Symmetry(f"C{order} counted backwards", rotations, backwards, fibre=order),
    }
