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

from equitangents import actions, groups, nn
from equitangents.report import Figure
from equitangents.statistics import exactly
from equitangents_studies import data
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.moving_outputs import page as shared
from equitangents_studies.common.moving_outputs.claims import (
    REVIEW,
    THEIRS,
    headline,
    saving_claims,
    time_claims,
    trained_claim,
)
from equitangents_studies.common.moving_outputs.growing_sets import SHOWN
from equitangents_studies.common.moving_outputs.kernels import (
    STD,
    PairKernel,
    Symmetry,
    ends_on_positions,
    moved_kernels,
)
from equitangents_studies.common.moving_outputs.problem import PLAIN, RIGHT, WRONG, Problem, Score, Sets, Training
from equitangents_studies.common.moving_outputs.results import Learning, check_asked, check_sizes, measure_learning
from equitangents_studies.common.networks import hidden
from equitangents_studies.data.mask_folder import MaskedImages
from equitangents_studies.framework.claims import Claim, exact, theirs
from equitangents_studies.framework.page import Presentation, drawing, section
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents_studies.segmentation.scenes import SHAPES, scenes

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
        *saving_claims(one, "images", "masks turn with images"),
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
            holds="Mean and covariance of augmented ensembles inherit the symmetry from their kernels, pixel by pixel.",
            fails="The kernels do not move with the images: look at windows and padding.",
        ),
        exact(
            "Group convolutions, averaged over orientations at each pixel, have the moved mean of the CNN’s kernel",
            {"NTK": exactly(results.convolutions)},
            measure=f"Largest difference relative to the largest entry, p4 on {_SMALL}×{_SMALL} pixels.",
            at_most=1e-10,
            by=theirs(THEIRS, REVIEW, "equal"),
            holds="The equivariant kernel costs four kernels of the CNN, not fields on the whole group.",
            fails="The moved mean is not the kernel of group convolutions here: compute that one directly.",
        ),
    ]


_TITLES = {"dice": "Dice score", "squared": "Squared error"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    s, learning = settings, results.learning
    source = {
        "cells": "One or two cells with a bright membrane lie on a striped texture and look inside as it does.",
        "digits": "A bright handwritten digit lies on a striped texture.",
    }.get(s.data, "Images and masks are those of a folder, averaged down.")
    turned = " Each image is turned by a random quarter turn, and its mask with it; images are continued periodically."
    kernels = (
        f"The network is a CNN of {s.hidden_layers} hidden layers, 3×3 windows, ReLU, that ends on every pixel; its "
        "infinitely wide kernel joins all pixels of two images. With a group built in it is the mean over moved copies "
        "of one image, Θ(x, ρ(g)x′) ρ(g). The wrong group says that images of inverted contrast have the same mask. "
        f"Every draw has images of its own; targets are ±1, the ridge is {s.ridge:g} of the mean diagonal."
    )
    few = (
        f"Trained are {s.few} images in all orientations with the plain kernel, the same images with the equivariant "
        "kernel, and with the plain kernel alone."
    )
    sections, tables = shared.fields_page(folder, learning, _TITLES, "images", "masks", [source + turned, kernels], few)
    sections.append(section("Images and masks", _masks(settings, results, folder)))
    facts = {
        "Images": f"{s.data if not is_own(s) else 'a folder'}, {s.pixels}×{s.pixels} pixels",
        "Targets": f"up to {s.sizes[-1] * s.pixels**2:,} pixels to train on",
    }
    said = headline({"": learning}, "images", "masks turn with images")
    return Presentation(tables, sections, facts, *said)


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
        caption="Images not trained on, their masks, and what the plain and the C4 kernel predict after "
        f"{learning.sizes[middle]} training images; first draw. Dark is −1, ground, and light is 1.",
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


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings
)
