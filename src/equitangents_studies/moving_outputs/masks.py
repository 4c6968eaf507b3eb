"""Masks from few annotated images: what a symmetry that turns the masks with the images is worth.

Kernels on pairs of pixels: of a CNN that ends on positions, with C4 built in (masks turn with images), with C2 alone,
and with a wrong group, under which images of inverted contrast have the same mask. Cells or digits on textures are
generated; a folder of images and masks can take their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from equitangents import actions, groups, nn
from equitangents.report import Figure
from equitangents.statistics import exactly
from equitangents_studies import data
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.networks import hidden
from equitangents_studies.data.mask_folder import MaskedImages
from equitangents_studies.framework.claims import Claim, exact, theirs
from equitangents_studies.framework.page import Presentation, drawing
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check, presets
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.moving_outputs import page as shared
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    SHOWN,
    STD,
    WRONG,
    PairKernel,
    Problem,
    Score,
    Sets,
    Symmetry,
    Training,
    ends_on_positions,
    moved_kernels,
)
from equitangents_studies.moving_outputs.learning import Learning, check_asked, check_sizes, measure_learning
from equitangents_studies.moving_outputs.page import REVIEW, THEIRS, saving_claims, time_claims, trained_claim

SHAPES = ("cells", "digits")
_LENGTHS = (1.2, 0.3)  # over which the texture is alike, along and across its stripes, in pixels
_GROUND, _BRIGHT, _NOISE = 0.6, 2.0, 0.2
_RADII = (0.16, 0.32)  # of cells, in sides of the image
_MEMBRANE = 0.35  # share of a cell's area inside its membrane
_INK = 0.4


def scenes(
    count: int, pixels: int, shapes: str, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "n pixels pixels 1"], Float[np.ndarray, "n pixels pixels 1"]]:
    """(images, masks of 0 and 1) of `count` scenes; the same for the same seed."""
    rng = np.random.default_rng(seed)
    drawn = [(_cells if shapes == "cells" else _digit)(pixels, rng) for _ in range(count)]
    masks, bright = (np.stack(part) for part in zip(*drawn, strict=True))
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


def _digit(pixels: int, rng: np.random.Generator) -> tuple[Bool[np.ndarray, "p p"], Bool[np.ndarray, "p p"]]:
    """(a handwritten digit, itself) at a random place; its 8 × 8 pixels enlarged by a whole factor, or cut off."""
    known = _digits()
    factor = max(1, pixels // 8)
    digit = np.kron(known[rng.integers(len(known))], np.ones((factor, factor), bool))[:pixels, :pixels]
    mask = np.zeros((pixels, pixels), bool)
    mask[: digit.shape[0], : digit.shape[1]] = digit
    mask = np.roll(mask, tuple(rng.integers(pixels, size=2)), (0, 1))
    return mask, mask


@lru_cache(maxsize=1)
def _digits() -> Bool[np.ndarray, "n 8 8"]:
    return data.digits().pooled[0][..., 0] > _INK


_SMALL = 4  # pixels of images on which group convolutions are computed


@dataclass(frozen=True)
class Settings:
    """`data`: "cells" or "digits", generated, or a folder with images/ and masks/. In each of `draws` draws, training
    sets of `sizes` images and `test` further ones, of `pixels` × `pixels`. `few` images are trained on in all
    orientations, at times in `units`. `ridge`: relative to the kernel's mean diagonal. `members`
    networks of `channels` channels are trained on `trained` images and recorded after `steps`.
    """

    data: str = "cells"
    pixels: int = 12
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    test: int = 12
    draws: int = 12
    hidden_layers: int = 2
    ridge: float = 1e-2
    few: int = 2
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    members: int = 64
    channels: int = 8
    trained: int = 4
    steps: tuple[int, ...] = (1, 10, 100)
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="pixels=16 sizes=2,4,8,16,32 test=24 hidden_layers=3 few=3 channels=16 trained=8 steps=1,10,100,300",
    paper="pixels=24 sizes=4,8,16,32,64 test=50 draws=24 hidden_layers=4 few=4 channels=64 trained=16 members=100 "
    "steps=1,10,100,1000",
)


@dataclass(frozen=True, eq=False)
class Results:
    """Learning of masks, how far group convolutions are from the moved mean of the CNN's kernel, and how far that
    kernel is from moving with its inputs (kinds,), NNGP and NTK.
    """

    learning: Learning
    convolutions: float
    covariance: np.ndarray


def network(settings: Settings) -> nn.Sequential:
    """A CNN that ends on every pixel; turns carry its windows to windows."""
    return ends_on_positions(settings.hidden_layers, settings.channels, outputs=1)


def symmetries(channels: int = 1) -> dict[str, Symmetry]:
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


def is_own(settings: Settings) -> bool:
    """Whether images come from a folder."""
    return settings.data not in SHAPES


@lru_cache(maxsize=1)
def _own(path: str, pixels: int) -> MaskedImages:
    return data.load_mask_folder(path, pixels)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that increase, images enough, and windows that fit."""
    s = settings
    at_least(s, pixels=4, test=1, draws=2, hidden_layers=1, few=1)
    check_sizes("sizes", s.sizes)
    check_asked(s, s.sizes[-1:], "images")
    if is_own(s):
        held, needed = len(_own(s.data, s.pixels)), s.sizes[-1] + s.test
        check(needed <= held, "sizes", s.sizes, f"so few that they and {s.test} test images are at most {held}")


def draw(settings: Settings, k: int) -> Sets:
    """Training and test images of a draw with targets 2·mask − 1, float64; every image standardised by itself."""
    s, count = settings, settings.sizes[-1] + settings.test
    if is_own(s):
        source, rng = _own(s.data, s.pixels), np.random.default_rng((s.seed, k))
        rows, turns = rng.permutation(len(source))[:count], rng.integers(4, size=count)
        turned = lambda z: np.stack([np.rot90(z[i], g) for i, g in zip(rows, turns, strict=True)])
        x, masks = turned(source.images), turned(source.masks)
    else:
        x, masks = scenes(count, s.pixels, s.data, (s.seed, k))
    x, y = standardise(x).astype(np.float64), 2 * masks.astype(np.float64) - 1
    n = s.sizes[-1]
    return x[:n], y[:n], x[n:], y[n:]


def squared(predicted: np.ndarray, target: np.ndarray) -> float:
    """Mean squared error of the pixels."""
    return float(((predicted - target) ** 2).mean())


def dice(predicted: np.ndarray, target: np.ndarray) -> float:
    """2|A ∩ B| / (|A| + |B|) of all predicted and true foreground pixels; 1 if both are empty."""
    a, b = predicted > 0, target > 0
    total = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / total if total else 1.0


def problem(settings: Settings) -> Problem:
    """The task, as kernels see it."""
    s, net = settings, network(settings)
    channels = draw(s, 0)[0].shape[-1] if is_own(s) else 1
    return Problem(
        name="masks",
        kernel=lambda a, b: np.asarray(net.kernel_field(a, b).ntk),
        symmetries=symmetries(channels),
        positions=(s.pixels, s.pixels),
        draw=partial(draw, s),
        foreign=data.gaussian_noise(s.few, (s.pixels, s.pixels, channels), seed=s.seed).astype(np.float64),
        sizes=s.sizes,
        draws=s.draws,
        ridge=s.ridge,
        scores={"squared": Score(squared), "dice": Score(dice, 1)},
        few=s.few,
        units=s.units,
        training=Training(net, s.members, s.trained, s.steps, s.seed),
    )


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Learning, stage by stage, the kernel of group convolutions, and kernels of moved images."""
    learning = measure_learning(problem(settings), folder)
    found = folder.stage("convolutions", "Group convolutions", partial(_convolutions, settings))
    moved = folder.stage("covariance", "Kernels of moved images", partial(_covariance, settings))
    return Results(learning, float(found["difference"]), moved["differences"])


def _covariance(settings: Settings, task: Task) -> Arrays:
    """`unmoved` of the NNGP and the NTK of a few images and as much noise."""
    net, action = network(settings), symmetries()[RIGHT].inputs
    x, _, _, _ = draw(settings, 0)
    few = x[: settings.few]
    off = data.gaussian_noise(settings.few, x.shape[1:], seed=settings.seed).astype(np.float64)
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


def _convolutions(settings: Settings, task: Task) -> Arrays:
    """p4 convolutions averaged over orientations at each pixel, against the moved mean of the CNN's kernel."""
    p4 = groups.wallpaper(4, False, (_SMALL, _SMALL))
    layers = hidden(settings.hidden_layers - 1, lambda: nn.GroupConv(settings.channels, (3, 3), **STD))
    net = nn.Sequential(nn.Lift(p4, settings.channels, (3, 3), **STD), nn.Relu(), *layers, nn.Dense(1, **STD))
    x = np.random.default_rng(settings.seed).standard_normal((2, _SMALL, _SMALL, 1))
    field = np.asarray(net.kernel_field(x).ntk)
    count = _SMALL**2
    place = np.array([np.ravel_multi_index(p4.element(g)[2], (_SMALL, _SMALL)) for g in p4.elements])
    average = np.zeros((count, p4.order))
    average[place, np.arange(p4.order)] = 1 / 4
    pooled = np.einsum("pg,ngmh,qh->npmq", average, field, average).reshape(2 * count, 2 * count)
    plain = network(settings)
    moved = moved_kernels(
        lambda a, b: np.asarray(plain.kernel_field(a, b).ntk), {"": symmetries()[RIGHT]}, x, x, (_SMALL, _SMALL)
    )[""]
    task.step(1, 1)
    return {"difference": np.array(largest_difference(pooled, moved))}


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Images saved, a wrong group, augmentation and architecture at every time, and group convolutions."""
    one = {"": results.learning}
    return [
        *saving_claims(one, "images"),
        *time_claims(one, "images"),
        *trained_claim(results.learning, "images"),
        exact(
            "The kernels move with the images: Θ(ρ(g)x, ρ(g)x′) = ρ(g) Θ(x, x′) ρ(g)ᵀ, on all pairs of pixels",
            {kind: exactly(float(e)) for kind, e in zip(("NNGP", "NTK"), results.covariance, strict=True)},
            measure="Largest difference relative to the largest entry, over all g and pixels, of images of cells and "
            "of noise."
            if settings.data == "cells"
            else "Largest difference relative to the largest entry, over all g and pixels, of images and of noise.",
            at_most=1e-10,
            by=theirs(EMERGENT_EQUIVARIANCE, "arXiv 2403.03103, how kernels transform", "equal"),
        ),
        exact(
            "Group convolutions, averaged over orientations at each pixel, have the moved mean of the CNN’s kernel",
            {"NTK": exactly(results.convolutions)},
            measure=f"Largest difference relative to the largest entry, p4 on {_SMALL}×{_SMALL} pixels.",
            at_most=1e-10,
            by=theirs(THEIRS, REVIEW, "equal"),
        ),
    ]


_TITLES = {"dice": "Dice score", "squared": "Squared error"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    learning = results.learning
    shown, tables = shared.fields_page(folder, learning, _TITLES, "images", "masks")
    shown += [_masks(settings, results, folder)]
    return Presentation(tables, shown)


def _masks(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    learning = results.learning
    middle = (len(learning.sizes) - 1) // 2
    _, _, x, y = draw(settings, 0)
    count = min(SHOWN, len(x), len(learning.shown[PLAIN][middle]))
    rows = (
        ("image", x),
        ("mask", y),
        ("plain", learning.shown[PLAIN][middle]),
        ("C4 built in", learning.shown[RIGHT][middle]),
    )
    with drawing.panels(
        folder,
        "masks",
        titles=[""] * (len(rows) * count),
        rows=len(rows),
        size=(1.5 * count + 1.2, 6.0),
        caption=(
            "Images not trained on, their masks, and what the plain and the C4 kernel predict after the "
            "middle training size; first draw. Dark is −1, ground, and light is 1."
        ),
        alt="Images, masks and predictions",
    ) as drawn:
        for i, (name, shown) in enumerate(rows):
            for j in range(count):
                axes, image = drawn[i * count + j], np.asarray(shown[j])[..., :3]
                low, high = (image.min(), image.max()) if name == "image" else (-1.0, 1.0)
                grey = np.clip((image - low) / (high - low if high > low else 1), 0, 1)
                axes.imshow(grey.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
            drawn[i * count].set_ylabel(name)
    return drawn.figure
