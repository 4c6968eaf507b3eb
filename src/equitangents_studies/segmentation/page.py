"""How the learning of masks is shown: errors and Dice scores, equivariance over time, images with their masks."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure
from equitangents_studies.common.moving_outputs import page as shared
from equitangents_studies.common.moving_outputs.claims import headline
from equitangents_studies.common.moving_outputs.growing_sets import SHOWN
from equitangents_studies.common.moving_outputs.results import PLAIN, RIGHT
from equitangents_studies.framework.page import Presentation, RunFolder, drawing, section
from equitangents_studies.segmentation.study import Results, Settings, draw, is_own

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
