"""How the learning of orientations is shown: errors on C_n and SO(3), equivariance over time, turned images."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.report import Figure, Table, format_number
from equitangents_studies.common.moving_outputs import page as shared
from equitangents_studies.common.moving_outputs.claims import headline
from equitangents_studies.framework.page import Presentation, RunFolder, drawing, section
from equitangents_studies.orientations.study import Results, Settings, plane_draw

_PLANE = {"wrong": "Share of wrong elements", "squared": "Relative squared error"}
_SPACE = {"degrees": "Median error in degrees", "squared": "Relative squared error"}
_IMAGES = 6
_FINE = 8  # straight pieces of each arc


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    s = settings
    both = {f"C{s.order}": results.plane, "SO(3)": results.space}
    plane = (
        f"Upright images of {s.data.replace('_', ' ')} are read along {s.rings} rings of {s.angles} samples, where "
        f"C{s.order} acts exactly, and turned by a random element. The target is a signal on the group: 1 at the "
        "element, 0 elsewhere, less its mean. The element with the largest output is predicted."
    )
    space = (
        f"One template on the sphere ({s.bandlimit**2} harmonics) gets other noise each time, {s.noise:g} of its norm, "
        "and a random rotation. The target is the rotation’s matrix; the rotation that is closest to the output "
        "(Procrustes) is predicted. A guess is off by 126.5° in the mean."
    )
    kernels = (
        f"The plain network is an MLP of {s.hidden_layers} hidden layers, ReLU. With a finite group built in its "
        "kernel is the mean over turned copies of one input, Θ(x, ρ(g)x′) ρ(g), where ρ(g) moves targets; with SO(3) "
        "it is that of a network that lifts the signal to rotations and is read out as a vector."
    )
    sections = [
        section(
            f"Elements of C{s.order}",
            plane,
            kernels,
            *shared.trained_words(results.plane, _PLANE, "images"),
            shared.scores_figure(folder, "turns", results.plane, _PLANE, "images"),
            shared.scores_table(results.plane, _PLANE, "images"),
            shared.times_figure(folder, "turns-times", results.plane),
            *shared.trained_figures(folder, "trained", results.plane),
            _images(settings, folder),
        ),
        section(
            "Elements of SO(3)",
            space,
            shared.scores_figure(folder, "rotations", results.space, _SPACE, "signals"),
            shared.scores_table(results.space, _SPACE, "signals"),
            shared.times_figure(folder, "rotations-times", results.space),
            Table(
                "Error under random rotations after training, relative to the output.",
                ["built in", "error"],
                [[name, format_number(value)] for name, value in results.turned.items()],
            ),
        ),
    ]
    tables = {
        "turns": shared.score_columns({f"C{s.order}": results.plane}),
        "rotations": shared.score_columns({"SO(3)": results.space}),
        "factors": shared.factor_columns(both),
        "times": shared.time_columns(both),
    }
    facts = {
        "Targets": f"signals on C{s.order}, and rotation matrices",
        "Training sets": f"up to {s.sizes[-1]:,} images and {s.space_sizes[-1]:,} signals, {s.draws} draws",
    }
    said = headline(
        {"turns, ": results.plane, "rotations, ": results.space}, "images", "outputs turn with their inputs"
    )
    return Presentation(tables, sections, facts, *said)


def _images(settings: Settings, folder: RunFolder) -> Figure:
    x, y, _, _ = plane_draw(settings, folder.data_dir, 0)
    count = min(_IMAGES, len(x))
    elements = y[:count].argmax(axis=1)
    with drawing.panels(
        folder,
        "images",
        titles=[f"element {g}" for g in elements],
        size=(8.6, 1.9),
        caption=f"Training images of the first draw on their rings, drawn as discs, with the elements of "
        f"C{settings.order} that turned them.",
        alt="Turned images",
        subplot_kw={"projection": "polar"},
    ) as drawn:
        rings, angles = x.shape[1:3]
        edges = np.linspace(0, 2 * np.pi, _FINE * angles + 1) - np.pi / angles
        for drawn_on, image in zip(drawn, x, strict=False):
            axes: Any = drawn_on  # polar ones
            axes.set_theta_zero_location("S")  # angle 0 points down the rows
            axes.pcolormesh(
                edges, np.arange(rings + 1), np.repeat(image[..., 0], _FINE, axis=1), cmap="gray", rasterized=True
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
    return drawn.figure
